"""Options of `.format("fencepost")`: the names, defaults and rules of Spark's own Kafka connector.

Spark hands options over with lower-cased keys; texts and errors use the spelling people know. What
starts with "kafka." goes to our client, which refuses what it does not know. Everything is checked
on the driver, before a task starts, and ends up in frozen plain data that travels in pickles.

Ours, beside Spark's: starts such as `-10 minutes` and `-1000 offsets`; `plainOffsets=true` keeps
topic ids and leader epochs out of the checkpoint, so that a query can move back to Spark's
connector (and loses the detection of rewritten logs when it is started again).
"""

from __future__ import annotations

import difflib
import json
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fencepost.arrow.bounds import UNITS_MS, relative, unit_ms
from fencepost.arrow.java_regex import PatternError, matcher
from fencepost.arrow.offsets import INT64_MAX, StreamOffset
from fencepost.arrow.options import (
    AtOffsets,
    AtTimestamps,
    BeforeEnd,
    Bound,
    Point,
    SourceOptions,
    Subscription,
)
from fencepost.client.config import ClientConfig
from fencepost.client.errors import ConfigError
from fencepost.client.java_properties import name_once
from fencepost.client.metadata import TopicPartition
from fencepost.client.offsets import EARLIEST, LATEST
from fencepost.spark.errors import OptionError

if TYPE_CHECKING:
    from fencepost.arrow.archives import Archive

log = logging.getLogger("fencepost.spark")

NAMES = (
    "assign",
    "subscribe",
    "subscribePattern",
    "startingOffsets",
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "endingOffsets",
    "endingTimestamp",
    "endingOffsetsByTimestamp",
    "failOnDataLoss",
    "maxOffsetsPerTrigger",
    "maxBytesPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "minPartitions",
    "maxRecordsPerPartition",
    "includeHeaders",
    "kafkaConsumer.pollTimeoutMs",
    "plainOffsets",
    "topic",
    "commitOffsetsToGroup",
    "archive",
    "deliveryGuarantee",
    "transactionalIdPrefix",
    "txnAppId",
    "txnVersion",
    "txnRun",
    "forgottenBatch",
    "keepTimestamps",
    "checkpointLocation",
)
# Of a query as a whole; Spark hands it on to the sink, where it says nothing.
SPARKS_OWN = ("queryName",)
# Accepted for the sake of existing programs; they steer parts that this connector has not.
WITHOUT_EFFECT = ("groupIdPrefix", "fetchOffset.numRetries", "fetchOffset.retryIntervalMs")

# Spark's connector sets these itself and rejects them from users; so do we, on the same grounds.
REJECTED_FOR_SOURCES = {
    "auto.offset.reset": "use startingOffsets; the position is kept by Spark, not by Kafka",
    "key.deserializer": "keys are always read as binary; decode them with DataFrame functions",
    "value.deserializer": "values are always read as binary; decode them with DataFrame functions",
    "enable.auto.commit": "nothing is committed to Kafka; Spark's checkpoint has the offsets",
    "interceptor.classes": "interceptors could change what a retry reads",
}
REJECTED_FOR_SINKS = {
    "key.serializer": "keys must be string or binary columns",
    "value.serializer": "values must be string or binary columns",
    "transactional.id": "use deliveryGuarantee=exactly-once and transactionalIdPrefix",
}
PREFIX = "kafka."
ARCHIVE_PREFIX = "archive."
# As Java trims texts.
BLANKS = "".join(map(chr, range(33)))
TOPIC_CHARS_MAX = 249
AT_LEAST_ONCE = "at-least-once"
EXACTLY_ONCE = "exactly-once"
APP_ID_CHARS_MAX = 200
# Of members of a group; any value goes, since nothing is done with it.
WITHOUT_A_GROUP = {
    "group.id",
    "group.instance.id",
    "heartbeat.interval.ms",
    "max.poll.interval.ms",
    "partition.assignment.strategy",
    "session.timeout.ms",
}


@dataclass(frozen=True, slots=True)
class KeyedWrite:
    """A batch write that is done once however often it is repeated."""

    app_id: str
    version: int
    run: str = ""
    """The run of the streaming query that it is a part of, where `in_batch` says so."""


