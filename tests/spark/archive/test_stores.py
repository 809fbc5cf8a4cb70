"""Archives in stores that can neither rename nor lock: killed at every request, failing, stale."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from fencepost.arrow.archive.layout import COMPACTION, STAGING, STATE, ArchiveError, Layout
from fencepost.arrow.archive.reading import records_in_order
from fencepost.arrow.archive.state import counted_files, read_state
from fencepost.arrow.storage import Storage, storage_at
from fencepost.spark.archive import compaction
from fencepost.spark.archive.batches import archive_batch
from fencepost.spark.archive.checking import status, verify
from fencepost.spark.archive.compaction import compact
from fencepost.spark.archive.query import prepare
from fencepost.spark.archive.replay_plan import Wanted, plan_replay
from fencepost.spark.archive.running import here

from ..storage.seaweed import S3Server
from ..storage.stores import Failing, Faulty, faulty
from .worlds import World, archive_written, expected, record, write_as_tasks

FIRST = {0: (0, 9), 1: (0, 6)}
MORE = {0: (9, 20), 1: (6, 15)}
ALL = {0: (0, 20), 1: (0, 15)}


class KilledError(BaseException):
    """The driver is gone."""


class Killing:
    """A `before` that ends the driver at a request of those that change something."""

    def __init__(self) -> None:
        self.left: int | None = None
        self.changes = 0

    def __call__(self, what: str, path: str) -> None:
        if what not in ("write", "copy", "delete"):
            return
        self.changes += 1
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                raise KilledError(f"{what} {path}")


def made(tmp_path: Path, before: Any = lambda what, path: None) -> tuple[World, Faulty]:
    storage, handler = faulty(before)
    return World(Layout(storage), checkpoint=tmp_path / "checkpoint"), handler


def counted(layout: Layout) -> list[tuple[int, int]]:
    """What those see who go by the state."""
    files, _ = counted_files(layout, read_state(layout))
    rows = []
    for partition in (0, 1):
        mine = [one for one in files if one.partition == partition]
        for batch in records_in_order(mine, 0, 1 << 40):
            rows += [(partition, offset) for offset in batch.column("offset").to_pylist()]
    return rows


def test_a_driver_killed_at_any_change_archives_once(tmp_path: Path) -> None:
    killing = Killing()
    for number in range(1000):
        killing.left = None
        world, _ = made(tmp_path / str(number), killing)
        world.archive(FIRST, begins={0: 0, 1: 0})
        killing.left = number
        try:
            world.archive(MORE)
            died = False
        except KilledError:
            died = True
        killing.left = None
        seen = world.offsets()  # by listing directories
        assert len(set(seen)) == len(seen)
        decided = read_state(world.layout).batch == 1
        assert counted(world.layout) == expected(ALL if decided else FIRST)
        assert verify(world.layout).all_problems == []
        if not decided:
            assert seen == expected(FIRST)
        prepare(world.layout, "parquet")  # the next start
        world.archive(MORE, batch=1)
        assert world.offsets() == expected(ALL)
        assert verify(world.layout).all_problems == []
        assert world.layout.storage.list(STAGING) == []
        if not died:
            assert number > 10
            return
    pytest.fail("it never ended")


def test_a_compaction_killed_at_any_change_shows_every_record_once(tmp_path: Path) -> None:
    killing = Killing()
    for number in range(1000):
        killing.left = None
        world, _ = made(tmp_path / str(number), killing)
        world.archive(FIRST, begins={0: 0, 1: 0})
        world.archive(MORE)
        killing.left = number
        try:
            compact(world.layout)
            died = False
        except KilledError:
            died = True
        killing.left = None
        assert counted(world.layout) == expected(ALL)
        assert verify(world.layout).all_problems == []
        assert set(world.offsets()) == set(expected(ALL))  # by listing: none is missing
        world.archive({0: (20, 23), 1: (15, 15)})
        assert counted(world.layout) == expected({0: (0, 23), 1: (0, 15)})
        compact(world.layout)
        assert world.offsets() == expected({0: (0, 23), 1: (0, 15)})
        assert {one.files for one in status(world.layout).dates} == {2}
        assert verify(world.layout).all_problems == []
        if not died:
            assert number > 10
            return
    pytest.fail("it never ended")


def test_archives_are_the_same_as_on_a_disk(tmp_path: Path) -> None:
    world, _ = made(tmp_path)
    local = World(tmp_path / "local")
    for one in (world, local):
        one.archive(FIRST, begins={0: 0, 1: 0})
        one.archive(MORE)
    assert world.records() == local.records()
    assert status(world.layout).dates == status(local.layout).dates
    assert status(world.layout).partitions == status(local.layout).partitions


def test_of_two_drivers_one_archives_a_batch(tmp_path: Path) -> None:
    world, _ = made(tmp_path)
    world.archive(FIRST, begins={0: 0, 1: 0})
    told = []

    def write(place: str) -> list[str]:
        told.append(world.archive(MORE))  # the other one is faster
        records = [record(p, n) for p, (start, end) in MORE.items() for n in range(start, end)]
        return write_as_tasks(world.layout.storage, world.topic, records)(place)

    world.plan(1, {p: end for p, (_, end) in MORE.items()})
    assert archive_written(world.layout, 1, write) is None
    assert told[0] is not None
    assert world.offsets() == expected(ALL)
    assert verify(world.layout).all_problems == []


def test_a_driver_that_planned_more_than_is_archived_is_refused(tmp_path: Path) -> None:
    """Two checkpoints of one archive: what the second one reads must not be taken for archived."""
    world, _ = made(tmp_path)
    world.archive(FIRST, begins={0: 0, 1: 0})
    world.plan(0, {0: 12, 1: 6})
    with pytest.raises(ArchiveError, match="another one archives at the same time"):
        archive_batch(world.layout, 0, STAGING, pytest.fail)


def test_of_two_compactions_one_is_refused(tmp_path: Path) -> None:
    world, _ = made(tmp_path)
    world.archive(FIRST, begins={0: 0, 1: 0})
    world.archive(MORE)

    def run(work: Any, pieces: Any) -> Any:
        done = here(work, pieces)
        compact(world.layout)
        return done

    with pytest.raises(ArchiveError, match="another compaction"):
        compact(world.layout, run)
    assert world.offsets() == expected(ALL)
    assert verify(world.layout).all_problems == []


def test_batches_that_come_during_a_compaction_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "PIECES_MAX", 1)  # so that it decides several times
    world, _ = made(tmp_path)
    world.archive(FIRST, begins={0: 0, 1: 0})
    world.archive(MORE)
    ends = [20, 15]

    def run(work: Any, pieces: Any) -> Any:
        done = here(work, pieces)
        world.archive({0: (ends[0], ends[0] + 3), 1: (ends[1], ends[1] + 2)})
        ends[0], ends[1] = ends[0] + 3, ends[1] + 2
        return done

    compact(world.layout, run)
    assert ends[0] > 23
    assert world.offsets() == expected({0: (0, ends[0]), 1: (0, ends[1])})
    assert verify(world.layout).all_problems == []


@pytest.mark.parametrize("seed", range(15))
def test_failures_of_the_store_lose_and_repeat_nothing(tmp_path: Path, seed: int) -> None:
    failing = Failing(seed, 0.0, frozenset({"read", "write", "list", "info", "copy", "delete"}))
    world, _ = made(tmp_path, failing)
    draw = random.Random(seed)
    ends = {0: 0, 1: 0}
    reasons = set()
    for batch in range(8):
        more = {p: (end, end + draw.randint(1, 9)) for p, end in ends.items()}
        failing._share = 0.05
        for _ in range(200):
            try:
                prepare(world.layout, "parquet")
                world.archive(more, batch=batch, begins={0: 0, 1: 0} if batch == 0 else None)
                if draw.random() < 0.3:
                    compact(world.layout)
                break
            except (OSError, ArchiveError) as error:
                reasons.add("503" in str(error))
        failing.heal()
        ends = {p: end for p, (_, end) in more.items()}
        prepare(world.layout, "parquet")
        assert counted(world.layout) == expected({p: (0, end) for p, end in ends.items()})
        assert verify(world.layout).all_problems == []
    assert failing.failed > 3
    assert reasons == {True}
    compact(world.layout)
    assert world.offsets() == expected({p: (0, end) for p, end in ends.items()})


def test_a_stale_list_is_found_out(tmp_path: Path) -> None:
    world, handler = made(tmp_path)
    world.archive(FIRST, begins={0: 0, 1: 0})
    assert verify(world.layout).all_problems == []
    handler.stale = 100
    world.archive(MORE)
    told = verify(world.layout).all_problems
    assert any("records were archived, the files have" in text for text in told)
    place, wanted = storage_at(tmp_path / "r"), Wanted("t", "new", True)
    with pytest.raises(ArchiveError, match="t-0 has 20 records, the files that the store lists"):
        plan_replay(world.layout, place, wanted, 10, here, None)
    assert not place.exists("plan.json")
    handler.stale = 0
    assert verify(world.layout).all_problems == []
    plan = plan_replay(world.layout, place, wanted, 10, here, None)
    assert [len(step) for step in plan.steps] == [2, 2]


@pytest.mark.parametrize(
    "swap",
    [
        {"id": "x", "adds": [["../../x", "topic=t/y"]], "removes": []},
        {"id": "x", "adds": [["a/b", "/etc/passwd"]], "removes": []},
        {"id": "x", "adds": [], "removes": ["../precious"]},
        {"id": "x", "adds": [], "removes": ["a//b"]},
        {"id": "x", "adds": [["a"]], "removes": []},
        {"id": "x", "adds": 3, "removes": []},
        [1],
    ],
)
def test_a_state_with_a_swap_that_leads_elsewhere_is_refused(tmp_path: Path, swap: Any) -> None:
    import json

    world, _ = made(tmp_path)
    storage = world.layout.storage
    content = json.loads(storage.read_bytes(STATE)) | {"swap": swap}
    storage.write_bytes(STATE, json.dumps(content).encode())
    with pytest.raises(ArchiveError, match=r"is no place in|no state of an archive"):
        prepare(world.layout, "parquet")


@pytest.mark.slow
@pytest.mark.spark
class TestS3:
    """The same against a real server, with its conditional puts."""

    @pytest.fixture
    def world(self, s3: S3Server, s3_directory: str, tmp_path: Path) -> World:
        layout = Layout(s3_directory, s3.options)
        assert layout.storage.is_conditional
        return World(layout, checkpoint=tmp_path / "checkpoint")

    def test_archive_compact_verify(self, world: World) -> None:
        world.archive(FIRST, begins={0: 0, 1: 0})
        world.archive(MORE)
        assert world.records() == [record(p, offset) for p, offset in expected(ALL)]
        done = compact(world.layout, discard=True)
        assert (done.files_before, done.files_after, done.rows) == (8, 4, 35)
        assert world.records() == [record(p, offset) for p, offset in expected(ALL)]
        assert verify(world.layout).all_problems == []
        left = world.layout.storage.list(STAGING) + world.layout.storage.list(COMPACTION)
        assert left == []
        assert counted(world.layout) == expected(ALL)

    def test_a_driver_that_was_overtaken_is_fenced(self, world: World, s3: S3Server) -> None:
        """It has read the state, is paused, and another archives its batch and one more."""
        world.archive(FIRST, begins={0: 0, 1: 0})
        storage = world.layout.storage
        replaced = storage.replace_bytes
        other = World(Layout(storage.uri, s3.options), checkpoint=world.checkpoint)

        def late(path: str, data: bytes, version: str) -> bool:
            storage.replace_bytes = replaced  # type: ignore[method-assign]
            other.archive(MORE, batch=1)
            return replaced(path, data, version)

        storage.replace_bytes = late  # type: ignore[method-assign]
        assert world.archive(MORE, batch=1) is None
        assert world.offsets() == expected(ALL)
        assert verify(world.layout).all_problems == []


def test_the_storage_of_an_archive_is_given_or_made(tmp_path: Path) -> None:
    storage: Storage = storage_at(tmp_path)
    assert Layout(storage).local(STATE) == Layout(tmp_path).local(STATE)
    with pytest.raises(ArchiveError, match="not on a local disk"):
        Layout(faulty()[0]).local()
    with pytest.raises(ArchiveError, match="no file system for ftp:"):
        Layout("ftp://x/y")
    for given, told in (
        ("s3://b/d/", "s3a://b/d"),
        ("s3a://b/d", "s3a://b/d"),
        ("abfss://c@a.dfs.core.windows.net/d", "abfss://c@a.dfs.core.windows.net/d"),
    ):
        layout = Layout(given, {"account_key": "a2V5", "region": "r", "anonymous": "true"})
        assert layout.for_spark() == told
        assert layout.for_spark("x/y") == f"{told}/x/y"
    assert Layout("/a b/c%20").for_spark("x") == "file:/a b/c%20/x"
