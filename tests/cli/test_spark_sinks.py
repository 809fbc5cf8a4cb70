"""`fencepost spark sinks` and `finish` on what drivers of the exactly-once sink have left."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fencepost.client.admin import Admin
from fencepost.client.cluster import Cluster
from fencepost.client.open_transactions import end_all
from fencepost.spark.decisions import Label
from fencepost.spark.memory import DAY_MS

from ..spark.checkpoints import write_checkpoint
from ..spark.exactly_once_world import World
from .commands import Fencepost

pytestmark = pytest.mark.slow


@pytest.fixture
def make_world(cluster: Cluster, topic: str) -> Callable[[], World]:
    return lambda: World(cluster.config.bootstrap_servers, topic)


def listed(run: Fencepost, world: World, *options: str) -> dict[str, Any] | None:
    rows = run("spark", "sinks", "--json", *options).json
    return next((row for row in rows if row["sink"] == world.sink), None)


def test_a_decided_batch_is_listed_and_finished(run: Fencepost, make_world: Callable[[], World]):
    world = make_world()
    world.decided_only()
    row = listed(run, world, "--unfinished")
    assert row is not None
    assert (row["condition"], row["open"], row["batch"], row["decision"]) == ("decided", 2, 0, 1)
    table = run("spark", "sinks", "--unfinished")
    assert table.lines[0].split()[0] == "sink"
    assert any(line.split()[0] == world.sink for line in table.lines[1:])
    finished = run("spark", "finish", world.sink)
    assert (finished.code, finished.out) == (
        0,
        f"decision 1 of {world.sink}: finished, 2 of 2 transactions committed\n",
    )
    assert listed(run, world, "--unfinished") is None
    assert world.committed() == world.expected(1)


def test_undecided_transactions_are_aborted_by_taking_over(
    run: Fencepost, make_world: Callable[[], World]
):
    world = make_world()
    with world.cluster() as cluster:
        world.written(cluster, world.open(cluster), 0)
        row = listed(run, world)
        assert row is not None
        assert (row["condition"], row["undecided"]) == ("undecided", 2)
        told = run("spark", "finish", world.sink)
        assert told.code == 0
        assert "2 undecided transactions are open" in told.out
        assert len(world.still_open()) == 2
        world.new_process()
        taken = run("spark", "finish", world.sink, "--take-over")
        assert taken.out == f"{world.sink} has decided nothing\n"
    assert world.still_open() == []
    assert world.committed() == []


def test_what_cannot_be_finished(run: Fencepost, make_world: Callable[[], World]):
    assert "no exactly-once sink other is known" in run("spark", "finish", "other").err
    world = make_world()
    transactions = world.decided_only()
    with world.cluster() as cluster:
        assert end_all(cluster, transactions[:1], commit=True) == {}
        assert end_all(cluster, transactions[1:], commit=False) == {}
    told = run("spark", "finish", world.sink)
    assert told.code == 1
    assert "incomplete, 1 of 2 transactions committed" in told.out
    refused = run("spark", "finish", world.sink, "--take-over")
    assert refused.code == 1
    assert "FENCEPOST_EXACTLY_ONCE.INCOMPLETE_BATCH" in refused.err


def test_a_sink_says_who_has_written_what(run: Fencepost, make_world: Callable[[], World]):
    world = make_world()
    with world.cluster() as cluster:
        label = Label("orders job", "to topics")
        results = [
            replace(one, label=label) for one in world.written(cluster, world.open(cluster), 0)
        ]
        world.commit(cluster, results, 0)
    row = listed(run, world)
    assert row is not None
    assert (row["application"], row["name"], row["topics"]) == (
        label.application,
        label.query,
        [world.topic],
    )
    assert (row["query"], row["batch"], row["keys"]) == (world.query, 0, 1)
    assert abs(row["decided_ms"] - time.time_ns() // 1_000_000) < 600_000
    line = next(one for one in run("spark", "sinks").lines if one.startswith(world.sink))
    assert "orders job" in line
    assert "to topics" in line
    assert world.topic in line


def test_a_checkpoint_has_the_sinks_that_its_query_decided_in(
    run: Fencepost, make_world: Callable[[], World], tmp_path: Path
):
    world = make_world()
    with world.cluster() as cluster:
        world.commit(cluster, world.written(cluster, world.open(cluster), 0), 0)
    folder = write_checkpoint(tmp_path, [{world.topic: {"0": 0}}], committed=0)
    for query, is_its_own in ((world.query, True), ("another", False)):
        (folder / "metadata").write_text(json.dumps({"id": query}))
        shown = run("spark", "checkpoint", "show", str(folder), "--json").json
        assert (world.sink in shown["sinks"]) == is_its_own


def test_a_sink_that_lost_its_decision_begins_again(
    run: Fencepost, make_world: Callable[[], World]
):
    world = make_world()
    world.decided_only()
    refused = run("spark", "forget", world.sink)
    assert refused.code == 1
    assert "NOTHING_TO_FORGET" in refused.err
    with world.cluster() as cluster:
        Admin(cluster).delete_group(world.sink)
    world.new_process()
    taken = run("spark", "finish", world.sink, "--take-over")
    assert taken.code == 1
    assert "DECISION_LOST" in taken.err
    forgotten = run("spark", "forget", world.sink)
    assert (forgotten.code, forgotten.out) == (
        0,
        f"{world.sink} has forgotten what it decided last\n",
    )
    assert world.live()
    assert world.still_open() == []
    assert world.committed() == world.expected()
    for more in ((), ("--keys-older-than", "1")):
        unknown = run("spark", "forget", "other", *more)
        assert unknown.code == 1
        assert "no exactly-once sink other is known" in unknown.err


def test_old_keys_are_forgotten(run: Fencepost, make_world: Callable[[], World]):
    world = make_world()
    long_ago_ms = time.time_ns() // 1_000_000 - 40 * DAY_MS
    for number, now_ms in enumerate((long_ago_ms, long_ago_ms, long_ago_ms + 30 * DAY_MS)):
        other = replace(
            world,
            query=f"q-{number}",
            batches=1,
            next_batch=0,
            wall_ms=lambda now_ms=now_ms: now_ms,
        )
        assert other.live()
    for days, count in ((50, 0), (20, 2), (20, 0)):
        told = run("spark", "forget", world.sink, "--keys-older-than", str(days))
        assert (told.code, told.out) == (0, f"{world.sink} has forgotten {count} keys\n")
    row = listed(run, world)
    assert row is not None
    assert row["keys"] == 1
    assert run("spark", "forget", world.sink, "--keys-older-than", "-1").code == 2


def test_what_resting_sinks_decided_is_kept(run: Fencepost, make_world: Callable[[], World]):
    world = make_world()
    world.wall_ms = lambda: time.time_ns() // 1_000_000 - 3 * DAY_MS
    assert world.live()
    before = listed(run, world)
    assert before is not None
    for days, number in (("4", before["decision"]), ("2", before["decision"] + 1)):
        rows = [
            row
            for row in run("spark", "keep", "--rested-days", days, "--json").json
            if row["sink"] == world.sink
        ]
        kept = {"sink": world.sink, "keys": 1, "is_kept": True, "problem": None}
        assert rows == ([kept] if days == "2" else [])
        row = listed(run, world)
        assert row is not None
        assert row == {**before, "decision": number}
    for wrong in ("-1", "inf", "nan"):
        refused = run("spark", "keep", "--rested-days", wrong)
        assert refused.code == 2
        assert "must not be negative" in refused.err
