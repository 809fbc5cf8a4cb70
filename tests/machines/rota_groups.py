"""A group type made up for tests: what a second type of groups needs of the seam, and no more.

A rota group works like a small consumer group. Members send heartbeats with their member epoch, -1
to leave. Who comes, leaves or asks for other topics raises the group epoch. Which partitions each
member has is computed elsewhere, from a spec, and counts if the group's epoch is still that of the
spec: then every member is in that epoch. It borrows the records of share groups.

A consumer that sends a rota heartbeat to a classic group converts it; classic members are told to
join again, and only rota members remain. `decide_downgrade` converts it back with its members, and
a JoinGroup does when it is empty.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Any, ClassVar, Final, NamedTuple

from fencepost.machines.coordinator import TimerName, WorkName, WorkResult
from fencepost.machines.group.admin import described
from fencepost.machines.group.classic.group import ClassicGroup
from fencepost.machines.group.group import Committer, Group, dissolve
from fencepost.machines.group.memory import group_bytes, member_bytes
from fencepost.machines.group.offsets import CommittedOffset
from fencepost.machines.group.rules import GroupRules
from fencepost.machines.group.shard import Decision, Shard
from fencepost.machines.image import ImageDelta
from fencepost.wire.errors import ErrorCode
from fencepost.wire.message import Message
from fencepost.wire.records.consumer import ConsumerProtocolSubscription, encode_prefixed
from fencepost.wire.records.group import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    ShareGroupCurrentMemberAssignmentKey as AssignmentKey,
    ShareGroupCurrentMemberAssignmentValue as AssignmentValue,
    ShareGroupMemberMetadataKey as MemberKey,
    ShareGroupMemberMetadataValue as MemberValue,
    ShareGroupMetadataKey as EpochKey,
    ShareGroupMetadataValue as EpochValue,
    ShareGroupTargetAssignmentMetadataKey as TargetKey,
    ShareGroupTargetAssignmentMetadataValue as TargetValue,
)
from fencepost.wire.records.group_share import TopicPartitions
from fencepost.wire.types import Uuid

ROTA: Final = "rota"
SESSION_MS: Final = 10_000
RETRY_MS: Final = 1_000
POISON: Final = "poison"
"""Whose subscription no spec can be assigned with."""

Partition = tuple[Uuid, int]


class RotaState(Enum):
    """The states of a rota group."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    STABLE = "Stable"


class Spec(NamedTuple):
    """What partitions are assigned by; immutable."""

    epoch: int
    members: tuple[tuple[str, tuple[str, ...]], ...]
    partitions: tuple[tuple[str, Uuid, int], ...]


def assign(spec: Spec) -> dict[str, tuple[Partition, ...]]:
    """Each partition to the member, of those that subscribe to it, that has the fewest."""
    given: dict[str, list[Partition]] = {member_id: [] for member_id, _ in spec.members}
    for topic, topic_id, index in spec.partitions:
        if topic == POISON:
            raise ValueError("this topic cannot be assigned")
        takers = [member_id for member_id, topics in spec.members if topic in topics]
        if takers:
            given[min(takers, key=lambda one: (len(given[one]), one))].append((topic_id, index))
    return {member_id: tuple(partitions) for member_id, partitions in given.items()}


