"""A consumer of the classic protocol, eager or cooperative, one request at a time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fencepost.wire.errors import ErrorCode
from fencepost.wire.records.consumer import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartitionAssigned,
    TopicPartitionOwned,
    decode_prefixed,
    encode_prefixed,
)

from .world import ConsumerWorld

Partition = tuple[str, int]


def by_topic(partitions: Iterable[Partition]) -> dict[str, list[int]]:
    """The partitions of each topic."""
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(partitions):
        topics.setdefault(topic, []).append(index)
    return topics


def subscription(
    topics: Iterable[str],
    owned: Iterable[Partition] = (),
    rack: str | None = None,
    version: int = 3,
    generation: int = -1,
) -> bytes:
    """What a classic consumer says."""
    said = ConsumerProtocolSubscription(
        topics=sorted(topics),
        owned_partitions=[
            TopicPartitionOwned(topic=topic, partitions=some)
            for topic, some in by_topic(owned).items()
        ],
        rack_id=rack,
        generation_id=generation,
    )
    return encode_prefixed(said, version)


def assignment(partitions: Iterable[Partition], user_data: bytes | None = None) -> bytes:
    """What a leader gives a member."""
    topics = [
        TopicPartitionAssigned(topic=topic, partitions=some)
        for topic, some in by_topic(partitions).items()
    ]
    given = ConsumerProtocolAssignment(assigned_partitions=topics, user_data=user_data)
    return encode_prefixed(given, 1)


def partitions_in(data: bytes) -> set[Partition]:
    """The partitions of an assignment."""
    if not data:
        return set()
    given = decode_prefixed(ConsumerProtocolAssignment, data)
    return {(one.topic, index) for one in given.assigned_partitions for index in one.partitions}


class ClassicClient:
    """See the module. `owned` is what it reads."""

    def __init__(
        self,
        world: ConsumerWorld,
        topics: Iterable[str] = ("t",),
        *,
        is_cooperative: bool = False,
        instance: str | None = None,
        session_ms: int = 10_000,
        rebalance_ms: int = 60_000,
    ) -> None:
        self.world = world
        self.topics = tuple(topics)
        self.is_cooperative = is_cooperative
        self.instance = instance
        self.times = {"session_ms": session_ms, "rebalance_ms": rebalance_ms}
        self.member_id = ""
        self.generation = -1
        self.owned: set[Partition] = set()
        self.protocol = "range"
        self.waits_for: tuple[str, int] | None = None
        """The kind and the token of a request whose answer has not been looked at."""
        self.is_in = False
        """Whether it has an assignment of its generation."""
        self.roster: list[Any] = []

    def forget(self) -> None:
        """It is another process from now on."""
        self.member_id, self.generation, self.owned = "", -1, set()
        self.waits_for, self.is_in = None, False

    def step(self) -> None:
        """Look at the answer that has come, if any, and send what comes next."""
        if self.waits_for is not None and not self._look():
            return
        if self.is_in:
            self._beat()
        elif self.waits_for is None:
            self.send_join()

    def settle(self, steps: int = 12) -> None:
        """Take steps, in a group that makes no other client wait."""
        for _ in range(steps):
            self.step()

    def send_join(self) -> None:
        """Join, or join again: an eager consumer gives up everything first."""
        if not self.is_cooperative:
            self.owned = set()
        self.is_in = False
        token = self.world.join(
            self.member_id,
            instance=self.instance,
            protocols={self.protocol: subscription(self.topics, self.owned)},
            **self.times,
        )
        self.waits_for = "join", token

    def _look(self) -> bool:
        """Whether the answer was there; the client has drawn its conclusions then."""
        assert self.waits_for is not None
        kind, token = self.waits_for
        answer = self.world.replies.get(token)
        if answer is None:
            if token in self.world.refused:
                self.waits_for = None
            return False
        self.waits_for = None
        error = ErrorCode(answer.error_code)
        if error is not ErrorCode.NONE:
            self._failed(error, answer)
        elif kind == "join":
            self.member_id, self.generation = answer.member_id, answer.generation_id
            self.roster = answer.members
            self._send_sync(answer)
        else:
            self._assigned(partitions_in(bytes(answer.assignment)))
        return True

    def _failed(self, error: ErrorCode, answer: Any) -> None:
        self.is_in = False
        if error is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
        elif error is ErrorCode.REBALANCE_IN_PROGRESS:
            pass
        elif error is ErrorCode.ILLEGAL_GENERATION:
            self.owned = set()
        else:
            self.forget()

    def _send_sync(self, joined: Any) -> None:
        given = self._assign() if joined.leader == self.member_id and self.roster else None
        token = self.world.sync(
            self.member_id,
            self.generation,
            given,
            instance=self.instance,
            protocol=joined.protocol_name,
        )
        self.waits_for = "sync", token

    def _assign(self) -> dict[str, bytes]:
        """Deal all partitions; with cooperative members those that others own come later."""
        said = {
            one.member_id: decode_prefixed(ConsumerProtocolSubscription, bytes(one.metadata))
            for one in self.roster
        }
        owners: dict[Partition, str] = {}
        for member_id, one in said.items():
            for topic in one.owned_partitions:
                for index in topic.partitions:
                    owners.setdefault((topic.topic, index), member_id)
        given: dict[str, set[Partition]] = {member_id: set() for member_id in said}
        for topic in sorted({name for one in said.values() for name in one.topics}):
            members = sorted(member_id for member_id, one in said.items() if topic in one.topics)
            found = self.world.image.topics_by_name.get(topic)
            for index in range(0 if found is None else len(found.partitions)):
                taker = members[index % len(members)]
                if not self.is_cooperative or owners.get((topic, index), taker) == taker:
                    given[taker].add((topic, index))
        return {member_id: assignment(partitions) for member_id, partitions in given.items()}

    def _assigned(self, partitions: set[Partition]) -> None:
        revoked = self.owned - partitions
        self.owned = partitions
        self.is_in = True
        if revoked:  # a cooperative consumer says so at once
            self.send_join()

    def _beat(self) -> None:
        said = {"instance": self.instance}
        error = self.world.heartbeat(self.member_id, self.generation, **said)
        if error is ErrorCode.REBALANCE_IN_PROGRESS:
            self.send_join()
        elif error is not ErrorCode.NONE:
            self._failed(error, None)
