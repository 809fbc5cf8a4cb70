"""The metadata log, its snapshots, and the quorum that replicates it."""

from __future__ import annotations

from typing import Final

from fencepost.broker.config.keys.definition import (
    BOOLEAN,
    INT,
    LIST,
    LONG,
    BrokerConfigDef,
    honoured,
    unused,
)
from fencepost.log.configdef import Validator, at_least, distinct

DRAFT_KEYS: Final = range(1000, 1 << 15)
"""API keys that Kafka is far from using."""

_METADATA_LOG = (
    honoured(
        "metadata.log.segment.bytes",
        INT,
        1 << 30,
        at_least(8 << 20),
        "Size at which a segment of the metadata log is closed.",
    ),
    honoured(
        "metadata.log.segment.ms",
        LONG,
        604_800_000,
        at_least(1),
        "Age at which a segment of the metadata log is closed.",
    ),
)

_SNAPSHOTS = (
    honoured(
        "metadata.log.max.record.bytes.between.snapshots",
        LONG,
        20 << 20,
        at_least(1),
        "Bytes of committed metadata after which a snapshot is written.",
    ),
    honoured(
        "metadata.log.max.snapshot.interval.ms",
        LONG,
        3_600_000,
        at_least(0),
        "Time after which one is written anyway, if anything is new; 0: never for that.",
    ),
    honoured(
        "metadata.max.retention.bytes",
        LONG,
        100 << 20,
        None,
        "Size of the metadata log and its snapshots above which the oldest go; negative: any.",
    ),
    honoured(
        "metadata.max.retention.ms",
        LONG,
        604_800_000,
        None,
        "Age at which metadata that a newer snapshot has may be deleted; negative: any.",
    ),
)

_QUORUM = (
    honoured(
        "controller.quorum.voters",
        LIST,
        (),
        distinct(may_be_empty=True),
        "Static voters of the metadata quorum as id@host:port; none: a lone node, or dynamic ones.",
    ),
    honoured(
        "controller.quorum.bootstrap.servers",
        LIST,
        (),
        distinct(may_be_empty=True),
        "Controllers to ask who leads, as host:port, where the voters are dynamic (KIP-853).",
    ),
    honoured(
        "controller.listener.names",
        LIST,
        None,
        distinct(),
        "Names of the controllers' listeners. A lone node needs none.",
    ),
    honoured(
        "controller.quorum.auto.join.enable",
        BOOLEAN,
        False,
        None,
        "Whether a controller that is no voter asks to become one, where the voters are dynamic.",
    ),
    honoured(
        "controller.quorum.election.timeout.ms",
        INT,
        1000,
        at_least(1),
        "How long a voter waits for a leader before it is a candidate.",
    ),
    honoured(
        "controller.quorum.election.backoff.max.ms",
        INT,
        1000,
        at_least(1),
        "How long the last in line waits before it is a candidate when a leader has resigned.",
    ),
    honoured(
        "controller.quorum.fetch.timeout.ms", INT, 2000, at_least(1), "Leader silence allowed."
    ),
    honoured("controller.quorum.request.timeout.ms", INT, 2000, at_least(1), "Quorum requests."),
    honoured(
        "controller.quorum.retry.backoff.ms",
        INT,
        20,
        at_least(0),
        "How long to wait before a request to another controller is made again.",
    ),
    honoured(
        "controller.quorum.fetch.max.bytes",
        INT,
        1 << 20,
        at_least(1),
        "Most bytes of the metadata log in one response (KIP-1219).",
    ),
    honoured(
        "controller.quorum.fetch.snapshot.max.bytes",
        INT,
        1 << 20,
        at_least(1),
        "Most bytes of a metadata snapshot in one response.",
    ),
    honoured(
        "fencepost.draft.fetch.quorum.records.api.key",
        INT,
        -1,
        Validator(
            "-1 (not served), or a key from 1000 to 32767",
            lambda key: key == -1 or key in DRAFT_KEYS,
            names_most=True,
        ),
        "API key at which controllers serve FetchQuorumRecords, a draft that never had one.",
    ),
    honoured(
        "fencepost.draft.fetch.quorum.records.follow.version",
        INT,
        -1,
        Validator("-1 (use Fetch), 0 or 1", lambda version: version in (-1, 0, 1)),
        "Version of FetchQuorumRecords that this node follows the metadata log with. It needs the"
        " API key above, the same on all controllers; the draft has no snapshots.",
    ),
)

_UNUSED = (
    unused(
        "controller.performance.always.log.threshold.ms",
        LONG,
        2000,
        at_least(0),
        "Controller events slower than this are always logged.",
        internal=True,
    ),
    unused(
        "controller.performance.sample.period.ms",
        LONG,
        60_000,
        at_least(100),
        "Time between two summaries of controller events.",
        internal=True,
    ),
    unused(
        "controller.quorum.append.linger.ms",
        INT,
        25,
        at_least(0),
        "How long a leader of the quorum gathers appends before it writes them.",
    ),
    unused(
        "internal.metadata.delete.delay.millis",
        LONG,
        60_000,
        None,
        "How long deleted files of the metadata log stay.",
        internal=True,
    ),
    unused(
        "internal.metadata.log.segment.bytes",
        INT,
        None,
        None,
        "metadata.log.segment.bytes without its lower bound, for Kafka's tests.",
        internal=True,
    ),
    unused(
        "internal.metadata.max.batch.size.in.bytes",
        INT,
        8_388_608,
        None,
        "Largest batch of the metadata log, for Kafka's tests.",
        internal=True,
    ),
)

KEYS: Final[tuple[BrokerConfigDef, ...]] = (*_METADATA_LOG, *_SNAPSHOTS, *_QUORUM, *_UNUSED)
"""See the module."""
