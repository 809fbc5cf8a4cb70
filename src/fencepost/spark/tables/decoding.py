"""Records of a topic into events of a table's keys, a batch of Arrow at a time."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from fencepost.spark.tables.columns import converter
from fencepost.spark.tables.events import (
    BYTES,
    DELETE,
    ERROR,
    IGNORED,
    TRUNCATE,
    UNAVAILABLE,
    UPSERT,
    Event,
    EventError,
    Placeholder,
    Reading,
    read_events,
)
from fencepost.spark.tables.merging import events_schema

ASIDE: Final = -1
"""The bucket of what is no row: errors, and records that are ignored."""
RECORD_COLUMNS: Final = ("key", "value", "partition", "offset", "timestamp_ms")
RAW_COLUMNS: Final = pa.schema([("key", pa.binary()), ("value", pa.binary())])
"""The table's columns where records are not decoded."""

Registry = tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class Decoding:
    """How records become events; it travels to tasks."""

    decode: str
    key: tuple[str, ...]
    columns: pa.Schema
    buckets: int
    registry: Registry | None = None
    key_registry: Registry | None = None
    placeholder: str = UNAVAILABLE
    wanted: frozenset[str] | None = None
    """Columns that are read from records, if not all: the others are null in new rows."""

    def is_wanted(self, column: pa.Field) -> bool:
        """Whether a column is read from records."""
        return self.wanted is None or column.name in self.wanted

    def reading(self) -> Reading:
        """For `read_events`."""
        columns = {one.name: converter(one.type) for one in self.columns if self.is_wanted(one)}
        return Reading(self.decode, self.key, columns, Placeholder(self.placeholder))


def bucket_of(key: bytes, buckets: int) -> int:
    """The bucket that a key's row is in."""
    return zlib.crc32(key) % buckets


def decode_records(records: pa.RecordBatch, decoding: Decoding) -> pa.RecordBatch:
    """Events of records with `RECORD_COLUMNS`. What cannot be understood is an event, too."""
    if decoding.decode == BYTES:
        return _raw_events(records, decoding)
    reading = decoding.reading()
    rows: list[tuple[int, int, Event]] = []
    keys = documents(records["key"].to_pylist(), decoding.key_registry)
    values = documents(records["value"].to_pylist(), decoding.registry)
    for number, (key, value) in enumerate(zip(keys, values, strict=True)):
        try:
            events = _events(key, value, reading)
        except EventError as error:
            events = [Event(ERROR, error=str(error))]
        rows += [(number, part, event) for part, event in enumerate(events)]
    return _assembled(records, rows, decoding)


def documents(data: Sequence[bytes | None], registry: Registry | None) -> list[Any]:
    """JSON documents; for one that is none an EventError in its place. With a registry what it
    cannot be asked for is raised."""
    if registry is None:
        return [_parsed(one) for one in data]
    from fencepost.spark.formats.registry import registry_for

    found = []
    for text, _, error in registry_for(registry).decode_all(data):
        found.append(EventError(error) if error is not None else _parsed(text))
    return found


def _parsed(data: bytes | str | None) -> Any:
    if data is None:
        return None
    try:
        return json.loads(data.decode() if isinstance(data, bytes) else data)
    except (ValueError, RecursionError) as error:
        return EventError(f"no JSON: {error}")


def _events(key: Any, value: Any, reading: Reading) -> list[Event]:
    if isinstance(value, EventError):
        raise EventError(f"value: {value}")
    if isinstance(key, EventError):
        raise EventError(f"key: {key}")
    return read_events(key, value, reading)


def _raw_events(records: pa.RecordBatch, decoding: Decoding) -> pa.RecordBatch:
    rows = []
    values = records["value"].is_null().to_pylist()
    for number, (key, no_value) in enumerate(zip(records["key"].to_pylist(), values, strict=True)):
        if key is None:
            rows.append((number, 0, Event(ERROR, error="the record has no key")))
        else:
            rows.append((number, 0, Event(DELETE if no_value else UPSERT, key)))
    row = pa.StructArray.from_arrays(
        [records["key"], records["value"]], fields=list(decoding.columns)
    )
    return _assembled(records, rows, decoding, row)


def _assembled(
    records: pa.RecordBatch,
    found: list[tuple[int, int, Event]],
    decoding: Decoding,
    row: pa.Array | None = None,
) -> pa.RecordBatch:
    schema = events_schema(decoding.columns)
    rows = [one for event in found for one in _with_buckets(event, decoding.buckets)]
    at = pa.array([number for _, number, _, _ in rows], pa.int64())
    events = [event for *_, event in rows]
    kept = [number if bucket == ASIDE else None for bucket, number, _, _ in rows]
    raw = pa.array(kept, pa.int64())
    columns: dict[str, Any] = {
        "bucket": [bucket for bucket, *_ in rows],
        "kind": [event.kind for event in events],
        "key": [event.key for event in events],
        "row": [event.row for event in events] if row is None else row,
        "unavailable": [event.unavailable or None for event in events],
        "lineage": [event.position and event.position[0] for event in events],
        "position": [event.position and event.position[1] for event in events],
        "op": [event.op for event in events],
        "part": [part for _, _, part, _ in rows],
        "error": [event.error or None for event in events],
        "raw_key": records["key"].take(raw),
        "raw_value": records["value"].take(raw),
        **{name: records[name].take(at) for name in ("partition", "offset", "timestamp_ms")},
    }
    arrays = [_array(columns[field.name], field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _array(values: Any, kind: pa.DataType) -> pa.Array:
    return values.cast(kind) if isinstance(values, pa.Array) else pa.array(values, kind)


def _with_buckets(
    found: tuple[int, int, Event], buckets: int
) -> Iterable[tuple[int, int, int, Event]]:
    """An event with the bucket that it goes to: a truncation goes to all."""
    number, part, event = found
    if event.kind == TRUNCATE:
        return [(bucket, number, part, event) for bucket in range(buckets)]
    if event.kind in (ERROR, IGNORED):
        return [(ASIDE, number, part, event)]
    return [(bucket_of(event.key, buckets), number, part, event)]
