"""The protocol of the exactly-once sink without Spark: driver and tasks as plain objects, killed at
every request, replaced while they go on, and overtaken by timeouts."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from fencepost.client.admin import Admin
from fencepost.client.cluster import Cluster
from fencepost.client.errors import ClientError
from fencepost.client.open_transactions import end_all
from fencepost.spark import decisions, exactly_once, takeover
from fencepost.spark.decisions import REVOKED, read_decision
from fencepost.spark.exactly_once import SinkDriver
from fencepost.spark.forgetting import forget_batch
from fencepost.spark.grants import TaskResult
from fencepost.spark.sink_errors import (
    ExactlyOnceError,
    IncompleteBatchError,
    SinkFencedError,
    TransactionsLostError,
    UnfinishedBatchError,
)
from fencepost.spark.task_transaction import Attempt
from fencepost.spark.writer import write_in_transaction
from fencepost.testing import Cluster as Served

from ..waiting import eventually
from .exactly_once_world import QUERY, Fuse, Gate, World

pytestmark = pytest.mark.timeout(600)
MakeWorld = Callable[..., World]


@pytest.fixture(params=["TV2", "TV1"])
def is_tv2(request: pytest.FixtureRequest) -> bool:
    return bool(request.param == "TV2")


def test_batches_are_there_once_and_ids_are_used_again(make_world: MakeWorld, is_tv2: bool):
    world = make_world(is_tv2=is_tv2, batches=7)
    assert world.live()
    assert world.committed() == world.expected()
    assert world.still_open() == []
    with Cluster(world.servers) as cluster:
        listed = Admin(cluster).list_transactions()
        decision = read_decision(cluster, world.sink)
    ids = [one for one in listed if one.transactional_id.startswith(f"{world.sink}-")]
    assert len(ids) == 2 * world.tasks
    # The last batch's own are not among those that the next one may use.
    assert decision is not None
    decided = {one.transactional_id for one in decision.transactions}
    assert len(decided) == len(decision.spare) == world.tasks
    assert not decided & set(decision.spare)


def kill_and_restart(world: World, *fuses: Fuse) -> None:
    for fuse in fuses:
        if world.live(fuse):
            break
    done = world.next_batch
    seen = world.committed()
    # Whole batches only, but for the one that was being committed: that is finished at the start.
    assert set(world.expected(done)) <= set(seen)
    assert world.live()
    # A batch that is visible but not in the checkpoint's log was finished, not written again.
    assert world.committed() == world.expected()
    world.new_process()
    with world.cluster() as cluster:
        world.open(cluster)
    assert world.still_open() == []


KILLS = {
    # what is being done when it is killed: request, which of that name, carried out or not
    "before anything": ("InitProducerId", 0, False),
    "when the driver is initialized": ("InitProducerId", 0, True),
    "before a task's producer": ("InitProducerId", 1, False),
    "before the first row": ("Produce", 0, False),
    "after the first task": ("Produce", 0, True),
    # By what follows: how many requests have the rows of two partitions is a matter of time.
    "after all rows": ("DescribeTransactions", 1, False),
    "before the decision": ("TxnOffsetCommit", 0, False),
    "when the decision is not committed": ("TxnOffsetCommit", 0, True),
    "before the decision is committed": ("EndTxn", 0, False),
    "after the decision": ("EndTxn", 0, True),
    "before the first end": ("EndTxn", 1, False),
    "between ends": ("EndTxn", 1, True),
    "before the last end": ("EndTxn", 2, False),
    "after all ends, before Spark's log": ("EndTxn", 2, True),
}


@pytest.mark.parametrize("point", KILLS)
def test_a_kill_at_a_named_point(make_world: MakeWorld, is_tv2: bool, point: str):
    name, which, after = KILLS[point]
    measured = make_world(is_tv2=is_tv2, batches=1)
    fuse = Fuse()
    assert measured.live(fuse)
    at = [number for number, seen in enumerate(fuse.seen) if seen == name][which]
    kill_and_restart(make_world(is_tv2=is_tv2), Fuse(at, after))


@pytest.mark.long
def test_a_kill_at_every_request(make_world: MakeWorld, is_tv2: bool):
    fuse = Fuse()
    assert make_world(is_tv2=is_tv2).live(fuse)
    for at in range(fuse.count):
        for after in (False, True):
            kill_and_restart(make_world(is_tv2=is_tv2), Fuse(at, after))


@pytest.mark.long
def test_kills_while_the_last_kill_is_being_put_right(make_world: MakeWorld, is_tv2: bool):
    draw = random.Random(20261123 + is_tv2)
    for _ in range(60):
        world = make_world(is_tv2=is_tv2, batches=2, tasks=draw.choice((1, 2, 3)))
        kills = [Fuse(draw.randrange(60), draw.random() < 0.5) for _ in range(draw.choice((2, 3)))]
        kill_and_restart(world, *kills)


# -- a driver that is replaced and goes on --------------------------------------------------------


def overtaken(world: World, at: int, moment: str) -> bool:
    """A driver stops at request `at` of its commit, another run of the query begins, and at
    `moment` of that the first goes on. Whether the first got so far at all."""
    gate = Gate(at)
    fuse = Fuse()
    first = world.cluster(fuse)
    results = world.written(first, world.open(first), 0)
    fuse.count, fuse.at_gate = 0, gate
    raised: list[BaseException] = []

    def commit() -> None:
        try:
            world.commit(first, results, 0)
        except (ExactlyOnceError, ClientError) as error:
            raised.append(error)
        finally:
            gate.reached.set()

    thread = threading.Thread(target=commit)
    thread.start()
    gate.reached.wait(60)
    is_stopped = fuse.count > at

    def let_go(now: str) -> None:
        if now == moment:
            gate.opened.set()
            thread.join(60)

    world.new_process()
    second = world.cluster()
    try:
        let_go("before open")
        grant = world.open(second)
        let_go("after open")
        again = world.written(second, grant, 0)
        let_go("after writing")
        world.commit(second, again, 0)
        world.next_batch = 1
    except (ExactlyOnceError, ClientError):
        pass  # the query fails, and is started once more
    gate.opened.set()
    thread.join(60)
    first.close()
    second.close()
    assert world.live()
    assert world.committed() == world.expected()
    assert world.still_open() == []
    return is_stopped


@pytest.mark.parametrize("moment", ["before open", "after open", "after writing"])
def test_a_driver_that_was_replaced_goes_on(make_world: MakeWorld, is_tv2: bool, moment: str):
    stops = 0
    for at in range(30):
        if not overtaken(make_world(is_tv2=is_tv2), at, moment):
            break
        stops += 1
    assert stops >= 7


def test_a_replaced_driver_hears_that_it_was(make_world: MakeWorld, is_tv2: bool):
    world = make_world(is_tv2=is_tv2)
    with world.cluster() as first, world.cluster() as second:
        results = world.written(first, world.open(first), 0)
        grant = world.open(second)
        with pytest.raises((SinkFencedError, TransactionsLostError)):
            world.commit(first, results, 0)
        world.commit(second, world.written(second, grant, 0), 0)
        with pytest.raises((SinkFencedError, TransactionsLostError)):
            world.commit(first, results, 0)
    assert world.committed() == world.expected(1)


def test_a_mandate_decides_one_batch(make_world: MakeWorld, is_tv2: bool):
    """Of tasks that Spark runs with the grant of a batch that is committed nothing is decided."""
    world = make_world(is_tv2=is_tv2)
    with world.cluster() as cluster:
        grant = world.open(cluster)
        world.commit(cluster, world.written(cluster, grant, 0), 0)
        # Their transactions end with another epoch of the driver's producer, and a task sees that;
        # without it (TV1) the commit does.
        refused = "another driver has taken" if is_tv2 else "another driver has decided"
        with pytest.raises(SinkFencedError, match=refused):
            world.commit(cluster, world.written(cluster, grant, 0), 0)
    assert world.committed() == world.expected(1)
    world.next_batch = 1
    assert world.live()
    assert world.committed() == world.expected()
    assert world.still_open() == []


def test_a_batch_that_was_given_up_is_put_right_by_the_same_driver(
    make_world: MakeWorld, is_tv2: bool
):
    """Spark tries a batch again without another process: what it left is aborted, and attempts of
    it that still run share no transactional id with those of the next try."""
    world = make_world(is_tv2=is_tv2, batches=3)
    with world.cluster() as cluster:
        for batch in range(2):
            world.commit(cluster, world.written(cluster, world.open(cluster), batch), batch)
        grant = world.open(cluster)
        assert grant.spare
        given_up = ids_of(world.written(cluster, grant, 2))
        assert set(world.still_open()) == given_up
        grant = world.open(cluster)
        assert world.still_open() == []
        again = world.written(cluster, grant, 2)
        assert not ids_of(again) & given_up
        world.commit(cluster, again, 2)
    assert world.committed() == world.expected()


def test_a_driver_leaves_alone_what_a_newer_one_has_written(make_world: MakeWorld, is_tv2: bool):
    """It aborts what it found before it was initialized: what is there later may be a newer
    driver's, which has fenced it."""
    world = make_world(is_tv2=is_tv2)
    fuse = Fuse()
    results: list[TaskResult] = []
    with world.cluster(fuse) as older, world.cluster() as newer:

        def overtake(_: int) -> None:
            if not results and "InitProducerId" in fuse.seen[:-1]:
                results.extend(world.written(newer, world.open(newer), 0))

        fuse.at_gate = overtake
        world.open(older)
        assert set(world.still_open()) == ids_of(results)
        assert len(results) == world.tasks
        world.commit(newer, results, 0)
    assert world.committed() == world.expected(1)


