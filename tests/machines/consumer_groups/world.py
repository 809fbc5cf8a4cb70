"""A shard with consumer groups, and members that do what KIP-848 wants of a client.

`beat` sends one heartbeat as it is said. A `Client` sends its own: it keeps its epoch, gives up
what it is told to (when it is told to `settle`), and says what it owns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from fencepost.machines.group.caller import Caller
from fencepost.machines.group.consumer.group import ConsumerGroup
from fencepost.machines.group.consumer.groups import ConsumerGroups
from fencepost.machines.group.shard import Decision
from fencepost.machines.image import ClusterImage, PartitionImage, TopicImage, diff
from fencepost.wire.api.consumer_group_describe import DescribedGroup
from fencepost.wire.api.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from fencepost.wire.errors import ErrorCode
from fencepost.wire.records.group import decode_key, decode_value
from fencepost.wire.types import Uuid

from ..group_world import GroupWorld

Owned = dict[str, Iterable[int]]
NAMES = ("t", "u", "v", "w")
IDS = {name: Uuid(bytes([number]) * 16) for number, name in enumerate(NAMES, 1)}
NAME_OF = {topic_id: name for name, topic_id in IDS.items()}


def id_of(name: str) -> Uuid:
    """The id of a topic; of those with no id of their own, one made of the name."""
    known = IDS.get(name)
    if known is None:
        known = IDS[name] = Uuid(name.encode().ljust(16, b"\xff")[:16])
        NAME_OF[known] = name
    return known


def image_of(offset: int = 0, replicas: tuple[int, ...] = (1,), **partitions: int) -> ClusterImage:
    """A cluster of consumer groups with these topics."""
    image = ClusterImage()
    one = PartitionImage(replicas, replicas, 1, 0, 0)
    by_name, by_id = image.topics_by_name, image.topics_by_id
    for name, count in partitions.items():
        topic = TopicImage(name, id_of(name), (one,) * count)
        by_name, by_id = by_name.set(name, topic), by_id.set(topic.topic_id, topic)
    return ClusterImage(
        offset=offset, features={"group.version": 1}, topics_by_name=by_name, topics_by_id=by_id
    )


def partitions_of(**topics: Iterable[int]) -> list[TopicPartitions]:
    """As a request has them."""
    return [
        TopicPartitions(topic_id=id_of(name), partitions=sorted(indexes))
        for name, indexes in topics.items()
    ]


def owned_by(response: ConsumerGroupHeartbeatResponse) -> dict[str, list[int]] | None:
    """The assignment of an answer by topic; None if it has none."""
    if response.assignment is None:
        return None
    return {
        NAME_OF[topic.topic_id]: topic.partitions for topic in response.assignment.topic_partitions
    }


class ConsumerWorld(GroupWorld):
    """A shard, and a topic "t" with four partitions."""

    def __init__(self, **said: Any) -> None:
        super().__init__(**said)
        self.image = image_of(t=4)
        self.hidden: set[str] = set()

    @property
    def consumer(self) -> ConsumerGroups:
        return self.coordinator.of_type(ConsumerGroups)

    @property
    def group(self) -> ConsumerGroup:
        group = self.coordinator.groups["g"]
        assert isinstance(group, ConsumerGroup)
        return group

    def ask_beat(
        self,
        member: str = "a",
        epoch: int = 0,
        *,
        topics: Iterable[str] | None = None,
        regex: str | None = None,
        owned: Owned | None = None,
        group: str = "g",
        instance: str | None = None,
        rack: str | None = None,
        rebalance_ms: int = -1,
        assignor: str | None = None,
        version: int = 1,
        host: str = "/127.0.0.1",
    ) -> int:
        request = ConsumerGroupHeartbeatRequest(
            group_id=group,
            member_id=member,
            member_epoch=epoch,
            instance_id=instance,
            rack_id=rack,
            rebalance_timeout_ms=rebalance_ms,
            subscribed_topic_names=None if topics is None else list(topics),
            subscribed_topic_regex=regex,
            server_assignor=assignor,
            topic_partitions=None if owned is None else partitions_of(**owned),
        )

        def decide(token: int) -> Decision:
            caller = Caller(token, version, "c", host, f"u{token}")
            return self.consumer.heartbeat(request, caller, self.may_describe, self.wall)

        return self.ask(decide)

    def may_describe(self, topic: str) -> bool:
        return topic not in self.hidden

    def beat(self, member: str = "a", epoch: int = 0, **said: Any) -> Any:
        """The answer to a heartbeat."""
        return self.replies[self.ask_beat(member, epoch, **said)]

    def enter(self, member: str = "a", topics: Iterable[str] = ("t",), **said: Any) -> Any:
        """The answer to the first heartbeat of a member that subscribes to topics by name."""
        said = {"rebalance_ms": 60_000, "owned": {}, "topics": topics, **said}
        return self.beat(member, 0, **said)

    def refusal(self, member: str = "a", epoch: int = 0, **said: Any) -> ErrorCode:
        """The error of a heartbeat; NONE if it is taken."""
        return ErrorCode(self.beat(member, epoch, **said).error_code)

    def describe_consumer(self, *group_ids: str) -> list[DescribedGroup]:
        token = self.ask(lambda token: self.consumer.describe(group_ids, token))
        answers: list[DescribedGroup] = self.replies[token]
        return answers

    def change_image(self, image: ClusterImage) -> None:
        """The cluster's metadata change, and coordinators are told of it."""
        delta = diff(self.image, image)
        self.image = image
        self.carry_out(lambda: self.coordinator.decide_image_changed(delta))

    def records(self, since: int = 0) -> list[tuple[Any, Any]]:
        """The log from an offset on, decoded."""
        decoded = []
        for key, value in self.log[since:]:
            kind = decode_key(key)
            decoded.append((kind, None if value is None else decode_value(kind, value)))
        return decoded

    def kinds(self, since: int = 0) -> list[int]:
        """The types of the records from an offset on; negative ones are tombstones'."""
        return [
            int.from_bytes(key[:2], "big") * (1 if value is not None else -1)
            for key, value in self.log[since:]
        ]

    def written(self, act: Callable[[], Any]) -> list[int]:
        """The kinds of records that something writes."""
        start = len(self.log)
        act()
        return self.kinds(start)


