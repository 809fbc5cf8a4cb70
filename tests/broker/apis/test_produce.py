"""Produce over a whole node: every version, every acks, codecs, errors, idempotence."""

import time

import pytest

from fencepost.batch.header import read_header
from fencepost.batch.records import build_batch, read_records
from fencepost.machines.partition import BecomeLeader
from fencepost.wire.api import (
    ApiVersionsRequest,
    DeleteTopicsRequest,
    InitProducerIdRequest,
)
from fencepost.wire.api.create_topics import CreatableTopic
from fencepost.wire.api.delete_topics import DeleteTopicState
from fencepost.wire.api.produce import PartitionProduceData
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Uuid

from ...waiting import eventually
from ..topic_requests import batch, fetch, make_topic, produce, produce_request, values

# -- round trips ----------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(3, 14))
@pytest.mark.parametrize("acks", [-1, 1])
def test_what_is_produced_is_fetched(client, topic, version, acks):
    first = produce(client, topic, batch(b"a", b"b"), version, acks=acks)
    assert (first.error_code, first.base_offset) == (0, 0)
    second = produce(client, topic, batch(b"c"), version, acks=acks)
    assert (second.error_code, second.base_offset) == (0, 2)
    (part,) = fetch(client, topic, 0)
    assert values(part) == [b"a", b"b", b"c"]
    assert (part.high_watermark, part.last_stable_offset, part.log_start_offset) == (3, 3, 0)


@pytest.mark.parametrize("timeout_ms", [0, -5, -(1 << 31)])
@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_without_time_the_only_replica_acknowledges_all_the_same(client, topic, timeout_ms, codec):
    """There is no replica to wait for; a refusal of what is written would have it sent again."""
    for number in range(5):
        request = produce_request(topic, batch(b"a", compression=codec))
        request.timeout_ms = timeout_ms
        (answer,) = client.ask(request, 9).responses[0].partition_responses
        assert (answer.error_code, answer.base_offset) == (0, number)


@pytest.mark.parametrize("flush", ["true", "false"])
def test_with_one_replica_whatever_is_acknowledged_with_acks_1_may_be_read(node_factory, flush):
    running = node_factory(log_flush_before_ack=flush)
    with running.connect() as client:
        topic = make_topic(client)
        hosted = running.call(running.node.broker.replicas.get, topic.name, 0)
        for number in range(50):
            assert produce(client, topic, batch(b"a"), acks=1).error_code == 0
            on_disk = hosted.log.recovery_point
            assert on_disk == (number + 1 if flush == "true" else 0)
            (part,) = fetch(client, topic, number)
            assert values(part) == [b"a"]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_batches_come_back_as_they_went(client, topic, codec):
    sent = batch(b"x" * 1000, b"y" * 1000, compression=codec)
    assert produce(client, topic, sent).error_code == 0
    (part,) = fetch(client, topic, 0)
    assert bytes(part.records)[21:] == sent[21:]
    assert values(part) == [b"x" * 1000, b"y" * 1000]


