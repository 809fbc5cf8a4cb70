"""Batches into versions: once, whatever dies in between, and nothing of another topic."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fencepost.arrow.storage import LocalStorage, storage_at
from fencepost.spark.tables.batches import MergeOptions, Reach
from fencepost.spark.tables.errors import TableError
from fencepost.spark.tables.query import prepare, settings_of
from fencepost.spark.tables.versions import LATEST, Versions

from .worlds import (
    COLUMNS,
    STRUCT,
    Record,
    StoredTable,
    columns_with,
    envelope,
    grow_structs,
    key_of,
    row_of,
)

BATCHES = [
    [
        Record(0, 0, key_of(1), envelope("c", 1, after=row_of(1, "a", "A"))),
        Record(0, 1, key_of(2), envelope("c", 2, after=row_of(2, "b", "B"))),
        Record(1, 0, key_of(3), envelope("c", 3, after=row_of(3, "c", "C"))),
    ],
    [
        Record(0, 2, key_of(1), envelope("u", 4, after=row_of(1, "aa"))),
        Record(0, 3, key_of(2), envelope("d", 5, before=row_of(2, None))),
    ],
    [
        Record(0, 4, key_of(2), None),
        Record(1, 1, key_of(3), b"nonsense"),
        Record(1, 2, key_of(4), envelope("c", 6, after=row_of(4, "d", "D"))),
    ],
    [Record(0, 5, None, envelope("t", 7)), Record(0, 6, key_of(2), envelope("d", 5))],
    [Record(1, 3, key_of(5), envelope("c", 8, after=row_of(5, "e", "E")))],
]
STATES: list[dict[int, tuple[str, str]]] = [
    {},
    {1: ("a", "A"), 2: ("b", "B"), 3: ("c", "C")},
    {1: ("aa", "A"), 3: ("c", "C")},
    {1: ("aa", "A"), 3: ("c", "C"), 4: ("d", "D")},
    {},
    {5: ("e", "E")},
]
"""What versions 1 to 6 have."""
KEEP = MergeOptions(on_error="keep")


def test_every_batch_makes_a_version_and_old_ones_stay(tmp_path: Path):
    table = StoredTable(tmp_path, options=KEEP)
    for number, records in enumerate(BATCHES):
        version = table.take(number, records)
        assert version is not None
        assert version.number == number + 2
    assert [table.names(number) for number in range(1, 7)] == STATES
    newest = table.versions.require_newest()
    assert newest.ends == {0: 7, 1: 4}
    assert newest.totals["errors"] == 1
    (errors,) = newest.errors
    (row,) = pq.read_table(tmp_path / errors).to_pylist()
    assert (row["partition"], row["offset"], row["value"]) == (1, 1, b"nonsense")
    assert row["error"].startswith("value: no JSON")


def test_only_buckets_that_change_are_written(tmp_path: Path):
    table = StoredTable(tmp_path, options=KEEP)
    before = table.take(0, BATCHES[0])
    after = table.take(1, [Record(0, 2, key_of(1), envelope("u", 4, after=row_of(1, "aa")))])
    assert before is not None
    assert after is not None
    changed = [
        number for number in after.buckets if after.buckets[number] != before.buckets[number]
    ]
    assert len(changed) == 1
    assert set(after.removed) == set(before.buckets[changed[0]].files)
    late = table.take(2, [Record(0, 3, key_of(1), envelope("u", 2, after=row_of(1, "x")))])
    assert late is not None
    assert late.buckets == after.buckets
    assert late.counts["late"] == 1


def test_a_batch_that_is_there_is_skipped(tmp_path: Path):
    table = StoredTable(tmp_path, options=KEEP)
    table.take(0, BATCHES[0])
    assert table.take(0, BATCHES[1]) is None
    assert table.versions.require_newest().number == 2
    assert table.names() == STATES[1]


def test_a_truncation_is_known_to_later_batches(tmp_path: Path):
    table = StoredTable(tmp_path, options=KEEP)
    for number, records in enumerate(BATCHES):
        table.take(number, records)
    before = envelope("c", 6, after=row_of(8, "late", "L"))
    version = table.take(5, [Record(1, 4, key_of(8), before)])
    assert version is not None
    assert version.counts["late"] == 1
    assert table.names() == STATES[5]


def test_another_query_reads_the_topic_again_and_changes_nothing(tmp_path: Path):
    table = StoredTable(tmp_path, options=KEEP)
    for number, records in enumerate(BATCHES):
        table.take(number, records)
    for number, records in enumerate(BATCHES):
        table.take(number, records, query="another")
    assert table.names() == STATES[5]
    assert table.versions.require_newest().generation == 0


# -- killed ----------------------------------------------------------------------------------------


class CopyingStorage(LocalStorage):
    """A local directory that is copied at each of the steps that change it: before it, and right
    after it. A copy is what a driver leaves that is killed there."""

    copies: ClassVar[list[Path]] = []
    to: ClassVar[Path]

    @contextmanager
    def step(self) -> Iterator[None]:
        self._copy()
        yield
        self._copy()

    def _copy(self) -> None:
        copy = self.to / str(len(self.copies) + 1)
        shutil.copytree(self.root, copy, symlinks=True)
        self.copies.append(copy)

    def create_bytes(self, path: str, data: bytes) -> bool:
        with self.step():
            return super().create_bytes(path, data)

    def delete(self, path: str) -> None:
        with self.step():
            super().delete(path)

    def delete_all(self, path: str) -> None:
        with self.step():
            super().delete_all(path)

    @contextmanager
    def open_output(self, path: str) -> Iterator[Any]:
        with self.step(), super().open_output(path) as file:
            yield file


def run_from(place: Path, started: int, kind: type[LocalStorage] = LocalStorage) -> None:
    """A driver: batches from where Spark goes on, which knows of those that it saw end."""
    local = storage_at(place)
    storage = kind(local.filesystem, local.root, local.uri)
    options = MergeOptions(on_error="keep", keep_versions=2, keep_ms=0)
    for number in range(started, len(BATCHES)):
        StoredTable(storage, options=options).take(number, BATCHES[number])
        done = place / "done"
        done.write_text(str(number))


def killed_at_each_step(place: Path) -> list[Path]:
    """What drivers that were killed at one step after the other have left, and others finished."""
    CopyingStorage.to, CopyingStorage.copies[:] = place, []
    (place / "whole").mkdir()
    run_from(place / "whole", 0, CopyingStorage)
    for directory in CopyingStorage.copies:
        done = directory / "done"
        run_from(directory, int(done.read_text()) + 1 if done.exists() else 0)
    return [place / "whole", *CopyingStorage.copies]


@pytest.mark.slow
def test_a_driver_killed_at_any_step_loses_and_doubles_nothing(tmp_path: Path):
    directories = killed_at_each_step(tmp_path)
    assert len(directories) > 60
    for directory in directories:
        table = StoredTable(directory, options=KEEP)
        newest = table.versions.require_newest()
        assert newest.number == len(BATCHES) + 1
        assert table.names() == STATES[-1]
        assert newest.totals["upserts"] == 6
        assert newest.totals["errors"] == 1
        assert len(newest.errors) == 1
        assert table.versions.numbers() == [5, 6]
        assert table.names(5) == STATES[4]
        current = pq.read_table(directory / "current").to_pylist()
        assert [(row["id"], row["name"]) for row in current] == [(5, "e")]


def test_what_a_killed_driver_left_of_links_is_put_right(tmp_path: Path):
    table = StoredTable(tmp_path, options=KEEP)
    table.take(0, BATCHES[0])
    (tmp_path / "current").unlink()
    table.versions.storage.write_bytes(LATEST, json.dumps({"oldest": 1, "newest": 1}).encode())
    assert table.versions.require_newest().number == 2
    assert table.take(0, BATCHES[0]) is None
    assert os.readlink(tmp_path / "current").endswith("2")
    assert len(pq.read_table(tmp_path / "current")) == 3


def test_of_two_writers_one_is_refused(tmp_path: Path):
    table = StoredTable(tmp_path, options=KEEP)
    other = StoredTable(tmp_path, options=KEEP)
    before = other.versions.require_newest()
    table.take(0, BATCHES[0])
    with pytest.raises(TableError, match="another writer published version 2"):
        other.versions.publish(before)


# -- topics ----------------------------------------------------------------------------------------


def reach(topic_id: str, begin: int | None, end: int) -> Reach:
    return Reach("orders", topic_id, {0: (begin, end)})


def test_a_recreated_topic_is_refused(tmp_path: Path):
    table = StoredTable(tmp_path)
    table.take(0, BATCHES[0], reach=reach("id-1", 0, 10))
    with pytest.raises(TableError, match="deleted and created again: its id was id-1 and is id-2"):
        table.take(1, BATCHES[1], reach=reach("id-2", 0, 10))
    assert table.versions.require_newest().number == 2


def test_a_rewritten_log_is_refused(tmp_path: Path):
    table = StoredTable(tmp_path)
    table.take(0, BATCHES[0], reach=reach("id-1", 0, 10))
    with pytest.raises(TableError, match="read from offset 8, and was read up to 10"):
        table.take(1, BATCHES[1], reach=reach("id-1", 8, 12))


def test_another_topic_is_refused(tmp_path: Path):
    table = StoredTable(tmp_path)
    table.take(0, BATCHES[0])
    with pytest.raises(TableError, match="the table is of topic orders, not others"):
        table.take(1, BATCHES[1], reach=Reach("others"))


@pytest.mark.parametrize("following", [reach("id-2", 0, 1), reach("id-1", 3, 11)])
def test_told_to_go_on_all_new_events_are_later(tmp_path: Path, following: Reach):
    table = StoredTable(
        tmp_path,
        "json",
        order="topic",
        options=MergeOptions(fail_on_data_loss=False),
    )
    old, new = (json.dumps(row_of(1, name, "B")).encode() for name in ("old", "new"))
    table.take(0, [Record(0, 9, key_of(1), old)], reach=reach("id-1", 0, 10))
    version = table.take(1, [Record(0, 0, key_of(1), new)], reach=following)
    assert version is not None
    assert version.generation == 1
    assert table.names() == {1: ("new", "B")}
    table.take(2, [Record(0, 11, key_of(1), old)], reach=reach(following.topic_id, 11, 12))
    assert table.versions.require_newest().generation == 1
    assert table.names() == {1: ("old", "B")}


# -- refusals --------------------------------------------------------------------------------------


def test_a_record_that_cannot_be_understood_stops_the_batch(tmp_path: Path):
    table = StoredTable(tmp_path)
    with pytest.raises(
        TableError, match=r"topic orders, partition 1, offset 1: value: no JSON.*1 such records"
    ):
        table.take(0, BATCHES[2])
    assert table.versions.require_newest().number == 1


def test_events_without_an_order_stop_the_batch(tmp_path: Path):
    table = StoredTable(tmp_path, "json", order="topic")
    value = json.dumps(row_of(1, "a", "A")).encode()
    with pytest.raises(TableError, match="topic orders: offset 0 of partition 1"):
        table.take(0, [Record(0, 0, key_of(1), value), Record(1, 0, key_of(1), value)])


def test_the_tables_settings_stay(tmp_path: Path):
    table = StoredTable(tmp_path)
    for other in (
        settings_of("json", "id", "source", 3),
        settings_of("debezium", ("id", "name"), "source", 3),
        settings_of("debezium", "id", "topic", 3),
    ):
        with pytest.raises(TableError, match="is a table with decode=debezium, key=id"):
            prepare(table.versions, other, COLUMNS)
    found = prepare(table.versions, settings_of("debezium", "id", None, 99), COLUMNS)
    assert found.settings.buckets == 3


@pytest.mark.parametrize(
    "given",
    [("nonsense", "id", None, 1), ("json", "id", "nonsense", 1), ("json", "id", None, 0)],
)
def test_settings_that_make_no_table(given: Any):
    if given[0] == "nonsense":
        from fencepost.spark.tables.query import columns_of

        with pytest.raises(TableError, match="must be one of bytes, json"):
            columns_of(None, given[0], None)
        return
    with pytest.raises(TableError, match="must be"):
        settings_of(*given)


def test_columns_change_between_runs(tmp_path: Path):
    StoredTable(tmp_path, options=KEEP).take(0, BATCHES[0])
    wider = pa.schema([("id", pa.int64()), ("name", pa.string()), ("more", pa.int32())])
    table = StoredTable(tmp_path, columns=wider, options=KEEP)
    row = {**row_of(1, "z", "ignored"), "more": 7}
    version = table.take(1, [Record(0, 2, key_of(1), envelope("u", 4, after=row))])
    assert version is not None
    assert version.columns.names == ["id", "name", "big", "more"]
    (found,) = [one for one in table.rows() if one["id"] == 1]
    assert (found["name"], found["big"], found["more"]) == ("z", None, 7)
    with pytest.raises(TableError, match="column name is string in the table and cannot become"):
        StoredTable(tmp_path, columns=pa.schema([("id", pa.int64()), ("name", pa.int32())]))


def test_structs_grow_between_runs(tmp_path: Path):
    """Files of buckets that no batch changes stay as they are."""
    expected = grow_structs(tmp_path)
    rows = StoredTable(tmp_path, columns=columns_with(STRUCT), options=KEEP).rows()
    assert {one["id"]: {"b": None, **one["of"]} for one in rows} == expected
    assert all(one["all"] == [one["of"], None] for one in rows)
    with pytest.raises(TableError, match=r"column of is struct<.* cannot become struct<a: string>"):
        StoredTable(tmp_path, columns=columns_with(pa.struct([("a", pa.string())])))


# -- damage ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[: len(data) // 2],
        lambda data: b"[" * 100_000,
        lambda data: b"{}",
        lambda data: data.replace(b'"format": 1', b'"format": 2'),
        lambda data: data.replace(b'"number": 2', b'"number": 9'),
        lambda data: data.replace(b'"columns": "', b'"columns": "AAAA'),
        lambda data: data.replace(b'"buckets": {', b'"buckets": {"x": {}, '),
    ],
)
def test_a_damaged_version_is_told(tmp_path: Path, damage: Callable[[bytes], bytes]):
    table = StoredTable(tmp_path, options=KEEP)
    table.take(0, BATCHES[0])
    path = tmp_path / "_table/versions/00000000000000000002.json"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(TableError, match=r"00000000000000000002\.json"):
        table.versions.require_newest()


def test_damaged_hints_and_files_are_told(tmp_path: Path):
    table = StoredTable(tmp_path, options=KEEP)
    version = table.take(0, BATCHES[0])
    assert version is not None
    for hint in (
        *(b"", b"{}", b'{"oldest": "x", "newest": 1}', b"[" * 10_000),
        *(b'{"oldest": 1e400, "newest": 1}', b'{"oldest": -5, "newest": -5}'),
    ):
        (tmp_path / LATEST).write_bytes(hint)
        with pytest.raises(TableError, match="is no hint"):
            table.versions.newest()
    (tmp_path / LATEST).unlink()
    assert table.versions.require_newest().number == 2
    for file in version.files:
        (tmp_path / file).unlink()
    with pytest.raises(TableError, match="is missing, though a version has it"):
        table.take(1, BATCHES[1])
    for file in version.files:
        (tmp_path / file).write_bytes(b"PAR1nonsense")
    with pytest.raises(TableError, match="cannot be read"):
        table.take(1, BATCHES[1])


def test_where_there_is_no_table(tmp_path: Path):
    versions = Versions(storage_at(tmp_path))
    assert versions.newest() is None
    assert versions.numbers() == []
    with pytest.raises(TableError, match="there is no table"):
        versions.require_newest()
    with pytest.raises(TableError, match="there is no version 7"):
        versions.read(7)


def test_a_table_whose_newest_version_is_not_found_is_no_new_one(tmp_path: Path):
    table = StoredTable(tmp_path, options=KEEP)
    for number, records in enumerate(BATCHES[:2]):
        table.take(number, records)
    versions = sorted((tmp_path / "_table/versions").iterdir())
    (tmp_path / LATEST).write_text('{"oldest": 1, "newest": 4}')
    with pytest.raises(TableError, match="version 4, where the newest is looked for, is missing"):
        table.versions.newest()
    (tmp_path / LATEST).unlink()
    assert table.versions.require_newest().number == 3
    versions[0].unlink()
    with pytest.raises(TableError, match="version 1, where the newest is looked for, is missing"):
        table.versions.newest()


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("settings", "buckets"), 0),
        (("settings", "buckets"), None),
        (("published_ms",), None),
        (("newest_ms",), "x"),
        (("newest_ms",), 10**30),
        (("totals",), None),
        (("counts", "upserts"), 1.5),
        (("query",), 5),
        (("errors",), [[1]]),
        (("removed",), ["\ud800"]),
        (("ends", "0"), float("inf")),
        (("marks",), [[0, 0, 1, 1, ""]]),
        (("buckets", "0"), {"rows": True, "deletes": None}),
    ],
)
def test_a_version_with_other_types_is_damaged(tmp_path: Path, path: tuple[str, ...], value: Any):
    table = StoredTable(tmp_path, options=KEEP)
    table.take(0, BATCHES[0])
    file = max((tmp_path / "_table/versions").iterdir())
    document = json.loads(file.read_text())
    place = document
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = value
    file.write_text(json.dumps(document))
    with pytest.raises(TableError, match="is no version"):
        table.versions.newest()
