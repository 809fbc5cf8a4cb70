"""`verify` finds what is wrong with an archive and says where."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from fencepost.arrow.archive.layout import ArchiveError, Layout, file_name, tag_of
from fencepost.spark.archive.checking import _problems_of, status, verify
from fencepost.spark.archive.query import prepare

from .worlds import World

TAG = tag_of("id-1")


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Two batches of ten records per partition."""
    made = World(tmp_path / "a")
    made.archive({0: (0, 10), 1: (0, 10)})
    made.archive({0: (10, 20), 1: (10, 20)})
    return made


def first_file(world: World) -> Path:
    return world.layout.local(world.layout.listing()[0][0].path)


def test_counts(world: World):
    found = status(world.layout)
    assert [(one.topic, one.date, one.files, one.records) for one in found.dates] == [
        ("t", "2023-11-13", 4, 12),
        ("t", "2023-11-14", 4, 28),
    ]
    assert [(one.partition, one.read, one.file_records) for one in found.partitions] == [
        (0, [(0, 20)], 20),
        (1, [(0, 20)], 20),
    ]
    assert found.all_problems == []


def test_tables_are_not_looked_into(tmp_path: Path):
    layout = Layout(tmp_path / "an archive")
    prepare(layout, "iceberg")
    for look in (status, verify):
        with pytest.raises(ArchiveError, match="has records as iceberg; this takes Parquet only"):
            look(layout)


def test_a_missing_file(world: World):
    first_file(world).unlink()
    for found in (status(world.layout), verify(world.layout)):
        assert found.all_problems == ["t-0: 20 records were archived, the files have 17"]


def test_a_file_that_is_there_twice(world: World):
    path = first_file(world)
    name = path.name.replace("b00000000", "c" + "0" * 12)
    shutil.copy(path, path.with_name(name))
    assert verify(world.layout).all_problems == [
        "t-0: 20 records were archived, the files have 23",
        "t-0: 3 offsets are there twice, the first is 2",
    ]


def test_foreign_files_and_damaged_ones(world: World):
    path = first_file(world)
    (path.parent / "readme.txt").write_text("x")
    (world.layout.directory / "topic=t" / "stray").mkdir()
    (path.parent / "_SUCCESS").write_text("")
    path.write_bytes(path.read_bytes()[:100])
    for found in (status(world.layout), verify(world.layout)):
        told = "\n".join(found.all_problems)
        assert "readme.txt: is no file of the archive" in told
        assert "stray: is no file of the archive" in told
        assert f"{path.name}: cannot be read" in told
        assert "_SUCCESS" not in told


def test_a_flipped_bit_is_found_by_its_page(world: World):
    path = first_file(world)
    metadata = pq.read_metadata(path)
    (value,) = (
        metadata.row_group(0).column(at)
        for at in range(metadata.num_columns)
        if metadata.row_group(0).column(at).path_in_schema == "value"
    )
    begin = min(filter(None, (value.dictionary_page_offset, value.data_page_offset)))
    data = bytearray(path.read_bytes())
    data[begin + value.total_compressed_size - 2] ^= 0x10
    path.write_bytes(data)
    assert status(world.layout).problems == []
    assert any(f"{path.name}: cannot be read" in text for text in verify(world.layout).problems)


def test_a_file_of_another_partition_or_range_under_its_name(world: World):
    path = first_file(world)
    other = path.with_name(file_name(0, 2, 9, TAG, "b00000000"))
    path.rename(other)
    assert "has offsets 2 to 8, not those of its name" in verify(world.layout).problems[0]
    other.rename(path.with_name(file_name(1, 2, 8, TAG, "b00000007")))
    assert "has records of other partitions than 1" in verify(world.layout).problems[0]


def test_records_that_were_never_read(world: World):
    place = world.layout.directory / "topic=t" / "date=2023-11-14"
    elsewhere = World(world.layout.directory.parent / "b")
    elsewhere.archive({0: (30, 40)}, days=0)
    (path,) = elsewhere.layout.directory.glob("topic=t/*/*.parquet")
    shutil.copy(path, place / path.name)
    assert verify(world.layout).all_problems == [
        "t-0: 20 records were archived, the files have 30",
        "t-0: offsets 30 to 39 have records, but were not all read",
    ]
    shutil.copy(path, place / path.name.replace(TAG, "0123abcd"))
    assert any(
        "is of a topic that was never read" in text for text in verify(world.layout).problems
    )


@pytest.mark.parametrize(
    ("runs", "read", "told"),
    [([(0, 10), (10, 20)], [(0, 20)], []),
     ([(0, 100), (10, 20), (30, 40)], [(0, 100)],
      ["20 offsets are there twice, the first is 10"]),
     ([(0, 10)], [(0, 5)], ["offsets 0 to 9 have records, but were not all read"]),
     ([(5, 10), (20, 30)], [(0, 10), (12, 30)], [])],
)  # fmt: skip
def test_what_files_have_is_held_against_what_was_read(
    runs: list[tuple[int, int]], read: list[tuple[int, int]], told: list[str]
):
    files = [np.array([[start], [end]]) for start, end in runs]
    assert list(_problems_of(files, read)) == told
