"""Options of `.format("fencepost")`: the names, defaults and rules of Spark's own Kafka connector.

Spark hands options over with lower-cased keys; texts and errors use the spelling people know. What
starts with "kafka." goes to our client, which refuses what it does not know. Everything is checked
on the driver, before a task starts, and ends up in frozen plain data that travels in pickles.

Ours, beside Spark's: `plainOffsets=true` keeps topic ids and leader epochs out of the checkpoint,
so that a query can move back to Spark's connector (and loses the detection of rewritten logs).
"""

from __future__ import annotations

import difflib
import json
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from fencepost.client.config import ClientConfig
from fencepost.client.errors import ConfigError
from fencepost.client.metadata import TopicPartition
from fencepost.client.offsets import EARLIEST, LATEST
from fencepost.spark.offsets import StreamOffset

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
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "minPartitions",
    "maxRecordsPerPartition",
    "includeHeaders",
    "kafkaConsumer.pollTimeoutMs",
    "plainOffsets",
    "topic",
)
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
}
PREFIX = "kafka."


class OptionError(ValueError):
    """An option has a wrong name or value; the text names it and says what is allowed."""

    def __init__(self, name: str, value: object, allowed: str) -> None:
        super().__init__(f"option {name}={value!r}: {allowed}")


class Point(Enum):
    """A place in a log known by name."""

    EARLIEST = EARLIEST
    LATEST = LATEST


@dataclass(frozen=True, slots=True)
class AtOffsets:
    """An offset for every partition by name; -1 is the end, -2 the beginning."""

    offsets: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class AtTimestamps:
    """The first record at or after a time (ms): one for all partitions, or one for each.

    `or_latest` says what to do where there is no such record: read from the end, or fail.
    """

    common_ms: int | None
    by_partition: Mapping[TopicPartition, int] | None
    or_latest: bool


Bound = Point | AtOffsets | AtTimestamps


@dataclass(frozen=True, slots=True)
class Subscription:
    """Which partitions: exactly one of the three is set."""

    assigned: tuple[TopicPartition, ...] | None = None
    topics: tuple[str, ...] | None = None
    pattern: str | None = None


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """Everything a read may choose."""

    client: ClientConfig
    subscription: Subscription
    start: Bound
    end: Bound
    fail_on_data_loss: bool
    include_headers: bool
    max_offsets_per_trigger: int | None
    min_offsets_per_trigger: int | None
    max_trigger_delay_ms: int
    min_partitions: int | None
    max_records_per_partition: int | None
    plain_offsets: bool
    stall_timeout_ms: int


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """Everything a write may choose."""

    client: ClientConfig
    topic: str | None


class _Options:
    """Options by their familiar spelling, whatever case they came in."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = {key.lower(): str(value) for key, value in given.items()}

    def get(self, name: str) -> str | None:
        return self._given.get(name.lower())

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
        if not text.strip().isdecimal() or int(text) < 1 or int(text) >= 2**63:
            raise OptionError(name, text, "must be a positive whole number")
        return int(text)

    def check_names(self) -> None:
        """Refuse what looks like a misspelt option; mention others that mean nothing here."""
        known = {name.lower(): name for name in (*NAMES, *WITHOUT_EFFECT)}
        for key, value in self._given.items():
            if key in known or key.startswith(PREFIX):
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
        try:
            return ClientConfig.from_props({**defaults, **props})
        except ConfigError as error:
            raise OptionError(PREFIX + error.key, error.value, error.allowed) from error


def source_options(given: Mapping[str, str], *, streaming: bool) -> SourceOptions:
    """Options of a read; raises OptionError for the first that is wrong."""
    options = _Options(given)
    options.check_names()
    client = options.client(REJECTED_FOR_SOURCES, **{"client.id": "fencepost-spark"})
    if client.group_id is not None:
        log.warning("kafka.group.id has no effect: fencepost reads without a consumer group")
    if streaming:
        for name in ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"):
            if options.get(name) is not None:
                raise OptionError(name, options.get(name), "a stream has no end")
    elif options.get("maxOffsetsPerTrigger") is not None:
        log.warning("maxOffsetsPerTrigger has no effect on a batch read")
    start = _bound(options, "starting", Point.LATEST if streaming else Point.EARLIEST)
    if start is Point.LATEST and not streaming:
        raise OptionError("startingOffsets", "latest", "a batch read would read nothing")
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
    )


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
    return SinkOptions(options.client(REJECTED_FOR_SINKS, **defaults), topic)


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
        return Subscription(topics=topics)
    try:
        re.compile(text)
    except re.error as error:
        raise OptionError(name, text, f"is not a regular expression: {error}") from error
    if not text.strip():
        raise OptionError(name, text, "must not be empty")
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
        if not text.strip().isdecimal():
            raise OptionError(name, text, "must be milliseconds since 1970, not negative")
        return AtTimestamps(int(text), None, or_latest)
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
    allowed = 'must be earliest, latest or JSON like {"topic":{"0":23,"1":-1}}'
    offsets = _partition_numbers(name, text, allowed)
    if any(value < EARLIEST for value in offsets.values()):
        raise OptionError(name, text, "offsets must be at least 0, or -1 (latest), -2 (earliest)")
    return AtOffsets(offsets)


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
    except ValueError as error:
        raise OptionError(name, text, f"{allowed}; {error}") from error
    if not isinstance(parsed, dict):
        raise OptionError(name, text, allowed)
    return parsed


_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


def _duration_ms(name: str, text: str | None) -> int:
    """Spark's short durations such as 15m; 15 minutes when not given."""
    if text is None:
        return 15 * 60_000
    match = re.fullmatch(r"\s*(\d+)\s*([a-z]*)\s*", text.lower())
    unit = (match[2] or "ms") if match else ""
    if match is None or unit not in _UNITS_MS:
        raise OptionError(name, text, f"must be a duration like 30s; units are {list(_UNITS_MS)}")
    return int(match[1]) * _UNITS_MS[unit]
