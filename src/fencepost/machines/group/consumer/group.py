"""`ConsumerGroup`: the state of one group, changed in place by its records alone.

Theory of operation
-------------------
Every record of the group has its place, so that records may come in any order: `members` (5),
`epoch` and `metadata_hash` (3), `target` (7), `target_epoch` (6), `progress` (8), `regexes` (16).
What is looked up with every heartbeat is kept beside them as sums over members, so that none goes
through the members of a group at rest: who is which instance, how many subscribe to a topic or to
an expression, how many are in which epoch, how many hold a partition. Sums do not depend on the
order of records either; while a partition is loaded one may be 2 for a moment where the end has 1.

Invariant: a partition has one holder at most, assigned or pending revocation.

In memory alone is what is under way elsewhere, or to be done with the next heartbeat. Decisions
bring it along as `Note`s.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum
from sys import getsizeof
from typing import Any, Final, NamedTuple

from fencepost.machines.coordinator import Decision, TimerName, WorkName
from fencepost.machines.group.consumer.describe import describe_member
from fencepost.machines.group.consumer.member import (
    TOPIC_BYTES,
    Partitions,
    Progress,
    Subscription,
)
from fencepost.machines.group.consumer.timers import (
    CONSUMER,
    assign_work,
    join_timer,
    rebalance_timer,
    regex_work,
    session_timer,
    sync_timer,
)
from fencepost.machines.group.epoch_records import GroupEpochs
from fencepost.machines.group.group import Committer
from fencepost.machines.group.memory import group_bytes
from fencepost.machines.group.offsets import CommittedOffset
from fencepost.machines.group.records import GroupRecord
from fencepost.machines.group.rules import GroupRules
from fencepost.machines.group.shard import Shard
from fencepost.wire.api.consumer_group_describe import DescribedGroup
from fencepost.wire.errors import ErrorCode
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

OFFSET_EPOCHS_FROM: Final = 9
"""Version of OffsetCommit from which it brings member epochs."""

_NOT_IN_ANY: Final = Progress()
_NO_TARGET: Final[Partitions] = {}


class ConsumerGroupState(Enum):
    """The states of a consumer group, by Kafka's names."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class ResolvedRegex(NamedTuple):
    """The topics that a regular expression matched, at which metadata offset and when."""

    topics: frozenset[str]
    version: int
    timestamp_ms: int

    def size_bytes(self, regex: str) -> int:
        """What it takes of memory; the names are those of the metadata."""
        return TOPIC_BYTES + getsizeof(regex) + getsizeof(self.topics)


class NameSet(NamedTuple):
    """Names of topics that members subscribe to, kept once however many say the same."""

    names: frozenset[str]
    users: int

    @property
    def size_bytes(self) -> int:
        """What it takes of memory."""
        return getsizeof(self.names) + sum(map(getsizeof, self.names))


