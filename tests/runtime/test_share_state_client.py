"""Questions to share coordinators: batched, asked again, answered once each."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from fencepost.machines.group.partitioner import partition_for
from fencepost.machines.share.state_batch import ReadState, SharePartitionKey, StateBatch
from fencepost.runtime.share_persister import SharePersister
from fencepost.runtime.share_state_client import (
    PENDING_MAX,
    PER_REQUEST,
    TIMEOUT_MS,
    ShareStateClient,
)
from fencepost.runtime.share_states import APIS
from fencepost.wire.api import read_share_group_state as reading
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Uuid

from ..timers import ManualTimers

TOPIC = Uuid(b"a topic of share")
NONE = ErrorCode.NONE
Answer = tuple[ErrorCode, str | None]


class Asked:
    """A request under way, and how it is answered."""

    def __init__(self, node_id: int, request: Any, on_response: Any, on_failure: Any) -> None:
        self.node_id, self.request, self.fail = node_id, request, on_failure
        self._on_response = on_response
        self.api = APIS[type(request)]

    @property
    def partitions(self) -> list[int]:
        return [row.partition for topic in self.request.topics for row in topic.partitions]

    def answer(self, errors: dict[int, ErrorCode] | None = None, **said: Any) -> None:
        """Agree to everything but where `errors` by partition says otherwise."""
        response = self.api.response()
        for topic in self.request.topics:
            rows = []
            for row in topic.partitions:
                code = (errors or {}).get(row.partition, NONE)
                told = self.api.row(partition=row.partition, error_code=int(code))
                for name, value in said.items():
                    setattr(told, name, value)
                rows.append(told)
            response.results.append(self.api.topic(topic_id=topic.topic_id, partitions=rows))
        self._on_response(response)


class Questions:
    """A client on node 1; `leaders` lead the partitions of the topic, None: there is no topic."""

    def __init__(self, leaders: list[int] | None) -> None:
        self.leaders = leaders
        self.asked: list[Asked] = []
        self.created = 0
        self.timers = ManualTimers()
        ports: Any = SimpleNamespace(timers=self.timers, now_ms=lambda: self.timers.now_ms)
        image: Any = self.image
        self.client = ShareStateClient(1, ports, image, self, self.create)
        self.answers: list[Answer] = []

    def image(self) -> Any:
        if self.leaders is None:
            return SimpleNamespace(topics_by_name={})
        partitions = [SimpleNamespace(leader=leader) for leader in self.leaders]
        topic = SimpleNamespace(partitions=partitions)
        return SimpleNamespace(topics_by_name={"__share_group_state": topic})

    def create(self) -> None:
        self.created += 1

    def ask_here(self, request: Any, on_response: Any) -> None:
        self.asked.append(Asked(1, request, on_response, None))

    def ask(self, node_id: int, request: Any, on_response: Any, on_failure: Any) -> None:
        self.asked.append(Asked(node_id, request, on_response, on_failure))

    def take(self) -> Asked:
        return self.asked.pop(0)

    def done(self, error: ErrorCode, message: str | None) -> None:
        self.answers.append((error, message))

    def initialize(self, partition: int = 0, group: str = "g") -> None:
        key = SharePartitionKey(group, TOPIC, partition)
        self.client.initialize(key, state_epoch=2, start_offset=-1, done=self.done)

    def write(self, partition: int = 0, start_offset: int = 0) -> None:
        self.client.write(
            SharePartitionKey("g", TOPIC, partition),
            state_epoch=2,
            leader_epoch=1,
            start_offset=start_offset,
            delivery_complete_count=0,
            batches=(StateBatch(0, 4, 2, 1),),
            done=self.done,
        )


def test_it_is_a_persister() -> None:
    assert isinstance(Questions([1]).client, SharePersister)


def test_questions_that_come_meanwhile_go_into_one_request() -> None:
    world = Questions([2])
    for partition in range(4):
        world.initialize(partition)
    world.initialize(0, group="other")
    first, other = world.take(), world.take()
    assert (first.node_id, first.partitions) == (2, [0])
    assert other.request.group_id == "other", "a request is of one group"
    first.answer()
    second = world.take()
    assert second.partitions == [1, 2, 3]
    second.answer({2: ErrorCode.FENCED_STATE_EPOCH})
    assert [error.name for error, _ in world.answers] == [
        "NONE",
        "NONE",
        "FENCED_STATE_EPOCH",
        "NONE",
    ]
    assert not world.asked


def test_coordinators_here_are_asked_by_a_call() -> None:
    world = Questions([1])
    world.initialize()
    asked = world.take()
    assert (asked.node_id, asked.fail) == (1, None)


def test_writes_of_one_share_partition_go_one_after_the_other() -> None:
    world = Questions([2])
    for start_offset in range(3):
        world.write(start_offset=start_offset)
    for start_offset in range(3):
        asked = world.take()
        assert not world.asked
        (topic,) = asked.request.topics
        (row,) = topic.partitions
        assert row.start_offset == start_offset
        asked.answer()
    assert world.answers == [(NONE, None)] * 3


def test_summaries_of_one_share_partition_are_one_question() -> None:
    world = Questions([2])
    told: list[tuple[Any, ...]] = []
    for _ in range(PENDING_MAX):
        world.client.summary(SharePartitionKey("g", TOPIC, 0), 0, lambda *one: told.append(one))
    world.take().answer(start_offset=3)
    assert len(told) == 1, "what came meanwhile is asked then"
    asked = world.take()
    assert asked.partitions == [0]
    asked.answer(start_offset=5)
    assert told[1:] == [(NONE, None, 5, 0, -1)] * (PENDING_MAX - 1)
    assert not world.asked


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ],
)
def test_a_coordinator_that_moves_is_followed(error: ErrorCode) -> None:
    world = Questions([2])
    world.write()
    world.take().answer({0: error})
    assert not world.answers and not world.asked
    world.leaders = [3]
    world.timers.advance(100)
    asked = world.take()
    assert asked.node_id == 3
    asked.answer()
    assert world.answers == [(NONE, None)]


def test_a_broker_that_does_not_answer_is_asked_again() -> None:
    world = Questions([2])
    world.write()
    world.take().fail("it is down")
    world.timers.advance(100)
    world.take().fail("it is down")
    world.timers.advance(100)
    assert not world.asked, "the second pause is longer"
    world.timers.advance(100)
    world.take().answer()
    assert world.answers == [(NONE, None)]


def test_after_a_time_limit_the_last_error_is_the_answer() -> None:
    world = Questions([-1])
    world.write()
    world.timers.advance(TIMEOUT_MS)
    reason = "the coordinator's partition has no leader"
    assert world.answers == [(ErrorCode.COORDINATOR_NOT_AVAILABLE, reason)]


def test_what_a_coordinator_refuses_is_not_asked_again() -> None:
    world = Questions([2])
    world.write()
    world.take().answer({0: ErrorCode.FENCED_LEADER_EPOCH})
    world.timers.advance(TIMEOUT_MS)
    assert [error for error, _ in world.answers] == [ErrorCode.FENCED_LEADER_EPOCH]
    assert not world.asked


def test_the_topic_is_created_when_it_is_first_needed() -> None:
    world = Questions(None)
    world.initialize()
    assert world.created == 1
    world.leaders = [2]
    world.timers.advance(100)
    world.take().answer()
    assert world.answers == [(NONE, None)]


def test_an_answer_without_a_row_is_no_agreement() -> None:
    world = Questions([2])
    world.initialize()
    world.take()._on_response(reading.ReadShareGroupStateResponse())
    assert [error for error, _ in world.answers] == [ErrorCode.UNKNOWN_SERVER_ERROR]


def test_what_is_read_is_a_state() -> None:
    world = Questions([2])
    found: list[ReadState] = []
    world.client.read(SharePartitionKey("g", TOPIC, 0), 7, found.append)
    asked = world.take()
    assert asked.request.topics[0].partitions[0].leader_epoch == 7
    batch = reading.StateBatch(first_offset=3, last_offset=4, delivery_state=2, delivery_count=1)
    asked.answer(state_epoch=5, start_offset=3, state_batches=[batch])
    assert found == [ReadState(NONE, None, 5, 3, (StateBatch(3, 4, 2, 1),))]
    told: list[tuple[Any, ...]] = []
    world.client.summary(SharePartitionKey("g", TOPIC, 0), 0, lambda *one: told.append(one))
    world.take().answer(start_offset=3, leader_epoch=7, delivery_complete_count=2)
    assert told == [(NONE, None, 3, 7, 2)]
    world.client.delete(SharePartitionKey("g", TOPIC, 0), world.done)
    world.take().answer()
    assert world.answers == [(NONE, None)]


def test_requests_and_questions_are_bounded() -> None:
    world = Questions([2])
    for partition in range(PER_REQUEST + 2):
        world.initialize(partition)
    world.take().answer()
    assert len(world.take().partitions) == PER_REQUEST
    for partition in range(PENDING_MAX):
        world.initialize(partition)
    assert world.answers[-1][0] is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_questions_are_answered_when_the_broker_stops() -> None:
    world = Questions([2])
    world.write(0)
    world.write(1)
    asked = world.take()
    world.client.close()
    assert [error for error, _ in world.answers] == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 2
    asked.answer()
    assert len(world.answers) == 2 and not world.asked


def test_one_who_handles_an_answer_badly_does_not_disturb_the_others() -> None:
    world = Questions([2])
    world.initialize(0)

    def fail(error: ErrorCode, message: str | None) -> None:
        raise RuntimeError(error)

    world.client.delete(SharePartitionKey("g", TOPIC, 1), fail)
    world.initialize(2)
    world.take().answer()
    world.take().answer()
    world.take().answer()
    assert world.answers == [(NONE, None)] * 2


def test_the_coordinator_is_the_leader_of_the_keys_partition() -> None:
    world = Questions([2, 3, 4, 5])
    for partition in range(8):
        world.initialize(partition)
        key = f"g:{TOPIC}:{partition}"
        wanted = world.leaders[partition_for(key, 4)] if world.leaders else -1
        asked = world.asked[-1] if world.asked[-1].partitions == [partition] else None
        assert asked is None or asked.node_id == wanted
    while world.asked:
        world.take().answer()
    assert world.answers == [(NONE, None)] * 8
