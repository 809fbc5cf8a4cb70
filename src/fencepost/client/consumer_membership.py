"""One consumer's membership in a consumer group (KIP-848), without I/O.

A driver sends what `next_request` returns to the group's coordinator and hands the answer to
`on_response`; `wait_ms` says when the next heartbeat is due. The coordinator's own errors
(NOT_COORDINATOR and its like) are the driver's: it finds the coordinator and sends again.

    UNJOINED --heartbeat, epoch 0--> RECONCILING --acknowledge()--> STABLE
                                          ^---- another assignment ----'

The coordinator assigns. A heartbeat's answer brings all partitions that the member may have; while
they are not those that it owns, it is RECONCILING: the driver gives up what is not among them (the
application may commit before), and then `acknowledge`s, which makes the next heartbeat leave at
once and say what is owned. Only then may other members get what was given up. Heartbeats go on all
the while.

The member makes its own id (KIP-1082) and keeps it. A heartbeat says what changed since the last
one that was answered; the first one, and each one after an answer that did not come, says
everything, by which the coordinator recognises a member whose answer was lost. A member that the
coordinator has put out (FENCED_MEMBER_EPOCH, UNKNOWN_MEMBER_ID) owns nothing any more: it is
UNJOINED, and what its driver still reads is lost. Static members (KIP-345) leave with epoch -2 and
find their partitions again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import Final, NamedTuple

from fencepost.client.errors import BrokerError
from fencepost.client.metadata import TopicPartition
from fencepost.wire.api.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Uuid

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
LEAVE_FOR_A_WHILE_EPOCH: Final = -2
"""Of a static member, whose partitions wait for it."""
LOWEST_VERSION: Final = 1
"""Of ConsumerGroupHeartbeat: the first in which members make their ids."""

_PUT_OUT: Final = {ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID}


class State(Enum):
    """What the member has to do; see the module."""

    UNJOINED = auto()
    RECONCILING = auto()
    STABLE = auto()


class IdPartition(NamedTuple):
    """A partition of a topic by its id, as coordinators assign it."""

    topic_id: Uuid
    partition: int


@dataclass(frozen=True, slots=True)
class ConsumerMembershipConfig:
    """What a member tells its coordinator. `pattern` is a regular expression (RE2) that the
    coordinator matches with whole names of topics."""

    group_id: str
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    max_poll_interval_ms: int = 300_000
    group_instance_id: str | None = None
    remote_assignor: str | None = None
    retry_backoff_ms: float = 100


@dataclass(slots=True)
class ConsumerMembership:
    """The state of one member. Times are milliseconds of any clock that only goes forward."""

    config: ConsumerMembershipConfig
    member_id: str
    state: State = State.UNJOINED
    member_epoch: int = JOIN_EPOCH
    commit_epoch: int = -1
    """The last epoch in which the member was in the group, -1 before the first: with it offsets
    are committed, and refused when the member has been put out."""
    target: frozenset[IdPartition] = frozenset()
    """What the coordinator lets the member have."""
    _owned: dict[IdPartition, TopicPartition] = field(default_factory=dict)
    _told_owned: frozenset[IdPartition] | None = None
    _told: tuple[tuple[str, ...], str | None] | None = None
    _asks: bool = False
    _next_ms: float = 0.0

    @property
    def assignment(self) -> tuple[TopicPartition, ...]:
        """The partitions that the member owns, in order."""
        return tuple(sorted(self._owned.values()))

    @property
    def may_commit(self) -> bool:
        """Whether the coordinator takes offsets from this member."""
        return self.state is not State.UNJOINED

    def wait_ms(self, now_ms: float) -> float:
        """Milliseconds until `next_request` has something to send."""
        return max(0.0, self._next_ms - now_ms)

    # -- heartbeats ------------------------------------------------------------------------------

    def next_request(self, now_ms: float) -> ConsumerGroupHeartbeatRequest | None:
        """The heartbeat that is due now, if one is."""
        return self.heartbeat() if now_ms >= self._next_ms else None

    def heartbeat(self) -> ConsumerGroupHeartbeatRequest:
        """A heartbeat with what the coordinator does not know yet."""
        config = self.config
        joins = self.member_epoch == JOIN_EPOCH
        is_full = joins or self._asks
        told = None if is_full else self._told
        wanted = (config.topics, config.pattern)
        owned = frozenset() if joins else frozenset(self._owned)
        self._asks = True
        return ConsumerGroupHeartbeatRequest(
            group_id=config.group_id,
            member_id=self.member_id,
            member_epoch=self.member_epoch,
            instance_id=config.group_instance_id,
            rebalance_timeout_ms=config.max_poll_interval_ms if is_full else -1,
            subscribed_topic_names=None if told == wanted else list(config.topics),
            subscribed_topic_regex=None if told == wanted else config.pattern or "",
            server_assignor=config.remote_assignor if is_full else None,
            topic_partitions=_by_topic(owned) if is_full or owned != self._told_owned else None,
        )

    def on_response(
        self,
        request: ConsumerGroupHeartbeatRequest,
        response: ConsumerGroupHeartbeatResponse,
        now_ms: float,
    ) -> None:
        """Take in the answer to `request`. BrokerError for one that joining again cannot help; the
        member tries again after `retry_backoff_ms`."""
        if request.member_epoch != self.member_epoch:
            return  # the member has left or was put out meanwhile
        self._asks = False
        code = response.error_code
        if code != ErrorCode.NONE:
            self._next_ms = now_ms + self.config.retry_backoff_ms
            self._told = self._told_owned = None
            # A group that is gone is made again by joining; one of another type is not.
            is_gone = code == ErrorCode.GROUP_ID_NOT_FOUND and self.member_epoch != JOIN_EPOCH
            if code in _PUT_OUT or is_gone:
                self.forget()
                return
            text = response.error_message or "the heartbeat was refused"
            raise BrokerError.of(code, f"group {self.config.group_id}: {text}")
        if request.subscribed_topic_names is not None:
            names = tuple(request.subscribed_topic_names)
            self._told = (names, request.subscribed_topic_regex or None)
        if request.topic_partitions is not None:
            self._told_owned = frozenset(_partitions_in(request.topic_partitions))
        self.member_epoch = self.commit_epoch = response.member_epoch
        self._next_ms = now_ms + response.heartbeat_interval_ms
        if (self.config.topics, self.config.pattern) != self._told or (
            frozenset(self._owned) != self._told_owned
        ):
            self._next_ms = now_ms  # something has changed since the request was made
        if response.assignment is not None:
            self.target = frozenset(_partitions_in(response.assignment.topic_partitions))
        is_done = self.target == frozenset(self._owned)
        self.state = State.STABLE if is_done else State.RECONCILING

    def subscribe(self, topics: tuple[str, ...], pattern: str | None) -> None:
        """Read other topics from now on, which the next heartbeat says at once."""
        if (topics, pattern) != (self.config.topics, self.config.pattern):
            self.config = replace(self.config, topics=topics, pattern=pattern)
            self._next_ms = 0.0

    # -- reconciliation --------------------------------------------------------------------------

    def revoked(self, target: frozenset[IdPartition]) -> tuple[TopicPartition, ...]:
        """What is owned and not in `target`."""
        return tuple(sorted(name for one, name in self._owned.items() if one not in target))

    def added(self, named: Mapping[IdPartition, TopicPartition]) -> tuple[TopicPartition, ...]:
        """What is in `named` and not owned."""
        return tuple(sorted(name for one, name in named.items() if one not in self._owned))

    def acknowledge(self, named: Mapping[IdPartition, TopicPartition]) -> None:
        """Own exactly these: everything else has been given up, and the coordinator is to know.

        Partitions of topics without a name yet are left out; the next answer of the coordinator
        makes the member reconcile again.
        """
        assert self.state is State.RECONCILING, self.state
        self._owned = dict(named)
        self.state = State.STABLE
        if frozenset(self._owned) != self._told_owned:
            self._next_ms = 0.0

    # -- the end ---------------------------------------------------------------------------------

    @property
    def has_to_leave(self) -> bool:
        """Whether the coordinator has this member."""
        return self.member_epoch != JOIN_EPOCH

    def leave_request(self) -> ConsumerGroupHeartbeatRequest:
        """How to leave; a static member leaves for a while."""
        instance_id = self.config.group_instance_id
        return ConsumerGroupHeartbeatRequest(
            group_id=self.config.group_id,
            member_id=self.member_id,
            member_epoch=LEAVE_EPOCH if instance_id is None else LEAVE_FOR_A_WHILE_EPOCH,
            instance_id=instance_id,
        )

    def forget(self) -> None:
        """Be as new: the member has left, or was put out."""
        self.state, self.member_epoch, self.target = State.UNJOINED, JOIN_EPOCH, frozenset()
        self._owned, self._told, self._told_owned, self._asks = {}, None, None, False


def _partitions_in(topics: Iterable[TopicPartitions]) -> Iterable[IdPartition]:
    return (IdPartition(Uuid(one.topic_id), number) for one in topics for number in one.partitions)


def _by_topic(partitions: Iterable[IdPartition]) -> list[TopicPartitions]:
    topics: dict[Uuid, list[int]] = {}
    for topic_id, number in sorted(partitions):
        topics.setdefault(topic_id, []).append(number)
    return [TopicPartitions(topic_id=one, partitions=numbers) for one, numbers in topics.items()]
