"""Scans: rows, order, threads, and losses between the plan and the read."""

from __future__ import annotations

import gc
import logging
import pickle
import re
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

import fencepost.arrow
from fencepost.arrow import (
    BoundsError,
    DamagedRecordsError,
    DataLossError,
    Scan,
    TextError,
    TimestampError,
)
from fencepost.arrow.lanes import WAITING_PER_THREAD, read_lanes
from fencepost.batch.records import build_batch
from fencepost.client.cluster import Cluster
from fencepost.client.config import ClientConfig
from fencepost.client.errors import ClientError, ConnectionFailed, UnknownTopic

from ..client.fake_cluster import FakeCluster
from ..client.records import batch
from ..waiting import eventually
from .conftest import Properties

THREADS = [1, 2, 5]


def fill(fake: FakeCluster, count: int, partition: int = 0, topic: str = "t") -> None:
    """Append `count` batches of one record, whose value says where it is."""
    for _ in range(count):
        log = fake.partition(topic, partition)
        log.append(batch(f"{topic}-{partition}-{log.end_offset}".encode()))


def where(table: pa.Table) -> list[tuple[int, int]]:
    return list(zip(table["partition"].to_pylist(), table["offset"].to_pylist(), strict=True))


def open_connections(fake: FakeCluster) -> int:
    return sum(len(broker._open) for broker in fake.brokers.values())


@pytest.mark.parametrize("threads", THREADS)
def test_a_table_has_every_record_by_partition_and_offset(
    fake: FakeCluster, servers: Properties, threads: int
):
    fill(fake, 20)
    fill(fake, 7, 1)
    for cut in (None, 5):
        found = fencepost.arrow.read(
            servers, topics="t", text=True, threads=threads, min_partitions=cut
        )
        assert where(found) == [(0, n) for n in range(20)] + [(1, n) for n in range(7)]
        assert found["value"].to_pylist() == [f"t-{p}-{n}" for p, n in where(found)]


@pytest.mark.parametrize("threads", THREADS)
def test_batches_come_by_offset_within_a_partition(
    fake: FakeCluster, servers: Properties, threads: int
):
    for partition in (0, 1):
        fill(fake, 40, partition)
    slow = {**servers, "max.partition.fetch.bytes": 1}
    scan = fencepost.arrow.scan(slow, topics="t", threads=threads, min_partitions=8)
    assert len(scan.ranges) == 8
    for _ in range(2):  # each iteration reads again
        seen: dict[int, list[int]] = {0: [], 1: []}
        for one in scan:
            assert one.schema == scan.schema
            for partition, offset in where(pa.Table.from_batches([one])):
                seen[partition].append(offset)
        assert seen == {0: list(range(40)), 1: list(range(40))}


def test_the_schema_is_that_of_the_columns_chosen(fake: FakeCluster, servers: Properties):
    found = fencepost.arrow.read(servers, topics="t", columns=["value", "timestamp"], text=True)
    assert found.num_rows == 0
    assert found.schema == pa.schema(
        [("value", pa.string()), ("timestamp", pa.timestamp("us", tz="UTC"))]
    )
    everything = fencepost.arrow.read(servers, topics="t")
    assert [(field.name, str(field.type)) for field in everything.schema] == [
        ("key", "binary"),
        ("value", "binary"),
        ("topic", "string"),
        ("partition", "int32"),
        ("offset", "int64"),
        ("timestamp", "timestamp[us, tz=UTC]"),
        ("timestampType", "int32"),
    ]


def test_rows_say_what_the_records_do(fake: FakeCluster, servers: Properties):
    items = [(b"k", "é".encode()), (None, None)]
    fake.partition("t", 1).append(bytes(build_batch(items, timestamp_ms=1_700_000_000_123)))
    columns = ["headers", "timestamp", "key", "value", "topic", "partition", "timestampType"]
    first, second = fencepost.arrow.read(
        servers, assign={"t": [1]}, columns=columns, text="value"
    ).to_pylist()
    assert list(first) == columns
    assert (first["key"], first["value"], first["topic"], first["partition"]) == (
        b"k",
        "é",
        "t",
        1,
    )
    assert first["timestamp"].isoformat() == "2023-11-14T22:13:20.123000+00:00"
    assert (first["headers"], first["timestampType"]) == (None, 0)
    assert (second["key"], second["value"]) == (None, None)


def test_columns_that_nothing_needs_are_not_decoded(fake: FakeCluster, servers: Properties):
    """A timestamp that microseconds cannot hold is no error where it is not read."""
    fake.partition("t").append(bytes(build_batch([(b"k", b"v")], timestamp_ms=2**62)))
    found = fencepost.arrow.read(servers, topics="t", columns=["key"])
    assert found.to_pylist() == [{"key": b"k"}]
    with pytest.raises(TimestampError, match="at offset 0 of t-0") as raised:
        fencepost.arrow.read(servers, topics="t", columns=["timestamp"])
    assert raised.value.condition == "KAFKA_MALFORMED_RECORD_TIMESTAMP"
    assert "Spark" not in str(raised.value)


