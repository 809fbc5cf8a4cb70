"""Members leave a consumer group: on their own, for a while, or because a timer has fired."""

from __future__ import annotations

from fencepost.machines.group.consumer.group import ConsumerGroup
from fencepost.machines.group.consumer.joining import (
    check_instance,
    group_not_found,
    unknown_member,
)
from fencepost.machines.group.consumer.member import LEAVES_FOR_A_WHILE, Held
from fencepost.machines.group.consumer.records import (
    epoch_record,
    member_tombstones,
    progress_record,
    regex_record,
    target_epoch_record,
)
from fencepost.machines.group.consumer.target import Changed, subscribed_names
from fencepost.machines.group.consumer.timers import rebalance_timer, session_timer
from fencepost.machines.group.metadata_hash import group_metadata_hash
from fencepost.machines.group.shard import Decision, Shard
from fencepost.wire.api.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)


def leave(
    shard: Shard, decision: Decision, request: ConsumerGroupHeartbeatRequest
) -> ConsumerGroupHeartbeatResponse:
    """A heartbeat of epoch -1 or, of a static member that will be back, -2. RefusedError."""
    group_id, member_id = request.group_id, request.member_id
    present = shard.groups.get(group_id)
    if present is None:
        raise group_not_found(f"Group {group_id} not found.")
    if not isinstance(present, ConsumerGroup):
        raise group_not_found(f"Group {group_id} is not a consumer group.")
    if request.instance_id is not None:
        check_instance(present, member_id, request.instance_id)
    elif member_id not in present.members:
        raise unknown_member(group_id, member_id)
    if request.instance_id is not None and request.member_epoch == LEAVES_FOR_A_WHILE:
        _leave_for_a_while(decision, present, member_id)
    else:
        remove_member(shard, decision, present, member_id)
    return ConsumerGroupHeartbeatResponse(member_id=member_id, member_epoch=request.member_epoch)


def _leave_for_a_while(decision: Decision, group: ConsumerGroup, member_id: str) -> None:
    """Its partitions stay its own, for a member of any later epoch; its session goes on."""
    progress = group.progress_of(member_id)
    assigned: Held = {
        topic_id: dict.fromkeys(epochs, 0) for topic_id, epochs in progress.assigned.items()
    }
    progress = progress._replace(epoch=LEAVES_FOR_A_WHILE, assigned=assigned, pending={})
    decision.records.append(progress_record(group.group_id, member_id, progress))


def remove_member(shard: Shard, decision: Decision, group: ConsumerGroup, member_id: str) -> None:
    """Take a member out of its group: what it had is free, and the group epoch rises.

    With the last member the target is of the new epoch at once (KAFKA-20442), and the next member
    is assigned without delay.
    """
    group_id, said = group.group_id, group.members[member_id]
    decision.records += member_tombstones(group_id, member_id)
    if said.regex and group.regex_users[said.regex] == 1 and said.regex in group.regexes:
        decision.records.append(regex_record(group_id, said.regex, None))
    names = subscribed_names(group, Changed(member_id, said, None))
    epoch = group.epoch + 1
    metadata_hash = group_metadata_hash(shard.image, names)
    decision.records.append(epoch_record(group_id, epoch, metadata_hash))
    if group.member_count == 1:
        decision.records.append(target_epoch_record(group_id, epoch, 0))
    decision.set_timer(session_timer(group_id, member_id), None)
    decision.set_timer(rebalance_timer(group_id, member_id), None)
