"""Produce and Fetch over a whole node: every version, every acks, sizes, sessions, long polls."""

import time

import pytest

from fencepost.batch.control import build_end_txn_marker
from fencepost.batch.header import read_header
from fencepost.batch.records import BatchBuilder, build_batch, read_records
from fencepost.machines.effects import Persisted
from fencepost.wire.api import (
    ApiVersionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    FetchRequest,
    InitProducerIdRequest,
    ProduceRequest,
)
from fencepost.wire.api.create_topics import CreatableTopic, CreatableTopicConfig
from fencepost.wire.api.delete_topics import DeleteTopicState
from fencepost.wire.api.fetch import FetchPartition, FetchTopic, ForgottenTopic, ReplicaState
from fencepost.wire.api.produce import PartitionProduceData, TopicProduceData
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Uuid

from ..waiting import DEADLINE_S, eventually

COUNTER = iter(range(1_000_000))
FOR_DAYS_MS = (1 << 31) - 1
"""A wait that no test sits out: what is answered has not been waited for."""


@pytest.fixture
def client(node):
    with node.connect() as connected:
        yield connected


@pytest.fixture
def topic(node, client):
    return make_topic(client)


def make_topic(client, partitions=1, name=None, **configs):
    name = name or f"topic-{next(COUNTER)}"
    request = CreateTopicsRequest(
        topics=[
            CreatableTopic(
                name=name,
                num_partitions=partitions,
                replication_factor=1,
                configs=[
                    CreatableTopicConfig(name=key.replace("_", "."), value=str(value))
                    for key, value in configs.items()
                ],
            )
        ],
        timeout_ms=60_000,
    )
    response = client.ask(request, 7)
    assert response.topics[0].error_code == 0, response.topics[0].error_message
    return response.topics[0]


def batch(*values, **kinds):
    now_ms = int(time.time() * 1000)
    builder = BatchBuilder(kinds.pop("compression", "none"))
    for value in values:
        builder.append(kinds.get("key"), value, timestamp_ms=kinds.get("timestamp_ms", now_ms))
    kinds.pop("key", None)
    kinds.pop("timestamp_ms", None)
    return bytes(builder.build(**kinds))


def produce_request(topic, records, version=9, index=0, acks=-1, **fields):
    data = PartitionProduceData(index=index, records=records)
    named = (
        TopicProduceData(topic_id=topic.topic_id, partition_data=[data])
        if version >= 13
        else TopicProduceData(name=topic.name, partition_data=[data])
    )
    return ProduceRequest(acks=acks, timeout_ms=60_000, topic_data=[named], **fields)


def produce(client, topic, records, version=9, **kinds):
    response = client.ask(produce_request(topic, records, version, **kinds), version)
    return response.responses[0].partition_responses[0]


def fetch_request(topic, *offsets, version=12, max_wait_ms=0, min_bytes=1, **fields):
    limits = {
        key: fields.pop(key)
        for key in ("partition_max_bytes", "current_leader_epoch", "last_fetched_epoch")
        if key in fields
    }
    partitions = [
        FetchPartition(
            partition=index, fetch_offset=offset, **{"partition_max_bytes": 1 << 20, **limits}
        )
        for index, offset in enumerate(offsets)
    ]
    named = (
        FetchTopic(topic_id=topic.topic_id, partitions=partitions)
        if version >= 13
        else FetchTopic(topic=topic.name, partitions=partitions)
    )
    return FetchRequest(
        max_wait_ms=max_wait_ms, min_bytes=min_bytes, topics=[named] if partitions else [], **fields
    )


def fetch(client, topic, *offsets, version=12, **kinds):
    response = client.ask(fetch_request(topic, *offsets, version=version, **kinds), version)
    assert response.error_code == 0
    return [part for answered in response.responses for part in answered.partitions]


def values(part):
    return [record.value for record in read_records(part.records)]


# -- round trips ---------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(3, 14))
@pytest.mark.parametrize("acks", [-1, 1])
def test_what_is_produced_is_fetched(client, topic, version, acks):
    first = produce(client, topic, batch(b"a", b"b"), version, acks=acks)
    assert (first.error_code, first.base_offset) == (0, 0)
    second = produce(client, topic, batch(b"c"), version, acks=acks)
    assert (second.error_code, second.base_offset) == (0, 2)
    # acks=1 is answered before the records may be read: wait for all of them.
    size = len(batch(b"a", b"b")) + len(batch(b"c"))
    (part,) = fetch(client, topic, 0, max_wait_ms=FOR_DAYS_MS, min_bytes=size)
    assert values(part) == [b"a", b"b", b"c"]
    assert (part.high_watermark, part.last_stable_offset, part.log_start_offset) == (3, 3, 0)


