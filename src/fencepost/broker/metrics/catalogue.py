"""Every metric that a node tells, by name.

Names, labels and kinds of what Kafka has are those that Prometheus' JMX exporter gives Kafka's
beans under the rules that its example for Kafka and Strimzi's share; a test holds them against what
Apache Kafka 4.3 tells under these rules. Dashboards and alerts that were made for Kafka find here
what they look for. What Kafka does not tell begins with `fencepost_`.

A histogram of Kafka is a summary here: quantiles under the same label, with a count and, which the
JMX exporter does not give, a sum.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple


class Kind(Enum):
    """What a metric is, in Prometheus' words."""

    COUNTER = "counter"
    GAUGE = "gauge"
    SUMMARY = "summary"


class MetricDef(NamedTuple):
    """One metric."""

    name: str
    kind: Kind
    doc: str
    labels: tuple[str, ...] = ()
    has_total: bool = False
    """Whether there is a value without labels, too."""


_G, _C, _S = Kind.GAUGE, Kind.COUNTER, Kind.SUMMARY
_TOPIC: Final = ("topic",)
_PARTITION: Final = ("topic", "partition")
_REQUEST: Final = ("request",)
_LISTENER: Final = ("listener", "networkProcessor")

REPLICAS: Final = "kafka_server_replicamanager_"
_REPLICAS = (
    MetricDef(f"{REPLICAS}partitioncount", _G, "Partitions on this broker."),
    MetricDef(f"{REPLICAS}leadercount", _G, "Partitions that this broker leads."),
    MetricDef(
        f"{REPLICAS}underreplicatedpartitions", _G, "Led partitions with replicas out of sync."
    ),
    MetricDef(
        f"{REPLICAS}underminisrpartitioncount",
        _G,
        "Led partitions with fewer in-sync replicas than min.insync.replicas.",
    ),
    MetricDef(
        f"{REPLICAS}atminisrpartitioncount",
        _G,
        "Led partitions with as many in-sync replicas as min.insync.replicas.",
    ),
    MetricDef(
        f"{REPLICAS}offlinereplicacount",
        _G,
        "Replicas without a log that works: its directory is offline, gone, or one of two.",
    ),
    MetricDef(
        "fencepost_replicas_halted",
        _G,
        "Replicas that are halted until an operator acts, by cause; /ready says which and why.",
        ("cause",),
    ),
    MetricDef(f"{REPLICAS}reassigningpartitions", _G, "Led partitions that are being reassigned."),
    MetricDef(f"{REPLICAS}produceridcount", _G, "Producer ids that partitions remember."),
    MetricDef(
        f"{REPLICAS}partitionswithlatetransactionscount",
        _G,
        "Led partitions with a transaction that should have timed out 5 minutes ago.",
    ),
    MetricDef(f"{REPLICAS}isrshrinks_total", _C, "Times that an in-sync set shrank."),
    MetricDef(f"{REPLICAS}isrexpands_total", _C, "Times that an in-sync set grew."),
    MetricDef(
        f"{REPLICAS}failedisrupdates_total", _C, "AlterPartition requests that were refused."
    ),
    MetricDef(
        "kafka_server_replicafetchermanager_maxlag",
        _G,
        "Records by which the followers on this broker lag behind their leaders, at most.",
        ("clientId",),
    ),
    MetricDef(
        "kafka_server_replicafetchermanager_failedpartitionscount",
        _G,
        "Followers for which nothing is fetched before there is another leader epoch.",
        ("clientId",),
    ),
    MetricDef(
        "fencepost_unclean_truncations_total",
        _C,
        "Times that a follower was cut because its leader's log ended before it.",
    ),
)

