"""The steps of a rebalance: prepare it, end its first half, store what came of it, watch members.

Each step changes a draft of the group and adds to the decision under way what follows from that:
records, answers to requests that wait, timers. `membership` says when they are taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from fencepost.machines.group.classic.answers import joined, roster_of
from fencepost.machines.group.classic.group import ClassicGroup
from fencepost.machines.group.classic.member import GroupState, Member
from fencepost.machines.group.classic.refusals import refuse_waiting
from fencepost.machines.group.classic.timers import join_timer, session_timer, sync_timer
from fencepost.machines.group.config import GroupConfig
from fencepost.machines.group.next_epoch import next_epoch
from fencepost.machines.group.records import encode_record
from fencepost.machines.group.shard import Decision
from fencepost.wire.errors import ErrorCode
from fencepost.wire.records.group import GroupMetadataKey, GroupMetadataValue

_REASON_LENGTH_MAX: Final = 255
BATCH_OVERHEAD_BYTES: Final = 96
"""What a batch of one record has besides its key and value, at most."""
_GROUP_BYTES_MAX: Final = 64
_MEMBER_BYTES_MAX: Final = 48
"""What a group's record, and a member in it, have besides texts and data: numbers and lengths."""

_PREPARING: Final = GroupState.PREPARING_REBALANCE
_COMPLETING: Final = GroupState.COMPLETING_REBALANCE


def printable(text: str | None) -> str:
    """What a client said, fit for a log line (KIP-800)."""
    return repr(text[:_REASON_LENGTH_MAX]) if text else "not provided"


# Members


def touch(
    decision: Decision, group: ClassicGroup, member: Member, timeout_ms: int | None = None
) -> None:
    """The member was heard of: it has another session timeout (or `timeout_ms`) from now."""
    delay_ms = member.session_timeout_ms if timeout_ms is None else timeout_ms
    decision.set_timer(session_timer(group.group_id, member.member_id), delay_ms)


def remove_member(decision: Decision, group: ClassicGroup, member: Member) -> None:
    """Take a member out. What it waits for is answered: it is to join again if it is there."""
    refuse_waiting(decision, member, ErrorCode.UNKNOWN_MEMBER_ID, "")
    group.remove(member.member_id)
    decision.set_timer(session_timer(group.group_id, member.member_id), None)


def refuse_syncs(decision: Decision, group: ClassicGroup, error: ErrorCode) -> None:
    """Answer every SyncGroup that waits with `error`; its sender was heard of."""
    for member in list(group.members.values()):
        if member.sync_token is not None:
            refuse_waiting(decision, member, error)
            group.update(member.member_id, join_token=None, sync_token=None)
            touch(decision, group, member)


# The first half


def maybe_prepare_rebalance(
    decision: Decision, group: ClassicGroup, config: GroupConfig, reason: str, wall_ms: int
) -> None:
    """Begin a rebalance; if one is in its first half, see whether that can end now."""
    if group.state is _PREPARING:
        maybe_complete_join(decision, group, wall_ms)
    else:
        prepare_rebalance(decision, group, config, reason, wall_ms)


def prepare_rebalance(
    decision: Decision, group: ClassicGroup, config: GroupConfig, reason: str, wall_ms: int
) -> None:
    """Begin the first half of a rebalance."""
    assert group.state is not _PREPARING
    if group.state is _COMPLETING:
        group.clear_assignments()
        refuse_syncs(decision, group, ErrorCode.REBALANCE_IN_PROGRESS)
    group.pending_sync.clear()
    decision.set_timer(sync_timer(group.group_id), None)
    decision.notes.append(
        f"group {group.group_id}: rebalance of generation {group.generation}: {reason}"
    )
    group.is_initial_rebalance = group.state is GroupState.EMPTY
    group.state = _PREPARING
    group.state_timestamp_ms = wall_ms
    if group.is_initial_rebalance:
        delay_ms = config.initial_rebalance_delay_ms
        group.new_member_added = False
        group.initial_delay_ms = delay_ms
        group.initial_remaining_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
        decision.set_timer(join_timer(group.group_id), delay_ms)
    elif group.has_all_joined:
        complete_join(decision, group, wall_ms)
    else:
        _wait_for_joins(decision, group)


def maybe_complete_join(decision: Decision, group: ClassicGroup, wall_ms: int) -> None:
    """End the first half if all members joined; a first rebalance waits for its delay as well."""
    if group.state is _PREPARING and not group.is_initial_rebalance and group.has_all_joined:
        complete_join(decision, group, wall_ms)


def join_time_is_over(
    decision: Decision, group: ClassicGroup, config: GroupConfig, wall_ms: int
) -> None:
    """The join timer fired."""
    if group.state is not _PREPARING:
        return
    if group.is_initial_rebalance and group.new_member_added and group.initial_remaining_ms > 0:
        group.new_member_added = False
        delay_ms = min(config.initial_rebalance_delay_ms, group.initial_remaining_ms)
        group.initial_remaining_ms = max(group.initial_remaining_ms - group.initial_delay_ms, 0)
        group.initial_delay_ms = delay_ms
        decision.set_timer(join_timer(group.group_id), delay_ms)
    else:
        complete_join(decision, group, wall_ms)


