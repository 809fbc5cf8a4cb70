"""`Group`: what the coordinator, offsets and administrators need of a group of any type.

A shard holds groups of several types under their ids, an id once. What is particular to a type is
in the type's own room (`classic`); offsets, listing, deletion and conversion work with this
protocol alone. A group decides nothing: it answers from its state, and where an answer has
consequences (a timer, a tombstone) it adds them to the decision under way.

Two ways to change a group are allowed, and a type chooses one for each of its records. A small
group may be a value: a decision works on a draft of it, which `Shard.put` puts in its place. A
group of thousands of members whose records arrive one at a time is changed in place, by `apply`
alone, with every change noted in the shard's undo log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any, NamedTuple, Protocol

from fencepost.machines.coordinator import Decision, TimerName, WorkName
from fencepost.machines.group.offsets import CommittedOffset
from fencepost.machines.group.records import GroupRecord
from fencepost.machines.group.rules import GroupRules
from fencepost.wire.errors import ErrorCode
from fencepost.wire.message import Message
from fencepost.wire.types import Uuid


class OffsetPartition(NamedTuple):
    """A partition that an offset is committed for; the id is zero where the request had none."""

    topic: str
    topic_id: Uuid
    partition: int


class Committer(NamedTuple):
    """Who commits offsets, and for what.

    `epoch` is the generation, or the member epoch (KIP-848), or -1. `partitions` lists what the
    request names, for types that allow an older epoch partition by partition (KIP-1251).
    """

    member_id: str
    instance_id: str | None
    epoch: int
    api_version: int
    is_transactional: bool
    partitions: Callable[[], Iterable[OffsetPartition]]

    @property
    def names_member(self) -> bool:
        """Whether the request comes from a member, not from an administrator."""
        return self.epoch >= 0 or bool(self.member_id) or self.instance_id is not None


class Group(Protocol):
    """See the module docstring."""

    def __init__(self, group_id: str) -> None: ...

    @property
    def group_id(self) -> str:
        """Its id."""
        ...

    @property
    def group_type(self) -> str:
        """The name of its type, as ListGroups gives it: "classic"."""
        ...

    @property
    def state(self) -> Enum:
        """Its state; the value is Kafka's name for it."""
        ...

    @property
    def protocol_type(self) -> str | None:
        """The protocol type that ListGroups gives; None if there is none."""
        ...

    @property
    def is_empty(self) -> bool:
        """Whether its state is Empty: it has no members, and may be deleted."""
        ...

    @property
    def member_count(self) -> int:
        """How many members it has."""
        ...

    # Memory

    @property
    def counted_bytes(self) -> int:
        """What it takes of memory, as far as clients decide it (`memory`)."""
        ...

    @property
    def is_forgettable(self) -> bool:
        """Whether nothing is known of it but perhaps offsets."""
        ...

    # Offsets

    def refuse_commit(self, committer: Committer, rules: GroupRules) -> ErrorCode | None:
        """Why offsets of `committer` are not taken; None if they are."""
        ...

    def note_commit(self, decision: Decision[GroupRecord], member_id: str) -> None:
        """Offsets of the member are taken: where the type counts that as a heartbeat, it is one."""
        ...

    def refuse_fetch(self, member_id: str | None, epoch: int) -> ErrorCode | None:
        """Why a member of that epoch is not given committed offsets; None if it is."""
        ...

    def refuse_offset_delete(self) -> ErrorCode | None:
        """Why none of its offsets may be deleted; None if those of unread topics may."""
        ...

    def is_subscribed(self, topic: str) -> bool:
        """Whether the group may be reading the topic; where that cannot be known, it may."""
        ...

    def retention_start_ms(self, offset: CommittedOffset) -> int | None:
        """From when on an offset's retention counts, in ms of the wall clock; None: not yet."""
        ...

    @property
    def may_expire(self) -> bool:
        """Whether the group goes when its last offset has expired."""
        ...

    # Administration, and the end of a group

    def describe(self) -> Any:
        """The group as the Describe API of its type has it."""
        ...

    def record_keys(self) -> Iterable[Message]:
        """The keys of all records that may be in the log of it, in the order of their deletion."""
        ...

    def timers(self) -> Iterable[TimerName]:
        """All timers that may be set for it."""
        ...

    def works(self) -> Iterable[WorkName]:
        """All work elsewhere that may be under way for it."""
        ...

    @property
    def can_become_classic(self) -> bool:
        """Whether the group, while it is empty, becomes a classic one when a JoinGroup comes."""
        ...

    def refuse_waiting(self, decision: Decision[GroupRecord], error: ErrorCode) -> None:
        """Answer every request of a member that waits."""
        ...

    # Comparing

    def durable_view(self) -> Any:
        """What its records store, as plain values; None if nothing is stored of it."""
        ...

    def settled_view(self) -> Any:
        """What members and administrators see of it; None while that is about to change."""
        ...


def dissolve(decision: Decision[GroupRecord], group: Group) -> None:
    """End a group as one of its type, whether it is deleted or becomes one of another type.

    Tombstones for all its records go behind the decision's; its timers and its work elsewhere are
    cancelled; members that wait are answered REBALANCE_IN_PROGRESS, so that they join again.
    """
    group.refuse_waiting(decision, ErrorCode.REBALANCE_IN_PROGRESS)
    decision.records += [(key, None) for key in group.record_keys()]
    for timer in group.timers():
        decision.set_timer(timer, None)
    for work in group.works():
        decision.drop_work(work)
