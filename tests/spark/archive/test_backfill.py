"""Topics that begin in an archive, in drawn worlds, against a model of what both have."""

from __future__ import annotations

import json
import logging
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from fencepost.arrow.archive import serving
from fencepost.arrow.archive.layout import STAGING
from fencepost.arrow.archive.state import read_state
from fencepost.arrow.archives import clipped
from fencepost.arrow.backfill import BackfilledSurvey, available, survey_for
from fencepost.arrow.batch_planner import plan_batch
from fencepost.arrow.errors import ArchiveReadError, DataLossError
from fencepost.arrow.narrowing import Narrowing
from fencepost.arrow.offsets import INT64_MAX
from fencepost.arrow.planning import OffsetRange
from fencepost.arrow.stream_planner import StreamPlanner
from fencepost.spark.archive.compaction import compact
from fencepost.spark.errors import OptionError
from fencepost.spark.projection import Projection
from fencepost.spark.tasks import read_range

from ...client.fake_cluster import FakeCluster
from ...client.records import batch
from ..schemas import schema
from .backfills import Backfill, P
from .worlds import NOW_MS

ROWS = Projection(schema("partition int, offset bigint, value binary"))
Found = dict[int, list[tuple[int, bytes]]]


def read(options: Any, ranges: list[OffsetRange]) -> Found:
    found: Found = {}
    for wanted in ranges:
        for rows in read_range(options, ROWS, wanted):
            for row in rows.to_pylist():
                assert wanted.start <= row["offset"] < wanted.end
                found.setdefault(row["partition"], []).append((row["offset"], row["value"]))
    return found


def plan(options: Any, narrowing: Narrowing | None = None) -> list[OffsetRange]:
    return plan_batch(options, survey_for(options), narrowing or Narrowing())


def world_of(fake: FakeCluster, tmp_path: Path, seed: int, **how: Any) -> Backfill:
    del fake.topics["t"]
    world = Backfill(fake, tmp_path / "archive", seed)
    for _ in range(world.random.randint(5, 30)):
        world.step(**how)
    return world


# -- batches ---------------------------------------------------------------------------------------


def check_batch(fake: FakeCluster, options: Any, tmp_path: Path, seed: int) -> None:
    world = world_of(fake, tmp_path, seed)
    rng = random.Random(seed)
    splits = {"minPartitions": str(rng.randint(1, 9))} if rng.random() < 0.5 else {}
    directory = str(tmp_path / "archive")
    strict = options(streaming=False, archive=directory, **splits)
    holes = any(world.holes(number) for number in range(len(world.logs)))
    ranges = plan(options(streaming=False, archive=directory, failOnDataLoss="false", **splits))
    expected = {
        number: sorted(rows.items())
        for number in range(len(world.logs))
        if (rows := world.available(number))
    }
    assert read(options(streaming=False, archive=directory, failOnDataLoss="false"), ranges) == (
        expected
    )
    if holes:
        with pytest.raises(DataLossError) as caught:
            read(strict, plan(strict))
        for loss in caught.value.losses:
            hole = world.holes(loss.partition.partition)
            assert set(range(loss.start, loss.end)) <= set(hole)
            assert loss.start - 1 not in hole or loss.start in {one.start for one in ranges}
    else:
        assert read(strict, plan(strict)) == expected


@pytest.mark.parametrize("seed", range(25))
def test_a_batch_has_everything_once(fake: FakeCluster, options: Any, tmp_path: Path, seed: int):
    check_batch(fake, options, tmp_path, seed)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 250))
def test_many_batches(fake: FakeCluster, options: Any, tmp_path: Path, seed: int):
    check_batch(fake, options, tmp_path, seed)


@pytest.mark.parametrize("seed", range(10))
def test_what_ages_out_after_planning_is_read_from_the_archive(
    fake: FakeCluster, options: Any, tmp_path: Path, seed: int
):
    world = world_of(fake, tmp_path, seed, unclean=False)
    world.archive_run(skip_losses=True)
    world.produce(0, 20)
    lenient = options(streaming=False, archive=str(tmp_path / "archive"), failOnDataLoss="false")
    ranges = plan(lenient)
    expected = {n: sorted(world.available(n).items()) for n in range(len(world.logs))}
    world.archive_run(skip_losses=True)
    for number in range(len(world.logs)):
        world.delete(number, world.random.random())
    found = read(lenient, ranges)
    assert found == {number: rows for number, rows in expected.items() if rows}


