"""Values of JSON as the types of columns, with what a schema says of them (`meanings`)."""

from __future__ import annotations

import base64
import binascii
import datetime
import json
import math
from collections.abc import Callable
from decimal import Decimal, InvalidOperation, localcontext
from typing import Any, Final, Protocol

import pyarrow as pa

from fencepost.spark.tables.errors import TableError
from fencepost.spark.tables.meanings import (
    DECIMAL,
    ISO_TIMESTAMP,
    TICKS,
    VARIABLE,
    Node,
    fields_of,
    items_of,
    name_of,
    number_in,
    values_of,
)

SHOWN_MAX: Final = 80
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_NUMBERS_AS_TEXT: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


class Convert(Protocol):
    """From a value of JSON, and its schema's node where there is one, to one for a column, null for
    null. ValueError for what does not fit."""

    def __call__(self, value: Any, node: Node = None) -> Any: ...


class WrittenFloat(float):
    """A number of JSON that keeps its digits, which decimals may have more of than a float."""

    __slots__ = ("text",)
    text: str

    def __new__(cls, text: str) -> WrittenFloat:
        found = super().__new__(cls, text)
        found.text = text
        return found


def has_decimals(kind: pa.DataType) -> bool:
    """Whether values of a type are, or have in them, decimals."""
    inner = [kind.field(number).type for number in range(kind.num_fields)]
    return pa.types.is_decimal128(kind) or any(map(has_decimals, inner))


def converter(kind: pa.DataType) -> Convert:
    """For a column of this type. TableError for a type that JSON has no values of."""
    inner = _inner_converter(kind)

    def convert(value: Any, node: Node = None) -> Any:
        return None if value is None else inner(value, node)

    return convert


def _inner_converter(kind: pa.DataType) -> Convert:
    for is_kind, make in _CONVERTERS:
        if is_kind(kind):
            return make(kind)
    raise TableError(f"columns of type {kind} cannot be read from JSON")


def _integer(kind: pa.DataType) -> Convert:
    top = 1 << (kind.bit_width - 1)

    def convert(value: Any, node: Node = None) -> int:
        value = number_in(value, node)
        if isinstance(value, str) and value.removeprefix("-").isdecimal() and len(value) <= 20:
            value = int(value)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, Decimal) and abs(value) < top * 2 and value == int(value):
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not -top <= value < top:
            raise ValueError(f"{shown(value)} is no {kind}")
        return value

    return convert


def _float(kind: pa.DataType) -> Convert:
    def convert(value: Any, node: Node = None) -> float:
        value = number_in(value, node)
        if isinstance(value, str):
            if value not in _NUMBERS_AS_TEXT:
                raise ValueError(f"{shown(value)} is no {kind}")
            return _NUMBERS_AS_TEXT[value]
        if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
            raise ValueError(f"{shown(value)} is no {kind}")
        try:
            return float(value)
        except OverflowError:
            raise ValueError(f"{shown(value)} is no {kind}") from None

    return convert


def _boolean(kind: pa.DataType) -> Convert:
    def convert(value: Any, node: Node = None) -> bool:
        if not isinstance(value, bool):
            raise ValueError(f"{shown(value)} is neither true nor false")
        return value

    return convert


def _string(kind: pa.DataType) -> Convert:
    """Text as it is, decimals in digits; anything else as JSON text, as Spark's own reader does."""

    def convert(value: Any, node: Node = None) -> str:
        if name_of(node) in (DECIMAL, VARIABLE):
            value = number_in(value, node)
            if isinstance(value, Decimal):
                return f"{value:f}"
        text = value
        if not isinstance(value, str):
            text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        text.encode()  # ValueError for half a surrogate pair, which is no text
        return str(text)

    return convert


def _binary(kind: pa.DataType) -> Convert:
    def convert(value: Any, node: Node = None) -> bytes:
        if not isinstance(value, str):
            raise ValueError(f"{shown(value)} is no Base64")
        try:
            return base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError):
            raise ValueError(f"{shown(value)} is no Base64") from None

    return convert


