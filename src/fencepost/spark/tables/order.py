"""Which of two events of a key is the later one.

A table has one of three orders:

* `topic`: offsets of one partition. A key whose events are in two partitions has no order: that
  happens when partitions are added and keys move, and is refused (`UnorderedError`).
* `timestamp`: the record's timestamp, then partition, then offset: a total order, whatever
  partition a key is in.
* `source`: the position that a change has in the database's own log, as Debezium's `source` block
  tells it. Positions of one log are compared; where an event has none, or the two are of different
  logs (a failover, another connector), the topic's order decides.

| connector | position, the first part counting most |
|---|---|
| PostgreSQL | `lsn`, or the second part of `sequence` |
| MySQL, MariaDB | number of the GTID (of one source), else of `file`; `pos`, `row` |
| SQL Server, Db2 | `commit_lsn`, `change_lsn`, `event_serial_no` |
| Oracle | `scn`, `rs_id`, `ssn` |
| MongoDB | `ts_ms`, `ord` |
| others | `ts_ns`, `ts_us` or `ts_ms` |

A row of PostgreSQL, MySQL or Oracle is locked from its change to the end of the transaction, so
positions of one key rise in the order of commits. Two events at one exact position are one event,
sent again. Clocks and what MongoDB tells are not exact, and neither is Oracle without `rs_id`: of
two events at one position the topic's order decides.

A position is bytes that are compared as such, and a lineage, the log that it is a position of.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from fencepost.spark.tables.errors import UnorderedError

TOPIC: Final = "topic"
TIMESTAMP: Final = "timestamp"
SOURCE: Final = "source"
ORDERS: Final = (TOPIC, TIMESTAMP, SOURCE)
NOT_EXACT: Final = "~"
"""Begins the lineage of positions that two events may share."""
TEXT_MAX: Final = 1000
_NUMBER_BYTES: Final = 16
_LOG_FILE: Final = re.compile(r"(.*?)\.?(\d{1,18})")

Position = tuple[str, bytes]
"""Lineage, and what is compared within it."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where an event is: in the topic, and in its database's log if it says so."""

    generation: int
    """How often the topic was replaced by another, or its log rewritten, since the table began."""
    partition: int
    offset: int
    timestamp_ms: int | None = None
    position: Position | None = None


def is_later(one: Place, other: Place, order: str) -> int:
    """1 if `one` is later than `other`, -1 if it is earlier, 0 if they are the same event.

    UnorderedError where nothing tells.
    """
    if order == TIMESTAMP:
        return _sign(_by_time(one), _by_time(other))
    if order == SOURCE and one.position and other.position:
        (lineage, at), (other_lineage, other_at) = one.position, other.position
        if lineage == other_lineage and (at != other_at or not lineage.startswith(NOT_EXACT)):
            return _sign(at, other_at)
    return in_topic(one, other)


def in_topic(one: Place, other: Place) -> int:
    """The order of the topic alone; see `is_later`."""
    if one.generation == other.generation and one.partition != other.partition:
        raise UnorderedError(
            f"offset {one.offset} of partition {one.partition} and offset {other.offset} of "
            f"partition {other.partition} are of one key and have no order: give the table "
            f"order={TIMESTAMP!r}, or {SOURCE!r} where events tell their place in the database"
        )
    return _sign((one.generation, one.offset), (other.generation, other.offset))


def _by_time(one: Place) -> tuple[int, int, int, int]:
    at = -1 if one.timestamp_ms is None else one.timestamp_ms
    return (at, one.generation, one.partition, one.offset)


def _sign(one: Any, other: Any) -> int:
    return (one > other) - (one < other)


# -- positions -------------------------------------------------------------------------------------


def position_of(source: Mapping[str, Any]) -> Position | None:
    """The position that a `source` block tells; None where it tells none. ValueError for one that
    makes no sense."""
    connector = _text(source.get("connector")) or _guessed(source)
    maker = _MAKERS.get(connector, _by_clock)
    found = maker(source)
    if found is None and maker is not _by_clock:
        found = _by_clock(source)
    if found is None:
        return None
    lineage, at = found
    mark = NOT_EXACT if lineage.startswith(NOT_EXACT) else ""
    name = _text(source.get("name"))
    return f"{mark}{connector}:{name}:{lineage.removeprefix(NOT_EXACT)}", at


