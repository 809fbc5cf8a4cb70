"""The broker's configuration keys: Kafka's names, and Kafka's defaults but for those listed here.

Different defaults, each because one node in a test or on a laptop is the common case:

* `listeners` is PLAINTEXT on 127.0.0.1 (Kafka: every interface), so that nothing is open unasked.
* `node.id` is 1, `process.roles` both roles, `log.dirs` a directory under the current one: it
  starts without any file.
* `offsets.topic.replication.factor` is 1 (Kafka: 3, which one node cannot have).
* `max.connections` is finite (Kafka: 2^31-1).
* `socket.*.buffer.bytes` leave the choice to the operating system (Kafka: 102400), whose
  auto-tuning is better at it.

Own keys: `log.flush.before.ack` (true: acknowledged means fsynced; false: Kafka's page-cache
behaviour), `fencepost.event.loop`, `fencepost.accept.loss` and
`fencepost.draft.fetch.quorum.records.api.key`.

`WITHOUT_EFFECT` names keys of Kafka that are accepted with a log line, because a file written for
Kafka has them and leaving them out changes nothing that a client could see. `REFUSED` are keys
whose meaning cannot be honoured and must not be ignored: security first of all.
"""

from __future__ import annotations

import sys
from typing import Any, Final

from fencepost.broker.quorum_config import ROLES
from fencepost.log.config import TOPIC_CONFIGS
from fencepost.log.configdef import (
    INT_MAX,
    ConfigDef,
    ConfigType,
    Validator,
    at_least,
    between,
    non_empty,
    one_of,
)

_BOOLEAN = ConfigType.BOOLEAN
_INT = ConfigType.INT
_LIST = ConfigType.LIST
_DOUBLE = ConfigType.DOUBLE
_LONG = ConfigType.LONG
_SHORT = ConfigType.SHORT
_STRING = ConfigType.STRING

DRAFT_KEYS = range(1000, 1 << 15)
"""API keys that Kafka is far from using."""
DEFAULT_LISTENER = "PLAINTEXT://127.0.0.1:9092"
DEFAULT_LOG_DIR = "fencepost-data"


def _key(
    name: str, kind: ConfigType, default: Any, validator: Validator | None, doc: str
) -> ConfigDef:
    return ConfigDef(name, kind, default, doc, validator)


_NODE = (
    _key("node.id", _INT, 1, at_least(0), "Number of this node in its cluster."),
    _key(
        "process.roles",
        _LIST,
        ("broker", "controller"),
        Validator(
            "broker, controller, or both",
            lambda roles: set(roles) <= set(ROLES) and 0 < len(roles) == len(set(roles)),
        ),
        "What this process is: it holds topics, votes and decides, or both.",
    ),
    _key("broker.rack", _STRING, None, None, "Rack of this node, for replica placement."),
    _key("log.dirs", _LIST, None, non_empty(), "The data directories, separated by commas."),
    _key("log.dir", _STRING, DEFAULT_LOG_DIR, non_empty(), "Likewise, if log.dirs is not set."),
    _key(
        "metadata.log.dir",
        _STRING,
        None,
        None,
        "Directory of the metadata log; the first of log.dirs if not set.",
    ),
    _key(
        "fencepost.accept.loss",
        _LIST,
        (),
        None,
        "Partitions (topic-index) that may be opened although durable records of theirs are lost.",
    ),
    _key(
        "fencepost.event.loop",
        _STRING,
        "auto",
        one_of("auto", "asyncio", "uvloop"),
        "The event loop; auto takes uvloop where it is installed.",
    ),
)

