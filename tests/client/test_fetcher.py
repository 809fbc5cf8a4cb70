"""Fetching: whole ranges, moved leaders, and logs that are not the ones that were read before."""

from __future__ import annotations

import random
from typing import Any

import pytest

from fencepost.batch.records import read_records
from fencepost.client.errors import (
    ClientError,
    DeadlineExceeded,
    LogTruncated,
    OffsetOutOfRange,
    ProtocolError,
)
from fencepost.client.fetch_core import BlobEnd, Fetched, FetchPosition, RecreatedTopic, blob_end
from fencepost.client.fetcher import Fetcher
from fencepost.client.metadata import TopicPartition
from fencepost.wire.api.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from fencepost.wire.errors import ErrorCode

from .fake_cluster import FakeCluster
from .records import batch

WHERE = TopicPartition("t", 0)
THIRD = TopicPartition("t", 3)


def fill(fake: FakeCluster, first: int, last: int) -> None:
    for number in range(first, last):
        fake.partition("t").append(batch(b"%d" % number))


def values(fetcher: Fetcher, start: int, end: int, **options: Any) -> list[int]:
    return [
        int(record.value or b"-1")
        for fetched in fetcher.read_range(WHERE, start, end, **options)
        for record in read_records(fetched.records, start_offset=start)
        if record.offset < end
    ]


def test_a_range_comes_whole(fake: FakeCluster, connect: Any):
    fake.create_topic("t")
    fill(fake, 0, 50)
    fetcher = Fetcher(connect(fake, max_partition_fetch_bytes=300))
    assert values(fetcher, 0, 50) == list(range(50))
    assert values(fetcher, 7, 9) == [7, 8]
    assert values(fetcher, 5, 5) == []


def asked_bytes(fake: FakeCluster) -> list[int]:
    """What fetches so far wanted at most of their partition."""
    requests = [request for broker in fake.brokers.values() for request, _ in broker.requests]
    fetches = [request for request in requests if isinstance(request, FetchRequest)]
    return [one.topics[0].partitions[0].partition_max_bytes for one in fetches]


def test_no_more_is_asked_for_than_a_range_takes(fake: FakeCluster, connect: Any):
    """Ranges end where a micro-batch does, and the log goes on."""
    fake.create_topic("t")
    for _ in range(300):
        fake.partition("t").append(batch(bytes(5000)))
    fetcher = Fetcher(connect(fake))
    (few,) = fetcher.read_range(WHERE, 0, 10)
    assert few.next_offset < 20
    several = list(fetcher.read_range(WHERE, 0, 200))
    assert several[0].next_offset < 30  # records were thought to be small
    assert several[1].next_offset >= 200  # now their size is known
    assert len(several) == 2
    assert several[1].next_offset < 250


def test_small_records_are_not_asked_for_by_the_megabyte(fake: FakeCluster, connect: Any):
    fake.create_topic("t")
    fill(fake, 0, 3000)
    blobs = list(
        Fetcher(connect(fake, max_partition_fetch_bytes=100_000)).read_range(WHERE, 0, 2990)
    )
    sizes = [len(blob.records) for blob in blobs]
    first, *others = asked_bytes(fake)
    assert first == 100_000  # never more than is set
    assert others == sorted(others, reverse=True)
    assert others[-1] < 100_000
    assert sum(sizes) <= sum(asked_bytes(fake))


def test_a_range_follows_the_leader(fake: FakeCluster, connect: Any):
    fake.create_topic("t")
    fill(fake, 0, 20)
    fetcher = Fetcher(connect(fake, max_partition_fetch_bytes=1))
    seen = []
    for fetched in fetcher.read_range(WHERE, 0, 20):
        seen += [record.offset for record in read_records(fetched.records)]
        if len(seen) in (5, 10):
            fake.partition("t").elect(2 if len(seen) == 5 else 1)
        if len(seen) == 15:
            for broker in fake.brokers.values():
                broker.cut_connections()
    assert seen == list(range(20))


