"""`ShareGroup`: the state of one group, changed in place by its records alone.

Every record of the group has its place, so that they may come in any order: `members` (10), `epoch`
and `metadata_hash` (11), `target_epoch` (12), `target` (13), `progress` (14), `state` (15). Beside
them are sums over members, so that a heartbeat does not look at all of them: how many subscribe to
a topic, how many are to have a partition.

In memory alone is `is_initializing_late`: share coordinators have not answered for long, and are
asked again with the next heartbeat.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from sys import getsizeof
from typing import Any, Final, NamedTuple

from fencepost.machines.coordinator import Decision, TimerName, WorkName
from fencepost.machines.group.epoch_records import (
    GroupEpochs,
    apply_epoch,
    apply_target_epoch,
)
from fencepost.machines.group.group import Committer
from fencepost.machines.group.memory import group_bytes
from fencepost.machines.group.offsets import CommittedOffset
from fencepost.machines.group.records import GroupRecord
from fencepost.machines.group.rules import GroupRules
from fencepost.machines.group.shard import Shard
from fencepost.machines.group.share.assignor import SIMPLE, Partitions
from fencepost.machines.group.share.member import Progress, Subscription, partitions_from
from fencepost.machines.group.share.state import StatePartitions
from fencepost.machines.group.share.timers import SHARE, initializing_timer, session_timer
from fencepost.wire.api.share_group_describe import (
    Assignment,
    DescribedGroup,
    Member,
    TopicPartitions,
)
from fencepost.wire.errors import ErrorCode
from fencepost.wire.message import Message
from fencepost.wire.records.group import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupMemberMetadataKey,
    ShareGroupMetadataKey,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMetadataKey,
)
from fencepost.wire.types import Uuid

PARTITION_BYTES: Final = 96
"""Allowance for a partition in a target, a current assignment or the state record."""

_NONE_YET: Final = Progress()
_NO_TARGET: Final[Partitions] = {}


class ShareGroupState(Enum):
    """The states of a share group, by Kafka's names."""

    EMPTY = "Empty"
    STABLE = "Stable"
    DEAD = "Dead"
    """Only said of groups that do not exist."""