_SOCKETS = (
    _key(
        "listeners",
        _LIST,
        (DEFAULT_LISTENER,),
        non_empty(),
        "Where to listen, NAME://HOST:PORT; port 0 picks a free one, an empty host is every one.",
    ),
    _key(
        "advertised.listeners",
        _LIST,
        None,
        non_empty(),
        "Addresses clients are told, if they differ from `listeners`.",
    ),
    _key(
        "listener.security.protocol.map",
        _LIST,
        (),
        None,
        "Security protocol of each listener name: only PLAINTEXT is offered.",
    ),
    _key("socket.request.max.bytes", _INT, 104_857_600, at_least(1), "Largest request, in bytes."),
    _key("socket.send.buffer.bytes", _INT, -1, at_least(-1), "SO_SNDBUF; -1: system's choice."),
    _key("socket.receive.buffer.bytes", _INT, -1, at_least(-1), "SO_RCVBUF; -1: system's choice."),
    _key("socket.listen.backlog.size", _INT, 512, at_least(1), "Connections waiting for accept."),
    _key("max.connections", _INT, 4096, at_least(0), "Connections open at once."),
    _key("max.connections.per.ip", _INT, INT_MAX, at_least(0), "Connections from one address."),
    _key(
        "connections.max.idle.ms",
        _LONG,
        600_000,
        at_least(-1),
        "Connections on which nothing happens for so long are closed; -1: never.",
    ),
)

_TOPICS = (
    _key("num.partitions", _INT, 1, at_least(1), "Partitions of a topic that does not say."),
    _key(
        "default.replication.factor", _INT, 1, at_least(1), "Replicas of a topic that does not say."
    ),
    _key(
        "auto.create.topics.enable", _BOOLEAN, True, None, "Whether asking for a topic creates it."
    ),
    _key("delete.topic.enable", _BOOLEAN, True, None, "Whether topics can be deleted."),
)

_LOG = (
    _key(
        "log.flush.before.ack",
        _BOOLEAN,
        True,
        None,
        "Whether records are fsynced before they count as replicated here: what is acknowledged,"
        " with acks=1 or all, is then on the leader's disk, and nothing is readable that a power"
        " cut could take back. false is Kafka's way.",
    ),
    _key(
        "log.retention.check.interval.ms",
        _LONG,
        300_000,
        at_least(1),
        "How often retention is applied.",
    ),
    _key(
        "log.flush.offset.checkpoint.interval.ms",
        _INT,
        60_000,
        at_least(0),
        "How often recovery points are written down.",
    ),
    _key(
        "log.flush.start.offset.checkpoint.interval.ms",
        _INT,
        60_000,
        at_least(0),
        "How often it is written down where logs start.",
    ),
    _key(
        "replica.high.watermark.checkpoint.interval.ms",
        _LONG,
        5_000,
        at_least(1),
        "How often high watermarks are written down.",
    ),
    _key(
        "num.recovery.threads.per.data.dir",
        _INT,
        2,
        at_least(1),
        "Threads that check the logs of each directory that was not closed in order.",
    ),
    _key(
        "log.initial.task.delay.ms",
        _LONG,
        30_000,
        at_least(0),
        "How long after the start retention is first applied.",
    ),
    _key(
        "producer.id.expiration.ms",
        _INT,
        86_400_000,
        at_least(1),
        "A producer that wrote nothing for so long is forgotten.",
    ),
    _key(
        "producer.id.expiration.check.interval.ms",
        _INT,
        600_000,
        at_least(1),
        "How often forgotten producers are looked for.",
    ),
)

_CLEANER = (
    _key("log.cleaner.enable", _BOOLEAN, True, None, "Whether compacted topics are compacted."),
    _key("log.cleaner.threads", _INT, 1, at_least(0), "Logs that are compacted at the same time."),
    _key(
        "log.cleaner.backoff.ms",
        _LONG,
        15_000,
        at_least(0),
        "How long to wait when no log is dirty enough.",
    ),
    _key(
        "log.cleaner.dedupe.buffer.size",
        _LONG,
        134_217_728,
        None,
        "Bytes of memory for keys, all threads together; at least 1 MiB for each.",
    ),
    _key(
        "log.cleaner.io.buffer.load.factor",
        _DOUBLE,
        0.9,
        Validator("above 0, at most 1", lambda factor: 0 < factor <= 1),
        "Share of that memory that may be used.",
    ),
    _key(
        "log.cleaner.io.buffer.size",
        _INT,
        524_288,
        at_least(0),
        "Bytes of buffers to read and write, all threads together.",
    ),
    _key(
        "log.cleaner.io.max.bytes.per.second",
        _DOUBLE,
        sys.float_info.max,
        Validator("above 0", lambda rate: rate > 0),
        "Most that is read and written per second, all threads together.",
    ),
)

