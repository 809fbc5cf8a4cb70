"""Permissions to write in a transaction: tickets of real partitions, and what coordinators say."""

from __future__ import annotations

from typing import Any

import pytest

from fencepost.machines.partition import NO_TICKET, TICKET_NOT_NEEDED, BecomeFollower
from fencepost.runtime import transactional_commits as commits
from fencepost.runtime.requests import produce_versions
from fencepost.runtime.transactional_writes import (
    Asking,
    Permission,
    TransactionalWrites,
    Write,
    for_producer,
)
from fencepost.runtime.verification import Claim
from fencepost.wire.errors import ErrorCode

from ..machines.test_partition_produce import KEY
from ..machines.test_partition_transactions import PRODUCER, TxnLeader

NONE = ErrorCode.NONE
T0, T1 = ("t", 0), ("t", 1)

TOLD = {
    ErrorCode.PRODUCER_FENCED: [ErrorCode.INVALID_PRODUCER_EPOCH] * 3,
    ErrorCode.TRANSACTION_ABORTABLE: [
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.TRANSACTION_ABORTABLE,
        ErrorCode.TRANSACTION_ABORTABLE,
    ],
    ErrorCode.CONCURRENT_TRANSACTIONS: [
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.CONCURRENT_TRANSACTIONS,
    ],
    ErrorCode.NETWORK_EXCEPTION: [ErrorCode.NOT_ENOUGH_REPLICAS] * 3,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: [ErrorCode.NOT_ENOUGH_REPLICAS] * 3,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: [ErrorCode.NOT_ENOUGH_REPLICAS] * 3,
    ErrorCode.NOT_COORDINATOR: [ErrorCode.NOT_ENOUGH_REPLICAS] * 3,
}
"""By what a producer asks for, in the order of `Asking`."""


@pytest.mark.parametrize("error", list(ErrorCode), ids=lambda error: error.name)
def test_what_producers_hear(error: ErrorCode) -> None:
    assert [for_producer(error, asking) for asking in Asking] == TOLD.get(error, [error] * 3)


class Writes:
    """Writes to the real leader of t-0, over a coordinator that answers when told to."""

    def __init__(self, *, verifies: bool = True) -> None:
        self.leader = TxnLeader()
        self.claims: list[tuple[Any, Any]] = []
        self.permissions: list[Any] = []
        self.asked_about: set[Claim] = set()
        world = self.leader.world
        noted = world.reply

        def reply(token: Any, value: Any) -> None:
            token(value) if callable(token) else noted(token, value)

        world.reply = reply  # type: ignore[method-assign]
        self.writes = TransactionalWrites(world.driver, self, lambda: verifies)

    def ask(self, claim: Any, on_outcome: Any) -> None:
        self.claims.append((claim, on_outcome))

    def is_asking(self, claim: Claim) -> bool:
        return claim in self.asked_about

    def begin(
        self,
        *places: Any,
        asking: Asking = Asking.VERIFIES,
        epoch: int = 0,
        first_sequence: int = 0,
    ) -> None:
        writes = [Write(KEY, place, first_sequence) for place in places]
        self.writes.begin("tx", PRODUCER, epoch, asking, writes, self.permissions.append)


@pytest.mark.parametrize("asking", list(Asking))
def test_the_coordinator_is_asked_once_about_all(asking: Asking) -> None:
    world = Writes()
    world.begin(T0, T1, asking=asking, epoch=4)
    [(claim, on_outcome)] = world.claims
    assert not world.permissions
    assert (claim.transactional_id, claim.producer_id, claim.producer_epoch) == ("tx", PRODUCER, 4)
    assert (claim.adds, claim.partitions) == (asking is Asking.ADDS, (T0, T1))
    on_outcome({T0: NONE, T1: ErrorCode.TRANSACTION_ABORTABLE})
    [[first, second]] = world.permissions
    assert first.error_code is NONE and first.ticket > NO_TICKET
    assert second.error_code is ErrorCode.TRANSACTION_ABORTABLE


