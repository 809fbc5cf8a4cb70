"""What a record says about a row: Debezium's envelopes, flattened ones, and plain JSON objects.

Envelopes (`debezium`), by `op`:

| op | meaning here |
|---|---|
| `c`, `r`, `u` | the row is `after`; an update of the key deletes the one in `before` |
| `d` | the row of this key is deleted |
| `t` | all rows are deleted that the table had then |
| `m` | a message of the application: ignored |

A null value, the tombstone behind a delete, deletes as well where nothing newer is there: of a
topic that is compacted the `d` may be gone. Records of heartbeats, of transactions' begin and end,
and of changes to the schema are ignored. Everything comes as it is or as JsonConverter writes it
with `schemas.enable`, as `{"schema": ..., "payload": ...}`; what the schema says of columns goes to
their converters with the values (`meanings`). MongoDB's `after` is a text of JSON.

Flattened events (`flat`, Debezium's ExtractNewRecordState) are the row itself; `__deleted` and
`__op` say that it was deleted, `__lsn`, `__source_ts_ms` and others (`add.fields`) its position.

A value that Debezium did not have, since the database does not write unchanged large values to its
log (PostgreSQL's TOAST, Oracle's LOBs), is there as `__debezium_unavailable_value`, in one of
several forms by the column's type; the row's older value is kept then.

No I/O, and nothing of Arrow: JSON documents in, events out.
"""

from __future__ import annotations

import base64
import hashlib
import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from fencepost.spark.tables.meanings import Node, fields_of, name_of
from fencepost.spark.tables.order import Position, position_of
from fencepost.spark.tables.values import Convert, shown

BYTES: Final = "bytes"
JSON: Final = "json"
DEBEZIUM: Final = "debezium"
FLAT: Final = "flat"
DECODES: Final = (BYTES, JSON, DEBEZIUM, FLAT)

UPSERT: Final = "upsert"
DELETE: Final = "delete"
TOMBSTONE: Final = "tombstone"
TRUNCATE: Final = "truncate"
IGNORED: Final = "ignored"
ERROR: Final = "error"

UNAVAILABLE: Final = "__debezium_unavailable_value"
_WRAPPED: Final = frozenset({"schema", "payload"})
_OPERATIONS: Final = {
    "c": UPSERT, "r": UPSERT, "u": UPSERT, "d": DELETE, "t": TRUNCATE, "m": IGNORED,
}  # fmt: skip
_ABOUT_SCHEMAS: Final = ("ddl", "tableChanges", "databaseName")


class EventError(ValueError):
    """A record cannot be understood; the text says why."""


class Event(NamedTuple):
    """What a record says about one key."""

    kind: str
    key: bytes = b""
    """What the key is known by."""
    row: Mapping[str, Any] | None = None
    """Columns, in the types of Arrow; of a delete the key's columns."""
    unavailable: tuple[str, ...] = ()
    """Columns whose older value is to be kept."""
    position: Position | None = None
    op: str = ""
    error: str = ""


@dataclass(frozen=True)
class Placeholder:
    """All forms in which a value that is not available comes."""

    text: str = UNAVAILABLE
    texts: frozenset[str] = field(init=False)
    others: tuple[Any, ...] = field(init=False)

    def __post_init__(self) -> None:
        data = self.text.encode()
        encoded = base64.b64encode(data).decode()
        named = str(uuid.UUID(bytes=hashlib.md5(data, usedforsecurity=False).digest(), version=3))
        hstore = {self.text: self.text}
        texts = {self.text, encoded, data.hex(), named}
        texts |= {json.dumps(hstore), json.dumps(hstore, separators=(",", ":"))}
        object.__setattr__(self, "texts", frozenset(texts))
        lists = ([self.text], [encoded], list(data), [named])
        object.__setattr__(self, "others", (hstore, *lists))

    def is_there(self, value: Any) -> bool:
        """Whether a value is the placeholder."""
        if isinstance(value, str):
            return value in self.texts
        return isinstance(value, list | dict) and value in self.others


