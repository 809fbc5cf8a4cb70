"""Reads that begin in an archive: the rows, streams that go on, and what is lost."""

from __future__ import annotations

import os
import pickle
from collections import deque
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import fencepost.arrow
from fencepost.arrow import ArchiveReadError, ArgumentError, DataLossError
from fencepost.arrow.archive import serving

from ..client.fake_cluster import FakeCluster
from ..spark.archive.backfills import Backfill
from ..spark.archive.worlds import NOW_MS
from .conftest import Properties

Found = dict[int, list[tuple[int, bytes]]]


def rows_of(table: Any) -> Found:
    found: Found = {}
    for row in table.select(["partition", "offset", "value"]).to_pylist():
        found.setdefault(row["partition"], []).append((row["offset"], row["value"]))
    return found


def drawn(fake: FakeCluster, tmp_path: Path, seed: int, **how: Any) -> Backfill:
    del fake.topics["t"]
    world = Backfill(fake, tmp_path / "archive", seed, partitions=3)
    for _ in range(world.random.randint(10, 30)):
        world.step(**how)
    return world


def expected(world: Backfill) -> Found:
    every = {n: sorted(world.available(n).items()) for n in range(len(world.logs))}
    return {number: rows for number, rows in every.items() if rows}


@pytest.mark.parametrize("seed", range(12))
def test_a_read_has_everything_once(
    fake: FakeCluster, servers: Properties, tmp_path: Path, seed: int
):
    world = drawn(fake, tmp_path, seed)
    given: dict[str, Any] = {
        "topics": "t",
        "archive": tmp_path / "archive",
        "threads": seed % 3 + 1,
    }
    if seed % 2:
        given["min_partitions"] = seed
    holes = [world.holes(number) for number in range(len(world.logs))]
    found = fencepost.arrow.read(servers, **given, on_data_loss="warn")
    assert rows_of(found) == expected(world)
    if not any(holes):
        assert rows_of(fencepost.arrow.read(servers, **given)) == expected(world)
        return
    with pytest.raises(DataLossError) as caught:
        fencepost.arrow.read(servers, **given)
    for loss in caught.value.losses:
        assert set(range(loss.start, loss.end)) <= set(holes[loss.partition.partition])


@pytest.mark.parametrize("seed", range(8))
def test_a_stream_goes_on_from_the_archive_to_the_log(
    fake: FakeCluster, servers: Properties, tmp_path: Path, seed: int
):
    """Stopped and begun again at its position, in the archive as in the log."""
    world = drawn(fake, tmp_path, seed, unclean=False)
    world.archive_run(skip_losses=True)
    for number in range(len(world.logs)):
        world.delete(number, world.random.random())
    given: dict[str, Any] = {
        "topics": "t", "archive": tmp_path / "archive", "on_data_loss": "warn", "max_offsets": 7,
    }  # fmt: skip
    wanted = sum(map(len, expected(world).values()))
    found: Found = {}
    count, position = 0, None
    while count < wanted:
        with fencepost.arrow.stream(servers, start="earliest", position=position, **given) as one:
            for _ in range(world.random.randint(1, 5)):
                batch = one.poll(20_000) if count < wanted else None
                for number, rows in rows_of(batch).items() if batch is not None else ():
                    found.setdefault(number, []).extend(rows)
                    count += len(rows)
            position = one.position
    assert found == expected(world)


@pytest.fixture
def world(fake: FakeCluster, tmp_path: Path) -> Backfill:
    """Thirty records, the first twenty archived, the first ten deleted."""
    del fake.topics["t"]
    made = Backfill(fake, tmp_path / "archive", 7, partitions=1)
    made.produce(0, 20)
    made.archive_run()
    made.produce(0, 10)
    made.logs[0].delete_before(10)
    return made


def offsets(servers: Properties, place: object, **given: Any) -> list[int]:
    table = fencepost.arrow.read(servers, topics="t", archive=place, columns=["offset"], **given)
    found: list[int] = table["offset"].to_pylist()
    return found


