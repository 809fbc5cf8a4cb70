"""Where a read begins and ends, as people say it: by name, time, distance or offsets.

Texts such as `-10 minutes` and `-1000 offsets` mean the same in options of Spark.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from fencepost.arrow.errors import ArgumentError
from fencepost.arrow.offsets import EXTRA, StreamOffset
from fencepost.arrow.options import AtOffsets, AtTimestamps, BeforeEnd, Bound, Point
from fencepost.client.offsets import EARLIEST, LATEST

UNITS_MS: Final = {
    "ms": 1,
    "millisecond": 1,
    "s": 1000,
    "sec": 1000,
    "second": 1000,
    "m": 60_000,
    "min": 60_000,
    "minute": 60_000,
    "h": 3_600_000,
    "hour": 3_600_000,
    "d": 86_400_000,
    "day": 86_400_000,
    "w": 604_800_000,
    "week": 604_800_000,
}
RELATIVE_ALLOWED: Final = "must be like -10 minutes, -2h, -1 day or -1000 offsets"
_ALLOWED: Final = (
    'must be "earliest", "latest", a datetime with a time zone, a timedelta, a text like '
    '"-10 minutes" or "-1000 offsets", or offsets by topic and partition like {"orders": {0: 23}}'
)
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_POINTS: Final = {"earliest": EARLIEST, "latest": LATEST}


def unit_ms(name: str) -> int | None:
    """Milliseconds of a unit of time, whose name may be a plural; None for others."""
    return UNITS_MS.get(name) or UNITS_MS.get(name.removesuffix("s"))


def relative(text: str) -> AtTimestamps | BeforeEnd:
    """ "-10 minutes": that long ago by this machine's clock, the end where nothing is so young;
    "-1000 offsets": so many before the end. ValueError for other texts."""
    match = re.fullmatch(r"-\s*(\d{1,18})\s*([a-z]+)", text.strip().lower())
    if match and match[2] in ("offset", "offsets"):
        return BeforeEnd(int(match[1]))
    unit = unit_ms(match[2]) if match else None
    if match is None or unit is None:
        raise ValueError(RELATIVE_ALLOWED)
    return _ago(int(match[1]) * unit)


def _ago(ago_ms: int) -> AtTimestamps:
    return AtTimestamps(max(0, time.time_ns() // 1_000_000 - ago_ms), None, or_latest=True)


def parse_bound(argument: str, value: object) -> Bound:
    """The bound that a caller gave as `argument`. ArgumentError."""
    if isinstance(value, str):
        return _named(argument, value)
    if isinstance(value, datetime):
        return AtTimestamps(_time_ms(argument, value), None, or_latest=True)
    if isinstance(value, timedelta):
        if value < timedelta(0):
            raise ArgumentError(argument, value, "a timedelta says how long ago: it is positive")
        return _ago(value // timedelta(milliseconds=1))
    if isinstance(value, Mapping):
        return _by_partition(argument, value)
    raise ArgumentError(argument, value, _ALLOWED)


def _named(argument: str, text: str) -> Bound:
    known = text.strip().lower()
    if known in _POINTS:
        return Point[known.upper()]
    try:
        return relative(text)
    except ValueError as error:
        raise ArgumentError(argument, text, _ALLOWED) from error


def _time_ms(argument: str, value: datetime) -> int:
    if value.tzinfo is None:
        raise ArgumentError(argument, value, "a datetime must have a time zone")
    # In whole numbers, rounded up: the first record at or after a time.
    micros = (value - EPOCH) // timedelta(microseconds=1)
    return max(0, -(-micros // 1000))


def _by_partition(argument: str, given: Mapping[Any, Any]) -> Bound:
    if EXTRA in given:
        raise ArgumentError(
            argument, given, "is a position of a stream, which stream(position=...) goes on from"
        )
    offsets: dict[str, dict[str, Any]] = {}
    times = False
    for topic, entries in given.items():
        if not isinstance(topic, str) or not isinstance(entries, Mapping):
            raise ArgumentError(argument, given, _ALLOWED)
        for partition, entry in entries.items():
            number = _POINTS.get(entry, entry) if isinstance(entry, str) else entry
            if isinstance(entry, datetime):
                times, number = True, _time_ms(argument, entry)
            offsets.setdefault(topic, {})[str(partition)] = number
    if times and not all(
        isinstance(entry, datetime) for entries in given.values() for entry in entries.values()
    ):
        raise ArgumentError(argument, given, "must have either offsets or times, not both")
    try:
        parsed = StreamOffset.from_json(offsets, negative=True).positions
    except ValueError as error:
        raise ArgumentError(argument, given, f"{_ALLOWED}; {error}") from error
    numbers = {partition: position.offset for partition, position in parsed.items()}
    if not numbers or min(numbers.values()) < EARLIEST:
        raise ArgumentError(argument, given, _ALLOWED)
    return AtTimestamps(None, numbers, or_latest=True) if times else AtOffsets(numbers)