@pytest.mark.parametrize("wanted", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("sent", ["none", "gzip", "zstd"])
def test_a_topic_may_want_a_codec_of_its_own(client, wanted, sent):
    topic = make_topic(client, compression_type=wanted)
    records = batch(b"x" * 1000, b"y" * 1000, compression=sent, producer_id=-1)
    assert produce(client, topic, records).error_code == 0
    (part,) = fetch(client, topic, 0)
    header = read_header(part.records)
    assert (
        header.compression
        == {"uncompressed": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}[wanted]
    )
    assert values(part) == [b"x" * 1000, b"y" * 1000]


def test_a_batch_that_grows_over_the_limit_is_refused(client):
    topic = make_topic(client, compression_type="uncompressed", max_message_bytes=5000)
    answer = produce(client, topic, batch(b"x" * 100_000, compression="zstd"))
    assert answer.error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert "uncompressed" in answer.error_message


def test_advertised_produce_begins_at_0(client):
    response = client.ask(
        ApiVersionsRequest(client_software_name="t", client_software_version="1"), 3
    )
    ranges = {a.api_key: (a.min_version, a.max_version) for a in response.api_keys}
    assert ranges[0] == (0, 13)
    assert ranges[1] == (4, 18)
    assert ranges[22] == (0, 5)


# -- errors ---------------------------------------------------------------------------------------


def test_acks_0_has_no_answer_and_the_records_are_there(client, topic):
    client.send(produce_request(topic, batch(b"a"), acks=0), 9)
    client.send(produce_request(topic, batch(b"b"), acks=0), 9)
    assert produce(client, topic, batch(b"c")).base_offset == 2


def test_acks_0_that_fails_is_disconnected(node, topic):
    with node.connect() as doomed:
        doomed.send(produce_request(topic, batch(b"a"), acks=0, index=77), 9)
        assert doomed.is_disconnected()


@pytest.mark.parametrize("acks", [2, -2, 32767])
def test_other_acks_are_refused(client, topic, acks):
    assert produce(client, topic, batch(b"a"), acks=acks).error_code == 21


def corrupted(records):
    spoiled = bytearray(records)
    spoiled[-1] ^= 0xFF
    return bytes(spoiled)


@pytest.mark.parametrize(
    ("records", "error"),
    [
        (b"", ErrorCode.INVALID_RECORD),
        (None, ErrorCode.INVALID_RECORD),
        (batch(b"a") * 2, ErrorCode.INVALID_RECORD),
        (batch(b"a")[:-1], ErrorCode.INVALID_RECORD),
        (corrupted(batch(b"abc")), ErrorCode.CORRUPT_MESSAGE),
        (b"\xff" * 100, ErrorCode.CORRUPT_MESSAGE),
        (batch(b"v" * 1_100_000), ErrorCode.MESSAGE_TOO_LARGE),
        (batch(b"a", control=True), ErrorCode.INVALID_RECORD),
        (batch(b"a", timestamp_ms=int(time.time() * 1000) + 10**8), ErrorCode.INVALID_TIMESTAMP),
    ],
)
def test_bad_batches_are_refused_and_leave_nothing(client, topic, records, error):
    answer = produce(client, topic, records)
    assert ErrorCode(answer.error_code) is error
    assert answer.base_offset == -1
    assert answer.error_message
    assert fetch(client, topic, 0)[0].high_watermark == 0


def test_whole_batches_that_are_refused_are_answered_with_the_start_of_the_log(client, topic):
    stamps = {"producer_id": 7, "producer_epoch": 0}
    assert produce(client, topic, batch(b"a", base_sequence=0, **stamps)).error_code == 0
    refused = {
        ErrorCode.INVALID_RECORD: batch(b"a", control=True),
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: batch(b"a", base_sequence=9, **stamps),
    }
    for error, records in refused.items():
        answer = produce(client, topic, records)
        assert (answer.error_code, answer.log_start_offset) == (error, 0)
    for records in (b"", batch(b"a")[:-1], batch(b"a") * 2, corrupted(batch(b"abc"))):
        assert produce(client, topic, records).log_start_offset == -1


def test_of_two_mistakes_that_which_kafka_names(client, topic):
    transactional = {"transactional": True, "producer_id": 7, "producer_epoch": 0}
    records = batch(b"a", base_sequence=0, **transactional)[:-1]
    assert produce(client, topic, records).error_code == (
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    )
    twice = batch(b"a" * 100, compression="zstd") * 2
    assert produce(client, topic, twice, 6).error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert produce(client, topic, b"", acks=2).error_code == ErrorCode.INVALID_RECORD
    answer = produce(client, topic, batch(b"a"), acks=2, index=77)
    assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_zstd_needs_version_7(client, topic):
    records = batch(b"a" * 100, compression="zstd")
    assert produce(client, topic, records, 6).error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert produce(client, topic, records, 7).error_code == 0


def test_compacted_topics_need_keys(client):
    topic = make_topic(client, cleanup_policy="compact")
    answer = produce(client, topic, batch(b"a", b"b"))
    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert [error.batch_index for error in answer.record_errors] == [0, 1]
    assert "without key" in answer.record_errors[0].batch_index_error_message
    assert produce(client, topic, batch(b"a"), 7).error_code == ErrorCode.INVALID_RECORD
    assert produce(client, topic, batch(b"a", key=b"k")).error_code == 0


def test_times_have_the_topics_bounds(client):
    topic = make_topic(
        client, message_timestamp_before_max_ms=3_600_000, message_timestamp_after_max_ms=3_600_000
    )
    now_ms = int(time.time() * 1000)
    for when_ms in (now_ms, -1, now_ms - 3_000_000, now_ms + 3_000_000):
        assert produce(client, topic, batch(b"a", timestamp_ms=when_ms)).error_code == 0
    for when_ms in (0, now_ms - 4_000_000, now_ms + 4_000_000):
        answer = produce(client, topic, batch(b"a", timestamp_ms=when_ms))
        assert answer.error_code == ErrorCode.INVALID_TIMESTAMP
        assert [error.batch_index for error in answer.record_errors] == [0]
    topic = make_topic(
        client, message_timestamp_before_max_ms=0, message_timestamp_type="LogAppendTime"
    )
    assert produce(client, topic, batch(b"a", timestamp_ms=5)).error_code == 0


def test_a_batch_larger_than_a_segment_is_refused(client):
    limits = {"segment_bytes": 1 << 20, "max_message_bytes": 1 << 22}
    topic = make_topic(client, **limits)
    answer = produce(client, topic, batch(bytes(1 << 20)))
    assert answer.error_code == ErrorCode.RECORD_LIST_TOO_LARGE
    assert produce(client, topic, batch(bytes((1 << 20) - 200))).error_code == 0
    assert produce(client, topic, batch(bytes(1 << 21), compression="gzip")).error_code == 0
    topic = make_topic(client, compression_type="uncompressed", **limits)
    answer = produce(client, topic, batch(bytes(1 << 21), compression="gzip"))
    assert answer.error_code == ErrorCode.RECORD_LIST_TOO_LARGE


@pytest.mark.parametrize(
    ("codec", "levels"), [("gzip", (1, 9)), ("lz4", (1, 12)), ("zstd", (-100, 19))]
)
def test_the_level_of_compression_is_the_topics(client, codec, levels):
    text = " ".join(str(number * number) for number in range(20_000)).encode()
    sizes = []
    for level in levels:
        configs = {"compression_type": codec, f"compression_{codec}_level": level}
        topic = make_topic(client, **configs)
        assert produce(client, topic, batch(text)).error_code == 0
        (part,) = fetch(client, topic, 0)
        assert values(part) == [text]
        sizes.append(len(part.records))
    assert sizes[0] > sizes[1]


def test_log_append_time_is_told_and_stored(client):
    topic = make_topic(client, message_timestamp_type="LogAppendTime")
    answer = produce(client, topic, batch(b"a", timestamp_ms=5))
    assert abs(answer.log_append_time_ms - time.time() * 1000) < 60_000
    (part,) = fetch(client, topic, 0)
    (record,) = read_records(part.records)
    assert (record.timestamp_ms, record.timestamp_type) == (answer.log_append_time_ms, 1)


def test_unknown_partitions_and_ids(client, topic):
    assert produce(client, topic, batch(b"a"), index=9).error_code == 3
    stranger = CreatableTopic(name="no-such-topic-here")
    assert produce(client, stranger, batch(b"a")).error_code == 3
    unknown = make_topic(client)
    unknown.topic_id = Uuid.random()
    assert produce(client, unknown, batch(b"a"), 13).error_code == ErrorCode.UNKNOWN_TOPIC_ID
    (part,) = fetch(client, unknown, 0, version=13)
    assert part.error_code == ErrorCode.UNKNOWN_TOPIC_ID
    (part,) = fetch(client, stranger, 0)
    assert part.error_code == 3
    assert part.high_watermark == -1
    assert bytes(part.records) == b""


def test_idempotence(client, topic):
    response = client.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1), 4)
    assert (response.error_code, response.producer_epoch) == (0, 0)
    other = client.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1), 0)
    assert other.producer_id > response.producer_id

    def send(sequence, *values, epoch=0):
        records = batch(
            *values,
            producer_id=response.producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
        )
        return produce(client, topic, records)

    assert send(0, b"a", b"b").base_offset == 0
    assert send(2, b"c").base_offset == 2
    again = send(0, b"a", b"b")
    assert (again.error_code, again.base_offset) == (0, 0)
    assert send(7, b"z").error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(0, b"d", epoch=1).base_offset == 3
    assert send(3, b"e").error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert [v for p in fetch(client, topic, 0) for v in values(p)] == [b"a", b"b", b"c", b"d"]


