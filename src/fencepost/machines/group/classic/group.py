"""Classic groups as values: members, what they support, and what is stored of them.

Theory of operation
-------------------
What a group durably is was written in its last GroupMetadata record: generation, protocol, leader,
members with their subscriptions and assignments. `ClassicGroup.take_over` is the only way that
this enters a group, whether the record was decided a moment ago or is read back from the log. A
stored group has two states: `STABLE` with members, `EMPTY` without.

Everything else is ephemeral: it is lost with the coordinator, and the members' retries bring it
back. Ephemeral are the two states of a rebalance, members that joined since the last record, the
full lists of protocols, and requests that wait.

Members are immutable, and so is a group that a shard holds. A decision works on a `draft` of a
group of its own; the draft takes the group's place if the decision is carried out.

    EMPTY ──────────────> PREPARING_REBALANCE <────────────── STABLE
      ^     a member joins      │      ^      a member joins,    ^
      │                         │      │      leaves or is late   │
      └── no member is left ────┤      │                          │
          (a record)            v      │                          │
                        COMPLETING_REBALANCE ─────────────────────┘
                         members know the generation,    the leader sent the assignment
                         the leader assigns              (a record)

The first record of a group is written when its first member joins, or is given an id; it says that
there is a group and has no generation. A group that never had members and only keeps offsets (a
"simple" group) has no record of its own: it is there as long as it has offsets.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from copy import copy
from typing import Any, Final

from fencepost.machines.coordinator import Decision, TimerName, WorkName
from fencepost.machines.group.classic.member import GroupState, Member
from fencepost.machines.group.classic.refusals import refuse_waiting
from fencepost.machines.group.classic.timers import CLASSIC, join_timer, session_timer, sync_timer
from fencepost.machines.group.group import Committer
from fencepost.machines.group.memory import group_bytes, pending_member_bytes
from fencepost.machines.group.next_epoch import next_epoch
from fencepost.machines.group.offsets import CommittedOffset
from fencepost.machines.group.records import GroupRecord
from fencepost.machines.group.rules import GroupRules
from fencepost.machines.group.shard import Shard
from fencepost.wire.api.describe_groups import DescribedGroup
from fencepost.wire.errors import DecodeError, ErrorCode
from fencepost.wire.message import Message
from fencepost.wire.records.consumer import ConsumerProtocolSubscription
from fencepost.wire.records.group import GroupMetadataKey, GroupMetadataValue, MemberMetadata

CONSUMER_PROTOCOL_TYPE: Final = "consumer"
_VERSION_BYTES: Final = 2


class ClassicGroup:
    """One classic group; see the module. Implements `Group`."""

    group_type: Final = CLASSIC
    can_become_classic: Final = True

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.size_bytes = group_bytes(group_id)
        """What the group and its members take of memory, as far as clients decide it."""
        self.stored: GroupMetadataValue | None = None
        self.state = GroupState.EMPTY
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.leader_id: str | None = None
        self.members: dict[str, Member] = {}  # in the order they came
        self.protocol_users: dict[str, int] = {}  # protocol -> how many members support it
        self.joined_count = 0
        """How many members wait in JoinGroup."""
        self.static_members: dict[str, str] = {}  # instance id -> member id
        self.state_timestamp_ms = -1
        self.subscribed_topics: frozenset[str] | None = None
        # Ephemeral from here on.
        self.pending_members: dict[str, None] = {}  # ids given out, not yet used
        self.pending_sync: dict[str, None] = {}  # members of the generation yet to be heard of
        self.is_initial_rebalance = False
        self.new_member_added = False
        self.initial_delay_ms = 0
        self.initial_remaining_ms = 0

    def draft(self) -> ClassicGroup:
        """A copy that a decision may change as it likes."""
        draft = copy(self)
        draft.members = dict(self.members)
        draft.protocol_users = dict(self.protocol_users)
        draft.static_members = dict(self.static_members)
        draft.pending_members = dict(self.pending_members)
        draft.pending_sync = dict(self.pending_sync)
        return draft

    def apply_to(self, shard: Shard) -> None:
        """The draft takes the place of the group (`shard.Change`)."""
        shard.put(self)

    # What is stored

    def take_over(self, value: GroupMetadataValue) -> None:
        """The group is what its record says; members keep the ephemeral half that they have.

        A record without a generation is that of a group just made: members of it may be joining.
        """
        before, is_first = self.members, self.stored is None
        self.stored = value
        if is_first and not value.generation and not value.members:
            self.state_timestamp_ms = value.current_state_timestamp
            return
        self.generation = value.generation
        self.protocol_type = value.protocol_type or None
        self.protocol = value.protocol
        self.leader_id = value.leader
        self.state_timestamp_ms = value.current_state_timestamp
        self.members, self.protocol_users, self.joined_count = {}, {}, 0
        for stored in value.members:
            member = Member.from_record(stored, value.protocol)
            if stored.member_id in before:
                member = member.with_ephemeral_half_of(before[stored.member_id])
            self._put(member)
        self.measure()
        self._index_static_members()
        if not self.members:
            self.state = GroupState.EMPTY
        elif self.state is not GroupState.PREPARING_REBALANCE:
            # Else it was a consumer group until this record, and rebalances as a classic one.
            self.state = GroupState.STABLE
        self.is_initial_rebalance = False
        self.subscribed_topics = self._subscriptions()

    def as_record(self, assignments: Mapping[str, bytes], wall_ms: int) -> GroupMetadataValue:
        """The record that stores the group with these assignments, as of now."""
        members = []
        for member in self.members.values():
            assert self.protocol is not None
            members.append(
                MemberMetadata(
                    member_id=member.member_id,
                    group_instance_id=member.instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    rebalance_timeout=member.rebalance_timeout_ms,
                    session_timeout=member.session_timeout_ms,
                    subscription=member.metadata(self.protocol),
                    assignment=assignments[member.member_id],
                )
            )
        return GroupMetadataValue(
            protocol_type=self.protocol_type or "",
            generation=self.generation,
            protocol=self.protocol,
            leader=self.leader_id,
            current_state_timestamp=wall_ms,
            members=members,
        )

    # Members

    def add(self, member: Member, protocol_type: str) -> None:
        """A member joins; the first decides the protocol type and leads for now."""
        assert member.member_id not in self.members
        if member.instance_id is not None:
            assert member.instance_id not in self.static_members
            self.static_members[member.instance_id] = member.member_id
        if not self.members:
            self.protocol_type = protocol_type
        assert self.protocol_type == protocol_type
        if self.leader_id is None:
            self.leader_id = member.member_id
        self._put(member)
        self.size_bytes += member.size_bytes
        self._drop_pending(member.member_id)

    def _put(self, member: Member) -> None:
        """The member is this one, in the place of the one of its id if there is one."""
        before = self.members.get(member.member_id)
        if before is not None:
            self._count(before, -1)
        self.members[member.member_id] = member
        self._count(member, 1)

    def _take_out(self, member_id: str) -> Member | None:
        member = self.members.pop(member_id, None)
        if member is not None:
            self._count(member, -1)
        return member

    def _count(self, member: Member, change: int) -> None:
        """Bring the sums over members up to date: a request looks at these, not at thousands."""
        if member.awaits_join:
            self.joined_count += change
        users = self.protocol_users
        for name in {name for name, _ in member.protocols}:
            left = users[name] = users.get(name, 0) + change
            if not left:
                del users[name]

    def add_pending(self, member_id: str) -> None:
        """An id is given out; the client may join with it."""
        assert member_id not in self.pending_members
        self.pending_members[member_id] = None
        self.size_bytes += pending_member_bytes(member_id)

    def _drop_pending(self, member_id: str) -> None:
        if member_id in self.pending_members:
            del self.pending_members[member_id]
            self.size_bytes -= pending_member_bytes(member_id)

    def update(self, member_id: str, **changes: Any) -> Member:
        """The member is another in these fields from now on; the member as it is then."""
        before = self.members[member_id]
        member = before._replace(**changes)
        if "protocols" in changes:
            self._put(member)
        else:
            self.members[member_id] = member
            self.joined_count += member.awaits_join - before.awaits_join
        if "protocols" in changes or "assignment" in changes:
            self.size_bytes += member.size_bytes - before.size_bytes
        return member

    def clear_assignments(self) -> None:
        """No member reads anything until the leader assigns again."""
        for member_id in self.members:
            self.update(member_id, assignment=b"")

    def measure(self) -> None:
        """Compute `size_bytes` from the members."""
        self.size_bytes = (
            group_bytes(self.group_id)
            + sum(member.size_bytes for member in self.members.values())
            + sum(map(pending_member_bytes, self.pending_members))
        )

    def remove(self, member_id: str) -> None:
        """Forget a member or a pending member; the next in line leads if it did."""
        member = self._take_out(member_id)
        if member is not None:
            self.size_bytes -= member.size_bytes
            if member.instance_id is not None:
                self.static_members.pop(member.instance_id, None)
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        self._drop_pending(member_id)
        self.pending_sync.pop(member_id, None)

    def replace_static(self, old_id: str, new_id: str) -> Member:
        """A static member came back under a new id; the old member, whose requests wait in vain."""
        old = self._take_out(old_id)
        assert old is not None and old.instance_id is not None
        new = old._replace(member_id=new_id, join_token=None, sync_token=None, is_new=False)
        self._put(new)
        self.size_bytes += new.size_bytes - old.size_bytes
        self.static_members[old.instance_id] = new_id
        if self.leader_id == old_id:
            self.leader_id = new_id
        return old

    def validate_member(self, member_id: str, instance_id: str | None) -> ErrorCode | None:
        """None if `member_id` may speak; for an instance, one member at most may (KIP-345)."""
        if instance_id is not None:
            current_id = self.static_members.get(instance_id)
            if current_id is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if current_id != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return None if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    def is_leader(self, member_id: str) -> bool:
        """Whether the member assigns."""
        return self.leader_id == member_id

    def elect_joined_leader(self) -> bool:
        """Make sure the leader is a member that has joined; False if no member has."""
        leader = self.members.get(self.leader_id or "")  # a record may name a leader that is none
        if leader is not None and leader.awaits_join:
            return True
        for member in self.members.values():
            if member.awaits_join:
                self.leader_id = member.member_id
                return True
        return False

    @property
    def has_all_joined(self) -> bool:
        """Whether all members have joined the next generation."""
        return not self.pending_members and self.joined_count == len(self.members)

    @property
    def rebalance_timeout_ms(self) -> int:
        """The most patience any member asks for."""
        return max((m.rebalance_timeout_ms for m in self.members.values()), default=0)

    @property
    def counted_bytes(self) -> int:
        """What of `size_bytes` counts: a group that only keeps offsets takes nothing."""
        return 0 if self.is_forgettable else self.size_bytes

    @property
    def is_forgettable(self) -> bool:
        """Whether nothing is known of the group but perhaps offsets."""
        return self.stored is None and not self.members and not self.pending_members

    # Protocols

    def supports(self, protocol_type: str, names: Iterable[str]) -> bool:
        """Whether a member with these protocols fits in with those that are there."""
        if not self.members:
            return bool(protocol_type) and any(True for _ in names)
        common = self._candidates()
        return protocol_type == self.protocol_type and any(name in common for name in names)

    @property
    def has_common_protocol(self) -> bool:
        """Whether there is a protocol that all members support."""
        return bool(self._candidates())

    def select_protocol(self) -> str:
        """The protocol all support that most put first among those."""
        candidates = self._candidates()
        votes: dict[str, int] = {}
        for member in self.members.values():
            choice = next(name for name, _ in member.protocols if name in candidates)
            votes[choice] = votes.get(choice, 0) + 1
        return max(votes, key=lambda name: votes[name])

    def _candidates(self) -> dict[str, None]:
        """The protocols that all members support, in the order of the first member's."""
        first = next(iter(self.members.values()), None)
        if first is None:
            return {}
        users, count = self.protocol_users, len(self.members)
        return {name: None for name, _ in first.protocols if users[name] == count}

    def begin_generation(self) -> None:
        """The members that are there become the next generation, which the leader assigns."""
        self.generation = next_epoch(self.generation)
        self.protocol = self.select_protocol()
        self.state = GroupState.COMPLETING_REBALANCE
        self.is_initial_rebalance = False
        self.subscribed_topics = self._subscriptions()

    # Subscriptions

    @property
    def uses_consumer_protocol(self) -> bool:
        """Whether subscriptions can be read, and so offsets of unread topics found."""
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    def is_subscribed(self, topic: str) -> bool:
        """Whether the group may be reading `topic`; where that cannot be known, it may."""
        if self.subscribed_topics is None:
            return self.uses_consumer_protocol
        return topic in self.subscribed_topics

    def _subscriptions(self) -> frozenset[str] | None:
        """All topics the members named; None if that cannot be read."""
        if not self.uses_consumer_protocol:
            return None
        topics: set[str] = set()
        for member in self.members.values():
            if self.protocol is None:
                return None
            # Every version begins like version 0, which is all that is needed.
            data = member.metadata(self.protocol)
            try:
                topics.update(ConsumerProtocolSubscription.read(data, _VERSION_BYTES, 0)[0].topics)
            except DecodeError:
                return None
        return frozenset(topics)

    def _index_static_members(self) -> None:
        self.static_members = {
            member.instance_id: member.member_id
            for member in self.members.values()
            if member.instance_id is not None
        }

    # Offsets

    def refuse_commit(self, committer: Committer, rules: GroupRules) -> ErrorCode | None:
        """Members commit in the current generation; while the group is empty, any client may.

        A transactional commit without a generation is of a producer of before KIP-447, and may
        come while members wait for their assignment.
        """
        is_empty = self.state is GroupState.EMPTY
        if committer.epoch < 0 and is_empty:
            return None
        if committer.names_member:
            error = self.validate_member(committer.member_id, committer.instance_id)
            if error is not None:
                return error
            if not rules.may_commit(committer.epoch, self.generation):
                return ErrorCode.ILLEGAL_GENERATION
        elif not is_empty and not committer.is_transactional:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if self.state is GroupState.COMPLETING_REBALANCE and not committer.is_transactional:
            # It knows the generation and not yet what it is to read: what it commits is the past's.
            return ErrorCode.REBALANCE_IN_PROGRESS
        return None

    def note_commit(self, decision: Decision[GroupRecord], member_id: str) -> None:
        """A commit counts as a heartbeat."""
        member = self.members.get(member_id)
        if member is not None and self.state is not GroupState.COMPLETING_REBALANCE:
            timer = session_timer(self.group_id, member_id)
            decision.set_timer(timer, member.session_timeout_ms)

    def refuse_fetch(self, member_id: str | None, epoch: int) -> ErrorCode | None:
        """A client that may read the group may read its offsets, member or not."""
        return None

    def refuse_offset_delete(self) -> ErrorCode | None:
        """Of a group with members, only subscriptions tell which topics are read."""
        if self.state is not GroupState.EMPTY and not self.uses_consumer_protocol:
            return ErrorCode.NON_EMPTY_GROUP
        return None

    def retention_start_ms(self, offset: CommittedOffset) -> int | None:
        """When the group became empty, or the commit; None while the group keeps all offsets."""
        if self.protocol_type is None:
            return offset.commit_timestamp_ms
        if self.state is GroupState.EMPTY:
            since_ms = self.state_timestamp_ms
            return offset.commit_timestamp_ms if since_ms < 0 else since_ms
        if self.uses_consumer_protocol and self.state is GroupState.STABLE:
            return None if self.subscribed_topics is None else offset.commit_timestamp_ms
        return None

    @property
    def may_expire(self) -> bool:
        """Not while members are there, or ids given out."""
        return self.state is GroupState.EMPTY and not self.pending_members

    # Administration, and the end of the group

    @property
    def is_empty(self) -> bool:
        """Whether it is in that state: it has no members, and no rebalance is under way."""
        return self.state is GroupState.EMPTY

    @property
    def member_count(self) -> int:
        """How many members it has."""
        return len(self.members)

    def describe(self) -> DescribedGroup:
        """As DescribeGroups has it; metadata and the protocol only while it is stable."""
        protocol = (self.protocol or "") if self.state is GroupState.STABLE else None
        return DescribedGroup(
            group_id=self.group_id,
            group_state=self.state.value,
            protocol_type=self.protocol_type or "",
            protocol_data=protocol or "",
            members=[member.describe(protocol) for member in self.members.values()],
        )

    def record_keys(self) -> Iterator[Message]:
        """The one record."""
        yield GroupMetadataKey(group=self.group_id)

    def timers(self) -> Iterator[TimerName]:
        """Sessions of members and of ids given out, and the rebalance's."""
        for member_id in (*self.members, *self.pending_members):
            yield session_timer(self.group_id, member_id)
        yield join_timer(self.group_id)
        yield sync_timer(self.group_id)

    def works(self) -> tuple[WorkName, ...]:
        """None: members assign."""
        return ()

    def refuse_waiting(self, decision: Decision[GroupRecord], error: ErrorCode) -> None:
        """Answer every JoinGroup and SyncGroup that waits."""
        for member in self.members.values():
            refuse_waiting(decision, member, error)

    # Comparing

    def durable_view(self) -> GroupMetadataValue | None:
        """The group's record."""
        return self.stored

    def settled_view(self) -> Any:
        """What is seen of a group that no rebalance is under way in."""
        if self.state not in (GroupState.STABLE, GroupState.EMPTY):
            return None
        return (
            self.state,
            self.generation,
            self.protocol_type,
            self.protocol,
            self.leader_id,
            {m.member_id: (m.instance_id, m.assignment) for m in self.members.values()},
            self.static_members,
            self.subscribed_topics,
        )
