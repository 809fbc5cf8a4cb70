"""The transactions of one producer, over coordinators that refuse."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest

from fencepost.client.conversation import Alone, Connect, Exchange, Pause, Tell, drive
from fencepost.client.errors import ClientError, ConnectionFailed, DeadlineExceeded
from fencepost.client.metadata import Node, TopicPartition
from fencepost.client.retry import Backoff, Deadline
from fencepost.client.transactional import TransactionDriver
from fencepost.wire.api.init_producer_id import InitProducerIdResponse
from fencepost.wire.errors import ErrorCode

PAUSES_MAX = 100
GRANTED = InitProducerIdResponse(producer_id=7, producer_epoch=0)
REFUSED = InitProducerIdResponse(error_code=int(ErrorCode.NOT_COORDINATOR))


class World:
    """A coordinator that answers with `answers`, the last of them for ever; nothing is known of the
    cluster before the first connection."""

    def __init__(self, *answers: Any, backoff_ms: int = 1, deadline_ms: int = 50) -> None:
        self.answers = list(answers)
        self.pauses: list[float] = []
        self.is_connected = False
        view: Any = SimpleNamespace(
            config=SimpleNamespace(two_phase_commit=False),
            finalized_features=SimpleNamespace(level=lambda name: 2 if self.is_connected else 0),
            backoff=lambda: Backoff(backoff_ms, backoff_ms),
            deadline=lambda: Deadline(deadline_ms),
            known_coordinator=lambda key, kind: Node(1, "one", 1),
            forget_coordinator=lambda key, kind: None,
            note_failure=lambda error: None,
        )
        self.driver = TransactionDriver(view, "id", 60_000)

    def run(self, conversation: Any) -> Any:
        return drive(conversation, self.take)

    def take(self, step: Any) -> Any:
        if isinstance(step, Alone):
            return self.run(step.conversation)
        if isinstance(step, Connect):
            self.is_connected = True
            return SimpleNamespace(version_for=lambda kind, lowest, highest: 4)
        if isinstance(step, Pause):
            assert len(self.pauses) < PAUSES_MAX, "it never gives up"
            self.pauses.append(step.pause_ms)
            return time.sleep(step.pause_ms / 1000)
        if isinstance(step, Tell):
            return None
        assert isinstance(step, Exchange)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, ClientError):
            raise answer
        return answer


def test_what_is_refused_until_the_deadline_is_given_up() -> None:
    """Instead of a pause that ends behind it."""
    world = World(REFUSED, backoff_ms=1_000, deadline_ms=500)
    said = r"init_transactions did not succeed within 500 ms; last error: .*NOT_COORDINATOR"
    with pytest.raises(DeadlineExceeded, match=said):
        world.run(world.driver.initialize())
    assert world.pauses == []


@pytest.mark.parametrize(
    ("answers", "says"),
    [
        ((ConnectionFailed("gone"), REFUSED), "NOT_COORDINATOR"),
        ((REFUSED, ConnectionFailed("gone")), "gone"),
    ],
)
def test_the_last_error_is_the_last(answers: Any, says: str) -> None:
    world = World(*answers)
    with pytest.raises(DeadlineExceeded, match=says):
        world.run(world.driver.initialize())


def test_the_first_transaction_speaks_what_the_cluster_does() -> None:
    world = World(GRANTED)
    world.run(world.driver.initialize())
    assert world.driver.manager.is_tv2


def test_what_failed_before_a_transaction_is_none_of_its_concern() -> None:
    world = World(GRANTED)
    world.run(world.driver.initialize())
    produce: Any = SimpleNamespace(first_failure=ClientError("earlier"))
    world.driver.begin(produce)
    assert produce.first_failure is None


def test_a_transaction_of_nothing_is_not_left_to_anybody() -> None:
    world = World(GRANTED)
    world.run(world.driver.initialize())
    world.driver.begin()
    assert world.run(world.driver.leave_open(lambda _: None)) is None
    world.driver.manager.add_partition(TopicPartition("t", 0))
    left = world.run(world.driver.leave_open(lambda _: None))
    assert left is not None and left.transactional_id == "id"


def test_a_pause_ends_when_a_request_is_sent_again() -> None:
    world = World(REFUSED, backoff_ms=1_000)
    assert world.driver.limited_pause_s(5.0) == 5.0
    with pytest.raises(DeadlineExceeded):
        world.run(world.driver.initialize())
    assert 0 < world.driver.limited_pause_s(5.0) <= 1.5
