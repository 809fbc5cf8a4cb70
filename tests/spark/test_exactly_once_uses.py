"""What people do with exactly-once sinks beside restarting them, killed at every named point: rows
are there once, or an error says why not. The table of docs/EXACTLY_ONCE.md, without Spark."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import partial

import pytest

from fencepost.client.admin import Admin
from fencepost.client.cluster import Cluster
from fencepost.client.groups import GroupAdmin
from fencepost.client.producer import Producer
from fencepost.spark import memory
from fencepost.spark.decisions import Label, read_decision
from fencepost.spark.errors import condition_of
from fencepost.spark.forgetting import forget_batch, forget_keys
from fencepost.spark.keeping import keep_sinks
from fencepost.spark.memory import DAY_MS, key_of
from fencepost.spark.sink_errors import (
    BatchForgottenError,
    DecisionLostError,
    ExactlyOnceError,
    SinkFencedError,
    TooManyKeysError,
    TransactionsLostError,
)
from fencepost.testing import Cluster as Served

from ..waiting import eventually
from .exactly_once_world import Fuse, World
from .test_exactly_once import KILLS

pytestmark = pytest.mark.timeout(600)
MakeWorld = Callable[..., World]
KillPoints = dict[str, Callable[[], Fuse]]
OTHER = "0c7be911-other"
DECIDED = list(KILLS)[list(KILLS).index("after the decision") :]
"""Points at which the batch is decided."""


@pytest.fixture(scope="module")
def kill_points(served: str) -> KillPoints:
    """What kills a world's first batch, by name; requests are counted once."""
    name = "counted-requests"
    with Cluster(served) as cluster:
        Admin(cluster).create_topic(name, 2)
        Admin(cluster).wait_for_topic(name)
    return points_of(World(served, name, batches=1))


def points_of(world: World) -> KillPoints:
    fuse = Fuse()
    assert world.live(fuse)
    return {
        point: partial(Fuse, range(fuse.seen.count(request))[which], after, named=request)
        for point, (request, which, after) in KILLS.items()
    }


@pytest.fixture(params=KILLS)
def killed(request: pytest.FixtureRequest, kill_points: KillPoints, make_world: MakeWorld) -> World:
    """A world whose first batch was killed there."""
    return killed_by(kill_points[request.param](), make_world())


def killed_by(fuse: Fuse, world: World) -> World:
    assert not world.live(fuse)
    assert world.next_batch == 0
    return world


def condition(error: BaseException) -> str:
    found = condition_of(error)
    assert found is not None
    return found.name.partition(".")[2]


def again(world: World, **changes: object) -> World:
    """Another query or write in the same sink and topic."""
    return replace(world, next_batch=0, **changes)


# -- a prefix that is shared ----------------------------------------------------------------------


def test_queries_that_share_a_sink_in_turn(killed: World):
    """The second has its batches between the first's last one and its restart."""
    share_a_sink(killed)


def share_a_sink(killed: World) -> None:
    other = again(killed, query=OTHER, rows_of=b"other ")
    assert other.live()
    assert killed.live()
    assert killed.committed() == sorted(killed.expected() + other.expected())
    other.next_batch = 1  # it was killed before Spark noted its last batch
    assert other.live()
    assert killed.committed() == sorted(killed.expected() + other.expected())
    killed.next_batch = 0
    with pytest.raises(ExactlyOnceError, match="the checkpoint is older"):
        killed.live()


def test_a_sink_that_two_drivers_use_at_once(make_world: MakeWorld):
    """Each that begins a batch fences the other, which fails; all rows are there once."""
    first = make_world(batches=3)
    second = again(first, query=OTHER, rows_of=b"other ")
    fenced = 0
    with first.cluster() as one, second.cluster() as two:
        for batch in range(3):
            lost = first.written(one, first.open(one), batch)
            first.new_process()
            results = second.written(two, second.open(two), batch)
            first.new_process()
            with pytest.raises((SinkFencedError, TransactionsLostError)):
                first.commit(one, lost, batch)
            fenced += 1
            second.commit(two, results, batch)
            first.new_process()
            first.commit(one, first.written(one, first.open(one), batch), batch)
            first.new_process()
    assert fenced == 3
    assert first.committed() == sorted(first.expected() + second.expected())


# -- keys of batch writes -------------------------------------------------------------------------


def keyed(world: World, **changes: object) -> World:
    return replace(world, query=key_of("nightly", world.topic), **changes)


def test_a_write_with_a_key_that_is_repeated(kill_points: KillPoints, make_world: MakeWorld):
    for fuse in kill_points.values():
        is_repeated(killed_by(fuse(), keyed(make_world(batches=1), run="run-1")))


