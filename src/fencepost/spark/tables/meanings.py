"""What schemas say of values: that a number is a time, and bytes are a decimal.

Connect's JsonConverter puts a schema beside each value (`schemas.enable`). Its nodes have `type`,
`name` (the semantic type of Connect or Debezium), `parameters`, and by the type `fields`, `items`,
`values`. Avro schemas of Connect have the name as `connect.name`; `of_avro` makes nodes of them.
Events that come without are told by the table's user, column by column (`semantic_nodes`).

| semantic type | value in JSON |
|---|---|
| `org.apache.kafka.connect.data.Decimal` | big-endian two's complement in Base64, of a `scale` |
| `io.debezium.data.VariableScaleDecimal` | an object of `scale` and such bytes |
| `org.apache.kafka.connect.data.Timestamp`, `io.debezium.time.Timestamp` | ms since 1970 |
| `io.debezium.time.MicroTimestamp`, `NanoTimestamp` | microseconds, nanoseconds |
| `io.debezium.time.IsoTimestamp` | ISO 8601 with Z, of a timestamp without time zone |

Others need no telling: dates are days or text, zoned timestamps are text.

Nodes come from records: one that makes no sense says nothing. Nothing of Arrow here.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

from fencepost.spark.tables.errors import TableError

Node = Any
"""Of a schema, unchecked; None where there is none."""
DECIMAL: Final = "org.apache.kafka.connect.data.Decimal"
VARIABLE: Final = "io.debezium.data.VariableScaleDecimal"
ISO_TIMESTAMP: Final = "io.debezium.time.IsoTimestamp"
TICKS: Final[Mapping[str, int]] = {
    "org.apache.kafka.connect.data.Timestamp": 1_000,
    "io.debezium.time.Timestamp": 1_000,
    "io.debezium.time.MicroTimestamp": 1_000_000,
    "io.debezium.time.NanoTimestamp": 1_000_000_000,
}
"""How many make a second."""
_FULL: Final = (DECIMAL, ISO_TIMESTAMP, *TICKS)
GIVEN: Final = {name.rpartition(".")[2]: name for name in _FULL} | {name: name for name in _FULL}
"""Semantic types that users may name, in full or by the last part."""
SCALE_MAX: Final = 4_000
_VARIABLE_FIELDS: Final = frozenset({"scale", "value"})


def name_of(node: Node) -> str:
    """The semantic type; nothing where there is none."""
    name = node.get("name") if isinstance(node, dict) else None
    return name if isinstance(name, str) else ""


def fields_of(node: Node) -> dict[str, Node]:
    """The nodes of a struct's fields."""
    fields = node.get("fields") if isinstance(node, dict) else None
    if not isinstance(fields, list):
        return {}
    return {
        one["field"]: one
        for one in fields
        if isinstance(one, dict) and isinstance(one.get("field"), str)
    }


def items_of(node: Node) -> Node:
    """The node of an array's items."""
    return node.get("items") if isinstance(node, dict) else None


def values_of(node: Node) -> Node:
    """The node of a map's values."""
    return node.get("values") if isinstance(node, dict) else None


def semantic_nodes(given: Mapping[str, str], columns: Sequence[str]) -> dict[str, Node]:
    """Nodes of columns whose semantic types a user names, in full or by the last part. TableError
    for other types and columns."""
    nodes = {}
    for column, name in given.items():
        if name not in GIVEN:
            known = ", ".join(one for one in GIVEN if "." not in one)
            raise TableError(f"column {column}: semantic type {name!r} is none of {known}")
        if column not in columns:
            raise TableError(f"column {column} has a semantic type, and is not in the schema")
        nodes[column] = {"name": GIVEN[name]}
    return nodes


# -- decimals --------------------------------------------------------------------------------------


def number_in(value: Any, node: Node, scale: int | None = None) -> Any:
    """The decimal that a value is by its schema; any other value as it is. `scale` is what bytes
    have whose schema does not say. ValueError for bytes that are no decimal."""
    if isinstance(value, dict) and value.keys() == _VARIABLE_FIELDS:
        return _unscaled(value["value"], value["scale"])
    if isinstance(value, str) and name_of(node) == DECIMAL:
        parameters = node.get("parameters")
        told = parameters.get("scale") if isinstance(parameters, dict) else None
        told = scale if told is None else told
        return value if told is None else _unscaled(value, told)
    return value


def _unscaled(text: Any, scale: Any) -> Decimal:
    try:
        data = base64.b64decode(text, validate=True)
        places = int(scale)
    except (binascii.Error, TypeError, ValueError, OverflowError):
        data, places = b"", 0
    if not data or abs(places) > SCALE_MAX:
        raise ValueError("is no decimal in Base64, or of no usable scale")
    # From text, since arithmetic on decimals would round to the context's digits.
    return Decimal(f"{int.from_bytes(data, 'big', signed=True)}E{-places}")


# -- Avro ------------------------------------------------------------------------------------------


def of_avro(schema: Any, named: Mapping[str, Any]) -> Node:
    """The node of a parsed Avro schema; `named` are its named types. Only what is not text in the
    decoder's JSON keeps its semantic type: decimals are decoded already."""
    return _of_avro(schema, named, {})


def _of_avro(schema: Any, named: Mapping[str, Any], known: dict[str, Node]) -> Node:
    if isinstance(schema, str):
        if schema not in known and schema in named:
            known[schema] = None  # what is within itself says nothing
            known[schema] = _of_avro(named[schema], named, known)
        return known.get(schema)
    if isinstance(schema, list):
        branches = [one for one in schema if one != "null"]
        return _of_avro(branches[0], named, known) if len(branches) == 1 else None
    if not isinstance(schema, dict):
        return None
    kind = schema.get("type")
    if kind == "record":
        return {"fields": list(_avro_fields(schema, named, known))}
    if kind in ("array", "map"):
        inner = "items" if kind == "array" else "values"
        return {inner: _of_avro(schema.get(inner), named, known)}
    if isinstance(kind, dict | list):
        return _of_avro(kind, named, known)
    return {"name": schema.get("connect.name")} if kind in ("int", "long", "string") else None


def _avro_fields(
    schema: Mapping[str, Any], named: Mapping[str, Any], known: dict[str, Node]
) -> Iterable[Node]:
    for one in schema.get("fields", ()):
        node = _of_avro(one.get("type"), named, known)
        if isinstance(node, dict):
            yield {**node, "field": one["name"]}