def test_what_ages_out_and_is_not_archived_is_lost_to_the_offset(
    fake: FakeCluster, options: Any, tmp_path: Path
):
    world = world_of(fake, tmp_path, 0)
    del fake.topics["t"]
    world = Backfill(fake, tmp_path / "other", 1, partitions=1)
    world.produce(0, 10)
    world.archive_run()
    world.produce(0, 20)
    strict = options(streaming=False, archive=str(tmp_path / "other"))
    ranges = plan(strict)
    world.logs[0].delete_before(world.logs[0].end_offset - 1)
    start = world.logs[0].start_offset
    with pytest.raises(DataLossError) as caught:
        read(strict, ranges)
    (loss,) = caught.value.losses
    assert (loss.kind, loss.partition, loss.start, loss.end) == ("aged out", P[0], 10, start)


# -- streams ---------------------------------------------------------------------------------------


def check_stream(fake: FakeCluster, options: Any, tmp_path: Path, seed: int) -> None:
    """Batches while everything goes on, the query started again now and then, once or twice with
    another batch planned. What was delivered is everything that was there to be had, once."""
    world = world_of(fake, tmp_path, seed, unclean=False)
    rng = random.Random(seed)
    given = {"archive": str(tmp_path / "archive"), "failOnDataLoss": "false"}
    if rng.random() < 0.6:
        given["maxOffsetsPerTrigger"] = str(rng.randint(2, 15))
    chosen = options(startingOffsets="earliest", **given)
    planner = StreamPlanner(chosen, survey_for(chosen))
    at = planner.initial()
    first = {n: min(world.available(n), default=0) for n in range(len(world.logs))}
    seen: Counter[tuple[int, int, bytes]] = Counter()
    lost: set[tuple[int, int]] = set()
    for _ in range(rng.randint(4, 14)):
        for _ in range(rng.randint(0, 3)):
            world.step(unclean=False)
        if rng.random() < 0.3:
            planner = StreamPlanner(chosen, survey_for(chosen))
        end = planner.next_end(at, limited=True)
        if rng.random() < 0.2:
            end = json.loads(json.dumps(end))
            planner = StreamPlanner(chosen, survey_for(chosen))
        for number, rows in read(chosen, planner.ranges(at, end)).items():
            seen.update((number, offset, value) for offset, value in rows)
        at = end
        for number, rows in enumerate(world.truth):
            lost |= {(number, offset) for offset in rows.keys() - world.available(number).keys()}
    assert set(seen.values()) <= {1}
    for number, rows in enumerate(world.truth):
        reached = at["t"].get(str(number), 0)
        for offset, value in rows.items():
            if first.get(number, 0) <= offset < reached and (number, offset, value) not in seen:
                assert (number, offset) in lost


@pytest.mark.parametrize("seed", range(25))
def test_a_stream_has_everything_once(fake: FakeCluster, options: Any, tmp_path: Path, seed: int):
    check_stream(fake, options, tmp_path, seed)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 250))
def test_many_streams(fake: FakeCluster, options: Any, tmp_path: Path, seed: int):
    check_stream(fake, options, tmp_path, seed)


# -- one by one ------------------------------------------------------------------------------------


@pytest.fixture
def world(fake: FakeCluster, tmp_path: Path) -> Backfill:
    """Thirty records, the first twenty archived, the first ten deleted."""
    del fake.topics["t"]
    made = Backfill(fake, tmp_path / "archive", 7, partitions=1)
    made.produce(0, 20)
    made.archive_run()
    made.produce(0, 10)
    log = made.logs[0]
    log.delete_before(10)
    return made


def test_brokers_are_asked_for_what_they_have_and_the_archive_for_the_rest(
    world: Backfill, options: Any, tmp_path: Path
):
    (wanted,) = plan(options(streaming=False, archive=str(tmp_path / "archive")))
    assert (wanted.start, wanted.end) == (0, 30)
    assert (wanted.archive_below, wanted.archive_until) == (10, INT64_MAX)


