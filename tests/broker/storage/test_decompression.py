"""Batches that grow large are decompressed by threads while everybody else is served.

The threads are stopped by the tests, so that what is answered meanwhile needs none of them.
"""

import contextlib
import threading

import pytest

from fencepost.batch.errors import DecompressionError
from fencepost.batch.records import BatchBuilder
from fencepost.broker.storage import decompression
from fencepost.broker.storage.decompression import (
    MEDIUM_BYTES_MAX,
    QUEUED_BYTES_MAX,
    Decompression,
)
from fencepost.log.reading import find_in_batch
from fencepost.machines.partition.queries import MAX_TIMESTAMP
from fencepost.runtime.requests import list_offsets
from fencepost.runtime.requests.parts import INLINE_BYTES_MAX
from fencepost.wire.api import (
    DeleteRecordsRequest,
    DeleteTopicsRequest,
    ListOffsetsRequest,
    MetadataRequest,
)
from fencepost.wire.api.delete_records import DeleteRecordsPartition, DeleteRecordsTopic
from fencepost.wire.api.delete_topics import DeleteTopicState
from fencepost.wire.api.list_offsets import ListOffsetsPartition, ListOffsetsTopic
from fencepost.wire.api.produce import PartitionProduceData
from fencepost.wire.errors import ErrorCode

from ...waiting import DEADLINE_S, eventually
from ..conftest import stopped_threads
from ..topic_requests import batch, fetch, make_topic, produce, produce_request, values

CODECS = ["gzip", "snappy", "lz4", "zstd"]
LARGE = b"x" * (2 * INLINE_BYTES_MAX)
PRODUCE_KEY, VERSION = 0, 9


def answer_of(client):
    """The answer to a Produce of one partition that was sent before."""
    _, response = client.receive(PRODUCE_KEY, VERSION)
    return response.responses[0].partition_responses[0]


def appended(running, topic):
    """How many records there are."""
    return running.call(lambda: running.node.broker.replicas.get(topic.name, 0).log.end_offset)


@pytest.mark.parametrize("codec", CODECS)
def test_others_are_served_while_bombs_of_many_clients_wait(node, client, topic, codec):
    bomb = batch(bytes(100 << 20), compression=codec)
    with contextlib.ExitStack() as stack, stopped_threads(node) as go_on:
        attackers = [stack.enter_context(node.connect()) for _ in range(20)]
        for attacker in attackers:
            attacker.send(produce_request(topic, bomb, version=VERSION), VERSION)
        eventually(
            lambda: node.node.broker.decompression.queued_bytes == 20 * len(bomb), "the bombs"
        )
        for number in range(10):
            small = batch(b"a", compression=codec)
            assert produce(client, topic, small).base_offset == number
            assert client.ask(MetadataRequest(topics=[]), 9).brokers
        go_on.set()
        for attacker in attackers:
            assert answer_of(attacker).error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert node.node.broker.decompression.queued_bytes == 0
    assert appended(node, topic) == 10


@pytest.mark.parametrize("codec", CODECS)
def test_a_large_batch_is_appended_as_it_came(client, topic, codec):
    sent = batch(LARGE, compression=codec)
    assert produce(client, topic, sent).error_code == 0
    (part,) = fetch(client, topic, 0)
    assert bytes(part.records)[21:] == sent[21:]
    assert values(part) == [LARGE]


def test_what_a_connection_sends_is_appended_in_its_order(node, client, topic):
    """An idempotent producer's next batch must not overtake the one that is decompressed."""
    large = batch(LARGE, compression="zstd", producer_id=7, producer_epoch=0, base_sequence=0)
    small = batch(b"small", producer_id=7, producer_epoch=0, base_sequence=1)
    with stopped_threads(node) as go_on, node.connect() as other:
        client.send(produce_request(topic, large, version=VERSION), VERSION)
        client.send(produce_request(topic, small, version=VERSION), VERSION)
        eventually(lambda: node.node.broker.decompression.queued_bytes, "the large one")
        assert produce(other, topic, batch(b"other")).base_offset == 0
        go_on.set()
        assert [answer_of(client).base_offset for _ in range(2)] == [1, 2]


