"""A member of a consumer group (KIP-848): it gives up and takes over partitions, and commits.

It does what a consumer with `group.protocol=consumer` does, and asks what is committed. It says
what it owns with every heartbeat, gives up at once what it is told to, and says everything after an
answer that was lost.
It subscribes to the topics that it knows of, so that members do not always agree.
What it commits is an offset that no other client ever commits, so that the observer knows of each
committed offset whose it is. It leaves until it has heard that it has left, and is another member
then. A static member leaves for a while, and its partitions wait for the next of its instance id.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from fencepost.machines.group.consumer.member import LEAVES, LEAVES_FOR_A_WHILE
from fencepost.sim.clients.coordinated import RETRIABLE, GroupClient
from fencepost.sim.group_oracle import OffsetKey, OffsetWrite
from fencepost.sim.oracle import Violation
from fencepost.sim.partition_oracle import PartitionKey
from fencepost.sim.surroundings import Surroundings
from fencepost.wire.api.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from fencepost.wire.errors import ErrorCode
from fencepost.wire.message import Message

GROUP_ID: Final = "epoch-members"
REBALANCE_TIMEOUT_MS: Final = 3_000
LEAVES_ONE_IN: Final = 16
RESTS_AT_MOST: Final = 24
"""Turns, less one."""
_IS_OUT: Final = frozenset(
    {
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.FENCED_INSTANCE_ID,
    }
)
_REFUSED: Final = frozenset({*_IS_OUT, ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.UNSUPPORTED_VERSION})


class EpochMember(GroupClient):
    """See the module docstring."""

    def __init__(
        self,
        world: Surroundings,
        client_id: int,
        instance_id: str | None = None,
        group_id: str = GROUP_ID,
    ) -> None:
        super().__init__(world, client_id, group_id, instance_id)
        self.lives = 0
        self.epoch = 0
        self.owned: frozenset[PartitionKey] = frozenset()
        self.joined = 0
        self.committed = 0
        self.fetched = 0
        self._waits = False
        self._leaves = False
        self._says_all = True
        self._subscribed: list[str] = []
        self._commits = 0
        self._rests = 0

    @property
    def member_id(self) -> str:
        """Its id, until it has left."""
        return f"e{self.id}-{self.lives}"

    @property
    def is_idle(self) -> bool:
        """Whether it is a member, and not about to leave."""
        return self.epoch > 0 and not self._leaves

    @property
    def unfinished(self) -> str:
        """What it waits for, while it does."""
        return "a member epoch"

    def begin(self) -> None:
        self.later(2 * self.world.options.member_every_ms, self._turn)

    def _turn(self) -> None:
        self.begin()
        if self._waits or not self.has_offsets_topic():
            return
        if self._leaves:
            self.leave()
        elif self._rests and not self.is_closing:
            self._rests -= 1
        elif self.epoch == 0 or self.is_closing:
            self.heartbeat()
        elif self.lane.pick(LEAVES_ONE_IN) == LEAVES_ONE_IN - 1:
            self._leaves = True
            self.owned = frozenset()
            self.leave()
        elif (drawn := self.lane.pick(3)) and self.owned:
            owned = sorted(self.owned)
            ask = self.commit if drawn == 1 else self.fetch
            ask(owned[self.lane.pick(len(owned))])
        else:
            self.heartbeat()

    # -- being a member ----------------------------------------------------------------------

    def heartbeat(self) -> None:
        """Join, or say that it is there and what it owns; hear what it is to own."""
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=self.epoch,
            instance_id=self.instance_id,
            topic_partitions=self._listed(),
        )
        topics = sorted({self.name_of(key) or "" for key in self.partitions()} - {""})
        if self._says_all or self.epoch == 0:
            request.rebalance_timeout_ms = REBALANCE_TIMEOUT_MS
            request.subscribed_topic_names = self._subscribed = topics
        elif topics != self._subscribed:
            request.subscribed_topic_names = self._subscribed = topics
        self._ask(request, self._heard)

    def _listed(self) -> list[TopicPartitions]:
        indexes: dict[Any, list[int]] = {}
        for topic_id, index in sorted(self.owned):
            indexes.setdefault(topic_id, []).append(index)
        return [
            TopicPartitions(topic_id=topic_id, partitions=some)
            for topic_id, some in indexes.items()
        ]

    def _heard(self, response: Any, error: ErrorCode) -> None:
        self._says_all = error is not ErrorCode.NONE
        self.on_outcome(error.name)
        if error in _IS_OUT:
            self._is_out()
        elif error is ErrorCode.NONE:
            self.joined += self.epoch == 0
            self.epoch = response.member_epoch
            self._take(response)
            self.on_outcome(f"epoch {self.epoch} owns {self._owned_in_words()}")
        elif error not in RETRIABLE and error is not ErrorCode.UNRELEASED_INSTANCE_ID:
            raise Violation("unforeseen", f"member {self.id}: heartbeat answered {error.name}")

    def _take(self, response: Any) -> None:
        """Own what the answer says, if it does."""
        if response.assignment is not None:
            self.owned = frozenset(
                (topic.topic_id, index)
                for topic in response.assignment.topic_partitions
                for index in topic.partitions
            )

    def _owned_in_words(self) -> str:
        topics = self.world.observer.committed_image.topics_by_id
        owned = [(topics[one], index) for one, index in sorted(self.owned) if one in topics]
        return " ".join(f"{topic.name}-{index}" for topic, index in owned) or "nothing"

    def _is_out(self) -> None:
        self.epoch, self.owned, self._says_all = 0, frozenset(), True

    def leave(self) -> None:
        """Leave the group; it is another member once it knows that it has left."""

        def heard(response: Any, error: ErrorCode) -> None:
            self.on_outcome(error.name)
            if error is ErrorCode.NONE or error in _IS_OUT:
                self._leaves = False
                self.lives += 1
                self._rests = self._drawn_rest()
                self._is_out()
            elif error not in RETRIABLE:
                raise Violation("unforeseen", f"member {self.id}: leaving answered {error.name}")

        self._ask(self._leave_request(), heard)

    def _leave_request(self) -> Message:
        return ConsumerGroupHeartbeatRequest(**self._leaving())

    def _leaving(self) -> dict[str, Any]:
        """What a heartbeat says that is the last one."""
        return {
            "group_id": self.group_id,
            "member_id": self.member_id,
            "member_epoch": LEAVES if self.instance_id is None else LEAVES_FOR_A_WHILE,
            "instance_id": self.instance_id,
        }

    def _drawn_rest(self) -> int:
        """How many turns it stays out: long enough, now and then, for the group to be one of
        classic members only, if there are any."""
        return self.lane.pick(RESTS_AT_MOST) if self.world.options.mixed_members else 0

    def commit(self, partition: PartitionKey) -> None:
        """Commit an offset for a partition that it owns, in its epoch."""
        topic, offsets = self.name_of(partition), self.offsets_partition()
        if topic is None or offsets is None:
            return
        self._commits += 1
        offset = self._commits * 100 + self.id % 100
        key = OffsetKey(self.group_id, topic, partition[1])
        groups = self.world.observer.oracle.groups
        groups.sent_by_member(OffsetWrite(key, offset), self.member_id, partition[0])
        request = self.commit_request(partition, topic, offset, self.member_id, self.epoch)

        def told(response: Any, error: ErrorCode) -> None:
            code = error or ErrorCode(response.topics[0].partitions[0].error_code)
            self.on_outcome(code.name)
            if code is ErrorCode.NONE:
                self.committed += 1
                self.world.observer.offset_acknowledged(offsets, key, offset)
            elif code not in _REFUSED and code not in RETRIABLE:
                raise Violation("unforeseen", f"member {self.id}: commit answered {code.name}")

        self._ask(request, told)

    def fetch(self, partition: PartitionKey) -> None:
        """Ask, as a member, what is committed for a partition that it owns; the observer looks at
        the answer."""
        topic = self.name_of(partition)
        if topic is None:
            return

        def told(response: Any, error: ErrorCode) -> None:
            (one,) = response.groups
            code = ErrorCode(one.error_code or one.topics[0].partitions[0].error_code)
            if code is ErrorCode.NONE:
                self.fetched += 1
            elif code not in _REFUSED and code not in RETRIABLE:
                raise Violation("unforeseen", f"member {self.id}: fetch answered {code.name}")

        self._ask(self.fetch_request(partition, topic, self.member_id, self.epoch), told)

    def _ask(self, request: Message, then: Callable[[Any, ErrorCode], None]) -> None:
        """Ask the coordinator; `then` hears of an answer, and of none it is forgotten."""
        broker_id = self.coordinator()
        if broker_id is None:
            return
        self._waits = True

        def answered(response: Any) -> None:
            self._waits = False
            if response is None:
                self._says_all = True
                return
            error = ErrorCode(getattr(response, "error_code", 0))
            self.world.trace.note(f"{type(request).__name__} of {self.id}: {error}")
            then(response, error)

        self.ask(broker_id, request, answered)