PARTITION: Final = "kafka_cluster_partition_"
LOG: Final = "kafka_log_log_"
FOLLOWER_LAG: Final = "kafka_server_fetcherlagmetrics_consumerlag"
REPLICA_LAG: Final = "fencepost_replica_lag"
_PARTITIONS = (
    MetricDef(
        f"{PARTITION}underreplicated",
        _G,
        "1 if this broker leads it and replicas are out of sync.",
        _PARTITION,
    ),
    MetricDef(
        f"{PARTITION}underminisr",
        _G,
        "1 if this broker leads it with too few in-sync replicas.",
        _PARTITION,
    ),
    MetricDef(
        f"{PARTITION}atminisr", _G, "1 if one less in-sync replica were too few.", _PARTITION
    ),
    MetricDef(f"{PARTITION}insyncreplicascount", _G, "In-sync replicas; 0 if not led.", _PARTITION),
    MetricDef(f"{PARTITION}replicascount", _G, "Replicas; 0 if not led.", _PARTITION),
    MetricDef(
        f"{PARTITION}laststableoffsetlag",
        _G,
        "Records between the last stable offset and the high watermark.",
        _PARTITION,
    ),
    MetricDef(f"{LOG}size", _G, "Bytes of its segments.", _PARTITION),
    MetricDef(f"{LOG}logstartoffset", _G, "Log start offset.", _PARTITION),
    MetricDef(f"{LOG}logendoffset", _G, "Log end offset.", _PARTITION),
    MetricDef(f"{LOG}numlogsegments", _G, "Segments.", _PARTITION),
    MetricDef("fencepost_partition_high_watermark", _G, "High watermark.", _PARTITION),
    MetricDef("fencepost_partition_leader_epoch", _G, "Leader epoch.", _PARTITION),
    MetricDef("fencepost_partition_leader", _G, "Id of the leader; -1: none.", _PARTITION),
    MetricDef(
        REPLICA_LAG,
        _G,
        "Records that a follower has not fetched of what this leader has.",
        (*_PARTITION, "replica"),
    ),
    MetricDef(
        FOLLOWER_LAG,
        _G,
        "Records by which this follower lags behind its leader.",
        ("clientId", *_PARTITION),
    ),
    MetricDef(
        "fencepost_metrics_partitions_omitted",
        _G,
        "Partitions without series of their own (fencepost.metrics.partitions.max).",
    ),
)

TOPICS: Final = "kafka_server_brokertopicmetrics_"
_TOPICS = (
    MetricDef(f"{TOPICS}messagesin_total", _C, "Records that producers wrote.", _TOPIC, True),
    MetricDef(f"{TOPICS}bytesin_total", _C, "Bytes that producers wrote.", _TOPIC, True),
    MetricDef(f"{TOPICS}bytesout_total", _C, "Bytes that consumers were sent.", _TOPIC, True),
    MetricDef(
        f"{TOPICS}totalproducerequests_total", _C, "Partitions in Produce requests.", _TOPIC, True
    ),
    MetricDef(f"{TOPICS}failedproducerequests_total", _C, "Of those, the refused.", _TOPIC, True),
    MetricDef(
        f"{TOPICS}totalfetchrequests_total",
        _C,
        "Partitions in Fetch requests; unlike Kafka's, not those of a fetch session in which"
        " nothing has moved since they were answered.",
        _TOPIC,
        True,
    ),
    MetricDef(f"{TOPICS}failedfetchrequests_total", _C, "Of those, the refused.", _TOPIC, True),
    MetricDef(f"{TOPICS}replicationbytesin_total", _C, "Bytes copied from leaders."),
    MetricDef(f"{TOPICS}replicationbytesout_total", _C, "Bytes that followers were sent."),
    MetricDef(
        "fencepost_metrics_topics_omitted",
        _G,
        "Topics without series of their own (fencepost.metrics.topics.max).",
    ),
)

REQUESTS: Final = "kafka_network_requestmetrics_"
_REQUESTS = (
    MetricDef(f"{REQUESTS}requests_total", _C, "Requests.", ("request", "version")),
    MetricDef(
        f"{REQUESTS}errors_total",
        _C,
        "Errors in answers; NONE counts answers without any.",
        ("request", "error"),
    ),
    MetricDef(
        f"{REQUESTS}requestqueuetimems",
        _S,
        "Milliseconds that requests waited before their handler began.",
        _REQUEST,
    ),
    MetricDef(
        f"{REQUESTS}localtimems", _S, "Milliseconds that this node worked on requests.", _REQUEST
    ),
    MetricDef(
        f"{REQUESTS}remotetimems",
        _S,
        "Milliseconds that requests waited for disks, data or other nodes.",
        _REQUEST,
    ),
    MetricDef(
        f"{REQUESTS}responsequeuetimems",
        _S,
        "Milliseconds that answers waited for those to earlier requests.",
        _REQUEST,
    ),
    MetricDef(f"{REQUESTS}totaltimems", _S, "The sum of these.", _REQUEST),
    MetricDef("fencepost_request_bytes_total", _C, "Bytes of requests.", _REQUEST),
    MetricDef("fencepost_response_bytes_total", _C, "Bytes of answers.", _REQUEST),
    MetricDef(
        "kafka_server_delayedoperationpurgatory_purgatorysize",
        _G,
        "Requests that wait for something to happen.",
        ("delayedOperation",),
    ),
    MetricDef("kafka_server_fetchsessioncache_numincrementalfetchsessions", _G, "Fetch sessions."),
    MetricDef(
        "kafka_server_fetchsessioncache_numincrementalfetchpartitionscached",
        _G,
        "Partitions in fetch sessions.",
    ),
)

