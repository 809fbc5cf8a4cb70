"""Which columns a table has, and which it takes in."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from fencepost.spark.evolution import fitted, steps
from fencepost.spark.tables.columns import evolved_columns, require_usable
from fencepost.spark.tables.errors import TableError
from fencepost.spark.tables.events import identity
from fencepost.spark.tables.values import converter

INNER = pa.struct([("a", pa.int32()), ("of", pa.list_(pa.struct([("x", pa.float32())])))])
WIDER_INNER = pa.struct(
    [
        ("a", pa.int64()),
        ("of", pa.list_(pa.struct([("x", pa.float64()), ("y", pa.string())]))),
        ("more", pa.struct([("z", pa.date32())])),
    ]
)
NEVER_NULL, WIDER_NEVER_NULL = (
    pa.struct([pa.field("a", kind, nullable=False)]) for kind in (pa.int32(), pa.int64())
)


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
        (pa.list_(pa.int32()), pa.list_(pa.int64()), pa.list_(pa.int64())),
        (pa.list_(pa.int32()), pa.list_(pa.string()), None),
        (pa.list_(pa.int32()), pa.int32(), None),
        (pa.map_(pa.string(), pa.int8()), pa.map_(pa.string(), pa.int16()),
         pa.map_(pa.string(), pa.int16())),
        (pa.map_(pa.int32(), pa.int8()), pa.map_(pa.int64(), pa.int8()), None),
        (INNER, WIDER_INNER, WIDER_INNER),
        (WIDER_INNER, INNER, WIDER_INNER),
        (pa.list_(INNER), pa.list_(WIDER_INNER), pa.list_(WIDER_INNER)),
        (pa.struct([("a", pa.int32())]), pa.struct([("A", pa.int32())]), None),
        (pa.struct([("a", pa.int32())]), pa.struct([("a", pa.string())]), None),
        (pa.struct([pa.field("a", pa.int32(), nullable=False)]), pa.struct([("a", pa.int32())]),
         None),
        (NEVER_NULL, WIDER_NEVER_NULL, WIDER_NEVER_NULL),
        (WIDER_NEVER_NULL, NEVER_NULL, WIDER_NEVER_NULL),
        (pa.struct([("a", pa.int32())]),
         pa.struct([("a", pa.int32()), pa.field("b", pa.int32(), nullable=False)]),
         pa.struct([("a", pa.int32()), ("b", pa.int32())])),
    ],
)  # fmt: skip
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
    added = pa.field("c", pa.string(), nullable=False)
    after = evolved_columns(old, pa.schema([added, ("b", pa.int64())]), ("a",))
    assert after == pa.schema([("a", pa.int32()), ("b", pa.int64()), ("c", pa.string())])
    table = fitted(pa.table({"a": [1], "b": [2]}, schema=old), after)
    assert table.to_pylist() == [{"a": 1, "b": 2, "c": None}]


IN_THEM = [{"a": 1, "of": [{"x": 0.5}, None]}, None, {"a": None, "of": None}, {"a": 2, "of": []}]
WIDER_IN_THEM = [
    {"a": 1, "of": [{"x": 0.5, "y": None}, None], "more": None},
    None,
    {"a": None, "of": None, "more": None},
    {"a": 2, "of": [], "more": None},
]


@pytest.mark.parametrize(
    ("old", "wide", "rows", "expected"),
    [
        (INNER, WIDER_INNER, IN_THEM, WIDER_IN_THEM),
        (pa.list_(INNER), pa.list_(WIDER_INNER), [IN_THEM, None, [], IN_THEM[2:]],
         [WIDER_IN_THEM, None, [], WIDER_IN_THEM[2:]]),
        (pa.map_(pa.string(), INNER), pa.map_(pa.string(), WIDER_INNER),
         [None, *([("k", one)] for one in IN_THEM)],
         [None, *([("k", one)] for one in WIDER_IN_THEM)]),
        (pa.struct([("b", pa.string()), ("a", pa.int8())]),
         pa.struct([("a", pa.int32()), ("b", pa.string())]),
         [{"a": 1, "b": "x"}], [{"a": 1, "b": "x"}]),
    ],
)  # fmt: skip
def test_rows_get_fields_that_structs_have_more(old: Any, wide: Any, rows: Any, expected: Any):
    """Of each piece of them, as Arrow cuts tables."""
    values = pa.array(rows, old)
    for begin in range(len(rows)):
        for end in range(begin, len(rows) + 1):
            table = pa.table({"a": values.slice(begin, end - begin)})
            found = fitted(table, pa.schema([("a", wide)]))
            found.validate(full=True)
            assert found["a"].type == wide
            assert found["a"].to_pylist() == expected[begin:end]


def test_steps_to_a_wider_column():
    """By which table formats add and widen."""
    old, wide = pa.map_(pa.string(), INNER), pa.map_(pa.string(), WIDER_INNER)
    found = [(".".join(one.place), one.old, one.wide) for one in steps("c", old, wide)]
    assert found == [
        ("c.value.a", pa.int32(), pa.int64()),
        ("c.value.of.element.x", pa.float32(), pa.float64()),
        ("c.value.of.element.y", None, pa.string()),
        ("c.value.more", None, pa.struct([("z", pa.date32())])),
    ]
    assert not list(steps("c", wide, wide))


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


@pytest.mark.parametrize(
    "kind",
    [lambda inner: inner, pa.list_, lambda inner: pa.map_(pa.string(), inner)],
    ids=["struct", "array", "map"],
)
def test_a_key_that_has_others_in_it_does_not_change(kind: Callable[[pa.DataType], pa.DataType]):
    """By {"a": 1} and {"a": 1, "b": null} one row would be there twice."""
    before, wanted = (
        pa.schema([("k", kind(pa.struct([(name, pa.int32()) for name in names])))])
        for names in ("a", "ab")
    )
    with pytest.raises(TableError, match=r"column k is .*what is in a key column is a part of"):
        evolved_columns(before, wanted, ("k",))
    assert evolved_columns(before, before, ("k",)) == before


def test_a_new_column_that_differs_in_small_and_capital_letters_is_refused():
    with pytest.raises(TableError, match="columns a, A: a name is there twice"):
        evolved_columns(pa.schema([("a", pa.int32())]), pa.schema([("A", pa.int32())]), ())
