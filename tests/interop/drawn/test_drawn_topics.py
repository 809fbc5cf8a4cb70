"""What is asked about topics, and done with them: descriptions in pages, metadata by name and id,
moves between brokers and directories, elections, deletions."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from fencepost.wire.api.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from fencepost.wire.api.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from fencepost.wire.api.delete_topics import DeleteTopicsRequest, DeleteTopicState
from fencepost.wire.api.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from fencepost.wire.api.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from fencepost.wire.api.elect_leaders import ElectLeadersRequest, TopicPartitions
from fencepost.wire.api.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from fencepost.wire.api.metadata import MetadataRequest, MetadataRequestTopic
from fencepost.wire.types import Uuid

from ..topic_words import fresh
from .comparing import Ask, Settling, Side, Step, compare
from .drawing import INT32_MAX, int32, name, often, own_name
from .topics import make_topics

pytestmark = [pytest.mark.interop, pytest.mark.slow]

PARTITIONS = 3
UNKNOWN_ID = Uuid(b"no topic has it.")


@pytest.fixture(scope="module")
def names(sides: Sequence[Side]) -> list[str]:
    """Topics of three partitions on both sides, the last of all names."""
    made = [f"zz{index}{fresh()}" for index in range(3)]
    make_topics(sides, {one: {} for one in made}, PARTITIONS)
    return made


def a_name(rng: random.Random, names: list[str]) -> str:
    return often(rng, rng.choice(names), ("no-such-topic", "", "a b", name(rng)), 0.85)


def an_index(rng: random.Random) -> int:
    return often(rng, rng.randrange(PARTITIONS), (-1, PARTITIONS, INT32_MAX), 0.85)


def test_describe_topic_partitions(sides: Sequence[Side], names: list[str]) -> None:
    def draw(rng: random.Random) -> list[Step]:
        # Of all topics (none is named) only the pages from ours on: other tests make topics, too.
        asked = [a_name(rng, names) for _ in range(rng.choice((0, 1, 2, 3, 4)))]
        # Not behind partition 2**31 - 1 - limit, where Apache Kafka's next cursor overflows.
        cursor = None
        if not asked or rng.random() < 0.5:
            at = a_name(rng, names) if asked else rng.choice(names)
            cursor = Cursor(topic_name=at, partition_index=rng.randint(-2, PARTITIONS + 1))
        request = DescribeTopicPartitionsRequest(
            topics=[TopicRequest(name=one) for one in asked],
            response_partition_limit=int32(rng, 1, PARTITIONS, 2 * PARTITIONS),
            cursor=cursor,
        )
        told = f"{asked} {request.response_partition_limit} {cursor!r}"
        return [Ask("DescribeTopicPartitions", lambda _: request, 0, told)]

    assert compare(sides, draw) > 0


def test_metadata(sides: Sequence[Side], names: list[str]) -> None:
    def draw(rng: random.Random) -> list[Step]:
        version = rng.randint(0, 13)
        by_id = version >= 10 and rng.random() < 0.4
        asked = [a_name(rng, names) for _ in range(rng.choice((1, 1, 2)))]
        both = by_id and rng.random() < 0.1

        def topic(side: Side, one: str) -> MetadataRequestTopic:
            if not by_id:
                return MetadataRequestTopic(name=one)
            topic_id = side.topic_id(one) if one in names else UNKNOWN_ID
            side.recognise("topic_id", UNKNOWN_ID, "unknown")
            return MetadataRequestTopic(name=one if both else None, topic_id=topic_id)

        with_operations = version in range(8, 11) and rng.random() < 0.5

        def make(side: Side) -> MetadataRequest:
            request = MetadataRequest(topics=[topic(side, one) for one in asked])
            request.include_cluster_authorized_operations = with_operations
            request.include_topic_authorized_operations = version >= 8 and len(asked) > 1
            return request

        told = f"{asked} {by_id} {both} {with_operations}"
        return [Ask("Metadata", make, version, told)]

    assert compare(sides, draw) > 0


def test_reassignments(sides: Sequence[Side], names: list[str]) -> None:
    """Of one broker, so that nothing ever moves: what is refused, and with what."""

    def alter(rng: random.Random) -> Step:
        places = dict.fromkeys(
            (a_name(rng, names), an_index(rng)) for _ in range(rng.choice((0, 1, 1, 2)))
        )
        rows = [
            ReassignableTopic(
                name=one,
                partitions=[
                    ReassignablePartition(
                        partition_index=index,
                        replicas=rng.choice(([1], [1], [2], [1, 1], [1, 2], [-1], [], None)),
                    )
                ],
            )
            for one, index in places
        ]
        version = rng.randint(0, 1)
        free = version < 1 or rng.random() < 0.5
        request = AlterPartitionReassignmentsRequest(
            # Without partitions Apache Kafka's controller does not look at the time.
            timeout_ms=often(rng, 30_000, (0, -1, INT32_MAX), 0.95) if rows else 30_000,
            topics=rows,
        )
        request.allow_replication_factor_change = free
        told = f"{request.timeout_ms} {free} {rows!r}"
        return Ask("AlterPartitionReassignments", lambda _: request, version, told)

    def listing(rng: random.Random) -> Step:
        rows = [
            ListPartitionReassignmentsTopics(
                name=a_name(rng, names), partition_indexes=[an_index(rng)]
            )
            for _ in range(rng.choice((0, 1, 2)))
        ]
        request = ListPartitionReassignmentsRequest(
            timeout_ms=30_000, topics=often(rng, rows, (None,), 0.8)
        )
        return Ask("ListPartitionReassignments", lambda _: request, 0, repr(rows))

    def elect(rng: random.Random) -> Step:
        rows = [
            TopicPartitions(
                topic=a_name(rng, names),
                partitions=[an_index(rng) for _ in range(rng.randint(0, 2))],
            )
            for _ in range(rng.choice((0, 1, 2)))
        ]
        version = rng.randint(0, 2)
        request = ElectLeadersRequest(
            election_type=often(rng, rng.choice((0, 1)), (2, -1), 0.9) if version else 0,
            topic_partitions=often(rng, rows, (None,), 0.9),
            timeout_ms=often(rng, 30_000, (INT32_MAX,), 0.95),
        )
        told = f"{request.election_type} {request.timeout_ms} {request.topic_partitions!r}"
        return Ask("ElectLeaders", lambda _: request, version, told, only=in_order)

    def in_order(seen: dict) -> Any:
        rows = [
            (topic["topic"], sorted((one["partition_id"], one["error_code"])
                                    for one in topic["partition_result"]))
            for topic in seen["replica_election_results"]
        ]  # fmt: skip
        return {"error_code": seen["error_code"], "results": sorted(rows)}

    def draw(rng: random.Random) -> list[Step]:
        return [rng.choice((alter, alter, listing, elect))(rng) for _ in range(3)]

    assert compare(sides, draw) > 0


def test_log_directories(sides: Sequence[Side], names: list[str]) -> None:
    """Of a broker with one directory."""

    def keep(side: Side, answer: Any) -> None:
        side.values["dir"] = answer.results[0].log_dir

    def without_sizes(seen: dict) -> Any:
        for found in seen["results"]:
            for key in ("log_dir", "total_bytes", "usable_bytes"):
                del found[key]
            for topic in found["topics"]:
                topic["partitions"].sort(key=lambda one: one["partition_index"])
        return seen

    def describe(rng: random.Random) -> Step:
        asked = {a_name(rng, names): [an_index(rng)] for _ in range(rng.choice((0, 1, 2)))}
        rows = [DescribableLogDirTopic(topic=one, partitions=at) for one, at in asked.items()]
        request = DescribeLogDirsRequest(topics=rows)
        return Ask(
            "DescribeLogDirs",
            lambda _: request,
            rng.randint(1, 5),
            repr(asked),
            keep=keep,
            only=without_sizes,
        )

    def move(rng: random.Random) -> Step:
        paths = dict.fromkeys(
            often(rng, "its own", ("", "/no/such/directory", "relative", "its own/"), 0.5)
            for _ in range(rng.choice((1, 1, 2)))
        )
        # A partition under one of the paths: Kafka takes the last one of a Java map.
        places = {path: (a_name(rng, names), an_index(rng)) for path in paths}
        if len(set(places.values())) < len(places):
            places = dict(list(places.items())[:1])

        def make(side: Side) -> AlterReplicaLogDirsRequest:
            return AlterReplicaLogDirsRequest(
                dirs=[
                    AlterReplicaLogDir(
                        path=path.replace("its own", side.values["dir"]),
                        topics=[AlterReplicaLogDirTopic(name=one, partitions=[index])],
                    )
                    for path, (one, index) in places.items()
                ]
            )

        def by_place(seen: dict) -> Any:
            return sorted(
                (topic["topic_name"], one["partition_index"], one["error_code"])
                for topic in seen["results"]
                for one in topic["partitions"]
            )

        return Ask("AlterReplicaLogDirs", make, rng.randint(1, 2), repr(places), only=by_place)

    def draw(rng: random.Random) -> list[Step]:
        return [describe(rng), *(rng.choice((move, describe))(rng) for _ in range(4))]

    assert compare(sides, draw) > 0


def test_delete_topics(sides: Sequence[Side]) -> None:
    def draw(rng: random.Random) -> list[Step]:
        made = [own_name(rng, "deleted"), own_name(rng, "deleted")]
        make_topics(sides, {one: {} for one in made})
        for side in sides:
            side.start_history()
            side.recognise("topic_id", UNKNOWN_ID, "unknown")
            for one in made:
                side.recognise("topic_id", side.topic_id(one), f"id of {one}")
        return [step for _ in range(rng.randint(1, 3)) for step in delete(rng, made)]

    def delete(rng: random.Random, made: list[str]) -> list[Step]:
        version = rng.randint(1, 6)
        asked = [
            (often(rng, rng.choice(made), ("no-such-topic", "", "a b"), 0.8), rng.randrange(10))
            for _ in range(rng.choice((0, 1, 1, 2, 3)))
        ]

        def state(side: Side, one: str, how: int) -> DeleteTopicState:
            if how < 5:
                return DeleteTopicState(name=one)
            if how == 9:
                return DeleteTopicState(name=None)
            topic_id = side.topic_id(one) if one in made else UNKNOWN_ID
            return DeleteTopicState(name=one if how == 8 else None, topic_id=topic_id)

        def make(side: Side) -> DeleteTopicsRequest:
            if version < 6:
                return DeleteTopicsRequest(topic_names=[one for one, _ in asked], timeout_ms=30_000)
            rows = [state(side, one, how) for one, how in asked]
            return DeleteTopicsRequest(topics=rows, timeout_ms=30_000)

        def by_topic(seen: dict) -> Any:
            """In any order: Kafka shuffles them."""
            rows = [
                (str(one["name"]), str(one["topic_id"]), one["error_code"])
                for one in seen["responses"]
            ]
            return sorted(rows)

        left = MetadataRequest(topics=[MetadataRequestTopic(name=one) for one in made])
        left.allow_auto_topic_creation = False

        def errors(seen: dict) -> Any:
            return [one["error_code"] for one in seen["topics"]]

        return [
            Ask("DeleteTopics", make, version, repr(asked), only=by_topic),
            Settling("Metadata", lambda _: left, 12, only=errors),
        ]

    assert compare(sides, draw) > 0
