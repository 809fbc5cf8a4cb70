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
group, which nobody else sees; the draft takes the group's place if the decision is carried out.

    EMPTY ──────────────> PREPARING_REBALANCE <────────────── STABLE
      ^     a member joins      │      ^      a member joins,    ^
      │                         │      │      leaves or is late   │
      └── nobody is left ───────┤      │                          │
          (a record)            v      │                          │
                        COMPLETING_REBALANCE ─────────────────────┘
                         members know the generation,    the leader sent the assignment
                         the leader assigns              (a record)

A group that never had members and only keeps offsets (a "simple" group) has no record of its own:
it is there as long as it has offsets.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from enum import Enum
from typing import Any, Final, NamedTuple

from fencepost.machines.group.memory import group_bytes, member_bytes, pending_member_bytes
from fencepost.wire.errors import DecodeError, ErrorCode
from fencepost.wire.records.consumer import ConsumerProtocolSubscription
from fencepost.wire.records.group import GroupMetadataValue, MemberMetadata

CONSUMER_PROTOCOL_TYPE: Final = "consumer"
_VERSION_BYTES: Final = 2

Protocols = tuple[tuple[str, bytes], ...]
"""What a member supports, its favourite first: (name, metadata)."""


class GroupState(Enum):
    """The states of a classic group, by Kafka's names."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"
    """Only said of groups that do not exist."""


class Member(NamedTuple):
    """One member. The stored half first, the ephemeral half below."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: Protocols
    assignment: bytes = b""

    join_token: Any = None
    """The JoinGroup request of it that waits."""
    sync_token: Any = None
    """The SyncGroup request of it that waits."""
    is_new: bool = False
    """Whether it was never yet in a generation."""

    @classmethod
    def from_record(cls, stored: MemberMetadata, protocol: str | None) -> Member:
        """A member as its group's record has it: it supports the protocol that was chosen."""
        rebalance_timeout_ms = stored.rebalance_timeout
        if rebalance_timeout_ms == -1:
            rebalance_timeout_ms = stored.session_timeout
        return cls(
            stored.member_id,
            stored.group_instance_id,
            stored.client_id,
            stored.client_host,
            rebalance_timeout_ms,
            stored.session_timeout,
            ((protocol or "", bytes(stored.subscription)),),
            bytes(stored.assignment),
        )

    def with_ephemeral_half_of(self, before: Member) -> Member:
        """This member, with what is not stored of `before`, which it was until its record.

        A record has one of the protocols that a member supports. If the others are known and were
        offered along with this one they stay known; those of an older record say nothing.
        """
        return self._replace(
            join_token=before.join_token,
            sync_token=before.sync_token,
            is_new=before.is_new,
            protocols=(
                before.protocols if self.protocols[0] in before.protocols else self.protocols
            ),
        )

    @property
    def size_bytes(self) -> int:
        """What the member takes of memory, as far as clients decide it."""
        texts = (self.member_id, self.instance_id, self.client_id, self.client_host)
        return member_bytes(self.protocols, self.assignment, *texts)

    @property
    def awaits_join(self) -> bool:
        """Whether a JoinGroup request of it waits."""
        return self.join_token is not None

    @property
    def awaits_sync(self) -> bool:
        """Whether a SyncGroup request of it waits."""
        return self.sync_token is not None

    def metadata(self, protocol: str) -> bytes:
        """What it said for `protocol`, which it supports."""
        for name, metadata in self.protocols:
            if name == protocol:
                return metadata
        raise AssertionError(f"{self.member_id} does not support {protocol}")


class ClassicGroup:
    """One classic group; see the module."""

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
        draft.static_members = dict(self.static_members)
        draft.pending_members = dict(self.pending_members)
        draft.pending_sync = dict(self.pending_sync)
        return draft

    # What is stored

    def take_over(self, value: GroupMetadataValue) -> None:
        """The group is what its record says; members keep the ephemeral half that they have."""
        before = self.members
        self.stored = value
        self.generation = value.generation
        self.protocol_type = value.protocol_type or None
        self.protocol = value.protocol
        self.leader_id = value.leader
        self.state_timestamp_ms = value.current_state_timestamp
        self.members = {}
        for stored in value.members:
            member = Member.from_record(stored, value.protocol)
            if stored.member_id in before:
                member = member.with_ephemeral_half_of(before[stored.member_id])
            self.members[member.member_id] = member
        self.measure()
        self._index_static_members()
        self.state = GroupState.STABLE if self.members else GroupState.EMPTY
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
        self.members[member.member_id] = member
        self.size_bytes += member.size_bytes
        self._drop_pending(member.member_id)

    def add_pending(self, member_id: str) -> None:
        """An id is given out; whoever got it may come back with it."""
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
        member = self.members[member_id] = before._replace(**changes)
        if "protocols" in changes or "assignment" in changes:
            self.size_bytes += member.size_bytes - before.size_bytes
        return member

    def clear_assignments(self) -> None:
        """Nobody is to read anything until the leader assigns anew."""
        for member_id in self.members:
            self.update(member_id, assignment=b"")

    def measure(self) -> None:
        """Count `size_bytes` anew."""
        self.size_bytes = (
            group_bytes(self.group_id)
            + sum(member.size_bytes for member in self.members.values())
            + sum(map(pending_member_bytes, self.pending_members))
        )

    def remove(self, member_id: str) -> None:
        """Forget a member or a pending member; the next in line leads if it did."""
        member = self.members.pop(member_id, None)
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
        old = self.members.pop(old_id)
        assert old.instance_id is not None
        new = old._replace(member_id=new_id, join_token=None, sync_token=None, is_new=False)
        self.members[new_id] = new
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
        if self.leader_id is None:
            return False
        if self.members[self.leader_id].awaits_join:
            return True
        for member in self.members.values():
            if member.awaits_join:
                self.leader_id = member.member_id
                return True
        return False

    @property
    def joined_count(self) -> int:
        """How many members wait in JoinGroup."""
        return sum(member.awaits_join for member in self.members.values())

    @property
    def has_all_joined(self) -> bool:
        """Whether nobody is missing for the next generation."""
        return not self.pending_members and all(m.awaits_join for m in self.members.values())

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

    def select_protocol(self) -> str:
        """The protocol all support that most put first among those."""
        candidates = self._candidates()
        votes: dict[str, int] = {}
        for member in self.members.values():
            choice = next(name for name, _ in member.protocols if name in candidates)
            votes[choice] = votes.get(choice, 0) + 1
        return max(votes, key=lambda name: votes[name])

    def _candidates(self) -> dict[str, None]:
        common: dict[str, None] | None = None
        for member in self.members.values():
            names = {name for name, _ in member.protocols}
            if common is None:
                common = dict.fromkeys(name for name, _ in member.protocols)
            else:
                common = {name: None for name in common if name in names}
        return common or {}

    def begin_generation(self) -> None:
        """The members that are there become the next generation, which the leader assigns."""
        self.generation += 1
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


def protocols_of(offered: Sequence[Any]) -> Protocols:
    """JoinGroup's protocols as plain values, the first of equal names kept."""
    protocols: dict[str, bytes] = {}
    for protocol in offered:
        protocols.setdefault(protocol.name, bytes(protocol.metadata))
    return tuple(protocols.items())
