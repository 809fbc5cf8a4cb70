"""Fetch over a whole node: every version, sizes, epochs, long polls, sessions, transactions."""

import pytest

from fencepost.batch.control import build_end_txn_marker
from fencepost.batch.record_batch import RecordBatch
from fencepost.batch.records import read_records
from fencepost.machines.effects import Persisted
from fencepost.machines.partition import BecomeFollower
from fencepost.wire.api import (
    DeleteRecordsRequest,
    DeleteTopicsRequest,
    FetchRequest,
)
from fencepost.wire.api.delete_records import DeleteRecordsPartition, DeleteRecordsTopic
from fencepost.wire.api.delete_topics import DeleteTopicState
from fencepost.wire.api.fetch import FetchPartition, FetchTopic, ForgottenTopic, ReplicaState
from fencepost.wire.errors import ErrorCode

from ...waiting import DEADLINE_S, eventually
from ..topic_requests import (
    FOR_DAYS_MS,
    batch,
    fetch,
    fetch_request,
    make_topic,
    produce,
    produce_request,
    values,
)


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


def test_every_version_reads_zstd(client):
    """A consumer may know the codec, whatever version it fetches with (no conversion since 4.0)."""
    topic = make_topic(client, compression_type="zstd")
    assert produce(client, topic, batch(b"x" * 99)).error_code == 0
    for version in range(4, 19):
        (part,) = fetch(client, topic, 0, version=version)
        assert (part.error_code, values(part)) == (0, [b"x" * 99]), version


@pytest.mark.parametrize("epoch", [-2, -(1 << 31)])
@pytest.mark.parametrize("version", [9, 11, 12, 18])
def test_a_negative_epoch_is_none(client, topic, version, epoch):
    produce(client, topic, batch(b"a", b"b"))
    epochs = {"current_leader_epoch": epoch}
    if version >= 12:
        epochs["last_fetched_epoch"] = epoch
    (part,) = fetch(client, topic, 1, version=version, **epochs)
    assert (part.error_code, values(part)) == (0, [b"a", b"b"])
    (end,) = fetch(client, topic, 2, version=version, **epochs)
    assert (end.error_code, end.diverging_epoch.epoch, bytes(end.records)) == (0, -1, b"")


# -- sizes ----------------------------------------------------------------------------------------


def test_limits_hold_but_for_the_first_batch(client):
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


# -- epochs ---------------------------------------------------------------------------------------


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
    answer = client.ask(request, 6)  # which has errors of partitions alone
    assert [one.error_code for one in answer.responses[0].partitions] == [42]


def test_only_of_partitions_that_are_not_known_there_is_an_empty_list_of_aborted_ones(
    client, topic
):
    (known,) = fetch(client, topic, 10**6)
    assert (known.error_code, known.aborted_transactions) == (ErrorCode.OFFSET_OUT_OF_RANGE, None)
    unknown = fetch_request(topic, 0)
    unknown.topics[0].partitions[0].partition = 77
    (unknown,) = client.ask(unknown, 12).responses[0].partitions
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert unknown.aborted_transactions == []


# -- long polls -----------------------------------------------------------------------------------


def waiting_fetches(node):
    """How many fetches the node holds back."""
    return node.call(lambda: len(node.node.broker.fetches))


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
    assert response.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("version", [12, 13, 18])
def test_deleting_the_records_that_a_fetch_waits_at_ends_the_wait(node, client, topic, version):
    """Nothing else would: below the log's start no record will ever come."""
    produce(client, topic, batch(b"a"))
    client.send(
        fetch_request(topic, 0, version=version, max_wait_ms=FOR_DAYS_MS, min_bytes=1 << 20),
        version,
    )
    eventually(lambda: waiting_fetches(node) == 1, "the fetch waits")
    with node.connect() as admin:
        below = [DeleteRecordsPartition(partition_index=0, offset=1)]
        request = DeleteRecordsRequest(
            topics=[DeleteRecordsTopic(name=topic.name, partitions=below)], timeout_ms=60_000
        )
        (deleted,) = admin.ask(request, 2).topics[0].partitions
        assert (deleted.error_code, deleted.low_watermark) == (0, 1)
    _, response = client.receive(1, version)
    (part,) = response.responses[0].partitions
    assert part.error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_retention_that_deletes_the_records_a_fetch_waits_at_ends_the_wait(node, client):
    topic = make_topic(client, internal_segment_bytes=2000, retention_bytes=1)
    for _ in range(5):
        produce(client, topic, batch(b"v" * 1000))
    client.send(fetch_request(topic, 0, max_wait_ms=FOR_DAYS_MS, min_bytes=1 << 20), 12)
    eventually(lambda: waiting_fetches(node) == 1, "the fetch waits")
    node.call(node.node.housekeeping.retain)
    _, response = client.receive(1, 12)
    (part,) = response.responses[0].partitions
    assert part.error_code == ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize(("version", "error"), [(10, 6), (12, 74)])
