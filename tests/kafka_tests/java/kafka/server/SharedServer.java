package kafka.server;

import fencepost.NeedsInternals;
import fencepost.NodeProcess;
import fencepost.Observer;
import fencepost.StandIns;

import kafka.raft.KafkaRaftManager;

import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.image.loader.MetadataLoader;
import org.apache.kafka.metadata.properties.MetaPropertiesEnsemble;
import org.apache.kafka.raft.LogOffsetMetadata;
import org.apache.kafka.raft.RaftLog;
import org.apache.kafka.server.ServerSocketFactory;
import org.apache.kafka.server.common.ApiMessageAndVersion;

import java.net.InetSocketAddress;
import java.util.Collection;
import java.util.Map;
import java.util.OptionalInt;
import java.util.concurrent.CompletableFuture;

/** In place of Kafka's class of this name: the one process of a node, be it broker, controller or both. */
public class SharedServer {
    private final KafkaConfig config;
    private final MetaPropertiesEnsemble metaPropsEnsemble;
    private final Time time;
    private final Metrics metrics;
    private final CompletableFuture<Map<Integer, InetSocketAddress>> controllerQuorumVotersFuture;
    private final Collection<InetSocketAddress> bootstrapServers;
    private final FaultHandlerFactory faultHandlerFactory;
    private final ServerSocketFactory socketFactory;
    private final NodeProcess node;

    public SharedServer(KafkaConfig config, MetaPropertiesEnsemble metaPropsEnsemble, Time time,
            Metrics metrics,
            CompletableFuture<Map<Integer, InetSocketAddress>> controllerQuorumVotersFuture,
            Collection<InetSocketAddress> bootstrapServers, FaultHandlerFactory faultHandlerFactory,
            ServerSocketFactory socketFactory) {
        this.config = config;
        this.metaPropsEnsemble = metaPropsEnsemble;
        this.time = time;
        this.metrics = metrics;
        this.controllerQuorumVotersFuture = controllerQuorumVotersFuture;
        this.bootstrapServers = bootstrapServers;
        this.faultHandlerFactory = faultHandlerFactory;
        this.socketFactory = socketFactory;
        this.node = new NodeProcess(this, config);
    }

    public KafkaConfig brokerConfig() {
        return config;
    }

    public KafkaConfig controllerConfig() {
        return config;
    }

    public MetaPropertiesEnsemble metaPropsEnsemble() {
        return metaPropsEnsemble;
    }

    public Time time() {
        return time;
    }

    public Metrics metrics() {
        throw new NeedsInternals("SharedServer.metrics");
    }

    public CompletableFuture<Map<Integer, InetSocketAddress>> controllerQuorumVotersFuture() {
        return controllerQuorumVotersFuture;
    }

    public Collection<InetSocketAddress> bootstrapServers() {
        return bootstrapServers;
    }

    public FaultHandlerFactory faultHandlerFactory() {
        return faultHandlerFactory;
    }

    public ServerSocketFactory socketFactory() {
        return socketFactory;
    }

    public String clusterId() {
        return metaPropsEnsemble.clusterId().get();
    }

    public int nodeId() {
        return config.nodeId();
    }

    /** What a broker's tests ask of its loader: how far its metadata are applied. As in Kafka a node
     * that is stopped has none, and tests do not wait for it. */
    public MetadataLoader loader() {
        if (!node.isRunning()) {
            return null;
        }
        return StandIns.of(MetadataLoader.class, Map.of("lastAppliedOffset", call -> node.applied()));
    }

    /** What is asked of it: where the metadata log ends, who leads it. */
    @SuppressWarnings("unchecked")
    public KafkaRaftManager<ApiMessageAndVersion> raftManager() {
        Observer observer = Observer.of(clusterId());
        RaftLog log = StandIns.of(RaftLog.class, Map.of(
            "endOffset", call -> new LogOffsetMetadata(observer.end()),
            "highWatermark", call -> new LogOffsetMetadata(observer.end())));
        return StandIns.of(KafkaRaftManager.class, Map.of(
            "raftLog", call -> log,
            "leaderAndEpoch", call -> new org.apache.kafka.raft.LeaderAndEpoch(
                observer.leader() < 0 ? OptionalInt.empty() : OptionalInt.of(observer.leader()), 0)));
    }

    public void stopForBroker() {
        node.stop(BrokerServer.STOP_LIMIT_MS);
    }

    public void stopForController() {
        node.stop(BrokerServer.STOP_LIMIT_MS);
    }

    NodeProcess node() {
        return node;
    }
}