def test_a_cut_log_is_noticed_while_reading(fake: FakeCluster, connect: Any):
    fake.create_topic("t")
    fill(fake, 0, 5)
    fake.partition("t").elect(1)
    fill(fake, 5, 20)
    fetcher = Fetcher(connect(fake, max_partition_fetch_bytes=1))
    seen = []

    def read_and_cut() -> None:
        for fetched in fetcher.read_range(WHERE, 0, 20):
            seen.extend(record.offset for record in read_records(fetched.records))
            if len(seen) == 12:
                fake.partition("t").elect(2, cut_to=8)
                fill(fake, 100, 120)

    with pytest.raises(LogTruncated, match="part at offset 8, where epoch 1 ends") as caught:
        read_and_cut()
    # The fetch that was on its way when the log was cut may still have been answered.
    assert seen[:12] == list(range(12))
    assert (caught.value.diverging_epoch, caught.value.diverging_offset) == (1, 8)


def test_a_recreated_topic_is_not_the_pinned_one(fake: FakeCluster, connect: Any):
    fake.create_topic("t")
    fill(fake, 0, 10)
    cluster = connect(fake, max_partition_fetch_bytes=1)
    cluster.topic("t")
    fetcher = Fetcher(cluster, topic_ids={"t": fake.topics["t"].topic_id})
    old = fake.topics["t"].topic_id
    blobs = fetcher.read_range(WHERE, 0, 10)
    next(blobs)
    del fake.topics["t"]
    fake.create_topic("t")
    fill(fake, 50, 70)
    with pytest.raises(RecreatedTopic) as caught:
        list(blobs)
    assert (caught.value.expected, caught.value.found) == (old, fake.topics["t"].topic_id)


def test_a_stale_cache_is_no_recreated_topic(fake: FakeCluster, connect: Any):
    fake.create_topic("t")
    fill(fake, 0, 3)
    cluster = connect(fake)
    cluster.topic("t")  # caches the first id
    del fake.topics["t"]
    fake.create_topic("t")
    fill(fake, 10, 13)
    fetcher = Fetcher(cluster, topic_ids={"t": fake.topics["t"].topic_id})
    assert values(fetcher, 0, 3) == [10, 11, 12]


def test_offsets_out_of_range_are_named(fake: FakeCluster, connect: Any):
    fake.create_topic("t")
    fill(fake, 0, 10)
    fake.partition("t").delete_before(4)
    fetcher = Fetcher(connect(fake))
    with pytest.raises(OffsetOutOfRange, match=r"t-0 at .* offset 3 .*log starts at 4"):
        values(fetcher, 3, 10)
    with pytest.raises(OffsetOutOfRange, match="offset 11"):
        values(fetcher, 11, 12)


def test_an_end_that_never_comes_is_a_deadline(fake: FakeCluster, connect: Any):
    fake.create_topic("t")
    fill(fake, 0, 3)
    fetcher = Fetcher(connect(fake))
    with pytest.raises(DeadlineExceeded, match="offsets 3 to 5"):
        values(fetcher, 0, 5, stall_timeout_ms=100)


def test_leaders_of_older_epochs_are_not_asked(fake: FakeCluster, connect: Any):
    fake.create_topic("t")
    fill(fake, 0, 3)
    fetcher = Fetcher(connect(fake))
    with pytest.raises(DeadlineExceeded, match="UNKNOWN_LEADER_EPOCH"):
        values(fetcher, 0, 3, least_leader_epoch=1, stall_timeout_ms=100)
    fake.partition("t").elect(2)
    assert values(fetcher, 0, 3, least_leader_epoch=1) == [0, 1, 2]