SOCKETS: Final = "kafka_server_socket_server_metrics_"
_CONNECTIONS = (
    MetricDef(f"{SOCKETS}connection_count", _G, "Open connections.", _LISTENER),
    MetricDef(f"{SOCKETS}connection_creation_total", _C, "Connections let in.", _LISTENER),
    MetricDef(f"{SOCKETS}connection_close_total", _C, "Connections that have ended.", _LISTENER),
    MetricDef(
        f"{SOCKETS}expired_connections_killed_count",
        _G,
        "Connections that were closed because their session had expired (KIP-368).",
        _LISTENER,
    ),
    MetricDef(f"{SOCKETS}successful_authentication_total", _C, "Logins that succeeded.", _LISTENER),
    MetricDef(f"{SOCKETS}failed_authentication_total", _C, "Logins that failed.", _LISTENER),
    MetricDef(
        f"{SOCKETS}successful_reauthentication_total",
        _C,
        "Logins that succeeded on connections that went on (KIP-368).",
        _LISTENER,
    ),
    MetricDef(
        f"{SOCKETS}failed_reauthentication_total",
        _C,
        "Logins that failed on connections that were logged in before.",
        _LISTENER,
    ),
    MetricDef(
        f"{SOCKETS}successful_authentication_no_reauth_total",
        _C,
        "Logins of clients too old to get the lifetime of their session.",
        _LISTENER,
    ),
    MetricDef(
        "fencepost_logins_total",
        _C,
        "Logins by mechanism (TLS: certificates, and handshakes that failed) and result: succeeded,"
        " failed, succeeded_again, failed_again.",
        ("listener", "mechanism", "result"),
    ),
    MetricDef(
        "fencepost_connections_idle_closed_total",
        _C,
        "Connections that were closed for being idle.",
        _LISTENER,
    ),
    MetricDef(
        "fencepost_connections_refused_total",
        _C,
        "Connections that were refused: there were too many.",
        _LISTENER,
    ),
    MetricDef(
        "fencepost_memory_budget_used_bytes",
        _G,
        "What a listener's connections buffer together, and what decompression takes.",
        ("role", "budget"),
    ),
    MetricDef(
        "fencepost_memory_budget_limit_bytes",
        _G,
        "How much that may be before clients are evicted or their batches refused.",
        ("role", "budget"),
    ),
)

_LOGS = (
    MetricDef(
        "kafka_log_logmanager_offlinelogdirectorycount", _G, "Log directories that are offline."
    ),
    MetricDef(
        "kafka_log_logmanager_logdirectoryoffline",
        _G,
        "1 if the log directory is offline.",
        ("logDirectory",),
    ),
    MetricDef(
        "fencepost_log_directory_size_bytes",
        _G,
        "Bytes of the partitions in the log directory.",
        ("logDirectory",),
    ),
    MetricDef(
        "fencepost_log_directory_strays",
        _G,
        "Stray directories, which take up space until they are deleted by hand.",
        ("logDirectory",),
    ),
    MetricDef(
        "kafka_log_logflushstats_logflushrateandtimems", _S, "Milliseconds that fsyncs took."
    ),
)

CONTROLLER: Final = "kafka_controller_kafkacontroller_"
_CONTROLLER = (
    MetricDef(f"{CONTROLLER}activecontrollercount", _G, "1 if this is the active controller."),
    MetricDef(f"{CONTROLLER}offlinepartitionscount", _G, "Partitions without a leader."),
    MetricDef(
        f"{CONTROLLER}preferredreplicaimbalancecount",
        _G,
        "Partitions that another broker leads than the preferred one.",
    ),
    MetricDef(f"{CONTROLLER}globaltopiccount", _G, "Topics in the cluster."),
    MetricDef(f"{CONTROLLER}globalpartitioncount", _G, "Partitions in the cluster."),
    MetricDef(f"{CONTROLLER}activebrokercount", _G, "Brokers that are not fenced."),
    MetricDef(f"{CONTROLLER}fencedbrokercount", _G, "Brokers that are fenced."),
    MetricDef(
        f"{CONTROLLER}controlledshutdownbrokercount", _G, "Brokers in a controlled shutdown."
    ),
    MetricDef(
        f"{CONTROLLER}lastappliedrecordoffset", _G, "Offset up to which the metadata are applied."
    ),
    MetricDef(
        f"{CONTROLLER}lastcommittedrecordoffset", _G, "Offset up to which they are committed."
    ),
)

