"""Fetch, ListOffsets, OffsetForLeaderEpoch and DeleteRecords at drawn places of the same log."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from fencepost.batch.records import build_batch
from fencepost.wire.api.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from fencepost.wire.api.fetch import FetchPartition, FetchRequest, FetchTopic
from fencepost.wire.api.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from fencepost.wire.api.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from fencepost.wire.api.produce import PartitionProduceData, ProduceRequest, TopicProduceData

from ..topic_words import fresh
from .comparing import Ask, Side, Step, compare
from .drawing import INT32_MAX, int32, int64, often
from .topics import make_topics

pytestmark = [pytest.mark.interop, pytest.mark.slow]

PARTITIONS = 2
BATCHES = 40
FIRST_MS = 1_700_000_000_000
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def fill(sides: Sequence[Side], topic: str) -> tuple[list[int], list[int]]:
    """Write the same batches into partition 0 of each side; sizes and first offsets of them."""
    rng = random.Random(topic)
    batches, starts, end = [], [], 0
    for number in range(BATCHES):
        rows = [(b"k", rng.randbytes(rng.choice((0, 10, 400)))) for _ in range(rng.randint(1, 3))]
        at_ms = FIRST_MS + rng.randint(0, BATCHES) * 10
        batches.append(build_batch(rows, timestamp_ms=at_ms, compression=CODECS[number % 5]))
        starts.append(end)
        end += len(rows)
    for side in sides:
        for batch in batches:
            data = [PartitionProduceData(index=0, records=batch)]
            request = ProduceRequest(
                acks=-1,
                timeout_ms=30_000,
                topic_data=[TopicProduceData(name=topic, partition_data=data)],
            )
            answer = side.request(request, 9)
            assert answer.responses[0].partition_responses[0].error_code == 0
    return [len(batch) for batch in batches], [*starts, end]


@pytest.fixture(scope="module")
def log(sides: Sequence[Side]) -> tuple[str, list[int], list[int]]:
    """A topic, the bytes of its batches, and where each begins, with the end behind them."""
    topic = fresh()
    make_topics(sides, {topic: {"segment.bytes": "1048576"}}, PARTITIONS)
    return topic, *fill(sides, topic)


def test_fetch(sides: Sequence[Side], log: tuple[str, list[int], list[int]]) -> None:
    topic, sizes, starts = log

    def partition(rng: random.Random, index: int, version: int) -> FetchPartition:
        return FetchPartition(
            partition=index,
            current_leader_epoch=often(rng, -1, (-2, 0, 1, 5, INT32_MAX)) if version >= 9 else -1,
            fetch_offset=int64(rng, *starts) if rng.random() < 0.9 else rng.randint(0, starts[-1]),
            last_fetched_epoch=often(rng, -1, (-2, 0, 1)) if version >= 12 else -1,
            log_start_offset=often(rng, -1, (0, 1)) if version >= 5 else -1,
            partition_max_bytes=often(rng, 1 << 20, (int32(rng, *sizes), sum(sizes)), 0.5),
        )

    def draw(rng: random.Random) -> list[Step]:
        version = rng.randint(4, 17)
        indexes = rng.sample((0, 1, PARTITIONS, -1), k=rng.choice((1, 1, 2, 3)))
        partitions = [partition(rng, often(rng, 0, indexes), version) for _ in indexes]
        named = often(rng, topic, ("no-such-topic", ""), 0.95)
        settings = {
            "max_wait_ms": rng.choice((0, 0, 1, -1)),
            "min_bytes": often(rng, 0, (1, -1, INT32_MAX)),
            "max_bytes": often(rng, INT32_MAX, (int32(rng, *sizes), 1), 0.6),
            "isolation_level": often(rng, 0, (1,)),
        }

        def make(side: Side) -> FetchRequest:
            asked = FetchTopic(partitions=partitions)
            if version >= 13:
                asked.topic_id = side.topic_id(named)
            else:
                asked.topic = named
            return FetchRequest(topics=[asked], **settings)

        return [Ask("Fetch", make, version, f"{named} {settings} {partitions!r}")]

    assert compare(sides, draw) > 0


def test_list_offsets(sides: Sequence[Side], log: tuple[str, list[int], list[int]]) -> None:
    topic, _, _ = log

    def draw(rng: random.Random) -> list[Step]:
        version = rng.randint(1, 11)
        partitions = [
            ListOffsetsPartition(
                partition_index=often(rng, 0, (1, 2, -1), 0.7),
                current_leader_epoch=often(rng, -1, (-2, 0, 1, INT32_MAX)) if version >= 4 else -1,
                timestamp=int64(rng, FIRST_MS, *(FIRST_MS + 10 * n for n in range(BATCHES))),
            )
            for _ in range(rng.choice((1, 1, 2)))
        ]
        asked = ListOffsetsTopic(
            name=often(rng, topic, ("no-such-topic", ""), 0.95), partitions=partitions
        )
        request = ListOffsetsRequest(
            replica_id=often(rng, -1, (-2, 0, 1)),
            isolation_level=often(rng, 0, (1, 2)) if version >= 2 else 0,
            topics=[asked],
            timeout_ms=5000 if version >= 10 else 0,
        )
        return [Ask("ListOffsets", lambda _: request, version, repr(request))]

    assert compare(sides, draw) > 0


def test_offset_for_leader_epoch(
    sides: Sequence[Side], log: tuple[str, list[int], list[int]]
) -> None:
    topic, _, _ = log

    def draw(rng: random.Random) -> list[Step]:
        partition = OffsetForLeaderPartition(
            partition=often(rng, 0, (1, 2, -1)),
            current_leader_epoch=int32(rng, 0),
            leader_epoch=int32(rng, 0),
        )
        named = often(rng, topic, ("no-such-topic", ""), 0.95)
        request = OffsetForLeaderEpochRequest(
            replica_id=often(rng, -2, (-1, 0, 1)),
            topics=[OffsetForLeaderTopic(topic=named, partitions=[partition])],
        )
        version = rng.randint(2, 4)
        return [Ask("OffsetForLeaderEpoch", lambda _: request, version, repr(request))]

    assert compare(sides, draw) > 0


def test_delete_records(sides: Sequence[Side]) -> None:
    topic = fresh()
    make_topics(sides, {topic: {}})
    _, starts = fill(sides, topic)

    def draw(rng: random.Random) -> list[Step]:
        # Most of the log stays until late, since what is deleted stays deleted.
        offset = int64(rng, *starts[:3]) if rng.random() < 0.9 else rng.randint(0, starts[-1] + 2)
        index = often(rng, 0, (1, -1))
        request = DeleteRecordsRequest(
            topics=[
                DeleteRecordsTopic(
                    name=often(rng, topic, ("no-such-topic", ""), 0.95),
                    partitions=[DeleteRecordsPartition(partition_index=index, offset=offset)],
                )
            ],
            timeout_ms=5000,
        )
        version = rng.randint(0, 2)
        earliest = ListOffsetsRequest(
            replica_id=-1,
            topics=[
                ListOffsetsTopic(
                    name=topic, partitions=[ListOffsetsPartition(partition_index=0, timestamp=-2)]
                )
            ],
        )
        return [
            Ask("DeleteRecords", lambda _: request, version, repr(request)),
            Ask("ListOffsets", lambda _: earliest, 7, topic),
        ]

    assert compare(sides, draw) > 0