@pytest.mark.parametrize("version", range(4, 19))
def test_every_fetch_version(client, topic, version):
    produce(client, topic, batch(b"a"))
    produce(client, topic, batch(b"b"))
    response = client.ask(fetch_request(topic, 1, version=version, isolation_level=1), version)
    (answered,) = response.responses
    (part,) = answered.partitions
    assert values(part) == [b"b"]
    assert part.aborted_transactions == []
    if version >= 13:
        assert answered.topic_id == topic.topic_id
    else:
        assert answered.topic == topic.name


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


# -- produce: refusals ---------------------------------------------------------------------------


def test_acks_0_has_no_answer_and_the_records_are_there(client, topic):
    client.send(produce_request(topic, batch(b"a"), acks=0), 9)
    client.send(produce_request(topic, batch(b"b"), acks=0), 9)
    assert produce(client, topic, batch(b"c")).base_offset == 2


def test_acks_0_that_fails_hangs_up(node, topic):
    with node.connect() as doomed:
        doomed.send(produce_request(topic, batch(b"a"), acks=0, index=77), 9)
        assert doomed.is_hung_up_on()


@pytest.mark.parametrize("acks", [2, -2, 32767])
def test_other_acks_are_refused(client, topic, acks):
    assert produce(client, topic, batch(b"a"), acks=acks).error_code == 21


def test_transactions_are_refused(client, topic):
    refused = produce(client, topic, batch(b"a"), transactional_id="tx")
    assert refused.error_code == ErrorCode.INVALID_REQUEST
    records = batch(b"a", producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
    assert produce(client, topic, records).error_code == ErrorCode.INVALID_REQUEST
    assert fetch(client, topic, 0)[0].high_watermark == 0


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


def test_zstd_needs_version_7(client, topic):
    records = batch(b"a" * 100, compression="zstd")
    assert produce(client, topic, records, 6).error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert produce(client, topic, records, 7).error_code == 0


def test_compacted_topics_need_keys(client):
    topic = make_topic(client, cleanup_policy="compact")
    answer = produce(client, topic, batch(b"a", b"b"))
    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert [error.batch_index for error in answer.record_errors] == [0, 1]
    assert "no key" in answer.record_errors[0].batch_index_error_message
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
    transactional = InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=60_000)
    refused = client.ask(transactional, version)
    assert (refused.error_code, refused.producer_id) == (ErrorCode.INVALID_REQUEST, -1)


def test_half_a_producer_is_refused(client):
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1, producer_id=5)
    assert client.ask(request, 4).error_code == ErrorCode.INVALID_REQUEST


# -- fetch: sizes --------------------------------------------------------------------------------


def test_sizes(client):
    """KIP-74: the first batch comes whatever its size, and then the limits hold."""
    topic = make_topic(client, partitions=3)
    for index in range(3):
        for _ in range(2):
            assert produce(client, topic, batch(b"v" * 10_000), index=index).error_code == 0
    one = len(batch(b"v" * 10_000))
    sizes = [len(p.records) for p in fetch(client, topic, 0, 0, 0)]
    assert sizes == [2 * one] * 3
    sizes = [len(p.records) for p in fetch(client, topic, 0, 0, 0, partition_max_bytes=1)]
    assert sizes == [one, 0, 0]
    sizes = [len(p.records) for p in fetch(client, topic, 2, 0, 0, partition_max_bytes=1)]
    assert sizes == [0, one, 0]
    sizes = [len(p.records) for p in fetch(client, topic, 0, 0, 0, max_bytes=1)]
    assert sizes == [one, 0, 0]
    sizes = [len(p.records) for p in fetch(client, topic, 0, 0, 0, max_bytes=3 * one + 5)]
    assert sizes == [2 * one, one, 0]
    sizes = [len(p.records) for p in fetch(client, topic, 0, 0, 0, partition_max_bytes=one + 5)]
    assert sizes == [one, one, one]