def test_partitions_behind_a_large_batch_are_copied_from_the_receive_buffer(node, client):
    """The buffer that a request lies in is used again as soon as its handler has returned."""
    topic = make_topic(client, partitions=3)
    request = produce_request(topic, batch(LARGE, compression="zstd"), version=VERSION)
    for index in (1, 2):
        request.topic_data[0].partition_data.append(
            PartitionProduceData(index=index, records=batch(b"%d" % index))
        )
    with stopped_threads(node) as go_on, node.connect() as other:
        client.send(request, VERSION)
        eventually(lambda: node.node.broker.decompression.queued_bytes, "the large one")
        for _ in range(3):
            other.send(produce_request(topic, batch(b"z" * 100_000), version=VERSION), VERSION)
        assert [answer_of(other).error_code for _ in range(3)] == [0, 0, 0]
        go_on.set()
        _, response = client.receive(PRODUCE_KEY, VERSION)
    assert [p.error_code for p in response.responses[0].partition_responses] == [0, 0, 0]
    for index in (1, 2):
        part = fetch(client, topic, *[0] * 3)[index]
        assert values(part) == [b"%d" % index]


def test_small_batches_need_no_thread(node, client, topic):
    with stopped_threads(node):
        for codec in CODECS:
            sent = batch(bytes(INLINE_BYTES_MAX // 2), compression=codec)
            assert produce(client, topic, sent).error_code == 0


@pytest.mark.parametrize(
    ("is_made_anew", "error"),
    [
        (False, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        # Of that name, but with configs that the batch was not checked against.
        (True, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ],
)
def test_a_topic_that_is_deleted_while_its_batch_is_decompressed(node, client, is_made_anew, error):
    topic = make_topic(client)
    with stopped_threads(node) as go_on, node.connect() as producer:
        sent = batch(LARGE, compression="zstd")
        producer.send(produce_request(topic, sent, version=VERSION), VERSION)
        eventually(lambda: node.node.broker.decompression.queued_bytes, "the batch")
        gone = DeleteTopicsRequest(topics=[DeleteTopicState(name=topic.name)], timeout_ms=60_000)
        assert client.ask(gone, 6).responses[0].error_code == 0
        eventually(
            lambda: node.node.broker.replicas.get(topic.name, 0) == 3, "the end of the topic"
        )
        if is_made_anew:
            make_topic(client, name=topic.name)
        go_on.set()
        assert answer_of(producer).error_code == error
    if is_made_anew:
        assert appended(node, topic) == 0


def test_batches_of_a_client_that_has_left_are_forgotten(node, client, topic):
    with stopped_threads(node) as go_on:
        with node.connect() as leaver:
            sent = batch(LARGE, compression="zstd")
            leaver.send(produce_request(topic, sent, version=VERSION), VERSION)
            eventually(lambda: node.node.broker.decompression.queued_bytes, "the batch")
        go_on.set()
        eventually(lambda: node.node.broker.decompression.queued_bytes == 0, "its end")
    assert client.ask(MetadataRequest(topics=[]), 9).brokers


def test_copies_that_wait_are_bounded_and_the_client_comes_again(node, topic, monkeypatch):
    sent = batch(LARGE, compression="zstd")
    monkeypatch.setattr(decompression, "QUEUED_BYTES_MAX", int(1.5 * len(sent)))
    with stopped_threads(node) as go_on, node.connect() as first, node.connect() as second:
        first.send(produce_request(topic, sent, version=VERSION), VERSION)
        eventually(lambda: node.node.broker.decompression.queued_bytes, "the first")
        second.send(produce_request(topic, sent, version=VERSION), VERSION)
        assert answer_of(second).error_code == ErrorCode.REQUEST_TIMED_OUT
        go_on.set()
        assert answer_of(first).error_code == 0
        eventually(lambda: node.node.broker.decompression.queued_bytes == 0, "its end")
        assert produce(second, topic, sent).error_code == 0


def list_request(topic, timestamp_ms):
    question = ListOffsetsPartition(partition_index=0, timestamp=timestamp_ms)
    return ListOffsetsRequest(topics=[ListOffsetsTopic(name=topic.name, partitions=[question])])


@pytest.mark.parametrize("timestamp_ms", [1, MAX_TIMESTAMP])
def test_a_search_by_time_in_a_large_batch_keeps_nobody_waiting(node, client, topic, timestamp_ms):
    wall_ms = node.node.wall_ms()
    sent = batch(LARGE, b"later", compression="zstd", timestamp_ms=wall_ms)
    assert produce(client, topic, sent).error_code == 0
    with stopped_threads(node) as go_on, node.connect() as searcher:
        searcher.send(list_request(topic, timestamp_ms), 7)
        other = batch(b"other", timestamp_ms=wall_ms - 1)
        assert produce(client, topic, other).base_offset == 2
        eventually(
            lambda: node.node.broker.decompression._medium._work_queue.qsize() == 1, "the search"
        )
        go_on.set()
        _, response = searcher.receive(2, 7)
    (found,) = response.topics[0].partitions
    assert (found.error_code, found.offset, found.timestamp) == (0, 0, wall_ms)


@pytest.mark.parametrize("timestamp_ms", [1, MAX_TIMESTAMP])
def test_every_large_batch_of_a_search_is_decompressed_in_a_thread(
    node, client, topic, timestamp_ms, monkeypatch
):
    """What is searched for may be deleted from the first batch: the next one is as large."""
    wall_ms = node.node.wall_ms()
    first, second = BatchBuilder("zstd"), BatchBuilder("zstd")
    first.append(None, LARGE, timestamp_ms=wall_ms)
    first.append(None, LARGE, timestamp_ms=0)
    second.append(None, LARGE, timestamp_ms=wall_ms)
    for builder in (first, second):
        assert produce(client, topic, bytes(builder.build())).error_code == 0
    gone = DeleteRecordsTopic(
        name=topic.name, partitions=[DeleteRecordsPartition(partition_index=0, offset=1)]
    )
    deleted = client.ask(DeleteRecordsRequest(topics=[gone], timeout_ms=60_000), 2)
    assert deleted.topics[0].partitions[0].error_code == 0
    calls = []

    def noted(*arguments):
        calls.append((threading.current_thread().name, *arguments[-1:]))
        return find_in_batch(*arguments)

    monkeypatch.setattr(list_offsets, "find_in_batch", noted)
    (found,) = client.ask(list_request(topic, timestamp_ms), 7).topics[0].partitions
    assert (found.error_code, found.offset, found.timestamp) == (0, 2, wall_ms)
    in_threads = [max_bytes for name, max_bytes in calls if name.startswith("decompress")]
    on_the_loop = [max_bytes for name, max_bytes in calls if not name.startswith("decompress")]
    assert in_threads == [MEDIUM_BYTES_MAX] * 2
    assert on_the_loop == [INLINE_BYTES_MAX] * 2


def test_as_much_may_wait_as_the_bound_says_and_no_more():
    decompressing = Decompression()
    assert decompressing.reserve(QUEUED_BYTES_MAX)
    assert not decompressing.reserve(1)
    decompressing.release(1)
    assert decompressing.reserve(1)
    decompressing.close()


def test_only_what_is_too_large_is_done_again():
    decompressing = Decompression()
    limits: list[int] = []

    def damaged(max_bytes: int) -> None:
        limits.append(max_bytes)
        raise DecompressionError(ErrorCode.CORRUPT_MESSAGE, "damaged")

    def finish() -> None:
        for future in decompressing.run(damaged):
            future.exception(DEADLINE_S)

    with pytest.raises(DecompressionError, match="damaged"):
        finish()
    assert limits == [MEDIUM_BYTES_MAX]
    decompressing.close()


def test_what_takes_long_waits_for_its_like_alone():
    decompressing = Decompression()
    threads: list[str] = []

    def large(max_bytes: int) -> None:
        threads.append(threading.current_thread().name.rpartition("_")[0])
        if max_bytes == MEDIUM_BYTES_MAX:
            raise DecompressionError(ErrorCode.MESSAGE_TOO_LARGE, "more than that")

    for future in decompressing.run(large):
        future.exception(DEADLINE_S)
    assert threads == ["decompress", "decompress-large"]
    decompressing.close()