RAFT: Final = "kafka_server_raftmetrics_"
_QUORUM = (
    MetricDef(f"{RAFT}current_state", _G, "1 under the role of this node.", ("current_state",)),
    MetricDef(f"{RAFT}current_leader", _G, "Id of the quorum's leader; -1: none is known."),
    MetricDef(f"{RAFT}current_epoch", _G, "Epoch of the quorum."),
    MetricDef(f"{RAFT}current_vote", _G, "Id that this node voted for; -1: for none."),
    MetricDef(f"{RAFT}high_watermark", _G, "High watermark of the metadata log."),
    MetricDef(f"{RAFT}log_end_offset", _G, "End offset of the metadata log."),
    MetricDef(f"{RAFT}log_end_epoch", _G, "Epoch of its last record."),
    MetricDef(f"{RAFT}number_of_voters", _G, "Voters."),
    MetricDef(f"{RAFT}number_of_observers", _G, "Observers that fetch from this leader."),
    MetricDef(f"{RAFT}append_records_rate", _G, "Records that a leader appends, per second."),
    MetricDef(f"{RAFT}fetch_records_rate", _G, "Records that a follower appends, per second."),
    MetricDef(
        f"{RAFT}commit_latency_avg",
        _G,
        "Milliseconds from append to commit at a leader, on average of the last minutes.",
    ),
    MetricDef(
        "fencepost_raft_commit_latency_ms", _S, "Milliseconds from append to commit at a leader."
    ),
    MetricDef(
        "fencepost_raft_replica_lag",
        _G,
        "Records of the metadata log that a voter has not fetched from this leader.",
        ("replica",),
    ),
)

GROUPS: Final = "kafka_coordinator_group_groupmetadatamanager_"
COORDINATOR: Final = "kafka_server_group_coordinator_metrics_"
_GROUPS = (
    MetricDef(f"{GROUPS}numgroups", _G, "Classic groups that this node coordinates."),
    MetricDef(f"{GROUPS}numgroupsempty", _G, "Of those, without members."),
    MetricDef(f"{GROUPS}numgroupspreparingrebalance", _G, "Of those, waiting for members."),
    MetricDef(f"{GROUPS}numgroupscompletingrebalance", _G, "Of those, waiting for assignments."),
    MetricDef(f"{GROUPS}numgroupsstable", _G, "Of those, with members that have assignments."),
    MetricDef(f"{GROUPS}numoffsets", _G, "Offsets that groups have committed."),
    MetricDef(f"{COORDINATOR}group_count", _G, "Groups, by protocol.", ("protocol",)),
    *(
        MetricDef(f"{COORDINATOR}{kind}_group_count", _G, f"{name} groups, by state.", ("state",))
        for kind, name in (
            ("classic", "Classic"),
            ("consumer", "Consumer"),
            ("share", "Share"),
            ("streams", "Streams"),
        )
    ),
    MetricDef(
        f"{COORDINATOR}num_partitions",
        _G,
        "Partitions of __consumer_offsets that this node coordinates.",
        ("state",),
    ),
    MetricDef(
        f"{COORDINATOR}partition_load_time_max",
        _G,
        "Milliseconds to load a partition of groups, the most in the last minute.",
    ),
    MetricDef(
        f"{COORDINATOR}partition_load_time_avg",
        _G,
        "Milliseconds to load a partition of groups, on average in the last minute.",
    ),
    MetricDef("fencepost_group_members", _G, "Members of groups."),
    MetricDef("fencepost_group_memory_bytes", _G, "Memory that members of groups take."),
)

