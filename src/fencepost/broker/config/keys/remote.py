"""Tiered storage (KIP-405)."""

from __future__ import annotations

from typing import Final

from fencepost.broker.config.keys.definition import (
    BOOLEAN,
    CLUSTER_WIDE,
    DOUBLE,
    INT,
    LONG,
    STRING,
    BrokerConfigDef,
    default_only,
    unused,
)
from fencepost.log.configdef import LONG_MAX, at_least, between, non_empty

_UNUSED = (
    unused(
        "follower.fetch.last.tiered.offset.enable",
        BOOLEAN,
        False,
        None,
        "Whether a follower begins at the last tiered offset.",
        CLUSTER_WIDE,
    ),
    unused(
        "remote.fetch.max.wait.ms",
        INT,
        500,
        at_least(1),
        "Longest wait for remote data in a fetch.",
        CLUSTER_WIDE,
    ),
    unused(
        "remote.list.offsets.request.timeout.ms",
        LONG,
        30_000,
        at_least(1),
        "Longest wait for remote data in ListOffsets.",
        CLUSTER_WIDE,
    ),
    unused(
        "remote.log.index.file.cache.total.size.bytes",
        LONG,
        1_073_741_824,
        at_least(1),
        "Size of the cache of remote indexes.",
        CLUSTER_WIDE,
    ),
    unused(
        "remote.log.index.file.cache.ttl.ms",
        LONG,
        900_000,
        at_least(-1),
        "How long an unused remote index is cached.",
        internal=True,
    ),
    unused(
        "remote.log.manager.copier.thread.pool.size",
        INT,
        10,
        at_least(1),
        "Threads that copy segments.",
        CLUSTER_WIDE,
    ),
    unused(
        "remote.log.manager.copy.max.bytes.per.second",
        LONG,
        LONG_MAX,
        at_least(1),
        "Most that is copied per second.",
        CLUSTER_WIDE,
    ),
    unused(
        "remote.log.manager.copy.quota.window.num", INT, 11, at_least(1), "Samples of that quota."
    ),
    unused(
        "remote.log.manager.copy.quota.window.size.seconds",
        INT,
        1,
        at_least(1),
        "Length of each of them.",
    ),
    unused(
        "remote.log.manager.expiration.thread.pool.size",
        INT,
        10,
        at_least(1),
        "Threads that delete expired remote segments.",
        CLUSTER_WIDE,
    ),
    unused(
        "remote.log.manager.fetch.max.bytes.per.second",
        LONG,
        LONG_MAX,
        at_least(1),
        "Most that is read per second.",
        CLUSTER_WIDE,
    ),
    unused(
        "remote.log.manager.fetch.quota.window.num", INT, 11, at_least(1), "Samples of that quota."
    ),
    unused(
        "remote.log.manager.fetch.quota.window.size.seconds",
        INT,
        1,
        at_least(1),
        "Length of each of them.",
    ),
    unused(
        "remote.log.manager.follower.thread.pool.size",
        INT,
        2,
        at_least(1),
        "Threads for followed partitions.",
        CLUSTER_WIDE,
    ),
    unused(
        "remote.log.manager.task.interval.ms",
        LONG,
        30_000,
        at_least(1),
        "How often segments are looked for to copy or delete.",
    ),
    unused(
        "remote.log.manager.task.retry.backoff.max.ms",
        LONG,
        30_000,
        at_least(1),
        "Longest wait before a failed task is tried again.",
        internal=True,
    ),
    unused(
        "remote.log.manager.task.retry.backoff.ms",
        LONG,
        500,
        at_least(1),
        "First wait before a failed task is tried again.",
        internal=True,
    ),
    unused(
        "remote.log.manager.task.retry.jitter",
        DOUBLE,
        0.2,
        between(0, 0.5),
        "Random share of that wait.",
        internal=True,
    ),
    unused(
        "remote.log.manager.thread.pool.size",
        INT,
        2,
        at_least(1),
        "Threads of the remote log manager, in older releases.",
    ),
    unused(
        "remote.log.metadata.custom.metadata.max.bytes",
        INT,
        128,
        at_least(0),
        "Largest custom metadata of a remote segment.",
    ),
    unused(
        "remote.log.metadata.manager.class.name",
        STRING,
        "org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager",
        non_empty(),
        "Class that stores metadata of remote segments.",
    ),
    unused(
        "remote.log.metadata.manager.class.path",
        STRING,
        None,
        None,
        "Where that class is loaded from.",
    ),
    unused(
        "remote.log.metadata.manager.impl.prefix",
        STRING,
        "rlmm.config.",
        non_empty(),
        "Prefix of that class's own keys.",
    ),
    unused(
        "remote.log.metadata.manager.listener.name",
        STRING,
        None,
        non_empty(),
        "Listener that class uses.",
    ),
    unused(
        "remote.log.reader.max.pending.tasks", INT, 100, at_least(1), "Remote reads that may wait."
    ),
    unused(
        "remote.log.reader.threads",
        INT,
        10,
        at_least(1),
        "Threads that read remote segments.",
        CLUSTER_WIDE,
    ),
    unused(
        "remote.log.storage.manager.class.name",
        STRING,
        None,
        non_empty(),
        "Class that stores remote segments.",
    ),
    unused(
        "remote.log.storage.manager.class.path",
        STRING,
        None,
        None,
        "Where that class is loaded from.",
    ),
    unused(
        "remote.log.storage.manager.impl.prefix",
        STRING,
        "rsm.config.",
        non_empty(),
        "Prefix of that class's own keys.",
    ),
)

_REFUSED = (
    default_only("remote.log.storage.system.enable", BOOLEAN, False, "there is no tiered storage"),
)

KEYS: Final[tuple[BrokerConfigDef, ...]] = (*_UNUSED, *_REFUSED)
"""See the module."""
