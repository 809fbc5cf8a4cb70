"""What a task writes: a file for each run of its columns, with all of its rows once."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fencepost.arrow.archive.layout import DataFile
from fencepost.arrow.archive.schema import FILE_SCHEMA
from fencepost.arrow.storage import LocalStorage, Storage, StorageError, storage_at
from fencepost.spark.archive import writing
from fencepost.spark.archive.source import FOLDERS, dated
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


def test_a_file_is_of_one_partition_and_date_in_whatever_order_rows_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No more files are open at once than is allowed; a date that comes again when its file is
    closed begins another."""
    monkeypatch.setattr(writing, "OPEN_FILES_MAX", 3)
    plain, draw = storage_at(tmp_path), random.Random(11)
    storage = Counting(plain.filesystem, plain.root, plain.uri)
    given = [
        {**record(0, offset), "topic": "t", "date": date(2026, 1, draw.randint(1, 5))}
        for offset in range(500)
    ]
    batches = pa.Table.from_pylist(given, SCHEMA).to_batches(max_chunksize=40)
    paths = write_files(batches, storage, "x", ("topic", "date"))
    assert storage.most_open == 3
    by_date: dict[str, list[dict[str, Any]]] = {}
    for path in paths:
        with DataFile("", "", 0, "", 0, 0, path, storage).opened() as file:
            by_date.setdefault(path.split("/")[2], []).extend(file.read().to_pylist())
    assert len(paths) > len(by_date) == 5
    for day, rows in by_date.items():
        wanted = [one for one in given if day == f"date={one['date']}"]
        assert rows == [{name: one[name] for name in FILE_SCHEMA.names} for one in wanted]


def test_a_file_with_few_rows_keeps_no_others_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One row of each batch is of another day: kept as a slice it would keep the batch."""
    monkeypatch.setattr(writing, "ROW_GROUP_BYTES", 8_000_000)
    before = pa.total_allocated_bytes()
    most = 0

    def batches() -> Iterator[pa.RecordBatch]:
        nonlocal most
        for number in range(40):
            rows = [
                {**record(0, number * 9 + n), "value": bytes(200_000), "topic": "t"}
                for n in range(9)
            ]
            rows[0] |= {"date": date(2026, 1, 1), "value": b"x"}
            yield pa.RecordBatch.from_pylist(rows, SCHEMA)
            most = max(most, pa.total_allocated_bytes() - before)

    paths = write_files(batches(), storage_at(tmp_path), "x", ("topic", "date"))
    assert most < 3 * writing.ROW_GROUP_BYTES
    groups = {pq.ParquetFile(tmp_path / path).metadata.num_row_groups for path in paths}
    assert len(paths) == 2 and max(groups) > 4


class Counting(LocalStorage):
    """A local directory that counts the files which are open for writing."""

    open_files = most_open = 0

    @contextlib.contextmanager
    def open_output(self, path: str) -> Iterator[pa.NativeFile]:
        with super().open_output(path) as file:
            self.open_files += 1
            self.most_open = max(self.most_open, self.open_files)
            try:
                yield file
            finally:
                self.open_files -= 1


MICROS_OF_DAY = 86_400_000_000


@pytest.mark.parametrize(
    ("micros", "day"),
    [
        (0, "1970-01-01"),
        (-1, "1969-12-31"),
        (MICROS_OF_DAY - 1, "1970-01-01"),
        (-MICROS_OF_DAY, "1969-12-31"),
        (-MICROS_OF_DAY - 1, "1969-12-30"),
        (2_932_897 * MICROS_OF_DAY - 1, "9999-12-31"),
        (2_932_897 * MICROS_OF_DAY, "__HIVE_DEFAULT_PARTITION__"),
        (-719_162 * MICROS_OF_DAY, "0001-01-01"),
        (-719_162 * MICROS_OF_DAY - 1, "__HIVE_DEFAULT_PARTITION__"),
        (2**63 - 1, "__HIVE_DEFAULT_PARTITION__"),
        (-(2**63), "__HIVE_DEFAULT_PARTITION__"),
        (None, "__HIVE_DEFAULT_PARTITION__"),
    ],
)
def test_the_date_of_a_record_is_of_utc(tmp_path: Path, micros: int | None, day: str) -> None:
    """A timestamp that no date has does not keep the others from being archived."""
    table = pa.Table.from_pylist([{**record(0, n), "topic": "t"} for n in range(2)], SCHEMA)
    stamps = pa.array([micros, 0], pa.int64()).cast(pa.timestamp("us", "UTC"))
    table = table.set_column(5, "timestamp", stamps).drop_columns(["date"])
    paths = write_files(map(dated, table.to_batches()), storage_at(tmp_path), "x", FOLDERS)
    assert {path.split("/")[2] for path in paths} == {f"date={day}", "date=1970-01-01"}


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


def test_a_task_that_fails_leaves_no_file_that_is_half(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "OPEN_FILES_MAX", 1)

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