def test_offsets_in_the_middle_of_a_batch_and_out_of_range(client, topic):
    produce(client, topic, batch(b"a", b"b", b"c"))
    assert values(fetch(client, topic, 1)[0]) == [b"a", b"b", b"c"]
    (end,) = fetch(client, topic, 3)
    assert (end.error_code, bytes(end.records)) == (0, b"")
    assert fetch(client, topic, 4)[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE


# -- fetch: epochs -------------------------------------------------------------------------------


def test_leader_epochs_fence_and_divergence_is_told(client, topic):
    produce(client, topic, batch(b"a", b"b"))
    (part,) = fetch(client, topic, 0, current_leader_epoch=5)
    assert part.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    (part,) = fetch(client, topic, 0, current_leader_epoch=0, last_fetched_epoch=0)
    assert (part.error_code, len(values(part))) == (0, 2)
    (part,) = fetch(client, topic, 7, last_fetched_epoch=0)
    assert part.error_code == 0
    assert (part.diverging_epoch.epoch, part.diverging_epoch.end_offset) == (0, 2)
    assert bytes(part.records) == b""
    (part,) = fetch(client, topic, 0, last_fetched_epoch=9)
    assert part.error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_an_old_epoch_is_fenced_after_a_restart(node_factory):
    running = node_factory()
    with running.connect() as client:
        topic = make_topic(client, name="fenced")
        produce(client, topic, batch(b"a"))
    running.restart()
    with running.connect() as client:
        (part,) = fetch(client, topic, 0, version=16, current_leader_epoch=0)
        assert part.error_code == ErrorCode.FENCED_LEADER_EPOCH
        assert part.current_leader.leader_id == 1
        assert part.current_leader.leader_epoch > 0
        response = client.ask(fetch_request(topic, 0, version=16, current_leader_epoch=0), 16)
        (endpoint,) = response.node_endpoints
        assert (endpoint.node_id, endpoint.port) == (1, running.port)
        (part,) = fetch(client, topic, 0)
        assert values(part) == [b"a"]


def test_strangers_that_claim_to_be_replicas_are_refused(client, topic):
    (part,) = fetch(client, topic, 0, version=12, replica_id=2)
    assert part.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    state = ReplicaState(replica_id=2, replica_epoch=1)
    (part,) = fetch(client, topic, 0, version=15, replica_state=state, current_leader_epoch=0)
    assert part.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH


def test_an_isolation_level_that_does_not_exist(client, topic):
    request = fetch_request(topic, 0, isolation_level=7)
    assert client.ask(request, 12).error_code == ErrorCode.INVALID_REQUEST


# -- fetch: long polls ---------------------------------------------------------------------------


def waiting_fetches(node):
    """How many fetches the node holds back."""
    return node.call(lambda: len(node.node.fetches))


def test_a_fetch_waits_for_data(node, client, topic):
    sent = client.send(fetch_request(topic, 0, max_wait_ms=FOR_DAYS_MS), 12)
    eventually(lambda: waiting_fetches(node) == 1, "the fetch waits")
    with node.connect() as producer:
        produce(producer, topic, batch(b"late"))
    correlation, response = client.receive(1, 12)
    assert correlation == sent
    assert values(response.responses[0].partitions[0]) == [b"late"]


def test_a_fetch_waits_no_longer_than_it_wants(client, topic):
    (part,) = fetch(client, topic, 0, max_wait_ms=150)
    assert (part.error_code, bytes(part.records)) == (0, b"")


def test_min_bytes_are_waited_for(node, client, topic):
    one = batch(b"v" * 1000)
    produce(client, topic, one)
    with node.connect() as producer:
        request = fetch_request(topic, 0, max_wait_ms=FOR_DAYS_MS, min_bytes=3 * len(one))
        client.send(request, 12)
        produce(producer, topic, one)
        client.sock.settimeout(0.1)
        with pytest.raises(TimeoutError):
            client.sock.recv(1)
        client.sock.settimeout(DEADLINE_S)
        produce(producer, topic, one)
        _, response = client.receive(1, 12)
    assert len(values(response.responses[0].partitions[0])) == 3


def test_pipelined_requests_behind_a_parked_fetch_are_answered_behind_it(node, client, topic):
    first = client.send(fetch_request(topic, 0, max_wait_ms=FOR_DAYS_MS), 12)
    second = client.send(produce_request(topic, batch(b"own")), 9)
    # The produce that ends the wait comes on the same connection: Kafka would not have looked at it
    # yet, and here it is served, but answered in its place.
    assert client.receive(1, 12)[0] == first
    assert client.receive(0, 9)[0] == second


def test_deleting_a_topic_ends_the_wait(node, client):
    topic = make_topic(client)
    client.send(fetch_request(topic, 0, max_wait_ms=FOR_DAYS_MS), 12)
    with node.connect() as admin:
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name=topic.name)], timeout_ms=60_000)
        assert admin.ask(request, 6).responses[0].error_code == 0
    _, response = client.receive(1, 12)
    assert response.responses[0].partitions[0].error_code in (3, 6)