_METADATA_LOG = (
    _key(
        "metadata.log.segment.bytes",
        _INT,
        1 << 30,
        at_least(8 << 20),
        "Size at which a segment of the metadata log is closed.",
    ),
    _key(
        "metadata.log.segment.ms",
        _LONG,
        604_800_000,
        at_least(1),
        "Age at which a segment of the metadata log is closed.",
    ),
)

_SNAPSHOTS = (
    _key(
        "metadata.log.max.record.bytes.between.snapshots",
        _LONG,
        20 << 20,
        at_least(1),
        "Bytes of committed metadata after which a snapshot is written.",
    ),
    _key(
        "metadata.log.max.snapshot.interval.ms",
        _LONG,
        3_600_000,
        at_least(0),
        "Time after which one is written anyway, if anything is new; 0: never for that.",
    ),
    _key(
        "metadata.max.retention.bytes",
        _LONG,
        100 << 20,
        None,
        "Size of the metadata log and its snapshots above which the oldest go; negative: any.",
    ),
    _key(
        "metadata.max.retention.ms",
        _LONG,
        604_800_000,
        None,
        "Age at which metadata that a newer snapshot stands for may go; negative: any.",
    ),
)

_FETCH = (
    _key("fetch.max.bytes", _INT, 57_671_680, at_least(1024), "Most bytes of one fetch response."),
    _key(
        "max.incremental.fetch.session.cache.slots",
        _INT,
        1000,
        at_least(0),
        "Fetch sessions kept at once (KIP-227).",
    ),
)

_GROUPS = (
    _key("offsets.topic.num.partitions", _INT, 50, at_least(1), "Of __consumer_offsets."),
    _key("offsets.topic.replication.factor", _SHORT, 1, at_least(1), "Of __consumer_offsets."),
    _key("offsets.topic.segment.bytes", _INT, 104_857_600, at_least(1), "Of __consumer_offsets."),
    _key("offsets.topic.compression.codec", _INT, 0, between(0, 4), "Of __consumer_offsets."),
    _key(
        "offsets.retention.minutes",
        _INT,
        10_080,
        at_least(1),
        "How long offsets of a group without members are kept.",
    ),
    _key(
        "offsets.retention.check.interval.ms",
        _LONG,
        600_000,
        at_least(1),
        "How often expired offsets are looked for.",
    ),
    _key("offset.metadata.max.bytes", _INT, 4096, at_least(0), "Longest note on an offset."),
    _key("offsets.commit.timeout.ms", _INT, 5000, at_least(1), "How long a commit may take."),
    _key("group.min.session.timeout.ms", _INT, 6000, at_least(0), "Least session timeout."),
    _key("group.max.session.timeout.ms", _INT, 1_800_000, at_least(0), "Most session timeout."),
    _key(
        "group.initial.rebalance.delay.ms",
        _INT,
        3000,
        at_least(0),
        "How long the first rebalance of a group waits for more members.",
    ),
    _key("group.max.size", _INT, INT_MAX, at_least(1), "Most members of a classic group."),
)

_CONTROLLER = (
    _key("broker.heartbeat.interval.ms", _INT, 2000, at_least(1), "Between two heartbeats."),
    _key("broker.session.timeout.ms", _INT, 9000, at_least(1), "A silent broker is fenced then."),
    _key(
        "initial.broker.registration.timeout.ms",
        _INT,
        60_000,
        at_least(1),
        "How long a starting broker looks for a controller that takes it.",
    ),
    _key(
        "unclean.leader.election.interval.ms",
        _LONG,
        300_000,
        at_least(1),
        "How often the active controller looks for partitions that need an unclean election.",
    ),
    _key(
        "metadata.max.idle.interval.ms",
        _INT,
        500,
        at_least(0),
        "How long the log of several voters goes without a record; 0 for as long as it may be.",
    ),
)

