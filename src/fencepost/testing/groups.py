"""Groups that lose a member, or their coordinator, when a test wants it.

Both are done with what brokers offer, so that clients meet the real thing:

* `expire_member` removes a member as the end of its session does: its partitions go to others, and
  its next heartbeat is answered UNKNOWN_MEMBER_ID. It is asked for by a request to leave in the
  member's name, of the kind that its group has.
* `move_group` has another broker lead the partition of `__consumer_offsets` that keeps the group:
  reassigned with that broker first, and elected. The former coordinator answers NOT_COORDINATOR.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fencepost.client import asking
from fencepost.client.admin import Admin
from fencepost.client.cluster import Cluster as Client
from fencepost.client.consumer_membership import LEAVE_EPOCH
from fencepost.client.errors import BrokerError, ClientError
from fencepost.client.group_descriptions import (
    CONSUMER,
    SHARE,
    STREAMS,
    describing_any_group,
)
from fencepost.client.metadata import TopicPartition
from fencepost.machines.group.partitioner import partition_for
from fencepost.testing.node_process import ClusterError
from fencepost.wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from fencepost.wire.api.leave_group import LeaveGroupRequest, MemberIdentity
from fencepost.wire.api.share_group_heartbeat import ShareGroupHeartbeatRequest
from fencepost.wire.api.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from fencepost.wire.errors import ErrorCode
from fencepost.wire.message import Request

OFFSETS_TOPIC = "__consumer_offsets"

WaitUntil = Callable[[Callable[[], bool], str], None]
"""Waits for a condition; the text says what did not come about."""


def expire_member(client: Client, group: str, member_id: str) -> None:
    """Have a member removed from its group, of any type. ClusterError if there is no such one."""
    try:
        found = client.run(describing_any_group(client, group))
        member = next((one for one in found.members if one.member_id == member_id), None)
        if member is None:
            known = ", ".join(one.member_id for one in found.members) or "none"
            raise ClusterError(f"group {group} has no member {member_id}; there are {known}")
        is_classic = getattr(member, "is_classic", False)
        request = _leaving(found.kind, is_classic, group, member)
        client.request_coordinator(group, request, _error_of, what=f"removing {member_id}")
    except ClientError as error:
        raise ClusterError(f"member {member_id} of group {group}: {error}") from error


def _leaving(kind: str, is_classic: bool, group: str, member: Any) -> Request[Any]:
    who: dict[str, Any] = {
        "group_id": group,
        "member_id": member.member_id,
        "member_epoch": LEAVE_EPOCH,
    }
    if kind == CONSUMER and not is_classic:
        return ConsumerGroupHeartbeatRequest(**who, instance_id=member.instance_id)
    if kind == SHARE:
        return ShareGroupHeartbeatRequest(**who)
    if kind == STREAMS:
        return StreamsGroupHeartbeatRequest(**who, instance_id=member.instance_id)
    identity = MemberIdentity(
        member_id=member.member_id, group_instance_id=member.instance_id, reason="expired by a test"
    )
    return LeaveGroupRequest(group_id=group, members=[identity])


def _error_of(response: Any) -> int:
    codes = [one.error_code for one in getattr(response, "members", ())]
    return next((code for code in [response.error_code, *codes] if code), 0)


def move_group(
    client: Client, group: str, brokers: list[int], to: int | None, wait_until: WaitUntil
) -> int:
    """Have another broker coordinate a group: `to`, or one of `brokers`; which one it is.

    ClusterError if there is no other broker, and if the move does not end in time.
    """
    former = client.coordinator(group).node_id
    others = [id_ for id_ in brokers if id_ != former]
    chosen = to if to is not None else next(iter(others), None)
    if chosen is None:
        raise ClusterError(f"group {group} cannot move: only its coordinator {former} runs")
    if chosen not in brokers:
        raise ClusterError(f"group {group} cannot move to {to}: brokers that run are {brokers}")
    if chosen == former:
        return former
    info = client.topic(OFFSETS_TOPIC)
    where = TopicPartition(OFFSETS_TOPIC, partition_for(group, len(info.partitions)))
    kept = info.partitions[where.partition].replicas
    rest = [id_ for id_ in kept if id_ not in (chosen, former)]
    replicas = [chosen, *rest, *([former] if chosen in kept else [])]
    admin = Admin(client)
    try:
        outcome = admin.alter_reassignments({where: replicas})[where]
        if outcome.error_code:
            raise BrokerError.of(outcome.error_code, f"{where} cannot move to {replicas}")
        wait_until(lambda: not admin.list_reassignments([where]), f"{where} did not move")
        code = admin.elect_leaders([where])[where].error_code
        if code not in (ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED):
            raise BrokerError.of(code, f"broker {chosen} was not elected for {where}")
    except ClientError as error:
        raise ClusterError(f"group {group} cannot move to broker {chosen}: {error}") from error
    wait_until(
        lambda: _coordinator(client, group) == chosen,
        f"broker {chosen} does not coordinate group {group}",
    )
    return chosen


def _coordinator(client: Client, group: str) -> int | None:
    """The coordinator as a broker says now, once it answers for the group."""
    client.forget_coordinator(group)
    try:
        found = client.run(asking.coordinator_once(client, group))
        client.run(describing_any_group(client, group))
    except BrokerError as error:
        return found.node_id if error.code == ErrorCode.GROUP_ID_NOT_FOUND else None
    except ClientError:
        return None
    return found.node_id
