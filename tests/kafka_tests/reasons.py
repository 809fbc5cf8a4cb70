"""Why an execution of one of Apache Kafka's tests did not pass: a kind, and a reason in words."""

from __future__ import annotations

import re
from typing import Final

INTERNALS: Final = "internals"
NOT_OFFERED: Final = "not offered"
SKIPPED: Final = "skipped"
FAILED: Final = "failed"
KINDS: Final = {
    INTERNALS: "asks for objects inside of Kafka's process",
    NOT_OFFERED: "needs what Fencepost does not offer",
    SKIPPED: "is switched off in Kafka, or skips itself",
    FAILED: "fails",
}

CLIENT_METRICS: Final = "client metrics (KIP-714)"
LOGGERS: Final = "the loggers of Kafka's classes"
DELETION: Final = "the directory of a deleted partition goes later than the test waits for it"
JKS: Final = "key stores in Java's format (JKS)"
THREADS: Final = "the threads of Kafka's process, by their names"
QUOTAS: Final = "quotas"
SCRAM: Final = "SCRAM credentials"
RANGES: Final = (
    "it compares the message about a config out of range; Kafka 4.4.0 has other words, as ours"
)
LEVELS: Final = "it expects the newest levels of features in Kafka 4.3.1; ours are those of 4.4.0"
APIS: Final = "it counts the APIs of Kafka 4.3.1; ours are those of 4.4.0"
HASH_ORDER: Final = "in the order of Kafka's hash table; ours come in the order of ids"
HALF_A_NODE: Final = "the end of a broker whose process goes on as the only controller"

PATTERNS: Final[tuple[tuple[str, str, str], ...]] = (
    (r"fencepost\.NeedsInternals: ([\w.$]+)", INTERNALS, "{0}"),
    (r"NoSuchMethodError: .*?(\w+Server)\.(\w+)\(", INTERNALS, "{0}.{1}"),
    (r"fencepost\.NotOffered: fencepost serve: ([\w.-]+)=", NOT_OFFERED, "the config {0}"),
    (r"fencepost\.NotOffered: (.+)", NOT_OFFERED, "{0}"),
    (
        r"NoClassDefFoundError: \S*(?:apache/directory|MiniKdc|SaslSetup|oauth2)",
        NOT_OFFERED,
        "SASL",
    ),
    (r"NoSuchFieldException: (\w+)", INTERNALS, "the field {0}"),
    (r"ClassCastException: .*MockitoMock.* cast to class [\w.]*\.(\w+)", INTERNALS, "{0}"),
    (r"Unable to find metric \w+|: metric not found", INTERNALS, "metrics in the JVM"),
    (r"Failed to assert cause of|Expected to halt directly", INTERNALS, "how Kafka's start ends"),
    (r"Invalid broker logger|There is no logger", NOT_OFFERED, LOGGERS),
    (r"listener\.name\.\S*ssl\.", NOT_OFFERED, "TLS"),
    (r"Failed to hard-delete the delete directory", FAILED, DELETION),
    (r"does not support (ALTER_CLIENT_QUOTAS|DESCRIBE_CLIENT_QUOTAS)", NOT_OFFERED, QUOTAS),
    (r"[Rr]esources of type 16 have no configs", NOT_OFFERED, CLIENT_METRICS),
    (r"Client quotas are not offered", NOT_OFFERED, QUOTAS),
    (r"this cluster stores no credentials", NOT_OFFERED, SCRAM),
)
"""What an error says, the kind that it makes, and the reason."""