class RotaGroup:
    """One rota group, changed in place by `RotaGroups.apply`; implements `Group`."""

    group_type: Final = ROTA
    protocol_type: Final = ROTA

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch: int | None = None
        self.target_epoch: int | None = None
        self.members: dict[str, tuple[str, ...]] = {}
        self.assigned: dict[str, tuple[int, tuple[Partition, ...]]] = {}

    @property
    def state(self) -> RotaState:
        if not self.members:
            return RotaState.EMPTY
        return RotaState.STABLE if self.epoch == self.target_epoch else RotaState.ASSIGNING

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def can_become_classic(self) -> bool:
        return True

    @property
    def member_count(self) -> int:
        return len(self.members)

    @property
    def counted_bytes(self) -> int:
        if self.is_forgettable:
            return 0
        sizes = [member_bytes((), b"", member_id) for member_id in self.members]
        return group_bytes(self.group_id) + sum(sizes)

    @property
    def is_forgettable(self) -> bool:
        stored = (self.epoch, self.target_epoch)
        return stored == (None, None) and not self.members and not self.assigned

    def epoch_of(self, member_id: str) -> int:
        return self.assigned.get(member_id, (0, ()))[0]

    def refuse_commit(self, committer: Committer, rules: GroupRules) -> ErrorCode | None:
        if committer.epoch < 0 and self.is_empty:
            return None
        if committer.member_id not in self.members:
            return ErrorCode.UNKNOWN_MEMBER_ID
        current, held = self.assigned.get(committer.member_id, (0, ()))
        if committer.epoch > current:
            return ErrorCode.STALE_MEMBER_EPOCH
        if committer.epoch < current and any(
            (one.topic_id, one.partition) not in held for one in committer.partitions()
        ):
            return ErrorCode.STALE_MEMBER_EPOCH
        return None

    def note_commit(self, decision: Decision, member_id: str) -> None:
        """A commit is no heartbeat of these members."""

    def refuse_fetch(self, member_id: str | None, epoch: int) -> ErrorCode | None:
        if member_id is None and epoch < 0:
            return None
        if member_id not in self.members:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return None if epoch == self.epoch_of(member_id) else ErrorCode.STALE_MEMBER_EPOCH

    def refuse_offset_delete(self) -> ErrorCode | None:
        return None

    def is_subscribed(self, topic: str) -> bool:
        return any(topic in topics for topics in self.members.values())

    def retention_start_ms(self, offset: CommittedOffset) -> int | None:
        return offset.commit_timestamp_ms

    @property
    def may_expire(self) -> bool:
        return self.is_empty

    def describe(self) -> dict[str, Any]:
        return {"group_id": self.group_id, "epoch": self.epoch, "members": sorted(self.members)}

    def record_keys(self) -> Iterator[Message]:
        for member_id in self.assigned:
            yield AssignmentKey(group_id=self.group_id, member_id=member_id)
        yield TargetKey(group_id=self.group_id)
        for member_id in self.members:
            yield MemberKey(group_id=self.group_id, member_id=member_id)
        yield EpochKey(group_id=self.group_id)

    def timers(self) -> Iterator[TimerName]:
        for member_id in self.members:
            yield session_timer(self.group_id, member_id)
        yield retry_timer(self.group_id)

    def works(self) -> Iterator[WorkName]:
        yield assign_work(self.group_id)

    def refuse_waiting(self, decision: Decision, error: ErrorCode) -> None:
        """No member waits: heartbeats are answered at once."""

    def durable_view(self) -> Any:
        if self.is_forgettable:
            return None
        return self.epoch, self.target_epoch, dict(self.members), dict(self.assigned)

    def settled_view(self) -> Any:
        return self.durable_view()


def session_timer(group_id: str, member_id: str) -> TimerName:
    return (ROTA, group_id, "session", member_id)


def retry_timer(group_id: str) -> TimerName:
    return (ROTA, group_id, "retry")


def assign_work(group_id: str) -> WorkName:
    return (ROTA, group_id, "assign")


