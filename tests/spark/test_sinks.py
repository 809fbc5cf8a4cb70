"""What died drivers of exactly-once sinks left, seen and finished from outside; and decisions that
come too late to be made."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace

import pytest

from fencepost.client.admin import Admin
from fencepost.client.cluster import Cluster
from fencepost.client.errors import UnsupportedApi
from fencepost.client.metadata import CommittedOffset, TopicPartition
from fencepost.client.open_transactions import Outcome, end_all
from fencepost.spark import decisions
from fencepost.spark.errors import condition_of
from fencepost.spark.exactly_once import SinkDriver
from fencepost.spark.grants import Grant, TaskResult
from fencepost.spark.options import ExactlyOnce
from fencepost.spark.sink_errors import DecisionError, TransactionsLostError
from fencepost.spark.sinks import Sink, find_sink, finish, finish_unnamed, known_sinks

from ..waiting import eventually
from .exactly_once_world import World

pytestmark = pytest.mark.timeout(300)
MakeWorld = Callable[..., World]


def sink_of(world: World) -> Sink:
    with world.cluster() as cluster:
        found = {one.name: one for one in known_sinks(cluster)}
        assert found[world.sink] == find_sink(cluster, world.sink)
    return found[world.sink]


def finish_it(world: World) -> None:
    decision = sink_of(world).decision
    assert decision is not None
    with world.cluster() as cluster:
        finish(cluster, world.sink, decision)


def test_a_decided_batch_is_finished_from_outside(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(decisions, "PART_CHARS", 50)  # further parts are no sinks
    world = make_world()
    world.decided_only()
    left = sink_of(world)
    assert (left.condition, left.count(Outcome.OPEN), left.undecided) == ("decided", 2, ())
    with world.cluster() as cluster:
        names = [one.name for one in known_sinks(cluster) if one.name.startswith(world.sink)]
    assert names == [world.sink]
    finish_it(world)
    finish_it(world)
    assert world.committed() == world.expected(1)
    assert sink_of(world).condition == "finished"


@pytest.mark.parametrize("is_tv2", [True, False], ids=["TV2", "TV1"])
def test_finishing_does_not_disturb_a_driver_that_is_at_it(make_world: MakeWorld, is_tv2: bool):
    world = make_world(is_tv2=is_tv2)
    world.decided_only(at_first_end=lambda: finish_it(world))
    world.next_batch = 1
    assert world.live()
    assert world.committed() == world.expected()


def test_what_is_undecided_is_told_and_left_alone(make_world: MakeWorld):
    world = make_world()
    world.sink = f"fencepost-spark-{uuid.uuid4().hex}"
    world.options = replace(world.options, exactly_once=ExactlyOnce(None, None))
    with world.cluster() as cluster:
        results = world.written(cluster, world.open(cluster), 0)
        found = sink_of(world)
        assert (found.condition, found.decision, len(found.undecided)) == ("undecided", None, 2)
        finish_unnamed(cluster)
        world.commit(cluster, results, 0)
    assert world.committed() == world.expected(1)


def test_the_next_write_without_a_name_finishes_those_before(make_world: MakeWorld):
    world = make_world()
    world.sink = f"fencepost-spark-{uuid.uuid4().hex}"
    named = make_world()
    world.decided_only()
    named.decided_only()
    with world.cluster() as cluster:
        finish_unnamed(cluster)
    assert sink_of(world).condition == "finished"
    assert world.committed() == world.expected(1)
    assert sink_of(named).condition == "decided"


@pytest.mark.parametrize("committed", [1, 0])
def test_a_batch_that_timed_out_after_its_decision(make_world: MakeWorld, committed: int):
    world = make_world()
    transactions = world.decided_only()
    with world.cluster() as cluster:
        assert end_all(cluster, transactions[:committed], commit=True) == {}
        assert end_all(cluster, transactions[committed : committed + 1], commit=False) == {}
    left = sink_of(world)
    assert left.condition == ("incomplete" if committed else "timed out")
    finish_it(world)  # can only make it worse: does nothing
    assert sink_of(world) == left


def test_groups_that_are_no_sinks(make_world: MakeWorld, topic: str):
    world = make_world()
    partition = TopicPartition(world.topic, 0)
    texts = ["", "1:", "2:eJw=", "x", "1:" + "A" * 100, "9999:A"]
    with world.cluster() as cluster:
        admin = Admin(cluster)
        for number, text in enumerate(texts):
            offsets = {partition: CommittedOffset(1, -1, text)}
            admin.alter_group_offsets(f"{topic}-{number}", offsets)
        assert not [one for one in known_sinks(cluster) if one.name.startswith(topic)]
        assert find_sink(cluster, "nobody") is None
        for number in range(len(texts)):
            with pytest.raises(DecisionError) as raised:
                find_sink(cluster, f"{topic}-{number}")
            found = condition_of(raised.value)
            assert found is not None
            assert found.name == "FENCEPOST_EXACTLY_ONCE.INVALID_DECISION"
            assert found.parameters["sink"] == f"{topic}-{number}"


# -- decisions that come too late -----------------------------------------------------------------


def aged(results: list[TaskResult], timeout_ms: int) -> list[TaskResult]:
    """As if their transactions had a shorter timeout than brokers gave them."""
    return [replace(one, mandate=replace(one.mandate, timeout_ms=timeout_ms)) for one in results]


def written(world: World, cluster: Cluster) -> tuple[Grant, list[TaskResult]]:
    grant = world.open(cluster)
    return grant, world.written(cluster, grant, 0)


def test_an_old_batch_of_young_transactions_is_decided(make_world: MakeWorld):
    world = make_world()
    with world.cluster() as cluster:
        grant, results = written(world, cluster)
        later = grant.mandate.timeout_ms / 1000
        driver = SinkDriver(cluster, world.sink, clock=lambda: time.monotonic() + later)
        driver.commit(results, 0)
    assert world.committed() == world.expected(1)


def test_transactions_without_time_left_are_not_decided(make_world: MakeWorld):
    world = make_world()
    with world.cluster() as cluster:
        _, results = written(world, cluster)
        admin, names = Admin(cluster), world.still_open()

        def are_old() -> bool:
            listed = admin.list_transactions(states=["Ongoing"], duration_ms=30)
            return set(names) <= {one.transactional_id for one in listed}

        eventually(are_old)
        with pytest.raises(TransactionsLostError, match="could time out") as raised:
            world.commit(cluster, aged(results, 40), 0)
        found = condition_of(raised.value)
        assert found is not None
        assert found.name == "FENCEPOST_EXACTLY_ONCE.DECISION_TOO_LATE"
        assert found.parameters["lateTransactions"] == "2"
        assert (found.parameters["timeoutMs"], found.parameters["marginMs"]) == ("40", "10")
        assert world.still_open() == []
        assert decisions.read_decision(cluster, world.sink) is None
    assert world.live()
    assert world.committed() == world.expected()


@pytest.fixture
def ages_untold(monkeypatch: pytest.MonkeyPatch) -> None:
    """Brokers older than Kafka 3.8."""
    listing = Admin.list_transactions

    def listed(self: Admin, **filters: object) -> object:
        if filters.get("duration_ms") is not None:
            raise UnsupportedApi("ListTransactions 1")
        return listing(self, **filters)  # type: ignore[arg-type]

    monkeypatch.setattr(Admin, "list_transactions", listed)


@pytest.mark.usefixtures("ages_untold")
def test_brokers_that_do_not_tell_ages(make_world: MakeWorld):
    world = make_world()
    with world.cluster() as cluster:
        _, results = written(world, cluster)
        with pytest.raises(TransactionsLostError, match="do not tell their ages"):
            world.commit(cluster, aged(results, 1), 0)
    assert world.live()
    assert world.committed() == world.expected()


@pytest.mark.usefixtures("ages_untold")
def test_a_quarter_of_the_timeout_is_left_to_commit_in(make_world: MakeWorld):
    world = make_world()
    with world.cluster() as cluster:
        for batch, (now_s, is_late) in enumerate(((30.0, True), (29.999, False))):
            results = aged(world.written(cluster, world.open(cluster), 0), 40_000)
            results = [replace(one, mandate=replace(one.mandate, opened_s=0.0)) for one in results]
            driver = SinkDriver(cluster, world.sink, clock=lambda now_s=now_s: now_s)
            with pytest.raises(TransactionsLostError) if is_late else nullcontext():
                driver.commit(results, 0)
            assert world.committed() == world.expected(batch)
