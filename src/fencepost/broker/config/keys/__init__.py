"""The broker's configuration keys: every one of Apache Kafka 4.4, by area, and a few of our own.

`BROKER_CONFIGS` has them all; `definition` says which kinds there are. Defaults are Kafka's but for
`DIFFERENT_DEFAULTS`, most of which are there because one node in a test or on a laptop is the
common case.

Own keys: `log.flush.before.ack` (true: acknowledged means fsynced; false: Kafka's page-cache
behaviour), and those that begin with `fencepost.`.

Keys that Kafka had before 4.0 are in `REMOVED` or `REFUSED`, so that an older file says clearly
what has become of them.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from fencepost.broker.config.keys import (
    audit_log,
    authorization,
    delegation_token,
    group,
    log,
    metrics,
    network,
    node,
    quorum,
    remote,
    replication,
    sasl,
    share,
    tls,
    topic_defaults,
    transaction,
)
from fencepost.broker.config.keys.definition import (
    BrokerConfigDef as BrokerConfigDef,
    UpdateMode as UpdateMode,
)

_AREAS = (
    topic_defaults,
    node,
    network,
    log,
    replication,
    quorum,
    group,
    share,
    transaction,
    metrics,
    remote,
    tls,
    sasl,
    delegation_token,
    authorization,
    audit_log,
)

BROKER_CONFIGS: Final[dict[str, BrokerConfigDef]] = {
    definition.name: definition for area in _AREAS for definition in area.KEYS
}
"""Every broker config by name."""

DYNAMIC_BROKER_KEYS: Final[frozenset[str]] = frozenset(
    name for name, definition in BROKER_CONFIGS.items() if definition.is_dynamic
)
"""Broker configs that may change while the broker runs: those of Kafka."""

DYNAMIC_ONLY: Final[frozenset[str]] = frozenset(
    {
        "follower.replication.throttled.rate",
        "leader.replication.throttled.rate",
        "replica.alter.log.dirs.io.max.bytes.per.second",
    }
)
"""Dynamic configs that Kafka knows of in no file."""

ALIASES: Final[dict[str, str]] = {"broker.id": "node.id"}
"""Older names of keys."""

REMOVED: Final[frozenset[str]] = frozenset(
    {
        "auto.include.jmx.reporter",
        "controlled.shutdown.max.retries",
        "controlled.shutdown.retry.backoff.ms",
        "leader.imbalance.per.broker.percentage",
        "reserved.broker.max.id",
    }
)
"""Keys of releases before 4.0 that older files have; they change nothing."""

_ENCODER = "no passwords are stored, so this key must go"
_NO_ZOOKEEPER = "there is no ZooKeeper, as in Kafka 4.x, so this key must go"
_TIERED = "there is no tiered storage, so this key must go"

REFUSED: Final[tuple[tuple[str, str], ...]] = (
    ("password.encoder.", _ENCODER),
    ("rlmm.config.", _TIERED),
    ("rsm.config.", _TIERED),
    ("zookeeper.", _NO_ZOOKEEPER),
)
"""Prefixes of further keys that must not be ignored, and why."""


class DifferentDefault(Struct, frozen=True):
    """Kafka's default as text (None: there is none), and why it is another here."""

    kafka: str | None
    why: str


_WITHOUT_A_FILE = "a node starts without a file"
DIFFERENT_DEFAULTS: Final[dict[str, DifferentDefault]] = {
    "add.partitions.to.txn.retry.backoff.max.ms": DifferentDefault(
        "100", "markers are fsynced; a producer that is refused may pause for seconds"
    ),
    "broker.id": DifferentDefault("-1", "the same key as `node.id`"),
    "listeners": DifferentDefault("PLAINTEXT://:9092", "nothing is open to others unasked"),
    "log.dir": DifferentDefault("/tmp/kafka-logs", "data outlives a restart of the machine"),
    "max.connections": DifferentDefault("2147483647", "a bound"),
    "node.id": DifferentDefault(None, _WITHOUT_A_FILE),
    "process.roles": DifferentDefault(None, _WITHOUT_A_FILE),
    "socket.listen.backlog.size": DifferentDefault(
        "50", "hundreds of clients that come back at once are not made to wait"
    ),
    "socket.receive.buffer.bytes": DifferentDefault("102400", "the system tunes it"),
    "socket.send.buffer.bytes": DifferentDefault("102400", "the system tunes it"),
}
"""Keys with another default than Kafka's."""

assert DIFFERENT_DEFAULTS.keys() <= BROKER_CONFIGS.keys()
assert BROKER_CONFIGS["log.retention.hours"].default == 168