def is_repeated(world: World) -> None:
    for number in range(3):
        world.next_batch = 0
        world.run = f"run-{number + 2}"
        assert world.live()
        assert world.committed() == world.expected()
    assert world.still_open() == []


def test_an_older_version_of_a_key_is_refused(make_world: MakeWorld):
    world = keyed(make_world(batches=3))
    assert world.live()
    world.next_batch = 1
    with pytest.raises(ExactlyOnceError, match="version 1 of txn/nightly") as raised:
        world.live()
    assert condition(raised.value) == "OLDER_VERSION"
    world.next_batch, world.batches = 7, 8  # versions may leave some out
    world.rows_of = b"later "
    assert world.live()
    with world.cluster() as cluster:
        decision = read_decision(cluster, world.sink)
    assert decision is not None
    assert decision.decided(world.query) == 7


def test_two_writes_with_one_key_in_one_batch_of_a_run(make_world: MakeWorld):
    """The second would be taken for the first, and its rows be lost."""
    world = keyed(make_world(batches=1), run="one run")
    assert world.live()
    between = keyed(make_world(batches=1), sink=world.sink, run="one run")
    assert between.query != world.query
    assert between.live()
    for run, refused in (("one run", True), ("the next run", False)):
        second = again(world, run=run, rows_of=b"second ")
        if refused:
            with pytest.raises(ExactlyOnceError, match="another write with the same") as raised:
                second.live()
            assert condition(raised.value) == "SAME_KEY_TWICE"
        else:
            assert second.live()
    assert world.committed() == world.expected()


