"""One consumer's membership in a classic group, without I/O: what to send next, what it means.

A driver sends what `next_request` returns to the group's coordinator and hands the answer to
`on_response`, over and over; `wait_ms` says when to ask again. The coordinator's own errors
(NOT_COORDINATOR and its like) are the driver's: it finds the coordinator and sends again.

    UNJOINED --JoinGroup--> SYNCING --SyncGroup--> STABLE --Heartbeat--> STABLE
                       \\--> ASSIGNING --assign()--/

The leader of a generation is told what all members subscribe to and is asked to `assign`.
Rebalances are eager: a member that must join again gives up its partitions before, so the driver
commits what it has read while `may_commit` and stops reading. A generation that the coordinator
does not know any more (ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID) is lost: others may read its
partitions.

KIP-62 (rebalance timeout), KIP-345 (static members), KIP-394 (member ids), KIP-814 (a returning
static leader leaves the assignment as it is).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import Any, Final

from fencepost.client.assignors import ASSIGNORS, Subscriber
from fencepost.client.errors import BrokerError, ProtocolError, refusal
from fencepost.client.leaders import by_topic
from fencepost.client.metadata import TopicPartition
from fencepost.wire.api.heartbeat import HeartbeatRequest, HeartbeatResponse
from fencepost.wire.api.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from fencepost.wire.api.leave_group import LeaveGroupRequest, MemberIdentity
from fencepost.wire.api.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from fencepost.wire.errors import DecodeError, ErrorCode
from fencepost.wire.message import Request
from fencepost.wire.records.consumer import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartitionAssigned,
    decode_prefixed,
    encode_prefixed,
)

PROTOCOL_TYPE: Final = "consumer"
EMBEDDED_VERSION: Final = 0
"""Of the consumer protocol in JoinGroup and SyncGroup: eager members own nothing when they join,
which is all that later versions add."""
NO_GENERATION: Final = -1
FIRST_LEAVE_OF_MANY: Final = 3
"""Version from which LeaveGroup has a list of members."""

_LOST: Final = {ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID}
_REJOIN: Final = {*_LOST, ErrorCode.REBALANCE_IN_PROGRESS}


class State(Enum):
    """Where the membership stands; see the module."""

    UNJOINED = auto()
    ASSIGNING = auto()
    SYNCING = auto()
    STABLE = auto()


@dataclass(frozen=True, slots=True)
class MembershipConfig:
    """What a member tells its coordinator, under the names of Kafka's consumer properties."""

    group_id: str
    topics: tuple[str, ...]
    session_timeout_ms: int = 45_000
    max_poll_interval_ms: int = 300_000
    heartbeat_interval_ms: int = 3_000
    retry_backoff_ms: float = 100
    group_instance_id: str | None = None
    assignors: tuple[str, ...] = tuple(ASSIGNORS)


