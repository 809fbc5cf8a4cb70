"""Topics, partitions and configs with drawn names, numbers, keys and values."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from fencepost.wire.api.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from fencepost.wire.api.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from fencepost.wire.api.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from fencepost.wire.api.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

from ..topic_words import fresh
from .comparing import Ask, Side, Step, compare
from .drawing import INT32_MAX, INT64_MAX, int32, name, often
from .topics import make_topics

pytestmark = [pytest.mark.interop, pytest.mark.slow]

KEYS = (
    "cleanup.policy",
    "compression.type",
    "delete.retention.ms",
    "file.delete.delay.ms",
    "flush.messages",
    "flush.ms",
    "index.interval.bytes",
    "local.retention.bytes",
    "max.compaction.lag.ms",
    "max.message.bytes",
    "message.timestamp.after.max.ms",
    "message.timestamp.type",
    "min.cleanable.dirty.ratio",
    "min.compaction.lag.ms",
    "min.insync.replicas",
    "preallocate",
    "retention.bytes",
    "retention.ms",
    "segment.bytes",
    "segment.index.bytes",
    "segment.jitter.ms",
    "segment.ms",
    "unclean.leader.election.enable",
    "no.such.key",
    "",
)
WORDS = (
    "delete", "compact", "compact,delete", "delete,delete", " compact , delete ", ",", "none",
    "gzip", "producer", "uncompressed", "CreateTime", "LogAppendTime", "createtime", "true", "TRUE",
    "yes",
    "false", "", " ", "0.5", "1.5", "-0.1", "1e-3", "nan", "0x10", "1_000", "+5", " 7 ", "7d", "٣",
)  # fmt: skip
NUMBERS = (
    0, 1, 4, 14, 100, 1024, 1048576, INT32_MAX, INT32_MAX + 1, INT64_MAX, INT64_MAX + 1, -1, -2
)  # fmt: skip


def draw_value(rng: random.Random) -> str | None:
    if rng.random() < 0.05:
        return None
    if rng.random() < 0.5:
        return rng.choice(WORDS)
    return str(rng.choice(NUMBERS) + rng.choice((0, 0, -1, 1)))


def draw_configs(rng: random.Random) -> list[tuple[str, str | None]]:
    return [(rng.choice(KEYS), draw_value(rng)) for _ in range(rng.choice((0, 0, 1, 1, 2)))]


def draw_assignments(rng: random.Random) -> list[tuple[int, list[int]]]:
    """None in most cases; else with gaps, unknown brokers, the same broker twice."""
    if rng.random() < 0.7:
        return []
    brokers = ([1], [1], [2], [1, 1], [-1], [])
    return [
        (often(rng, index, (index + 1, -1), 0.9), list(rng.choice(brokers)))
        for index in range(rng.randint(1, 3))
    ]


def test_create_topics(sides: Sequence[Side]) -> None:
    def draw(rng: random.Random) -> list[Step]:
        known = f"t{rng.randrange(10**9)}"
        named = [often(rng, known, (name(rng), known), 0.7) for _ in range(rng.choice((1, 1, 2)))]
        topics = [
            CreatableTopic(
                name=one,
                num_partitions=often(rng, 1, (-2, -1, 0, 2), 0.6),
                replication_factor=often(rng, 1, (-2, -1, 0, 2, 32767), 0.6),
                assignments=[
                    CreatableReplicaAssignment(partition_index=index, broker_ids=ids)
                    for index, ids in draw_assignments(rng)
                ],
                configs=[CreatableTopicConfig(name=k, value=v) for k, v in draw_configs(rng)],
            )
            for one in named
        ]
        version = rng.randint(2, 7)
        request = CreateTopicsRequest(
            topics=topics, timeout_ms=30_000, validate_only=rng.random() < 0.8
        )
        told = f"{request!r} {topics!r} {[topic.configs for topic in topics]!r}"
        return [Ask("CreateTopics", lambda _: request, version, told, only=errors_and_numbers)]

    assert compare(sides, draw) > 0


def errors_and_numbers(seen: dict) -> Any:
    """The topics by their names, whatever their order; configs are described by the next test."""
    return sorted(
        (one["name"], one["error_code"], one["num_partitions"], one["replication_factor"])
        for one in seen["topics"]
    )


def test_create_partitions(sides: Sequence[Side]) -> None:
    topic = fresh()
    make_topics(sides, {topic: {}}, partitions=2)

    def draw(rng: random.Random) -> list[Step]:
        assignments = None
        if rng.random() < 0.5:
            brokers = ([1], [1], [1], [2], [1, 1], [], [-1])
            assignments = [
                CreatePartitionsAssignment(broker_ids=list(rng.choice(brokers)))
                for _ in range(rng.choice((0, 1, 1, 2)))
            ]
        count = int32(rng, 2, 3) if rng.random() < 0.9 else 2000
        request = CreatePartitionsRequest(
            topics=[
                CreatePartitionsTopic(
                    name=often(rng, topic, ("no-such-topic", "", "__consumer_offsets"), 0.9),
                    count=min(count, 20_000),
                    assignments=assignments,
                )
                for _ in range(often(rng, 1, (2,), 0.9))
            ],
            timeout_ms=30_000,
            validate_only=True,
        )
        version = rng.randint(0, 3)
        return [Ask("CreatePartitions", lambda _: request, version, repr(request))]

    assert compare(sides, draw) > 0


def describe(topic: str) -> Ask:
    """What the topic's configs are now, and whence."""
    request = DescribeConfigsRequest(
        resources=[DescribeConfigsResource(resource_type=2, resource_name=topic)]
    )

    def set_ones(seen: dict) -> Any:
        found = [(one["error_code"], one["configs"]) for one in seen["results"]]
        return [
            (
                code,
                sorted(
                    (one["name"], one["value"], one["is_sensitive"], one["config_type"])
                    for one in configs
                    if one["config_source"] == 1
                ),
            )
            for code, configs in found
        ]

    return Ask("DescribeConfigs", lambda _: request, 4, topic, only=set_ones)


def test_incremental_alter_configs(sides: Sequence[Side]) -> None:
    topic = fresh()
    make_topics(sides, {topic: {}})

    def draw(rng: random.Random) -> list[Step]:
        configs = [
            AlterableConfig(
                name=key, config_operation=often(rng, 0, (1, 2, 3, 4, -1), 0.6), value=value
            )
            for key, value in [*draw_configs(rng), (rng.choice(KEYS), draw_value(rng))]
        ]
        if any(config.config_operation not in range(4) for config in configs):
            # Apache Kafka fails at it when it comes to it, in the order of a Java HashMap.
            del configs[1:]
        resource = AlterConfigsResource(
            # Not 16 and 32: Fencepost has no configs of client metrics and groups.
            resource_type=often(rng, 2, (0, 1, 3, 4, 8, 127), 0.9),
            resource_name=often(rng, topic, ("no-such-topic", "", "1"), 0.9),
            configs=configs,
        )
        request = IncrementalAlterConfigsRequest(
            resources=[resource for _ in range(often(rng, 1, (0, 2), 0.95))],
            validate_only=rng.random() < 0.5,
        )
        version = rng.randint(0, 1)
        told = f"{resource!r} {configs!r}"
        return [
            Ask("IncrementalAlterConfigs", lambda _: request, version, told),
            describe(topic),
        ]

    assert compare(sides, draw) > 0