def test_several_partitions_at_once(fake: FakeCluster, connect: Any):
    fake.create_topic("t", 4)
    for index in range(4):
        for number in range(index):
            fake.partition("t", index).append(batch(b"%d" % number))
    fetcher = Fetcher(connect(fake))
    positions = {TopicPartition("t", index): FetchPosition(0) for index in range(4)}
    found = {
        fetched.partition.partition: fetched.next_offset for fetched in fetcher.fetch(positions)
    }
    assert found == {0: 0, 1: 1, 2: 2, 3: 3}


def test_divergence_is_reported_by_fetch(fake: FakeCluster, connect: Any):
    fake.create_topic("t")
    fill(fake, 0, 10)
    fake.partition("t").elect(2, cut_to=6)
    (found,) = Fetcher(connect(fake)).fetch({WHERE: FetchPosition(10, last_epoch=0)})
    assert found.diverging == (0, 6)
    assert (found.next_offset, len(found.records)) == (10, 0)


def one_answer(**fields: Any) -> FetchResponse:
    """What a leader says of `THIRD`, behind a partition that it was not asked for."""
    partitions = [
        PartitionData(partition_index=7, error_code=3),
        PartitionData(partition_index=THIRD.partition, **fields),
    ]
    return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=partitions)])


def test_what_leaders_say_of_a_partition_is_kept_by_its_name(connect: Any, fake: FakeCluster):
    """The part of a batch that came behind the whole ones is no part of the records."""
    whole, cut = batch(b"a", b"b", base_offset=5, leader_epoch=4), batch(b"c", base_offset=7)[:40]
    response = one_answer(
        high_watermark=11,
        last_stable_offset=10,
        log_start_offset=3,
        aborted_transactions=[
            AbortedTransaction(producer_id=8, first_offset=6),
            AbortedTransaction(producer_id=9, first_offset=5),
        ],
        records=whole + cut,
    )
    core = Fetcher(connect(fake))
    found, refused = core.read(response, {THIRD: (FetchPosition(6, 2), 4)}, "host:1")
    assert found == [
        Fetched(
            partition=THIRD,
            records=memoryview(whole),
            next_offset=7,
            last_epoch=4,
            high_watermark=11,
            last_stable_offset=10,
            log_start_offset=3,
            aborted=((8, 6), (9, 5)),
            start_offset=6,
        )
    ]
    assert refused == []


@pytest.mark.parametrize("nothing", [None, b"", memoryview(b"")])
def test_a_partition_without_records_keeps_its_position(
    connect: Any, fake: FakeCluster, nothing: Any
):
    core, position = Fetcher(connect(fake)), FetchPosition(6, 2)
    response = one_answer(high_watermark=6, records=nothing, aborted_transactions=None)
    ((found,), refused) = core.read(response, {THIRD: (position, 4)}, "host:1")
    assert (found.next_offset, found.last_epoch, found.start_offset) == (6, 2, 6)
    assert (found.records, found.aborted, found.diverging) == (b"", (), None)
    assert refused == []


@pytest.mark.parametrize("end", [(2, -1), (-1, 5), (2, 5)])
def test_divergence_comes_without_records(connect: Any, fake: FakeCluster, end: tuple[int, int]):
    epoch, end_offset = end
    response = one_answer(
        diverging_epoch=EpochEndOffset(epoch=epoch, end_offset=end_offset), records=b""
    )
    core = Fetcher(connect(fake))
    ((found,), _) = core.read(response, {THIRD: (FetchPosition(9, 3), 4)}, "host:1")
    assert found.diverging == end
    assert (found.next_offset, found.last_epoch) == (9, 3)


def test_a_partition_that_is_refused_is_named_in_its_error(connect: Any, fake: FakeCluster):
    response = one_answer(error_code=ErrorCode.OFFSET_OUT_OF_RANGE, log_start_offset=7)
    core = Fetcher(connect(fake))
    found, (error,) = core.read(response, {THIRD: (FetchPosition(6, 2), 4)}, "host:1")
    assert found == []
    assert isinstance(error, OffsetOutOfRange)
    assert (error.topic, error.partition) == THIRD
    assert "the log starts at 7" in str(error)