def test_what_is_no_text_is_an_error_with_its_offset(fake: FakeCluster, servers: Properties):
    items = [(None, b"fine"), (b"k", None), (b"k", b"\xff\xfe"), (b"\xc3", b"")]
    fake.partition("t", 1).append(bytes(build_batch(items, timestamp_ms=1)))
    for column, offset in (("value", 2), ("key", 3)):
        with pytest.raises(TextError, match=f"{column} .* offset {offset} of t-1") as raised:
            fencepost.arrow.read(servers, topics="t", columns=[column], text=column)
        assert raised.value.parameters == {
            "topic": "t",
            "partition": "1",
            "offset": str(offset),
            "column": column,
        }
    found = fencepost.arrow.read(servers, topics="t", text="value", columns=["key"])
    assert found["key"].to_pylist() == [None, b"k", b"k", b"\xc3"]


def test_damage_is_an_error(fake: FakeCluster, servers: Properties):
    fill(fake, 3)
    damaged = bytearray(fake.partition("t").batches[1])
    damaged[-1] ^= 1
    fake.partition("t").batches[1] = bytes(damaged)
    with pytest.raises(DamagedRecordsError, match=r"t-0: .*offset 1"):
        fencepost.arrow.read(servers, topics="t")


def cut_and_grow(fake: FakeCluster) -> None:
    fake.partition("t").elect(2, cut_to=6)
    fill(fake, 10)


def cut(fake: FakeCluster) -> None:
    fake.partition("t").elect(2, cut_to=6)


def recreate(fake: FakeCluster) -> None:
    fake.create_topic("t", 2)
    fill(fake, 10)


def delete(fake: FakeCluster) -> None:
    del fake.topics["t"]


def age_out(fake: FakeCluster) -> None:
    fake.partition("t").delete_before(5)


LOSSES: dict[str, tuple[Callable[[FakeCluster], None], str, list[int]]] = {
    "KAFKA_DATA_LOSS.RECORDS_REWRITTEN": (cut_and_grow, "rewritten, offsets 6 to 10", [2, 10]),
    "KAFKA_DATA_LOSS.PARTITION_OFFSET_CHANGED": (cut, "truncated, offsets 6 to 10", [2, 6]),
    "KAFKA_DATA_LOSS.TOPIC_RECREATED": (recreate, "recreated, offsets (2 to 10|0 to 3)", [2, 2]),
    "KAFKA_DATA_LOSS.PARTITIONS_DELETED": (delete, "deleted, offsets (2 to 10|0 to 3)", [2, 2]),
    "KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE": (age_out, "aged out, offsets 2 to 5", [5, 10]),
}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("condition", LOSSES)
def test_what_is_lost_between_plan_and_read_is_an_error_or_a_warning(
    fake: FakeCluster,
    servers: Properties,
    caplog: pytest.LogCaptureFixture,
    condition: str,
    threads: int,
):
    happen, text, left = LOSSES[condition]
    fill(fake, 10)
    fill(fake, 3, 1)
    scans = [
        fencepost.arrow.scan(
            {**servers, "default.api.timeout.ms": 20_000},
            topics="t",
            start={"t": {0: 2, 1: "earliest"}},
            on_data_loss=on_data_loss,
            threads=threads,
            # A log that was cut has no answer to a fetch at its end.
            stall_timeout_ms=300 if condition.endswith("CHANGED") else 60_000,
        )
        for on_data_loss in ("error", "warn")
    ]
    happen(fake)
    with pytest.raises(DataLossError, match=f"t-[01]: {text}") as raised:
        scans[0].read_all()
    assert raised.value.condition == condition
    assert "failOnDataLoss" not in str(raised.value)
    with caplog.at_level(logging.WARNING, "fencepost.arrow"):
        found = scans[1].read_all()
    assert re.search(f"t-0: {text}", caplog.text)
    assert [n for p, n in where(found) if p == 0] == list(range(*left))


def test_losses_are_noticed_when_planning(fake: FakeCluster, servers: Properties):
    fill(fake, 10)
    age_out(fake)
    lost = {"t": {0: 2, 1: 0}}
    with pytest.raises(DataLossError, match="t-0: aged out, offsets 2 to 5"):
        fencepost.arrow.scan(servers, topics="t", start=lost)
    found = fencepost.arrow.read(servers, topics="t", start=lost, on_data_loss="warn")
    assert where(found) == [(0, n) for n in range(5, 10)]
    assert fencepost.arrow.read(servers, topics="t").num_rows == 5  # nothing else was asked for
    with pytest.raises(DataLossError, match="t-0: truncated, offsets 10 to 99"):
        fencepost.arrow.scan(servers, topics="t", end={"t": {0: 99, 1: -1}})