_QUORUM = (
    _key(
        "controller.quorum.voters",
        _LIST,
        (),
        None,
        "Static voters of the metadata quorum as id@host:port; none: a lone node, or dynamic ones.",
    ),
    _key(
        "controller.quorum.bootstrap.servers",
        _LIST,
        (),
        None,
        "Controllers to ask who leads, as host:port, where the voters are dynamic (KIP-853).",
    ),
    _key(
        "controller.listener.names",
        _LIST,
        (),
        None,
        "Names of the controllers' listeners. A lone node needs none.",
    ),
    _key(
        "controller.quorum.auto.join.enable",
        _BOOLEAN,
        False,
        None,
        "Whether a controller that is no voter asks to become one, where the voters are dynamic.",
    ),
    _key(
        "controller.quorum.election.timeout.ms",
        _INT,
        1000,
        at_least(1),
        "How long a voter waits for a leader before it stands for election.",
    ),
    _key(
        "controller.quorum.election.backoff.max.ms",
        _INT,
        1000,
        at_least(1),
        "How long the last in line waits before it stands when a leader has resigned.",
    ),
    _key("controller.quorum.fetch.timeout.ms", _INT, 2000, at_least(1), "Leader silence allowed."),
    _key("controller.quorum.request.timeout.ms", _INT, 2000, at_least(1), "Quorum requests."),
    _key(
        "controller.quorum.retry.backoff.ms",
        _INT,
        20,
        at_least(0),
        "How long to wait before a request to another controller is made again.",
    ),
    _key(
        "controller.quorum.fetch.max.bytes",
        _INT,
        1 << 20,
        at_least(1),
        "Most bytes of the metadata log in one response (KIP-1219).",
    ),
    _key(
        "controller.quorum.fetch.snapshot.max.bytes",
        _INT,
        1 << 20,
        at_least(1),
        "Most bytes of a metadata snapshot in one response.",
    ),
    _key(
        "fencepost.draft.fetch.quorum.records.api.key",
        _INT,
        -1,
        Validator(
            "-1 (not served), or a key from 1000 to 32767",
            lambda key: key == -1 or key in DRAFT_KEYS,
            names_most=True,
        ),
        "API key at which controllers serve FetchQuorumRecords, a draft that never had one.",
    ),
)


def _topic_defaults() -> list[ConfigDef]:
    """The broker keys that topic configs fall back to, derived from the topics' table.

    Where several keys give one config in different units, Kafka puts the default on the last.
    """
    found: dict[str, ConfigDef] = {}
    for topic in TOPIC_CONFIGS.values():
        last = len(topic.synonyms) - 1
        for position, synonym in enumerate(topic.synonyms):
            default = topic.default
            if position < last:
                default = None
            elif synonym.factor != 1:
                default = topic.default // synonym.factor
            kind = topic.type if synonym.factor == 1 else ConfigType.INT
            validator = topic.validator if synonym.factor == 1 else at_least(-1)
            found[synonym.key] = ConfigDef(synonym.key, kind, default, topic.doc, validator)
    return list(found.values())


BROKER_CONFIGS: Final[dict[str, ConfigDef]] = {
    definition.name: definition
    for definition in (
        *_topic_defaults(),
        *_NODE,
        *_SOCKETS,
        *_TOPICS,
        *_LOG,
        *_METADATA_LOG,
        *_SNAPSHOTS,
        *_CLEANER,
        *_FETCH,
        *_GROUPS,
        *_CONTROLLER,
        *_QUORUM,
    )
}
"""Every broker config that has an effect here, by name."""

ALIASES: Final[dict[str, str]] = {"broker.id": "node.id"}
"""Older names of keys."""

