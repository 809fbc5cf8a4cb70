package kafka.server;

import fencepost.Acls;
import fencepost.NeedsInternals;
import fencepost.Observer;
import fencepost.SocketMetrics;
import fencepost.StandIns;
import fencepost.Users;

import kafka.cluster.Partition;
import kafka.log.LogManager;
import kafka.network.SocketServer;
import kafka.raft.KafkaRaftManager;

import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.internals.Plugin;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.security.token.delegation.internals.DelegationTokenCache;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.coordinator.group.Group;
import org.apache.kafka.coordinator.group.GroupCoordinator;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.metadata.BrokerState;
import org.apache.kafka.metadata.DelegationTokenData;
import org.apache.kafka.metadata.KRaftMetadataCache;
import org.apache.kafka.server.BrokerLifecycleManager;
import org.apache.kafka.server.authorizer.Authorizer;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.common.GroupVersion;
import org.apache.kafka.server.common.KRaftVersion;
import org.apache.kafka.storage.internals.log.UnifiedLog;

import java.io.File;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.function.Function;

import org.mockito.invocation.InvocationOnMock;

import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/** In place of Kafka's class of this name: the broker of a Fencepost node. */
public class BrokerServer implements KafkaBroker {
    static final long STOP_LIMIT_MS = 20_000;
    private final SharedServer sharedServer;
    private final KRaftMetadataCache cache;
    private volatile boolean isStarted;
    private volatile boolean wasStopped;
    private String logIdent;

    public BrokerServer(SharedServer sharedServer) {
        this.sharedServer = sharedServer;
        cache = new KRaftMetadataCache(config().brokerId(), () -> KRaftVersion.LATEST_PRODUCTION);
    }

    public SharedServer sharedServer() {
        return sharedServer;
    }

    /** What the test has asked for and, over it, what has been configured while the broker runs. */
    @Override
    public KafkaConfig config() {
        KafkaConfig asked = sharedServer.brokerConfig();
        if (!isStarted) {
            return asked;
        }
        Map<String, Object> values = new HashMap<>(asked.originals());
        for (String name : List.of("", String.valueOf(asked.brokerId()))) {
            values.putAll(metadataCache().currentImage().configs()
                .configMapForResource(new ConfigResource(ConfigResource.Type.BROKER, name)));
        }
        return values.equals(asked.originals()) ? asked : new KafkaConfig(values, false);
    }

    @Override
    public String clusterId() {
        return sharedServer.clusterId();
    }

    @Override
    public void startup() {
        sharedServer.node().start();
        replicaManager().logManager();  // first stand-ins take their time: here, not in a test
        SocketMetrics.add(sharedServer.node());
        isStarted = true;
    }

    @Override
    public void shutdown() {
        shutdown(Duration.ofMillis(STOP_LIMIT_MS));
    }

    @Override
    public void shutdown(Duration limit) {
        wasStopped = isStarted || wasStopped;
        isStarted = false;
        SocketMetrics.remove(sharedServer.node());
        sharedServer.node().stop(Math.min(limit.toMillis(), STOP_LIMIT_MS));
    }

    @Override
    public boolean isShutdown() {
        return !sharedServer.node().isRunning();
    }

    @Override
    public void awaitShutdown() {
        shutdown();
    }

    @Override
    public BrokerState brokerState() {
        if (isStarted && sharedServer.node().isRunning()) {
            return BrokerState.RUNNING;
        }
        return wasStopped ? BrokerState.SHUTTING_DOWN : BrokerState.NOT_RUNNING;  // as Kafka leaves it
    }

    @Override
    public int boundPort(ListenerName listener) {
        return sharedServer.node().port(listener);
    }

    @Override
    public SocketServer socketServer() {
        return StandIns.of(SocketServer.class, Map.of(
            "boundPort", call -> boundPort(call.getArgument(0, ListenerName.class))));
    }

    /** What the broker knows: the metadata as they were at the offset that it has applied. */
    @Override
    public KRaftMetadataCache metadataCache() {
        Observer observer = Observer.of(clusterId());
        if (observer.committed() > cache.currentImage().offset()) {
            MetadataImage image = observer.image(sharedServer.node().applied());
            if (image.offset() > cache.currentImage().offset()) {
                cache.setImage(image);
            }
        }
        return cache;
    }

