package fencepost;

import kafka.server.KafkaConfig;
import kafka.server.SharedServer;

import org.apache.kafka.common.Endpoint;
import org.apache.kafka.common.metadata.FeatureLevelRecord;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.metadata.bootstrap.BootstrapDirectory;
import org.apache.kafka.metadata.bootstrap.BootstrapMetadata;
import org.apache.kafka.metadata.properties.MetaProperties;
import org.apache.kafka.metadata.properties.MetaPropertiesEnsemble;
import org.apache.kafka.metadata.properties.PropertiesUtils;
import org.apache.kafka.server.ProcessRole;
import org.apache.kafka.server.common.ApiMessageAndVersion;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.HttpURLConnection;
import java.net.InetSocketAddress;
import java.net.URL;
import java.nio.channels.ServerSocketChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.Stream;

import scala.jdk.javaapi.CollectionConverters;

/** A Fencepost node with the properties that a test gave to a node of Apache Kafka. */
public final class NodeProcess {
    private static final long START_LIMIT_S = 60;
    private static final int STARTS_MAX = 20;
    private static final String APPLIED = "kafka_server_brokermetadatametrics_last_applied_record_offset ";
    private static final String OBSERVERS = "OBSERVERS";
    private static final String OBSERVER = "User:observer";
    private static final String PERSISTER = "group.share.persister.class.name";

    private final SharedServer shared;
    private final KafkaConfig config;
    private final Map<String, Integer> ports = new LinkedHashMap<>();
    private final Path home;
    private final Secured secured;
    private BootstrapMetadata bootstrap;
    private int metricsPort;
    private int starts;
    private ProcessHandle process;
    private boolean joined;