@dataclass(frozen=True)
class Reading:
    """How a table reads its records. `columns` are all columns with their converters, `nodes` what
    is known of some that records' schemas say nothing of, `loads` parses JSON."""

    decode: str
    key: tuple[str, ...]
    columns: Mapping[str, Convert]
    placeholder: Placeholder = field(default_factory=Placeholder)
    nodes: Mapping[str, Node] = field(default_factory=dict)
    loads: Callable[[str | bytes], Any] = json.loads


class Document(NamedTuple):
    """A value of JSON and what its schema says of it."""

    value: Any
    node: Node = None


class _Row(NamedTuple):
    """Columns of a row, and what schemas say of them."""

    values: Mapping[str, Any]
    nodes: Mapping[str, Node]

    def over(self, other: _Row | None) -> _Row:
        """This row's columns, and those of the other that it has not."""
        if other is None:
            return self
        return _Row({**other.values, **self.values}, {**other.nodes, **self.nodes})


def read_events(key: Document, value: Document, reading: Reading) -> list[Event]:
    """The events of a record whose key and value are these: one in most cases, none never.
    EventError."""
    reader = _READERS[reading.decode]
    row = _key_row(_unwrapped(key), reading)
    document, node = _unwrapped(value)
    if document is None:
        return [_deleted(TOMBSTONE, row, reading)]
    if not isinstance(document, dict):
        raise EventError(f"the value is no object: {shown(document)}")
    return reader(row, document, node, reading)


def _unwrapped(document: Document) -> Document:
    """What JsonConverter wrapped together with its schema."""
    if isinstance(document.value, dict) and document.value.keys() == _WRAPPED:
        return Document(document.value["payload"], document.value["schema"])
    return document


def _read_plain(key: _Row, value: dict[str, Any], node: Node, reading: Reading) -> list[Event]:
    return [_upsert(key, _Row(value, fields_of(node)), None, "", reading)]


def _read_flat(key: _Row, value: dict[str, Any], node: Node, reading: Reading) -> list[Event]:
    source: dict[str, Any] = {}
    for name, one in value.items():
        if name.startswith("__"):
            source[name.removeprefix("__source_").removeprefix("__")] = one
    given = source.pop("op", None)
    op = given if isinstance(given, str) and given in _OPERATIONS else ""
    deleted = str(source.pop("deleted", "false")).lower() == "true"
    position = _position(source)
    kind = DELETE if deleted else _OPERATIONS.get(op, UPSERT)
    if kind == IGNORED:
        return [Event(IGNORED, op=op)]
    if kind == TRUNCATE:
        return [Event(TRUNCATE, position=position, op=op)]
    row = _Row(value, fields_of(node))
    if kind == DELETE:
        return [_deleted(DELETE, key.over(row), reading, position, op or "d")]
    return [_upsert(key, row, position, op, reading)]


def _read_envelope(key: _Row, value: dict[str, Any], node: Node, reading: Reading) -> list[Event]:
    op = value.get("op")
    if op is None and _is_ignored(value):
        return [Event(IGNORED)]
    kind = _OPERATIONS.get(op) if isinstance(op, str) else None
    if kind is None:
        raise EventError(f"op is {shown(op)}, none of {', '.join(_OPERATIONS)}")
    if kind == IGNORED:
        return [Event(IGNORED, op=str(op))]
    source = value.get("source")
    if source is not None and not isinstance(source, dict):
        raise EventError(f"source is no object: {shown(source)}")
    position = _position(source or {})
    if kind == TRUNCATE:
        return [Event(TRUNCATE, position=position, op="t")]
    before, after = (_state(value, name, node, reading) for name in ("before", "after"))
    if kind == DELETE:
        return [_deleted(DELETE, key.over(before), reading, position, "d")]
    if after is None:
        raise EventError(f"op is {op}, and after is null")
    found = _upsert(key, after, position, str(op), reading)
    if op != "u" or before is None:
        return [found]
    if any(before.values.get(name) is None for name in reading.key):
        return [found]
    old = _deleted(DELETE, before, reading, position, "d")
    return [found] if old.key == found.key else [old, found]


