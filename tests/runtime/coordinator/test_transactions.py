"""A transaction coordinator with its log: requests that wait for the transaction before."""

from __future__ import annotations

from typing import Any

import pytest

from fencepost.machines.coordinator import Decision
from fencepost.machines.transaction.coordinator import TransactionCoordinator
from fencepost.machines.transaction.ending import EndTxn
from fencepost.machines.transaction.initialization import InitProducerId
from fencepost.machines.transaction.model import TransactionState
from fencepost.machines.transaction.records import TransactionCodec
from fencepost.machines.transaction.requests import AddPartitions
from fencepost.machines.transaction.waiting import WAIT_MS
from fencepost.runtime.coordinator import CoordinatorKind, CoordinatorRuntime
from fencepost.runtime.coordinator.coordinator import RETRY_MS
from fencepost.wire.errors import ErrorCode

from .coordinator_world import WALL_MS, CoordinatorWorld

NONE = ErrorCode.NONE
ID, PARTITION = "payments", frozenset({("orders", 0)})
PRODUCER_ID = 1_000


class World(CoordinatorWorld):
    """The end of a transaction is decided, and the next one waits to begin."""

    def __init__(self) -> None:
        super().__init__(followers=1)
        self.kind: CoordinatorKind[Any] = CoordinatorKind(
            TransactionCoordinator,
            TransactionCodec(),
            write_timeout_ms=5_000,
            on_send=lambda message, epoch: self.sent.append((message, epoch)),
        )
        self.runtime = CoordinatorRuntime(self.kind, self.ports, self.scheduler.lane())
        self.start()
        granted = self._ask("decide_init", InitProducerId(ID, 60_000, None), PRODUCER_ID)
        self._ask("decide_add", self._adds(granted.epoch))
        ended = self._ask("decide_end", EndTxn(ID, PRODUCER_ID, granted.epoch, True, 2), None)
        [(message, _)] = self.sent
        [self.decided] = message.transactions
        self.token = self._begin("decide_add", self._adds(ended.epoch))
        assert self.token not in self.replies

    def _adds(self, epoch: int) -> AddPartitions:
        return AddPartitions(ID, PRODUCER_ID, epoch, PARTITION, 2)

    def _begin(self, decide: str, request: Any, *fresh: Any) -> int:
        return self.ask(
            lambda machine, token: getattr(machine, decide)(request, *fresh, token, WALL_MS)
        )

    def _ask(self, decide: str, request: Any, *fresh: Any) -> Any:
        token = self._begin(decide, request, *fresh)
        self.commit()
        error, reply = self.replies[token]
        assert error is NONE
        return reply

    def mark(self) -> None:
        """Its markers are written."""

        def decide(machine: Any) -> Decision[Any]:
            decision: Decision[Any] = machine.decide_marked(self.decided, PARTITION, None, WALL_MS)
            return decision

        self.coordinator.tell(decide)

    @property
    def state(self) -> TransactionState:
        """Of the transactional id."""
        machine: Any = self.coordinator.machine
        state: TransactionState = machine.transactions[ID].state
        return state


@pytest.fixture
def world() -> World:
    return World()


def test_it_is_answered_when_it_is_committed_behind_the_completion(world: World) -> None:
    world.mark()
    world.advance(0)
    assert world.state is TransactionState.ONGOING, "decided in the same turn"
    assert world.token not in world.replies
    world.commit()
    assert world.replies[world.token] == (NONE, NONE)
    world.advance(10 * WAIT_MS)


def test_it_is_answered_at_the_bound(world: World) -> None:
    world.advance(WAIT_MS - 1)
    assert world.token not in world.replies
    world.advance(1)
    assert world.replies[world.token] == (NONE, ErrorCode.CONCURRENT_TRANSACTIONS)
    world.mark()
    world.commit()
    world.advance(10 * WAIT_MS)
    assert world.state is TransactionState.COMPLETE_COMMIT


def test_a_completion_that_is_refused_leaves_it_waiting(world: World) -> None:
    world.set_in_sync(1)
    world.mark()
    world.advance(WAIT_MS)
    assert world.replies[world.token] == (NONE, ErrorCode.CONCURRENT_TRANSACTIONS)
    world.set_in_sync(1, 2)
    world.advance(RETRY_MS)
    assert world.state is TransactionState.COMPLETE_COMMIT


def test_an_append_that_is_refused_is_answered_once(world: World) -> None:
    world.mark()
    world.set_in_sync(1)
    world.advance(0)
    assert world.state is TransactionState.COMPLETE_COMMIT
    world.set_in_sync(1, 2)
    world.commit()
    assert world.replies[world.token] == (NONE, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    world.advance(2 * RETRY_MS)
    assert world.state is TransactionState.COMPLETE_COMMIT, "it is not tried again"


def test_another_leader_ends_the_waiting(world: World) -> None:
    world.follow(2)
    assert world.replies[world.token] == (ErrorCode.NOT_COORDINATOR, None)
    world.advance(10 * WAIT_MS)