    public NodeProcess(SharedServer shared, KafkaConfig config) {
        this.shared = shared;
        this.config = config;
        try {
            home = Files.createTempDirectory("fencepost-node-");
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
        secured = new Secured(config, endpoints(), home);
    }

    /** Start it unless it runs, and wait until it takes requests. */
    public synchronized void start() {
        if (isRunning()) {
            return;
        }
        try {
            for (Endpoint endpoint : endpoints()) {
                choosePort(endpoint);
            }
            if (hasObservers() && !ports.containsKey(OBSERVERS)) {
                ports.put(OBSERVERS, freePort());
            }
            writeDirectoryIds();
            writeBootstrap();
            while (!launch()) {
                Thread.sleep(200);
            }
            InetSocketAddress controller = config.processRoles().contains(ProcessRole.ControllerRole)
                ? new InetSocketAddress("127.0.0.1", ports.get(hasObservers() ? OBSERVERS : controllerListener())) : null;
            Observer.of(shared.clusterId()).join(controller);
            joined = true;
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException("interrupted while a node started", error);
        }
    }

    /**
     * Start the process and wait until it takes requests; false if another program has taken one of
     * its ports in between, which may be a connection that is soon gone.
     */
    private boolean launch() throws IOException {
        metricsPort = freePort();
        Path file = Files.writeString(home.resolve("node.properties"), properties());
        Path ready = home.resolve("ready-" + ++starts);
        Path log = home.resolve("node-" + starts + ".log");
        process = Launcher.start(file.toString(), ready.toString(), log.toString(), principals());
        try {
            waitFor(ready, log);
            return true;
        } catch (IllegalStateException error) {
            if (starts < STARTS_MAX && error.getMessage().contains("Address already in use")) {
                return false;
            }
            throw error;
        }
    }

    /** Stop it in order; kill it if that takes longer. */
    public synchronized void stop(long limitMs) {
        if (process != null && process.isAlive()) {
            process.destroy();
            try {
                process.onExit().get(limitMs, TimeUnit.MILLISECONDS);
            } catch (Exception error) {
                process.destroyForcibly();
                process.onExit().join();
            }
        }
        if (joined) {
            joined = false;
            Observer.of(shared.clusterId()).leave();
        }
    }

    /** Whether it runs. */
    public synchronized boolean isRunning() {
        return process != null && process.isAlive();
    }

    /** The port of a listener; 0 as long as it has none. */
    public int port(ListenerName listener) {
        return ports.entrySet().stream()
            .filter(entry -> ListenerName.normalised(entry.getKey()).equals(
                ListenerName.normalised(listener.value())))
            .map(Map.Entry::getValue).findFirst().orElse(0);
    }

    /** The offset of the last metadata record that the broker has applied; -1 if it does not say. */
    public long applied() {
        return metrics().filter(line -> line.startsWith(APPLIED)).findFirst()
            .map(line -> (long) Double.parseDouble(line.substring(APPLIED.length()))).orElse(-1L);
    }

    /** The sum of a metric's series, whatever their labels; 0 of a node that does not run. */
    public double total(String metric) {
        return metrics().filter(line -> line.startsWith(metric + "{"))
            .mapToDouble(line -> Double.parseDouble(line.substring(line.lastIndexOf(' ') + 1))).sum();
    }

    private Stream<String> metrics() {
        if (!isRunning()) {
            return Stream.empty();
        }
        try {
            HttpURLConnection asked = (HttpURLConnection)
                new URL("http://127.0.0.1:" + metricsPort + "/metrics").openConnection();
            asked.setReadTimeout(10_000);
            String text = new String(asked.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
            return text.lines();
        } catch (IOException error) {
            return Stream.empty();
        }
    }

    /**
     * Whether the node has a listener for the observer, which logs in nowhere: a controller whose own
     * listener asks for a login or may refuse.
     */
    private boolean hasObservers() {
        return config.processRoles().contains(ProcessRole.ControllerRole)
            && (hasAuthorizer() || secured.protocols().get(controllerListener()) != SecurityProtocol.PLAINTEXT);
    }

    /** Whether clients log in at a listener of the node. */
    public boolean hasLogins() {
        return secured.protocols().values().stream().anyMatch(one -> one != SecurityProtocol.PLAINTEXT);
    }

    private boolean hasAuthorizer() {
        return !String.valueOf(config.originals().getOrDefault("authorizer.class.name", "")).isEmpty();
    }

    /** Who clients of listeners without a login are, where that is not Kafka's User:ANONYMOUS. */
    private String principals() {
        String ofTest = secured.principals();
        String ofObservers = hasObservers() ? OBSERVERS + "=" + OBSERVER : "";
        return ofTest + (ofTest.isEmpty() || ofObservers.isEmpty() ? "" : ",") + ofObservers;
    }

    private List<Endpoint> endpoints() {
        return new ArrayList<>(CollectionConverters.asJava(config.listeners()));
    }

    private String controllerListener() {
        return config.controllerListenerNames().get(0);
    }

    private void choosePort(Endpoint endpoint) throws IOException {
        if (!ports.containsKey(endpoint.listener())) {
            InetSocketAddress asked = new InetSocketAddress("localhost", endpoint.port());
            try (ServerSocketChannel channel = shared.socketFactory().openServerSocket(
                    endpoint.listener(), asked, 50, -1)) {
                ports.put(endpoint.listener(), channel.socket().getLocalPort());
            }
        }
    }

    private static int freePort() throws IOException {
        try (ServerSocketChannel channel = ServerSocketChannel.open()) {
            channel.bind(new InetSocketAddress("127.0.0.1", 0));
            return channel.socket().getLocalPort();
        }
    }

    /**
     * Kafka's node goes by the directory ids that the test hands to it, whatever the formatter has
     * drawn for the files; ours reads the files.
     */
    private void writeDirectoryIds() throws IOException {
        if (starts > 0) {
            return;
        }
        for (Map.Entry<String, MetaProperties> entry : shared.metaPropsEnsemble().logDirProps().entrySet()) {
            Path file = Path.of(entry.getKey(), MetaPropertiesEnsemble.META_PROPERTIES_NAME);
            if (Files.exists(file) && entry.getValue().directoryId().isPresent()) {
                PropertiesUtils.writePropertiesFile(entry.getValue().toProperties(), file.toString(), false);
            }
        }
    }

    /** What the first controller of the cluster is to write first, as the test has it. */
    public void bootstrap(BootstrapMetadata asked) {
        bootstrap = asked;
    }

    /** Put it in place of what the formatter wrote, without the features that no node of ours has. */
    private void writeBootstrap() throws IOException {
        if (starts > 0 || bootstrap == null) {
            return;
        }
        Map<String, Integer> levels = newestLevels();
        List<ApiMessageAndVersion> records = new ArrayList<>();
        for (ApiMessageAndVersion record : bootstrap.records()) {
            if (record.message() instanceof FeatureLevelRecord feature) {
                Integer newest = levels.get(feature.name());
                if (newest == null) {
                    continue;
                }
                feature = feature.duplicate();
                feature.setFeatureLevel((short) Math.min(newest, feature.featureLevel()));
                record = new ApiMessageAndVersion(feature, record.version());
            }
            records.add(record);
        }
        if (Rules.areOfTest(config.originals())) {
            records.addAll(Rules.records());
        }
        Path directory = Path.of(config.metadataLogDir());
        Files.deleteIfExists(directory.resolve("bootstrap.checkpoint"));
        new BootstrapDirectory(directory.toString())
            .writeBinaryFile(BootstrapMetadata.fromRecords(records, "test"));
    }

    /** The features that Fencepost has, and the newest level of each. */
    private static Map<String, Integer> newestLevels() throws IOException {
        return offered("features").stream().map(line -> line.split("="))
            .collect(Collectors.toMap(pair -> pair[0], pair -> Integer.valueOf(pair[1])));
    }

    /** The lines of a file that says what Fencepost has. */
    private static List<String> offered(String file) throws IOException {
        return Files.readAllLines(Path.of(System.getProperty("fencepost.offered"), file));
    }

    private String properties() throws IOException {
        Set<String> known = new HashSet<>(offered("keys"));
        Map<String, String> values = new TreeMap<>();
        config.originals().forEach((key, value) -> {
            // Without a listener that would use them, Kafka looks at none of the secured ones.
            boolean isIdle = key.startsWith("ssl.") || key.startsWith("sasl.");
            if (known.contains(key) && !isIdle && value != null) {
                values.put(key, Secured.text(value));
            }
        });
        values.putAll(secured.properties());
        values.remove("principal.builder.class");  // the process is told its principals
        if (!values.containsKey("log.dirs") && !values.containsKey("log.dir")) {
            values.put("log.dirs", config.metadataLogDir());
        }
        if (values.getOrDefault(PERSISTER, "default").isEmpty()) {
            // Kafka's then keeps no state of share groups. Ours always does, here with one replica.
            values.remove(PERSISTER);
            values.putIfAbsent("share.coordinator.state.topic.replication.factor", "1");
            values.putIfAbsent("share.coordinator.state.topic.min.isr", "1");
            values.putIfAbsent("share.coordinator.state.topic.num.partitions", "1");
        }
        values.remove("broker.id");
        values.remove("unstable.feature.versions.enable");
        putListeners(values);
        if (values.containsKey("advertised.listeners")) {
            values.put("advertised.listeners", withPorts(values.get("advertised.listeners")));
        }
        if (values.getOrDefault("security.inter.broker.protocol", "").equals("PLAINTEXT")) {
            values.remove("security.inter.broker.protocol");
        }
        values.put("fencepost.metrics.listener", "127.0.0.1:" + metricsPort);
        voters().ifPresent(voters -> values.put("controller.quorum.voters", voters));
        StringBuilder text = new StringBuilder();
        values.forEach((key, value) -> text.append(key).append('=')
            .append(value.replace("\\", "\\\\").replace("\n", "\\n")).append('\n'));
        return text.toString();
    }

    private void putListeners(Map<String, String> values) {
        String listeners = endpoints().stream().map(this::bound).collect(Collectors.joining(","));
        String map = secured.protocols().entrySet().stream()
            .map(entry -> entry.getKey() + ":" + entry.getValue()).collect(Collectors.joining(","));
        if (hasObservers()) {
            listeners += "," + OBSERVERS + "://127.0.0.1:" + ports.get(OBSERVERS);
            map += "," + OBSERVERS + ":PLAINTEXT";
            values.put("controller.listener.names",
                String.join(",", config.controllerListenerNames()) + "," + OBSERVERS);
        }
        if (Rules.areOfTest(values)) {
            values.putAll(Rules.CONFIGS);
        }
        if (hasAuthorizer()) {
            values.merge("super.users", OBSERVER, (users, observer) -> users + ";" + observer);
        }
        values.put("listeners", listeners);
        values.put("listener.security.protocol.map", map);
    }

    private String bound(Endpoint endpoint) {
        return endpoint.listener() + "://localhost:" + ports.get(endpoint.listener());
    }

    private String withPorts(String listeners) {
        List<String> said = new ArrayList<>();
        for (String listener : listeners.split(",")) {
            String name = listener.strip().split(":")[0];
            said.add(listener.strip().endsWith(":0")
                ? listener.strip().replaceFirst(":0$", ":" + ports.get(name)) : listener.strip());
        }
        return String.join(",", said);
    }

    /** The voters with their ports, unless they are in the metadata log. */
    private Optional<String> voters() {
        if (config.quorumConfig().voters().isEmpty()) {
            return Optional.empty();
        }
        if (config.processRoles().contains(ProcessRole.ControllerRole)
                && config.quorumConfig().voters().get(0).endsWith(":0")) {
            return Optional.of(config.nodeId() + "@localhost:" + ports.get(controllerListener()));
        }
        Map<Integer, InetSocketAddress> voters = new HashMap<>(shared.controllerQuorumVotersFuture().join());
        return Optional.of(voters.entrySet().stream()
            .map(entry -> entry.getKey() + "@localhost:" + entry.getValue().getPort())
            .collect(Collectors.joining(",")));
    }

    private void waitFor(Path ready, Path log) throws IOException {
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(START_LIMIT_S);
        while (!Files.exists(ready)) {
            if (!process.isAlive()) {
                String said = Files.readString(log);
                if (said.startsWith("fencepost serve: ")) {
                    throw new NotOffered(said.strip());
                }
                throw new IllegalStateException("the node has ended:\n" + tail(said));
            }
            if (System.nanoTime() > deadline) {
                throw new IllegalStateException("the node does not get ready:\n" + tail(Files.readString(log)));
            }
            try {
                Thread.sleep(10);
            } catch (InterruptedException error) {
                Thread.currentThread().interrupt();
                throw new IllegalStateException("interrupted while a node started", error);
            }
        }
    }

    private static String tail(String text) {
        return text.substring(Math.max(0, text.length() - 3000));
    }
}
