"""What a group's member asks, through a raw client: join, sync, commit, and what is committed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from fencepost.machines.group.coordinator import GroupCoordinator
from fencepost.runtime.cooperative import Lane
from fencepost.runtime.coordinator import Coordinator, CoordinatorState
from fencepost.runtime.internal_topics import OFFSETS_TOPIC
from fencepost.runtime.replicas import HostedPartition
from fencepost.wire.api import (
    FindCoordinatorRequest,
    JoinGroupRequest,
    ListGroupsRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    SyncGroupRequest,
)
from fencepost.wire.api.join_group import JoinGroupRequestProtocol
from fencepost.wire.api.offset_commit import OffsetCommitRequestPartition, OffsetCommitRequestTopic
from fencepost.wire.api.offset_fetch import (
    OffsetFetchRequestGroup,
)
from fencepost.wire.api.sync_group import SyncGroupRequestAssignment
from fencepost.wire.errors import ErrorCode
from fencepost.wire.message import Message

from ...waiting import eventually
from ..conftest import RunningNode
from ..listener_fixtures import Client

COUNTER = iter(range(1_000_000))


def coordinated(client: Client, group: str = "any") -> None:
    """Have coordinators, and wait until the group's has loaded."""
    request = FindCoordinatorRequest(key=group)
    eventually(lambda: client.ask(request, 3).error_code == 0, "the coordinator")
    eventually(lambda: client.ask(ListGroupsRequest(), 5).error_code == 0, "loading")


def new_group() -> str:
    return f"group-{next(COUNTER)}"


def join_request(group: str, member_id: str = "", version: int = 9, **said: Any) -> Message:
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=said.pop("session_ms", 10_000),
        rebalance_timeout_ms=60_000 if version >= 1 else -1,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"\0\0\0\0\0\0\0\0\0\0")],
        **said,
    )


def join(client: Client, group: str, version: int = 9, **said: Any) -> Any:
    """Join as a new member, as clients of that version do; the answer that lets one in."""
    answer = client.ask(join_request(group, version=version, **said), version)
    if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
        assert version >= 4
        answer = client.ask(join_request(group, answer.member_id, version, **said), version)
    assert answer.error_code == 0, answer
    return answer


def sync(
    client: Client, group: str, joined: Any, version: int = 5, assignment: bytes = b"mine"
) -> Any:
    return client.ask(sync_request(group, joined, joined.member_id, version, assignment), version)


def sync_request(
    group: str, joined: Any, member_id: str, version: int = 5, assignment: bytes = b"mine"
) -> SyncGroupRequest:
    request = SyncGroupRequest(
        group_id=group,
        generation_id=joined.generation_id,
        member_id=member_id,
        assignments=[SyncGroupRequestAssignment(member_id=member_id, assignment=assignment)],
    )
    if version >= 5:
        request.protocol_type, request.protocol_name = "consumer", "range"
    return request


def stable(client: Client, group: str, **said: Any) -> Any:
    """A stable group of one member; what JoinGroup said."""
    joined = join(client, group, **said)
    assert sync(client, group, joined).error_code == 0
    return joined


def commit_request(
    group: str, topic: Any, offset: int, version: int = 9, partition: int = 0, **said: Any
) -> Message:
    named = {"topic_id": topic.topic_id} if version >= 10 else {"name": topic.name}
    return OffsetCommitRequest(
        group_id=group,
        topics=[
            OffsetCommitRequestTopic(
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=partition,
                        committed_offset=offset,
                        committed_metadata="note",
                    )
                ],
                **named,
            )
        ],
        **said,
    )


def commit(
    client: Client, group: str, topic: Any, offset: int, version: int = 9, **said: Any
) -> int:
    answer = client.ask(commit_request(group, topic, offset, version, **said), version)
    return answer.topics[0].partitions[0].error_code


def fetched(client: Client, group: str, version: int = 9) -> dict[tuple[str, int], int]:
    """All offsets of a group."""
    if version < 8:
        answer = client.ask(OffsetFetchRequest(group_id=group, topics=None), version)
        assert answer.error_code == 0
        topics = answer.topics
    else:
        groups = [OffsetFetchRequestGroup(group_id=group, topics=None)]
        (answer,) = client.ask(OffsetFetchRequest(groups=groups), version).groups
        assert answer.error_code == 0
        topics = answer.topics
    return {
        (topic.name or str(topic.topic_id), one.partition_index): one.committed_offset
        for topic in topics
        for one in topic.partitions
    }


def coordinator_of(running: RunningNode, group: str) -> Coordinator[GroupCoordinator]:
    """The coordinator of the group, which is this node's."""

    def find() -> Coordinator[GroupCoordinator]:
        coordinator = running.node.broker.coordinators.groups.coordinator_of(group)
        assert isinstance(coordinator, Coordinator)
        return coordinator

    return running.call(find)


def hosted_of(running: RunningNode, group: str) -> HostedPartition:
    """The partition of `__consumer_offsets` that the group is in."""

    def find() -> HostedPartition:
        index = running.node.broker.coordinators.groups.partition_of(group)
        hosted = running.node.broker.replicas.get(OFFSETS_TOPIC, index)
        assert isinstance(hosted, HostedPartition)
        return hosted

    return running.call(find)


def begin_load(running: RunningNode, group: str) -> None:
    """Unload the group's coordinator, and begin to load it again."""
    hosted = hosted_of(running, group)

    def again() -> None:
        running.node.broker.coordinators.groups.lost_leadership(hosted, None)
        running.node.broker.coordinators.groups.became_leader(hosted, hosted.machine.leader_epoch)

    running.call(again)


def loaded(running: RunningNode, group: str) -> None:
    """Wait until the group's coordinator is loaded."""

    def is_active() -> bool:
        coordinator = running.node.broker.coordinators.groups.coordinator_of(group)
        return isinstance(coordinator, Coordinator) and (
            coordinator.state is CoordinatorState.ACTIVE
        )

    eventually(lambda: running.call(is_active), "loading")


def reload(running: RunningNode, group: str) -> None:
    """Have the group's coordinator loaded again."""
    begin_load(running, group)
    loaded(running, group)


class _HeldLane:
    """A lane in which nothing begins until it is let go."""

    def __init__(self, lane: Lane) -> None:
        self._lane = lane
        self.begin = lane.begin
        self._held: list[Callable[[], None]] = []

    def later(self, callback: Callable[[], None], after: Any = None) -> None:
        self._held.append(callback)

    def let_go(self) -> None:
        for callback in self._held:
            self._lane.later(callback)


@contextlib.contextmanager
def held_loading(running: RunningNode, group: str) -> Iterator[None]:
    """The group's coordinator is being loaded, and gets no further until the end of this."""
    runtime = running.node.broker.coordinators.groups.runtime
    lane = runtime._lane
    held = _HeldLane(lane)
    runtime._lane = held  # type: ignore[assignment]
    begin_load(running, group)
    yield
    runtime._lane = lane
    running.call(held.let_go)
    loaded(running, group)