@pytest.mark.parametrize("version", range(6))
def test_producer_ids_of_every_version(client, version):
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
    assert client.ask(request, version).producer_id >= 0


def test_half_a_producer_is_refused(client):
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1, producer_id=5)
    assert client.ask(request, 4).error_code == ErrorCode.INVALID_REQUEST


def test_internal_topics_are_not_for_clients(client):
    make_topic(client, name="__transaction_state")
    internal = CreatableTopic(name="__transaction_state")
    assert produce(client, internal, batch(b"a", key=b"k")).error_code == 17


def test_many_partitions_in_one_request(client):
    topic = make_topic(client, partitions=20)
    request = produce_request(topic, batch(b"0"))
    request.topic_data[0].partition_data = [
        PartitionProduceData(index=index, records=build_batch([(None, b"%d" % index)]))
        for index in range(20)
    ]
    response = client.ask(request, 9)
    answers = response.responses[0].partition_responses
    assert [a.index for a in answers] == list(range(20))
    assert all((a.error_code, a.base_offset) == (0, 0) for a in answers)
    parts = fetch(client, topic, *([0] * 20))
    assert [values(p) for p in parts] == [[b"%d" % index] for index in range(20)]


def test_a_producer_that_waits_on_a_topic_that_is_deleted_hears_that_there_is_none(node, client):
    topic = make_topic(client)
    hosted = node.call(node.node.broker.replicas.get, topic.name, 0)
    epoch = hosted.machine.leader_epoch
    waits_for_another = BecomeLeader(epoch, 1 << 20, (1, 2), (1, 2), {})
    node.call(node.node.driver.feed, hosted.key, waits_for_another)
    client.send(produce_request(topic, batch(b"a")), 9)
    eventually(lambda: hosted.machine.durable_offset == 1, "the batch is durable here")
    with node.connect() as admin:
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name=topic.name)], timeout_ms=60_000)
        assert admin.ask(request, 6).responses[0].error_code == 0
    _, response = client.receive(0, 9)
    (answer,) = response.responses[0].partition_responses
    assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