@dataclass(slots=True)
class Membership:
    """The state of one member. Times are milliseconds of any clock that only goes forward."""

    config: MembershipConfig
    state: State = State.UNJOINED
    member_id: str = ""
    generation_id: int = NO_GENERATION
    assignment: tuple[TopicPartition, ...] = ()
    is_leader: bool = False
    reason: str = "the consumer starts"
    _protocol: str = ""
    _subscribers: list[Subscriber] = field(default_factory=list)
    _assignments: list[SyncGroupRequestAssignment] = field(default_factory=list)
    _assigned_counts: dict[str, int] | None = None
    _next_ms: float = 0.0

    @property
    def may_commit(self) -> bool:
        """Whether the member belongs to a generation whose offsets it may commit."""
        return self.generation_id != NO_GENERATION

    @property
    def subscribed_topics(self) -> frozenset[str]:
        """The topics of all members, whose partitions `assign` needs; the own ones otherwise."""
        told = {topic for member in self._subscribers for topic in member.topics}
        return frozenset(told or self.config.topics)

    def wait_ms(self, now_ms: float) -> float:
        """Milliseconds until `next_request` has something to send."""
        return max(0.0, self._next_ms - now_ms)

    def next_request(self, now_ms: float) -> Request[Any] | None:
        """What to send to the coordinator now, if anything."""
        if now_ms < self._next_ms or self.state is State.ASSIGNING:
            return None
        if self.state is State.UNJOINED:
            return self._join()
        if self.state is State.SYNCING:
            return self._sync()
        return HeartbeatRequest(
            group_id=self.config.group_id,
            generation_id=self.generation_id,
            member_id=self.member_id,
            group_instance_id=self.config.group_instance_id,
        )

    def on_response(self, response: Any, now_ms: float) -> None:
        """Take in an answer. BrokerError for one that joining again cannot help."""
        if isinstance(response, JoinGroupResponse):
            self._on_join(response, now_ms)
        elif isinstance(response, SyncGroupResponse):
            self._on_sync(response, now_ms)
        elif isinstance(response, HeartbeatResponse):
            if self.state is not State.STABLE:
                return  # a refused commit was faster, and the member joins again
            self._next_ms = now_ms + self.config.heartbeat_interval_ms
            self._refused(response.error_code, "Heartbeat", now_ms)
        else:
            raise ProtocolError(f"{type(response).__name__} is no answer to a member's request")

    def on_commit_error(self, code: int, now_ms: float) -> None:
        """The coordinator refused to commit with `code`, which may mean to join again."""
        if code in _REJOIN and self.state is State.STABLE:
            self._refused(code, "OffsetCommit", now_ms)

    def subscribe(self, topics: tuple[str, ...], now_ms: float) -> None:
        """Read other topics from now on, for which the member joins again."""
        if topics != self.config.topics:
            self.config = replace(self.config, topics=topics)
            self._join_again("the subscription has changed", now_ms)

    def on_partition_counts(self, counts: Mapping[str, int], now_ms: float) -> None:
        """Have the leader join again when topics have other partitions than it has assigned."""
        if self.state is State.STABLE and self._assigned_counts not in (None, dict(counts)):
            self._join_again("the topics' partitions have changed", now_ms)

    def assign(self, counts: Mapping[str, int]) -> None:
        """Give the partitions of `subscribed_topics` to the members; the member leads."""
        assert self.state is State.ASSIGNING, self.state
        assigned = ASSIGNORS[self._protocol](self._subscribers, counts)
        self._assignments = [
            SyncGroupRequestAssignment(member_id=member_id, assignment=_encoded(partitions))
            for member_id, partitions in assigned.items()
        ]
        self._assigned_counts = dict(counts)
        self.state = State.SYNCING

    @property
    def has_to_leave(self) -> bool:
        """Whether the coordinator has a member that would be missed; a static one stays."""
        return bool(self.member_id) and self.config.group_instance_id is None

    def leave_request(self, version: int) -> LeaveGroupRequest:
        """How to leave in this version of LeaveGroup."""
        if version < FIRST_LEAVE_OF_MANY:
            return LeaveGroupRequest(group_id=self.config.group_id, member_id=self.member_id)
        leaving = MemberIdentity(member_id=self.member_id, reason="the consumer is closed")
        return LeaveGroupRequest(group_id=self.config.group_id, members=[leaving])

    def forget(self) -> None:
        """Be as new: the member has left, or is taken for gone."""
        self.member_id, self.generation_id, self.assignment = "", NO_GENERATION, ()
        self.state, self._next_ms = State.UNJOINED, 0.0

    # -- requests --------------------------------------------------------------------------------

    def _join(self) -> JoinGroupRequest:
        config = self.config
        subscription = encode_prefixed(
            ConsumerProtocolSubscription(topics=sorted(config.topics)), EMBEDDED_VERSION
        )
        return JoinGroupRequest(
            group_id=config.group_id,
            session_timeout_ms=config.session_timeout_ms,
            rebalance_timeout_ms=config.max_poll_interval_ms,
            member_id=self.member_id,
            group_instance_id=config.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[
                JoinGroupRequestProtocol(name=name, metadata=subscription)
                for name in config.assignors
            ],
            reason=self.reason,
        )

    def _sync(self) -> SyncGroupRequest:
        return SyncGroupRequest(
            group_id=self.config.group_id,
            generation_id=self.generation_id,
            member_id=self.member_id,
            group_instance_id=self.config.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=self._protocol,
            assignments=self._assignments,
        )

    # -- answers ---------------------------------------------------------------------------------

    def _on_join(self, response: JoinGroupResponse, now_ms: float) -> None:
        if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = response.member_id
            return
        self.assignment, self._assigned_counts, self._assignments = (), None, []
        if self._refused(response.error_code, "JoinGroup", now_ms):
            return
        self.member_id, self.generation_id = response.member_id, response.generation_id
        self._protocol = response.protocol_name or ""
        if self._protocol not in self.config.assignors:
            raise ProtocolError(
                f"group {self.config.group_id} chose {self._protocol!r}, which is not among "
                f"{', '.join(self.config.assignors)}"
            )
        self.is_leader = response.leader == response.member_id
        self._subscribers = [
            Subscriber(one.member_id, _topics_of(bytes(one.metadata)), one.group_instance_id)
            for one in response.members
        ]
        assigns = self.is_leader and not response.skip_assignment
        self.state = State.ASSIGNING if assigns else State.SYNCING

    def _on_sync(self, response: SyncGroupResponse, now_ms: float) -> None:
        if self._refused(response.error_code, "SyncGroup", now_ms):
            return
        try:
            self.assignment = decode_assignment(bytes(response.assignment))
        except DecodeError as error:
            raise ProtocolError(f"the group's leader sent no assignment: {error}") from error
        self.state = State.STABLE
        self._next_ms = now_ms + self.config.heartbeat_interval_ms

    def _refused(self, code: int, what: str, now_ms: float) -> bool:
        """Whether `code` sends the member back to joining. BrokerError for other errors."""
        if code == ErrorCode.NONE:
            return False
        if code not in _REJOIN:
            why = f"{what} was refused: {refusal(code)}"
            raise BrokerError.of(code, f"group {self.config.group_id}: {why}")
        if code in _LOST:
            self.generation_id = NO_GENERATION
        if code == ErrorCode.UNKNOWN_MEMBER_ID:
            self.member_id = ""
        was_stable = self.state is State.STABLE
        self._join_again(f"{what} was answered with {ErrorCode(code).name}", now_ms)
        if not was_stable:  # or nothing would keep it from asking again and again
            self._next_ms = now_ms + self.config.retry_backoff_ms
        return True

    def _join_again(self, reason: str, now_ms: float) -> None:
        self.state, self.reason, self._next_ms = State.UNJOINED, reason, now_ms


def _topics_of(metadata: bytes) -> frozenset[str]:
    """What a member subscribes to: nothing if its client says it in a way that cannot be read."""
    try:
        return frozenset(decode_prefixed(ConsumerProtocolSubscription, metadata).topics)
    except DecodeError:
        return frozenset()


def _encoded(partitions: list[TopicPartition]) -> bytes:
    topics = [
        TopicPartitionAssigned(topic=topic, partitions=[number for number, _ in numbers])
        for topic, numbers in by_topic(dict.fromkeys(partitions)).items()
    ]
    return encode_prefixed(ConsumerProtocolAssignment(assigned_partitions=topics), EMBEDDED_VERSION)


def decode_assignment(data: bytes) -> tuple[TopicPartition, ...]:
    """The partitions in an assignment of the consumer protocol; no bytes are none. DecodeError."""
    if not data:
        return ()
    decoded = decode_prefixed(ConsumerProtocolAssignment, data)
    return tuple(
        TopicPartition(entry.topic, number)
        for entry in decoded.assigned_partitions
        for number in sorted(entry.partitions)
    )