def _is_ignored(value: Mapping[str, Any]) -> bool:
    """Heartbeats, transactions' begin and end, changes to schemas."""
    if value.keys() <= {"ts_ms", "ts_us", "ts_ns"}:
        return True
    if value.get("status") in ("BEGIN", "END") and "id" in value:
        return True
    return any(name in value for name in _ABOUT_SCHEMAS)


def _state(value: Mapping[str, Any], name: str, node: Node, reading: Reading) -> _Row | None:
    """A row before or after the change."""
    state = value.get(name)
    if isinstance(state, str):  # MongoDB
        try:
            state = reading.loads(state)
        except (ValueError, RecursionError) as error:
            raise EventError(f"{name} is no JSON: {error}") from error
    if state is None:
        return None
    if not isinstance(state, dict):
        raise EventError(f"{name} is no object: {shown(state)}")
    return _Row(state, fields_of(fields_of(node).get(name)))


def _position(source: Mapping[str, Any]) -> Position | None:
    try:
        return position_of(source)
    except ValueError as error:
        raise EventError(str(error)) from error


def _key_row(key: Document, reading: Reading) -> _Row:
    """The key's columns as far as the record's key has them."""
    document, node = key
    if isinstance(document, dict):
        nodes = fields_of(node)
        names = [name for name in reading.key if name in document]
        return _Row({name: document[name] for name in names}, nodes)
    if document is not None and len(reading.key) == 1:
        return _Row({reading.key[0]: document}, {reading.key[0]: node})
    return _Row({}, {})


def _upsert(
    key: _Row,
    row: _Row,
    position: Position | None,
    op: str,
    reading: Reading,
) -> Event:
    unavailable = []
    found: dict[str, Any] = {}
    for name, convert in reading.columns.items():
        value, nodes = row.values.get(name), row.nodes
        if value is None:
            value, nodes = key.values.get(name), key.nodes
        elif name not in reading.key and reading.placeholder.is_there(value):
            unavailable.append(name)
            value = None
        found[name] = _converted(name, value, nodes, reading, convert)
    # Where the record's key has the columns, it says which row this is, whatever the value says.
    named = {**found, **_converted_key(key, reading)}
    return Event(UPSERT, identity(named, reading.key), found, tuple(unavailable), position, op)


def _deleted(
    kind: str,
    document: _Row,
    reading: Reading,
    position: Position | None = None,
    op: str = "",
) -> Event:
    row = _converted_key(document, reading)
    return Event(kind, identity(row, reading.key), row, (), position, op)


def _converted_key(document: _Row, reading: Reading) -> dict[str, Any]:
    return {
        name: _converted(
            name, document.values[name], document.nodes, reading, reading.columns[name]
        )
        for name in reading.key
        if name in document.values
    }


def _converted(
    name: str, value: Any, nodes: Mapping[str, Node], reading: Reading, convert: Convert
) -> Any:
    node = nodes.get(name)
    if not name_of(node) and name in reading.nodes:
        node = reading.nodes[name]
    try:
        return convert(value, node)
    except (ValueError, RecursionError) as error:
        raise EventError(f"column {name}: {error}") from error


def identity(row: Mapping[str, Any], key: Sequence[str]) -> bytes:
    """What a key is known by: its columns in their types, as JSON. EventError where one is not
    there, or all are null."""
    values = []
    for name in key:
        if name not in row:
            raise EventError(f"neither key nor value has the key column {name}")
        values.append(row[name])
    if all(value is None for value in values):
        raise EventError(f"the key ({', '.join(key)}) is null")
    text = json.dumps(values, ensure_ascii=False, separators=(",", ":"), default=_plain)
    return text.encode()


def _plain(value: object) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)


_READERS: Final[dict[str, Callable[[_Row, dict[str, Any], Node, Reading], list[Event]]]] = {
    JSON: _read_plain,
    DEBEZIUM: _read_envelope,
    FLAT: _read_flat,
}
