"""Histories of consumer groups (KIP-848): heartbeats; offsets by topic ids and member epochs."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from fencepost.wire.api.consumer_group_describe import ConsumerGroupDescribeRequest
from fencepost.wire.api.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from fencepost.wire.api.delete_groups import DeleteGroupsRequest
from fencepost.wire.api.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from fencepost.wire.api.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from fencepost.wire.types import Uuid

from ...waiting import eventually
from ..topic_words import fresh
from .comparing import Ask, Side, Step, compare
from .drawing import INT32_MAX, often, own_name
from .topics import make_topics

pytestmark = [pytest.mark.interop, pytest.mark.slow]

MEMBERS = ("m", "n")
"""Not three: who gets a partition more than others is by the order of a hash table in Kafka."""
PARTITIONS = 4
"""As many for each of two members: who gets one more is by a hash table, as above."""
UNKNOWN_ID = Uuid(b"no topic has it.")
FIRST_WITH_IDS = 10


@pytest.fixture(scope="module")
def names(sides: Sequence[Side]) -> list[str]:
    """Two topics on both sides, which the coordinators know."""
    made = [fresh(), fresh()]
    make_topics(sides, {one: {} for one in made}, PARTITIONS)
    for side in sides:
        side.start_history()
        for one in made:
            _wait_for_the_coordinator(side, one)
    return made


def _wait_for_the_coordinator(side: Side, topic: str) -> None:
    """Apache Kafka's coordinator hears of a topic a moment after its partitions have leaders."""
    request = ConsumerGroupHeartbeatRequest(
        group_id=f"probe-{topic}",
        member_id="probe",
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=[topic],
        topic_partitions=[],
    )

    def is_assigned() -> bool:
        request.member_epoch = 0
        answer = side.request(request, 1)
        return answer.assignment is not None and bool(answer.assignment.topic_partitions)

    eventually(is_assigned, f"the coordinator of {side.name} to know of {topic}")


