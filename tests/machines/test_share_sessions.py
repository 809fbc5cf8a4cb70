"""Share sessions, row by row (KIP-932)."""

from __future__ import annotations

import pytest

from fencepost.machines.share.sessions import (
    EPOCH_MAX,
    ShareSession,
    ShareSessionKey,
    ShareSessions,
)
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Uuid

TOPIC = Uuid(b"t" * 16)
A, B = ShareSessionKey("g", "a"), ShareSessionKey("g", "b")


def opened(sessions: ShareSessions, key: ShareSessionKey, *indexes: int, by: str = "c") -> object:
    partitions = [(TOPIC, index) for index in indexes]
    return sessions.open_session(key, partitions, by, has_acknowledgements=False)


def test_a_session_is_replaced_and_begins_at_epoch_1() -> None:
    sessions = ShareSessions(10)
    first = opened(sessions, A, 0)
    assert isinstance(first, ShareSession) and first.epoch == 1
    second = opened(sessions, A, 1)
    assert isinstance(second, ShareSession) and len(sessions) == 1
    assert not sessions.is_open(first) and sessions.is_open(second)
    assert list(second.partitions) == [(TOPIC, 1)]


def test_the_first_fetch_has_no_acknowledgements_and_replaces_nothing() -> None:
    sessions = ShareSessions(10)
    first = opened(sessions, A, 0)
    assert isinstance(first, ShareSession)
    refused = sessions.open_session(A, [], "c", has_acknowledgements=True)
    assert refused is ErrorCode.INVALID_REQUEST and sessions.is_open(first)


@pytest.mark.parametrize(
    ("key", "epoch", "error"),
    [
        (A, 1, None),
        (A, -1, None),
        (A, 2, ErrorCode.INVALID_SHARE_SESSION_EPOCH),
        (A, -2, ErrorCode.INVALID_SHARE_SESSION_EPOCH),
        (B, 1, ErrorCode.SHARE_SESSION_NOT_FOUND),
        (B, -1, ErrorCode.SHARE_SESSION_NOT_FOUND),
    ],
)
def test_epochs(key: ShareSessionKey, epoch: int, error: ErrorCode | None) -> None:
    sessions = ShareSessions(10)
    session = opened(sessions, A, 0)
    assert sessions.continue_session(key, epoch) is (error or session)


def test_epochs_follow_each_other_and_1_follows_the_largest() -> None:
    sessions = ShareSessions(10)
    session = opened(sessions, A, 0)
    assert isinstance(session, ShareSession)
    for epoch in (1, 2, 3):
        assert sessions.continue_session(A, epoch) is session
    session.epoch = EPOCH_MAX
    assert sessions.continue_session(A, EPOCH_MAX) is session and session.epoch == 1


def test_sessions_and_their_partitions_are_limited() -> None:
    sessions = ShareSessions(2, max_partitions=4)
    assert isinstance(opened(sessions, A, 0, 1, 2), ShareSession)
    assert opened(sessions, B, 0, 1) is ErrorCode.SHARE_SESSION_LIMIT_REACHED
    b = opened(sessions, B, 0)
    assert isinstance(b, ShareSession)
    other = ShareSessionKey("h", "a")
    assert opened(sessions, other) is ErrorCode.SHARE_SESSION_LIMIT_REACHED
    assert sessions.change(b, [(TOPIC, 7)], []) is ErrorCode.SHARE_SESSION_LIMIT_REACHED
    assert sessions.change(b, [], [(TOPIC, 0)]) is ErrorCode.NONE and not b.partitions
    assert sessions.change(b, [(TOPIC, 7)], []) is ErrorCode.NONE
    sessions.remove(A)
    assert isinstance(opened(sessions, other, 0, 1, 2), ShareSession)


def test_what_is_forgotten_counts_last() -> None:
    sessions = ShareSessions(2)
    session = opened(sessions, A, 0, 1)
    assert isinstance(session, ShareSession)
    sessions.change(session, [(TOPIC, 2), (TOPIC, 3)], [(TOPIC, 0), (TOPIC, 3)])
    assert list(session.partitions) == [(TOPIC, 1), (TOPIC, 2)]


def test_a_connection_that_is_gone_ends_its_sessions_alone() -> None:
    sessions = ShareSessions(5)
    a = opened(sessions, A, 0, by="one")
    opened(sessions, B, 0, by="two")
    assert sessions.remove_of("one") == [a]
    assert sessions.remove_of("one") == [] and sessions.has_group("g") and len(sessions) == 1
    opened(sessions, B, 0, by="three")
    assert sessions.remove_of("two") == [] and len(sessions) == 1
    sessions.remove_of("three")
    assert not sessions.has_group("g") and len(sessions) == 0
