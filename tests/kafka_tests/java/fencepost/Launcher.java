package fencepost;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.io.Writer;
import java.nio.charset.StandardCharsets;

/**
 * The process that starts nodes. It is Python with the node's modules loaded, and forks: a test
 * class starts hundreds of nodes, and loading modules would be most of what it does. When this
 * JVM ends, its standard input ends, and it kills what still runs.
 */
final class Launcher {
    private static Launcher only;
    private final Writer orders;
    private final BufferedReader answers;

    private Launcher() throws IOException {
        Process process = new ProcessBuilder(System.getProperty("fencepost.python"), "-m",
            "tests.kafka_tests.launcher").redirectError(ProcessBuilder.Redirect.INHERIT).start();
        orders = process.outputWriter(StandardCharsets.UTF_8);
        answers = process.inputReader(StandardCharsets.UTF_8);
    }

    /** Start a node; its process. Clients of some listeners are these principals, without a login. */
    static synchronized ProcessHandle start(String config, String ready, String log, String principals) {
        try {
            if (only == null) {
                only = new Launcher();
            }
            only.orders.write(String.join("\t", config, ready, log, principals) + "\n");
            only.orders.flush();
            String pid = only.answers.readLine();
            if (pid == null) {
                throw new IOException("the launcher of nodes has ended");
            }
            return ProcessHandle.of(Long.parseLong(pid)).orElseThrow(
                () -> new IOException("the node ended at once; see " + log));
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }
}
