"""`ClassicGroups`: the row of classic groups in the table of types."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Final

from fencepost.machines.coordinator import TimerName
from fencepost.machines.group.admin import described
from fencepost.machines.group.classic.group import ClassicGroup
from fencepost.machines.group.classic.member import GroupState
from fencepost.machines.group.classic.membership import Membership
from fencepost.machines.group.classic.timers import CLASSIC, JOIN, SESSION, SYNC
from fencepost.machines.group.group import Group
from fencepost.machines.group.shard import Decision, Shard
from fencepost.machines.image import ImageDelta
from fencepost.wire.api.describe_groups import DescribedGroup
from fencepost.wire.errors import ErrorCode
from fencepost.wire.message import Message
from fencepost.wire.records.group import GroupMetadataKey, GroupMetadataValue

GROUP_ID_NOT_FOUND_FROM: Final = 6
"""Version of DescribeGroups from which a group that does not exist is an error."""


class ClassicGroups:
    """See the module docstring; implements `GroupType`."""

    name: ClassVar[str] = CLASSIC
    keys: ClassVar[tuple[type[Message], ...]] = (GroupMetadataKey,)

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self.classic_members = Membership(shard)

    def apply(self, key: Message, value: Message | None) -> None:
        """A group's record. Only empty groups are deleted, or those that became another type."""
        assert isinstance(key, GroupMetadataKey), key
        assert value is None or isinstance(value, GroupMetadataValue)
        shard = self._shard
        if value is not None:
            group = shard.group_to_apply(key.group, ClassicGroup).draft()
            group.take_over(value)
            shard.put(group)
        elif shard.group_of(key.group, ClassicGroup) is not None:
            shard.delete(key.group)

    def loaded(self, decision: Decision, group: Group, wall_ms: int) -> None:
        """Members have a session timeout from now to send a heartbeat."""
        assert isinstance(group, ClassicGroup), group
        self.classic_members.watch(decision, group, wall_ms)

    def image_changed(self, decision: Decision, delta: ImageDelta) -> None:
        """Nothing: members see for themselves what topics there are."""

    def decide_timer(self, name: TimerName, wall_ms: int) -> Decision:
        """A member's session, or the time to join or to sync, is over."""
        _, group_id, what, *rest = name
        members = self.classic_members
        if what == SESSION:
            return members.session_expired(group_id, rest[0], wall_ms)
        if what == JOIN:
            return members.join_expired(group_id, wall_ms)
        assert what == SYNC, name
        return members.sync_expired(group_id, wall_ms)

    def describe(self, group_ids: Sequence[str], api_version: int, token: Any) -> Decision:
        """DescribeGroups v0-6; replies list[DescribedGroup]. A group that is not here is "Dead"."""

        def missing(group_id: str, message: str) -> DescribedGroup:
            answer = DescribedGroup(group_id=group_id, group_state=GroupState.DEAD.value)
            if api_version >= GROUP_ID_NOT_FOUND_FROM:
                answer.error_code = ErrorCode.GROUP_ID_NOT_FOUND
                answer.error_message = message
            return answer

        decision = Decision()
        decision.reply(token, described(self._shard, group_ids, ClassicGroup, CLASSIC, missing))
        return decision