def test_keys_are_remembered_up_to_a_number_and_no_new_one_is_taken_then(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(memory, "KEYS_MAX", 3)
    first = make_world(batches=1)
    worlds = [again(first, query=f"query-{n}", rows_of=b"%d " % n) for n in range(5)]
    for world in worlds[:3]:
        assert world.live()
    with pytest.raises(TooManyKeysError, match="forgets old ones") as raised:
        worlds[3].live()
    assert condition(raised.value) == "TOO_MANY_KEYS"
    expected = sorted(row for world in worlds[:3] for row in world.expected())
    for world in worlds[:3]:
        world.next_batch = 0
        assert world.live()
    assert first.committed() == expected
    assert first.still_open() == []
    with first.cluster() as cluster:
        today = time.time_ns() // 1_000_000 // DAY_MS
        assert forget_keys(cluster, first.sink, today) == 0
        worlds[0].new_process()
        assert forget_keys(cluster, first.sink, today + 1) == 2
    assert worlds[3].live()
    worlds[2].next_batch = 0
    assert worlds[2].live(), "that of the last decision is kept"
    assert first.committed() == sorted(expected + worlds[3].expected())


def test_a_decision_that_rests_is_committed_again_and_a_young_one_left_alone(make_world: MakeWorld):
    """So brokers count their retention from then on; nothing else of it is another."""
    now_ms = time.time_ns() // 1_000_000
    resting = keyed(make_world(batches=2), wall_ms=lambda: now_ms - 3 * DAY_MS)
    young, unkeyed = keyed(make_world(batches=1)), make_world(batches=1)
    unkeyed.query, unkeyed.wall_ms = "", lambda: now_ms - 3 * DAY_MS
    for world in (resting, young, unkeyed):
        assert world.live()
    with resting.cluster() as cluster:
        before = [read_decision(cluster, world.sink) for world in (resting, young, unkeyed)]
        mine = {world.sink for world in (resting, young, unkeyed)}
        found = [one for one in keep_sinks(cluster, DAY_MS, now_ms) if one.name in mine]
        assert [(one.name, one.keys, one.problem) for one in found] == [(resting.sink, 1, "")]
        after = [read_decision(cluster, world.sink) for world in (resting, young, unkeyed)]
    assert before[0] is not None
    assert after == [replace(before[0], number=before[0].number + 1), *before[1:]]
    resting.next_batch, resting.run = 1, "another run"
    resting.new_process()
    assert resting.live(), "and the repeated write is known"
    assert resting.committed() == resting.expected()
    resting.next_batch, resting.batches = 2, 3
    assert resting.live(), "and the next one goes on"


@pytest.mark.parametrize("has_tasks", [False, True])
def test_a_driver_that_begins_is_fenced_by_keeping_unless_its_tasks_have_begun(
    make_world: MakeWorld, has_tasks: bool
):
    world = keyed(make_world(batches=1), wall_ms=lambda: 1_000)
    assert world.live()
    world.batches, world.run = 2, "second"
    with world.cluster() as cluster:
        grant = world.open(cluster)
        results = world.written(cluster, grant, 1) if has_tasks else []
        (kept,) = [one for one in keep_sinks(cluster, 0, 2_000) if one.name == world.sink]
        assert kept.problem == ("is undecided" if has_tasks else "")
        if has_tasks:
            world.commit(cluster, results, 1)
            world.run = "third"
        else:
            with pytest.raises(SinkFencedError):
                world.written(cluster, grant, 1)
    assert world.live()
    assert world.committed() == world.expected()


def test_a_sink_whose_topics_are_gone_cannot_be_kept(make_world: MakeWorld):
    world = keyed(make_world(batches=1), wall_ms=lambda: 0)
    assert world.live()
    with world.cluster() as cluster:
        (old,) = [one for one in keep_sinks(cluster, 0, 2_000) if one.name == world.sink]
        assert old.problem == "does not say when it decided last"
        Admin(cluster).delete_topic(world.topic)
        found = [one for one in keep_sinks(cluster, 0, 2_000) if one.name == world.sink]
    assert [one for one in found if not one.problem] == []


# -- what is lost ---------------------------------------------------------------------------------


def delete_group(world: World) -> bool:
    """As an operator does, where there is one."""
    with Cluster(config=world.config) as cluster:
        groups = {one.group_id for one in GroupAdmin(cluster).list_groups()}
        if world.sink not in groups:
            return False
        Admin(cluster).delete_group(world.sink)
        return True


def test_a_group_that_was_deleted(killed: World, request: pytest.FixtureRequest):
    loses_its_group(killed, is_decided=request.node.callspec.params["killed"] in DECIDED)


def loses_its_group(killed: World, *, is_decided: bool) -> None:
    is_gone = delete_group(killed) and is_decided
    if is_gone:
        for _ in range(2):
            with pytest.raises(DecisionLostError, match="the group was deleted") as raised:
                killed.live()
        assert condition(raised.value) == "DECISION_LOST"
        with killed.cluster() as cluster:
            forget_batch(cluster, killed.sink)
        killed.next_batch = 1  # its operator has looked, or lets it be written again
    assert killed.live()
    seen = killed.committed()
    assert len(seen) == len(set(seen))
    assert set(killed.expected()) - set(seen) <= (set(killed.expected(1)) if is_gone else set())


@pytest.mark.parametrize("keys", [False, True])
@pytest.mark.parametrize("commits", [False, True])
def test_an_ordinary_producer_is_not_fenced_for_a_name_that_is_no_sink(
    make_world: MakeWorld, keys: bool, commits: bool
):
    """Its id is known, and none of its tasks, because it has none."""
    world = make_world(batches=1)
    config = replace(world.config, transactional_id=world.sink)
    with world.cluster() as cluster, Cluster(config=config) as ordinary:
        producer = Producer(ordinary)
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(world.topic, b"ordinary", partition=0)
        if commits:
            producer.commit_transaction()
            producer.begin_transaction()
            producer.send(world.topic, b"more", partition=0)
        with pytest.raises(ExactlyOnceError, match="fence its producer") as raised:
            forget_keys(cluster, world.sink, 0) if keys else forget_batch(cluster, world.sink)
        assert condition(raised.value) == "NOT_A_SINK"
        producer.commit_transaction()
    assert world.committed() == sorted([b"ordinary", b"more"] if commits else [b"ordinary"])


def recreate_topic(world: World) -> None:
    with Cluster(config=world.config) as cluster:
        admin = Admin(cluster)
        admin.delete_topic(world.topic)
        eventually(lambda: world.topic not in [one.name for one in cluster.describe(None)])
        admin.create_topic(world.topic, 2)
        admin.wait_for_topic(world.topic)


def test_a_topic_that_was_recreated(killed: World, request: pytest.FixtureRequest):
    """Of a batch that was decided in the old topic nothing says whether it is to be written."""
    loses_its_topic(killed, is_decided=request.node.callspec.params["killed"] in DECIDED)


def loses_its_topic(killed: World, *, is_decided: bool) -> None:
    recreate_topic(killed)
    if is_decided:
        with pytest.raises(DecisionLostError, match="all topics that it wrote to were"):
            killed.live()
        with killed.cluster() as cluster:
            forget_batch(cluster, killed.sink)
    assert killed.live()
    assert killed.committed() == killed.expected()


def test_one_of_several_topics_is_recreated(make_world: MakeWorld):
    """The decision is there for each of them."""
    world = make_world(batches=1)
    second = make_world().topic
    with world.cluster() as cluster:
        grant = world.open(cluster)
        results = world.written(cluster, grant, 0)
        elsewhere = replace(world, topic=second, sink=world.sink)
        results.append(elsewhere.attempt(cluster, grant, 0, 2))
        world.commit(cluster, results, 0)
    recreate_topic(world)
    assert world.live()
    assert world.committed() == [], "it was decided, and is not written to one of them again"
    assert len(elsewhere.committed()) == 3


def test_a_decision_that_expired_is_no_lost_one(killed: World):
    """Brokers forgot it after offsets.retention.minutes; when the batch was first tried says
    whether it can have been decided."""
    delete_group(killed)
    now_ms = time.time_ns() // 1_000_000 + 8 * DAY_MS
    killed.wall_ms = lambda: now_ms
    killed.planned_since_ms = now_ms - 8 * DAY_MS
    with pytest.raises(BatchForgottenError, match="was first tried 691200 s ago") as raised:
        killed.live()
    assert condition(raised.value) == "BATCH_FORGOTTEN"
    killed.next_batch = 1  # Spark has noted it; then a new batch is planned
    killed.planned_since_ms = now_ms - 1_000
    assert killed.live()
    assert set(killed.expected()) - set(killed.expected(1)) <= set(killed.committed())


@pytest.mark.long
def test_brokers_that_forget_decisions_after_a_minute():
    settings = {
        "offsets.retention.minutes": "1",
        "offsets.retention.check.interval.ms": "1000",
        "transactional.id.expiration.ms": "70000",
        "transaction.remove.expired.transaction.cleanup.interval.ms": "1000",
    }
    with Served(config=settings, faults=False) as served:
        with Cluster(served.bootstrap_servers) as cluster:
            Admin(cluster).create_topic("t", 2)
            Admin(cluster).wait_for_topic("t")
        world = World(served.bootstrap_servers, "t")
        world.planned_since_ms = time.time_ns() // 1_000_000
        world.decided_only()
        with world.cluster() as cluster:
            world.new_process()
            world.open(cluster)
            until = time.monotonic() + 240
            while read_decision(cluster, world.sink) is not None:
                assert time.monotonic() < until
                time.sleep(1)
        with pytest.raises(BatchForgottenError):
            world.live()
        assert world.committed() == world.expected(1)


# -- clusters and clocks --------------------------------------------------------------------------


@pytest.mark.parametrize("jump_ms", [-400 * DAY_MS, 400 * DAY_MS, -5_000, 5_000])
def test_a_clock_that_jumps(killed: World, jump_ms: int):
    """At every look."""
    now_ms, sign = time.time_ns() // 1_000_000, 1

    def jumping_ms() -> int:
        nonlocal sign
        sign = -sign
        return now_ms + sign * jump_ms

    killed.wall_ms = jumping_ms
    assert killed.live()
    assert killed.committed() == killed.expected()


def test_a_query_that_moves_to_another_cluster_and_back():
    with ExitStack() as stack:
        clusters = [stack.enter_context(Served(faults=False)) for _ in range(2)]
        worlds = []
        for served in clusters:
            with Cluster(served.bootstrap_servers) as cluster:
                Admin(cluster).create_topic("t", 2)
                Admin(cluster).wait_for_topic("t")
            worlds.append(World(served.bootstrap_servers, "t", batches=1))
        here, there = worlds
        here.decided_only()  # batch 0, which Spark does not know of
        assert there.live()
        assert there.committed() == there.expected()
        here.next_batch = there.next_batch  # one checkpoint
        here.batches = 2
        assert here.live()
        assert here.committed() == here.expected(), "batch 0 was decided here as well"
        clusters[0].kill()


def test_a_cluster_that_was_formatted_again():
    """Nothing is left of what was decided, nor of what was written."""
    expected: list[bytes] = []
    seen: list[bytes] = []
    for batch in range(2):
        with Served(faults=False) as served:
            with Cluster(served.bootstrap_servers) as cluster:
                Admin(cluster).create_topic("t", 2)
                Admin(cluster).wait_for_topic("t")
            world = World(served.bootstrap_servers, "t", batches=batch + 1, next_batch=batch)
            if batch == 0:
                world.decided_only()
                world.new_process()
                with world.cluster() as cluster:
                    world.open(cluster)
            else:
                assert world.live()
            seen = world.committed()
            expected = sorted(row for task in range(2) for row in world.rows(batch, task))
            assert seen == expected


# -- who it was -----------------------------------------------------------------------------------


def test_a_decision_says_who_made_it(make_world: MakeWorld):
    world = make_world(batches=1)
    with world.cluster() as cluster:
        grant = world.open(cluster)
        label = Label("orders " * 100, "to topics")
        results = [replace(one, label=label, run="abc") for one in world.written(cluster, grant, 0)]
        world.commit(cluster, results, 0)
        decision = read_decision(cluster, world.sink)
    assert decision is not None
    assert decision.label == Label(("orders " * 100)[:100], "to topics")
    assert decision.topics == (world.topic,)
    assert abs(decision.time_ms - time.time_ns() // 1_000_000) < 600_000