class Client:
    """A member with a mind: its epoch, what it owns, and what it was last told to have."""

    def __init__(self, world: ConsumerWorld, name: str, topics: Iterable[str] = ("t",)) -> None:
        self.world = world
        self.name = name
        self.topics = tuple(topics)
        self.epoch = 0
        self.owned: dict[str, set[int]] = {}
        self.told: dict[str, set[int]] = {}
        self.says_all = True
        """Whether the next heartbeat says everything: the answer to the last one is not known."""

    def beat(self, *, is_lost: bool = False, **said: Any) -> ErrorCode:
        """A heartbeat; if it `is_lost`, the coordinator has it and the client hears nothing."""
        response = self.world.beat(self.name, self.epoch, **self.says(**said))
        error = ErrorCode(response.error_code)
        self.says_all = is_lost
        if is_lost:
            return error
        if error in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID):
            self.epoch, self.owned, self.told = 0, {}, {}
        elif error is ErrorCode.NONE:
            if self.epoch == 0:
                self.owned = {}
            self.epoch = response.member_epoch
            assigned = owned_by(response)
            if assigned is not None:
                self.told = {name: set(indexes) for name, indexes in assigned.items()}
        return error

    def says(self, **said: Any) -> dict[str, Any]:
        """What its heartbeat says, besides what it is made to say."""
        if self.epoch == 0 or self.says_all:
            said = {"topics": self.topics, "rebalance_ms": 60_000, **said}
        return {"owned": self.owned if self.epoch else {}, **said}

    def settle(self) -> None:
        """Give up and take over what it was told to."""
        self.owned = {name: set(indexes) for name, indexes in self.told.items()}

    @property
    def partitions(self) -> set[tuple[str, int]]:
        return {(name, index) for name, indexes in self.owned.items() for index in indexes}
