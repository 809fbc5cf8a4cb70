"""What the coordinator decides, and the state it decides about.

A `Decision` is carried out in this order: its records are written as one batch and applied at once;
its timers are set; its replies leave when the batch, and everything written before it, is
committed. So no reply tells of anything that could still be lost, reads included. If the batch
cannot be written the replies are replaced by an error and the shard is loaded again from the log:
what was decided has not happened.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from fencepost.machines.group.config import GroupConfig
from fencepost.machines.group.memory import GroupMemory
from fencepost.machines.group.model import ClassicGroup
from fencepost.machines.group.offsets import OffsetStore
from fencepost.wire.message import Message

TimerName = tuple[str, ...]
"""("session", group, member), ("join", group), ("sync", group) or ("expiry",)."""

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


@dataclass(slots=True)
class Decision:
    """See the module. `notes` is what an operator may want to read in the log.

    `wall_ms` is the time of day at which it is taken, in ms since the Unix epoch: the timestamps in
    its records. Timers and sessions do not go by it. -1: none of its records has a timestamp.
    """

    wall_ms: int = -1
    records: list[tuple[Message, Message | None]] = field(default_factory=list)
    replies: list[tuple[Any, Any]] = field(default_factory=list)
    timers: list[tuple[TimerName, int | None]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def reply(self, token: Any, response: Any) -> None:
        """Answer the request behind `token`."""
        self.replies.append((token, response))

    def set_timer(self, name: TimerName, deadline_ms: int | None) -> None:
        """Arm the timer for a moment (over one armed before), or disarm it with None."""
        self.timers.append((name, deadline_ms))


@dataclass(slots=True)
class Shard:
    """The groups and offsets of one partition of `__consumer_offsets`."""

    config: GroupConfig
    groups: dict[str, ClassicGroup] = field(default_factory=dict)
    offsets: OffsetStore = field(default_factory=OffsetStore)
    memory: GroupMemory = field(default_factory=GroupMemory)
    """What all groups of the node take together; the shards of a node share it."""
    record_bytes_max: int = DEFAULT_RECORD_BYTES_MAX
    """The largest batch that `__consumer_offsets` takes (its `max.message.bytes`), in bytes."""
    counted: dict[str, int] = field(default_factory=dict)
    """What each group of the shard has been counted with in `memory`, in bytes."""

    def count(self, group_id: str) -> None:
        """The group may have changed its size, or be gone."""
        group = self.groups.get(group_id)
        size_bytes = 0 if group is None else group.size_bytes
        self.memory.used_bytes += size_bytes - self.counted.pop(group_id, 0)
        if size_bytes:
            self.counted[group_id] = size_bytes

    def discard(self) -> None:
        """The shard's groups are not here any more: they take nothing."""
        self.memory.used_bytes -= sum(self.counted.values())
        self.counted.clear()

    def maybe_forget(self, group_id: str) -> None:
        """Drop a group of which nothing is known any more."""
        group = self.groups.get(group_id)
        if group is not None and group.is_forgettable and not self.offsets.has_any(group_id):
            del self.groups[group_id]
            self.count(group_id)
