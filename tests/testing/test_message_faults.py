"""Failures, disconnections, delays and holds, as one connection after the other sees them."""

from __future__ import annotations

import struct

import pytest

from fencepost.testing import Cluster, FaultError
from fencepost.testing.faults.rules import FAULTS_MAX
from fencepost.wire.api.api_versions import ApiVersionsRequest
from fencepost.wire.api.find_coordinator import FindCoordinatorRequest
from fencepost.wire.api.metadata import MetadataRequest, MetadataRequestTopic
from fencepost.wire.errors import ErrorCode

from ..broker.listener_fixtures import Client, connect
from ..broker.topic_requests import (
    batch,
    fetch_request,
    make_topic,
    produce,
    produce_request,
    values,
)
from ..waiting import eventually
from .conftest import is_silent

NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER
METADATA_VERSION = 12


def end_of(client: Client, topic) -> int:
    """How many records the topic has."""
    (part,) = client.ask(fetch_request(topic, 0), 12).responses[0].partitions
    return part.high_watermark


def metadata(client: Client, *names: str):
    """The answer to Metadata, which tells the ids of topics as well."""
    topics = [MetadataRequestTopic(name=name) for name in names]
    return client.ask(MetadataRequest(topics=topics), METADATA_VERSION)


@pytest.mark.parametrize("version", [3, 9, 12, 13])
def test_so_many_requests_fail_and_nothing_is_written(lone: Cluster, version):
    with connect(lone) as client:
        topic = make_topic(client)
        metadata(client, topic.name)
        fault = lone.fail_next("Produce", "NOT_LEADER_OR_FOLLOWER", count=2)
        codes = [produce(client, topic, batch(b"a"), version).error_code for _ in range(3)]
        assert codes == [NOT_LEADER, NOT_LEADER, 0]
        assert (fault.hits, fault.remaining, fault.is_over) == (2, 0, True)
        assert end_of(client, topic) == 1


def test_a_failed_answer_does_not_overtake_the_one_before(lone: Cluster):
    with connect(lone) as client:
        topic = make_topic(client)
        lone.fail_next("ApiVersions", "UNKNOWN_SERVER_ERROR")
        first = client.send(fetch_request(topic, 0, max_wait_ms=300, min_bytes=1), 12)
        second = client.send(ApiVersionsRequest(), 0)
        assert client.receive(1, 12)[0] == first
        correlation_id, answer = client.receive(18, 0)
        assert (correlation_id, answer.error_code) == (second, -1)


def test_a_request_is_carried_out_and_its_answer_fails(lone: Cluster):
    with connect(lone) as client:
        topic = make_topic(client)
        lone.fail_next("Produce", "REQUEST_TIMED_OUT", after=True)
        assert produce(client, topic, batch(b"a")).error_code == ErrorCode.REQUEST_TIMED_OUT
        assert end_of(client, topic) == 1


@pytest.mark.parametrize("after", [False, True])
def test_a_client_is_disconnected_before_or_after_the_broker_has_done_it(lone: Cluster, after):
    with connect(lone) as client, connect(lone) as other:
        topic = make_topic(client)
        lone.disconnect_next("Produce", after=after)
        client.send(produce_request(topic, batch(b"a")), 9)
        assert client.is_disconnected()
        assert end_of(other, topic) == int(after)
        assert produce(other, topic, batch(b"b")).error_code == 0


def test_a_produce_without_acks_is_disconnected_as_brokers_do(lone: Cluster):
    with connect(lone) as client:
        topic = make_topic(client)
        lone.fail_next("Produce", "NOT_LEADER_OR_FOLLOWER")
        client.send(produce_request(topic, batch(b"a"), acks=0), 9)
        assert client.is_disconnected()


@pytest.mark.parametrize("version", [2, 3, 9])
def test_a_produce_without_acks_has_no_place_among_the_answers(lone: Cluster, version):
    with connect(lone) as client:
        topic = make_topic(client)
        lone.fail_next("ApiVersions", "UNKNOWN_SERVER_ERROR")
        if version > 2:  # older ones are advertised and not served
            client.send(produce_request(topic, batch(b"a"), version, acks=0), version)
        client.send(ApiVersionsRequest(), 0)
        assert client.receive(18, 0)[1].error_code == -1


