"""The state of the groups of one partition of `__consumer_offsets`, and how it is reverted.

A `ClassicGroup` is never changed while it is in here: what a decision wants of it is a draft
(`ClassicGroup.draft`), which takes its place when the decision is applied. Every replacement is
noted in the undo log, and so are offsets (`OffsetStore`).
"""

from __future__ import annotations

from functools import partial

from fencepost.machines.coordinator import Decision as CoordinatorDecision, TimerName, UndoLog
from fencepost.machines.group.config import GroupConfig
from fencepost.machines.group.memory import GroupMemory
from fencepost.machines.group.model import ClassicGroup
from fencepost.machines.group.offsets import OffsetStore
from fencepost.machines.group.records import GroupRecord
from fencepost.machines.group.rules import RULES, GroupRules

Decision = CoordinatorDecision[GroupRecord]
"""A decision about groups. Its changes are drafts of groups."""

EXPIRY_TIMER: TimerName = ("expiry",)

DEFAULT_RECORD_BYTES_MAX = 1024 * 1024 + 12
"""Kafka's default of `max.message.bytes`."""


def session_timer(group_id: str, member_id: str) -> TimerName:
    """Fires when a member has not been heard of for its session timeout."""
    return ("session", group_id, member_id)


def join_timer(group_id: str) -> TimerName:
    """Fires when a rebalance has waited long enough for members to join."""
    return ("join", group_id)


def sync_timer(group_id: str) -> TimerName:
    """Fires when a generation has waited long enough for its members' SyncGroup."""
    return ("sync", group_id)


class Shard:
    """The groups and offsets of one partition of `__consumer_offsets`."""

    def __init__(self, config: GroupConfig, memory: GroupMemory, rules: GroupRules = RULES) -> None:
        """`memory` is what all groups of the node take together; its shards share it."""
        self.config = config
        self.rules = rules
        self.memory = memory
        self.undo_log = UndoLog()
        self.groups: dict[str, ClassicGroup] = {}
        self.offsets = OffsetStore(self.undo_log, rules)
        self.record_bytes_max = DEFAULT_RECORD_BYTES_MAX
        """The largest batch that `__consumer_offsets` takes (its `max.message.bytes`), in bytes."""

    def put(self, group: ClassicGroup) -> None:
        """The group is this from now on; one of which nothing is known any more is dropped.

        One of which nothing was known before stays what it is: it is empty, and kept until offsets
        expire, whatever is asked of it and refused.
        """
        group_id = group.group_id
        before = self.groups.get(group_id)
        is_kept = not group.is_forgettable or self.offsets.has_any(group_id)
        if is_kept or before is None or not before.is_forgettable:
            self._replace(group_id, group if is_kept else None)

    def delete(self, group_id: str) -> None:
        """The group is deleted. Offsets that are left make it one of which nothing else is known;
        ids that were given out are not good any more, as in Kafka."""
        is_kept = self.offsets.has_any(group_id)
        self._replace(group_id, ClassicGroup(group_id) if is_kept else None)

    def discard(self) -> None:
        """The shard's groups are not here any more: they take no memory."""
        for group in self.groups.values():
            self.memory.used_bytes -= group.counted_bytes
        self.groups.clear()

    def _replace(self, group_id: str, group: ClassicGroup | None) -> None:
        before = self.groups.get(group_id)
        if group is not before:
            self.undo_log.note(partial(self._set, group_id, before))
            self._set(group_id, group)

    def _set(self, group_id: str, group: ClassicGroup | None) -> None:
        before = self.groups.get(group_id)
        if before is not None:
            self.memory.used_bytes -= before.counted_bytes
        if group is None:
            self.groups.pop(group_id, None)
        else:
            self.groups[group_id] = group
            self.memory.used_bytes += group.counted_bytes
