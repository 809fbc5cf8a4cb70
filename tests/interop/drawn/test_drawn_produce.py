"""Produce with drawn batches: sizes around the limits, stamps, sequences, attributes, damage."""

from __future__ import annotations

import random
import struct
import time
from collections.abc import Sequence
from typing import Any

import pytest

from fencepost.batch.header import (
    SEQUENCE_MAX,
    BatchHeader,
    is_of_transaction,
    pack_header,
    read_header,
    stamp_crc,
)
from fencepost.batch.records import BatchBuilder, build_batch
from fencepost.wire.api.fetch import FetchPartition, FetchRequest, FetchTopic
from fencepost.wire.api.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from fencepost.wire.api.produce import PartitionProduceData, ProduceRequest, TopicProduceData

from .comparing import Ask, Side, Step, compare
from .drawing import INT16_MAX, INT32_MAX, INT64_MAX, int32, int64, often, own_name
from .topics import make_topics

pytestmark = [pytest.mark.interop, pytest.mark.slow]

BATCH_BYTES_MAX = 1000
RECORD_BYTES_MAX = 200
CONFIGS: dict[str, dict[str, str | None]] = {
    "plain": {},
    "small-records": {"max.decompressed.message.bytes": str(RECORD_BYTES_MAX)},
    "small": {"max.message.bytes": str(BATCH_BYTES_MAX)},
    "gzip": {"compression.type": "gzip"},
    "uncompressed": {"compression.type": "uncompressed"},
    "append-time": {"message.timestamp.type": "LogAppendTime"},
    "compacted": {"cleanup.policy": "compact"},
    "in-time": {
        "message.timestamp.before.max.ms": "3600000",
        "message.timestamp.after.max.ms": "3600000",
    },
}
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
HOUR_MS = 3_600_000
TIME_MAX = INT64_MAX - 2
"""With the two milliseconds between the records of a batch, all times have 64 bits: Apache Kafka
takes others into a topic of LogAppendTime."""


def draw_base_timestamp(rng: random.Random, usual: int) -> int:
    return max(-TIME_MAX, min(TIME_MAX, int64(rng, usual)))


def draw_header(rng: random.Random, header: BatchHeader) -> BatchHeader:
    """The header with one field, sometimes two, as no client of ours would write it.

    Negative producer ids but -1, and negative epochs of a producer, are not drawn: Fencepost calls
    them INVALID_RECORD, Apache Kafka takes them for none. Nor are the delete horizon, which Apache
    Kafka's producers may set, too, and the bit of LogAppendTime, with which Apache Kafka takes a
    batch into a topic of CreateTime.
    """
    count = header.records_count
    for _ in range(rng.choice((0, 0, 0, 1, 1, 1, 2))):
        drawn = rng.choice(
            (
                {"base_offset": int64(rng, 0)},
                {"partition_leader_epoch": int32(rng, 0)},
                {"last_offset_delta": int32(rng, count - 1)},
                {"records_count": int32(rng, count)},
                {"base_timestamp": draw_base_timestamp(rng, header.base_timestamp)},
                {"max_timestamp": int64(rng, header.max_timestamp)},
                {"producer_id": rng.choice((-1, 0, 999, 1000))},
                {"producer_epoch": rng.choice((0, 1, INT16_MAX))},
                {"base_sequence": int32(rng, 0, count, SEQUENCE_MAX)},
                {"attributes": header.attributes | 1 << rng.choice((4, 5, *range(7, 15)))},
                {"attributes": header.attributes & ~7 | rng.randint(0, 7)},
                {"producer_id": 7, "producer_epoch": 0, "base_sequence": rng.randint(0, 3)},
            )
        )
        header = header._replace(**drawn)
    if header.producer_id >= 0 and header.producer_epoch < 0:
        header = header._replace(producer_epoch=0)
    return header


