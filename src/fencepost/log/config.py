"""The topic configs of Apache Kafka 4.4, and `LogConfig`, the typed view of one topic's.

`TOPIC_CONFIGS` is the table: name, type, default, valid values and the broker configs a topic
without a value of its own falls back to. `LogConfig.from_props` resolves a topic's overrides over a
broker's configs over the defaults, checks everything, and is immutable afterwards: logs of one
topic share one.

Three differences in substance from Kafka:

* `preallocate` reserves room without making the file longer, so nothing has to be cut off later.
* tiered storage does not exist here, so `remote.storage.enable=true` is refused.
* `max.decompressed.message.bytes` counts when records are produced. Stored records that are larger,
  since the value was lowered, are still compacted and found by time, which fails in Kafka. What a
  whole batch may inflate to is bounded for all topics besides.

`internal.segment.bytes` overrides `segment.bytes` without its lower bound; Kafka has it for tests,
and so have we.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property
from typing import Any, Final

from msgspec import Struct

from fencepost.batch.compression import Codec, codec_of
from fencepost.batch.produced import UNBOUNDED_MS, ProduceRules
from fencepost.log.configdef import (
    INT_MAX,
    LONG_MAX,
    ConfigDef,
    ConfigError,
    ConfigType,
    Synonym,
    Validator,
    at_least,
    between,
    each_of,
    one_of,
)

_HOUR_MS: Final = 3_600_000
_DAY_MS: Final = 24 * _HOUR_MS
_BOOLEAN = ConfigType.BOOLEAN
_DOUBLE = ConfigType.DOUBLE
_INT = ConfigType.INT
_LIST = ConfigType.LIST
_LONG = ConfigType.LONG
_STRING = ConfigType.STRING
_LZ4_FAST_LEVEL: Final = 9
_LZ4_LEVEL_MAX: Final = 16
_ARRAY_BYTES_MAX: Final = INT_MAX - 8
"""Of Java: the largest record that Kafka could make room for."""

_PAIR = re.compile("(?:[0-9]+:[0-9]+)?")  # Kafka takes empty ones, and so do its tools
_THROTTLED_REPLICAS = Validator(
    "partition:broker pairs separated by commas, or * alone",
    lambda value: value == ("*",) or all(map(_PAIR.fullmatch, value)),
    answer=lambda name, value: (
        value,
        f"{name} must be the literal '*' or a list of replicas in the following format: "
        "[partitionId]:[brokerId],[partitionId]:[brokerId],...",
    ),
)
_GZIP_LEVEL = Validator(
    "from 1 to 9, or -1",
    lambda level: level == -1 or 1 <= level <= 9,
    names_most=True,
    answer=lambda _, level: (level, "Value must be between 1 and 9 or equal to -1"),
)


def _define(
    name: str,
    kind: ConfigType,
    default: Any,
    validator: Validator | None,
    doc: str,
    *synonyms: str | Synonym,
    internal: bool = False,
) -> ConfigDef:
    return ConfigDef(
        name,
        kind,
        default,
        doc,
        validator,
        tuple(Synonym(item) if isinstance(item, str) else item for item in synonyms),
        internal,
    )


_SEGMENTS = (
    _define(
        "segment.bytes",
        _INT,
        1 << 30,
        at_least(1 << 20),
        "A segment file that would grow beyond this many bytes is closed and a new one begun.",
        "log.segment.bytes",
    ),
    _define(
        "segment.ms",
        _LONG,
        7 * _DAY_MS,
        at_least(1),
        "A segment older than this many milliseconds is closed at the next append, even if small.",
        "log.roll.ms",
        Synonym("log.roll.hours", _HOUR_MS),
    ),
    _define(
        "segment.jitter.ms",
        _LONG,
        0,
        at_least(0),
        "Up to this many milliseconds are taken off segment.ms, so that logs do not roll at once.",
        "log.roll.jitter.ms",
        Synonym("log.roll.jitter.hours", _HOUR_MS),
    ),
    _define(
        "segment.index.bytes",
        _INT,
        10 << 20,
        at_least(4),
        "Most bytes of a segment's offset index; a full index closes the segment.",
        "log.index.size.max.bytes",
    ),
    _define(
        "index.interval.bytes",
        _INT,
        4096,
        at_least(0),
        "An index entry is made once this many bytes have been appended since the last one.",
        "log.index.interval.bytes",
    ),
    _define(
        "preallocate",
        _BOOLEAN,
        False,
        None,
        "Whether the disk reserves room for a whole segment when it is begun (Linux).",
        "log.preallocate",
    ),
    _define(
        "internal.segment.bytes",
        _INT,
        None,
        at_least(1),
        "segment.bytes without its lower bound, for tests.",
        internal=True,
    ),
    _define(
        "flush.messages",
        _LONG,
        LONG_MAX,
        at_least(1),
        "Force an fsync once this many records have been appended since the last one.",
        "log.flush.interval.messages",
    ),
    _define(
        "flush.ms",
        _LONG,
        LONG_MAX,
        at_least(0),
        "Force an fsync once data has been waiting this long for one.",
        "log.flush.interval.ms",
        "log.flush.scheduler.interval.ms",
    ),
)

_RETENTION = (
    _define(
        "cleanup.policy",
        _LIST,
        ("delete",),
        each_of("compact", "delete"),
        "How old data is removed: `delete` by age and size, `compact` keeps the last record of each"
        " key, both do both, an empty list keeps everything.",
        "log.cleanup.policy",
    ),
    _define(
        "retention.ms",
        _LONG,
        7 * _DAY_MS,
        at_least(-1),
        "Closed segments whose newest record is older than this are deleted; -1 keeps them.",
        "log.retention.ms",
        Synonym("log.retention.minutes", 60_000),
        Synonym("log.retention.hours", _HOUR_MS),
    ),
    _define(
        "retention.bytes",
        _LONG,
        -1,
        None,
        "Oldest segments are deleted while the partition would still have this many bytes after"
        " it; a negative number sets no limit.",
        "log.retention.bytes",
    ),
    _define(
        "file.delete.delay.ms",
        _LONG,
        60_000,
        at_least(0),
        "How long a deleted segment's files stay, renamed, before they are removed.",
        "log.segment.delete.delay.ms",
    ),
    _define(
        "delete.retention.ms",
        _LONG,
        _DAY_MS,
        at_least(0),
        "How long compaction keeps tombstones, so that readers can see the deletion.",
        "log.cleaner.delete.retention.ms",
    ),
    _define(
        "min.compaction.lag.ms",
        _LONG,
        0,
        at_least(0),
        "Records younger than this are not compacted.",
        "log.cleaner.min.compaction.lag.ms",
    ),
    _define(
        "max.compaction.lag.ms",
        _LONG,
        LONG_MAX,
        at_least(1),
        "Records older than this are compacted even in a log that is mostly clean.",
        "log.cleaner.max.compaction.lag.ms",
    ),
    _define(
        "min.cleanable.dirty.ratio",
        _DOUBLE,
        0.5,
        between(0, 1),
        "Share of a log that must be uncompacted before it is worth compacting.",
        "log.cleaner.min.cleanable.ratio",
    ),
)

_RECORDS = (
    _define(
        "max.message.bytes",
        _INT,
        1_048_588,
        at_least(0),
        "Largest record batch, as stored (compressed), that producers may send.",
        "message.max.bytes",
    ),
    _define(
        "max.decompressed.message.bytes",
        _INT,
        _ARRAY_BYTES_MAX,
        between(1, _ARRAY_BYTES_MAX),
        "Largest record of a compressed batch, decompressed, that producers may send.",
        "max.decompressed.message.bytes",
    ),
    _define(
        "message.timestamp.type",
        _STRING,
        "CreateTime",
        one_of("CreateTime", "LogAppendTime"),
        "Whose clock stamps records: the producer's, or the leader's when it appends.",
        "log.message.timestamp.type",
    ),
    _define(
        "message.timestamp.before.max.ms",
        _LONG,
        LONG_MAX,
        at_least(0),
        "How far a record's timestamp may lie in the past when it arrives.",
        "log.message.timestamp.before.max.ms",
    ),
    _define(
        "message.timestamp.after.max.ms",
        _LONG,
        _HOUR_MS,
        at_least(0),
        "How far a record's timestamp may lie in the future when it arrives.",
        "log.message.timestamp.after.max.ms",
    ),
    _define(
        "compression.type",
        _STRING,
        "producer",
        one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        "The codec batches are stored with; `producer` keeps what the producer chose.",
        "compression.type",
    ),
    _define(
        "compression.gzip.level",
        _INT,
        -1,
        _GZIP_LEVEL,
        "Level used when compression.type is gzip; -1 is the library's own choice.",
        "compression.gzip.level",
    ),
    _define(
        "compression.lz4.level",
        _INT,
        9,
        between(1, 17),
        "Level used when compression.type is lz4.",
        "compression.lz4.level",
    ),
    _define(
        "compression.zstd.level",
        _INT,
        3,
        between(-131072, 22),
        "Level used when compression.type is zstd.",
        "compression.zstd.level",
    ),
)

_REPLICATION = (
    _define(
        "min.insync.replicas",
        _INT,
        1,
        at_least(1),
        "Fewest in-sync replicas with which acks=all writes are accepted and reads advance.",
        "min.insync.replicas",
    ),
    _define(
        "unclean.leader.election.enable",
        _BOOLEAN,
        False,
        None,
        "Whether a replica that may lack committed records can become leader as a last resort.",
        "unclean.leader.election.enable",
    ),
    _define(
        "leader.replication.throttled.replicas",
        _LIST,
        (),
        _THROTTLED_REPLICAS,
        "Replicas whose replication traffic is throttled at the leader.",
    ),
    _define(
        "follower.replication.throttled.replicas",
        _LIST,
        (),
        _THROTTLED_REPLICAS,
        "Replicas whose replication traffic is throttled at the follower.",
    ),
    _define(
        "remote.storage.enable",
        _BOOLEAN,
        False,
        None,
        "Tiered storage, which does not exist here: only false is accepted.",
    ),
    _define(
        "remote.log.copy.disable",
        _BOOLEAN,
        False,
        None,
        "With tiered storage: stop copying segments. Without effect here.",
    ),
    _define(
        "remote.log.delete.on.disable",
        _BOOLEAN,
        False,
        None,
        "With tiered storage: delete remote data when it is switched off. Without effect here.",
    ),
    _define(
        "local.retention.ms",
        _LONG,
        -2,
        at_least(-2),
        "With tiered storage: retention of local segments. Without effect here.",
        "log.local.retention.ms",
    ),
    _define(
        "local.retention.bytes",
        _LONG,
        -2,
        at_least(-2),
        "With tiered storage: size kept locally. Without effect here.",
        "log.local.retention.bytes",
    ),
    _define(
        "remote.copy.lag.ms",
        _LONG,
        0,
        at_least(-1),
        "With tiered storage: age from which segments are copied. Without effect here.",
        "log.remote.copy.lag.ms",
    ),
    _define(
        "remote.copy.lag.bytes",
        _LONG,
        -1,
        at_least(-1),
        "With tiered storage: bytes behind a segment that is copied. Without effect here.",
        "log.remote.copy.lag.bytes",
    ),
    _define(
        "errors.deadletterqueue.group.enable",
        _BOOLEAN,
        False,
        None,
        "Whether share groups may write their dead letters into the topic (KIP-1191).",
    ),
)

TOPIC_CONFIGS: Final[dict[str, ConfigDef]] = {
    definition.name: definition
    for definition in (*_SEGMENTS, *_RETENTION, *_RECORDS, *_REPLICATION)
}
"""Every topic config of Kafka 4.4 by name, `internal.segment.bytes` among them."""


class LogConfig(Struct, frozen=True, kw_only=True, dict=True):
    """One topic's configs, resolved and typed; attributes are Kafka's names in snake_case.

    Made by `from_props`. Times are milliseconds and sizes bytes, as the names say.
    """

    cleanup_policy: tuple[str, ...]
    compression_gzip_level: int
    compression_lz4_level: int
    compression_type: str
    compression_zstd_level: int
    delete_retention_ms: int
    errors_deadletterqueue_group_enable: bool
    file_delete_delay_ms: int
    flush_messages: int
    flush_ms: int
    follower_replication_throttled_replicas: tuple[str, ...]
    index_interval_bytes: int
    internal_segment_bytes: int | None
    leader_replication_throttled_replicas: tuple[str, ...]
    local_retention_bytes: int
    local_retention_ms: int
    max_compaction_lag_ms: int
    max_decompressed_message_bytes: int
    max_message_bytes: int
    message_timestamp_after_max_ms: int
    message_timestamp_before_max_ms: int
    message_timestamp_type: str
    min_cleanable_dirty_ratio: float
    min_compaction_lag_ms: int
    min_insync_replicas: int
    preallocate: bool
    remote_copy_lag_bytes: int
    remote_copy_lag_ms: int
    remote_log_copy_disable: bool
    remote_log_delete_on_disable: bool
    remote_storage_enable: bool
    retention_bytes: int
    retention_ms: int
    segment_bytes: int
    segment_index_bytes: int
    segment_jitter_ms: int
    segment_ms: int
    unclean_leader_election_enable: bool
    overridden: frozenset[str] = frozenset()
    """Names of the configs the topic itself sets."""

    @cached_property
    def produce_rules(self) -> ProduceRules:
        """What these configs say about the batches that producers send."""
        return _produce_rules(self)

    @classmethod
    def from_props(
        cls, props: Mapping[str, object], broker_defaults: Mapping[str, Any] | None = None
    ) -> LogConfig:
        """Resolve a topic's overrides `props` over a broker's configs over Kafka's defaults.

        Values are text or already typed. Raises ConfigError for an unknown name, a value that is
        not allowed, or values that do not go together.
        """
        for name, value in props.items():
            if name not in TOPIC_CONFIGS:
                raise ConfigError(
                    name,
                    value,
                    "there is no topic config of this name",
                    f"Unknown topic config name: {name}",
                )
        broker_configs = broker_defaults or {}
        values = {}
        for name, definition in TOPIC_CONFIGS.items():
            override = props.get(name)
            values[definition.attribute] = (
                definition.parse(override)
                if override is not None
                else definition.from_broker(broker_configs)
            )
        config = cls(overridden=frozenset(props), **values)
        config._check_together()
        return config

    def _check_together(self) -> None:
        if self.min_compaction_lag_ms > self.max_compaction_lag_ms:
            raise ConfigError(
                "min.compaction.lag.ms",
                self.min_compaction_lag_ms,
                f"not more than max.compaction.lag.ms ({self.max_compaction_lag_ms})",
                "conflict topic config setting min.compaction.lag.ms "
                f"({self.min_compaction_lag_ms}) > max.compaction.lag.ms "
                f"({self.max_compaction_lag_ms})",
            )
        if self.remote_storage_enable:
            raise ConfigError(
                "remote.storage.enable",
                True,
                "false, since there is no tiered storage",
                "Tiered Storage functionality is disabled in the broker. Topic cannot be configured"
                " with remote log storage.",
            )

    def get(self, name: str) -> Any:
        """The typed value of the config `name` (Kafka's spelling); KeyError if there is none."""
        return getattr(self, TOPIC_CONFIGS[name].attribute)

    @property
    def is_compacted(self) -> bool:
        """Whether the log keeps the last record of each key."""
        return "compact" in self.cleanup_policy

    @property
    def is_deleted(self) -> bool:
        """Whether retention by age and size applies."""
        return "delete" in self.cleanup_policy

    @property
    def is_log_append_time(self) -> bool:
        """Whether the leader stamps batches with its own clock."""
        return self.message_timestamp_type == "LogAppendTime"

    @property
    def roll_bytes(self) -> int:
        """Largest size of a segment file."""
        internal = self.internal_segment_bytes
        return self.segment_bytes if internal is None else internal

    @property
    def roll_ms(self) -> int:
        """Greatest age of the active segment; a compacted log must close them sooner to clean."""
        if self.is_compacted:
            return min(self.max_compaction_lag_ms, self.segment_ms)
        return self.segment_ms

    @property
    def max_index_entries(self) -> int:
        """Most entries of a segment's offset index."""
        return min(self.segment_index_bytes, INT_MAX) // 8

    @property
    def max_time_index_entries(self) -> int:
        """Most entries of a segment's time index."""
        return min(self.segment_index_bytes, INT_MAX) // 12


def validate_topic_configs(
    props: Mapping[str, object], broker_defaults: Mapping[str, Any] | None = None
) -> None:
    """Raise ConfigError unless `props` would do as a topic's configs."""
    LogConfig.from_props(props, broker_defaults)


def _produce_rules(config: LogConfig) -> ProduceRules:
    name = config.compression_type
    codec = None if name == "producer" else codec_of("none" if name == "uncompressed" else name)
    is_judged = not config.is_log_append_time
    before_ms = config.message_timestamp_before_max_ms
    after_ms = config.message_timestamp_after_max_ms
    return ProduceRules(
        max_batch_bytes=config.max_message_bytes,
        segment_bytes=config.roll_bytes,
        key_required=config.is_compacted,
        timestamp_before_max_ms=before_ms if is_judged else UNBOUNDED_MS,
        timestamp_after_max_ms=after_ms if is_judged else UNBOUNDED_MS,
        codec=codec,
        level=_compression_level(config, codec),
        max_record_bytes=config.max_decompressed_message_bytes,
    )


def _compression_level(config: LogConfig, codec: Codec | None) -> int | None:
    """The level as our codecs count it, None for a library's own.

    Kafka's default for lz4, 9, stands for its fast compressor, and so it does here; gzip's -1 is
    the library's own default.
    """
    if codec is Codec.GZIP:
        level = config.compression_gzip_level
        return None if level < 0 else level
    if codec is Codec.LZ4:
        level = config.compression_lz4_level
        return None if level == _LZ4_FAST_LEVEL else min(level, _LZ4_LEVEL_MAX)
    return config.compression_zstd_level if codec is Codec.ZSTD else None


_TYPED = set(LogConfig.__struct_fields__) - {"overridden"}
assert {definition.attribute for definition in TOPIC_CONFIGS.values()} == _TYPED, (
    "TOPIC_CONFIGS and LogConfig name different configs"
)
