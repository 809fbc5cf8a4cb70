"""AddRaftVoter, RemoveRaftVoter and UpdateRaftVoter: every refusal, in its order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from fencepost.sim.by_hand import ByHand
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Uuid

from .quorum_stages import STAGES, add, ask, follower, remove, update


def changed(make: Callable[[ByHand], Any], **fields: Any) -> Callable[[ByHand], Any]:
    """The request with other values in some fields."""

    def request(world: ByHand) -> Any:
        made = make(world)
        for name, value in fields.items():
            setattr(made, name, value)
        return made

    return request


def runs(low: int, high: int) -> Callable[[ByHand], Any]:
    """Node 3 says that it can run these levels."""
    return lambda world: update(
        world, replace(world.voter(3), min_kraft_version=low, max_kraft_version=high)
    )


def other_epoch(step: int) -> Callable[[ByHand], Any]:
    def request(world: ByHand) -> Any:
        made = update(world)
        made.current_leader_epoch += step
        return made

    return request


ZERO_DIRECTORY = {"voter_directory_id": Uuid.ZERO}
OTHER_DIRECTORY = {"voter_directory_id": Uuid(bytes(15) + b"\x63")}
MEANT_FOR_OTHERS = {"cluster_id": "other"}

# (stage, request, error; None is no answer yet). In each group the earlier check wins: a request
# that is wrong in several ways gets the first error of the table in `reconfiguration.py`.
REFUSED: list[tuple[str, Callable[[ByHand], Any], ErrorCode | None]] = [
    ("follower", changed(add, **MEANT_FOR_OTHERS), ErrorCode.INCONSISTENT_CLUSTER_ID),
    ("follower", changed(remove, **MEANT_FOR_OTHERS), ErrorCode.INCONSISTENT_CLUSTER_ID),
    ("follower", changed(update, **MEANT_FOR_OTHERS), ErrorCode.INCONSISTENT_CLUSTER_ID),
    ("failed", changed(add, **ZERO_DIRECTORY), ErrorCode.BROKER_NOT_AVAILABLE),
    ("failed", changed(remove, **ZERO_DIRECTORY), ErrorCode.BROKER_NOT_AVAILABLE),
    ("failed", other_epoch(-1), ErrorCode.BROKER_NOT_AVAILABLE),
    ("follower", other_epoch(-1), ErrorCode.FENCED_LEADER_EPOCH),
    ("follower", other_epoch(1), ErrorCode.UNKNOWN_LEADER_EPOCH),
    ("follower", changed(add, **ZERO_DIRECTORY), ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ("follower", changed(remove, **ZERO_DIRECTORY), ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ("follower", changed(update, **ZERO_DIRECTORY), ErrorCode.NOT_LEADER_OR_FOLLOWER),
    *[
        (stage, request, ErrorCode.INVALID_REQUEST)
        for stage in ("new leader", "asking", "static")
        for request in (
            changed(add, voter_id=-1),
            changed(add, **ZERO_DIRECTORY),
            changed(add, listeners=[]),
            changed(remove, voter_id=-1),
            changed(remove, **ZERO_DIRECTORY),
            changed(update, voter_id=-1),
            changed(update, **ZERO_DIRECTORY),
            changed(update, listeners=[]),
            runs(-1, 1),
            runs(0, -1),
            runs(1, 0),
        )
    ],
    *[
        (stage, request, ErrorCode.REQUEST_TIMED_OUT)
        for stage in ("asking", "writing", "waited too long", "new leader")
        for request in (
            lambda world: add(world, world.voter(2)),
            changed(remove, **OTHER_DIRECTORY),
            runs(0, 0),
        )
    ],
    ("static", lambda world: add(world, world.voter(2)), ErrorCode.UNSUPPORTED_VERSION),
    ("static", changed(remove, voter_id=9), ErrorCode.UNSUPPORTED_VERSION),
    ("static", update, ErrorCode.NONE),
    ("static", changed(update, voter_id=9), ErrorCode.VOTER_NOT_FOUND),
    ("static", runs(1, 1), ErrorCode.INVALID_REQUEST),
    ("led", lambda world: add(world, world.voter(3)), ErrorCode.DUPLICATE_VOTER),
    ("led", changed(add, voter_id=3, **OTHER_DIRECTORY), ErrorCode.DUPLICATE_VOTER),
    ("led", changed(add, voter_id=1, **OTHER_DIRECTORY), ErrorCode.DUPLICATE_VOTER),
    ("led", changed(remove, voter_id=9), ErrorCode.VOTER_NOT_FOUND),
    ("led", changed(remove, **OTHER_DIRECTORY), ErrorCode.VOTER_NOT_FOUND),
    ("alone", lambda world: remove(world, world.voter(1).key), ErrorCode.VOTER_NOT_FOUND),
    ("led", runs(0, 0), ErrorCode.INVALID_REQUEST),
    ("led", runs(2, 3), ErrorCode.INVALID_REQUEST),
    ("led", changed(update, voter_id=9), ErrorCode.VOTER_NOT_FOUND),
    ("led", changed(update, **OTHER_DIRECTORY), ErrorCode.VOTER_NOT_FOUND),
    ("led", add, None),
    ("led", remove, None),
    ("led", update, ErrorCode.NONE),
]


@pytest.mark.parametrize("case", range(len(REFUSED)))
def test_every_refusal(case: int) -> None:
    stage, make, error = REFUSED[case]
    world = STAGES[stage]()
    end_offset = world.machine(1).end_offset
    answers = ask(world, make(world))
    assert [ErrorCode(answer.error_code) for answer in answers] == (
        [] if error is None else [error]
    )
    if error is not None and (error is not ErrorCode.NONE or stage == "static"):
        assert world.machine(1).end_offset == end_offset, "what is refused is not written"


def test_every_error_of_the_table_is_a_case() -> None:
    errors = {error for _, _, error in REFUSED}
    assert {stage for stage, _, _ in REFUSED} == set(STAGES)
    assert errors >= {
        ErrorCode.INCONSISTENT_CLUSTER_ID,
        ErrorCode.BROKER_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.DUPLICATE_VOTER,
        ErrorCode.VOTER_NOT_FOUND,
    }


def test_an_update_says_who_leads_whatever_its_error() -> None:
    world = follower()
    (answer,) = ask(world, other_epoch(-1)(world))
    said = answer.current_leader
    assert (said.leader_id, said.leader_epoch) == (2, world.machine(2).epoch)
    assert (said.host, said.port) == ("simulated", 9002)