def draw_batch(rng: random.Random, now_ms: int) -> bytes:
    """One batch: any codec, around the limit of its size, with times around what is allowed."""
    builder = BatchBuilder(rng.choice(CODECS))
    at_ms = now_ms + rng.choice((0, 0, 0, -2 * HOUR_MS, 2 * HOUR_MS))
    at_ms = often(rng, at_ms, (-1, 0, -2), 0.9)
    for _ in range(rng.choice((1, 1, 2, 5))):
        key = rng.choice((None, b"", b"k"))
        room = BATCH_BYTES_MAX - builder.size_bytes - 12
        around = rng.randint(-8, 8)
        size = max(0, rng.choice((0, 1, 100, room + around, RECORD_BYTES_MAX - 8 + around)))
        value = None if rng.random() < 0.1 else rng.randbytes(size)
        headers = [("h", rng.choice((None, b"", b"v")))] if rng.random() < 0.2 else []
        builder.append(key, value, headers, timestamp_ms=at_ms + rng.randint(0, 2))
    batch = builder.build()
    pack_header(batch, draw_header(rng, read_header(batch)))
    stamp_crc(batch)
    if rng.random() < 0.1:
        batch[rng.randrange(8, len(batch))] ^= 1 << rng.randrange(8)
    # One of a transaction is not cut: Fencepost refuses it for the transaction (53), of which
    # Apache Kafka sees nothing then.
    if rng.random() < 0.05 and not is_of_transaction(batch):
        del batch[rng.randrange(len(batch)) :]
    return bytes(batch)


def is_whole(records: bytes) -> bool:
    """Whether the batch ends where it says."""
    (length,) = struct.unpack_from(">i", records.ljust(12, b"\0"), 8)
    return 12 + length == len(records)


def stored(topic: str) -> list[Step]:
    """Where the partition ends now, and its last batch."""
    end = ListOffsetsPartition(partition_index=0, timestamp=-1)
    asked = ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[end])]
    )

    def keep(side: Side, answer: Any) -> None:
        side.values["end"] = answer.topics[0].partitions[0].offset

    def fetch(side: Side) -> FetchRequest:
        offset = max(0, side.values["end"] - 1)
        partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=INT32_MAX)
        wanted = [FetchTopic(topic=topic, partitions=[partition])]
        return FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=INT32_MAX, topics=wanted)

    return [
        Ask("ListOffsets", lambda _: asked, 7, topic, keep=keep),
        Ask("Fetch", fetch, 12, topic),
    ]


def test_produce(sides: Sequence[Side]) -> None:
    now_ms = time.time_ns() // 1_000_000

    def draw(rng: random.Random) -> list[Step]:
        what = rng.choice(list(CONFIGS))
        topic = own_name(rng, what)
        make_topics(sides, {topic: CONFIGS[what]})
        return [step for _ in range(8) for step in produce(rng, topic)]

    def produce(rng: random.Random, topic: str) -> list[Step]:
        records = draw_batch(rng, now_ms)
        if rng.random() < 0.05 and is_whole(records):
            # A whole one behind a whole one: a piece of one is INVALID_RECORD, and Apache Kafka
            # does not look at it.
            records += build_batch([(b"k", b"v")], timestamp_ms=now_ms)
        # Without records at all Apache Kafka sends no answer, so they are empty at the least.
        records = often(rng, records, (b"",), 0.97)
        acks = often(rng, -1, (1, 2, -2, INT16_MAX))
        if acks not in (-1, 1):  # which of two mistakes is told is no matter
            records = build_batch([(b"k", b"v")], timestamp_ms=now_ms)
        version = rng.randint(3, 12)
        data = PartitionProduceData(index=often(rng, 0, (-1, 1, INT32_MAX), 0.95), records=records)
        request = ProduceRequest(
            transactional_id=often(rng, None, ("", "t"), 0.95),
            acks=acks,
            timeout_ms=often(rng, 30_000, (0, -1, INT32_MAX), 0.9),
            topic_data=[
                TopicProduceData(
                    name=often(rng, topic, ("", "no-such-topic", "a b"), 0.97),
                    partition_data=[data],
                )
            ],
        )
        told = f"{topic}: {request!r} {records!r}"
        sent = Ask("Produce", lambda _: request, version, told, only=without_append_time)
        return [sent, *stored(topic)]

    assert compare(sides, draw) > 0


def without_append_time(seen: dict) -> dict:
    """The answer without the broker's clock, but whether it stamped.

    Of a duplicate in a topic with CreateTime, Apache Kafka calls the producer's own greatest
    timestamp the time of the append, and Fencepost says that there is none.
    """
    for topic in seen["responses"]:
        for partition in topic["partition_responses"]:
            stamped = topic["name"].startswith("append-time")
            at_ms = partition["log_append_time_ms"]
            partition["log_append_time_ms"] = min(at_ms, 0) if stamped else None
    return seen