@pytest.mark.parametrize("after", [False, True])
def test_what_is_held_waits_until_it_is_released(lone: Cluster, after):
    with connect(lone) as client, connect(lone) as other:
        topic = make_topic(client)
        with lone.hold("Produce", after=after) as hold:
            sent = client.send(produce_request(topic, batch(b"a")), 9)
            behind = client.send(ApiVersionsRequest(), 0)
            hold.wait()
            assert [one.id for one in lone.faults] == [hold.id]
            other.ask(ApiVersionsRequest(), 0)  # others go on
            assert is_silent(client)
        assert client.receive(0, 9)[0] == sent
        assert client.receive(18, 0)[0] == behind
        assert end_of(other, topic) == 1
        assert lone.faults == []


def test_a_held_answer_has_been_carried_out(lone: Cluster):
    with connect(lone) as client, connect(lone) as other:
        topic = make_topic(client)
        with lone.hold("Produce", after=True):
            client.send(produce_request(topic, batch(b"a")), 9)
            eventually(lambda: end_of(other, topic) == 1)
            assert is_silent(client)


def test_a_delay_is_over_by_itself_or_when_it_is_lifted(lone: Cluster):
    with connect(lone) as client:
        fault = lone.delay("ApiVersions", 5, count=1)
        client.ask(ApiVersionsRequest(), 0)
        assert (fault.hits, fault.remaining) == (1, 0)
        fault = lone.delay("ApiVersions", 3_600_000)
        client.send(ApiVersionsRequest(), 0)
        fault.wait()
        assert is_silent(client)
        fault.lift()
        client.receive(18, 0)
        client.ask(ApiVersionsRequest(), 0)
        assert fault.hits == 1


def test_faults_meet_the_client_and_the_topic_they_are_for(lone: Cluster):
    with connect(lone) as client:
        met, other = make_topic(client), make_topic(client)
        metadata(client, met.name, other.name)
        by_client = lone.fail_next("Produce", "CORRUPT_MESSAGE", client_id="another client")
        by_node = lone.fail_next("Produce", "CORRUPT_MESSAGE", node=9)
        by_topic = lone.fail_next("Produce", NOT_LEADER, count=2, topic=met.name, client_id="test")
        assert produce(client, other, batch(b"a")).error_code == 0
        assert produce(client, met, batch(b"a")).error_code == NOT_LEADER
        assert produce(client, other, batch(b"a"), 13).error_code == 0
        assert produce(client, met, batch(b"a"), 13).error_code == NOT_LEADER
        assert (by_client.hits, by_node.hits, by_topic.hits) == (0, 0, 2)


def test_a_fetch_in_a_session_fails_with_all_its_partitions(lone: Cluster):
    with connect(lone) as client:
        topic = make_topic(client, partitions=2)
        began = client.ask(fetch_request(topic, 0, 0, session_epoch=0), 12)
        assert began.session_id
        fault = lone.fail_next("Fetch", NOT_LEADER)
        asked = fetch_request(topic, session_id=began.session_id, session_epoch=1)
        answer = client.ask(asked, 12)
        assert answer.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        assert fault.hits == 0
        answer = client.ask(fetch_request(topic, 0, 0, session_epoch=0), 12)
        assert answer.error_code == 0
        assert [p.error_code for p in answer.responses[0].partitions] == [NOT_LEADER] * 2
        began = client.ask(fetch_request(topic, 0, 0, session_epoch=0), 12)
        asked = fetch_request(topic, session_id=began.session_id, session_epoch=1)
        assert client.ask(asked, 12).error_code == 0


def test_metadata_and_coordinators_fail(lone: Cluster):
    with connect(lone) as client:
        topic = make_topic(client)
        lone.fail_next("Metadata", "LEADER_NOT_AVAILABLE")
        answer = metadata(client, topic.name)
        assert [(one.name, one.error_code) for one in answer.topics] == [(topic.name, 5)]
        assert answer.brokers
        lone.fail_next(FindCoordinatorRequest, 15)
        answer = client.ask(FindCoordinatorRequest(coordinator_keys=["g"]), 4)
        (said,) = answer.coordinators
        assert (said.key, said.error_code, said.node_id) == ("g", 15, -1)


