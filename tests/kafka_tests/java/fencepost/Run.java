package fencepost;

import com.fasterxml.jackson.databind.ObjectMapper;

import org.junit.platform.engine.FilterResult;
import org.junit.platform.engine.TestExecutionResult;
import org.junit.platform.engine.discovery.DiscoverySelectors;
import org.junit.platform.engine.support.descriptor.MethodSource;
import org.junit.platform.launcher.LauncherDiscoveryRequest;
import org.junit.platform.launcher.PostDiscoveryFilter;
import org.junit.platform.launcher.TestExecutionListener;
import org.junit.platform.launcher.TestIdentifier;
import org.junit.platform.launcher.core.LauncherDiscoveryRequestBuilder;
import org.junit.platform.launcher.core.LauncherFactory;

import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.io.UncheckedIOException;
import java.lang.reflect.Modifier;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Runs classes of tests and writes a line of JSON when a test begins and when it ends, into a file
 * for each class, so that what is known survives a JVM that has to be killed. Arguments: the
 * directory of these files; a file of the plan, with a line for each class and for each
 * class#method that is left out.
 */
public final class Run implements TestExecutionListener {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Pattern CLASS = Pattern.compile("\\[class:([^\\]]+)\\](.*)");
    private final Path directory;
    private final Map<String, Long> begun = new HashMap<>();

    private Run(Path directory) {
        this.directory = directory;
    }

    public static void main(String[] words) throws IOException {
        List<String> plan = Files.readAllLines(Path.of(words[1]));
        PostDiscoveryFilter others = descriptor -> FilterResult.includedIf(
            descriptor.getSource().filter(MethodSource.class::isInstance).map(MethodSource.class::cast)
                .map(source -> !plan.contains(classOf(descriptor.getUniqueId().toString())
                    + "#" + source.getMethodName())).orElse(true));
        Run listener = new Run(Path.of(words[0]));
        LauncherDiscoveryRequest request = LauncherDiscoveryRequestBuilder.request()
            .selectors(plan.stream().filter(line -> !line.contains("#"))
                .filter(listener::canRun).map(DiscoverySelectors::selectClass).toList())
            .filters(others)
            .configurationParameter("junit.jupiter.execution.timeout.testable.method.default",
                System.getProperty("fencepost.test.limit", "150 s"))
            .build();
        LauncherFactory.create().execute(request, listener);
        System.exit(0);  // whatever threads a test has left
    }

    /** Whether a class has tests and can be loaded; if not, that is all that becomes of it. */
    private boolean canRun(String name) {
        try {
            Class<?> type = Class.forName(name, false, Run.class.getClassLoader());
            if (!Modifier.isAbstract(type.getModifiers())) {
                for (Class<?> one = type; one != null; one = one.getSuperclass()) {
                    one.getDeclaredMethods();
                }
                return true;
            }
        } catch (ClassNotFoundException | LinkageError error) {
            write(name, Map.of("id", name, "name", name, "status", "failed", "error", stack(error)));
        }
        write(name, Map.of("id", name, "name", name, "status", "end"));
        return false;
    }

    private static String classOf(String id) {
        Matcher found = CLASS.matcher(id);
        return found.find() ? found.group(1) : "";
    }

    @Override
    public void executionStarted(TestIdentifier test) {
        begun.put(test.getUniqueId(), System.nanoTime());
        if (test.isTest()) {
            write(test, "began", null);
        }
    }

    @Override
    public void executionSkipped(TestIdentifier test, String reason) {
        write(test, "skipped", reason);
    }

    @Override
    public void executionFinished(TestIdentifier test, TestExecutionResult result) {
        boolean isClass = test.getUniqueId().endsWith("[class:" + classOf(test.getUniqueId()) + "]");
        if (!test.isTest() && !isClass && result.getStatus() == TestExecutionResult.Status.SUCCESSFUL) {
            return;
        }
        if (isClass && result.getStatus() == TestExecutionResult.Status.SUCCESSFUL) {
            write(test, "end", null);
            return;
        }
        String error = result.getThrowable().map(Run::stack).orElse(null);
        write(test, result.getStatus().name().toLowerCase(java.util.Locale.ROOT), error);
        if (isClass) {
            write(test, "end", null);
        }
    }

    private void write(TestIdentifier test, String status, String error) {
        if (classOf(test.getUniqueId()).isEmpty()) {
            return;
        }
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("id", test.getUniqueId());
        line.put("name", test.getDisplayName());
        test.getSource().filter(MethodSource.class::isInstance)
            .ifPresent(source -> line.put("method", ((MethodSource) source).getMethodName()));
        line.put("status", status);
        if (error != null) {
            line.put("error", error);
        }
        if (begun.containsKey(test.getUniqueId())) {
            line.put("took_s", (System.nanoTime() - begun.get(test.getUniqueId())) / 1_000_000 / 1000.0);
        }
        write(classOf(test.getUniqueId()), line);
    }

    private void write(String name, Map<String, Object> line) {
        try {
            Files.writeString(directory.resolve(name + ".jsonl"), JSON.writeValueAsString(line) + "\n",
                StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        } catch (IOException failure) {
            throw new UncheckedIOException(failure);
        }
    }

    private static String stack(Throwable error) {
        StringWriter text = new StringWriter();
        error.printStackTrace(new PrintWriter(text));
        return text.toString();
    }
}