_WITHOUT_EFFECT = """
background.threads num.io.threads num.network.threads
num.replica.fetchers num.replica.alter.log.dirs.threads queued.max.requests
queued.max.request.bytes request.timeout.ms connection.failed.authentication.delay.ms
max.connections.per.ip.overrides max.connection.creation.rate early.start.listeners
controller.quorum.append.linger.ms
controlled.shutdown.enable controlled.shutdown.max.retries controlled.shutdown.retry.backoff.ms
server.max.startup.time.ms reserved.broker.max.id
replica.lag.time.max.ms replica.fetch.max.bytes replica.fetch.wait.max.ms
replica.fetch.min.bytes replica.fetch.response.max.bytes replica.fetch.backoff.ms
replica.socket.timeout.ms
replica.socket.receive.buffer.bytes replica.selector.class
leader.imbalance.check.interval.seconds leader.imbalance.per.broker.percentage
auto.leader.rebalance.enable
log.dir.failure.timeout.ms
transactional.id.expiration.ms transaction.max.timeout.ms transaction.state.log.min.isr
transaction.state.log.replication.factor transaction.state.log.num.partitions
transaction.state.log.segment.bytes transaction.state.log.load.buffer.size
transaction.abort.timed.out.transaction.cleanup.interval.ms
transaction.remove.expired.transaction.cleanup.interval.ms
transaction.partition.verification.enable transaction.two.phase.commit.enable
share.coordinator.state.topic.replication.factor share.coordinator.state.topic.min.isr
share.coordinator.state.topic.num.partitions
group.coordinator.threads group.coordinator.append.linger.ms
group.coordinator.cached.buffer.max.bytes
group.consumer.migration.policy
group.consumer.assignors
group.consumer.max.size
group.consumer.max.heartbeat.interval.ms
group.consumer.min.heartbeat.interval.ms
group.consumer.heartbeat.interval.ms
group.consumer.max.session.timeout.ms
group.consumer.min.session.timeout.ms
group.consumer.session.timeout.ms
group.coordinator.rebalance.protocols
offsets.load.buffer.size
inter.broker.listener.name
metric.reporters metrics.num.samples metrics.recording.level metrics.sample.window.ms
auto.include.jmx.reporter client.quota.callback.class
quota.window.num quota.window.size.seconds replication.quota.window.num
replication.quota.window.size.seconds controller.quota.window.num
controller.quota.window.size.seconds
"""

WITHOUT_EFFECT: Final[frozenset[str]] = frozenset(_WITHOUT_EFFECT.split())
"""Keys of Kafka that change nothing here that a client could see."""

_SECURITY = "no security protocol but PLAINTEXT is offered, so this key must go"
_TIERED = "there is no tiered storage, so this key must go"

REFUSED: Final[tuple[tuple[str, str], ...]] = (
    ("sasl.", _SECURITY),
    ("ssl.", _SECURITY),
    ("listener.name.", _SECURITY),
    ("security.providers", _SECURITY),
    ("authorizer.class.name", "no authorizer is offered, so this key must go"),
    ("super.users", "no authorizer is offered, so this key must go"),
    ("allow.everyone.if.no.acl.found", "no authorizer is offered, so this key must go"),
    ("principal.builder.class", _SECURITY),
    ("delegation.token.", _SECURITY),
    ("password.encoder.", _SECURITY),
    ("connections.max.reauth.ms", _SECURITY),
    ("remote.log.", _TIERED),
    ("zookeeper.", "there is no ZooKeeper, as in Kafka 4.x, so this key must go"),
    ("create.topic.policy.class.name", "policies are Java classes, so this key must go"),
    ("alter.config.policy.class.name", "policies are Java classes, so this key must go"),
)
"""Prefixes of keys that must not be ignored, and why."""

assert not WITHOUT_EFFECT & BROKER_CONFIGS.keys()
assert BROKER_CONFIGS["log.retention.hours"].default == 168