def test_a_topic_created_again_is_refused_by_both_ids(
    world: Backfill, fake: FakeCluster, options: Any, tmp_path: Path
):
    del fake.topics["t"]
    fake.create_topic("t", 1)
    strict = options(streaming=False, archive=str(tmp_path / "archive"))
    with pytest.raises(DataLossError, match=f"the id {world.topic_id}") as caught:
        plan(strict)
    (loss,) = caught.value.losses
    assert (loss.kind, loss.start, loss.end) == ("recreated", 0, 20)
    assert loss.topic_ids == (world.topic_id, str(fake.topics["t"].topic_id))
    lenient = options(streaming=False, archive=str(tmp_path / "archive"), failOnDataLoss="false")
    fake.partition("t").append(batch(b"new"))
    assert read(lenient, plan(lenient)) == {0: [(0, b"new")]}


def test_rewritten_records_are_the_logs(
    world: Backfill, options: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    world.logs[0].elect(2, cut_to=15)
    cut = world.logs[0].end_offset
    world.truth[0] = {o: v for o, v in world.truth[0].items() if o < cut}
    world.produce(0, 12)
    strict = options(streaming=False, archive=str(tmp_path / "archive"))
    with caplog.at_level(logging.WARNING):
        (wanted,) = plan(strict)
    assert f"the archive is used up to offset {cut} only" in caplog.text
    assert wanted.archive_until == cut
    assert read(strict, [wanted]) == {0: sorted(world.truth[0].items())}
    # What ages out later must not come from the archive either.
    world.logs[0].delete_before(cut + 3)
    with pytest.raises(DataLossError) as caught:
        read(strict, [wanted])
    assert (caught.value.losses[0].start, caught.value.losses[0].end) == (
        cut,
        world.logs[0].start_offset,
    )


def test_a_stream_is_not_told_that_rewritten_records_are_there(
    world: Backfill, options: Any, tmp_path: Path
):
    world.logs[0].elect(2, cut_to=15)
    cut = world.logs[0].end_offset
    world.truth[0] = {o: v for o, v in world.truth[0].items() if o < cut}
    world.produce(0, 15)
    world.logs[0].delete_before(cut + 6)
    start = json.dumps({"t": {"0": cut + 1}})
    chosen = options(archive=str(tmp_path / "archive"), startingOffsets=start)
    planner = StreamPlanner(chosen, survey_for(chosen))
    with pytest.raises(DataLossError) as caught:
        planner.next_end(planner.initial(), limited=True)
    (loss,) = caught.value.losses
    assert (loss.kind, loss.start, loss.end) == ("aged out", cut + 1, cut + 6)


def test_a_history_that_the_leader_does_not_know(world: Backfill, options: Any, tmp_path: Path):
    world.logs[0].epochs = [(5, 10)]
    world.logs[0].epoch = 5
    world.epochs = {0: 9}
    world.plan(0, {0: 20}, {0: 0})
    directory = str(tmp_path / "archive")
    with pytest.raises(DataLossError, match="history replaced"):
        plan(options(streaming=False, archive=directory))
    lenient = options(streaming=False, archive=directory, failOnDataLoss="false")
    assert min(read(lenient, plan(lenient))[0])[0] == 10


def test_a_missing_file_is_noticed_before_anything_is_read(
    world: Backfill, options: Any, tmp_path: Path
):
    next((tmp_path / "archive").glob("topic=*/*/*.parquet")).unlink()
    with pytest.raises(ArchiveReadError, match="t-0: 20 records were archived, the files have"):
        plan(options(streaming=False, archive=str(tmp_path / "archive")))


def test_files_that_are_decided_and_not_yet_moved_are_read(
    world: Backfill, options: Any, tmp_path: Path
):
    state = read_state(world.layout)
    assert state.moves
    for source, target in state.moves:
        place = tmp_path / "archive" / STAGING / source
        place.parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "archive" / target).rename(place)
    strict = options(streaming=False, archive=str(tmp_path / "archive"))
    assert read(strict, plan(strict)) == {0: sorted(world.truth[0].items())}


