"""`GroupType`: what the coordinator needs of the decisions about one type of groups.

One object of each type serves a shard. It has no state of its own: everything is in the shard, so
that a decision which the log refuses can be reverted. `apply` is the only method that changes it.

`decide_*` methods of a type's own APIs (ConsumerGroupHeartbeat is one) are not named here; handlers
reach them through `GroupCoordinator.of_type`.
"""

from __future__ import annotations

from typing import ClassVar, Protocol

from fencepost.machines.coordinator import TimerName
from fencepost.machines.group.caller import Caller
from fencepost.machines.group.group import Group
from fencepost.machines.group.shard import Decision, Shard
from fencepost.machines.image import ImageDelta
from fencepost.wire.api.heartbeat import HeartbeatRequest
from fencepost.wire.api.join_group import JoinGroupRequest
from fencepost.wire.api.leave_group import LeaveGroupRequest
from fencepost.wire.api.sync_group import SyncGroupRequest
from fencepost.wire.message import Message


class ClassicMembers(Protocol):
    """Serves members that speak the classic protocol, in groups of one type."""

    def join(self, request: JoinGroupRequest, caller: Caller, wall_ms: int) -> Decision:
        """JoinGroup v0-9; replies JoinGroupResponse, perhaps much later."""
        ...

    def sync(self, request: SyncGroupRequest, caller: Caller, wall_ms: int) -> Decision:
        """SyncGroup v0-5; replies SyncGroupResponse, perhaps later."""
        ...

    def heartbeat(self, request: HeartbeatRequest, caller: Caller) -> Decision:
        """Heartbeat v0-4; replies HeartbeatResponse."""
        ...

    def leave(self, request: LeaveGroupRequest, caller: Caller, wall_ms: int) -> Decision:
        """LeaveGroup v0-5, its members in `members`; replies LeaveGroupResponse."""
        ...


class GroupType(Protocol):
    """See the module docstring."""

    name: ClassVar[str]
    """As ListGroups gives it, in lower case; the first part of the names of its timers."""
    keys: ClassVar[tuple[type[Message], ...]]
    """The classes of its records' keys in `__consumer_offsets`."""

    def __init__(self, shard: Shard) -> None: ...

    @property
    def classic_members(self) -> ClassicMembers | None:
        """Serves classic members of its groups; None if they cannot be in any."""
        ...

    def apply(self, key: Message, value: Message | None) -> None:
        """A record is in the log, or about to be.

        Whatever compaction leaves is applied: a tombstone of what is not there, or of a group that
        is of another type by now, changes nothing; members may come before their group's epoch.
        """
        ...

    def loaded(self, decision: Decision, group: Group, wall_ms: int) -> None:
        """The partition is loaded with this group of the type: set the timers that it needs."""
        ...

    def image_changed(self, decision: Decision, delta: ImageDelta) -> None:
        """The cluster's metadata have changed; the image is `delta.new` by now, or a later one.

        The decision is about all groups and may be split over several batches between any records.
        """
        ...

    def decide_timer(self, name: TimerName, wall_ms: int) -> Decision:
        """A timer has fired: (type, group id, what for, ...)."""
        ...
