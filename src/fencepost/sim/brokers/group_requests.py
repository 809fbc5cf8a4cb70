"""What a simulated broker answers about groups and their offsets: its coordinators' answers.

Topics are known by their ids, or by their names where the version has no ids. A request about a
topic that the broker does not know is refused as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fencepost.machines.group.caller import Caller
from fencepost.machines.group.coordinator import GroupCoordinator
from fencepost.machines.group.shard import Decision
from fencepost.sim.brokers.process import BrokerProcess
from fencepost.wire.api.heartbeat import HeartbeatRequest, HeartbeatResponse
from fencepost.wire.api.join_group import JoinGroupRequest, JoinGroupResponse
from fencepost.wire.api.leave_group import LeaveGroupRequest, LeaveGroupResponse
from fencepost.wire.api.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from fencepost.wire.api.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)
from fencepost.wire.api.sync_group import SyncGroupRequest, SyncGroupResponse
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Uuid

Reply = Callable[[Any], None]


def _resolve(broker: BrokerProcess, topics: Sequence[Any]) -> bool:
    """Fill in the names and ids of topics; whether all of them are known."""
    image = broker.image
    for topic in topics:
        by_id = topic.topic_id != Uuid.ZERO
        known = (
            image.topics_by_id.get(topic.topic_id)
            if by_id
            else image.topics_by_name.get(topic.name)
        )
        if known is None:
            return False
        topic.name, topic.topic_id = known.name, known.topic_id
    return True


def offset_commit(broker: BrokerProcess, request: OffsetCommitRequest, reply: Reply) -> None:
    """Have the group's coordinator decide about a commit."""

    def decide(coordinator: GroupCoordinator, token: Any) -> Decision:
        version, wall_ms = OffsetCommitRequest.max_version, broker.clocks.wall_ms()
        return coordinator.decide_offset_commit(request, version, token, wall_ms)

    def told(error: ErrorCode, response: OffsetCommitResponse | None) -> None:
        reply(_refused(request, error) if response is None else response)

    if _resolve(broker, request.topics):
        broker.groups.submit(request.group_id, decide, told)
    else:
        reply(_refused(request, ErrorCode.UNKNOWN_TOPIC_ID))


def _refused(request: OffsetCommitRequest, error: ErrorCode) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetCommitResponsePartition(
                        partition_index=one.partition_index, error_code=int(error)
                    )
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def offset_fetch(broker: BrokerProcess, request: OffsetFetchRequest, reply: Reply) -> None:
    """Have the group's coordinator look up its offsets; the observer hears what it says."""
    (group,) = request.groups
    note = broker.offsets_asked(group.group_id)

    def told(error: ErrorCode, answer: OffsetFetchResponseGroup | None) -> None:
        if answer is None:
            answer = OffsetFetchResponseGroup(group_id=group.group_id, error_code=int(error))
        else:
            note(answer)
        reply(OffsetFetchResponse(groups=[answer]))

    if _resolve(broker, group.topics or ()):
        broker.groups.submit(
            group.group_id,
            lambda coordinator, token: coordinator.decide_offset_fetch(
                group, request.require_stable, token
            ),
            told,
        )
    else:
        told(ErrorCode.UNKNOWN_TOPIC_ID, None)


# -- members ---------------------------------------------------------------------------------------


def join_group(broker: BrokerProcess, request: JoinGroupRequest, reply: Reply) -> None:
    """Have the group's coordinator let a member in; the answer may take a rebalance."""
    unique = broker.new_member_suffix()

    def decide(coordinator: GroupCoordinator, token: Any) -> Decision:
        version = JoinGroupRequest.max_version
        caller = Caller(token, version, "member", "/simulated", unique)
        return coordinator.decide_join_group(request, caller, broker.clocks.wall_ms())

    def told(error: ErrorCode, response: JoinGroupResponse | None) -> None:
        if response is None:
            response = JoinGroupResponse(error_code=int(error), member_id=request.member_id)
        reply(response)

    broker.groups.submit(request.group_id, decide, told)


def sync_group(broker: BrokerProcess, request: SyncGroupRequest, reply: Reply) -> None:
    """Hand in and hear the assignment; the observer hears it, too."""
    note = broker.assignment_asked(request)

    def decide(coordinator: GroupCoordinator, token: Any) -> Decision:
        caller = Caller(token, SyncGroupRequest.max_version)
        return coordinator.decide_sync_group(request, caller, broker.clocks.wall_ms())

    def told(error: ErrorCode, response: SyncGroupResponse | None) -> None:
        if response is None:
            response = SyncGroupResponse(error_code=int(error))
        elif response.error_code == ErrorCode.NONE:
            note(response)
        reply(response)

    broker.groups.submit(request.group_id, decide, told)


def heartbeat(broker: BrokerProcess, request: HeartbeatRequest, reply: Reply) -> None:
    """A member is there. While its coordinator loads nobody is missed."""

    def decide(coordinator: GroupCoordinator, token: Any) -> Decision:
        return coordinator.decide_heartbeat(request, Caller(token, HeartbeatRequest.max_version))

    def told(error: ErrorCode, response: HeartbeatResponse | None) -> None:
        if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            error = ErrorCode.NONE
        reply(HeartbeatResponse(error_code=int(error)) if response is None else response)

    broker.groups.submit(request.group_id, decide, told)


def leave_group(broker: BrokerProcess, request: LeaveGroupRequest, reply: Reply) -> None:
    """Members leave."""

    def decide(coordinator: GroupCoordinator, token: Any) -> Decision:
        caller = Caller(token, LeaveGroupRequest.max_version)
        return coordinator.decide_leave_group(request, caller, broker.clocks.wall_ms())

    def told(error: ErrorCode, response: LeaveGroupResponse | None) -> None:
        reply(LeaveGroupResponse(error_code=int(error)) if response is None else response)

    broker.groups.submit(request.group_id, decide, told)
