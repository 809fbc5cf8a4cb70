"""Who may be in a group, and in which epoch: the first step of a heartbeat.

The rules and their order are those of KIP-848: first the group, then how full it is, then the
member. A static member that left for a while (-2) comes back under a new id and takes over what the
old one had; one that did not leave keeps its instance id, and the newcomer is refused.
"""

from __future__ import annotations

from typing import NamedTuple

from fencepost.machines.group import member_epochs
from fencepost.machines.group.caller import Caller
from fencepost.machines.group.classic.group import ClassicGroup
from fencepost.machines.group.consumer.group import ConsumerGroup
from fencepost.machines.group.consumer.member import (
    JOINS,
    LEAVES_FOR_A_WHILE,
    MemberState,
    Partitions,
    Progress,
    Subscription,
)
from fencepost.machines.group.consumer.migration import upgrade
from fencepost.machines.group.consumer.records import (
    member_record,
    member_tombstones,
    progress_record,
    target_record,
)
from fencepost.machines.group.group import dissolve
from fencepost.machines.group.refused import RefusedError
from fencepost.machines.group.shard import Decision, Shard
from fencepost.wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from fencepost.wire.errors import ErrorCode


class Entered(NamedTuple):
    """A member that may send this heartbeat, with what is known of it."""

    group: ConsumerGroup
    """Not yet in the shard if the heartbeat makes it."""
    member_id: str
    known: Subscription | None
    """What it said before; None of a new member."""
    progress: Progress
    replaced_id: str | None = None
    """The id that it had, if it is a static member that comes back."""


def enter(
    shard: Shard,
    decision: Decision,
    request: ConsumerGroupHeartbeatRequest,
    owned: Partitions | None,
    caller: Caller,
) -> Entered:
    """The group and the member that the heartbeat is of, in an epoch of 0 or more. RefusedError."""
    group = _group_of(shard, decision, request)
    member_id, instance_id = request.member_id, request.instance_id
    refuse_if_full(shard, group, member_id, instance_id)
    member_id = member_id or caller.uuid
    if instance_id is not None and request.member_epoch == JOINS:
        old_id = group.static_members.get(instance_id)
        if old_id is not None and not _has_left(group, old_id):
            raise RefusedError(*member_epochs.unreleased_instance(instance_id, member_id, old_id))
        return enter_instance(decision, group, member_id, instance_id)
    if instance_id is not None:
        check_instance(group, member_id, instance_id)
    known = group.members.get(member_id)
    if known is None and request.member_epoch != JOINS:
        raise unknown_member(group.group_id, member_id)
    progress = group.progress_of(member_id)
    _check_epoch(progress, request.member_epoch, owned)
    return Entered(group, member_id, known, progress)


def _group_of(
    shard: Shard, decision: Decision, request: ConsumerGroupHeartbeatRequest
) -> ConsumerGroup:
    """The group; made for a member that joins, in the place of a classic one if need be."""
    group_id, joins = request.group_id, request.member_epoch == JOINS
    present = shard.groups.get(group_id)
    if isinstance(present, ConsumerGroup):
        return present
    if present is None:
        if not joins:
            raise group_not_found(f"Consumer group {group_id} not found.")
        return ConsumerGroup(group_id)
    if not joins or not isinstance(present, ClassicGroup):
        raise group_not_found(f"Group {group_id} is not a consumer group.")
    if not present.is_empty:
        return upgrade(shard, decision, present)
    dissolve(decision, present)
    return ConsumerGroup(group_id)


def refuse_if_full(
    shard: Shard, group: ConsumerGroup, member_id: str, instance_id: str | None
) -> None:
    """A static member that comes back is never one too many (KAFKA-20601)."""
    limit = shard.config.consumer_max_size
    if instance_id in group.static_members or group.member_count < limit:
        return
    if not member_id or member_id not in group.members:
        raise RefusedError(*member_epochs.full_group("consumer", limit))


def _has_left(group: ConsumerGroup, member_id: str) -> bool:
    """Whether a static member that speaks the consumer protocol left for a while.

    One that speaks the classic protocol is replaced at any time, as in a classic group.
    """
    is_classic = group.members[member_id].classic is not None
    return is_classic or group.progress_of(member_id).epoch == LEAVES_FOR_A_WHILE


def enter_instance(
    decision: Decision, group: ConsumerGroup, member_id: str, instance_id: str
) -> Entered:
    """A static member joins: for the first time, or in the place of one of the same instance."""
    old_id = group.static_members.get(instance_id)
    if old_id is None:
        return Entered(group, member_id, group.members.get(member_id), group.progress_of(member_id))
    known, left = group.members[old_id], group.progress_of(old_id)
    # Its timers are left to fire: should this be undone they are needed, and else they find
    # no member.
    progress = left._replace(epoch=JOINS, previous_epoch=JOINS)
    group_id = group.group_id
    decision.records += member_tombstones(group_id, old_id)
    decision.records += (
        member_record(group_id, member_id, known),
        target_record(group_id, member_id, group.target_of(old_id)),
        progress_record(group_id, member_id, progress),
    )
    return Entered(group, member_id, known, progress, old_id)


def check_instance(group: ConsumerGroup, member_id: str, instance_id: str) -> None:
    """The instance id is known, and the member's. RefusedError."""
    if refusal := member_epochs.other_instance(group.static_members, instance_id, member_id):
        raise RefusedError(*refusal)


def _check_epoch(progress: Progress, epoch: int, owned: Partitions | None) -> None:
    """The epoch is the member's, or the one before of a member whose answer was lost."""
    known, previous = progress.epoch, progress.previous_epoch
    if refusal := member_epochs.other_epoch(
        "consumer", epoch, known, previous, lambda: _is_within(owned, progress)
    ):
        raise RefusedError(*refusal)
    if epoch != JOINS and progress.state is MemberState.UNKNOWN and (owned is None or owned):
        raise _fenced("The consumer group member is in a unknown state.")


def _is_within(owned: Partitions | None, progress: Progress) -> bool:
    """Whether the member owns nothing but what it is assigned; unsaid is no proof of it."""
    if owned is None:
        return False
    return all(
        indexes <= progress.assigned.get(topic_id, {}).keys() for topic_id, indexes in owned.items()
    )


def _fenced(why: str) -> RefusedError:
    """The member is not where the coordinator knows it to be."""
    message = f"{why} The member must abandon all its partitions and rejoin."
    return RefusedError(ErrorCode.FENCED_MEMBER_EPOCH, message)


def group_not_found(message: str) -> RefusedError:
    """There is no group of that id, or it is of another type."""
    return RefusedError(ErrorCode.GROUP_ID_NOT_FOUND, message)


def unknown_member(group_id: str, member_id: str) -> RefusedError:
    """The group has no such member."""
    return RefusedError(*member_epochs.unknown_member(group_id, member_id))
