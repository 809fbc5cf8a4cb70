"""Members of classic groups in few words, for scenes in which both protocols meet."""

from __future__ import annotations

from typing import Any

from fencepost.wire.api.heartbeat import HeartbeatRequest
from fencepost.wire.api.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from fencepost.wire.api.leave_group import LeaveGroupRequest, MemberIdentity
from fencepost.wire.api.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from fencepost.wire.errors import ErrorCode as E
from fencepost.wire.records.consumer import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartitionAssigned,
    TopicPartitionOwned,
    decode_prefixed,
    encode_prefixed,
)

from .stage import MAIN, Stage

JOIN, SYNC, HEARTBEAT, LEAVE = 9, 5, 4, 5


def subscription(
    *topics: str, owned: dict[str, list[int]] | None = None, version: int = 1
) -> bytes:
    """What a consumer embeds in JoinGroup."""
    said: dict[str, Any] = {}
    if owned is not None:
        said["owned_partitions"] = [
            TopicPartitionOwned(topic=t, partitions=p) for t, p in owned.items()
        ]
    return encode_prefixed(ConsumerProtocolSubscription(topics=list(topics), **said), version)


def assignment(given: dict[str, list[int]]) -> bytes:
    """What a classic leader embeds in SyncGroup."""
    rows = [TopicPartitionAssigned(topic=t, partitions=p) for t, p in given.items()]
    return encode_prefixed(ConsumerProtocolAssignment(assigned_partitions=rows), 1)


def join_request(
    group: str,
    member_id: str = "",
    *,
    protocols: dict[str, bytes] | None = None,
    protocol_type: str = "consumer",
    session_timeout_ms: int = 10_000,
    rebalance_timeout_ms: int = 20_000,
    instance_id: str | None = None,
) -> JoinGroupRequest:
    if protocols is None:
        protocols = {"range": subscription("t")}
    return JoinGroupRequest(
        group_id=group,
        member_id=member_id,
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=rebalance_timeout_ms,
        protocol_type=protocol_type,
        group_instance_id=instance_id,
        protocols=[
            JoinGroupRequestProtocol(name=name, metadata=data) for name, data in protocols.items()
        ],
    )


def join_group(
    stage: Stage,
    group: str,
    member_id: str = "",
    *,
    error: int | None = 0,
    by: str = MAIN,
    **said: Any,
) -> Any:
    return stage.ask(join_request(group, member_id, **said), JOIN, error=error, by=by)


def enter(stage: Stage, group: str, *, by: str = MAIN, error: int | None = 0, **said: Any) -> Any:
    """Join as a new member, through MEMBER_ID_REQUIRED where that is asked."""
    answer = stage.ask(join_request(group, **said), JOIN, by=by)
    if answer.error_code == E.MEMBER_ID_REQUIRED:
        return join_group(stage, group, answer.member_id, by=by, error=error, **said)
    return answer


def sync(
    stage: Stage,
    group: str,
    generation: int,
    member_id: str,
    given: dict[str, bytes] | None = None,
    *,
    error: int | None = 0,
    by: str = MAIN,
    protocol_type: str = "consumer",
    protocol_name: str = "range",
    instance_id: str | None = None,
) -> Any:
    request = SyncGroupRequest(
        group_id=group,
        generation_id=generation,
        member_id=member_id,
        protocol_type=protocol_type,
        protocol_name=protocol_name,
        group_instance_id=instance_id,
        assignments=[
            SyncGroupRequestAssignment(member_id=name, assignment=data)
            for name, data in (given or {}).items()
        ],
    )
    return stage.ask(request, SYNC, error=error, by=by, only=_decoded_assignment)


def _decoded_assignment(seen: Any) -> Any:
    """The partitions a SyncGroup answer gives, not their bytes."""
    if not seen["assignment"]:
        return seen
    try:
        decoded = decode_prefixed(ConsumerProtocolAssignment, seen["assignment"])
    except Exception:  # noqa: BLE001 - what is no assignment is compared as bytes
        return seen
    rows = {one.topic: sorted(one.partitions) for one in decoded.assigned_partitions}
    return {**seen, "assignment": rows}


def form(
    stage: Stage, group: str, given: dict[str, list[int]], *, by: str = MAIN, **said: Any
) -> Any:
    """A stable classic group of one member with these partitions; its JoinGroup answer."""
    joined = enter(stage, group, by=by, **said)
    sync(
        stage,
        group,
        joined.generation_id,
        joined.member_id,
        {joined.member_id: assignment(given)},
        by=by,
        instance_id=said.get("instance_id"),
    )
    return joined


def classic_beat(
    stage: Stage,
    group: str,
    generation: int,
    member_id: str,
    *,
    error: int | None = 0,
    by: str = MAIN,
    instance_id: str | None = None,
) -> Any:
    request = HeartbeatRequest(
        group_id=group,
        generation_id=generation,
        member_id=member_id,
        group_instance_id=instance_id,
    )
    return stage.ask(request, HEARTBEAT, error=error, by=by)


def leave(
    stage: Stage,
    group: str,
    member_id: str = "",
    *,
    instance_id: str | None = None,
    error: int | None = 0,
    by: str = MAIN,
) -> Any:
    row = MemberIdentity(member_id=member_id, group_instance_id=instance_id)
    return stage.ask(LeaveGroupRequest(group_id=group, members=[row]), LEAVE, error=error, by=by)