def ids_of(results: list[TaskResult]) -> set[str]:
    return {one.transaction.transactional_id for one in results if one.transaction is not None}


# -- attempts -------------------------------------------------------------------------------------


@pytest.mark.parametrize("winner", [0, 1])
def test_two_attempts_of_a_task_do_not_touch_each_other(
    make_world: MakeWorld, is_tv2: bool, winner: int
):
    world = make_world(is_tv2=is_tv2, batches=4)
    with world.cluster() as cluster:
        for batch in range(world.batches):
            grant = world.open(cluster)
            tried = [
                world.attempt(cluster, grant, batch, 0, first=True),
                world.attempt(cluster, grant, batch, 0, first=False),
            ]
            rest = world.attempt(cluster, grant, batch, 1)
            world.commit(cluster, [tried[winner], rest], batch)
            if winner:  # the driver sees that there was another
                assert world.still_open() == []
    assert world.committed() == world.expected()


def test_a_failing_attempt_aborts_its_own_transaction(make_world: MakeWorld, is_tv2: bool):
    world = make_world(is_tv2=is_tv2, batches=1)
    with world.cluster() as cluster:
        grant = world.open(cluster)

        def batches() -> Iterator[pa.RecordBatch]:
            yield pa.RecordBatch.from_pydict({"value": [bytes(1000)] * 3000})  # more than may wait
            eventually(world.still_open, "a part is sent")
            raise ValueError("no more rows")

        attempt = Attempt(QUERY, 0, 0, 1, is_first=True)
        with pytest.raises(ValueError, match="no more rows"):
            write_in_transaction(world.options, grant, attempt, batches(), cluster)
        assert world.still_open() == []
    assert world.committed() == []


