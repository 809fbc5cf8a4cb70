"""A throttled client reads for how long in its response, however that is made, and then waits.

One node serves here; what asks for a throttle time is a table by API key, in place of quotas.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import pytest

from fencepost.batch import backend
from fencepost.broker import apis
from fencepost.broker.apis.produce_in_blocks import ProduceInBlocks
from fencepost.broker.net import listener as listeners
from fencepost.broker.net.connection import Connection
from fencepost.broker.net.pending_request import PendingRequest
from fencepost.broker.net.registry import ROUTES
from fencepost.broker.net.throttle_time import with_throttle_time
from fencepost.wire.api import ApiVersionsRequest, MetadataRequest, response_class
from fencepost.wire.api.heartbeat import HeartbeatRequest
from fencepost.wire.api.offset_delete import OffsetDeleteResponse
from fencepost.wire.api.produce import NodeEndpoint, ProduceResponse
from fencepost.wire.errors import ErrorCode
from fencepost.wire.frame import decode_response, encode_request, encode_response_parts

from ...waiting import eventually
from ..conftest import RunningNode
from ..topic_requests import FOR_DAYS_MS, batch, fetch_request, make_topic, produce, produce_request

apis.load_all()

PRODUCE, FETCH, METADATA, HEARTBEAT = 0, 1, 3, 12
MS = 3_600_000
"""Longer than any test waits: it ends by hand."""
ASK = ApiVersionsRequest(client_software_name="t", client_software_version="1")
needs_kernel = pytest.mark.skipif(backend.produce_kernel is None, reason="is not built")


class Throttled:
    """A node that throttles the APIs in `times_ms`; `ways` has those of answers made as bytes."""

    def __init__(self, running: RunningNode) -> None:
        self.running = running
        self.times_ms: dict[int, int] = {}
        self.ways: list[int] = []
        self.runs: list[int] = []
        assert running.node.broker is not None
        self.listener = running.node.broker.listener
        self._new_context = self.listener.new_context

    def new_context(self, connection: Any, route: Any, *given: Any) -> PendingRequest:
        context = self._new_context(connection, route, *given)
        if route.api_key in self.times_ms:
            context.throttle(self.times_ms[route.api_key])
        return context

    def connection(self) -> Connection:
        """The one that is open."""
        eventually(lambda: len(self.listener.connections) == 1, "only one is open")
        return next(iter(self.listener.connections))

    def go_on(self, connection: Connection) -> None:
        """The throttle time of a connection is over."""

        def end() -> None:
            assert connection._wait is not None, "it is muted"
            connection._wait.cancel()
            connection._end_wait()

        self.running.call(end)


@pytest.fixture
def throttled(node: RunningNode, monkeypatch: pytest.MonkeyPatch) -> Throttled:
    made = Throttled(node)
    monkeypatch.setattr(made.listener, "new_context", made.new_context)
    fill_in, take = PendingRequest.with_throttle_time, ProduceInBlocks.take

    def filling_in(context: PendingRequest, parts: Any) -> Any:
        made.ways.append(context.route.api_key)
        return fill_in(context, parts)

    def taking(taker: ProduceInBlocks, connection: Any, *given: Any) -> int:
        before = len(connection.waiting)
        start = take(taker, connection, *given)
        for slot in list(connection.waiting)[before:]:
            made.runs.append(slot.version)
            slot.throttle(5)
            slot.throttle(made.times_ms.get(PRODUCE, 0))
            slot.throttle(3)
        return start

    monkeypatch.setattr(PendingRequest, "with_throttle_time", filling_in)
    monkeypatch.setattr(ProduceInBlocks, "take", taking)
    return made


def check_muted(throttled: Throttled, client: Any) -> None:
    """What the client asks next is answered when its time is over, and not before."""
    connection = throttled.connection()
    client.send(ASK, 3)
    eventually(lambda: connection._reading_paused, "nothing more is read")
    assert not throttled.running.call(lambda: connection._answers.waiting), "it is not handled"
    throttled.go_on(connection)
    assert client.receive(18, 3)[1].error_code == 0


def ask_throttled(throttled: Throttled, key: int, ask: Callable[[Any], Any]) -> None:
    with throttled.running.connect() as client:
        throttled.times_ms[key] = MS
        assert ask(client).throttle_time_ms == MS
        check_muted(throttled, client)


# -- answers of each way ---------------------------------------------------------------------------


def test_a_message(throttled: Throttled) -> None:
    request = HeartbeatRequest(group_id="g", member_id="m", generation_id=1)
    ask_throttled(throttled, HEARTBEAT, lambda client: client.ask(request, 4))
    assert throttled.ways == []


@pytest.mark.parametrize("version", [9, 12])
def test_an_encoded_body(throttled: Throttled, version: int) -> None:
    with throttled.running.connect() as client:
        make_topic(client)
    ask_throttled(throttled, METADATA, lambda client: client.ask(MetadataRequest(), version))
    assert throttled.ways == [METADATA]


@pytest.mark.parametrize("version", [12, 17])
@pytest.mark.parametrize("size", [1, 200_000], ids=["in one part", "in parts"])
def test_fetch_from_bytes(throttled: Throttled, version: int, size: int) -> None:
    with throttled.running.connect() as client:
        topic = make_topic(client)
        assert produce(client, topic, batch(b"x" * size)).error_code == 0
    request = fetch_request(topic, 0, version=version)
    ask_throttled(throttled, FETCH, lambda client: client.ask(request, version))
    assert throttled.ways == [FETCH]


def test_fetch_from_bytes_that_has_waited(throttled: Throttled) -> None:
    with throttled.running.connect() as client, throttled.running.connect() as writer:
        topic = make_topic(writer)
        throttled.times_ms[FETCH] = MS
        client.send(fetch_request(topic, 0, max_wait_ms=FOR_DAYS_MS), 12)
        eventually(
            lambda: any(one._answers.waiting for one in list(throttled.listener.connections)),
            "it waits",
        )
        assert produce(writer, topic, batch(b"x")).error_code == 0
        answer = client.receive(FETCH, 12)[1]
        assert answer.throttle_time_ms == MS
        assert len(answer.responses[0].partitions[0].records) > 0
    assert throttled.ways == [FETCH]


def test_fetch_that_is_decoded_and_made_in_pieces(throttled: Throttled) -> None:
    with throttled.running.connect() as client:
        topic = make_topic(client)
    request = fetch_request(topic, 0, version=11)
    ask_throttled(throttled, FETCH, lambda client: client.ask(request, 11))
    assert throttled.ways == []


@needs_kernel
@pytest.mark.parametrize("version", [3, 9, 13])
def test_produce_from_bytes(throttled: Throttled, version: int) -> None:
    """The first request of a connection is not of a run."""
    with throttled.running.connect() as client:
        topic = make_topic(client)
    request = produce_request(topic, batch(b"x"), version)
    ask_throttled(throttled, PRODUCE, lambda client: client.ask(request, version))
    assert throttled.ways == [PRODUCE] and throttled.runs == []


@needs_kernel
@pytest.mark.parametrize("version", [3, 9, 13])
def test_produce_in_blocks(throttled: Throttled, version: int) -> None:
    with throttled.running.connect() as client:
        topic = make_topic(client)
        assert produce(client, topic, batch(b"first"), version).error_code == 0
        throttled.times_ms[PRODUCE] = MS
        for number in range(3):
            client.send(produce_request(topic, batch(b"%d" % number), version), version)
            answer = client.receive(PRODUCE, version)[1]
            assert answer.throttle_time_ms == MS
            assert answer.responses[0].partition_responses[0].base_offset == number + 1
            throttled.go_on(throttled.connection())
        client.send(produce_request(topic, batch(b"last"), version), version)
        client.receive(PRODUCE, version)
        check_muted(throttled, client)
    assert throttled.runs == [version] * 4 and throttled.ways == []


@needs_kernel
def test_requests_of_a_run_that_came_together(throttled: Throttled) -> None:
    """All of a run are taken before the connection is muted; each says how long."""
    with throttled.running.connect() as client:
        topic = make_topic(client)
        assert produce(client, topic, batch(b"first")).error_code == 0
        throttled.times_ms[PRODUCE] = MS
        request = encode_request(produce_request(topic, batch(b"x")), 9, 1, None)
        client.send_raw(request * 5)
        for _ in range(5):
            assert client.receive(PRODUCE, 9)[1].throttle_time_ms == MS
        check_muted(throttled, client)


@needs_kernel
def test_produce_that_is_refused_in_a_run(throttled: Throttled) -> None:
    """It is answered by a message, with the time that the request's slot had."""
    with throttled.running.connect() as client:
        topic = make_topic(client)
        fenced = batch(b"x", producer_id=7, producer_epoch=1, base_sequence=0)
        assert produce(client, topic, fenced).error_code == 0
        throttled.times_ms[PRODUCE] = MS
        older = batch(b"x", producer_id=7, producer_epoch=0, base_sequence=0)
        client.send(produce_request(topic, older), 9)
        answer = client.receive(PRODUCE, 9)[1]
        assert answer.responses[0].partition_responses[0].error_code != ErrorCode.NONE
        assert answer.throttle_time_ms == MS
        check_muted(throttled, client)


