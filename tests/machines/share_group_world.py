"""`ShareWorld`: a shard with share groups, whose share coordinators answer when a test says so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fencepost.machines.group.caller import Caller
from fencepost.machines.group.codec import GroupCodec
from fencepost.machines.group.group import Group
from fencepost.machines.group.shard import Decision
from fencepost.machines.group.share.groups import ShareGroups
from fencepost.machines.group.share.state import InitializeStates
from fencepost.machines.image import apply_records, diff
from fencepost.wire.api.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from fencepost.wire.api.share_group_heartbeat import ShareGroupHeartbeatRequest
from fencepost.wire.message import Message
from fencepost.wire.records.metadata import PartitionRecord, RemoveTopicRecord, TopicRecord
from fencepost.wire.types import Uuid

from .group_world import GroupWorld, compact, replay


def topic_id(name: str) -> Uuid:
    """An id that goes with the name."""
    return Uuid(name.encode().ljust(16, b"\0")[:16])


def altered(topic: str, **offsets: int) -> AlterShareGroupOffsetsRequestTopic:
    """The offsets of partitions (`p0=7`) as a request has them."""
    rows = [
        AlterShareGroupOffsetsRequestPartition(partition_index=int(name[1:]), start_offset=offset)
        for name, offset in offsets.items()
    ]
    return AlterShareGroupOffsetsRequestTopic(topic_name=topic, partitions=rows)


class ShareWorld(GroupWorld):
    """See the module docstring."""

    def __init__(self, **said: Any) -> None:
        super().__init__(**said)
        self.sends: list[InitializeStates] = []
        self.create("t", 2)

    @property
    def shares(self) -> ShareGroups:
        return self.coordinator.of_type(ShareGroups)

    def carry_out(self, decide: Callable[[], Decision], token: int | None = None) -> None:
        decided: list[Decision] = []

        def remember() -> Decision:
            decided.append(decide())
            return decided[-1]

        before = len(self.log)
        super().carry_out(remember, token)
        if len(self.log) > before or not decided[0].records:
            self.sends += decided[0].sends

    # The cluster

    def change_image(self, *records: Message) -> None:
        before = self.image
        self.image = apply_records(before, records, before.offset + len(records))
        delta = diff(before, self.image)
        self.carry_out(lambda: self.coordinator.decide_image_changed(delta))

    def create(self, name: str, partitions: int, first: int = 0) -> None:
        """Create a topic, or its partitions from `first` on."""
        records: list[Message] = []
        if not first:
            records.append(TopicRecord(name=name, topic_id=topic_id(name)))
        records += [
            PartitionRecord(
                partition_id=index,
                topic_id=topic_id(name),
                replicas=[1],
                isr=[1],
                leader=1,
                leader_epoch=0,
                partition_epoch=0,
            )
            for index in range(first, partitions)
        ]
        self.change_image(*records)

    def delete_topic(self, name: str) -> None:
        self.change_image(RemoveTopicRecord(topic_id=topic_id(name)))

    # Members

    def beat(
        self, member_id: str, epoch: int = 0, *topics: str, group: str = "g", **said: Any
    ) -> Any:
        """The answer to a heartbeat; None if the log has refused it."""
        request = ShareGroupHeartbeatRequest(
            group_id=group,
            member_id=member_id,
            member_epoch=epoch,
            subscribed_topic_names=list(topics) or None,
            **said,
        )
        token = self.ask(
            lambda token: self.shares.heartbeat(
                request, Caller(token, 1, "c", "/127.0.0.1"), self.wall
            )
        )
        return self.replies.get(token)

    def answer_sends(self, *, succeeded: bool = True) -> list[InitializeStates]:
        """Share coordinators answer all that they were asked; what that was."""
        sends, self.sends = self.sends, []
        for message in sends:
            self.carry_out(
                lambda message=message: self.shares.offsets.initialized(  # type: ignore[misc]
                    message, succeeded=succeeded
                )
            )
        return sends

    def joined(self, member_id: str = "m", *topics: str, group: str = "g") -> int:
        """Have a member with its partitions; its epoch."""
        epoch = int(self.beat(member_id, 0, *(topics or ("t",)), group=group).member_epoch)
        self.answer_sends()
        self.advance(1_000)
        return int(self.beat(member_id, epoch, group=group).member_epoch)

    # Administrators

    def alter(self, group: str = "g", topic: str = "t", **offsets: int) -> Any:
        """Set the offsets of partitions (`p0=7`); the `AlterReply`."""
        asked = altered(topic, **offsets)
        token = self.ask(lambda token: self.shares.offsets.alter(group, [asked], token))
        return self.replies[token]

    def delete_offsets(self, *topics: str, group: str = "g") -> Any:
        """The `DeleteReply`."""
        token = self.ask(lambda token: self.shares.offsets.delete(group, topics, token))
        return self.replies[token]

    def forget(self, group: str = "g") -> Any:
        """The `ForgetReply`."""
        return self.replies[self.ask(lambda token: self.shares.offsets.forget(group, token))]

    def delete_group(self, group: str = "g") -> int:
        token = self.ask(lambda token: self.coordinator.decide_delete_groups([group], token))
        return int(self.replies[token][0].error_code)

    def describe(self, group: str = "g") -> Any:
        token = self.ask(lambda token: self.shares.describe([group], token))
        return self.replies[token][0]


def assigned(answer: Any) -> dict[str, list[int]]:
    """The assignment of an answer, by the topic's name in its id."""
    return {
        one.topic_id.rstrip(b"\0").decode(): one.partitions
        for one in answer.assignment.topic_partitions
    }


def check(world: ShareWorld) -> None:
    """Memory is counted right, and the log says what is known, compacted or not."""
    groups: list[Group] = list(world.coordinator.groups.values())
    assert world.memory.used_bytes == sum(group.counted_bytes for group in groups)
    known = world.coordinator.durable_view()
    for log in (world.log, compact(world.log)):
        loaded = replay(log)
        assert loaded.durable_view() == known
        for group_id, group in world.coordinator.groups.items():
            other = loaded.groups[group_id]
            for sum_ in ("topic_users", "targeted", "size_bytes"):
                assert getattr(other, sum_, None) == getattr(group, sum_, None), sum_


def batches_of(world: ShareWorld, before: int) -> list[tuple[str, bool]]:
    """The records since then: the names of their keys' classes, and whether they have values."""
    found = [GroupCodec().decode(key, value) for key, value in world.log[before:]]
    return [(type(one[0]).__name__, one[1] is not None) for one in found if one is not None]
