"""Encode and decode messages: ours on both backends, kafka-python and kio, on the same bytes.

    python benchmarks/codec/bench.py [--rounds R] [--gc]

Every codec first has to read the bytes and write the very same ones. Then rounds are interleaved,
so that a slow moment of the machine falls on all of them; the tables show medians, in microseconds
and as the speed-up over kafka-python. All go through the calls that a program would use.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import io
import math
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.peers import table
from fencepost.wire import api
from fencepost.wire.api.api_versions import ApiVersion
from fencepost.wire.api.fetch import FetchableTopicResponse, PartitionData
from fencepost.wire.api.metadata import (
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from fencepost.wire.api.offset_for_leader_epoch import (
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from fencepost.wire.api.produce import PartitionProduceData, TopicProduceData
from fencepost.wire.generated import GeneratedCodec
from fencepost.wire.layout import layout_of
from fencepost.wire.message import Message

try:
    from fencepost.wire._codec import CompiledCodec
except ImportError:
    CompiledCodec = None

TARGET_S = 0.02
"""How long one codec works per round and message."""


class Case(NamedTuple):
    """One message at one version."""

    title: str
    message: Message
    version: int
    kafka_module: str
    kio_module: str


class Contestant(NamedTuple):
    """One codec, ready to read and write one message."""

    name: str
    prepare: Callable[[], None]
    decode: Callable[[bytes], Any]
    encode: Callable[[Any], Any]


def cases() -> list[Case]:
    """The messages, with contents like those of a busy small cluster."""
    partitions = [
        MetadataResponsePartition(
            partition_index=index,
            leader_id=1001 + index % 3,
            leader_epoch=300 + index,
            replica_nodes=[1001, 1002, 1003],
            isr_nodes=[1001, 1002, 1003],
        )
        for index in range(12)
    ]
    brokers = [
        MetadataResponseBroker(node_id=1001 + n, host=f"broker-{n}.example", port=9092, rack="a")
        for n in range(3)
    ]
    topics = [MetadataResponseTopic(name=f"topic-{n}", partitions=partitions) for n in range(100)]
    produce = api.ProduceRequest(
        acks=-1,
        timeout_ms=30_000,
        topic_data=[
            TopicProduceData(
                name="topic-1", partition_data=[PartitionProduceData(index=3, records=bytes(1024))]
            )
        ],
    )
    fetched = [
        PartitionData(
            partition_index=index,
            high_watermark=(1 << 33) + index,
            last_stable_offset=(1 << 33) + index,
            log_start_offset=1000 + index,
            aborted_transactions=None,
            preferred_read_replica=-1,
            records=bytes(1024),
        )
        for index in range(50)
    ]
    epochs = [
        OffsetForLeaderPartition(partition=n, current_leader_epoch=700 + n, leader_epoch=699 + n)
        for n in range(200)
    ]
    versions = [ApiVersion(api_key=n, min_version=0, max_version=n % 17) for n in range(62)]
    return [
        Case(
            "ApiVersions request v3",
            api.ApiVersionsRequest(client_software_name="fencepost", client_software_version="1"),
            3,
            "metadata",
            "api_versions.v3.request",
        ),
        Case(
            "ApiVersions response v3, 62 keys",
            api.ApiVersionsResponse(api_keys=versions),
            3,
            "metadata",
            "api_versions.v3.response",
        ),
        Case(
            "Metadata response v12, 100 x 12",
            api.MetadataResponse(brokers=brokers, cluster_id="c", controller_id=1, topics=topics),
            12,
            "metadata",
            "metadata.v12.response",
        ),
        Case("Produce request v9, 1 KB", produce, 9, "producer", "produce.v9.request"),
        Case(
            "Fetch response v12, 50 x 1 KB",
            api.FetchResponse(
                session_id=9,
                responses=[FetchableTopicResponse(topic="topic-1", partitions=fetched)],
            ),
            12,
            "consumer",
            "fetch.v12.response",
        ),
        Case(
            "OffsetForLeaderEpoch request v4, 200",
            api.OffsetForLeaderEpochRequest(
                replica_id=-1, topics=[OffsetForLeaderTopic(topic="topic-1", partitions=epochs)]
            ),
            4,
            "consumer",
            "offset_for_leader_epoch.v4.request",
        ),
    ]


def contestants(case: Case) -> list[Contestant]:
    """kafka-python first: it is what the others are measured against."""
    name = type(case.message).__name__
    theirs = getattr(importlib.import_module(f"kafka.protocol.{case.kafka_module}"), name)
    kio_class = getattr(importlib.import_module(f"kio.schema.{case.kio_module}"), name)
    serial = importlib.import_module("kio.serial")
    read, write = serial.entity_reader(kio_class), serial.entity_writer(kio_class)

    def kio_encode(message: Any) -> bytes:
        buffer = io.BytesIO()
        write(buffer, message)
        return buffer.getvalue()

    found = [
        Contestant(
            "kafka-python",
            _nothing,
            lambda data: theirs.decode(data, version=case.version),
            lambda message: message.encode(),  # at the version it was decoded with
        ),
        Contestant("kio", _nothing, lambda data: read(data, 0)[0], kio_encode),
        _ours("fencepost python", GeneratedCodec, case),
    ]
    if CompiledCodec is not None:
        found.append(_ours("fencepost c", CompiledCodec, case))
    return found


def _nothing() -> None:
    pass


def _ours(name: str, codec: Any, case: Case) -> Contestant:
    cls: Any = type(case.message)
    made = codec(layout_of(cls, case.version, cls.is_flexible(case.version)))

    def prepare() -> None:
        cls._codecs[case.version] = made

    return Contestant(
        name,
        prepare,
        lambda data: cls.decode(data, case.version),
        lambda message: message.encode(case.version),
    )


def seconds_per_call(function: Callable[[Any], Any], argument: Any) -> float:
    """One round: as many calls as fit into the target, timed together."""
    start = time.perf_counter()
    function(argument)
    once = time.perf_counter() - start
    count = max(1, int(TARGET_S / max(once, 1e-7)))
    start = time.perf_counter()
    for _ in range(count):
        function(argument)
    return (time.perf_counter() - start) / count


def measure(case: Case, rounds: int) -> dict[str, tuple[float, float]]:
    """Median seconds of (decode, encode) by contestant."""
    data = case.message.encode(case.version)
    field = contestants(case)
    objects = {}
    for one in field:
        one.prepare()
        objects[one.name] = one.decode(data)
        if bytes(one.encode(objects[one.name])) != data:
            raise SystemExit(f"{one.name} writes {case.title} differently")
    times: dict[str, list[tuple[float, float]]] = {one.name: [] for one in field}
    for _ in range(rounds):
        for one in field:
            one.prepare()
            decode = seconds_per_call(one.decode, data)
            encode = seconds_per_call(one.encode, objects[one.name])
            times[one.name].append((decode, encode))
    return {
        name: (statistics.median(t[0] for t in taken), statistics.median(t[1] for t in taken))
        for name, taken in times.items()
    }


def main() -> None:
    """Measure all cases and print one table for each direction."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--gc", action="store_true", help="leave the garbage collector on")
    options = parser.parse_args()
    if not options.gc:
        gc.disable()
    results = {case.title: measure(case, options.rounds) for case in cases()}
    names = list(next(iter(results.values())))
    for index, direction in enumerate(("decode", "encode")):
        rows = []
        ratios: dict[str, list[float]] = {name: [] for name in names}
        for title, medians in results.items():
            base = medians["kafka-python"][index]
            row = [title]
            for name in names:
                ratio = base / medians[name][index]
                ratios[name].append(ratio)
                row.append(f"{medians[name][index] * 1e6:.2f} us ({ratio:.1f}x)")
            rows.append(row)
        means = [math.exp(statistics.fmean(map(math.log, ratios[name]))) for name in names]
        rows.append(["geometric mean", *(f"{mean:.1f}x" for mean in means)])
        print(f"\n{table([direction, *names], rows)}")


if __name__ == "__main__":
    main()