def test_bounds_filters_and_columns_reach_into_the_archive(
    world: Backfill, servers: Properties, tmp_path: Path
):
    place = tmp_path / "archive"
    everything = sorted(world.truth[0])
    assert offsets(servers, place) == everything
    assert offsets(servers, None) == [o for o in everything if o >= 10]
    assert offsets(servers, place, start={"t": {0: 4}}, end={"t": {0: 12}}) == list(range(4, 12))
    assert offsets(servers, place, filters=[("offset", "<", 3)]) == [0, 1, 2]
    since = datetime.fromtimestamp((NOW_MS + 5) / 1000, UTC)
    table = fencepost.arrow.read(
        servers, topics="t", archive=place, filters=[("timestamp", ">=", since)], text=True
    )
    stamps = {o: v for o, v in world.truth[0].items() if o in set(table["offset"].to_pylist())}
    assert min(stamps) < 10
    assert [bytes(v).decode() for v in stamps.values()] == table["value"].to_pylist()


def test_what_ages_out_after_planning_is_read_from_the_archive_by_pieces_elsewhere(
    world: Backfill, servers: Properties, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    scan = fencepost.arrow.scan(
        servers, topics="t", archive="archive", columns=["offset"], min_partitions=4
    )
    world.archive_run()
    world.logs[0].delete_before(25)
    monkeypatch.chdir("/")
    serving._opened.clear()  # as in another process
    pieces = [pickle.loads(pickle.dumps(piece)) for piece in scan.split()]
    found = [o for piece in pieces for o in piece.read_all()["offset"].to_pylist()]
    assert found == sorted(world.truth[0])


def test_a_hole_between_archive_and_log_is_lost_to_the_offset(
    world: Backfill, servers: Properties, tmp_path: Path
):
    world.logs[0].delete_before(25)
    start = world.logs[0].start_offset
    with pytest.raises(DataLossError) as caught:
        offsets(servers, tmp_path / "archive")
    (loss,) = caught.value.losses
    assert (loss.kind, loss.start, loss.end) == ("aged out", 20, start)
    given: dict[str, Any] = {"topics": "t", "archive": tmp_path / "archive"}
    with (
        fencepost.arrow.stream(servers, start="earliest", **given) as stream,
        pytest.raises(DataLossError, match=f"offsets 20 to {start}"),
    ):
        deque(stream, maxlen=0)


def test_an_archive_of_another_topic_of_that_name_is_refused(
    world: Backfill, fake: FakeCluster, servers: Properties, tmp_path: Path
):
    del fake.topics["t"]
    fake.create_topic("t", 1)
    with pytest.raises(DataLossError, match=f"the id {world.topic_id}"):
        offsets(servers, tmp_path / "archive")


def test_files_that_are_missing_are_noticed_before_the_first_row(
    world: Backfill, servers: Properties, tmp_path: Path
):
    next((tmp_path / "archive").rglob("topic=t/**/*.parquet")).unlink()
    serving._opened.clear()
    with pytest.raises(ArchiveReadError, match="records were archived, the files have"):
        fencepost.arrow.scan(servers, topics="t", archive=tmp_path / "archive")


@pytest.mark.parametrize(
    ("archive", "options", "allowed"),
    [
        ("", None, "must be the directory of an archive"),
        (7, None, "must be the directory of an archive"),
        ("nothing-here", None, "no archive: there is no"),
        ("ftp://h/x", None, "no file system for ftp:"),
        (None, {"region": "eu"}, "none is named"),
        ("archive", ["region"], "must be settings of a store"),
        ("archive", {"region": []}, "must be settings of a store"),
        ("archive", {7: "x"}, "must be settings of a store"),
    ],
)
def test_archives_that_are_refused_before_a_broker_is_asked(
    tmp_path: Path, archive: Any, options: Any, allowed: str
):
    place = os.path.join(tmp_path, archive) if archive == "nothing-here" else archive
    with pytest.raises(ArgumentError, match=allowed):
        fencepost.arrow.scan("127.0.0.1:1", topics="t", archive=place, archive_options=options)
    with pytest.raises(ArgumentError, match=allowed):
        fencepost.arrow.stream("127.0.0.1:1", topics="t", archive=place, archive_options=options)