def test_a_client_that_leaves_stops_waiting(node, topic):
    with node.connect() as leaving:
        leaving.send(fetch_request(topic, 0, max_wait_ms=FOR_DAYS_MS), 12)
        eventually(lambda: waiting_fetches(node) == 1, "the fetch waits")
    eventually(lambda: waiting_fetches(node) == 0, "nobody waits any more")


def test_a_fetch_for_nothing_is_answered_at_once(client, topic):
    assert fetch(client, topic, max_wait_ms=FOR_DAYS_MS) == []


# -- fetch: sessions -----------------------------------------------------------------------------


@pytest.mark.parametrize("version", [7, 12, 13, 18])
def test_a_session_names_and_hears_only_what_changes(client, version):
    topic = make_topic(client, partitions=2)

    def ask(*offsets, **fields):
        return client.ask(fetch_request(topic, *offsets, version=version, **fields), version)

    def parts(response):
        return {p.partition_index: p for t in response.responses for p in t.partitions}

    full = ask(0, 0, session_epoch=0)
    assert full.session_id > 0
    assert set(parts(full)) == {0, 1}
    session = {"session_id": full.session_id}
    assert parts(ask(session_epoch=1, **session)) == {}
    produce(client, topic, batch(b"a"), index=1)
    increment = parts(ask(session_epoch=2, **session))
    assert set(increment) == {1}
    assert values(increment[1]) == [b"a"]
    wrong = ask(session_epoch=9, **session)
    assert wrong.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    forgotten = ForgottenTopic(partitions=[1])
    if version >= 13:
        forgotten.topic_id = topic.topic_id
    else:
        forgotten.topic = topic.name
    produce(client, topic, batch(b"b"), index=1)
    assert parts(ask(session_epoch=3, forgotten_topics_data=[forgotten], **session)) == {}
    closed = ask(0, session_epoch=-1, **session)
    assert closed.session_id == 0
    gone = ask(session_epoch=4, **session)
    assert gone.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


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


def test_readers_of_committed_data_learn_what_was_aborted(node, client):
    topic = make_topic(client, retention_ms=-1)
    transactional = {"producer_epoch": 0, "transactional": True, "timestamp_ms": 1000}
    marker = {"coordinator_epoch": 1, "producer_epoch": 0, "timestamp_ms": 1000}
    for data in (
        batch(b"a" * 500, producer_id=71, base_sequence=0, **transactional),
        batch(b"b" * 500, producer_id=72, base_sequence=0, **transactional),
        build_end_txn_marker(committed=False, producer_id=71, **marker),
        batch(b"c" * 500, producer_id=71, base_sequence=1, **transactional),
        build_end_txn_marker(committed=True, producer_id=72, **marker),
        build_end_txn_marker(committed=False, producer_id=71, **marker),
        batch(b"d", producer_id=72, base_sequence=1, **transactional),
    ):
        write_as_leader(node, topic, data)

    def fetched(offset, level, max_bytes=1 << 20):
        request = fetch_request(
            topic, offset, version=12, isolation_level=level, partition_max_bytes=max_bytes
        )
        part = client.ask(request, 12).responses[0].partitions[0]
        aborted = part.aborted_transactions
        told = aborted and [(one.producer_id, one.first_offset) for one in aborted]
        return part.last_stable_offset, told, [one.offset for one in read_records(part.records)]

    assert fetched(0, 0) == (6, None, [0, 1, 3, 6])
    assert fetched(0, 1) == (6, [(71, 0), (71, 3)], [0, 1, 3])
    assert fetched(3, 1) == (6, [(71, 3)], [3])
    assert fetched(0, 1, max_bytes=600) == (6, [(71, 0)], [0])
    assert fetched(6, 1) == (6, [], [])


def write_as_leader(node, topic, data):
    """Append to the log as the coordinator of transactions would, and wait until it is durable."""

    def append():
        hosted = node.node.replicas.by_id(topic.topic_id, 0)
        copy = bytearray(data)
        now_ms = node.node.now_ms()
        hosted.log.append_as_leader(copy, read_header(copy), hosted.machine.leader_epoch, now_ms)
        hosted.log.flush()
        hosted.machine.step(Persisted(hosted.log.end_offset), now_ms)

    node.call(append)
