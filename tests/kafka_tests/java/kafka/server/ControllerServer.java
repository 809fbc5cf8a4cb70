package kafka.server;

import fencepost.Acls;
import fencepost.NeedsInternals;
import fencepost.Observer;
import fencepost.StandIns;

import kafka.network.SocketServer;
import kafka.raft.KafkaRaftManager;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.internals.Plugin;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.requests.ApiError;
import org.apache.kafka.controller.Controller;
import org.apache.kafka.controller.ResultOrError;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.metadata.KafkaConfigSchema;
import org.apache.kafka.metadata.KRaftMetadataCache;
import org.apache.kafka.metadata.bootstrap.BootstrapMetadata;
import org.apache.kafka.server.authorizer.Authorizer;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.common.KRaftVersion;

import java.util.Collection;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.CompletableFuture;

import scala.Option;

/** In place of Kafka's class of this name: the controller of a Fencepost node. */
public class ControllerServer {
    private static final long READY_LIMIT_MS = 60_000;
    private final SharedServer sharedServer;
    private final KafkaConfigSchema configSchema;
    private final BootstrapMetadata bootstrapMetadata;
    private final CompletableFuture<Integer> firstBoundPort = new CompletableFuture<>();

    public ControllerServer(SharedServer sharedServer, KafkaConfigSchema configSchema,
            BootstrapMetadata bootstrapMetadata) {
        this.sharedServer = sharedServer;
        this.configSchema = configSchema;
        this.bootstrapMetadata = bootstrapMetadata;
        sharedServer.node().bootstrap(bootstrapMetadata);
    }

    public SharedServer sharedServer() {
        return sharedServer;
    }

    public KafkaConfigSchema configSchema() {
        return configSchema;
    }

    public BootstrapMetadata bootstrapMetadata() {
        return bootstrapMetadata;
    }

    public KafkaConfig config() {
        return sharedServer.controllerConfig();
    }

    public String clusterId() {
        return sharedServer.clusterId();
    }

    public Metrics metrics() {
        throw new NeedsInternals("ControllerServer.metrics");
    }

    public CompletableFuture<Integer> socketServerFirstBoundPortFuture() {
        return firstBoundPort;
    }

    public KafkaRaftManager<ApiMessageAndVersion> raftManager() {
        return sharedServer.raftManager();
    }

    public Option<Plugin<Authorizer>> authorizerPlugin() {
        return Acls.plugin(config().originals(), clusterId(), this::image);
    }

    public SocketServer socketServer() {
        return StandIns.of(SocketServer.class, Map.of(
            "boundPort", call -> sharedServer.node().port(call.getArgument(0, ListenerName.class))));
    }

    public KRaftMetadataCache metadataCache() {
        KRaftMetadataCache cache = new KRaftMetadataCache(config().nodeId(),
            () -> KRaftVersion.LATEST_PRODUCTION);
        cache.setImage(image());
        return cache;
    }

    /** What tests ask of a controller and can be seen in the metadata. */
    public Controller controller() {
        return StandIns.of(Controller.class, Map.of(
            "isActive", call -> Observer.of(clusterId()).leader() == config().nodeId(),
            "waitForReadyBrokers", call -> whenReady(call.getArgument(0)),
            "findAllTopicIds", call -> CompletableFuture.completedFuture(
                new HashMap<>(upToDate().topics().topicNameToIdView())),
            "findTopicIds", call -> CompletableFuture.completedFuture(topicIds(call.getArgument(1)))));
    }

    public void startup() {
        sharedServer.node().start();
        if (!firstBoundPort.isDone()) {
            String listener = config().controllerListenerNames().get(0);
            firstBoundPort.complete(sharedServer.node().port(new ListenerName(listener)));
        }
    }

    public void shutdown() {
        sharedServer.node().stop(BrokerServer.STOP_LIMIT_MS);
    }

    public void awaitShutdown() {
        sharedServer.node().stop(BrokerServer.STOP_LIMIT_MS);
    }

    private MetadataImage image() {
        Observer observer = Observer.of(clusterId());
        return observer.image(observer.committed());
    }

    /** The image once everything is applied that the log has now. */
    private MetadataImage upToDate() {
        Observer observer = Observer.of(clusterId());
        long end = observer.end() - 1;
        long deadline = System.nanoTime() + READY_LIMIT_MS * 1_000_000;
        while (observer.committed() < end && System.nanoTime() < deadline) {
            sleep();
        }
        return image();
    }

    private Map<String, ResultOrError<Uuid>> topicIds(Collection<String> names) {
        Map<String, ResultOrError<Uuid>> found = new HashMap<>();
        MetadataImage image = upToDate();
        for (String name : names) {
            Uuid id = image.topics().topicNameToIdView().get(name);
            found.put(name, id == null
                ? new ResultOrError<>(new ApiError(Errors.UNKNOWN_TOPIC_OR_PARTITION)) : new ResultOrError<>(id));
        }
        return found;
    }

    private CompletableFuture<Void> whenReady(int count) {
        long deadline = System.nanoTime() + READY_LIMIT_MS * 1_000_000;
        while (image().cluster().brokers().values().stream().filter(b -> !b.fenced()).count() < count) {
            if (System.nanoTime() > deadline) {
                return CompletableFuture.failedFuture(new IllegalStateException("brokers are not ready"));
            }
            sleep();
        }
        return CompletableFuture.completedFuture(null);
    }

    private static void sleep() {
        try {
            Thread.sleep(20);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException(error);
        }
    }
}
