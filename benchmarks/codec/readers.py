"""What part decoding is of what a client does with an answer about many partitions.

A client looks at each partition of such an answer as soon as it is there. So this is what rows that
are only decoded when looked at could save, at most.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from benchmarks.codec.messages import Case, current_cases
from benchmarks.codec.timing import TARGET_S, UNDISTURBED_S, seconds_per_call
from benchmarks.peers import table
from fencepost.batch.records import build_batch
from fencepost.client.fetch_core import FetchCore, FetchPosition
from fencepost.client.metadata import Metadata, TopicPartition
from fencepost.wire import api
from fencepost.wire.api.fetch import FetchableTopicResponse, PartitionData
from fencepost.wire.message import Message

PARTITIONS = 50
FETCH_VERSION = 12
FIRST_OFFSET = 1 << 33


class Reader(NamedTuple):
    """An answer, how many partitions are in it, and what the client does with it."""

    case: Case
    partitions: int
    read: Callable[[Any], object]


def readers() -> list[Reader]:
    """Answers to a consumer's Fetch, with records and without, and to a request for metadata."""
    records = bytes(build_batch([(None, bytes(950))], timestamp_ms=1000, base_offset=FIRST_OFFSET))
    view: Any = None  # it is only asked for names of topics, which these answers have
    core = FetchCore(view)
    wanted = {
        TopicPartition("topic-1", n): (FetchPosition(FIRST_OFFSET, 5), 7) for n in range(PARTITIONS)
    }

    def read_fetched(response: Any) -> object:
        found, refused = core.read(response, wanted, "localhost:9092")
        assert len(found) == PARTITIONS and not refused
        return found

    fetches = [
        Reader(Case(_fetched(data), FETCH_VERSION, detail), PARTITIONS, read_fetched)
        for data, detail in ((records, ", 50 x 1 KB"), (b"", ", 50 without records"))
    ]
    (metadata,) = (case for case in current_cases() if type(case.message) is api.MetadataResponse)
    return [*fetches, Reader(metadata, 100 * 12, Metadata().update)]


def _fetched(records: bytes) -> Message:
    partitions = [
        PartitionData(
            partition_index=n,
            high_watermark=FIRST_OFFSET + n,
            last_stable_offset=FIRST_OFFSET + n,
            log_start_offset=1000 + n,
            aborted_transactions=None,
            records=records,
        )
        for n in range(PARTITIONS)
    ]
    topic = FetchableTopicResponse(topic="topic-1", partitions=partitions)
    return api.FetchResponse(responses=[topic])


def readers_table(rounds: int, *, least: bool) -> str:
    """Nanoseconds for each partition: decoding, and reading what was decoded."""
    target_s, taken_of = (UNDISTURBED_S, min) if least else (TARGET_S, statistics.median)
    rows = []
    for case, partitions, read in readers():
        decode = partial(type(case.message).decode, version=case.version)
        data = case.message.encode(case.version)
        steps = ((decode, data), (read, decode(data)))
        times = [
            [seconds_per_call(step, argument, target_s) for step, argument in steps]
            for _ in range(rounds)
        ]
        decoding_s, reading_s = (taken_of(column) for column in zip(*times, strict=True))
        each = [f"{seconds / partitions * 1e9:.0f}" for seconds in (decoding_s, reading_s)]
        rows.append([case.title, *each, f"{decoding_s / (decoding_s + reading_s):.0%}"])
    return table(["ns per partition", "decode", "read", "share of decoding"], rows)
