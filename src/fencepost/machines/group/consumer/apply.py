"""Records of consumer groups become state: live, and when a partition is loaded.

Each kind of record has a function here, which changes its place in the group and the sums over it
(`group`). All changes are noted in the shard's undo log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, MutableMapping
from typing import Any, Final, TypeVar

from msgspec.structs import replace

from fencepost.machines.group.consumer.group import ConsumerGroup, NameSet, ResolvedRegex
from fencepost.machines.group.consumer.member import (
    MemberState,
    Progress,
    Subscription,
    size_of,
)
from fencepost.machines.group.consumer.records import target_from_record
from fencepost.machines.group.epoch_records import apply_epoch, apply_target_epoch
from fencepost.machines.group.shard import Shard
from fencepost.wire.message import Message
from fencepost.wire.records.group import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMetadataKey,
)
from fencepost.wire.types import Uuid

K = TypeVar("K")


def apply(shard: Shard, key: Message, value: Message | None) -> None:
    """Apply a record of a consumer group; a tombstone of what is not there changes nothing."""
    group = shard.group_to_change(key, value, ConsumerGroup)
    if group is None:
        return
    _APPLY[type(key)](shard, group, key, value)
    if group.is_forgettable:
        shard.delete(group.group_id)


def _apply_partition_metadata(shard: Shard, group: ConsumerGroup, key: Any, value: Any) -> None:
    """Brokers of before 4.1 kept what the hash stands for now."""
    shard.undo_log.set_attribute(group, "has_partition_metadata", value is not None)


def _apply_member(shard: Shard, group: ConsumerGroup, key: Any, value: Any) -> None:
    undo_log, member_id = shard.undo_log, key.member_id
    before = group.members.get(member_id)
    after = None if value is None else Subscription.from_record(value)
    size = 0
    if before is not None:
        size -= before.size_bytes(member_id)
    if after is not None:
        size += after.size_bytes(member_id)
        names = _use_names(shard, group, after.topic_names)
        after = replace(after, topic_names=names)
    if before is not None:
        _drop_names(shard, group, before.topic_names)
    _count_bytes(shard, group, size)
    old, new = before or Subscription(), after or Subscription()
    _move(shard, group.regex_users, old.regex, new.regex)
    _move(shard, group.assignor_users, old.server_assignor, new.server_assignor)
    _count_classic(shard, group, old, -1)
    _count_classic(shard, group, new, 1)
    old_instance_id = old.instance_id
    if old_instance_id and group.static_members.get(old_instance_id) == member_id:
        undo_log.pop(group.static_members, old_instance_id)
    if after is None:
        undo_log.pop(group.members, member_id)
        undo_log.pop(group.rejoining, member_id)
        return
    undo_log.put(group.members, member_id, after)
    if after.instance_id is not None:
        undo_log.put(group.static_members, after.instance_id, member_id)


def _count_classic(shard: Shard, group: ConsumerGroup, said: Subscription, change: int) -> None:
    """`change` more members that speak the classic protocol as this one does, if it does."""
    if said.classic is not None:
        names = {protocol.name for protocol in said.classic.supported_protocols}
        shard.undo_log.set_attribute(group, "classic_count", group.classic_count + change)
        _add(shard, group.classic_protocols, names, change)


def _use_names(shard: Shard, group: ConsumerGroup, names: frozenset[str]) -> frozenset[str]:
    """One member more subscribes to these names; the set to keep."""
    known = group.name_sets.get(names)
    if known is None:
        known = NameSet(names, 0)
        _count_bytes(shard, group, known.size_bytes)
        _add(shard, group.topic_users, names, 1)
    shard.undo_log.put(group.name_sets, known.names, NameSet(known.names, known.users + 1))
    return known.names


def _drop_names(shard: Shard, group: ConsumerGroup, names: frozenset[str]) -> None:
    """One member less subscribes to these names."""
    known = group.name_sets[names]
    if known.users > 1:
        shard.undo_log.put(group.name_sets, names, NameSet(known.names, known.users - 1))
        return
    shard.undo_log.pop(group.name_sets, names)
    _count_bytes(shard, group, -known.size_bytes)
    _add(shard, group.topic_users, names, -1)


def _apply_target(shard: Shard, group: ConsumerGroup, key: Any, value: Any) -> None:
    before = group.target.get(key.member_id)
    size = 0 if before is None else -size_of(before)
    if value is None:
        shard.undo_log.pop(group.target, key.member_id)
    else:
        target = target_from_record(value)
        size += size_of(target)
        shard.undo_log.put(group.target, key.member_id, target)
    _count_bytes(shard, group, size)


def _apply_progress(shard: Shard, group: ConsumerGroup, key: Any, value: Any) -> None:
    before = group.progress.get(key.member_id)
    after = None if value is None else Progress.from_record(value)
    _move(shard, group.stable_members, _stable_epoch(before), _stable_epoch(after))
    _count_holders(shard, group, before, after)
    size = 0 if before is None else -before.size_bytes
    if after is None:
        shard.undo_log.pop(group.progress, key.member_id)
    else:
        size += after.size_bytes
        shard.undo_log.put(group.progress, key.member_id, after)
    _count_bytes(shard, group, size)


def _stable_epoch(progress: Progress | None) -> int | None:
    if progress is None or progress.state is not MemberState.STABLE:
        return None
    return progress.epoch


def _count_holders(
    shard: Shard, group: ConsumerGroup, before: Progress | None, after: Progress | None
) -> None:
    """Bring the number of holders of each partition up to date, where the two are different."""
    had, has = _indexes(before), _indexes(after)
    for topic_id in had.keys() | has.keys():
        old, new = had.get(topic_id, frozenset()), has.get(topic_id, frozenset())
        if old == new:
            continue
        if topic_id not in group.holders:
            shard.undo_log.put(group.holders, topic_id, {})
        counts = group.holders[topic_id]
        _add(shard, counts, old - new, -1)
        _add(shard, counts, new - old, 1)
        if shard.undo_log.is_open:
            taken = [index for index in new - old if counts[index] > 1]
            assert not taken, f"{group.group_id}: partitions {taken} of {topic_id} have a holder"
        if not counts:
            shard.undo_log.pop(group.holders, topic_id)


def _indexes(progress: Progress | None) -> Mapping[Uuid, frozenset[int]]:
    if progress is None:
        return {}
    indexes = {topic_id: frozenset(epochs) for topic_id, epochs in progress.assigned.items()}
    for topic_id, epochs in progress.pending.items():
        indexes[topic_id] = indexes.get(topic_id, frozenset()).union(epochs)
    return indexes


def _apply_regex(shard: Shard, group: ConsumerGroup, key: Any, value: Any) -> None:
    regex = key.regular_expression
    before = group.regexes.get(regex)
    size = 0 if before is None else -before.size_bytes(regex)
    if value is None:
        shard.undo_log.pop(group.regexes, regex)
    else:
        after = ResolvedRegex(frozenset(value.topics), value.version, value.timestamp)
        size += after.size_bytes(regex)
        shard.undo_log.put(group.regexes, regex, after)
    _count_bytes(shard, group, size)


def _count_bytes(shard: Shard, group: ConsumerGroup, more_bytes: int) -> None:
    if more_bytes:
        shard.undo_log.set_attribute(group, "size_bytes", group.size_bytes + more_bytes)
        shard.count_bytes(more_bytes)


def _move(shard: Shard, sums: MutableMapping[K, int], before: K | None, after: K | None) -> None:
    """One less of `before` and one more of `after`; None and what is empty are not counted."""
    if before != after:
        _add(shard, sums, [key for key in (before,) if key], -1)
        _add(shard, sums, [key for key in (after,) if key], 1)


def _add(shard: Shard, sums: MutableMapping[K, int], keys: Iterable[K], change: int) -> None:
    """`change` more of each key; what nothing is left of is not kept."""
    for key in keys:
        shard.undo_log.add(sums, key, change)


_APPLY: Final[Mapping[type[Message], Callable[[Shard, ConsumerGroup, Any, Any], None]]] = {
    ConsumerGroupMetadataKey: apply_epoch,
    ConsumerGroupPartitionMetadataKey: _apply_partition_metadata,
    ConsumerGroupMemberMetadataKey: _apply_member,
    ConsumerGroupTargetAssignmentMetadataKey: apply_target_epoch,
    ConsumerGroupTargetAssignmentMemberKey: _apply_target,
    ConsumerGroupCurrentMemberAssignmentKey: _apply_progress,
    ConsumerGroupRegularExpressionKey: _apply_regex,
}

KEYS: Final = tuple(_APPLY)
"""The classes of the keys of a consumer group's records."""