    @Override
    public KafkaApis dataPlaneRequestProcessor() {
        return StandIns.of(KafkaApis.class, Map.of(
            "metadataCache", call -> metadataCache(), "isConsumerGroupProtocolEnabled", call -> hasConsumerGroups(),
            "authorizerPlugin", call -> authorizerPlugin()));
    }

    private boolean hasConsumerGroups() {
        return config().groupCoordinatorRebalanceProtocols().contains(Group.GroupType.CONSUMER)
            && metadataCache().currentImage().features().finalizedVersions()
                .getOrDefault(GroupVersion.FEATURE_NAME, (short) 0) > 0;
    }

    @Override
    public Option<Plugin<Authorizer>> authorizerPlugin() {
        return Acls.plugin(config().originals(), clusterId(), () -> metadataCache().currentImage());
    }

    public KafkaRaftManager<ApiMessageAndVersion> raftManager() {
        return sharedServer.raftManager();
    }

    /** Whether a replica is there is seen in the log directories; what it holds is not. */
    @Override
    public ReplicaManager replicaManager() {
        return StandIns.of(ReplicaManager.class, Map.of(
            "onlinePartition", call -> whereThere(call.getArgument(0), Partition.class, Map.of(
                "isLeader", asked -> isLeader(call.getArgument(0)),
                "leaderIdIfLocal", asked -> isLeader(call.getArgument(0))
                    ? Option.apply(config().brokerId()) : Option.empty())),
            "logManager", call -> logManager()));
    }

    @Override
    public LogManager logManager() {
        return StandIns.of(LogManager.class, Map.of(
            "getLog", call -> whereThere(call.getArgument(0), UnifiedLog.class, Map.of()),
            "getLog$default$2", call -> false,
            "liveLogDirs", call -> CollectionConverters.asScala(
                config().logDirs().stream().map(File::new).toList()).toSeq()));
    }

    private boolean isLeader(TopicPartition partition) {
        return metadataCache().getLeaderAndIsr(partition.topic(), partition.partition())
            .map(state -> state.leader() == config().brokerId()).orElse(false);
    }

    private <T> Option<T> whereThere(TopicPartition partition, Class<T> type,
            Map<String, Function<InvocationOnMock, Object>> answers) {
        boolean isThere = config().logDirs().stream()
            .anyMatch(directory -> new File(directory, partition.toString()).isDirectory());
        return isThere ? Option.apply(StandIns.of(type, answers)) : Option.empty();
    }

    @Override
    public KafkaRequestHandlerPool dataPlaneRequestHandlerPool() {
        throw internals("dataPlaneRequestHandlerPool");
    }

    @Override
    public org.apache.kafka.server.util.KafkaScheduler kafkaScheduler() {
        throw internals("kafkaScheduler");
    }

    @Override
    public org.apache.kafka.server.metrics.KafkaYammerMetrics kafkaYammerMetrics() {
        throw internals("kafkaYammerMetrics");
    }

    @Override
    public org.apache.kafka.storage.internals.log.LogDirFailureChannel logDirFailureChannel() {
        throw internals("logDirFailureChannel");
    }

    @Override
    public Option<org.apache.kafka.server.log.remote.storage.RemoteLogManager> remoteLogManagerOpt() {
        throw internals("remoteLogManagerOpt");
    }

    @Override
    public org.apache.kafka.common.metrics.Metrics metrics() {
        if (!sharedServer.node().hasLogins()) {
            throw internals("metrics");
        }
        return SocketMetrics.of(sharedServer.node());
    }

    @Override
    public QuotaFactory.QuotaManagers quotaManagers() {
        throw internals("quotaManagers");
    }

    /** What harnesses ask of it to create its topic, and where a group is. */
    @Override
    public GroupCoordinator groupCoordinator() {
        return StandIns.of(GroupCoordinator.class, Map.of(
            "groupMetadataTopicConfigs", call -> groupMetadataTopicConfigs(),
            "partitionFor", call -> Utils.abs(call.getArgument(0).hashCode())
                % config().groupCoordinatorConfig().offsetsTopicPartitions()));
    }