def test_abort_ends_what_it_knows(make_world: MakeWorld, is_tv2: bool):
    world = make_world(is_tv2=is_tv2, batches=1)
    with world.cluster() as cluster:
        results = world.written(cluster, world.open(cluster), 0)
        SinkDriver(cluster, world.sink).abort(results)
        assert world.still_open() == []
        results = world.written(cluster, world.open(cluster), 0)
        world.commit(cluster, results, 0)
        SinkDriver(cluster, world.sink).abort(results)  # it is decided: nothing happens
    assert world.committed() == world.expected()


def test_a_commit_that_is_late_decides_nothing_once_an_abort_has_looked(
    make_world: MakeWorld, is_tv2: bool, monkeypatch: pytest.MonkeyPatch
):
    """An abort fences the driver before it looks whether the batch is decided."""
    world = make_world(is_tv2=is_tv2, batches=1)
    with world.cluster() as first, world.cluster() as second:
        results = world.written(first, world.open(first), 0)
        refused: list[Exception] = []

        def look(cluster: Cluster, sink: str) -> Any:
            found = read_decision(cluster, sink)
            monkeypatch.setattr(exactly_once, "read_decision", read_decision)
            try:
                world.commit(second, results, 0)
            except SinkFencedError as error:
                refused.append(error)
            return found

        monkeypatch.setattr(exactly_once, "read_decision", look)
        SinkDriver(first, world.sink).abort(results)
        assert len(refused) == 1 and world.still_open() == []
    assert world.committed() == []