def test_records_without_a_whole_batch_are_a_protocol_error(connect: Any, fake: FakeCluster):
    response = one_answer(records=batch(b"a")[:40])
    with pytest.raises(ProtocolError, match="40 bytes of records"):
        Fetcher(connect(fake)).read(response, {THIRD: (FetchPosition(0), 4)}, "host:1")


def test_abandoned_ranges_leave_the_connection_usable(fake: FakeCluster, connect: Any):
    fake.create_topic("t")
    fill(fake, 0, 20)
    cluster = connect(fake, max_partition_fetch_bytes=1)
    fetcher = Fetcher(cluster)
    for _ in range(5):
        blobs = fetcher.read_range(WHERE, 0, 20)
        next(blobs)
        blobs.close()
    assert values(fetcher, 0, 20) == list(range(20))
    assert all(c.in_flight == 0 for c in cluster._connections.values())


@pytest.mark.parametrize("asked_earlier", [1, 2, 3])
def test_records_that_end_before_the_position_are_a_protocol_error(
    fake: FakeCluster, connect: Any, asked_earlier: int
):
    """A reader that took them for an answer would ask for the same offset for ever."""
    fake.create_topic("t")
    fill(fake, 0, 6)
    answer = fake._on_fetch

    def from_earlier(node: int, request: Any, version: int) -> Any:
        for wanted in request.topics[0].partitions:
            wanted.fetch_offset -= asked_earlier
            wanted.partition_max_bytes = 1  # one batch, of one record
        return answer(node, request, version)

    fake._on_fetch = from_earlier  # type: ignore[method-assign]
    end = 5 - asked_earlier
    with pytest.raises(ProtocolError, match=f"at offset 4 .* end at offset {end}\\b"):
        values(Fetcher(connect(fake)), 4, 6)


def test_records_from_before_the_position_may_come_with_those_at_it(
    fake: FakeCluster, connect: Any
):
    fake.create_topic("t")
    fake.partition("t").append(batch(*(b"%d" % number for number in range(5))))
    fetcher = Fetcher(connect(fake))
    assert values(fetcher, 4, 5) == [4]  # the last of its batch
    assert values(fetcher, 0, 1) == [0]


def test_what_was_fetched_has_the_records_that_were_asked_for():
    """Those behind the end were written after somebody looked, and may share a batch."""
    four = memoryview(batch(*(b"%d" % number for number in range(4))))
    fetched = Fetched(WHERE, four, 4, 0, 4, 4, 0, start_offset=1)
    assert [record.offset for record in fetched.read_records(3)] == [1, 2]
    assert [record.offset for record in fetched.read_records()] == [1, 2, 3]


def test_the_end_of_a_blob():
    first, second = batch(b"a", b"b"), batch(b"c", base_offset=2, leader_epoch=7)
    assert blob_end(b"") == BlobEnd(0, -1, -1)
    assert blob_end(first) == BlobEnd(len(first), 2, -1)
    assert blob_end(first + second) == BlobEnd(len(first + second), 3, 7)
    for cut in range(len(second)):
        assert blob_end(first + second[:cut]) == BlobEnd(len(first), 2, -1)


def test_the_end_of_a_blob_in_the_oldest_format():
    # offset 41, size 14, crc, magic 0, attributes, null key, null value
    message = (41).to_bytes(8, "big") + (14).to_bytes(4, "big") + bytes(6) + b"\xff" * 8
    assert blob_end(message) == BlobEnd(26, 42, -1)


def test_garbage_is_a_protocol_error_or_has_an_end():
    rng = random.Random(7)
    good = bytearray(batch(b"a", b"b") * 3)
    for _ in range(2000):
        blob = bytearray(good)
        for _ in range(3):
            blob[rng.randrange(len(blob))] = rng.randrange(256)
        try:
            end = blob_end(blob)
        except ClientError as error:
            assert type(error) is ProtocolError  # noqa: PT017
        else:
            assert 0 <= end.size_bytes <= len(blob)