class ShareGroup(GroupEpochs):
    """See the module docstring; implements `Group`."""

    group_type: Final = SHARE
    protocol_type: Final = SHARE
    can_become_classic: Final = False

    def __init__(self, group_id: str) -> None:
        super().__init__()
        self.group_id = group_id
        self.members: dict[str, Subscription] = {}
        self.progress: dict[str, Progress] = {}
        self.target: dict[str, Partitions] = {}
        self.stored_state: StatePartitions | None = None
        # Sums over members.
        self.topic_users: dict[str, int] = {}
        self.targeted: dict[Uuid, dict[int, int]] = {}  # topic -> partition -> in how many targets
        self.size_bytes = group_bytes(group_id)
        # In memory alone.
        self.is_initializing_late = False

    # What it is

    @property
    def states(self) -> StatePartitions:
        """Of which partitions share coordinators keep a state."""
        return StatePartitions() if self.stored_state is None else self.stored_state

    @property
    def state(self) -> ShareGroupState:
        """Whether it has members."""
        return ShareGroupState.STABLE if self.members else ShareGroupState.EMPTY

    @property
    def is_empty(self) -> bool:
        """Whether it has no members, and may be deleted."""
        return not self.members

    @property
    def member_count(self) -> int:
        """How many members it has."""
        return len(self.members)

    @property
    def counted_bytes(self) -> int:
        """What it takes of memory, as far as clients decide it."""
        return self.size_bytes

    @property
    def is_forgettable(self) -> bool:
        """Whether it has no record."""
        return (
            self.stored_epoch is None
            and self.stored_target_epoch is None
            and self.stored_state is None
            and not (self.members or self.progress or self.target)
        )

    def progress_of(self, member_id: str) -> Progress:
        """What the member was last told; one without a record has been told nothing yet."""
        return self.progress.get(member_id, _NONE_YET)

    def target_of(self, member_id: str) -> Partitions:
        """What the member is to have; nothing if no target has been computed since it came."""
        return self.target.get(member_id, _NO_TARGET)

    # Offsets

    def refuse_commit(self, committer: Committer, rules: GroupRules) -> ErrorCode | None:
        """A share group has no committed offsets."""
        return ErrorCode.GROUP_ID_NOT_FOUND

    def note_commit(self, decision: Decision[GroupRecord], member_id: str) -> None:
        """Offsets are never taken."""

    def refuse_fetch(self, member_id: str | None, epoch: int) -> ErrorCode | None:
        """A share group has no committed offsets, and Kafka says so: -1 for each, and no error."""
        return None

    def refuse_offset_delete(self) -> ErrorCode | None:
        """A share group has no committed offsets."""
        return ErrorCode.GROUP_ID_NOT_FOUND

    def is_subscribed(self, topic: str) -> bool:
        """Whether a member subscribes to the topic."""
        return topic in self.topic_users

    def retention_start_ms(self, offset: CommittedOffset) -> int | None:
        """Never: there are no offsets."""
        return None

    @property
    def may_expire(self) -> bool:
        """A share group stays until it is deleted."""
        return False

    # Administration, and the end of the group

    def describe(self) -> DescribedGroup:
        """As ShareGroupDescribe has it, but for names of topics, which the metadata have."""
        return DescribedGroup(
            group_id=self.group_id,
            group_state=self.state.value,
            group_epoch=self.epoch,
            assignment_epoch=self.target_epoch,
            assignor_name=SIMPLE,
            members=[self._describe_member(member_id) for member_id in self.members],
        )

    def _describe_member(self, member_id: str) -> Member:
        said, progress = self.members[member_id], self.progress_of(member_id)
        topics = [
            TopicPartitions(topic_id=topic_id, topic_name="", partitions=sorted(indexes))
            for topic_id, indexes in sorted(progress.assigned.items())
        ]
        return Member(
            member_id=member_id,
            rack_id=said.rack_id,
            member_epoch=progress.epoch,
            client_id=said.client_id,
            client_host=said.client_host,
            subscribed_topic_names=sorted(said.topic_names),
            assignment=Assignment(topic_partitions=topics),
        )

    def record_keys(self) -> Iterator[Message]:
        """All that may be in the log of it, in the order of their deletion."""
        group_id = self.group_id
        for member_id in self.progress:
            yield ShareGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id)
        for member_id in self.target:
            yield ShareGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)
        yield ShareGroupTargetAssignmentMetadataKey(group_id=group_id)
        for member_id in self.members:
            yield ShareGroupMemberMetadataKey(group_id=group_id, member_id=member_id)
        yield ShareGroupStatePartitionMetadataKey(group_id=group_id)
        yield ShareGroupMetadataKey(group_id=group_id)

    def timers(self) -> Iterator[TimerName]:
        """Sessions of members, and the time that share coordinators have."""
        yield initializing_timer(self.group_id)
        for member_id in self.members:
            yield session_timer(self.group_id, member_id)

    def works(self) -> tuple[WorkName, ...]:
        """None."""
        return ()

    def refuse_waiting(self, decision: Decision[GroupRecord], error: ErrorCode) -> None:
        """No member waits: heartbeats are answered at once."""

    # Comparing

    def durable_view(self) -> Any:
        """What its records store."""
        if self.is_forgettable:
            return None
        return (
            (self.stored_epoch, self.metadata_hash),
            (self.stored_target_epoch, self.target_timestamp_ms),
            dict(self.members),
            dict(self.target),
            dict(self.progress),
            self.stored_state,
        )

    def settled_view(self) -> Any:
        """The same."""
        return self.durable_view()


class InitializingLate(NamedTuple):
    """A `shard.Change`: share coordinators are to be asked again with the next heartbeat."""

    group_id: str

    def apply_to(self, shard: Shard) -> None:
        """Note it in the group."""
        group = shard.group_of(self.group_id, ShareGroup)
        if group is not None:
            shard.undo_log.set_attribute(group, "is_initializing_late", True)