class Consumers:
    """Draws the steps of two members of one group, and of strangers.

    What a member was answered last (its epoch, its partitions) is kept per side.
    """

    def __init__(self, rng: random.Random, names: list[str]) -> None:
        self.rng, self.names, self.group = rng, names, own_name(rng, "consumers")
        # One for all members: which of two wins a tie is by the order of a hash table in Kafka.
        self.assignor = rng.choice(("uniform", "range"))
        # A member is static or not, and stays so; of two static ones the second replaces the first.
        self.instances = {one: often(rng, None, ("i",), 0.8) for one in MEMBERS}
        self.other = own_name(rng, "consumers")

    def know_names(self, side: Side) -> None:
        """What the client or the test has chosen is compared as it is."""
        for member in (*MEMBERS, "stranger"):
            side.recognise("member_id", member, member)
        side.recognise("topic_id", UNKNOWN_ID, "unknown")
        for one in self.names:
            side.recognise("topic_id", side.topic_id(one), f"id of {one}")

    def steps(self, count: int) -> list[Step]:
        kinds = (
            *(self.heartbeat,) * 4,
            *(self.join, self.join, self.commit, self.commit, self.fetch, self.fetch),
            *(self.leave, self.describe, self.delete),
        )
        return [self.know_names, self.join(), *(self.rng.choice(kinds)() for _ in range(count))]

    def member(self) -> str:
        return often(self.rng, self.rng.choice(MEMBERS), ("stranger",), 0.95)

    def epoch(self, side: Side, member: str, shift: int) -> int:
        return min(INT32_MAX, max(-3, side.values.get(("epoch", member), 1) + shift))

    def ask_heartbeat(self, member: str, shift: int | None, told: str, fields: Any) -> Step:
        def make(side: Side) -> ConsumerGroupHeartbeatRequest:
            epoch = fields.get("member_epoch")
            owned = fields.get("topic_partitions")
            if owned == "its own":
                owned = side.values.get(("assigned", member), [])
            return ConsumerGroupHeartbeatRequest(
                **{
                    "group_id": self.group,
                    "member_id": member,
                    "rebalance_timeout_ms": -1,
                    **fields,
                    "member_epoch": self.epoch(side, member, shift or 0)
                    if epoch is None
                    else epoch,
                    "topic_partitions": owned,
                }
            )

        def keep(side: Side, answer: Any) -> None:
            if answer.error_code:
                return
            side.values["epoch", member] = answer.member_epoch
            if answer.assignment is not None:
                side.values["assigned", member] = [
                    TopicPartitions(topic_id=one.topic_id, partitions=one.partitions)
                    for one in answer.assignment.topic_partitions
                ]

        return Ask("ConsumerGroupHeartbeat", make, 1, told, keep=keep)

    def join(self) -> Step:
        rng = self.rng
        member = often(rng, rng.choice(MEMBERS), ("",), 0.96)
        # Not by a regular expression: when it has been looked up is a matter of time.
        # One topic that exists: whose partitions go where is by topic ids, which are the broker's.
        # And not without any: in a group in which a member has none, Kafka 4.4 may take it for what
        # all members have, and gives the others nothing.
        topics = rng.choice(([self.names[0]], [self.names[0], "no-such-topic"]))
        fields = {
            "member_epoch": 0,
            "instance_id": often(rng, self.instances.get(member), ("",), 0.97),
            "rack_id": often(rng, None, ("", "r"), 0.9),
            # Not 0: such a member is fenced as soon as it is to give something up.
            "rebalance_timeout_ms": often(rng, 60_000, (-1, INT32_MAX), 0.95),
            "subscribed_topic_names": often(rng, topics, (None,), 0.95),
            "server_assignor": often(rng, None, (self.assignor, "", "none such"), 0.8),
            "topic_partitions": often(rng, [], (None,), 0.95),
        }
        return self.ask_heartbeat(member, 0, f"{member} {fields}", fields)

    def heartbeat(self) -> Step:
        rng = self.rng
        member = self.member()
        shift = often(rng, 0, (1, -1, 5), 0.9)
        owned = rng.choice((None, "its own", "its own"))
        topics = often(rng, None, ([self.names[0]], ["no-such-topic"], ["a b"]), 0.8)
        fields = {
            "topic_partitions": owned,
            "subscribed_topic_names": topics,
            "instance_id": often(rng, self.instances.get(member), ("i", None), 0.95),
            "rebalance_timeout_ms": often(rng, -1, (60_000,), 0.95),
            "server_assignor": often(rng, None, (self.assignor,), 0.95),
        }
        return self.ask_heartbeat(member, shift, f"{member} {shift} {fields}", fields)

    def leave(self) -> Step:
        member = self.member()
        fields = {
            "member_epoch": often(self.rng, -1, (-2, -3), 0.7),
            "instance_id": self.instances.get(member),
        }
        return self.ask_heartbeat(member, 0, f"{member} {fields}", fields)

    def describe(self) -> Step:
        groups = often(self.rng, [self.group], ([self.group, "no such group"], [""], []), 0.9)
        request = ConsumerGroupDescribeRequest(group_ids=groups)
        return Ask("ConsumerGroupDescribe", lambda _: request, self.rng.randint(0, 1), f"{groups}")

    def delete(self) -> Step:
        request = DeleteGroupsRequest(groups_names=[self.group])
        return Ask("DeleteGroups", lambda _: request, self.rng.randint(0, 2))

    # -- offsets -------------------------------------------------------------------------------

    def topic_id(self, side: Side, name: str) -> Uuid:
        return side.topic_id(name) if name in self.names else UNKNOWN_ID

    def commit(self) -> Step:
        rng = self.rng
        version = rng.randint(7, 10)
        member, shift = self.member(), often(rng, 0, (1, -1, 5), 0.85)
        is_simple = rng.random() < 0.2
        rows = {
            often(rng, rng.choice(self.names), ("no-such-topic",), 0.9): [
                (often(rng, rng.randrange(PARTITIONS), (-1, PARTITIONS), 0.9), rng.randint(0, 9))
                # Not without partitions: of a topic that it knows Kafka answers nothing then.
                for _ in range(rng.choice((1, 1, 2)))
            ]
            for _ in range(rng.choice((1, 1, 2)))
        }

        def topic(side: Side, name: str, places: list[tuple[int, int]]) -> OffsetCommitRequestTopic:
            asked = OffsetCommitRequestTopic(
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=index, committed_offset=offset, committed_metadata="m"
                    )
                    for index, offset in places
                ]
            )
            if version >= FIRST_WITH_IDS:
                asked.topic_id = self.topic_id(side, name)
            else:
                asked.name = name
            return asked

        def make(side: Side) -> OffsetCommitRequest:
            return OffsetCommitRequest(
                group_id=self.group,
                generation_id_or_member_epoch=-1 if is_simple else self.epoch(side, member, shift),
                member_id="" if is_simple else member,
                topics=[topic(side, *row) for row in rows.items()],
            )

        told = f"{member} {shift} {is_simple} {rows}"
        return Ask("OffsetCommit", make, version, told, only=in_order)

    def fetch(self) -> Step:
        rng = self.rng
        version = rng.randint(1, 10)
        member, shift = self.member(), often(rng, 0, (1, -1, 5), 0.85)
        is_simple = version < 9 or rng.random() < 0.4
        stable = version >= 7 and rng.random() < 0.5
        groups = often(rng, [self.group], ([self.group, self.other], [""]), 0.8)
        asked = {
            often(rng, rng.choice(self.names), ("no-such-topic",), 0.9): [0, rng.choice((1, 7, -1))]
            for _ in range(rng.choice((0, 1, 2)))
        }
        has_all = version >= 2 and rng.random() < 0.3

        def topic(side: Side, name: str, indexes: list[int]) -> OffsetFetchRequestTopics:
            if version >= FIRST_WITH_IDS:
                topic_id = self.topic_id(side, name)
                return OffsetFetchRequestTopics(topic_id=topic_id, partition_indexes=indexes)
            return OffsetFetchRequestTopics(name=name, partition_indexes=indexes)

        def group(side: Side, name: str) -> OffsetFetchRequestGroup:
            one = OffsetFetchRequestGroup(
                group_id=name,
                topics=None if has_all else [topic(side, *row) for row in asked.items()],
            )
            if not is_simple:
                one.member_id, one.member_epoch = member, self.epoch(side, member, shift)
            return one

        def make(side: Side) -> OffsetFetchRequest:
            if version >= 8:
                rows = [group(side, name) for name in groups]
                return OffsetFetchRequest(groups=rows, require_stable=stable)
            topics = [
                OffsetFetchRequestTopic(name=name, partition_indexes=indexes)
                for name, indexes in asked.items()
            ]
            request = OffsetFetchRequest(group_id=groups[0], topics=None if has_all else topics)
            if version >= 7:
                request.require_stable = stable
            return request

        def seen_ids(seen: dict) -> Any:
            return in_order(seen)

        told = f"{groups} {member} {shift} {is_simple} {stable} {has_all} {asked}"
        return Ask("OffsetFetch", make, version, told, only=seen_ids)


def in_order(seen: Any) -> Any:
    """With partitions by their numbers, however they are nested."""
    if isinstance(seen, dict):
        return {key: in_order(value) for key, value in seen.items()}
    if isinstance(seen, list):
        rows = [in_order(one) for one in seen]
        return sorted(rows, key=str)
    return seen


def test_consumer_groups(sides: Sequence[Side], names: list[str]) -> None:
    def draw(rng: random.Random) -> list[Step]:
        return Consumers(rng, names).steps(rng.randint(5, 40))

    assert compare(sides, draw) > 0
