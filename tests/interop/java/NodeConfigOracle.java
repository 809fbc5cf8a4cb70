import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.StringReader;
import java.nio.charset.StandardCharsets;
import java.util.Properties;
import kafka.server.KafkaConfig;

/**
 * Whether Apache Kafka's node starts with a configuration.
 *
 * <p>A line of standard input has the entries of one, parted by tabs; it is answered by a line:
 * {@code OK}, or {@code REFUSED} and what Kafka says.
 */
public final class NodeConfigOracle {
    private NodeConfigOracle() {}

    public static void main(String[] arguments) throws Exception {
        BufferedReader in =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            Properties entries = new Properties();
            entries.load(new StringReader(line.replace('\t', '\n')));
            System.out.println(answer(entries));
        }
    }

    private static String answer(Properties entries) {
        try {
            new KafkaConfig(entries, false);
            return "OK";
        } catch (RuntimeException refused) {
            return "REFUSED " + String.valueOf(refused.getMessage()).replace('\n', ' ');
        }
    }
}
