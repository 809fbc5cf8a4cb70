"""Requests for in-sync sets: one in flight, many partitions in one, and every kind of answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from fencepost.machines.effects import CONTROLLER
from fencepost.machines.partition import AlterPartition, BrokersChanged, Partition
from fencepost.runtime.alter_partition import MAX_PARTITIONS, RETRY_MS, AlterPartitions
from fencepost.wire.api.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    PartitionDataResponse,
    TopicDataResponse,
)
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Uuid

from ..machines.fakes import World
from ..machines.test_partition_produce import Leader

OWN_EPOCH = 777


@dataclass
class Hosted:
    topic: str
    index: int
    machine: Partition

    @property
    def topic_id(self) -> Uuid:
        return Uuid(self.topic.encode().ljust(16, b"\0"))


@dataclass
class Cluster:
    """Leaders on broker 1, and a controller that answers when the test says so."""

    world: World = field(default_factory=World)
    hosted: dict[str, Hosted] = field(default_factory=dict)
    asked: list[tuple[AlterPartitionRequest, Callable[..., None]]] = field(default_factory=list)
    timers: list[tuple[int, Callable[[], None]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.parts = AlterPartitions(
            self.world.driver,
            self,
            self,
            self,
            1,
            lambda: OWN_EPOCH,  # type: ignore[arg-type]
        )

    def ask(self, request: Any, on_reply: Callable[..., None], **_: Any) -> None:
        self.asked.append((request, on_reply))

    def after(self, delay_ms: int, callback: Callable[[], None]) -> None:
        self.timers.append((delay_ms, callback))

    def get(self, topic: str, index: int) -> Hosted | ErrorCode:
        return self.hosted.get(f"{topic}-{index}", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def lead(self, *names: str) -> list[Leader]:
        """Partitions with replicas 1 to 3, of which the leader alone is in sync."""
        leaders = []
        for name in names:
            leader = Leader.__new__(Leader)
            leader.world, leader.log, leader.tokens = self.world, self.world.logs[name], 0
            leader.machine = Partition(1, leader.log)
            leader.feed = lambda input_, name=name: self.feed(name, input_)  # type: ignore
            self.world.driver.add(name, leader.machine)
            leader.eligible = {1: 101, 2: 102, 3: 103}
            topic, _, index = name.rpartition("-")
            self.hosted[name] = Hosted(topic, int(index), leader.machine)
            leader.lead(1, 1, (1, 2, 3), (1,))
            leaders.append(leader)
        return leaders

    def feed(self, key: str, input_: object) -> None:
        self.world.driver.feed(key, input_)
        self.submit_all()

    def submit_all(self) -> None:
        for key, to, message in self.world.take_sent():
            assert to == CONTROLLER and isinstance(message, AlterPartition)
            self.parts.submit(key, message)

    def answer(self, response: AlterPartitionResponse | None, error: int = 0) -> None:
        _, on_reply = self.asked.pop(0)
        on_reply(ErrorCode(error), response)
        self.submit_all()

    def wait(self) -> None:
        """Let the timer fire."""
        ((delay_ms, callback),) = self.timers
        assert delay_ms == RETRY_MS
        self.timers.clear()
        callback()

    def in_request(self) -> dict[str, list[tuple[int, int]]]:
        """The partitions in the only request in flight, with what they ask for."""
        ((request, _),) = self.asked
        assert (request.broker_id, request.broker_epoch) == (1, OWN_EPOCH)
        AlterPartitionRequest.decode(request.encode(3), 3)
        return {
            f"{topic.topic_name}-{part.partition_index}": [
                (one.broker_id, one.broker_epoch) for one in part.new_isr_with_epochs
            ]
            for topic in request.topics
            for part in topic.partitions
        }


def granted(request: AlterPartitionRequest, **errors: int) -> AlterPartitionResponse:
    """What the controller says to a request; names in `errors` are topics'."""
    return AlterPartitionResponse(
        topics=[
            TopicDataResponse(
                topic_id=topic.topic_id,
                partitions=[
                    PartitionDataResponse(
                        partition_index=part.partition_index,
                        error_code=errors.get(topic.topic_name, 0),
                        leader_id=1,
                        leader_epoch=part.leader_epoch,
                        isr=[one.broker_id for one in part.new_isr_with_epochs],
                        partition_epoch=part.partition_epoch + 1,
                    )
                    for part in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def test_what_is_asked_for_while_a_request_is_in_flight_goes_together() -> None:
    cluster = Cluster()
    a, b, c = cluster.lead("a-0", "a-1", "c-0")
    for one in (a, b, c):
        one.fetched(2, 0)
    assert cluster.in_request() == {"a-0": [(1, OWN_EPOCH), (2, 102)]}
    cluster.answer(granted(cluster.asked[0][0]))
    assert a.machine.isr == {1, 2}
    assert cluster.in_request().keys() == {"a-1", "c-0"}
    assert len(cluster.asked[0][0].topics) == 2
    cluster.answer(granted(cluster.asked[0][0]))
    assert [one.machine.isr for one in (b, c)] == [{1, 2}, {1, 2}]
    assert cluster.asked == [] and cluster.timers == []


def test_asking_again_for_what_is_in_flight_sends_nothing() -> None:
    cluster = Cluster()
    (a,) = cluster.lead("a-0")
    a.fetched(2, 0)
    cluster.world.advance(3 * a.machine.config.alter_partition_retry_ms)
    cluster.submit_all()
    cluster.answer(granted(cluster.asked[0][0], a=ErrorCode.UNKNOWN_SERVER_ERROR))
    assert a.machine.proposal is not None
    assert cluster.asked == [], "its own timer asks again"


def test_what_is_not_wanted_any_more_is_left_out() -> None:
    cluster = Cluster()
    a, b = cluster.lead("a-0", "b-0")
    a.fetched(2, 0)
    b.fetched(2, 0)
    b.lead(1, 2, (1, 2, 3), (1, 2))
    cluster.answer(granted(cluster.asked[0][0]))
    assert cluster.asked == []


def test_an_answer_to_what_was_overtaken_is_no_answer_to_what_came_then() -> None:
    cluster = Cluster()
    (a,) = cluster.lead("a-0")
    a.fetched(2, 0)
    a.lead(1, 2, (1, 2, 3), (1,))
    a.fetched(3, 0)
    cluster.answer(granted(cluster.asked[0][0], a=ErrorCode.INELIGIBLE_REPLICA))
    assert a.machine.proposal is not None, "it was another proposal that was refused"
    assert cluster.in_request() == {"a-0": [(1, OWN_EPOCH), (3, 103)]}


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.STALE_BROKER_EPOCH,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ],
)
def test_an_error_of_the_whole_request_has_all_asked_for_again(error: ErrorCode) -> None:
    cluster = Cluster()
    a, b = cluster.lead("a-0", "b-0")
    a.fetched(2, 0)
    cluster.answer(AlterPartitionResponse(error_code=int(error)))
    b.fetched(2, 0)
    assert cluster.asked == [], "not before a while"
    assert a.machine.proposal is not None
    cluster.wait()
    assert cluster.in_request().keys() == {"a-0", "b-0"}


def test_no_answer_has_the_same_asked_for_again() -> None:
    cluster = Cluster()
    (a,) = cluster.lead("a-0")
    a.fetched(2, 0)
    before = cluster.asked[0][0]
    cluster.answer(None, ErrorCode.REQUEST_TIMED_OUT)
    cluster.wait()
    assert cluster.asked[0][0] == before


def test_what_was_asked_for_since_then_is_what_is_asked_for_again() -> None:
    cluster = Cluster()
    (a,) = cluster.lead("a-0")
    a.fetched(2, 0)
    a.lead(1, 2, (1, 2, 3), (1,))
    a.fetched(3, 0)
    cluster.answer(None, ErrorCode.REQUEST_TIMED_OUT)
    cluster.wait()
    assert cluster.in_request() == {"a-0": [(1, OWN_EPOCH), (3, 103)]}


def test_a_partition_that_the_answer_leaves_out_is_asked_for_again() -> None:
    cluster = Cluster()
    (a,) = cluster.lead("a-0")
    a.fetched(2, 0)
    cluster.answer(AlterPartitionResponse())
    assert cluster.asked == []
    cluster.wait()
    assert cluster.in_request().keys() == {"a-0"}


def test_partitions_and_topics_that_were_not_asked_about_are_passed_over() -> None:
    cluster = Cluster()
    (a,) = cluster.lead("a-0")
    a.fetched(2, 0)
    response = granted(cluster.asked[0][0])
    response.topics[0].partitions += [PartitionDataResponse(partition_index=9)] * 2
    response.topics += [
        TopicDataResponse(topic_id=Uuid(b"x" * 16), partitions=[]),
        *response.topics,
    ]
    cluster.answer(response)
    assert a.machine.isr == {1, 2}


@pytest.mark.parametrize(
    ("error", "still_asked"),
    [
        (ErrorCode.INELIGIBLE_REPLICA, False),
        (ErrorCode.OPERATION_NOT_ATTEMPTED, False),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, True),
        (ErrorCode.UNKNOWN_TOPIC_ID, True),
        (ErrorCode.FENCED_LEADER_EPOCH, True),
        (ErrorCode.INVALID_UPDATE_VERSION, True),
        (ErrorCode.INVALID_REQUEST, True),
        (ErrorCode.NEW_LEADER_ELECTED, True),
        (ErrorCode.NOT_CONTROLLER, True),
    ],
)
def test_an_error_of_one_partition_is_its_machines_business(
    error: ErrorCode, still_asked: bool
) -> None:
    cluster = Cluster()
    a, b = cluster.lead("a-0", "b-0")
    a.fetched(2, 0)
    b.fetched(2, 0)
    cluster.answer(granted(cluster.asked[0][0], a=int(error)))
    assert (a.machine.proposal is not None) == still_asked
    assert cluster.in_request().keys() == {"b-0"}, "the others go on"


def test_a_partition_that_is_gone_is_not_asked_for() -> None:
    cluster = Cluster()
    a, b = cluster.lead("a-0", "b-0")
    a.fetched(2, 0)
    b.fetched(2, 0)
    del cluster.hosted["b-0"]
    cluster.answer(granted(cluster.asked[0][0]))
    assert cluster.asked == []


def test_a_request_has_so_many_partitions_at_most() -> None:
    cluster = Cluster()
    first, *others = cluster.lead(*[f"t-{i}" for i in range(MAX_PARTITIONS + 2)])
    first.fetched(2, 0)
    for one in others:
        one.fetched(2, 0)
    cluster.answer(granted(cluster.asked[0][0]))
    assert len(cluster.in_request()) == MAX_PARTITIONS
    cluster.answer(granted(cluster.asked[0][0]))
    assert len(cluster.in_request()) == 1


def test_a_shrink_is_asked_for_with_who_stays() -> None:
    cluster = Cluster()
    (a,) = cluster.lead("a-0")
    a.lead(1, 2, (1, 2, 3), (1, 2))
    a.feed(BrokersChanged({1: 101}))
    a.produce()
    cluster.world.advance(2 * a.machine.config.replica_lag_time_max_ms)
    cluster.submit_all()
    assert cluster.in_request() == {"a-0": [(1, OWN_EPOCH)]}
    cluster.answer(granted(cluster.asked[0][0]))
    assert a.machine.isr == {1}