MARKERS: Final = "kafka_coordinator_transaction_transactionmarkerchannelmanager_"
TRANSACTION_COORDINATOR: Final = "kafka_server_transaction_coordinator_metrics_"
VERIFICATION: Final = "kafka_server_addpartitionstotxnmanager_"
_TRANSACTIONS = (
    MetricDef(
        f"{MARKERS}unknowndestinationqueuesize",
        _G,
        "Ends of transactions with markers for partitions whose leaders are not alive.",
    ),
    MetricDef(
        f"{MARKERS}logappendretryqueuesize",
        _G,
        "Steps of a transaction's end that the log has refused and that are tried again.",
    ),
    MetricDef(
        f"{VERIFICATION}verificationfailurerate_count_total",
        _C,
        "Partitions to which a coordinator's answer was an error.",
    ),
    MetricDef(
        f"{VERIFICATION}verificationtimems",
        _S,
        "Milliseconds until a leader has a coordinator's answer about a transaction.",
    ),
    MetricDef(
        f"{TRANSACTION_COORDINATOR}partition_load_time_max",
        _G,
        "Milliseconds to load a partition of transactions, the most in the last minute.",
    ),
    MetricDef(
        f"{TRANSACTION_COORDINATOR}partition_load_time_avg",
        _G,
        "Milliseconds to load a partition of transactions, on average in the last minute.",
    ),
    MetricDef("fencepost_transactional_ids", _G, "Transactional ids that this node coordinates."),
    MetricDef(
        "fencepost_transaction_partitions",
        _G,
        "Partitions of __transaction_state that this node coordinates.",
        ("state",),
    ),
    MetricDef(
        "fencepost_transactions_waiting_for_markers",
        _G,
        "Transactions whose end is decided and not yet written everywhere.",
    ),
    MetricDef(
        "fencepost_transactions_with_refused_markers",
        _G,
        "Of those, with a partition that knows of a later coordinator or epoch of the producer.",
    ),
    MetricDef("fencepost_transaction_memory_bytes", _G, "Memory that transactional ids take."),
)

_BUDGET: Final = ("quota", "user", "client_id")
_QUOTAS = (
    MetricDef(
        "fencepost_quota_limit", _G, "Limit of a client quota for a budget that was used.", _BUDGET
    ),
    MetricDef(
        "fencepost_quota_usage",
        _G,
        "What the budget has come to per second; tokens left of controller_mutation_rate.",
        _BUDGET,
    ),
    MetricDef(
        "fencepost_quota_throttles_total", _C, "Answers that throttled their client.", _BUDGET
    ),
    MetricDef(
        "fencepost_quota_throttled_seconds_total",
        _C,
        "Seconds for which clients were throttled, all together.",
        _BUDGET,
    ),
)

_NODE = (
    MetricDef(
        "kafka_server_kafkaserver_brokerstate",
        _G,
        "State of the broker, by Kafka's numbers: 3 is running.",
    ),
    MetricDef(
        "kafka_server_brokermetadatametrics_last_applied_record_offset",
        _G,
        "Offset up to which this broker has applied the metadata.",
    ),
    MetricDef(
        "kafka_server_metadataloader_currentcontrollerid",
        _G,
        "Id of the active controller; -1: none is known.",
    ),
    MetricDef(
        "kafka_server_metadataloader_currentmetadataversion", _G, "Level of metadata.version."
    ),
    MetricDef("fencepost_authorizer_acls", _G, "ACLs that this node's authorizer decides by."),
    MetricDef(
        "fencepost_authorizer_decisions_total",
        _C,
        "Questions that the authorizer has answered, by its answer.",
        ("answer",),
    ),
    MetricDef("fencepost_broker_fenced", _G, "1 if the controller has this broker fenced."),
    MetricDef("fencepost_ready", _G, "1 if /ready says so."),
    MetricDef("fencepost_build_info", _G, "1 under the version.", ("version",)),
    MetricDef(
        "fencepost_event_loop_delay_seconds",
        _S,
        "Seconds by which timers of the event loop come late.",
    ),
    MetricDef("fencepost_metrics_scrapes_total", _C, "Times that metrics were collected."),
    MetricDef(
        "fencepost_metrics_seconds_total", _C, "Seconds of work that collecting metrics took."
    ),
)

CATALOGUE: Final[dict[str, MetricDef]] = {
    one.name: one
    for area in (
        _REPLICAS,
        _TOPICS,
        _REQUESTS,
        _CONNECTIONS,
        _LOGS,
        _CONTROLLER,
        _QUORUM,
        _GROUPS,
        _TRANSACTIONS,
        _QUOTAS,
        _NODE,
        _PARTITIONS,
    )
    for one in area
}
"""By name, in the order in which they are told."""