class ConsumerGroup(GroupEpochs):
    """See the module docstring; implements `Group`."""

    group_type: Final = CONSUMER
    protocol_type: Final = CONSUMER
    can_become_classic: Final = True

    def __init__(self, group_id: str) -> None:
        super().__init__()
        self.group_id = group_id
        self.members: dict[str, Subscription] = {}
        self.progress: dict[str, Progress] = {}
        self.target: dict[str, Partitions] = {}
        self.regexes: dict[str, ResolvedRegex] = {}
        self.has_partition_metadata = False
        """Whether there is a record that brokers of before 4.1 kept instead of the hash."""
        # Sums over members.
        self.static_members: dict[str, str] = {}  # instance id -> member id
        self.name_sets: dict[frozenset[str], NameSet] = {}
        self.topic_users: dict[str, int] = {}  # topic -> how many of the sets have it
        self.regex_users: dict[str, int] = {}
        self.assignor_users: dict[str, int] = {}
        self.classic_count = 0  # members that speak the classic protocol
        self.classic_protocols: dict[str, int] = {}  # how many of those support which
        self.stable_members: dict[int, int] = {}  # member epoch -> how many are stable in it
        self.holders: dict[Uuid, dict[int, int]] = {}  # topic -> partition -> how many hold it
        self.size_bytes = group_bytes(group_id)
        # In memory alone.
        self.rejoining: dict[str, None] = {}
        """Classic members that were told to join again, and have not yet."""
        self.is_check_due = True
        """Whether the next heartbeat looks at the topics' metadata: they may have changed."""
        self.assigning_epoch: int | None = None
        """The group epoch for which a target is being computed elsewhere."""
        self.resolving_since_ms: int | None = None
        """When the search for topics of regular expressions began, which is under way elsewhere."""
        self.failed_pass_ms = 0
        """When the last search was over that left out some topics, in ms of the wall clock."""
        self.newest_topics_at = -1
        """The metadata offset up to which topics may have been created that no search has seen."""

    # What it is

    @property
    def state(self) -> ConsumerGroupState:
        """By members and epochs."""
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.target_epoch:
            return ConsumerGroupState.ASSIGNING
        if self.stable_members.get(self.target_epoch, 0) < len(self.members):
            return ConsumerGroupState.RECONCILING
        return ConsumerGroupState.STABLE

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
            and not self.has_partition_metadata
            and not (self.members or self.progress or self.target or self.regexes)
        )

    def progress_of(self, member_id: str) -> Progress:
        """How far the member has come; one without a record has nothing yet."""
        return self.progress.get(member_id, _NOT_IN_ANY)

    def target_of(self, member_id: str) -> Partitions:
        """What the member is to have; nothing if no target has been computed since it came."""
        return self.target.get(member_id, _NO_TARGET)

    def topic_names_of(self, member: Subscription) -> frozenset[str]:
        """All topics that the member subscribes to: by name, and by an expression if resolved."""
        resolved = self.regexes.get(member.regex) if member.regex else None
        return member.topic_names if resolved is None else member.topic_names | resolved.topics

    @property
    def topic_names(self) -> set[str]:
        """All topics that members subscribe to."""
        names = set(self.topic_users)
        for regex in self.regex_users:
            resolved = self.regexes.get(regex)
            if resolved is not None:
                names |= resolved.topics
        return names

    def supports_classic(self, protocols: Iterable[tuple[str, bytes]]) -> bool:
        """Whether a classic member fits in: all others of its kind support one of these, too."""
        counts = self.classic_protocols
        return any(counts.get(name, 0) == self.classic_count for name, _ in protocols)

    def is_held(self, topic_id: Uuid, index: int) -> bool:
        """Whether a member has the partition, or has yet to give it up."""
        return index in self.holders.get(topic_id, ())

    # Offsets

    def refuse_commit(self, committer: Committer, rules: GroupRules) -> ErrorCode | None:
        """Members commit in their epoch, or in an older one for what they have since then.

        Without members every client commits; so does a transaction of before KIP-447.
        """
        if committer.epoch < 0 and not self.members:
            return None
        if committer.is_transactional and not committer.names_member:
            return None
        member = self.members.get(committer.member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        is_classic = member.classic is not None
        is_old_version = committer.api_version < OFFSET_EPOCHS_FROM
        if not is_classic and not committer.is_transactional and is_old_version:
            return ErrorCode.UNSUPPORTED_VERSION
        progress = self.progress_of(committer.member_id)
        if committer.epoch == progress.epoch:
            return None
        if committer.epoch < progress.epoch and all(
            _is_since(progress.holds_since(one.topic_id, one.partition), committer.epoch)
            for one in committer.partitions()
        ):
            return None
        return ErrorCode.ILLEGAL_GENERATION if is_classic else ErrorCode.STALE_MEMBER_EPOCH

    def note_commit(self, decision: Decision[GroupRecord], member_id: str) -> None:
        """A commit is no heartbeat of a member of the consumer protocol."""

    def refuse_fetch(self, member_id: str | None, epoch: int) -> ErrorCode | None:
        """A member has to be in the epoch that it names."""
        if member_id is None and epoch < 0:
            return None
        member = None if member_id is None else self.members.get(member_id)
        if member is None or member_id is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if epoch == self.progress_of(member_id).epoch:
            return None
        is_classic = member.classic is not None
        return ErrorCode.ILLEGAL_GENERATION if is_classic else ErrorCode.STALE_MEMBER_EPOCH

    def refuse_offset_delete(self) -> ErrorCode | None:
        """Which topics are read is known."""
        return None

    def is_subscribed(self, topic: str) -> bool:
        """Whether a member subscribes to the topic."""
        return topic in self.topic_users or any(
            topic in self.regexes[regex].topics
            for regex in self.regex_users
            if regex in self.regexes
        )

    def reads_any(self, topics: set[str]) -> bool:
        """Whether a member subscribes to one of the topics."""
        return not self.topic_users.keys().isdisjoint(topics) or any(
            not self.regexes[regex].topics.isdisjoint(topics)
            for regex in self.regex_users
            if regex in self.regexes
        )

    def retention_start_ms(self, offset: CommittedOffset) -> int | None:
        """Retention counts from the commit on."""
        return offset.commit_timestamp_ms

    @property
    def may_expire(self) -> bool:
        """Not while members are there."""
        return not self.members

    # Administration, and the end of the group

    def describe(self) -> DescribedGroup:
        """As ConsumerGroupDescribe has it, but for the assignor and the names of topics."""
        return DescribedGroup(
            group_id=self.group_id,
            group_state=self.state.value,
            group_epoch=self.epoch,
            assignment_epoch=self.target_epoch,
            members=[
                describe_member(
                    member_id, said, self.progress_of(member_id), self.target_of(member_id)
                )
                for member_id, said in self.members.items()
            ],
        )

    def record_keys(self) -> Iterator[Message]:
        """All that may be in the log of it, in the order of their deletion."""
        group_id = self.group_id
        for member_id in self.progress:
            yield ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id)
        for member_id in self.target:
            yield ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)
        yield ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id)
        for member_id in self.members:
            yield ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id)
        for regex in self.regexes:
            yield ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex)
        if self.has_partition_metadata:
            yield ConsumerGroupPartitionMetadataKey(group_id=group_id)
        yield ConsumerGroupMetadataKey(group_id=group_id)

    def timers(self) -> Iterator[TimerName]:
        """Sessions of members, their rebalances, and what classic ones have to do in time."""
        for member_id in self.members:
            yield session_timer(self.group_id, member_id)
            yield rebalance_timer(self.group_id, member_id)
            if self.members[member_id].classic is not None:
                yield join_timer(self.group_id, member_id)
                yield sync_timer(self.group_id, member_id)

    def works(self) -> tuple[WorkName, ...]:
        """A target being computed, and regular expressions being looked up."""
        return assign_work(self.group_id), regex_work(self.group_id)

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
            dict(self.regexes),
        )

    def settled_view(self) -> Any:
        """The same, while it is empty or stable."""
        settled = (ConsumerGroupState.EMPTY, ConsumerGroupState.STABLE)
        return self.durable_view() if self.state in settled else None


def _is_since(assigned_in: int | None, epoch: int) -> bool:
    return assigned_in is not None and epoch >= assigned_in


class Note(NamedTuple):
    """A `shard.Change`: the group remembers something in memory alone, if it is there."""

    group_id: str
    name: str
    value: Any

    def apply_to(self, shard: Shard) -> None:
        """Set the attribute."""
        group = shard.group_of(self.group_id, ConsumerGroup)
        if group is not None:
            shard.undo_log.set_attribute(group, self.name, self.value)


class Rejoining(NamedTuple):
    """A `shard.Change`: a classic member is told to join again, or has joined."""

    group_id: str
    member_id: str
    is_told: bool

    def apply_to(self, shard: Shard) -> None:
        """Remember it, or that it is done."""
        group = shard.group_of(self.group_id, ConsumerGroup)
        if group is None:
            return
        if self.is_told:
            shard.undo_log.put(group.rejoining, self.member_id, None)
        else:
            shard.undo_log.pop(group.rejoining, self.member_id)