@pytest.mark.parametrize(
    ("told", "expected_ms"),
    [
        ({1: 900_000, 2: 60_000, 3: 120_000}, 60_000),
        ({1: 7_200_000}, 7_200_000),
        ({1: 1}, takeover.LEAST_TIMEOUT_MS),
        ({1: None}, takeover.LEAST_TIMEOUT_MS),
        ({}, takeover.DEFAULT_MAX_TIMEOUT_MS),
        (None, takeover.DEFAULT_MAX_TIMEOUT_MS),
    ],
)
def test_the_longest_timeout_that_every_broker_allows(
    monkeypatch: pytest.MonkeyPatch, told: dict[int, int | None] | None, expected_ms: int
):
    """`told`: what brokers have for `transaction.max.timeout.ms`; None if it may not be read."""

    class Settings:
        def __init__(self, cluster: Any) -> None:
            pass

        def describe_configs(self, kind: int, node: str, names: list[str]) -> list[Any]:
            if told is None:
                raise ClientError("refused")
            value = told[int(node)]
            text = None if value is None else str(value)
            other = SimpleNamespace(name="transaction.timeout.ms", value="1")
            return [other, *(SimpleNamespace(name=name, value=text) for name in names)]

    monkeypatch.setattr(takeover, "Admin", Settings)
    monkeypatch.setattr(takeover, "_timeouts", {})
    cluster: Any = SimpleNamespace(
        config=SimpleNamespace(bootstrap_servers="here:9092"),
        metadata=SimpleNamespace(nodes=told or ({} if told is not None else {1: None})),
        describe=lambda topics: None,
    )
    assert takeover.longest_timeout_ms(cluster) == expected_ms
    takeover._timeouts["here:9092"] = 5_000
    assert takeover.longest_timeout_ms(cluster) == 5_000, "what a coordinator took"


def test_a_batch_that_is_decided_is_not_given_up(
    make_world: MakeWorld, is_tv2: bool, monkeypatch: pytest.MonkeyPatch
):
    """Its transactions could not be ended, so the commit fails, and Spark has it aborted."""
    world = make_world(is_tv2=is_tv2)

    def unreachable(_: Any, transactions: Any, *, commit: bool) -> dict[Any, ClientError]:
        assert commit
        return {one: ClientError("nobody answers") for one in transactions}

    with world.cluster() as cluster:
        results = world.written(cluster, world.open(cluster), 0)
        with monkeypatch.context() as patched:
            patched.setattr(exactly_once, "end_all", unreachable)
            with pytest.raises(UnfinishedBatchError, match="2 of its 2 transactions"):
                world.commit(cluster, results, 0)
        SinkDriver(cluster, world.sink).abort(results)
        assert set(world.still_open()) == ids_of(results)
    assert world.live()
    assert world.committed() == world.expected()


def test_a_driver_that_was_replaced_gives_up_nothing(make_world: MakeWorld, is_tv2: bool):
    """Spark has it abort its batch, and the sink is another's already."""
    world = make_world(is_tv2=is_tv2)
    with world.cluster() as first, world.cluster() as second:
        results = world.written(first, world.open(first), 0)
        world.new_process()
        again = world.written(second, world.open(second), 0)
        SinkDriver(first, world.sink).abort(results)
        assert set(world.still_open()) == ids_of(again)
        world.commit(second, again, 0)
    assert world.committed() == world.expected(1)


# -- timeouts -------------------------------------------------------------------------------------


def test_a_transaction_lost_before_the_decision(make_world: MakeWorld, is_tv2: bool):
    world = make_world(is_tv2=is_tv2)
    with world.cluster() as cluster:
        results = world.written(cluster, world.open(cluster), 0)
        assert results[1].transaction is not None
        Admin(cluster).force_terminate(results[1].transaction.transactional_id)
        with pytest.raises(TransactionsLostError, match="1 of 2 transactions"):
            world.commit(cluster, results, 0)
        assert world.still_open() == []
        assert world.committed() == []
    assert world.live()
    assert world.committed() == world.expected()


