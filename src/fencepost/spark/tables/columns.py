"""Columns of a table: values of JSON as their types, and how a table takes in other columns.

A column is added when the schema that is asked for has one more, widened where every old value
fits the new type (`int` to `long`, `float` to `double`, more digits of a decimal), and stays, null
in new rows, when it is not asked for any more. Other changes are refused.
"""

from __future__ import annotations

import base64
import binascii
import datetime
import json
import math
from collections.abc import Callable
from decimal import Decimal, InvalidOperation, localcontext
from typing import Any, Final

import pyarrow as pa

from fencepost.spark.tables.errors import TableError

Convert = Callable[[Any], Any]
OWN: Final = pa.schema(
    [
        pa.field("__key", pa.binary()),
        pa.field("__deleted", pa.bool_()),
        pa.field("__op", pa.string()),
        pa.field("__generation", pa.int32()),
        pa.field("__partition", pa.int32()),
        pa.field("__offset", pa.int64()),
        pa.field("__timestamp_ms", pa.int64()),
        pa.field("__lineage", pa.string()),
        pa.field("__position", pa.binary()),
    ]
)
"""What a table keeps of each row beside its columns."""
SHOWN_MAX: Final = 80
_EPOCH: Final = datetime.date(1970, 1, 1)
_INTEGERS: Final = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
_NUMBERS_AS_TEXT: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def evolved(old: pa.Schema, wanted: pa.Schema) -> pa.Schema:
    """The columns of a table that takes rows of other columns in; see the module. TableError."""
    fields = []
    for field in old:
        index = wanted.get_field_index(field.name)
        kind = field.type if index < 0 else _wider(field.name, field.type, wanted.field(index).type)
        fields.append(pa.field(field.name, kind))
    known = set(old.names)
    fields += [pa.field(one.name, one.type) for one in wanted if one.name not in known]
    return pa.schema(fields)


def require_usable(schema: pa.Schema, key: tuple[str, ...]) -> None:
    """TableError for columns that no table can have."""
    if len(set(map(str.lower, schema.names))) != len(schema.names):
        raise TableError(f"columns {', '.join(schema.names)}: a name is there twice")
    for field in schema:
        if field.name.startswith("__"):
            raise TableError(f"column {field.name}: names that begin with __ are the table's own")
        converter(field.type)
    for name in key:
        if name not in schema.names:
            raise TableError(f"key column {name} is not in the schema ({', '.join(schema.names)})")


def _wider(name: str, old: pa.DataType, wanted: pa.DataType) -> pa.DataType:
    """The type that has all values of both. TableError where a column cannot change so."""
    if old == wanted:
        return old
    if old in _INTEGERS and wanted in _INTEGERS:
        return max(old, wanted, key=_INTEGERS.index)
    if {old, wanted} == {pa.float32(), pa.float64()}:
        return pa.float64()
    if pa.types.is_decimal128(old) and pa.types.is_decimal128(wanted):
        scale = max(old.scale, wanted.scale)
        whole = max(old.precision - old.scale, wanted.precision - wanted.scale)
        if whole + scale <= 38:
            return pa.decimal128(whole + scale, scale)
    raise TableError(
        f"column {name} is {old} in the table and cannot become {wanted}: only wider numbers can "
        "be taken in; name the new column otherwise, or write to another table"
    )


def fitted(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """A table as another schema has it: missing columns are null, narrower types widened."""
    arrays = []
    for field in schema:
        if field.name in table.schema.names:
            arrays.append(table.column(field.name).cast(field.type))
        else:
            arrays.append(pa.chunked_array([pa.nulls(table.num_rows, field.type)]))
    return pa.Table.from_arrays(arrays, schema=schema)


# -- values ----------------------------------------------------------------------------------------


def converter(kind: pa.DataType) -> Convert:
    """From a value of JSON to one for a column of this type, null for null. The function raises
    ValueError for what does not fit; TableError for a type that is not known."""
    inner = _inner_converter(kind)
    return lambda value: None if value is None else inner(value)


def _inner_converter(kind: pa.DataType) -> Convert:
    for is_kind, make in _CONVERTERS:
        if is_kind(kind):
            return make(kind)
    raise TableError(f"columns of type {kind} cannot be read from JSON")


def _integer(kind: pa.DataType) -> Convert:
    top = 1 << (kind.bit_width - 1)

    def convert(value: Any) -> int:
        if isinstance(value, str) and value.removeprefix("-").isdecimal() and len(value) <= 20:
            value = int(value)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not -top <= value < top:
            raise ValueError(f"{shown(value)} is no {kind}")
        return value

    return convert


def _float(kind: pa.DataType) -> Convert:
    def convert(value: Any) -> float:
        if isinstance(value, str):
            if value not in _NUMBERS_AS_TEXT:
                raise ValueError(f"{shown(value)} is no {kind}")
            return _NUMBERS_AS_TEXT[value]
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f"{shown(value)} is no {kind}")
        try:
            return float(value)
        except OverflowError:
            raise ValueError(f"{shown(value)} is no {kind}") from None

    return convert