def test_files_that_a_compaction_replaces_while_they_are_read(
    world: Backfill, options: Any, tmp_path: Path
):
    world.archive_run()
    strict = options(streaming=False, archive=str(tmp_path / "archive"))
    ranges = plan(strict)
    compact(world.layout, discard=True)
    assert read(strict, ranges) == {0: sorted(world.truth[0].items())}


def test_a_compaction_in_the_middle_of_a_read(
    fake: FakeCluster, options: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(serving, "ROWS", 4)
    del fake.topics["t"]
    world = Backfill(fake, tmp_path / "archive", 3, partitions=1)
    for _ in range(4):
        world.produce(0, 10)
        world.archive_run()
    world.logs[0].delete_before(world.logs[0].end_offset)
    strict = options(streaming=False, archive=str(tmp_path / "archive"))
    (wanted,) = plan(strict)
    found = []
    for number, rows in enumerate(read_range(strict, ROWS, wanted)):
        found += [(row["offset"], row["value"]) for row in rows.to_pylist()]
        if number == 0:
            compact(world.layout, discard=True)
    assert found == sorted(world.truth[0].items())


def test_times_are_looked_for_in_the_archive_too(world: Backfill, options: Any, tmp_path: Path):
    directory = str(tmp_path / "archive")
    stamps = {row["offset"]: row["timestamp"].timestamp() * 1000 for row in world.records()}
    for time_ms in (0, NOW_MS - 86_400_000, NOW_MS + 3, NOW_MS + 12, NOW_MS + 29):
        chosen = options(
            streaming=False,
            archive=directory,
            startingTimestamp=str(time_ms),
            startingOffsetsByTimestampStrategy="latest",
        )
        starts = [wanted.start for wanted in plan(chosen)]
        archived = [offset for offset, at in stamps.items() if at >= time_ms and offset < 10]
        if archived:
            assert starts == [min(archived)]
        else:
            assert not starts or starts[0] >= 10


def test_the_option_alone(world: Backfill, options: Any, tmp_path: Path):
    for directory, words in (
        (str(tmp_path / "nowhere"), "no archive: there is no _fencepost/state.json"),
        ("", "must be the directory of an archive"),
        ("dbfs:/x", "there is no file system for dbfs"),
    ):
        with pytest.raises(OptionError, match=words):
            options(streaming=False, archive=directory)
    state = tmp_path / "archive" / "_fencepost" / "state.json"
    state.write_text(state.read_text().replace('"format": "parquet"', '"format": "delta"'))
    with pytest.raises(OptionError, match="has records as delta; this takes Parquet only"):
        options(streaming=False, archive=str(tmp_path / "archive"))
    state.write_text("{")
    with pytest.raises(OptionError, match="no state of an archive"):
        options(streaming=False, archive=str(tmp_path / "archive"))


def test_ranges_that_are_there():
    assert available([], 5) == [(5, INT64_MAX)]
    assert available([(0, 5)], 5) == [(0, INT64_MAX)]
    assert available([(0, 4), (6, 9)], 8) == [(0, 4), (6, INT64_MAX)]
    assert clipped([(0, 4), (6, 9)], 3, 7) == [(3, 4), (6, 7)]
    assert clipped([(0, 4)], 4, 9) == []


def test_a_damaged_file_names_itself(world: Backfill, options: Any, tmp_path: Path):
    strict = options(streaming=False, archive=str(tmp_path / "archive"))
    ranges = plan(strict)
    path = next((tmp_path / "archive").glob("topic=*/*/*.parquet"))
    data = bytearray(path.read_bytes())
    data[4 : len(data) // 2] = b"\xff" * (len(data) // 2 - 4)
    path.write_bytes(bytes(data))
    with pytest.raises(ArchiveReadError, match="t-0: a file of the archive cannot be read"):
        read(strict, ranges)


def test_without_an_archive_nothing_changes(fake: FakeCluster, options: Any):
    assert not isinstance(survey_for(options(streaming=False)), BackfilledSurvey)
