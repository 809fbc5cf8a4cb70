"""A member of a group: it joins, is assigned partitions, heartbeats, commits, and leaves again.

It does what Kafka's classic consumers do. The member that JoinGroup names as leader assigns all
partitions by turns. What a member commits is an offset that no other member ever commits, so that
the observer knows of each committed offset which member of which generation it is from; a commit
that is refused or not answered is given up. An answer that says so makes it join again, under
another id if need be. A static member (KIP-345) does not leave: it ends, and begins again under its
instance id.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from fencepost.sim.clients.coordinated import RETRIABLE, GroupClient
from fencepost.sim.group_oracle import OffsetKey, OffsetWrite
from fencepost.sim.oracle import Violation
from fencepost.sim.surroundings import Surroundings
from fencepost.wire.api.heartbeat import HeartbeatRequest
from fencepost.wire.api.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from fencepost.wire.api.leave_group import LeaveGroupRequest, MemberIdentity
from fencepost.wire.api.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from fencepost.wire.errors import ErrorCode
from fencepost.wire.message import Message
from fencepost.wire.records.consumer import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartitionAssigned,
    decode_prefixed,
    encode_prefixed,
)
from fencepost.wire.types import Uuid

GROUP_ID: Final = "members"
SESSION_TIMEOUT_MS: Final = 3_000
REBALANCE_TIMEOUT_MS: Final = 1_500
"""Shorter than a request may take, so that members in JoinGroup still wait for the answer."""
PROTOCOL: Final = "range"
LEAVES_ONE_IN: Final = 12
GARBLED: Final = b"\0"
SUBSCRIPTION: Final = encode_prefixed(ConsumerProtocolSubscription(topics=["all"]), 0)

_JOIN_AGAIN: Final = frozenset(
    {
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.GROUP_ID_NOT_FOUND,
    }
)

Answered = Callable[[Any, ErrorCode], None]


class Member(GroupClient):
    """See the module docstring."""

    def __init__(
        self,
        world: Surroundings,
        client_id: int,
        group_id: str = GROUP_ID,
        instance_id: str | None = None,
    ) -> None:
        super().__init__(world, client_id, group_id, instance_id)
        self.member_id = ""
        self.generation = -1
        """The one that it has its partitions in; -1 while it has none."""
        self.owned: tuple[tuple[str, int], ...] = ()
        self.is_garbled = False
        """Whether it says of itself what cannot be read."""
        self.joined = 0
        self.committed = 0
        self._waits = False
        self._commits = 0

    @property
    def is_idle(self) -> bool:
        """Whether it knows what it owns, and waits for nothing."""
        return self.generation >= 0

    @property
    def unfinished(self) -> str:
        """What it waits for, while it does."""
        return "a generation"

    def begin(self) -> None:
        self.later(2 * self.world.options.member_every_ms, self._turn)

    def _turn(self) -> None:
        self.begin()
        if self._waits or not self.has_offsets_topic():
            return
        if self.generation < 0:
            self.join()
        elif self.is_closing:
            self.heartbeat()
        elif self.lane.pick(LEAVES_ONE_IN) == LEAVES_ONE_IN - 1:
            self.leave()
        elif self.lane.pick(2) and self.owned:
            self.commit(self.owned[self.lane.pick(len(self.owned))])
        else:
            self.heartbeat()

    # -- joining -----------------------------------------------------------------------------

    def join(self) -> None:
        """Become a member, or take part in a rebalance; SyncGroup follows by itself."""
        self._own_nothing()
        said = GARBLED if self.is_garbled else self.subscription()
        request = JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name=PROTOCOL, metadata=said)],
        )
        self._ask(request, self._joined)

    def subscription(self) -> bytes:
        """What it says that it reads; a coordinator of classic groups does not look into it."""
        return SUBSCRIPTION

    def _joined(self, response: Any, error: ErrorCode) -> None:
        if error is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = response.member_id
            self.join()
        elif error is ErrorCode.NONE:
            self.member_id = response.member_id
            is_leader = response.leader == self.member_id
            members = [one.member_id for one in response.members] if is_leader else []
            self._sync(response.generation_id, members)
        else:
            self._refused("join", error)

    def _sync(self, generation: int, members: list[str]) -> None:
        request = SyncGroupRequest(
            group_id=self.group_id,
            generation_id=generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocol_name=PROTOCOL,
            assignments=self._assign(members),
        )
        self._ask(request, lambda response, error: self._synced(generation, response, error))

    def _assign(self, members: list[str]) -> list[SyncGroupRequestAssignment]:
        """All partitions that there are, by turns."""
        given: dict[str, list[TopicPartitionAssigned]] = {one: [] for one in members}
        for place, key in enumerate(self.partitions() if members else ()):
            topic = self.name_of(key)
            if topic is not None:
                one = TopicPartitionAssigned(topic=topic, partitions=[key[1]])
                given[members[place % len(members)]].append(one)
        return [
            SyncGroupRequestAssignment(
                member_id=member_id,
                assignment=encode_prefixed(
                    ConsumerProtocolAssignment(assigned_partitions=partitions), 0
                ),
            )
            for member_id, partitions in given.items()
        ]

    def _synced(self, generation: int, response: Any, error: ErrorCode) -> None:
        if error is not ErrorCode.NONE:
            self._refused("sync", error)
            return
        self.generation = generation
        self.owned = assigned_in(response.assignment)
        self.joined += 1
        owned = " ".join(f"{topic}-{index}" for topic, index in self.owned)
        self.on_outcome(f"generation {generation} owns {owned or 'nothing'}")

    # -- being a member ----------------------------------------------------------------------

    def heartbeat(self) -> None:
        """Say that it is there, and hear whether it is to join again."""
        request = HeartbeatRequest(
            group_id=self.group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
        )
        self._ask(request, lambda response, error: self._refused("heartbeat", error))

    def leave(self) -> None:
        """Leave the group; whether that has arrived or not, it is a new member from then on. One
        that is static says nothing."""
        if self.instance_id is None:
            who = MemberIdentity(member_id=self.member_id)
            self._ask(
                LeaveGroupRequest(group_id=self.group_id, members=[who]),
                lambda response, error: self._refused("leave", error),
            )
        self._own_nothing()
        self.member_id = ""

    def commit(self, partition: tuple[str, int]) -> None:
        """Commit an offset for a partition, as a member of its generation."""
        image = self.image()
        topic = None if image is None else image.topics_by_name.get(partition[0])
        offsets = self.offsets_partition()
        if topic is None or offsets is None:
            return
        self._commits += 1
        offset = self._commits * 100 + self.id % 100
        key = OffsetKey(self.group_id, *partition)
        self.note_sent(OffsetWrite(key, offset), topic.topic_id)
        request = self.commit_request(
            (topic.topic_id, partition[1]), topic.name, offset, self.member_id, self.generation
        )

        def told(response: Any, error: ErrorCode) -> None:
            code = error or ErrorCode(response.topics[0].partitions[0].error_code)
            if code is ErrorCode.NONE:
                self.committed += 1
                self.world.observer.offset_acknowledged(offsets, key, offset)
            self._refused("commit", code)

        self._ask(request, told)

    def note_sent(self, write: OffsetWrite, topic_id: Uuid) -> None:
        """Tell the observer that it is about to commit this."""
        self.world.observer.oracle.groups.sent(write, self.generation)

    # -- asking ------------------------------------------------------------------------------

    def _ask(self, request: Message, then: Answered) -> None:
        """Ask the coordinator; `then` is called with an answer, and not at all without one."""
        broker_id = self.coordinator()
        if broker_id is None:
            return
        self._waits = True
        tell = self.on_outcome

        def answered(response: Any) -> None:
            self._waits = False
            self.on_outcome = tell
            if response is None:
                self.on_outcome("no answer")
                if isinstance(request, JoinGroupRequest | SyncGroupRequest):
                    self._own_nothing()
                return
            error = ErrorCode(getattr(response, "error_code", 0))
            self.world.trace.note(f"{type(request).__name__} of {self.id}: {error}")
            then(response, error)

        self.ask(broker_id, request, answered)

    def _refused(self, what: str, error: ErrorCode) -> None:
        """Do what an answer asks for; NONE asks for nothing."""
        self.on_outcome(error.name)
        if error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            self.member_id = ""
            self._own_nothing()
        elif error in _JOIN_AGAIN:
            self._own_nothing()
        elif error is not ErrorCode.NONE and error not in RETRIABLE:
            raise Violation("unforeseen", f"member {self.id}: {what} is answered {error.name}")

    def _own_nothing(self) -> None:
        self.generation, self.owned = -1, ()


def assigned_in(assignment: bytes) -> tuple[tuple[str, int], ...]:
    """The partitions of an assignment; none of an empty one."""
    if not assignment:
        return ()
    decoded = decode_prefixed(ConsumerProtocolAssignment, bytes(assignment))
    return tuple(
        (one.topic, index) for one in decoded.assigned_partitions for index in one.partitions
    )
