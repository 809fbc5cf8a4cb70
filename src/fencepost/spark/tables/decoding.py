"""Records of a topic into events of a table's keys, a batch of Arrow at a time."""

from __future__ import annotations

import functools
import json
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from fencepost.spark.tables.events import (
    BYTES,
    DELETE,
    ERROR,
    IGNORED,
    TRUNCATE,
    UNAVAILABLE,
    UPSERT,
    Document,
    Event,
    EventError,
    Placeholder,
    Reading,
    read_events,
)
from fencepost.spark.tables.meanings import Node, of_avro, semantic_nodes
from fencepost.spark.tables.merging import events_schema
from fencepost.spark.tables.values import WrittenFloat, converter, has_decimals

ASIDE: Final = -1
"""The bucket of what is no row: errors, and records that are ignored."""
SCHEMAS_MAX: Final = 1000
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
    semantic_types: tuple[tuple[str, str], ...] = ()
    """Of columns that records' schemas say nothing of (`meanings`)."""
    wanted: frozenset[str] | None = None
    """Columns that are read from records, if not all: the others are null in new rows."""

    def is_wanted(self, column: pa.Field) -> bool:
        """Whether a column is read from records."""
        return self.wanted is None or column.name in self.wanted

    def reading(self) -> Reading:
        """For `read_events`."""
        fields = [one for one in self.columns if self.is_wanted(one)]
        columns = {one.name: converter(one.type) for one in fields}
        exact = any(has_decimals(one.type) for one in fields)
        return Reading(
            self.decode,
            self.key,
            columns,
            Placeholder(self.placeholder),
            semantic_nodes(dict(self.semantic_types), self.columns.names),
            _loads_exactly if exact else json.loads,
        )


def bucket_of(key: bytes, buckets: int) -> int:
    """The bucket that a key's row is in."""
    return zlib.crc32(key) % buckets


def decode_records(records: pa.RecordBatch, decoding: Decoding) -> pa.RecordBatch:
    """Events of records with `RECORD_COLUMNS`. What cannot be understood is an event, too."""
    if decoding.decode == BYTES:
        return _raw_events(records, decoding)
    reading = decoding.reading()
    rows: list[tuple[int, int, Event]] = []
    loads = reading.loads
    keys = documents(records["key"].to_pylist(), decoding.key_registry, loads)
    values = documents(records["value"].to_pylist(), decoding.registry, loads)
    for number, (key, value) in enumerate(zip(keys, values, strict=True)):
        try:
            events = _events(key, value, reading)
        except EventError as error:
            events = [Event(ERROR, error=str(error))]
        rows += [(number, part, event) for part, event in enumerate(events)]
    return _assembled(records, rows, decoding)


def documents(
    data: Sequence[bytes | None], registry: Registry | None, loads: Callable[[str | bytes], Any]
) -> list[Document | EventError]:
    """JSON documents, with their schemas where a registry has Avro ones; for what is none an
    EventError in its place. What a registry cannot be asked for is raised."""
    if registry is None:
        return [_parsed(one, None, loads) for one in data]
    from fencepost.schemas.registry import registry_for

    found: list[Document | EventError] = []
    for text, schema_id, error in registry_for(registry).decode_all(data):
        if error is not None:
            found.append(EventError(error))
        else:
            node = None if schema_id is None else _node_of(registry, schema_id)
            found.append(_parsed(text, node, loads))
    return found


@functools.lru_cache(SCHEMAS_MAX)
def _node_of(registry: Registry, schema_id: int) -> Node:
    """What a registry's schema says of values that it decoded."""
    from fencepost.schemas.decoders import avro_schema
    from fencepost.schemas.registry import registry_for

    schema = registry_for(registry).schema(schema_id)
    if schema.kind != "AVRO":
        return None
    parsed = avro_schema(schema)
    return of_avro(parsed, parsed.get("__named_schemas", {}) if isinstance(parsed, dict) else {})


def _loads_exactly(text: str | bytes) -> Any:
    return json.loads(text, parse_float=WrittenFloat)


def _parsed(
    data: bytes | str | None, node: Node, loads: Callable[[str | bytes], Any]
) -> Document | EventError:
    if data is None:
        return Document(None)
    try:
        return Document(loads(data.decode() if isinstance(data, bytes) else data), node)
    except (ValueError, RecursionError) as error:
        return EventError(f"no JSON: {error}")


def _events(
    key: Document | EventError, value: Document | EventError, reading: Reading
) -> list[Event]:
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