def _decimal(kind: pa.DataType) -> Convert:
    def convert(value: Any, node: Node = None) -> Decimal:
        given = number_in(value, node, kind.scale)
        if isinstance(given, WrittenFloat):
            given = given.text
        if isinstance(given, bool) or not isinstance(given, int | float | str | Decimal):
            raise ValueError(f"{shown(value)} is no {kind}")
        try:
            with localcontext() as context:
                context.prec = 80
                found = given if isinstance(given, Decimal) else Decimal(str(given))
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

    def convert(value: Any, node: Node = None) -> datetime.date:
        if name_of(node) in TICKS:
            raise ValueError(f"{shown(value)} is a timestamp, no date")
        try:
            if isinstance(value, str):  # Z is what `io.debezium.time.IsoDate` has at its end
                return datetime.date.fromisoformat(value.removesuffix("Z"))
            if isinstance(value, int) and not isinstance(value, bool):
                return _EPOCH.date() + datetime.timedelta(days=value)
        except (ValueError, OverflowError):
            pass
        raise ValueError(f"{shown(value)} is no date from year 1 to 9999")

    return convert


def _timestamp(kind: pa.DataType) -> Convert:
    """ISO 8601, or a number whose schema says of which unit it is; digits behind microseconds are
    cut off. Databases have timestamps without time zone as if they were in UTC."""

    def convert(value: Any, node: Node = None) -> datetime.datetime:
        name = name_of(node)
        ticks = TICKS.get(name)
        if ticks is not None and isinstance(value, int) and not isinstance(value, bool):
            found = _moment(value, ticks)
        elif isinstance(value, str):
            found = _iso_moment(value)
        else:
            raise ValueError(
                f"{shown(value)} is no timestamp in ISO 8601, and no number whose schema says of "
                "which unit; name the column's semantic type, or declare it as long"
            )
        if kind.tz is not None:
            aware = found if found.tzinfo is not None else found.replace(tzinfo=datetime.UTC)
            return _in_utc(aware, value)
        if found.tzinfo is None:
            return found
        if ticks is None and name != ISO_TIMESTAMP:
            raise ValueError(f"{shown(value)} has a time zone, the column has none")
        return _in_utc(found, value).replace(tzinfo=None)

    return convert


def _in_utc(moment: datetime.datetime, value: Any) -> datetime.datetime:
    try:
        return moment.astimezone(datetime.UTC)
    except OverflowError:
        raise ValueError(f"{shown(value)} is no timestamp from year 1 to 9999 in UTC") from None


def _moment(value: int, ticks: int) -> datetime.datetime:
    try:
        return _EPOCH + datetime.timedelta(microseconds=value * 1_000_000 // ticks)
    except OverflowError:
        raise ValueError(f"{shown(value)} is no timestamp from year 1 to 9999") from None


def _iso_moment(value: str) -> datetime.datetime:
    try:
        return datetime.datetime.fromisoformat(value)
    except ValueError:
        raise ValueError(f"{shown(value)} is no timestamp in ISO 8601") from None


def _list(kind: pa.DataType) -> Convert:
    inner = converter(kind.value_type)

    def convert(value: Any, node: Node = None) -> list[Any]:
        if not isinstance(value, list):
            raise ValueError(f"{shown(value)} is no array")
        items = items_of(node)
        return [inner(one, items) for one in value]

    return convert


def _map(kind: pa.DataType) -> Convert:
    if kind.key_type != pa.string():
        raise TableError(f"columns of type {kind} cannot be read from JSON: keys must be strings")
    inner = converter(kind.item_type)
    text = _string(kind.key_type)

    def convert(value: Any, node: Node = None) -> list[tuple[str, Any]]:
        if not isinstance(value, dict):
            raise ValueError(f"{shown(value)} is no object")
        values = values_of(node)
        return [(text(key), inner(one, values)) for key, one in value.items()]

    return convert


def _struct(kind: pa.DataType) -> Convert:
    inner = {field.name: converter(field.type) for field in kind}

    def convert(value: Any, node: Node = None) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise ValueError(f"{shown(value)} is no object")
        nodes = fields_of(node)
        return {name: one(value.get(name), nodes.get(name)) for name, one in inner.items()}

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