KNOWN: Final[dict[str, tuple[str, str]]] = {
    "ApiVersionsRequestTest": (NOT_OFFERED, "all of Kafka's APIs and features"),
    "ConfigCommandIntegrationTest#testAlterStreamsGroupHeartbeatInterval": (FAILED, RANGES),
    "ConfigCommandIntegrationTest#testAlterStreamsGroupNumOfStandbyReplicas": (FAILED, RANGES),
    "ConfigCommandIntegrationTest#testAlterStreamsGroupSessionTimeout": (FAILED, RANGES),
    "ConfigCommandIntegrationTest#testDescribeNonExistentConfigResource": (
        NOT_OFFERED,
        CLIENT_METRICS,
    ),
    "ConfigCommandIntegrationTest#testNullStatusOnKraftCommandAlterClientMetrics": (
        NOT_OFFERED,
        CLIENT_METRICS,
    ),
    "ConsumerBounceTest#testClassicConsumerConsumptionWithBrokerFailures": (
        FAILED,
        "it allows unclean elections with sessions of 300 ms, and loses commits on a busy machine",
    ),
    "BrokerMetricNamesTest": (INTERNALS, "metrics in the JVM"),
    "ConsumerGroupDescribeRequestTest#testConsumerGroupDescribeWithNewGroupCoordinator": (
        FAILED,
        f"it compares the members {HASH_ORDER}",
    ),
    "DescribeFeaturesTest#testUnstableApiVersions": (FAILED, LEVELS),
    "DynamicBrokerReconfigurationTest#testConfigDescribeUsingAdminClient": (NOT_OFFERED, JKS),
    "DynamicBrokerReconfigurationTest#testKeyStoreAlter": (NOT_OFFERED, JKS),
    "DynamicBrokerReconfigurationTest#testLogCleanerConfig": (INTERNALS, THREADS),
    "DynamicBrokerReconfigurationTest#testMetricsReporterUpdate": (
        INTERNALS,
        "Java classes in the broker (metric.reporters)",
    ),
    "DynamicBrokerReconfigurationTest#testReconfigureRemovedListener": (
        INTERNALS,
        "the acceptors of Kafka's listeners, counted",
    ),
    "DynamicBrokerReconfigurationTest"
    "#testServersCanStartWithInvalidStaticConfigsAndValidDynamicConfigs": (NOT_OFFERED, JKS),
    "DynamicBrokerReconfigurationTest#testThreadPoolResize": (INTERNALS, THREADS),
    "DynamicBrokerReconfigurationTest#testTrustStoreAlter": (NOT_OFFERED, JKS),
    "DynamicBrokerReconfigurationTest#testUpdatesUsingConfigProvider": (
        NOT_OFFERED,
        "config providers",
    ),
    "EndToEndClusterIdTest": (INTERNALS, "Java classes in the broker (metric.reporters)"),
    "FeatureCommandTest#testDescribeWithKRaft": (FAILED, LEVELS),
    "FeatureCommandTest#testDescribeWithKRaftAndBootstrapControllers": (FAILED, LEVELS),
    "FeatureCommandTest#testDescribeWithUnstableApiVersions": (FAILED, LEVELS),
    "FeatureCommandTest#testDescribeWithUnstableFeatureVersions": (FAILED, LEVELS),
    "FeatureCommandTest#testDowngradeMetadataVersionWithKRaft": (FAILED, LEVELS),
    "FetchRequestTest#testBrokerRespectsPartitionsOrderAndSizeLimits": (
        FAILED,
        "Kafka fills what a partition may have with the first bytes of a batch that does not fit,"
        " ours sends whole batches",
    ),
    "KRaftClusterTest#testSetLog4jConfigurations": (NOT_OFFERED, LOGGERS),
    "KafkaMetricsReporterTest": (INTERNALS, "Java classes in the broker (metric.reporters)"),
    "MetricsTest": (INTERNALS, "metrics in the JVM"),
    "ListGroupsRequestTest#testListGroupsWithNewConsumerGroupProtocol": (
        FAILED,
        f"it compares the groups {HASH_ORDER}",
    ),
    "PlaintextAdminIntegrationTest#testDescribeAndAlterConfigs": (
        FAILED,
        "it counts a broker's configs, and ours has some that Kafka has not (fencepost.* and"
        " log.flush.before.ack); it has all of Kafka's",
    ),
    "PlaintextAdminIntegrationTest#testIncrementalAlterAndDescribeGroupConfigs": (FAILED, RANGES),
    "PlaintextAdminIntegrationTest#testDescribeConfigsForLog4jLogLevels": (NOT_OFFERED, LOGGERS),
    "PlaintextAdminIntegrationTest#testIncrementalAlterConfigsForLog4jLogLevels": (
        NOT_OFFERED,
        LOGGERS,
    ),
    "PlaintextAdminIntegrationTest"
    "#testIncrementalAlterConfigsForLog4jLogLevelsDoesNotWorkWithInvalidConfigs": (
        NOT_OFFERED,
        LOGGERS,
    ),
    "ProduceRequestTest#testCorruptLz4ProduceRequest": (INTERNALS, "metrics in the JVM"),
    "BrokerApiVersionsCommandTest#testBrokerApiVersionsCommandOutput": (
        NOT_OFFERED,
        "all of Kafka's APIs, SaslHandshake first",
    ),
    "ClientTelemetryTest#testClientInstanceId": (NOT_OFFERED, CLIENT_METRICS),
    "ClientTelemetryTest#testIntervalMsParser": (NOT_OFFERED, CLIENT_METRICS),
    "ProducerFailureHandlingTest#testCannotSendToInternalTopic": (
        FAILED,
        "it waits for the deletion of a topic that it has just created, which ends well only where"
        " it looks before the topic is there",
    ),
    "SaslApiVersionsRequestTest#testApiVersionsRequestBeforeSaslHandshakeRequest": (
        FAILED,
        APIS,
    ),
    "SaslApiVersionsRequestTest#testApiVersionsRequestWithUnsupportedVersion": (FAILED, APIS),
    "StreamsGroupHeartbeatRequestTest#testFencedMemberCanRejoinWithEpochZero": (
        FAILED,
        "it compares a whole answer with one that has no interval of task offsets; Kafka 4.4 tells"
        " that interval, and ours does",
    ),
    "TopicCommandTest#testDescribeUnavailablePartitions#2": (INTERNALS, HALF_A_NODE),
    "TopicCommandTest#testDescribeUnderMinIsrPartitions#2": (INTERNALS, HALF_A_NODE),
    "TopicCommandTest#testDescribeUnderReplicatedPartitions#2": (INTERNALS, HALF_A_NODE),
}
"""What no error says by itself: `Class`, `Class#method` or `Class#method#number`, no packages."""

LETTERS: Final = 160


def of(name: str, execution: str, status: str, error: str) -> tuple[str, str]:
    """The kind and the reason of what did not pass."""
    simple, method = name.rpartition(".")[2], execution.partition("#")[0]
    for key in (f"{simple}#{execution}", f"{simple}#{method}", simple):
        if key in KNOWN:
            return KNOWN[key]
    for pattern, kind, reason in PATTERNS:
        found = re.search(pattern, error)
        if found is not None:
            return kind, reason.format(*found.groups())
    if status in ("skipped", "aborted"):
        return SKIPPED, _first_line(error)
    return FAILED, _first_line(error)


def _first_line(error: str) -> str:
    """What an error says first, without its class's package."""
    line = error.strip().split("\n", 1)[0]
    return re.sub(r"\b(?:[a-z]\w*\.)+(?=[A-Z])", "", line)[:LETTERS]