@pytest.mark.parametrize("times", [1, 2], ids=["alone", "in a run"])
def test_without_a_response_the_client_waits_all_the_same(throttled: Throttled, times: int) -> None:
    with throttled.running.connect() as client:
        topic = make_topic(client)
        request = produce_request(topic, batch(b"x"), acks=0)
        for _ in range(times - 1):
            client.send(request, 9)
            assert client.ask(ASK, 3).error_code == 0
        throttled.times_ms[PRODUCE] = MS
        client.send(request, 9)
        connection = throttled.connection()
        eventually(lambda: connection._wait is not None, "it is muted")
        check_muted(throttled, client)


# -- being muted -----------------------------------------------------------------------------------


def test_a_muted_client_that_leaves_is_noticed(
    throttled: Throttled, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listeners, "SWEEP_EVERY_S", 0.05)
    throttled.running.call(throttled.listener._sweeper.cancel)
    throttled.running.call(throttled.listener._sweep)
    with throttled.running.connect() as client:
        throttled.times_ms[METADATA] = MS
        client.ask(MetadataRequest(), 12)
        connection = throttled.connection()
        timer = connection._wait
        assert timer is not None
    eventually(lambda: connection.closed, "it is closed")
    eventually(timer.cancelled, "and waits for nothing")


def test_of_several_times_the_longest_counts(throttled: Throttled) -> None:
    with throttled.running.connect() as client:
        throttled.times_ms[METADATA] = MS
        client.ask(MetadataRequest(), 12)
        connection = throttled.connection()
        until = connection._waits_until
        throttled.running.call(connection.mute, 10)
        assert connection._waits_until == until
        throttled.running.call(connection.mute, 2 * MS)
        assert connection._waits_until > until
        check_muted(throttled, client)