def test_bounds_that_do_not_fit(fake: FakeCluster, servers: Properties):
    fill(fake, 10)
    with pytest.raises(BoundsError, match=r"must name exactly the partitions .*missing: t-1"):
        fencepost.arrow.scan(servers, topics="t", start={"t": {0: 2}})
    with pytest.raises(BoundsError, match="start 5 lies behind the end 4"):
        fencepost.arrow.scan(servers, assign={"t": [0]}, start={"t": {0: 5}}, end={"t": {0: 4}})
    with pytest.raises(UnknownTopic):
        fencepost.arrow.scan(servers, topics="absent")
    assert fencepost.arrow.read(servers, pattern="absent.*").num_rows == 0
    assert fencepost.arrow.read(servers, pattern="[t]").num_rows == 10


def test_scans_travel_in_pickles_and_come_apart(fake: FakeCluster, servers: Properties):
    fill(fake, 10)
    fill(fake, 4, 1)
    scan = fencepost.arrow.scan(
        servers, topics="t", filters=[("offset", "!=", 3)], min_partitions=4, threads=2
    )
    pieces: list[Scan] = pickle.loads(pickle.dumps(scan.split()))
    assert [piece.ranges for piece in pieces] == [(wanted,) for wanted in scan.ranges]
    whole = pa.concat_tables(piece.read_all() for piece in pieces)
    assert whole.equals(scan.read_all())
    assert whole.num_rows == 12  # both partitions lose one


def test_a_scan_says_which_offsets_it_reads(fake: FakeCluster, servers: Properties):
    fill(fake, 10)
    fill(fake, 24, 1)
    scan = fencepost.arrow.scan(servers, topics="t", start={"t": {0: 4, 1: 0}})
    assert repr(scan) == "<Scan of 30 offsets: t-0 4-10, t-1 0-24>"
    many = repr(fencepost.arrow.scan(servers, topics="t", min_partitions=30))
    assert many.startswith("<Scan of 34 offsets: t-0 0-")
    assert many.count(" t-") == 10
    assert re.search(r" t-\d \d+-\d+, and \d+ more ranges>$", many)


@pytest.mark.parametrize("threads", [1, 2])
def test_connections_and_threads_end_with_an_iteration(
    fake: FakeCluster, servers: Properties, threads: int
):
    fill(fake, 10)
    fill(fake, 10, 1)
    slow = {**servers, "max.partition.fetch.bytes": 1}
    scan = fencepost.arrow.scan(slow, topics="t", threads=threads)
    assert scan.read_all().num_rows == 20
    batches = iter(scan)
    next(batches)
    batches.close()  # type: ignore[attr-defined]
    batches = iter(scan)
    next(batches)
    del batches
    gc.collect()
    eventually(lambda: open_connections(fake) == 0)
    eventually(lambda: not any(t.name.startswith("fencepost-arrow") for t in threading.enumerate()))


@pytest.mark.parametrize("threads", [1, 2])
def test_brokers_that_cannot_be_reached_are_an_error(
    fake: FakeCluster, servers: Properties, threads: int
):
    fill(fake, 10)
    fill(fake, 10, 1)
    scan = fencepost.arrow.scan(
        {**servers, "default.api.timeout.ms": 300},
        topics="t",
        threads=threads,
        stall_timeout_ms=300,
    )
    for broker in fake.brokers.values():
        broker.close()
    with pytest.raises(ClientError):
        scan.read_all()


CONFIG = ClientConfig(bootstrap_servers="127.0.0.1:1")


def test_threads_wait_for_a_slow_caller():
    """What is read ahead is bounded."""
    made: list[int] = []

    def read(_: Cluster, number: int) -> Iterator[int]:
        for item in range(1000):
            made.append(number * 1000 + item)
            yield made[-1]

    items = read_lanes([[0], [1]], 2, CONFIG, read)
    first = next(items)
    assert first in (0, 1000)
    most = 2 * WAITING_PER_THREAD + 2 + 1  # waiting, in a hand of each thread, given
    eventually(lambda: len(made) == most)
    found = [first]
    for item in items:
        found.append(item)
        assert len(made) - len(found) < most
    assert sorted(found) == list(range(2000))


def test_every_lane_is_read_once_and_in_order():
    def read(_: Cluster, number: int) -> Iterator[tuple[int, int]]:
        yield from ((number, item) for item in range(number))

    lanes = [[1, 2, 3], [4], [], [5, 6], [7]]
    found = list(read_lanes(lanes, 3, CONFIG, read))
    assert sorted(found) == [(n, item) for n in range(1, 8) for item in range(n)]
    for lane in lanes:
        mine = [item for item in found if item[0] in lane]
        assert mine == sorted(mine)


def test_an_error_of_a_thread_ends_the_read():
    def read(_: Cluster, number: int) -> Iterator[int]:
        if number:
            raise ConnectionFailed("away", host="h:1")
        while True:
            yield number

    with pytest.raises(ConnectionFailed, match="away"):
        deque(read_lanes([[0], [1]], 2, CONFIG, read), maxlen=0)
    assert not any(t.name.startswith("fencepost-arrow") for t in threading.enumerate())


def test_an_interrupt_in_a_thread_is_not_swallowed():
    def read(_: Cluster, number: int) -> Iterator[Any]:
        raise KeyboardInterrupt
        yield number

    with pytest.raises(KeyboardInterrupt):
        list(read_lanes([[0], [1]], 2, CONFIG, read))