def test_losing_the_leadership_ends_the_wait(node, client, version, error):
    """Whenever the machine takes the metadata in: it may do so after who told it has gone on."""
    topic = make_topic(client)
    hosted = node.call(node.node.broker.replicas.get, topic.name, 0)
    epoch = hosted.machine.leader_epoch
    asked = {"current_leader_epoch": epoch} if version >= 12 else {}
    client.send(fetch_request(topic, 0, version=version, max_wait_ms=FOR_DAYS_MS, **asked), version)
    eventually(lambda: waiting_fetches(node) == 1, "the fetch waits")
    another = BecomeFollower(2, epoch + 1, 1 << 20, (1, 2), (1, 2))
    node.call(node.node.driver.feed, hosted.key, another)
    _, response = client.receive(1, version)
    assert response.responses[0].partitions[0].error_code == error


def test_a_client_that_leaves_stops_waiting(node, topic):
    with node.connect() as leaving:
        leaving.send(fetch_request(topic, 0, max_wait_ms=FOR_DAYS_MS), 12)
        eventually(lambda: waiting_fetches(node) == 1, "the fetch waits")
    eventually(lambda: waiting_fetches(node) == 0, "nobody waits any more")


def test_a_fetch_for_nothing_is_answered_at_once(client, topic):
    assert fetch(client, topic, max_wait_ms=FOR_DAYS_MS) == []


# -- sessions -------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_named", [False, True])
@pytest.mark.parametrize("version", [7, 12, 13, 18])
def test_a_session_names_and_hears_only_what_changes(client, version, is_named):
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
    named = (0, 0) if is_named else ()  # partition 1 is named, and forgotten all the same
    dropped = ask(*named, session_epoch=3, forgotten_topics_data=[forgotten], **session)
    assert parts(dropped) == {}
    produce(client, topic, batch(b"c"), index=1)
    assert parts(ask(session_epoch=4, **session)) == {}
    closed = ask(0, session_epoch=-1, **session)
    assert closed.session_id == 0
    gone = ask(session_epoch=5, **session)
    assert gone.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


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
        hosted = node.node.broker.replicas.by_id(topic.topic_id, 0)
        copy = bytearray(data)
        wall_ms = node.node.wall_ms()
        hosted.log.append_as_leader(RecordBatch.parse(copy), hosted.machine.leader_epoch, wall_ms)
        hosted.log.flush()
        hosted.machine.step(Persisted(hosted.log.end_offset), node.node.now_ms(), wall_ms)

    node.call(append)


def test_sessions_of_unknown_partitions_take_no_more_than_the_config_allows(node_factory):
    limit = 1 << 20
    running = node_factory(fencepost_fetch_session_cache_max_bytes=limit)
    wanted = [FetchPartition(partition=n, fetch_offset=n) for n in range(1000)]
    named = FetchTopic(topic="nosuch", partitions=wanted)
    long_name = FetchTopic(topic="n" * 30_000, partitions=[FetchPartition(partition=0)])
    given = []
    with running.connect() as client:
        for topic in [long_name] + [named] * 10:
            answer = client.ask(FetchRequest(max_wait_ms=0, session_epoch=0, topics=[topic]), 12)
            assert answer.error_code == 0
            assert len(answer.responses) > 0, "with or without a session"
            given.append(answer.session_id > 0)
    sessions = running.node.broker.fetches.sessions
    assert given[:3] == [True] * 3 and not any(given[4:])
    assert 30_000 < sessions.used_bytes <= limit
