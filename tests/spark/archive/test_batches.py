"""A batch is archived once, whatever step its driver dies at."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fencepost.arrow import storage as storages
from fencepost.arrow.archive.layout import STAGING, STATE, ArchiveError, Layout, tag_of
from fencepost.arrow.archive.state import merged, read_state
from fencepost.arrow.storage import LocalStorage
from fencepost.spark.archive import batches
from fencepost.spark.archive.checking import status, verify
from fencepost.spark.archive.query import prepare

from .worlds import World, archive_written, expected, record, write_as_tasks

ALL = {0: (0, 20), 1: (0, 15)}


class KilledError(BaseException):
    """The driver is gone."""


def test_a_batch_is_there_with_all_columns(tmp_path: Path):
    world = World(tmp_path / "a")
    written = world.archive(ALL)
    assert written is not None
    assert (written.rows, written.files) == (35, 4)
    assert world.offsets() == expected(ALL)
    assert world.records() == [record(p, offset) for p, offset in expected(ALL)]
    dates = {path.parent.name for path in world.layout.directory.glob("topic=t/date=*/*")}
    assert dates == {"date=2023-11-14", "date=2023-11-13"}
    names = [path.name for path in world.layout.directory.glob("topic=t/date=2023-11-13/p00000*")]
    tag = tag_of("id-1")
    assert names == [f"p00000-{2:020}-{17:020}-{tag}-b00000000.parquet"]
    assert world.layout.storage.list(STAGING) == []


def test_a_batch_that_spark_runs_again_is_not_written_again(tmp_path: Path):
    world = World(tmp_path / "a")
    world.archive(ALL)
    assert world.archive(ALL, batch=0) is None
    assert world.offsets() == expected(ALL)
    with pytest.raises(ArchiveError, match="Spark runs batch 2, and the last one archived is 0"):
        batches.archive_batch(world.layout, 2, STAGING, pytest.fail)
    world.archive({0: (20, 30), 1: (15, 15)})
    with pytest.raises(ArchiveError, match="Spark runs batch 0, and the last one archived is 1"):
        batches.archive_batch(world.layout, 0, STAGING, pytest.fail)


def test_of_two_that_write_a_batch_at_once_one_archives_it(tmp_path: Path):
    """As when a driver hangs, and comes back beside the one that took over."""
    world = World(tmp_path / "a")

    def write(place: str) -> list[str]:
        world.archive({0: (0, 5)})  # the other one is faster
        records = [record(0, offset) for offset in range(5)]
        return write_as_tasks(world.layout.storage, world.topic, records)(place)

    assert archive_written(world.layout, 0, write) is None
    assert world.offsets() == expected({0: (0, 5)})
    assert verify(world.layout).all_problems == []


STEPS = [
    (batches, "_look_at"),
    (batches, "update_state"),
    (LocalStorage, "replace_bytes"),
    (LocalStorage, "move_all"),
    (LocalStorage, "delete_all"),
    (storages.Path, "rename"),
]
"""Where a driver can die: before and after each change that it makes on disk."""


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("number", range(6))
@pytest.mark.parametrize("count", [1, *(pytest.param(n, marks=pytest.mark.long) for n in (2, 3))])
def test_a_driver_that_dies_at_any_step_archives_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, count: int, after: bool
):
    world = World(tmp_path / "a")
    world.archive({0: (0, 5), 1: (0, 5)})
    more = {0: (5, 20), 1: (5, 15)}
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

    with monkeypatch.context() as patch:
        patch.setattr(place, name, dying)
        try:
            world.archive(more)
        except KilledError:
            seen = world.offsets()
            assert len(set(seen)) == len(seen)
    prepare(world.layout, "parquet")  # the next start
    if read_state(world.layout).batch == 0:
        assert world.offsets() == expected({0: (0, 5), 1: (0, 5)})
    world.archive(more, batch=1)
    assert world.offsets() == expected(ALL)
    assert verify(world.layout).all_problems == []
    assert world.layout.storage.list(STAGING) == []


def test_what_failed_attempts_of_tasks_leave_counts_nowhere(tmp_path: Path):
    world = World(tmp_path / "a")
    storage = world.layout.storage

    def write(place: str) -> list[str]:
        records = [record(0, offset) for offset in range(5)]
        tasks = write_as_tasks(storage, world.topic, records)
        tasks(place)  # an attempt whose executor was lost
        return tasks(place)

    world.plan(0, {0: 5})
    assert archive_written(world.layout, 0, write) is not None
    assert world.offsets() == expected({0: (0, 5)})
    assert storage.list(STAGING) == []


def test_what_was_read_and_has_no_record_is_no_gap(tmp_path: Path):
    world = World(tmp_path / "a")
    world.archive({0: (0, 10)}, skipped=lambda offset: offset in (3, 4), begins={0: 0})
    world.archive({0: (12, 20)}, begins={0: 12})
    (one,) = status(world.layout).partitions
    assert (one.read, one.gaps, one.without_record) == ([(0, 10), (12, 20)], [(10, 12)], 2)
    assert verify(world.layout).all_problems == []


def test_a_topic_made_anew_is_another_one(tmp_path: Path):
    world = World(tmp_path / "a")
    world.archive({0: (0, 10)}, begins={0: 0})
    world.topic_id = "id-2"
    world.archive({0: (0, 6)}, begins={0: 0})
    found = verify(world.layout)
    assert found.all_problems == []
    told = [(one.topic_id, one.read, one.records) for one in found.partitions]
    assert told == [("id-1", [(0, 10)], 10), ("id-2", [(0, 6)], 6)]


def test_directories_that_are_no_archive_are_left_alone(tmp_path: Path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").write_text("x")
    with pytest.raises(ArchiveError, match="is no archive and not empty: there is file"):
        prepare(Layout(tmp_path / "mine"), "parquet")
    with pytest.raises(ArchiveError, match=r"no archive: there is no _fencepost/state\.json"):
        status(Layout(tmp_path / "mine"))
    with pytest.raises(ArchiveError, match="is no directory"):
        prepare(Layout(tmp_path / "mine" / "file"), "parquet")
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["file"]
    prepare(Layout(tmp_path / "a"), "parquet")
    with pytest.raises(ArchiveError, match="is an archive of format parquet, not delta"):
        prepare(Layout(tmp_path / "a"), "delta")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"{",
        b'{"format": 2}',
        b"[" * 100_000,
        b'{"format": 1, "batch": "x"}',
        b'{"format": 1, "batch": 0, "query": "", "moves": [1], "topics": [], "settings": {}}',
    ],
)
def test_a_damaged_state_is_named(tmp_path: Path, content: bytes):
    layout = Layout(tmp_path / "a")
    prepare(layout, "parquet")
    layout.local(STATE).write_bytes(content)
    with pytest.raises(ArchiveError, match=r"state\.json: no state of an archive"):
        prepare(layout, "parquet")


def test_a_state_that_leads_out_of_the_archive_is_refused(tmp_path: Path):
    layout = Layout(tmp_path / "a")
    prepare(layout, "parquet")
    precious = tmp_path / "precious"
    precious.write_text("x")
    for source in ("../../../precious", str(precious)):
        content = json.loads(layout.local(STATE).read_text()) | {"moves": [[source, "topic=t/x"]]}
        layout.local(STATE).write_text(json.dumps(content))
        with pytest.raises(ArchiveError, match="is no place in"):
            prepare(layout, "parquet")
    assert precious.exists()


def test_one_run_at_a_time(tmp_path: Path):
    first, second = (
        Layout(tmp_path / "a").lock("writer", wait=False, holder="another run") for _ in range(2)
    )
    with first, pytest.raises(ArchiveError, match="another run is running already"), second:
        pytest.fail("two runs")


def test_ranges_that_touch_are_one():
    assert merged([(5, 9), (0, 3), (3, 5), (12, 12), (11, 14)]) == [(0, 9), (11, 14)]