def test_a_batch_behind_the_first_one_that_asked_is_out_of_order() -> None:
    """The partition's ticket is for the lowest sequence that was asked for."""
    world = Writes()
    world.begin(T0, first_sequence=3)
    [(_, on_outcome)] = world.claims
    on_outcome({T0: NONE})
    [[permission]] = world.permissions
    assert world.leader.write(permission.ticket, first=4) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert world.leader.write(permission.ticket, first=3) is NONE


@pytest.mark.parametrize("asking", [Asking.VERIFIES, Asking.KNOWS_ABORTABLE])
def test_no_coordinator_is_asked_about_a_transaction_that_is_open(asking: Asking) -> None:
    world = Writes()
    world.leader.begun()
    world.begin(T0, asking=asking)
    assert world.permissions == [[Permission(NONE)]]
    assert not world.claims


@pytest.mark.parametrize(
    ("versions", "expected"),
    [
        (
            (produce_versions.ABORTABLE_FROM, produce_versions.ADDS_FROM),
            [(9, 0), (10, 0), (11, 1), (12, 2), (13, 2)],
        ),
        ((commits.ABORTABLE_FROM, commits.ADDS_FROM), [(0, 0), (3, 0), (4, 1), (5, 2)]),
    ],
)
def test_what_versions_expect(versions: tuple[int, int], expected: list[tuple[int, int]]) -> None:
    """Produce v10 and TxnOffsetCommit v3 are the last that know no error of KIP-890."""
    assert [(version, Asking.of(version, *versions)) for version, _ in expected] == expected


@pytest.mark.parametrize("asking", list(Asking))
@pytest.mark.parametrize("verifies", [True, False])
@pytest.mark.parametrize("state", ["closed", "open", "of another epoch", "follows"])
def test_a_ticket_at_once_is_what_begin_permits_at_once(
    asking: Asking, verifies: bool, state: str
) -> None:
    world = Writes(verifies=verifies)
    if state != "closed":
        world.leader.begun()
    epoch = 1 if state == "of another epoch" else 0
    if state == "follows":
        world.leader.feed(BecomeFollower(2, 9, 9, (1, 2), (1, 2)))
    ticket = world.writes.ticket_at_once("tx", PRODUCER, epoch, asking, [world.leader.machine])
    world.begin(T0, asking=asking, epoch=epoch)
    if ticket is not None:
        assert world.permissions == [[Permission(NONE, ticket)]]
    else:
        assert world.claims or world.permissions[0][0].error_code is not NONE


@pytest.mark.parametrize("asking", list(Asking))
def test_no_request_overtakes_an_earlier_one_of_its_producer(asking: Asking) -> None:
    """Which may be about to write to the same partition."""
    world = Writes()
    world.leader.begun()
    world.asked_about.add(Claim("tx", PRODUCER, 0, asking is Asking.ADDS))
    assert world.writes.ticket_at_once("tx", PRODUCER, 0, asking, [world.leader.machine]) is None
    assert world.writes.ticket_at_once("other", PRODUCER, 0, asking, [world.leader.machine]) == 0
    world.begin(T0, asking=asking)
    [(claim, on_outcome)] = world.claims
    assert (claim.partitions, world.permissions) == ((), [])
    on_outcome({})
    assert world.permissions == [[Permission(NONE)]]


def test_no_coordinator_is_asked_about_what_a_leader_refuses() -> None:
    world = Writes()
    world.leader.feed(BecomeFollower(2, 2, 2, (1, 2), (1, 2)))
    world.begin(T0)
    assert world.permissions == [[Permission(ErrorCode.NOT_LEADER_OR_FOLLOWER)]]
    assert not world.claims


@pytest.mark.parametrize("asking", list(Asking))
def test_without_verification_only_who_adds_is_asked_about(asking: Asking) -> None:
    world = Writes(verifies=False)
    world.begin(T0, T1, asking=asking)
    if asking is Asking.ADDS:
        assert len(world.claims) == 1 and not world.permissions
    else:
        assert world.permissions == [[Permission(NONE, TICKET_NOT_NEEDED)] * 2]
