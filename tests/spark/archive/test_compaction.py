"""Compaction: fewer files, the same records at every moment, nothing to repair after a crash."""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from fencepost.arrow import storage as storages
from fencepost.arrow.archive import layout as layouts
from fencepost.arrow.archive.layout import COMPACTION, ArchiveError, DataFile
from fencepost.arrow.archive.state import recover
from fencepost.arrow.storage import LocalStorage, storage_at
from fencepost.spark.archive import compaction
from fencepost.spark.archive.checking import status, verify
from fencepost.spark.archive.compaction import compact
from fencepost.spark.archive.running import here

from .worlds import World, expected, record

ALL = {0: (0, 30), 1: (0, 30)}


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Ten batches of three records per partition."""
    made = World(tmp_path / "a")
    for start in range(0, 30, 3):
        made.archive({0: (start, start + 3), 1: (start, start + 3)})
    return made


def files_of(world: World) -> list[Path]:
    return [world.layout.local(one.path) for one in world.layout.listing()[0]]


def test_small_files_become_one_per_partition_and_date(world: World):
    before = world.records()
    assert len(files_of(world)) == 40
    done = compact(world.layout)
    assert (done.directories, done.files_before, done.files_after, done.rows) == (2, 40, 4, 60)
    assert world.records() == before == [record(p, offset) for p, offset in expected(ALL)]
    assert verify(world.layout).all_problems == []
    assert {one.files for one in status(world.layout).dates} == {2}
    assert compact(world.layout).files_before == 0
    world.archive({0: (30, 33), 1: (30, 33)})
    assert compact(world.layout, discard=True).files_before == 8
    assert not world.layout.local(COMPACTION).exists()
    assert world.offsets() == expected({0: (0, 33), 1: (0, 33)})


def test_files_that_spark_wrote_are_merged_with_ours(world: World):
    """As archives have them that were begun before tasks wrote files themselves."""
    before = world.records()
    for path in files_of(world)[::2]:
        table = pq.read_table(path, partitioning=None)
        pq.write_table(table, path, store_schema=False, use_compliant_nested_type=False)
    compact(world.layout)
    assert world.records() == before
    assert verify(world.layout).all_problems == []


def test_files_are_no_larger_than_the_target(world: World):
    size = max(path.stat().st_size for path in files_of(world))
    done = compact(world.layout, target_bytes=3 * size)
    assert 4 < done.files_after < 20
    assert verify(world.layout).all_problems == []
    compact(world.layout, target_bytes=size)  # what is half as large stays
    assert verify(world.layout).all_problems == []


@pytest.mark.parametrize(
    ("sizes", "groups"),
    [
        ([4, 4], [[4, 4]]),
        ([4], []),
        ([4, 3, 3], [[4, 3, 3]]),  # as large as the target together
        ([4, 3, 4], [[4, 3]]),
        ([4, 3, 4, 4, 3, 4], [[4, 3], [4, 4], [3, 4]]),
        ([1, 5, 1], []),  # half of the target stays as it is, and ends what was begun
        ([1, 1, 5, 1, 1], [[1, 1], [1, 1]]),
        ([1, 1, 20, 1], [[1, 1]]),
        ([4, 4, 4, 4], [[4, 4], [4, 4]]),
    ],
)
def test_neighbours_are_merged_up_to_the_target(
    tmp_path: Path, sizes: list[int], groups: list[list[int]]
):
    storage = storage_at(tmp_path)
    files = [
        DataFile("t", "2026-01-01", 0, "", number, number, str(number), storage, size)
        for number, size in enumerate(sizes)
    ]
    found = list(compaction._groups(files, 10))
    assert [[one.size for one in group] for group in found] == groups
    other = [replace(one, tag="other") if one.first % 2 else one for one in files]
    assert list(compaction._groups(other, 10)) == []


def test_what_is_merged_between_two_exchanges_is_bounded(tmp_path: Path):
    merge = compaction.Merge((), storage_at(tmp_path), "")
    counts = [compaction.PIECES_MAX - 1, 1, compaction.PIECES_MAX + 5, 2, 3]
    plans = [
        compaction._Plan("", "", (), (merge,) * count, number)
        for number, count in enumerate(counts)
    ]
    slices = list(compaction._slices(plans))
    assert [[plan.size for plan in some] for some in slices] == [[0, 1], [2], [3, 4]]


def test_large_files_are_copied_a_row_group_at_a_time(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(compaction, "BATCH_ROWS", 2)
    monkeypatch.setattr(compaction, "ROW_GROUP_BYTES", 1)
    before = world.records()
    told: list[tuple[int, int]] = []
    done = compact(world.layout, on_progress=lambda *shares: told.append(shares))
    assert world.records() == before
    groups = [pq.ParquetFile(path).metadata.num_row_groups for path in files_of(world)]
    assert min(groups) > 2
    sizes = [path.stat().st_size for path in files_of(world)]
    assert (done.rows, done.bytes_after) == (60, sum(sizes))
    assert told[-1] == (done.bytes_before, done.bytes_before) and len(told) == 2
    assert told[0][0] < done.bytes_before


def test_rows_that_get_lost_on_the_way_stop_it(world: World, monkeypatch: pytest.MonkeyPatch):
    original, before = compaction._row_groups, files_of(world)

    def losing(file: pq.ParquetFile) -> Any:
        return (table.slice(1) for table in original(file))

    monkeypatch.setattr(compaction, "_row_groups", losing)
    with pytest.raises(ArchiveError, match=r"has \d+ rows of \d+"):
        compact(world.layout)
    assert files_of(world) == before


def test_topics_of_one_name_are_kept_apart(world: World):
    world.topic_id = "id-2"
    world.archive({0: (0, 3), 1: (0, 3)}, begins={0: 0, 1: 0})
    world.archive({0: (3, 6), 1: (3, 6)})
    compact(world.layout)
    assert verify(world.layout).all_problems == []
    assert [one.records for one in verify(world.layout).partitions] == [30, 30, 6, 6]


class KilledError(BaseException):
    """The process is gone."""


STEPS = [
    (compaction, "merge_files"),
    (compaction, "sync"),
    (compaction.os, "link"),
    (compaction, "exchange"),
    (layouts, "sync"),
    (LocalStorage, "delete_all"),
]


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("count", [1, pytest.param(2, marks=pytest.mark.long)])
@pytest.mark.parametrize("number", range(len(STEPS)))
def test_a_compaction_that_dies_at_any_step_changes_nothing_for_readers(
    world: World, monkeypatch: pytest.MonkeyPatch, number: int, count: int, after: bool
):
    size = max(path.stat().st_size for path in files_of(world))
    compact(world.layout, target_bytes=4 * size)
    for start in range(30, 36, 3):
        world.archive({0: (start, start + 3), 1: (start, start + 3)})
    records = world.records()
    place, name = STEPS[number]
    original = getattr(place, name)
    calls = 0

    def dying(*arguments: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == count and not after:
            raise KilledError
        result = original(*arguments, **options)
        if calls == count:
            raise KilledError
        return result

    died = False
    with monkeypatch.context() as patch:
        patch.setattr(place, name, dying)
        try:
            compact(world.layout, target_bytes=4 * size, discard=True)
        except KilledError:
            died = True
    assert died or name in ("link", "sync")  # these may have had nothing to do
    assert world.records() == records
    assert verify(world.layout).all_problems == []
    compact(world.layout, discard=True)
    assert world.records() == records
    assert len(files_of(world)) == 4
    assert not world.layout.local(COMPACTION).exists()


def test_batches_that_come_meanwhile_stay(world: World):
    more = {0: (30, 36), 1: (30, 36)}

    def run(work: Any, pieces: Any) -> Any:
        done = here(work, pieces)
        world.archive(more)
        return done

    compact(world.layout, run)
    assert world.offsets() == expected({0: (0, 36), 1: (0, 36)})
    assert verify(world.layout).all_problems == []
    assert len(files_of(world)) == 8


def test_a_batch_whose_files_were_not_all_in_place_is_finished_first(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    with monkeypatch.context() as patch:
        patch.setattr(storages.Path, "rename", lambda *paths: (_ for _ in ()).throw(KilledError()))
        with pytest.raises(KilledError):
            world.archive({0: (30, 33), 1: (30, 33)})
    compact(world.layout)
    assert world.offsets() == expected({0: (0, 33), 1: (0, 33)})
    recover(world.layout)
    assert world.offsets() == expected({0: (0, 33), 1: (0, 33)})
    assert verify(world.layout).all_problems == []


def test_a_file_that_is_damaged_stops_it_and_nothing_is_lost(world: World):
    names = {path.name for path in files_of(world)}
    damaged = files_of(world)[7]
    data = bytearray(damaged.read_bytes())
    data[len(data) // 3] ^= 0xFF
    damaged.write_bytes(data)
    with pytest.raises(ArchiveError, match=rf"{damaged.name}: cannot be read"):
        compact(world.layout)
    assert {path.name for path in files_of(world)} == names


def test_a_file_that_went_away_meanwhile_stops_it(world: World):
    def run(work: Any, pieces: Any) -> Any:
        done = here(work, pieces)
        files_of(world)[0].unlink()
        return done

    with pytest.raises(ArchiveError, match="files went away while they were compacted"):
        compact(world.layout, run)


def test_where_directories_cannot_be_exchanged_it_says_so(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    class NoSuchCall:
        def renameat2(self, *arguments: Any) -> int:
            return -1

    monkeypatch.setattr(layouts.ctypes, "CDLL", lambda *a, **k: NoSuchCall())
    monkeypatch.setattr(layouts.ctypes, "get_errno", lambda: errno.EINVAL)
    records = world.records()
    with pytest.raises(ArchiveError, match="cannot exchange two directories in one step"):
        compact(world.layout)
    assert world.records() == records


def test_one_compaction_at_a_time(world: World):
    running = pytest.raises(ArchiveError, match="another compaction is running")
    with world.layout.lock("compaction", wait=True), running:
        compact(world.layout)


def test_a_reader_that_has_listed_the_old_files_is_told_not_fooled(world: World):
    listed = files_of(world)
    compact(world.layout)
    with pytest.raises(FileNotFoundError):
        pq.ParquetFile(listed[0])
    kept = world.layout.local(COMPACTION).rglob("*.parquet")
    assert sorted(path.name for path in kept) == sorted(path.name for path in listed)
    assert os.listdir(world.layout.local(COMPACTION))