def complete_join(decision: Decision, group: ClassicGroup, wall_ms: int) -> None:
    """End the first half: dynamic members that have not joined are removed, the others are the
    next generation."""
    decision.set_timer(join_timer(group.group_id), None)
    late = [m for m in group.members.values() if not m.awaits_join and m.instance_id is None]
    for member in late:
        remove_member(decision, group, member)
    if late:
        names = ", ".join(member.member_id for member in late)
        decision.notes.append(f"group {group.group_id}: removed members that did not join: {names}")
    if not group.members:
        group.generation = next_epoch(group.generation)
        group.protocol = None
        store(decision, group, {}, wall_ms)
        decision.notes.append(f"group {group.group_id}: empty in generation {group.generation}")
        return
    if not group.elect_joined_leader():
        # Only static members, none of them back yet: their session timeouts will sort it out.
        _wait_for_joins(decision, group)
        return
    group.begin_generation()
    group.state_timestamp_ms = wall_ms
    roster = roster_of(group)
    for member in list(group.members.values()):
        if member.join_token is not None:
            listed = roster if group.is_leader(member.member_id) else []
            decision.reply(member.join_token, joined(group, member, listed))
        touch(decision, group, member)
        group.update(member.member_id, join_token=None, is_new=False)
        group.pending_sync[member.member_id] = None
    decision.set_timer(sync_timer(group.group_id), group.rebalance_timeout_ms)
    decision.notes.append(
        f"group {group.group_id}: generation {group.generation} has {len(group.members)} members"
    )


def _wait_for_joins(decision: Decision, group: ClassicGroup) -> None:
    decision.set_timer(join_timer(group.group_id), group.rebalance_timeout_ms)


# The second half


def sync_time_is_over(
    decision: Decision, group: ClassicGroup, config: GroupConfig, wall_ms: int
) -> None:
    """The sync timer fired: members of the generation that never asked for it are out."""
    if group.state not in (_COMPLETING, GroupState.STABLE) or not group.pending_sync:
        return
    silent = [group.members[member_id] for member_id in group.pending_sync]
    for member in silent:
        remove_member(decision, group, member)
    names = ", ".join(member.member_id for member in silent)
    prepare_rebalance(decision, group, config, f"{names} did not sync in time", wall_ms)


def synced(decision: Decision, group: ClassicGroup, member_id: str) -> None:
    """A member of the generation asked for its assignment."""
    group.pending_sync.pop(member_id, None)
    if not group.pending_sync:
        decision.set_timer(sync_timer(group.group_id), None)


def store(
    decision: Decision, group: ClassicGroup, assignments: dict[str, bytes], wall_ms: int
) -> None:
    """Write the group down with these assignments; it is stable, or empty, once that is applied."""
    record = group.as_record(assignments, wall_ms)
    decision.records.append((GroupMetadataKey(group=group.group_id), record))


def store_made(decision: Decision, group: ClassicGroup, wall_ms: int) -> None:
    """Write down that there is a group; nothing of it is decided yet, so nothing else is stored.

    A group whose members leave before its first generation is there, empty, until offsets expire.
    """
    record = GroupMetadataValue(protocol=None, leader=None, current_state_timestamp=wall_ms)
    decision.records.append((GroupMetadataKey(group=group.group_id), record))


def assignments_of(group: ClassicGroup) -> dict[str, bytes]:
    """What each member has been assigned."""
    return {member.member_id: member.assignment for member in group.members.values()}


def fits_in_record(
    group: ClassicGroup, assignments: Mapping[str, bytes], record_bytes_max: int
) -> bool:
    """Whether the group can be written down with these assignments: as one batch of one record.

    It is encoded only where a bound on its size does not tell: thousands of members take long.
    """
    if _record_bytes_max(group, assignments) <= record_bytes_max:
        return True
    record = GroupMetadataKey(group=group.group_id), group.as_record(assignments, -1)
    key, value = encode_record(record)
    return len(key) + len(value or b"") + BATCH_OVERHEAD_BYTES <= record_bytes_max


def _record_bytes_max(group: ClassicGroup, assignments: Mapping[str, bytes]) -> int:
    """The record is not larger than this. A character takes up to four bytes."""
    protocol = group.protocol or ""
    texts = [group.group_id, group.group_id, group.protocol_type or "", protocol]
    size_bytes = BATCH_OVERHEAD_BYTES + _GROUP_BYTES_MAX + len(group.leader_id or "") * 4
    for member in group.members.values():
        characters = len(member.member_id) + len(member.client_id) + len(member.client_host)
        characters += len(member.instance_id or "")
        data = len(member.metadata(protocol)) + len(assignments[member.member_id])
        size_bytes += _MEMBER_BYTES_MAX + 4 * characters + data
    return size_bytes + 4 * sum(map(len, texts))