@dataclass(frozen=True, slots=True)
class ExactlyOnce:
    """How the exactly-once sink is to be known to the cluster."""

    name: str | None
    """The prefix of its transactional ids; None when nothing says it."""
    timeout_ms: int | None
    """Of its transactions; None for the longest that brokers allow."""
    write: KeyedWrite | None = None
    """Which repeated write this may be."""
    checkpoint: str | None = None
    """Where the query's checkpoint is, as the option says."""
    query_name: str = ""
    writes_forgotten: bool = False
    """Whether a batch is written that may have been decided before brokers forgot."""


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """Everything a write may choose."""

    client: ClientConfig
    topic: str | None
    exactly_once: ExactlyOnce | None = None
    """None: at least once."""
    keep_timestamps: bool = False
    """Records have the timestamps of the column, not the time of writing."""


class _Options:
    """Options by their familiar spelling, whatever case they came in."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = {key.lower(): str(value) for key, value in given.items()}

    def get(self, name: str) -> str | None:
        return self._given.get(name.lower())

    def starting(self, prefix: str) -> tuple[tuple[str, str], ...]:
        """All options whose names start so, without that."""
        return tuple(
            sorted(
                (key.removeprefix(prefix), value)
                for key, value in self._given.items()
                if key.startswith(prefix)
            )
        )

    def boolean(self, name: str, default: bool) -> bool:
        text = self.get(name)
        if text is None:
            return default
        if text.strip().lower() not in ("true", "false"):
            raise OptionError(name, text, "must be true or false")
        return text.strip().lower() == "true"

    def positive(self, name: str) -> int | None:
        text = self.get(name)
        if text is None:
            return None
        number = _whole(text)
        if number is None or number < 1:
            raise OptionError(name, text, "must be a positive whole number")
        return number

    def size_bytes(self, name: str) -> int | None:
        """A size such as 1073741824, 512k or 1g, as Spark spells them."""
        text = self.get(name)
        if text is None:
            return None
        match = re.fullmatch(r"\s*([0-9]{1,19})\s*([kmgtp]?)b?\s*", text.lower())
        size = int(match[1]) << 10 * " kmgtp".index(match[2] or " ") if match else 0
        if not 1 <= size <= INT64_MAX:
            raise OptionError(name, text, "must be a size in bytes above 0, like 512m or 10g")
        return size

    def check_names(self) -> None:
        """Refuse what looks like a misspelt option; mention others that mean nothing here."""
        known = {name.lower(): name for name in (*NAMES, *WITHOUT_EFFECT, *SPARKS_OWN)}
        for key, value in self._given.items():
            if key in known or key.startswith((PREFIX, ARCHIVE_PREFIX)):
                continue
            close = difflib.get_close_matches(key, known, n=1, cutoff=0.85)
            if close:
                raise OptionError(key, value, f"unknown; did you mean {known[close[0]]}?")
            log.warning("option %s has no meaning for fencepost and is ignored", key)
        for name in WITHOUT_EFFECT:
            if self.get(name) is not None:
                log.warning("option %s has no effect with fencepost", name)

    def client(self, rejected: Mapping[str, str], **defaults: object) -> ClientConfig:
        """The kafka.* options as client properties."""
        props = {
            key.removeprefix(PREFIX): value
            for key, value in self._given.items()
            if key.startswith(PREFIX)
        }
        for key, reason in rejected.items():
            if key in props:
                raise OptionError(PREFIX + key, props[key], f"not supported: {reason}")
        if "bootstrap.servers" not in props:
            raise OptionError(
                "kafka.bootstrap.servers", None, "required: the brokers, as HOST:PORT,HOST:PORT"
            )
        for key in sorted(set(props) & WITHOUT_A_GROUP):
            del props[key]
            name_once([(PREFIX + key, "fencepost reads without a consumer group")])
        try:
            return ClientConfig.from_props({**defaults, **props})
        except ConfigError as error:
            raise OptionError(PREFIX + error.key, error.value, error.allowed) from error


def source_options(given: Mapping[str, str], *, streaming: bool) -> SourceOptions:
    """Options of a read; raises OptionError for the first that is wrong."""
    options = _Options(given)
    options.check_names()
    client = options.client(REJECTED_FOR_SOURCES, **{"client.id": "fencepost-spark"})
    if streaming:
        for name in ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"):
            if options.get(name) is not None:
                raise OptionError(name, options.get(name), "a stream has no end")
    else:
        for name in ("maxOffsetsPerTrigger", "maxBytesPerTrigger"):
            if options.get(name) is not None:
                log.warning("%s has no effect on a batch read", name)
    start = _bound(options, "starting", Point.LATEST if streaming else Point.EARLIEST)
    if not streaming:
        _require_readable(options, start)
    end = _bound(options, "ending", Point.LATEST)
    if end is Point.EARLIEST or (isinstance(end, AtOffsets) and EARLIEST in end.offsets.values()):
        raise OptionError("endingOffsets", options.get("endingOffsets"), "must not be earliest")
    most = options.positive("maxOffsetsPerTrigger")
    least = options.positive("minOffsetsPerTrigger")
    if most is not None and least is not None and least > most:
        raise OptionError("minOffsetsPerTrigger", least, f"exceeds maxOffsetsPerTrigger={most}")
    return SourceOptions(
        client=client,
        subscription=_subscription(options),
        start=start,
        end=end,
        fail_on_data_loss=options.boolean("failOnDataLoss", True),
        include_headers=options.boolean("includeHeaders", False),
        max_offsets_per_trigger=most,
        min_offsets_per_trigger=least,
        max_trigger_delay_ms=_duration_ms("maxTriggerDelay", options.get("maxTriggerDelay")),
        min_partitions=options.positive("minPartitions"),
        max_records_per_partition=options.positive("maxRecordsPerPartition"),
        plain_offsets=options.boolean("plainOffsets", False),
        stall_timeout_ms=options.positive("kafkaConsumer.pollTimeoutMs") or 120_000,
        commit_group=_commit_group(options),
        archive=_archive(options),
        max_bytes_per_trigger=options.size_bytes("maxBytesPerTrigger"),
    )


def _archive(options: _Options) -> Archive | None:
    directory = options.get("archive")
    if directory is None:
        return None
    if not directory.strip():
        raise OptionError("archive", directory, "must be the directory of an archive")
    from fencepost.arrow.archive.serving import ServedArchive  # reads without one do without
    from fencepost.arrow.errors import ArchiveReadError

    archive = ServedArchive(directory, options.starting(ARCHIVE_PREFIX))
    try:
        archive.topics()
    except ArchiveReadError as error:
        raise OptionError("archive", directory, str(error)) from error
    return archive


def _require_readable(options: _Options, start: Bound) -> None:
    """A batch read that begins at the end is a mistake, of one partition as well."""
    text = options.get("startingOffsets")
    if start is Point.LATEST:
        raise OptionError("startingOffsets", text, "a batch read would read nothing")
    offsets = start.offsets if isinstance(start, AtOffsets) else {}
    at_end = [partition for partition, offset in offsets.items() if offset == LATEST]
    if at_end:
        raise OptionError(
            "startingOffsets",
            text,
            f"a batch read cannot begin at the end (-1), as of {', '.join(map(str, at_end[:5]))}",
        )


def _commit_group(options: _Options) -> str | None:
    name = "commitOffsetsToGroup"
    group = options.get(name)
    if group is not None and not group.strip():
        raise OptionError(name, group, "must not be empty")
    return group


def sink_options(given: Mapping[str, str]) -> SinkOptions:
    """Options of a write; raises OptionError for the first that is wrong."""
    options = _Options(given)
    options.check_names()
    defaults = {
        "client.id": "fencepost-spark",
        "allow.auto.create.topics": "true",  # as with Spark's connector, if the brokers allow it
    }
    topic = options.get("topic")
    if topic is not None and not topic.strip():
        raise OptionError("topic", topic, "must not be empty")
    client = options.client(REJECTED_FOR_SINKS, **defaults)
    keep_timestamps = options.boolean("keepTimestamps", False)
    return SinkOptions(client, topic, _exactly_once(options, client), keep_timestamps)


def _exactly_once(options: _Options, client: ClientConfig) -> ExactlyOnce | None:
    name = "deliveryGuarantee"
    guarantee = options.get(name) or AT_LEAST_ONCE
    prefix = options.get("transactionalIdPrefix")
    if guarantee.strip().lower() not in (AT_LEAST_ONCE, EXACTLY_ONCE):
        raise OptionError(name, guarantee, f"must be {AT_LEAST_ONCE} or {EXACTLY_ONCE}")
    if guarantee.strip().lower() == AT_LEAST_ONCE:
        for needing in (
            "transactionalIdPrefix",
            "txnAppId",
            "txnVersion",
            "txnRun",
            "forgottenBatch",
        ):
            if options.get(needing) is not None:
                raise OptionError(needing, options.get(needing), f"needs {name}={EXACTLY_ONCE}")
        return None
    if not client.enable_idempotence:
        raise OptionError(PREFIX + "enable.idempotence", "false", f"not with {name}={EXACTLY_ONCE}")
    if prefix is not None and not re.fullmatch(r"[\w.-]{1,200}", prefix, re.ASCII):
        raise OptionError(
            "transactionalIdPrefix",
            prefix,
            "must be 1 to 200 letters, digits, dots, dashes and underscores",
        )
    is_given = options.get(PREFIX + "transaction.timeout.ms") is not None
    return ExactlyOnce(
        prefix,
        client.transaction_timeout_ms if is_given else None,
        _keyed_write(options),
        options.get("checkpointLocation"),
        options.get("queryName") or "",
        _writes_forgotten(options),
    )


def _keyed_write(options: _Options) -> KeyedWrite | None:
    app_id, version = options.get("txnAppId"), options.get("txnVersion")
    if app_id is None and version is None:
        return None
    if app_id is None or version is None:
        missing = "txnAppId" if app_id is None else "txnVersion"
        raise OptionError(missing, None, "txnAppId and txnVersion belong together")
    if not app_id.isprintable() or not 1 <= len(app_id) <= APP_ID_CHARS_MAX:
        raise OptionError("txnAppId", app_id, f"must be 1 to {APP_ID_CHARS_MAX} printable letters")
    number = _whole(version)
    if number is None:
        raise OptionError("txnVersion", version, f"must be a whole number from 0 to {INT64_MAX}")
    return KeyedWrite(app_id, number, options.get("txnRun") or "")


def _writes_forgotten(options: _Options) -> bool:
    name = "forgottenBatch"
    text = (options.get(name) or "fail").strip().lower()
    if text not in ("fail", "write"):
        raise OptionError(name, text, "must be fail or write")
    return text == "write"


def wants_headers(given: Mapping[str, str]) -> bool:
    """Whether includeHeaders is on; for the schema, which is asked for before anything else."""
    return _Options(given).boolean("includeHeaders", False)


def _subscription(options: _Options) -> Subscription:
    names = ("assign", "subscribe", "subscribePattern")
    given = [name for name in names if options.get(name) is not None]
    if len(given) != 1:
        raise OptionError(
            given[1] if given else "subscribe",
            options.get(given[1]) if given else None,
            f"exactly one of {', '.join(names)} is required",
        )
    name, text = given[0], options.get(given[0]) or ""
    if name == "assign":
        return Subscription(assigned=_assigned(text))
    if name == "subscribe":
        topics = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
        if not topics:
            raise OptionError(name, text, "names no topic")
        if any(len(topic) > TOPIC_CHARS_MAX for topic in topics):
            raise OptionError(name, text, f"topics have at most {TOPIC_CHARS_MAX} characters")
        return Subscription(topics=topics)
    text = text.strip(BLANKS)
    if not text:
        raise OptionError(name, text, "must not be empty")
    try:
        matcher(text)
    except PatternError as error:
        raise OptionError(name, text, str(error)) from error
    return Subscription(pattern=text)


def _assigned(text: str) -> tuple[TopicPartition, ...]:
    allowed = 'must be JSON like {"topic":[0,1]}'
    parsed = _json_object("assign", text, allowed)
    partitions = []
    for topic, numbers in parsed.items():
        if not isinstance(numbers, list) or not all(
            type(number) is int and number >= 0 for number in numbers
        ):
            raise OptionError("assign", text, allowed)
        partitions += [TopicPartition(topic, number) for number in numbers]
    if not partitions:
        raise OptionError("assign", text, "names no partition")
    return tuple(sorted(set(partitions)))


def _bound(options: _Options, side: str, default: Point) -> Bound:
    """One end of a read. A common timestamp beats one per partition, which beats offsets."""
    or_latest = side == "ending" or _or_latest(options)
    name = f"{side}Timestamp"
    text = options.get(name)
    if text is not None:
        if text.strip().startswith("-"):
            relative = _relative(name, text)
            if isinstance(relative, AtTimestamps):
                return relative
        time_ms = _whole(text)
        if time_ms is None:
            raise OptionError(
                name, text, "must be milliseconds since 1970, or a time ago like -10 minutes"
            )
        return AtTimestamps(time_ms, None, or_latest)
    name = f"{side}OffsetsByTimestamp"
    text = options.get(name)
    if text is not None:
        allowed = 'must be JSON of milliseconds like {"topic":{"0":1000}}'
        stamps = _partition_numbers(name, text, allowed)
        if any(value < 0 for value in stamps.values()):
            raise OptionError(name, text, "timestamps must not be negative")
        return AtTimestamps(None, stamps, or_latest)
    name = f"{side}Offsets"
    text = options.get(name)
    if text is None:
        return default
    if text.strip().lower() in ("earliest", "latest"):
        return Point[text.strip().upper()]
    if text.strip().startswith("-"):
        return _relative(name, text)
    allowed = 'must be earliest, latest or JSON like {"topic":{"0":23,"1":-1}}'
    offsets = _partition_numbers(name, text, allowed)
    if any(value < EARLIEST for value in offsets.values()):
        raise OptionError(name, text, "offsets must be at least 0, or -1 (latest), -2 (earliest)")
    return AtOffsets(offsets)


def _whole(text: str) -> int | None:
    """A number of 64 bits that is not negative."""
    if not re.fullmatch(r"\s*[0-9]{1,19}\s*", text) or int(text) > INT64_MAX:
        return None
    return int(text)


def _relative(name: str, text: str) -> AtTimestamps | BeforeEnd:
    """See `bounds.relative`. OptionError."""
    try:
        return relative(text)
    except ValueError as error:
        raise OptionError(name, text, str(error)) from error


def _or_latest(options: _Options) -> bool:
    name = "startingOffsetsByTimestampStrategy"
    text = (options.get(name) or "error").strip().lower()
    if text not in ("error", "latest"):
        raise OptionError(name, text, "must be error or latest")
    return text == "latest"


def _partition_numbers(name: str, text: str, allowed: str) -> dict[TopicPartition, int]:
    parsed = _json_object(name, text, allowed)
    try:
        return {
            partition: position.offset
            for partition, position in StreamOffset.from_json(
                parsed, negative=True
            ).positions.items()
        }
    except ValueError as error:
        raise OptionError(name, text, f"{allowed}; {error}") from error


def _json_object(name: str, text: str, allowed: str) -> dict[str, Any]:
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise OptionError(name, text, f"{allowed}; {error}") from error
    if not isinstance(parsed, dict):
        raise OptionError(name, text, allowed)
    return parsed


def _duration_ms(name: str, text: str | None) -> int:
    """Spark's short durations such as 15m; 15 minutes when not given."""
    if text is None:
        return 15 * 60_000
    match = re.fullmatch(r"\s*(\d{1,18})\s*([a-z]*)\s*", text.lower())
    unit = unit_ms(match[2] or "ms") if match else None
    if match is None or unit is None:
        raise OptionError(name, text, f"must be a duration like 30s; units are {list(UNITS_MS)}")
    return int(match[1]) * unit