def times_out_before_the_decision(world: World, longest_ms: int) -> None:
    """On a broker that allows `longest_ms`: a batch that takes longer is written again, whole."""
    with world.cluster() as cluster:
        assert world.open(cluster).mandate.timeout_ms == longest_ms  # asked for nothing
        grant = SinkDriver(cluster, world.sink, 5_000).open()
        results = world.written(cluster, grant, 0)
        eventually(lambda: not world.still_open(), "transactions time out")
        with pytest.raises(TransactionsLostError, match="2 of 2 transactions"):
            world.commit(cluster, results, 0)
        assert world.committed() == []
        with pytest.raises(ClientError, match="INVALID_TRANSACTION_TIMEOUT"):
            SinkDriver(cluster, world.sink, longest_ms + 1).open()
    assert world.live()
    assert world.committed() == world.expected()


QUICK_TIMEOUTS = {
    "transaction.max.timeout.ms": "120000",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "100",
}


def test_real_timeouts_before_the_decision():
    with Served(config=QUICK_TIMEOUTS, faults=False) as served:
        with Cluster(served.bootstrap_servers) as cluster:
            Admin(cluster).create_topic("t", 2)
            Admin(cluster).wait_for_topic("t")
        times_out_before_the_decision(World(served.bootstrap_servers, "t"), 120_000)


def test_all_lost_after_the_decision_are_written_again(make_world: MakeWorld, is_tv2: bool):
    world = make_world(is_tv2=is_tv2)
    transactions = world.decided_only()
    with world.cluster() as cluster:
        assert end_all(cluster, transactions[:1], commit=False) == {}
    assert world.committed() == []
    assert world.live()
    assert world.committed() == world.expected()


def test_a_decision_that_is_revoked_counts_as_the_next(make_world: MakeWorld, is_tv2: bool):
    """So that no driver of a batch before it can take it for the one that it knows."""
    world = make_world(is_tv2=is_tv2)
    transactions = world.decided_only()
    with world.cluster() as cluster:
        decided = read_decision(cluster, world.sink)
        assert decided is not None
        assert end_all(cluster, transactions, commit=False) == {}
        world.new_process()
        mandate = world.open(cluster).mandate
        revoked = read_decision(cluster, world.sink)
    assert revoked is not None
    assert (revoked.batch, revoked.transactions, revoked.spare) == (REVOKED, (), ())
    assert revoked.number == mandate.number == decided.number + 1


def test_some_lost_after_the_decision_is_said_and_never_passed_over(
    make_world: MakeWorld, is_tv2: bool
):
    world = make_world(is_tv2=is_tv2)
    transactions = world.decided_only()
    with world.cluster() as cluster:
        assert end_all(cluster, transactions[:1], commit=True) == {}
        assert end_all(cluster, transactions[1:], commit=False) == {}
        for _ in range(2):
            with pytest.raises(IncompleteBatchError, match="1 of its 2 transactions"):
                world.open(cluster)
        forget_batch(cluster, world.sink)  # what the message says
    assert world.live()
    assert sorted(set(world.committed())) == world.expected()


# -- a decided batch, again and again -------------------------------------------------------------


def test_starts_that_die_leave_a_decided_batch_as_it_is(make_world: MakeWorld, is_tv2: bool):
    """Every one of them finds it decided, until one comes to tell Spark's log."""
    world = make_world(is_tv2=is_tv2)
    world.decided_only()
    for _ in range(3):
        world.new_process()
        with world.cluster() as cluster:
            grant = world.open(cluster)
            assert (grant.query, grant.batch) == (QUERY, 0)
            results = world.written(cluster, grant, 0)
            assert [one.transaction for one in results] == [None, None]
            world.commit(cluster, results, 0)
        assert world.still_open() == []
        assert world.committed() == world.expected(1)
    assert world.live()
    assert world.committed() == world.expected()


# -- checkpoints ----------------------------------------------------------------------------------


def test_a_checkpoint_that_went_back_is_refused(make_world: MakeWorld):
    world = make_world(batches=3)
    assert world.live()
    world.next_batch = 1
    with pytest.raises(ExactlyOnceError, match="the checkpoint is older"):
        world.live()
    assert world.committed() == world.expected()


def test_a_decision_of_many_tasks_is_spread_over_groups(
    make_world: MakeWorld, is_tv2: bool, monkeypatch: pytest.MonkeyPatch
):
    world = make_world(is_tv2=is_tv2, batches=2, tasks=2)
    monkeypatch.setattr(decisions, "PART_CHARS", 50)
    assert world.live()
    with world.cluster() as cluster:
        decision = read_decision(cluster, world.sink)
    assert decision is not None
    assert decision.batch == 1
    assert len(decision.transactions) == 2
    assert world.committed() == world.expected()
