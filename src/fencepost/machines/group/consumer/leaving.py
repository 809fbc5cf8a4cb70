"""Members leave a consumer group: on their own, for a while, or because a timer has fired."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from fencepost.machines.group.consumer.group import ConsumerGroup
from fencepost.machines.group.consumer.joining import (
    check_instance,
    group_not_found,
    unknown_member,
)
from fencepost.machines.group.consumer.member import LEAVES_FOR_A_WHILE, Held
from fencepost.machines.group.consumer.migration import downgrade, may_downgrade
from fencepost.machines.group.consumer.records import (
    epoch_records,
    member_tombstones,
    progress_record,
    regex_record,
    target_epoch_record,
)
from fencepost.machines.group.consumer.target import Changed, subscribed_names
from fencepost.machines.group.consumer.timers import member_timers
from fencepost.machines.group.metadata_hash import group_metadata_hash
from fencepost.machines.group.next_epoch import next_epoch
from fencepost.machines.group.shard import Decision, Shard
from fencepost.wire.api.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)


def leave(
    shard: Shard, decision: Decision, request: ConsumerGroupHeartbeatRequest, wall_ms: int
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
        remove_members(shard, decision, present, [member_id], wall_ms)
    return ConsumerGroupHeartbeatResponse(member_id=member_id, member_epoch=request.member_epoch)


def _leave_for_a_while(decision: Decision, group: ConsumerGroup, member_id: str) -> None:
    """Its partitions stay its own, for a member of any later epoch; its session goes on."""
    progress = group.progress_of(member_id)
    assigned: Held = {
        topic_id: dict.fromkeys(epochs, 0) for topic_id, epochs in progress.assigned.items()
    }
    progress = progress._replace(epoch=LEAVES_FOR_A_WHILE, assigned=assigned, pending={})
    decision.records.append(progress_record(group.group_id, member_id, progress))


def remove_members(
    shard: Shard,
    decision: Decision,
    group: ConsumerGroup,
    member_ids: Sequence[str],
    wall_ms: int,
) -> None:
    """Take members out of their group: what they had is free, and the group epoch rises.

    A group of which only classic members are left becomes a classic one (`migration`). With the
    last member the target is of the new epoch at once (KAFKA-20442), and the next member is
    assigned without delay.
    """
    if may_downgrade(shard, group, member_ids, 0):
        reason = f"{', '.join(member_ids)} left, and none of the consumer protocol is there"
        if downgrade(shard, decision, group, member_ids, wall_ms, rebalance_for=reason):
            return
    group_id = group.group_id
    regexes: Counter[str] = Counter()
    for member_id in member_ids:
        decision.records += member_tombstones(group_id, member_id)
        regexes[group.members[member_id].regex or ""] += 1
    unused = {
        regex
        for regex, users in regexes.items()
        if regex in group.regexes and group.regex_users.get(regex) == users
    }
    decision.records += [(regex_record(group_id, regex, None)) for regex in sorted(unused)]
    changes = [Changed(one, group.members[one], None) for one in member_ids]
    epoch = next_epoch(group.epoch)
    metadata_hash = group_metadata_hash(shard.image, subscribed_names(group, *changes))
    decision.records += epoch_records(group, metadata_hash)
    if group.member_count == len(member_ids):
        decision.records.append(target_epoch_record(group_id, epoch, 0))
    for member_id in member_ids:
        for timer in member_timers(group_id, member_id):
            decision.set_timer(timer, None)