def test_one_request_meets_one_failure_and_every_delay(lone: Cluster):
    with connect(lone) as client:
        faults = [
            lone.delay("ApiVersions", 1, count=1),
            lone.fail_next("ApiVersions", "UNKNOWN_SERVER_ERROR"),
            lone.fail_next(None, "UNSUPPORTED_VERSION"),
        ]
        assert client.ask(ApiVersionsRequest(), 0).error_code == -1
        assert [one.hits for one in faults] == [1, 1, 0]
        assert client.ask(ApiVersionsRequest(), 0).error_code == ErrorCode.UNSUPPORTED_VERSION


def test_what_cannot_be_is_refused(lone: Cluster):
    for api, error, options in (
        ("Prodce", "NOT_LEADER_OR_FOLLOWER", {}),
        (4711, "NOT_LEADER_OR_FOLLOWER", {}),
        (True, "NOT_LEADER_OR_FOLLOWER", {}),
        ("Produce", "NOT_LEADER", {}),
        ("Produce", "NONE", {}),
        ("Produce", 4711, {}),
        ("Produce", "NOT_LEADER_OR_FOLLOWER", {"count": 0}),
        ("Produce", "NOT_LEADER_OR_FOLLOWER", {"count": True}),
        ("Produce", "NOT_LEADER_OR_FOLLOWER", {"node": -1}),
    ):
        with pytest.raises(FaultError):
            lone.fail_next(api, error, **options)
    with pytest.raises(FaultError, match="delay_ms"):
        lone.delay("Produce", 0)
    assert lone.faults == []


def test_there_is_a_bound_on_faults(lone: Cluster):
    for _ in range(FAULTS_MAX):
        lone.hold("Produce", topic="no such topic")
    with pytest.raises(FaultError, match="lift some"):
        lone.hold("Produce")


def test_no_fault_is_left_from_the_test_before(lone: Cluster):
    assert (lone.faults, lone.cuts, lone.running) == ([], [], True)


def test_what_is_no_request_is_for_the_broker_to_refuse(lone: Cluster):
    with connect(lone) as client:
        client.send_raw(b"GET / HTTP/1.1\r\n\r\n")
        assert client.is_disconnected()
    for frame in (b"\0\0", struct.pack(">hhih", 18, 0, 1, 30_000), struct.pack(">hhi", 999, 0, 1)):
        with connect(lone) as client:
            client.send_raw(struct.pack(">i", len(frame)) + frame)
            assert client.is_disconnected()


def test_hostile_requests_meet_faults_without_harm(lone: Cluster):
    """A body that cannot be read cannot be answered: the connection ends."""
    lone.fail_next("Produce", NOT_LEADER)
    with connect(lone) as client:
        head = struct.pack(">hhih", 0, 9, 1, -1) + b"\0"
        client.send_raw(struct.pack(">i", len(head) + 3) + head + b"\xff\xff\xff")
        assert client.is_disconnected()
    with connect(lone) as client:
        topic = make_topic(client)
        assert produce(client, topic, batch(b"a")).error_code == 0


def test_a_long_batch_passes_in_many_pieces(lone: Cluster):
    with connect(lone) as client:
        topic = make_topic(client)
        long = bytes(range(256)) * 3_000
        assert produce(client, topic, batch(long)).error_code == 0
        (part,) = client.ask(fetch_request(topic, 0), 12).responses[0].partitions
        assert values(part) == [long]


def test_a_client_that_sends_on_while_it_is_held_is_not_read_from(lone: Cluster):
    """What waits has a bound, whatever a client sends."""
    with connect(lone) as client, lone.hold("ApiVersions") as hold:
        client.send(ApiVersionsRequest(), 0)
        hold.wait()
        client.sock.settimeout(0.5)
        frame = struct.pack(">ihhih", 1 << 20, 18, 0, 2, -1) + bytes((1 << 20) - 10)
        with pytest.raises(TimeoutError):
            client.send_raw(frame * 64)


def test_a_client_that_leaves_while_it_is_held_costs_nothing(lone: Cluster):
    with lone.hold("ApiVersions") as hold:
        client = connect(lone)
        client.send(ApiVersionsRequest(), 0)
        hold.wait()
        client.close()
    with connect(lone) as client:
        assert client.ask(ApiVersionsRequest(), 0).error_code == 0