def _guessed(source: Mapping[str, Any]) -> str:
    """The connector of flattened events, which need not name it."""
    for field, connector in (
        ("gtid", "mysql"),
        ("file", "mysql"),
        ("commit_lsn", "sqlserver"),
        ("change_lsn", "sqlserver"),
        ("lsn", "postgresql"),
        ("sequence", "postgresql"),
        ("scn", "oracle"),
        ("ord", "mongodb"),
    ):
        if source.get(field) is not None:
            return connector
    return ""


def _postgresql(source: Mapping[str, Any]) -> Position | None:
    lsn = source.get("lsn")
    if lsn is None and source.get("sequence") is not None:
        sequence = source["sequence"]
        try:
            parts = json.loads(sequence) if isinstance(sequence, str) else sequence
        except RecursionError as error:
            raise ValueError("source.sequence is too deep") from error
        if not isinstance(parts, list) or len(parts) != 2:
            raise ValueError(f"source.sequence {str(sequence)[:TEXT_MAX]!r} is no pair")
        lsn = parts[1]
    return None if lsn is None else ("", _number("lsn", lsn))


def _mysql(source: Mapping[str, Any]) -> Position | None:
    inner = b"".join(_number(name, source.get(name) or 0) for name in ("pos", "row"))
    gtid = _text(source.get("gtid"))
    if gtid:
        origin, _, number = gtid.rpartition("-" if ":" not in gtid else ":")
        if ":" not in gtid:  # MariaDB: domain, server, number
            origin = origin.partition("-")[0]
        if origin and number.isascii() and number.isdigit():
            return f"gtid {origin}", _number("gtid", number) + inner
    match = _LOG_FILE.fullmatch(_text(source.get("file")))
    if match is None or source.get("pos") is None:
        return None
    return f"file {match[1]}", _number("file", match[2]) + inner


def _sql_server(source: Mapping[str, Any]) -> Position | None:
    commit = _text(source.get("commit_lsn")).lower()
    if not commit:
        return None
    change = _text(source.get("change_lsn")).lower()
    serial = _number("event_serial_no", source.get("event_serial_no") or 0)
    return _text(source.get("db")), b"\0".join((commit.encode(), change.encode(), serial))


def _oracle(source: Mapping[str, Any]) -> Position | None:
    scn = source.get("scn")
    if scn is None:
        return None
    rs_id = _text(source.get("rs_id")).strip()
    at = _number("scn", scn) + rs_id.encode() + b"\0" + _number("ssn", source.get("ssn") or 0)
    return ("" if rs_id else NOT_EXACT), at


def _mongodb(source: Mapping[str, Any]) -> Position | None:
    at = source.get("ts_ms")
    if at is None:
        return None
    return NOT_EXACT, _number("ts_ms", at) + _number("ord", source.get("ord") or 0)


def _by_clock(source: Mapping[str, Any]) -> Position | None:
    for field, nanoseconds in (("ts_ns", 1), ("ts_us", 1_000), ("ts_ms", 1_000_000)):
        at = source.get(field)
        if at is not None:
            whole = int.from_bytes(_number(field, at), "big") * nanoseconds
            return f"{NOT_EXACT}clock", _number(field, whole)
    return None


_MAKERS: Final[dict[str, Callable[[Mapping[str, Any]], Position | None]]] = {
    "postgresql": _postgresql,
    "mysql": _mysql,
    "mariadb": _mysql,
    "sqlserver": _sql_server,
    "db2": _sql_server,
    "oracle": _oracle,
    "mongodb": _mongodb,
}


def _text(value: Any) -> str:
    if value is None:
        return ""
    text = str(value)
    if len(text) > TEXT_MAX:
        raise ValueError(f"a field of source has {len(text)} characters")
    text.encode()  # ValueError for what is no text
    return text


def _number(field: str, value: Any) -> bytes:
    """A number so that bytes are in the order of numbers. Fields of databases are numbers or text
    of digits. ValueError."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError(f"source.{field} is no whole number: {str(value)[:TEXT_MAX]!r}")
    text = value.strip() if isinstance(value, str) else value
    if isinstance(text, str) and not (text.isascii() and text.isdigit() and len(text) <= 38):
        raise ValueError(f"source.{field} is no whole number: {text[:TEXT_MAX]!r}")
    number = int(text)
    if not 0 <= number < 1 << (8 * _NUMBER_BYTES):
        raise ValueError(f"source.{field} is out of range: {number}")
    return number.to_bytes(_NUMBER_BYTES, "big")
