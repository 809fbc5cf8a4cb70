"""The end of a share session: what the member held is given back before that is answered."""

from __future__ import annotations

from typing import Any

from fencepost.machines.share.inputs import AcknowledgeResult
from fencepost.machines.share.sessions import ShareSession, ShareSessionKey
from fencepost.machines.share.state_batch import SharePartitionKey
from fencepost.runtime.share_sessions import ShareSessionHost
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Uuid

TOPIC = Uuid(b"t" * 16)
KEY, OTHER = ShareSessionKey("g", "a"), ShareSessionKey("g", "b")


class Partitions:
    """Share partitions that give back what a member held when the test says so."""

    def __init__(self) -> None:
        self.releasing: list[tuple[SharePartitionKey, str, Any]] = []
        self.left: list[str] = []

    def release(self, key: SharePartitionKey, member_id: str, done: Any = None) -> None:
        self.releasing.append((key, member_id, done))

    def leave_group(self, group_id: str) -> None:
        self.left.append(group_id)

    def finish_one(self) -> None:
        self.releasing.pop(0)[2](AcknowledgeResult(ErrorCode.NONE))


def opened(host: ShareSessionHost, key: ShareSessionKey, *indexes: int) -> ShareSession:
    named = [(TOPIC, index) for index in indexes]
    session = host.sessions.open_session(key, named, "connection", has_acknowledgements=False)
    assert isinstance(session, ShareSession)
    return session


def host_of(partitions: Any, limit: int = 10) -> ShareSessionHost:
    return ShareSessionHost(partitions, lambda: limit)


def test_the_end_of_a_session_waits_for_all_its_partitions() -> None:
    partitions, ended = Partitions(), list[str]()
    host = host_of(partitions)
    host.end_session(opened(host, KEY, 0, 1, 2), lambda: ended.append("ended"))
    assert [(key.partition, member) for key, member, _ in partitions.releasing] == [
        (0, "a"),
        (1, "a"),
        (2, "a"),
    ]
    for _ in range(3):
        assert ended == []
        partitions.finish_one()
    assert ended == ["ended"]


def test_a_session_without_partitions_ends_at_once() -> None:
    host, ended = host_of(Partitions()), list[str]()
    host.end_session(opened(host, KEY), lambda: ended.append("ended"))
    assert ended == ["ended"] and len(host.sessions) == 0


def test_a_group_has_left_when_its_last_session_has_ended() -> None:
    partitions = Partitions()
    host = host_of(partitions)
    session = opened(host, KEY, 0)
    opened(host, OTHER, 0)
    host.end_session(session)
    assert partitions.left == []
    host.disconnected("connection")
    assert partitions.left == ["g"]
    assert [member for _, member, _ in partitions.releasing] == ["a", "b"]


def test_the_limit_is_the_one_of_now() -> None:
    limits = [2]
    host = ShareSessionHost(Partitions(), lambda: limits[0])  # type: ignore[arg-type]
    opened(host, KEY, 0)
    limits[0] = 1
    refused = host.sessions.open_session(OTHER, (), "other", has_acknowledgements=False)
    assert refused is ErrorCode.SHARE_SESSION_LIMIT_REACHED