class RotaGroups:
    """The decisions about rota groups; implements `GroupType`."""

    name: ClassVar[str] = ROTA
    keys: ClassVar[tuple[type[Message], ...]] = (EpochKey, TargetKey, MemberKey, AssignmentKey)
    classic_members: Final = None

    def __init__(self, shard: Shard) -> None:
        self._shard = shard

    # State

    def apply(self, key: Message, value: Message | None) -> None:
        assert isinstance(key, EpochKey | TargetKey | MemberKey | AssignmentKey)
        shard = self._shard
        if value is None:
            found = shard.group_of(key.group_id, RotaGroup)
            if found is None:
                return
            group = found
        else:
            group = shard.group_to_apply(key.group_id, RotaGroup)
        before_bytes = group.counted_bytes
        self._apply_to(group, key, value)
        shard.count_bytes(group.counted_bytes - before_bytes)
        if group.is_forgettable:
            shard.delete(key.group_id)

    def _apply_to(self, group: RotaGroup, key: Message, value: Message | None) -> None:
        undo_log = self._shard.undo_log
        if isinstance(key, EpochKey):
            epoch = value.epoch if isinstance(value, EpochValue) else None
            undo_log.set_attribute(group, "epoch", epoch)
        elif isinstance(key, TargetKey):
            epoch = value.assignment_epoch if isinstance(value, TargetValue) else None
            undo_log.set_attribute(group, "target_epoch", epoch)
        elif isinstance(value, MemberValue) and isinstance(key, MemberKey):
            undo_log.put(group.members, key.member_id, tuple(value.subscribed_topic_names))
        elif isinstance(value, AssignmentValue) and isinstance(key, AssignmentKey):
            held = tuple((t.topic_id, p) for t in value.assigned_partitions for p in t.partitions)
            undo_log.put(group.assigned, key.member_id, (value.member_epoch, held))
        elif isinstance(key, MemberKey):
            undo_log.pop(group.members, key.member_id)
        elif isinstance(key, AssignmentKey):
            undo_log.pop(group.assigned, key.member_id)

    def loaded(self, decision: Decision, group: Group, wall_ms: int) -> None:
        assert isinstance(group, RotaGroup)
        for member_id in group.members:
            decision.set_timer(session_timer(group.group_id, member_id), SESSION_MS)
        if group.state is RotaState.ASSIGNING:
            assert group.epoch is not None
            self._begin_assigning(decision, group.group_id, group.epoch, group.members)

    def image_changed(self, decision: Decision, delta: ImageDelta) -> None:
        changed = {t.name for t in (*delta.created_topics, *delta.resized_topics)}
        for group in self._shard.groups.values():
            if isinstance(group, RotaGroup) and any(map(group.is_subscribed, changed)):
                self._raise_epoch(decision, group, group.members)

    # Decisions

    def heartbeat(
        self, group_id: str, member_id: str, epoch: int, topics: tuple[str, ...], token: Any
    ) -> Decision:
        """Replies (error, member epoch, partitions)."""
        decision = Decision()
        present = self._shard.groups.get(group_id)
        group = present if isinstance(present, RotaGroup) else RotaGroup(group_id)
        error = self._refuse_heartbeat(present, group, member_id, epoch)
        if error is not None:
            decision.reply(token, (error, -1, ()))
            return decision
        if present is not None and present is not group:
            dissolve(decision, present)
        if epoch == -1:
            self._leave(decision, group, member_id)
            decision.reply(token, (ErrorCode.NONE, -1, ()))
            return decision
        decision.set_timer(session_timer(group_id, member_id), SESSION_MS)
        if group.members.get(member_id) != topics:
            value = MemberValue(client_id="", client_host="", subscribed_topic_names=list(topics))
            decision.records.append((MemberKey(group_id=group_id, member_id=member_id), value))
            self._raise_epoch(decision, group, {**group.members, member_id: topics})
        known, held = group.assigned.get(member_id, (0, ()))
        decision.reply(token, (ErrorCode.NONE, known, held))
        return decision

    @staticmethod
    def _refuse_heartbeat(
        present: Group | None, group: RotaGroup, member_id: str, epoch: int
    ) -> ErrorCode | None:
        if present is not None and not isinstance(present, RotaGroup | ClassicGroup):
            return ErrorCode.GROUP_ID_NOT_FOUND
        if epoch != 0 and present is not group:
            return ErrorCode.GROUP_ID_NOT_FOUND
        if epoch != 0 and member_id not in group.members:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if epoch > group.epoch_of(member_id):
            return ErrorCode.FENCED_MEMBER_EPOCH
        return None

    def _leave(self, decision: Decision, group: RotaGroup, member_id: str) -> None:
        group_id = group.group_id
        for cls in (AssignmentKey, MemberKey):
            decision.records.append((cls(group_id=group_id, member_id=member_id), None))
        decision.set_timer(session_timer(group_id, member_id), None)
        remaining = {name: topics for name, topics in group.members.items() if name != member_id}
        self._raise_epoch(decision, group, remaining)

    def _raise_epoch(
        self, decision: Decision, group: RotaGroup, members: dict[str, tuple[str, ...]]
    ) -> None:
        epoch = (group.epoch or 0) + 1
        decision.records.append((EpochKey(group_id=group.group_id), EpochValue(epoch=epoch)))
        self._begin_assigning(decision, group.group_id, epoch, members)

    def _begin_assigning(
        self, decision: Decision, group_id: str, epoch: int, members: dict[str, tuple[str, ...]]
    ) -> None:
        topics = sorted({topic for topics in members.values() for topic in topics})
        by_name = self._shard.image.topics_by_name
        spec = Spec(
            epoch,
            tuple(sorted(members.items())),
            tuple(
                (name, by_name[name].topic_id, index)
                for name in topics
                if name in by_name
                for index in range(len(by_name[name].partitions))
            ),
        )
        decision.begin_work(
            assign_work(group_id),
            assign,
            spec,
            lambda result, wall_ms: self._assigned(group_id, epoch, result),
        )

    def _assigned(self, group_id: str, epoch: int, result: WorkResult) -> Decision:
        decision = Decision()
        group = self._shard.group_of(group_id, RotaGroup)
        if group is None or group.epoch != epoch:
            return decision  # gone, of another type, or changed since
        if result.error is not None:
            decision.notes.append(f"group {group_id}: {result.error}")
            decision.set_timer(retry_timer(group_id), RETRY_MS)
            return decision
        target = TargetValue(assignment_epoch=epoch)
        decision.records.append((TargetKey(group_id=group_id), target))
        for member_id, partitions in result.value.items():
            value = AssignmentValue(
                member_epoch=epoch,
                assigned_partitions=[
                    TopicPartitions(topic_id=topic_id, partitions=[index])
                    for topic_id, index in partitions
                ],
            )
            decision.records.append((AssignmentKey(group_id=group_id, member_id=member_id), value))
        return decision

    def downgrade(self, group_id: str, token: Any, wall_ms: int) -> Decision:
        """Convert the group into a classic one with the same members."""
        decision = Decision()
        group = self._shard.group_of(group_id, RotaGroup)
        if group is None:
            decision.reply(token, ErrorCode.GROUP_ID_NOT_FOUND)
            return decision
        dissolve(decision, group)
        members = [
            MemberMetadata(
                member_id=member_id,
                session_timeout=SESSION_MS,
                rebalance_timeout=SESSION_MS,
                subscription=encode_prefixed(ConsumerProtocolSubscription(topics=list(topics)), 1),
            )
            for member_id, topics in group.members.items()
        ]
        value = GroupMetadataValue(
            protocol_type="consumer",
            generation=group.epoch or 0,
            protocol="range" if members else None,
            leader=members[0].member_id if members else None,
            current_state_timestamp=wall_ms,
            members=members,
        )
        decision.records.append((GroupMetadataKey(group=group_id), value))
        decision.reply(token, ErrorCode.NONE)
        return decision

    def describe(self, group_ids: list[str], token: Any) -> Decision:
        """Replies with each group as it is, or why there is none."""
        decision = Decision()
        answers = described(
            self._shard, group_ids, RotaGroup, ROTA, lambda group_id, message: message
        )
        decision.reply(token, answers)
        return decision

    def decide_timer(self, name: TimerName, wall_ms: int) -> Decision:
        decision = Decision()
        _, group_id, what, *rest = name
        group = self._shard.group_of(group_id, RotaGroup)
        if group is None:
            return decision
        if what == "session" and rest[0] in group.members:
            self._leave(decision, group, rest[0])
        elif what == "retry" and group.epoch is not None:
            self._begin_assigning(decision, group_id, group.epoch, group.members)
        return decision
