"""The two tables of what a broker makes of the controller's answers: every row, every input."""

from __future__ import annotations

from itertools import product

import pytest

from fencepost.machines.broker import BrokerState
from fencepost.machines.broker.reactions import Ask, Next, Reaction, after_heartbeat, reaction_to
from fencepost.wire.errors import ErrorCode

NEVER_SUCCEEDS = {
    ErrorCode.INCONSISTENT_CLUSTER_ID,
    ErrorCode.INVALID_REGISTRATION,
    ErrorCode.UNSUPPORTED_VERSION,
    ErrorCode.INVALID_REQUEST,
    ErrorCode.BROKER_ID_NOT_REGISTERED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
}
NOT_REGISTERED = {ErrorCode.STALE_BROKER_EPOCH, ErrorCode.BROKER_ID_NOT_REGISTERED}
NO_CONTROLLER = {ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT}


def expected(ask: Ask, error: ErrorCode) -> Reaction:
    if ask is Ask.FIRST_REGISTRATION and error in NEVER_SUCCEEDS:
        return Reaction.STOP
    if ask is Ask.FENCE_EARLIER_INCARNATION and error in NOT_REGISTERED:
        return Reaction.ACCEPT
    if ask is Ask.HEARTBEAT and error in NOT_REGISTERED:
        return Reaction.REGISTER_AGAIN
    if ask is Ask.SHUTDOWN_HEARTBEAT and error in NOT_REGISTERED | NO_CONTROLLER:
        return Reaction.STOP
    return Reaction.RETRY


@pytest.mark.parametrize("ask", list(Ask))
def test_every_error_of_every_request_has_its_reaction(ask: Ask) -> None:
    assert reaction_to(ask, ErrorCode.NONE) is Reaction.ACCEPT
    for error in ErrorCode:
        if error is not ErrorCode.NONE:
            assert reaction_to(ask, error) is expected(ask, error), error.name


def test_an_error_code_of_later_days_is_retried() -> None:
    assert {reaction_to(ask, 9_999) for ask in Ask} == {Reaction.RETRY}


BOTH = (False, True)
S = BrokerState
ROWS = [
    # state, caught up, fenced, should shut down, was fenced, next state, next heartbeat
    (S.STARTING, (False,), BOTH, BOTH, BOTH, S.STARTING, Next.INTERVAL),
    (S.STARTING, (True,), BOTH, BOTH, BOTH, S.RECOVERY, Next.INTERVAL),
    (S.RECOVERY, BOTH, (True,), BOTH, BOTH, S.RECOVERY, Next.INTERVAL),
    (S.RECOVERY, BOTH, (False,), BOTH, BOTH, S.RUNNING, Next.INTERVAL),
    (S.RUNNING, BOTH, BOTH, BOTH, (True,), S.RUNNING, Next.INTERVAL),
    (S.RUNNING, BOTH, (True,), BOTH, (False,), S.RUNNING, Next.SOON),
    (S.RUNNING, BOTH, (False,), BOTH, (False,), S.RUNNING, Next.INTERVAL),
    (
        S.PENDING_CONTROLLED_SHUTDOWN,
        BOTH,
        BOTH,
        (False,),
        BOTH,
        S.PENDING_CONTROLLED_SHUTDOWN,
        Next.SOON,
    ),
    (S.PENDING_CONTROLLED_SHUTDOWN, BOTH, BOTH, (True,), BOTH, S.SHUTTING_DOWN, Next.NEVER),
]


def test_every_answered_heartbeat_has_one_row() -> None:
    met = []
    for state, caught_up, fenced, shut_down, was_fenced, *outcome in ROWS:
        for inputs in product(caught_up, fenced, shut_down, was_fenced):
            met.append((state, *inputs))
            found = after_heartbeat(
                state,
                is_caught_up=inputs[0],
                is_fenced=inputs[1],
                should_shut_down=inputs[2],
                was_fenced=inputs[3],
            )
            assert found == tuple(outcome), met[-1]
    asked_in = set(S) - {S.NOT_RUNNING, S.SHUTTING_DOWN}
    assert len(met) == len(set(met)) == len(asked_in) * 2**4
