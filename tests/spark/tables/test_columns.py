"""Which columns a table has, and which it takes in."""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa
import pytest

from fencepost.spark.evolution import fitted
from fencepost.spark.tables.columns import evolved_columns, require_usable
from fencepost.spark.tables.errors import TableError
from fencepost.spark.tables.events import identity
from fencepost.spark.tables.values import converter


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
        told = re.escape(f"column a is {old} in the table and cannot become {new}: only wider")
        with pytest.raises(TableError, match=f"{told}.*; give the new column another name, or"):
            evolved_columns(before, wanted, ())
        return
    assert evolved_columns(before, wanted, ()) == pa.schema([("a", wider)])
    fitted(pa.table({"a": pa.array([None], old)}), pa.schema([("a", wider)]))


def test_columns_are_added_and_stay():
    old = pa.schema([("a", pa.int32()), ("b", pa.int32())])
    after = evolved_columns(old, pa.schema([("c", pa.string()), ("b", pa.int64())]), ("a",))
    assert after == pa.schema([("a", pa.int32()), ("b", pa.int64()), ("c", pa.string())])
    table = fitted(pa.table({"a": [1], "b": [2]}, schema=old), after)
    assert table.to_pylist() == [{"a": 1, "b": 2, "c": None}]


@pytest.mark.parametrize(
    ("old", "new", "is_taken"),
    [
        (pa.int32(), pa.int64(), True),
        (pa.decimal128(9, 2), pa.decimal128(12, 2), True),
        (pa.decimal128(9, 2), pa.decimal128(12, 4), False),
        (pa.decimal128(9, 4), pa.decimal128(9, 2), True),
    ],
)
def test_a_wider_key_is_the_same_key_or_refused(old: Any, new: Any, is_taken: bool):
    """By 1.50 and 1.5000 one row would be there twice."""
    before, wanted = (pa.schema([("k", kind)]) for kind in (old, new))
    if not is_taken:
        with pytest.raises(TableError, match=r"column k is decimal.* a part of every key; give"):
            evolved_columns(before, wanted, ("k",))
        return
    after = evolved_columns(before, wanted, ("k",))
    keys = {
        identity({"k": converter(schema.field("k").type)("7")}, ("k",))
        for schema in (before, after)
    }
    assert len(keys) == 1


def test_a_new_column_that_differs_in_small_and_capital_letters_is_refused():
    with pytest.raises(TableError, match="columns a, A: a name is there twice"):
        evolved_columns(pa.schema([("a", pa.int32())]), pa.schema([("A", pa.int32())]), ())