def test_a_client_that_is_not_throttled_is_not_muted(throttled: Throttled) -> None:
    with throttled.running.connect() as client:
        for _ in range(3):
            assert client.ask(MetadataRequest(), 12).throttle_time_ms == 0
        assert throttled.connection()._wait is None


# -- where the field is ----------------------------------------------------------------------------


@pytest.mark.parametrize("key", [PRODUCE, FETCH, METADATA])
def test_every_version_of_what_is_answered_with_bytes(key: int) -> None:
    kind, route = response_class(key), ROUTES[key]
    for version in range(route.min_version, route.max_version + 1):
        parts = encode_response_parts(kind(), version, 7)
        whole = b"".join(parts)
        for cut in {1, 4, 9, len(whole)}:
            split: list[Any] = [part for part in (whole[:cut], whole[cut:]) if part]
            found = b"".join(with_throttle_time(kind, version, split, MS))
            assert len(found) == len(whole)
            assert struct.unpack(">i", found[:4]) == (len(found) - 4,)
            header, message = decode_response(kind, version, found[4:])
            assert header.correlation_id == 7
            wanted: Any = kind()
            if any(f.name == "throttle_time_ms" and f.versions.holds(version) for f in kind.fields):
                wanted.throttle_time_ms = MS
            assert message == wanted


def test_tagged_fields_behind_it_are_left_as_they_are() -> None:
    elsewhere = [NodeEndpoint(node_id=1, host="host", port=9092)]
    parts = encode_response_parts(ProduceResponse(node_endpoints=elsewhere), 10, 7)
    found = b"".join(with_throttle_time(ProduceResponse, 10, parts, MS))
    _, response = decode_response(ProduceResponse, 10, found[4:])
    assert response == ProduceResponse(node_endpoints=elsewhere, throttle_time_ms=MS)


def test_a_field_in_between_is_a_mistake() -> None:
    parts = encode_response_parts(OffsetDeleteResponse(), 0, 7)
    with pytest.raises(ValueError, match="in between"):
        with_throttle_time(OffsetDeleteResponse, 0, parts, MS)
