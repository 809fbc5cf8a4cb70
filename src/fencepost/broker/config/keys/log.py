"""Topics and their logs: retention, checkpoints, recovery and compaction."""

from __future__ import annotations

import sys
from typing import Final

from fencepost.broker.config.keys.definition import (
    BOOLEAN,
    CLUSTER_WIDE,
    DOUBLE,
    INT,
    LIST,
    LONG,
    PER_BROKER,
    BrokerConfigDef,
    honoured,
    unused,
)
from fencepost.log.configdef import Validator, at_least, distinct
from fencepost.machines.fetch_limits import DEFAULT_MAX_BYTES

_TOPICS = (
    honoured("num.partitions", INT, 1, at_least(1), "Partitions of a topic that does not say."),
    honoured(
        "default.replication.factor", INT, 1, at_least(1), "Replicas of a topic that does not say."
    ),
    honoured(
        "auto.create.topics.enable", BOOLEAN, True, None, "Whether asking for a topic creates it."
    ),
    honoured("delete.topic.enable", BOOLEAN, True, None, "Whether topics can be deleted."),
)

_LOG = (
    honoured(
        "log.flush.before.ack",
        BOOLEAN,
        True,
        None,
        "Whether records are fsynced before they count as replicated here: what is acknowledged,"
        " with acks=1 or all, is then on the leader's disk, and nothing is readable that a power"
        " cut could take back. false is Kafka's way.",
    ),
    honoured(
        "log.retention.check.interval.ms",
        LONG,
        300_000,
        at_least(1),
        "How often retention is applied.",
    ),
    honoured(
        "log.flush.offset.checkpoint.interval.ms",
        INT,
        60_000,
        at_least(0),
        "How often recovery points are written down.",
    ),
    honoured(
        "log.flush.start.offset.checkpoint.interval.ms",
        INT,
        60_000,
        at_least(0),
        "How often it is written down where logs start.",
    ),
    honoured(
        "replica.high.watermark.checkpoint.interval.ms",
        LONG,
        5_000,
        at_least(1),
        "How often high watermarks are written down.",
    ),
    honoured(
        "num.recovery.threads.per.data.dir",
        INT,
        2,
        at_least(1),
        "Threads that check the logs of each directory that was not closed in order.",
        CLUSTER_WIDE,
    ),
    honoured(
        "log.initial.task.delay.ms",
        LONG,
        30_000,
        at_least(0),
        "How long after the start retention is first applied.",
        internal=True,
    ),
    honoured(
        "producer.id.expiration.ms",
        INT,
        86_400_000,
        at_least(1),
        "A producer that wrote nothing for so long is forgotten.",
        CLUSTER_WIDE,
    ),
    honoured(
        "producer.id.expiration.check.interval.ms",
        INT,
        600_000,
        at_least(1),
        "How often forgotten producers are looked for.",
        internal=True,
    ),
)

_CLEANER = (
    honoured("log.cleaner.enable", BOOLEAN, True, None, "Whether compacted topics are compacted."),
    honoured(
        "log.cleaner.threads",
        INT,
        1,
        at_least(0),
        "Logs that are compacted at the same time.",
        CLUSTER_WIDE,
    ),
    honoured(
        "log.cleaner.backoff.ms",
        LONG,
        15_000,
        at_least(0),
        "How long to wait when no log is dirty enough.",
        CLUSTER_WIDE,
    ),
    honoured(
        "log.cleaner.dedupe.buffer.size",
        LONG,
        134_217_728,
        None,
        "Bytes of memory for keys, all threads together; at least 1 MiB for each.",
        CLUSTER_WIDE,
    ),
    honoured(
        "log.cleaner.io.buffer.load.factor",
        DOUBLE,
        0.9,
        Validator("above 0, at most 1", lambda factor: 0 < factor <= 1),
        "Share of that memory that may be used.",
        CLUSTER_WIDE,
    ),
    honoured(
        "log.cleaner.io.buffer.size",
        INT,
        524_288,
        at_least(0),
        "Bytes of buffers to read and write, all threads together.",
        CLUSTER_WIDE,
    ),
    honoured(
        "log.cleaner.io.max.bytes.per.second",
        DOUBLE,
        sys.float_info.max,
        Validator("above 0", lambda rate: rate > 0),
        "Most that is read and written per second, all threads together.",
        CLUSTER_WIDE,
    ),
)

_FETCH = (
    honoured(
        "fetch.max.bytes", INT, 57_671_680, at_least(1024), "Most bytes of one fetch response."
    ),
    honoured(
        "max.incremental.fetch.session.cache.slots",
        INT,
        1000,
        at_least(0),
        "Fetch sessions kept at once (KIP-227).",
    ),
    honoured(
        "fencepost.fetch.session.cache.max.bytes",
        LONG,
        DEFAULT_MAX_BYTES,
        at_least(0),
        "Most memory for the partitions of all fetch sessions.",
    ),
)

_UNUSED = (
    unused(
        "delete.records.purgatory.purge.interval.requests",
        INT,
        1,
        None,
        "Waiting DeleteRecords requests between two clean-ups of Kafka's list of them.",
    ),
    unused(
        "fetch.purgatory.purge.interval.requests",
        INT,
        1000,
        None,
        "Waiting fetches between two clean-ups of Kafka's list of them.",
    ),
    unused(
        "producer.purgatory.purge.interval.requests",
        INT,
        1000,
        None,
        "Waiting produce requests between two clean-ups of Kafka's list of them.",
    ),
    unused(
        "share.fetch.purgatory.purge.interval.requests",
        INT,
        1000,
        None,
        "Waiting share fetches between two clean-ups of Kafka's list of them.",
    ),
)

_CORDONED = (
    honoured(
        "cordoned.log.dirs",
        LIST,
        (),
        distinct(may_be_empty=True),
        "Directories of log.dirs that take no new replicas; * for all of them.",
        PER_BROKER,
    ),
)

KEYS: Final[tuple[BrokerConfigDef, ...]] = (
    *_TOPICS,
    *_LOG,
    *_CLEANER,
    *_FETCH,
    *_UNUSED,
    *_CORDONED,
)
"""See the module."""