    private Properties groupMetadataTopicConfigs() {
        Properties configs = new Properties();
        configs.put("cleanup.policy", "compact");
        configs.put("compression.type", "producer");
        configs.put("segment.bytes",
            String.valueOf(config().groupCoordinatorConfig().offsetsTopicSegmentBytes()));
        return configs;
    }

    @Override
    public org.apache.kafka.storage.log.metrics.BrokerTopicStats brokerTopicStats() {
        throw internals("brokerTopicStats");
    }

    @Override
    public org.apache.kafka.security.CredentialProvider credentialProvider() {
        return Users.of(() -> metadataCache().currentImage());
    }

    @Override
    public org.apache.kafka.server.common.NodeToControllerChannelManager clientToControllerChannelManager() {
        throw internals("clientToControllerChannelManager");
    }

    @Override
    public DelegationTokenCache tokenCache() {
        return StandIns.of(DelegationTokenCache.class, Map.of(
            "tokens", call -> metadataCache().currentImage().delegationTokens().tokens().values().stream()
                .map(DelegationTokenData::tokenInformation).toList()));
    }

    @Override
    public BrokerLifecycleManager lifecycleManager() {
        return StandIns.of(BrokerLifecycleManager.class, Map.of(
            "state", call -> brokerState(),
            "brokerEpoch", call -> metadataCache().currentImage().cluster().broker(config().brokerId()).epoch()));
    }

    @Override
    public org.apache.kafka.server.metrics.KafkaMetricsGroup kafka$server$KafkaBroker$$metricsGroup() {
        throw internals("kafka$server$KafkaBroker$$metricsGroup");
    }

    @Override
    public org.apache.kafka.server.metrics.LinuxIoMetricsCollector kafka$server$KafkaBroker$$linuxIoMetricsCollector() {
        throw internals("kafka$server$KafkaBroker$$linuxIoMetricsCollector");
    }

    public ForwardingManager forwardingManager() {
        throw internals("forwardingManager");
    }

    public AlterPartitionManager alterPartitionManager() {
        throw internals("alterPartitionManager");
    }

    public AutoTopicCreationManager autoTopicCreationManager() {
        throw internals("autoTopicCreationManager");
    }

    public kafka.coordinator.transaction.TransactionCoordinator transactionCoordinator() {
        throw internals("transactionCoordinator");
    }

    public org.apache.kafka.coordinator.share.ShareCoordinator shareCoordinator() {
        throw internals("shareCoordinator");
    }

    public kafka.server.metadata.ClientQuotaMetadataManager clientQuotaMetadataManager() {
        throw internals("clientQuotaMetadataManager");
    }

    public kafka.server.metadata.BrokerMetadataPublisher brokerMetadataPublisher() {
        throw internals("brokerMetadataPublisher");
    }

    public org.apache.kafka.server.BrokerFeatures brokerFeatures() {
        throw internals("brokerFeatures");
    }

    public org.apache.kafka.server.ClientMetricsManager clientMetricsManager() {
        throw internals("clientMetricsManager");
    }

    public kafka.server.share.SharePartitionManager sharePartitionManager() {
        throw internals("sharePartitionManager");
    }

    public org.apache.kafka.coordinator.group.GroupConfigManager groupConfigManager() {
        throw internals("groupConfigManager");
    }

    @Override
    public int NumFetchSessionCacheShards() {
        throw internals("NumFetchSessionCacheShards");
    }

    @Override
    public void kafka$server$KafkaBroker$_setter_$NumFetchSessionCacheShards_$eq(int shards) { }

    @Override
    public void kafka$server$KafkaBroker$_setter_$kafka$server$KafkaBroker$$metricsGroup_$eq(
            org.apache.kafka.server.metrics.KafkaMetricsGroup group) { }

    @Override
    public void kafka$server$KafkaBroker$_setter_$kafka$server$KafkaBroker$$linuxIoMetricsCollector_$eq(
            org.apache.kafka.server.metrics.LinuxIoMetricsCollector collector) { }

    @Override
    public String logIdent() {
        return logIdent;
    }

    @Override
    public void logIdent_$eq(String ident) {
        logIdent = ident;
    }

    private static NeedsInternals internals(String what) {
        return new NeedsInternals("BrokerServer." + what);
    }
}