def _boolean(kind: pa.DataType) -> Convert:
    def convert(value: Any) -> bool:
        if not isinstance(value, bool):
            raise ValueError(f"{shown(value)} is neither true nor false")
        return value

    return convert


def _string(kind: pa.DataType) -> Convert:
    """Text as it is; anything else as JSON text, as Spark's own reader does."""

    def convert(value: Any) -> str:
        text = value
        if not isinstance(value, str):
            text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        text.encode()  # ValueError for half a surrogate pair, which is no text
        return str(text)

    return convert


def _binary(kind: pa.DataType) -> Convert:
    def convert(value: Any) -> bytes:
        if not isinstance(value, str):
            raise ValueError(f"{shown(value)} is no Base64")
        try:
            return base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError):
            raise ValueError(f"{shown(value)} is no Base64") from None

    return convert


def _decimal(kind: pa.DataType) -> Convert:
    def convert(value: Any) -> Decimal:
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise ValueError(f"{shown(value)} is no {kind}")
        try:
            with localcontext() as context:
                context.prec = 80
                found = Decimal(str(value))
                exact = found.quantize(Decimal(1).scaleb(-kind.scale))
        except (InvalidOperation, ValueError):
            raise ValueError(f"{shown(value)} is no {kind}") from None
        if (
            not found.is_finite()
            or exact != found
            or exact.copy_abs() >= 10 ** (kind.precision - kind.scale)
        ):
            raise ValueError(f"{shown(value)} does not fit {kind}")
        return exact

    return convert


def _date(kind: pa.DataType) -> Convert:
    """ISO 8601, or days since 1970 (`io.debezium.time.Date`)."""

    def convert(value: Any) -> datetime.date:
        try:
            if isinstance(value, str):
                return datetime.date.fromisoformat(value)
            if isinstance(value, int) and not isinstance(value, bool):
                return _EPOCH + datetime.timedelta(days=value)
        except (ValueError, OverflowError):
            pass
        raise ValueError(f"{shown(value)} is no date")

    return convert


def _timestamp(kind: pa.DataType) -> Convert:
    """ISO 8601 text alone: a number does not say of which unit it is."""

    def convert(value: Any) -> datetime.datetime:
        if not isinstance(value, str):
            raise ValueError(f"{shown(value)} is no timestamp in ISO 8601; declare numbers as long")
        try:
            found = datetime.datetime.fromisoformat(value)
        except ValueError:
            raise ValueError(f"{shown(value)} is no timestamp in ISO 8601") from None
        if kind.tz is None:
            if found.tzinfo is not None:
                raise ValueError(f"{shown(value)} has a time zone, the column has none")
            return found
        if found.tzinfo is None:
            found = found.replace(tzinfo=datetime.UTC)
        try:
            return found.astimezone(datetime.UTC)
        except OverflowError:
            raise ValueError(f"{shown(value)} is out of range in UTC") from None

    return convert


def _list(kind: pa.DataType) -> Convert:
    inner = converter(kind.value_type)

    def convert(value: Any) -> list[Any]:
        if not isinstance(value, list):
            raise ValueError(f"{shown(value)} is no array")
        return [inner(one) for one in value]

    return convert


def _map(kind: pa.DataType) -> Convert:
    if kind.key_type != pa.string():
        raise TableError(f"columns of type {kind} cannot be read from JSON: keys must be strings")
    inner = converter(kind.item_type)
    text = _string(kind.key_type)

    def convert(value: Any) -> list[tuple[str, Any]]:
        if not isinstance(value, dict):
            raise ValueError(f"{shown(value)} is no object")
        return [(text(key), inner(one)) for key, one in value.items()]

    return convert


def _struct(kind: pa.DataType) -> Convert:
    inner = {field.name: converter(field.type) for field in kind}

    def convert(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise ValueError(f"{shown(value)} is no object")
        return {name: one(value.get(name)) for name, one in inner.items()}

    return convert


_CONVERTERS: Final[tuple[tuple[Callable[[Any], bool], Callable[[Any], Convert]], ...]] = (
    (pa.types.is_string, _string),
    (pa.types.is_signed_integer, _integer),
    (pa.types.is_floating, _float),
    (pa.types.is_boolean, _boolean),
    (pa.types.is_decimal128, _decimal),
    (pa.types.is_binary, _binary),
    (pa.types.is_date32, _date),
    (pa.types.is_timestamp, _timestamp),
    (pa.types.is_list, _list),
    (pa.types.is_map, _map),
    (pa.types.is_struct, _struct),
)


def shown(value: Any) -> str:
    """A value as a part of an error's text."""
    text = repr(value)
    return text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}..."