def apply(shard: Shard, key: Message, value: Message | None) -> None:
    """Apply a record of a share group; a tombstone of what is not there changes nothing."""
    group = shard.group_to_change(key, value, ShareGroup)
    if group is None:
        return
    _APPLY[type(key)](shard, group, key, value)
    if group.is_forgettable:
        shard.delete(group.group_id)


def _apply_member(shard: Shard, group: ShareGroup, key: Any, value: Any) -> None:
    member_id = key.member_id
    before = group.members.get(member_id)
    after = None if value is None else Subscription.from_record(value)
    names_before = frozenset() if before is None else before.topic_names
    names_after = frozenset() if after is None else after.topic_names
    for name in names_after - names_before:
        shard.undo_log.add(group.topic_users, name, 1)
    for name in names_before - names_after:
        shard.undo_log.add(group.topic_users, name, -1)
    size = 0 if after is None else after.size_bytes(member_id)
    _count_bytes(shard, group, size - (0 if before is None else before.size_bytes(member_id)))
    _put(shard, group.members, member_id, after)


def _apply_target(shard: Shard, group: ShareGroup, key: Any, value: Any) -> None:
    before = group.target_of(key.member_id)
    after = None if value is None else partitions_from(value.topic_partitions)
    for partitions, change in ((after or _NO_TARGET, 1), (before, -1)):
        for topic_id, indexes in partitions.items():
            targeted = group.targeted.get(topic_id)
            if targeted is None:
                targeted = {}
                shard.undo_log.put(group.targeted, topic_id, targeted)
            for index in indexes:
                shard.undo_log.add(targeted, index, change)
            if not targeted:
                shard.undo_log.pop(group.targeted, topic_id)
    _count_bytes(shard, group, _size_of(after or _NO_TARGET) - _size_of(before))
    _put(shard, group.target, key.member_id, after)


def _apply_progress(shard: Shard, group: ShareGroup, key: Any, value: Any) -> None:
    before = group.progress_of(key.member_id)
    after = None if value is None else Progress.from_record(value)
    size = 0 if after is None else _size_of(after.assigned)
    _count_bytes(shard, group, size - _size_of(before.assigned))
    _put(shard, group.progress, key.member_id, after)


def _apply_state(shard: Shard, group: ShareGroup, key: Any, value: Any) -> None:
    after = None if value is None else StatePartitions.from_record(value)
    _count_bytes(shard, group, _state_bytes(after) - _state_bytes(group.stored_state))
    shard.undo_log.set_attribute(group, "stored_state", after)
    shard.undo_log.set_attribute(group, "is_initializing_late", False)


_APPLY: Final[Mapping[type[Message], Callable[[Shard, ShareGroup, Any, Any], None]]] = {
    ShareGroupMemberMetadataKey: _apply_member,
    ShareGroupMetadataKey: apply_epoch,
    ShareGroupTargetAssignmentMetadataKey: apply_target_epoch,
    ShareGroupTargetAssignmentMemberKey: _apply_target,
    ShareGroupCurrentMemberAssignmentKey: _apply_progress,
    ShareGroupStatePartitionMetadataKey: _apply_state,
}
KEYS: Final[tuple[type[Message], ...]] = tuple(_APPLY)
"""The classes of the records' keys."""


def _put(shard: Shard, mapping: dict[str, Any], key: str, value: Any) -> None:
    if value is None:
        shard.undo_log.pop(mapping, key)
    else:
        shard.undo_log.put(mapping, key, value)


def _count_bytes(shard: Shard, group: ShareGroup, more_bytes: int) -> None:
    shard.undo_log.set_attribute(group, "size_bytes", group.size_bytes + more_bytes)
    shard.count_bytes(more_bytes)


def _size_of(partitions: Partitions) -> int:
    return PARTITION_BYTES * sum(map(len, partitions.values()))


def _state_bytes(state: StatePartitions | None) -> int:
    if state is None:
        return 0
    topics: Iterable[Any] = (*state.initializing.values(), *state.initialized.values())
    size = sum(getsizeof(name) + PARTITION_BYTES * len(indexes) for name, indexes in topics)
    return size + sum(map(getsizeof, state.deleting.values()))
