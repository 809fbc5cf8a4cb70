"""Values of JSON as types of columns, and which columns a table takes in."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from fencepost.spark.tables.columns import converter, evolved, fitted, require_usable
from fencepost.spark.tables.errors import TableError

UTC = pa.timestamp("us", tz="UTC")


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (pa.int8(), -128, -128),
        (pa.int64(), "9223372036854775807", 2**63 - 1),
        (pa.int32(), 7.0, 7),
        (pa.float64(), 1, 1.0),
        (pa.float64(), "Infinity", math.inf),
        (pa.bool_(), False, False),
        (pa.string(), "", ""),
        (pa.string(), {"a": [1]}, '{"a":[1]}'),
        (pa.string(), 1.5, "1.5"),
        (pa.binary(), "AAE=", b"\0\1"),
        (pa.decimal128(9, 2), "1.5", Decimal("1.50")),
        (pa.decimal128(9, 2), 0.1, Decimal("0.10")),
        (pa.decimal128(38, 0), "9" * 38, Decimal("9" * 38)),
        (pa.date32(), "2026-11-29", datetime.date(2026, 11, 29)),
        (pa.date32(), 1, datetime.date(1970, 1, 2)),
        (UTC, "2026-01-01T02:00:00+02:00", datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)),
        (UTC, "2026-01-01T00:00:00", datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)),
        (pa.timestamp("us"), "2026-01-01T00:00:00", datetime.datetime(2026, 1, 1)),
        (pa.list_(pa.int32()), [1, None], [1, None]),
        (pa.map_(pa.string(), pa.int32()), {"a": 1}, [("a", 1)]),
        (pa.struct([("a", pa.int32())]), {"a": 1, "b": 2}, {"a": 1}),
    ],
)
def test_a_value_of_json_as_a_column_has_it(kind: pa.DataType, value: Any, expected: Any):
    found = converter(kind)(value)
    assert found == expected
    pa.array([found, None], kind)
    assert converter(kind)(None) is None


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.int8(), 128),
        (pa.int64(), 2**63),
        (pa.int64(), "x"),
        (pa.int64(), "9" * 5000),
        (pa.int32(), True),
        (pa.int32(), 1.5),
        (pa.int32(), math.inf),
        (pa.float64(), "1"),
        (pa.float64(), 10**400),
        (pa.bool_(), "true"),
        (pa.string(), "\ud800"),
        (pa.binary(), "*"),
        (pa.binary(), "é"),
        (pa.decimal128(4, 2), "100"),
        (pa.decimal128(4, 2), "1.234"),
        (pa.decimal128(4, 2), "NaN"),
        (pa.decimal128(4, 2), "F3A="),
        (pa.decimal128(4, 2), "1e999999"),
        (pa.decimal128(4, 2), True),
        (pa.date32(), "tomorrow"),
        (pa.date32(), 10**12),
        (UTC, 1700000000000),
        (UTC, "12 o'clock"),
        (UTC, "0001-01-01T00:00:00+01:00"),
        (UTC, "9999-12-31T23:59:59-01:00"),
        (pa.timestamp("us"), "2026-01-01T00:00:00Z"),
        (pa.list_(pa.int32()), {}),
        (pa.list_(pa.int32()), ["x"]),
        (pa.map_(pa.string(), pa.int32()), []),
        (pa.struct([("a", pa.int32())]), 1),
    ],
)
def test_what_does_not_fit_is_a_value_error(kind: pa.DataType, value: Any):
    with pytest.raises(ValueError):
        converter(kind)(value)


@pytest.mark.parametrize("kind", [pa.uint8(), pa.time64("us"), pa.map_(pa.int32(), pa.int32())])
def test_types_that_json_has_no_value_of_are_refused(kind: pa.DataType):
    with pytest.raises(TableError, match="cannot be read from JSON"):
        require_usable(pa.schema([("a", kind)]), ())


@pytest.mark.parametrize(
    ("names", "key", "reason"),
    [
        (["a", "A"], (), "twice"),
        (["__a"], (), "the table's own"),
        (["a"], ("b",), "key column b is not in the schema"),
    ],
)
def test_columns_that_no_table_can_have(names: list[str], key: tuple[str, ...], reason: str):
    with pytest.raises(TableError, match=reason):
        require_usable(pa.schema([(name, pa.int32()) for name in names]), key)


@pytest.mark.parametrize(
    ("old", "new", "wider"),
    [
        (pa.int8(), pa.int64(), pa.int64()),
        (pa.int64(), pa.int16(), pa.int64()),
        (pa.float32(), pa.float64(), pa.float64()),
        (pa.decimal128(9, 2), pa.decimal128(12, 4), pa.decimal128(12, 4)),
        (pa.decimal128(9, 4), pa.decimal128(9, 2), pa.decimal128(11, 4)),
        (pa.string(), pa.string(), pa.string()),
        (pa.int32(), pa.string(), None),
        (pa.string(), pa.int32(), None),
        (pa.int64(), pa.float64(), None),
        (pa.decimal128(38, 0), pa.decimal128(38, 2), None),
        (pa.list_(pa.int32()), pa.list_(pa.int64()), None),
    ],
)
def test_columns_are_widened_or_refused(old: Any, new: Any, wider: Any):
    before, wanted = pa.schema([("a", old)]), pa.schema([("a", new)])
    if wider is None:
        with pytest.raises(TableError, match=r"column a is .* and cannot become"):
            evolved(before, wanted)
        return
    assert evolved(before, wanted) == pa.schema([("a", wider)])
    fitted(pa.table({"a": pa.array([None], old)}), pa.schema([("a", wider)]))


def test_columns_are_added_and_stay():
    old = pa.schema([("a", pa.int32()), ("b", pa.int32())])
    after = evolved(old, pa.schema([("c", pa.string()), ("b", pa.int64())]))
    assert after == pa.schema([("a", pa.int32()), ("b", pa.int64()), ("c", pa.string())])
    table = fitted(pa.table({"a": [1], "b": [2]}, schema=old), after)
    assert table.to_pylist() == [{"a": 1, "b": 2, "c": None}]
