"""What callers of `read`, `scan` and `stream` say, as options of a read."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from fencepost.arrow.bounds import parse_bound
from fencepost.arrow.errors import ArchiveReadError, ArgumentError
from fencepost.arrow.options import AtOffsets, Bound, Point, SourceOptions, Subscription
from fencepost.client.config import ClientConfig
from fencepost.client.metadata import TopicPartition
from fencepost.client.offsets import EARLIEST

if TYPE_CHECKING:
    from fencepost.arrow.archives import Archive

Servers = str | Mapping[str, object] | ClientConfig
TOPIC_CHARS_MAX: Final = 249
_PARTITION_MAX: Final = 2**31 - 1
_LOSS: Final = {"error": True, "warn": False}


def client_of(servers: Servers, isolation: str | None) -> ClientConfig:
    """The client's settings; `isolation` beats the property. ConfigError, ArgumentError."""
    if isinstance(servers, ClientConfig):
        if isolation is None:
            return servers
        props: dict[str, object] = {"isolation.level": isolation}
        level = ClientConfig.from_props(props).isolation_level
        return servers.with_settings({"isolation_level": level})
    if isinstance(servers, str):
        servers = {"bootstrap.servers": servers}
    if not isinstance(servers, Mapping) or not servers.get("bootstrap.servers"):
        raise ArgumentError(
            "servers", servers, 'must be "HOST:PORT,HOST:PORT" or properties of a Kafka client'
        )
    given = {"client.id": "fencepost-arrow", **servers}
    if isolation is not None:
        given["isolation.level"] = isolation
    return ClientConfig.from_props(given)


def subscription_of(topics: object, pattern: object, assign: object) -> Subscription:
    """Which partitions; exactly one of the three must be given. ArgumentError."""
    given = {
        name: value
        for name, value in (("topics", topics), ("pattern", pattern), ("assign", assign))
        if value is not None
    }
    if len(given) != 1:
        name, value = list(given.items())[-1] if given else ("topics", None)
        allowed = "exactly one of topics, pattern and assign is required"
        raise ArgumentError(name, value, allowed)
    if pattern is not None:
        return Subscription(pattern=_pattern(pattern))
    if topics is not None:
        return Subscription(topics=_topics(topics))
    return Subscription(assigned=_assigned(assign))


def _topics(topics: object) -> tuple[str, ...]:
    names = [topics] if isinstance(topics, str) else topics
    if not isinstance(names, Iterable):
        raise ArgumentError("topics", topics, "must be the name of a topic, or several")
    found = tuple(dict.fromkeys(_topic("topics", name) for name in names))
    if not found:
        raise ArgumentError("topics", topics, "names no topic")
    return found


def _topic(argument: str, name: object) -> str:
    if not isinstance(name, str) or not 0 < len(name) <= TOPIC_CHARS_MAX:
        raise ArgumentError(argument, name, f"topics have 1 to {TOPIC_CHARS_MAX} characters")
    return name


def _pattern(pattern: object) -> str:
    if not isinstance(pattern, str) or not pattern.strip():
        raise ArgumentError("pattern", pattern, "must be a regular expression")
    try:
        from fencepost.arrow.java_regex import PatternError, matcher
    except ImportError as error:
        allowed = "patterns need RE2: pip install 'fencepost[arrow,regex]'"
        raise ArgumentError("pattern", pattern, allowed) from error
    try:
        matcher(pattern)
    except PatternError as error:
        raise ArgumentError("pattern", pattern, str(error)) from error
    return pattern


def _assigned(assign: object) -> tuple[TopicPartition, ...]:
    allowed = 'must be partitions by topic like {"orders": [0, 1]}'
    if not isinstance(assign, Mapping) or not assign:
        raise ArgumentError("assign", assign, allowed)
    partitions = set()
    for topic, numbers in assign.items():
        if isinstance(numbers, str | bytes) or not isinstance(numbers, Iterable):
            raise ArgumentError("assign", assign, allowed)
        for number in numbers:
            if type(number) is not int or not 0 <= number <= _PARTITION_MAX:
                raise ArgumentError("assign", assign, allowed)
            partitions.add(TopicPartition(_topic("assign", topic), number))
    if not partitions:
        raise ArgumentError("assign", assign, "names no partition")
    return tuple(sorted(partitions))


def positive(argument: str, value: object) -> int | None:
    """A whole number above 0, or None. ArgumentError."""
    if value is None:
        return None
    if type(value) is not int or value < 1:
        raise ArgumentError(argument, value, "must be a positive whole number")
    return value


def end_of(value: object) -> Bound:
    """The end of a read that has one. ArgumentError."""
    end = parse_bound("end", value)
    if end is Point.EARLIEST or (isinstance(end, AtOffsets) and EARLIEST in end.offsets.values()):
        raise ArgumentError("end", value, "must not be earliest")
    return end


def archive_of(directory: object, options: object) -> Archive | None:
    """The archive in which a read begins, if one is named. ArgumentError."""
    if directory is None:
        if options is not None:
            raise ArgumentError("archive_options", options, "are of an archive, and none is named")
        return None
    if not isinstance(directory, str | os.PathLike) or not os.fspath(directory).strip():
        raise ArgumentError("archive", directory, "must be the directory of an archive")
    given = {} if options is None else options
    if not isinstance(given, Mapping) or not all(
        isinstance(name, str) and isinstance(value, str | int | float)
        for name, value in given.items()
    ):
        raise ArgumentError("archive_options", options, "must be settings of a store by name")
    from fencepost.arrow.archive.serving import ServedArchive  # reads without one do without
    from fencepost.arrow.storage import absolute

    archive = ServedArchive(absolute(directory), tuple(sorted(given.items())))
    try:
        archive.topics()
    except ArchiveReadError as error:
        raise ArgumentError("archive", os.fspath(directory), str(error)) from error
    return archive


def source_options(
    client: ClientConfig,
    subscription: Subscription,
    *,
    start: Bound,
    end: Bound = Point.LATEST,
    on_data_loss: object,
    max_offsets: object = None,
    min_partitions: object = None,
    stall_timeout_ms: object,
    archive: Archive | None = None,
) -> SourceOptions:
    """The options of a read. ArgumentError."""
    if not isinstance(on_data_loss, str) or on_data_loss not in _LOSS:
        raise ArgumentError("on_data_loss", on_data_loss, 'must be "error" or "warn"')
    return SourceOptions(
        client=client,
        subscription=subscription,
        start=start,
        end=end,
        fail_on_data_loss=_LOSS[on_data_loss],
        include_headers=False,
        max_offsets_per_trigger=positive("max_offsets", max_offsets),
        min_offsets_per_trigger=None,
        max_trigger_delay_ms=0,
        min_partitions=positive("min_partitions", min_partitions),
        max_records_per_partition=None,
        plain_offsets=False,
        stall_timeout_ms=_required("stall_timeout_ms", stall_timeout_ms),
        archive=archive,
    )


def _required(argument: str, value: Any) -> int:
    number = positive(argument, value)
    if number is None:
        raise ArgumentError(argument, value, "must be a positive whole number")
    return number
