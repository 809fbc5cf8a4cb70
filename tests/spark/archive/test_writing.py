"""What a task writes: a file for each run of its columns, with all of its rows once."""

from __future__ import annotations

import random
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from fencepost.arrow.archive.layout import DataFile
from fencepost.arrow.archive.schema import FILE_SCHEMA
from fencepost.arrow.storage import Storage, StorageError, storage_at
from fencepost.spark.archive import writing
from fencepost.spark.archive.writing import write_files

from ..storage.stores import faulty
from .worlds import record

SCHEMA = pa.schema([*FILE_SCHEMA, ("topic", pa.string()), ("date", pa.date32())])


def rows_of(storage: Storage, path: str) -> list[dict[str, Any]]:
    with DataFile("", "", 0, "", 0, 0, path, storage).opened() as file:
        assert file.schema_arrow == FILE_SCHEMA
        rows: list[dict[str, Any]] = file.read().to_pylist()
        return rows


@pytest.mark.parametrize("seed", range(20))
def test_every_row_is_in_a_file_of_its_own_columns(seed: int, tmp_path: Path) -> None:
    draw = random.Random(seed)
    given = [
        {
            **record(partition, offset),
            "topic": topic,
            "date": draw.choice([date(2026, 1, 1), date(2026, 1, 2), None]),
        }
        for topic in draw.sample(["a", "b-1", "0"], draw.randint(1, 3))
        for partition in range(draw.randint(1, 3))
        for offset in sorted(draw.sample(range(1000), draw.randint(0, 60)))
    ]
    given.sort(key=lambda one: (one["topic"], str(one["date"]), one["partition"], one["offset"]))
    table = pa.Table.from_pylist(given, SCHEMA)
    most = draw.choice([0, 1, 7, 15, 1000])
    storage = storage_at(tmp_path)
    batches = table.to_batches(max_chunksize=draw.choice([1, 5, 17, 1000]))
    paths = write_files(batches, storage, "here/it/is", ("topic", "date"), most)
    assert sorted(paths) == [one.path for one in storage.list()]
    found = []
    for path in paths:  # in the order in which the rows were
        topic, day = path.removeprefix("here/it/is/").split("/")[:2]
        rows = rows_of(storage, path)
        assert rows and len({one["partition"] for one in rows}) == 1
        assert not most or len(rows) <= most
        at = len(found)
        found += rows
        for one in given[at : len(found)]:
            assert topic == f"topic={one['topic']}"
            assert day == f"date={one['date'] or '__HIVE_DEFAULT_PARTITION__'}"
    assert found == [{name: one[name] for name in FILE_SCHEMA.names} for one in given]
    runs = {(one["topic"], one["date"], one["partition"]) for one in given}
    if not most:
        assert len(paths) == len(runs)


def test_row_groups_are_bounded_and_times_are_of_utc(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "ROW_GROUP_BYTES", 1)
    elsewhere = pa.schema(
        [
            pa.field(one.name, pa.timestamp("us", "Asia/Tokyo")) if one.name == "timestamp" else one
            for one in FILE_SCHEMA
        ]
    )
    given = [record(0, offset) for offset in range(20)]
    batches = pa.Table.from_pylist(given, elsewhere).to_batches(max_chunksize=5)
    storage = storage_at(tmp_path)
    (path,) = write_files(batches, storage, "x")
    with DataFile("", "", 0, "", 0, 0, path, storage).opened() as file:
        assert file.metadata.num_row_groups == 4
    assert rows_of(storage, path) == given


def test_a_task_that_fails_leaves_no_file_that_is_half() -> None:
    def before(what: str, path: str) -> None:
        if what == "write" and len(written) == 2:
            raise OSError("503")
        if what == "write":
            written.append(path)

    written: list[str] = []
    storage, _ = faulty(before)
    table = pa.Table.from_pylist([record(p, offset) for p in range(3) for offset in range(5)])
    with pytest.raises(StorageError, match="503"):
        write_files(table.cast(FILE_SCHEMA).to_batches(), storage, "x")
    assert len(storage.list()) == 2  # whole ones, which no driver hears of

    written.clear()

    def breaking() -> Any:
        yield from table.slice(0, 5).cast(FILE_SCHEMA).to_batches()
        raise KeyError

    with pytest.raises(KeyError):
        write_files(breaking(), storage, "y")
    assert storage.list("y") == []


def test_no_rows_are_no_files(tmp_path: Path) -> None:
    assert write_files([], storage_at(tmp_path), "x") == []
    empty = pa.Table.from_pylist([], FILE_SCHEMA).to_batches(max_chunksize=1)
    assert write_files(empty, storage_at(tmp_path), "x") == []
    assert (
        write_files([pa.RecordBatch.from_pylist([], FILE_SCHEMA)], storage_at(tmp_path), "x") == []
    )
