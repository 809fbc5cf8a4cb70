"""Files of an archive whose columns are not quite those that it writes."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fencepost.arrow.archive.layout import ArchiveError
from fencepost.arrow.archive.reading import records_in_order
from fencepost.arrow.archive.schema import FILE_SCHEMA
from fencepost.spark.archive.checking import verify
from fencepost.spark.archive.compaction import compact

from .worlds import World, expected

Change = Callable[[pa.Table], pa.Table]
RANGES = {0: (0, 6), 1: (0, 6)}


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Three batches of records of one day."""
    made = World(tmp_path / "a")
    for start in (0, 2, 4):
        made.archive({0: (start, start + 2), 1: (start, start + 2)}, days=0)
    return made


def rewrite(world: World, change: Change, which: int = 0) -> str:
    """One file, as its owner may write it again."""
    path = sorted(world.layout.directory.glob("topic=*/*/*.parquet"))[which]
    pq.write_table(change(pq.ParquetFile(path).read()), path, write_page_checksum=True)
    return str(path)


def contents(world: World) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in world.layout.directory.glob("topic=*/*/*.parquet")}


def cast(column: str, kind: pa.DataType) -> Change:
    def change(table: pa.Table) -> pa.Table:
        at = table.schema.get_field_index(column)
        return table.set_column(at, column, table[column].cast(kind))

    return change


def with_column(name: str, values: pa.Array) -> Change:
    return lambda table: table.append_column(name, values.slice(0, table.num_rows))


def without(name: str) -> Change:
    return lambda table: table.drop_columns([name])


def rows_of(world: World) -> list[tuple[int, int]]:
    """As replays and backfills read them."""
    files, _ = world.layout.listing()
    found = []
    for number in (0, 1):
        mine = [one for one in files if one.partition == number]
        for batch in records_in_order(mine, 0, 100):
            assert batch.schema.equals(FILE_SCHEMA)
            found += [(row["partition"], row["offset"]) for row in batch.to_pylist()]
    return found


NOTES = pa.array(["a note"] * 10)
WIDE = [
    cast("partition", pa.int64()),
    cast("timestampType", pa.int64()),
    cast("value", pa.large_binary()),
    cast("timestamp", pa.timestamp("ms", "UTC")),
    with_column("note", NOTES),
]


@pytest.mark.parametrize("change", WIDE)
def test_wider_and_further_columns_are_read_and_kept_by_compaction(world: World, change: Change):
    rewrite(world, change)
    before = world.records()
    assert rows_of(world) == expected(RANGES)
    assert verify(world.layout).all_problems == []
    assert compact(world.layout).files_before == 6
    assert [{**row, "note": row.get("note")} for row in before] == [
        {**row, "note": row.get("note")} for row in world.records()
    ]
    assert rows_of(world) == expected(RANGES)
    assert verify(world.layout).all_problems == []


def test_a_further_column_of_two_types_is_the_wider_one(world: World):
    """It was left out of the compacted file, without a word."""
    rewrite(world, with_column("extra", pa.array([1] * 10, pa.int32())), 0)
    rewrite(world, with_column("extra", pa.array([2**40] * 10, pa.int64())), 1)
    compact(world.layout)
    extras = [row.get("extra") for row in world.records() if row["partition"] == 0]
    assert extras == [1, 1, 2**40, 2**40, None, None]
    (file,) = [one for one in world.layout.listing()[0] if one.partition == 0]
    with file.opened() as parquet:
        kinds = {one.name: one.type for one in parquet.schema_arrow}
    assert kinds == {**{one.name: one.type for one in FILE_SCHEMA}, "extra": pa.int64()}


def test_a_further_column_of_two_types_that_do_not_fit_stops_compaction(world: World):
    rewrite(world, with_column("extra", pa.array([1] * 10)), 0)
    path = rewrite(world, with_column("extra", NOTES), 1)
    before = world.records()
    with pytest.raises(ArchiveError) as caught:
        compact(world.layout)
    told = str(caught.value)
    assert f"{path}: column extra is int64 in the table and cannot become string" in told
    assert "delta and iceberg keep columns beside their own" in told
    assert world.records() == before


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (without("headers"), "has no column headers, which is list<"),
        (without("partition"), "has no column partition, which is int32 in an archive"),
        (cast("partition", pa.string()), "column partition is string in the file and int32 in an"),
        (cast("offset", pa.float64()), "column offset is double in the file and int64 in an"),
        (cast("timestamp", pa.timestamp("us")), r"column timestamp is timestamp\[us\] in the file"),
    ],
)
def test_columns_that_lose_something_are_refused_by_name_and_types(
    world: World, change: Change, told: str
):
    path = rewrite(world, change)
    before = contents(world)
    for act in (functools.partial(rows_of, world), functools.partial(compact, world.layout)):
        with pytest.raises(ArchiveError, match=f"{path}: {told}"):
            act()
    problems = verify(world.layout).all_problems
    assert any(re.search(f"{path}: cannot be read: .*{told}", one) for one in problems)
    assert contents(world) == before


def test_a_value_that_does_not_fit_is_not_read_as_another(world: World):
    def large(table: pa.Table) -> pa.Table:
        at = table.schema.get_field_index("timestampType")
        return table.set_column(at, "timestampType", pa.array([2**40] * table.num_rows))

    rewrite(world, large)
    with pytest.raises(ArchiveError, match="1099511627776 not in range"):
        rows_of(world)
    compact(world.layout)  # which keeps it
    assert {row["timestampType"] for row in world.records()} == {0, 2**40}
