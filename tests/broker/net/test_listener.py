"""The listener against clients of every kind: order, bounds, and bytes that make no sense."""

import logging
import select
import socket
import struct
import threading
import time

import pytest
from msgspec.structs import replace

import fencepost.broker.apis.api_versions  # noqa: F401 registers the handler under test
from fencepost.broker.net import connection as bounds, dispatch, listener, received
from fencepost.wire.api import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    FetchRequest,
    FetchResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    ProduceRequest,
)
from fencepost.wire.api.produce import PartitionProduceData, TopicProduceData
from fencepost.wire.frame import encode_request

from ...waiting import DEADLINE_S, eventually
from ..listener_fixtures import LIMITS, route, serve_listener

ASK = ApiVersionsRequest(client_software_name="test", client_software_version="1")


@pytest.fixture
def served():
    with serve_listener() as opened:
        yield opened


def frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


# -- ApiVersions -----------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(6))
def test_api_versions_lists_itself(served, version):
    with served.connect() as client:
        response = client.ask(ASK, version)
    ranges = {a.api_key: (a.min_version, a.max_version) for a in response.api_keys}
    assert ranges[18] == (0, 5)
    assert response.error_code == 0
    features = {f.name: (f.min_version, f.max_version) for f in response.supported_features}
    if version >= 3:
        assert features["metadata.version"] == (7, 33)
        assert [(f.name, f.max_version_level) for f in response.finalized_features] == [
            ("metadata.version", 30)
        ]
        assert response.finalized_features_epoch == 42
    # A lowest level of 0 is only for v4 and later: older clients refuse it.
    assert all(low > 0 for low, _ in features.values()) or version >= 4


@pytest.mark.parametrize("version", [6, 99, 32767, -1])
def test_api_versions_of_the_future_are_answered_in_v0(served, version):
    with served.connect() as client:
        client.send_raw(frame(struct.pack(">hhih", 18, version, 7, -1) + b"\x00garbage"))
        correlation, response = client.receive(18, 0)
        assert correlation == 7
        assert response.error_code == 35
        assert [(a.api_key, a.min_version, a.max_version) for a in response.api_keys] == [
            (18, 0, 5)
        ]
        assert client.ask(ASK, 4).error_code == 0


def test_a_malformed_client_name_is_refused(served):
    with served.connect() as client:
        bad = ApiVersionsRequest(client_software_name="a b", client_software_version="1")
        assert client.ask(bad, 3).error_code == 42
        assert client.ask(ASK, 3).error_code == 0


@pytest.mark.parametrize(
    ("cluster_id", "node_id", "error"),
    [
        (None, -1, 0),
        ("c", 7, 0),
        ("c", 8, 129),
        ("other", 7, 129),
        ("", 7, 129),
        ("c", -1, 42),
        (None, 7, 42),
    ],
)
def test_a_client_learns_that_it_has_reached_another_node(served, cluster_id, node_id, error):
    """KIP-1242, with the answers of Apache Kafka 4.4.0."""
    asked = ApiVersionsRequest(
        client_software_name="test",
        client_software_version="1",
        cluster_id=cluster_id,
        node_id=node_id,
    )
    with served.connect() as client:
        response = client.ask(asked, 5)
        assert (response.error_code, bool(response.api_keys)) == (error, not error)
        assert client.ask(ASK, 5).error_code == 0


# -- bad clients -----------------------------------------------------------------------------------


TRUNCATED = encode_request(ASK, 3, 1, "test")[4:-3]


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "TLS"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "SSH"),
        (struct.pack(">i", -1), "negative"),
        (struct.pack(">i", -(1 << 31)), "negative"),
        (struct.pack(">i", 0), "too short"),
        (struct.pack(">i", 7) + b"1234567", "too short"),
        (struct.pack(">i", (1 << 31) - 1), "socket.request.max.bytes"),
        (struct.pack(">i", (1 << 20) + 1), "socket.request.max.bytes"),
        (frame(struct.pack(">hhih", 999, 0, 1, -1)), "api key 999"),
        (frame(struct.pack(">hhih", 4, 0, 1, -1)), "api key 4"),
        (frame(struct.pack(">hhih", -1, 0, 1, -1)), "api key -1"),
        (frame(struct.pack(">hhih", 18, 3, 1, 500) + b"abc"), "client_id"),
        (frame(struct.pack(">hhih", 18, 3, 1, -2)), "client_id"),
        (frame(TRUNCATED), "malformed ApiVersions v3"),
        (bytes(range(255, -1, -1)) * 8, "negative"),
    ],
)
def test_garbage_closes_with_one_log_line_and_disturbs_nobody(served, caplog, data, says):
    caplog.set_level(logging.INFO, logger="fencepost")
    with served.connect() as bystander, served.connect() as client:
        assert bystander.ask(ASK, 3).error_code == 0
        client.send_raw(data)
        assert client.is_disconnected()
        assert bystander.ask(ASK, 3).error_code == 0
    lines = [r.getMessage() for r in caplog.records if r.name.startswith("fencepost")]
    assert len(lines) == 1
    assert says in lines[0]
    assert "127.0.0.1:" in lines[0]


@pytest.mark.parametrize("version", [1, 6])
def test_a_version_below_or_above_closes_and_names_the_range(served, caplog, version):
    caplog.set_level(logging.INFO, logger="fencepost")
    with (
        route(HeartbeatRequest, (2, 4), lambda _, __: HeartbeatResponse()),
        served.connect() as client,
    ):
        client.send_raw(frame(struct.pack(">hhih", 12, version, 1, -1)))
        assert client.is_disconnected()
    assert "v2 to v4" in caplog.text


def test_garbage_after_good_requests_loses_no_answer(served):
    with served.connect() as client:
        client.send_raw(encode_request(ASK, 3, 1, None) * 3 + b"\xff" * 64)
        for _ in range(3):
            assert client.receive(18, 3)[1].error_code == 0
        assert client.is_disconnected()


def test_half_a_frame_and_nothing_more_costs_what_was_sent(served):
    with served.connect() as client:
        client.send_raw(struct.pack(">i", 1 << 20) + b"x" * 100)
        eventually(lambda: served.connection_count() == 1)
        (connection,) = served.listener.connections
        eventually(lambda: len(connection._received._tail) == 104)
        assert connection._received._own is None
        client.send_raw(b"x" * 200_000)
        eventually(lambda: connection._received._filled == 200_104)
        assert len(connection._received._own) <= 2 * 200_104 + received.SCRATCH_SIZE_BYTES
    eventually(lambda: served.connection_count() == 0)


def test_starts_of_frames_count_together_however_short(served):
    """64 KiB of each of thousands of connections are as much as a few long frames."""
    budget = served.listener.memory_budget
    bound = budget.incoming_bytes_max
    start = struct.pack(">i", 1 << 20) + b"x" * 60_000
    clients = [served.connect() for _ in range(bound // len(start))]
    for client in clients:
        client.send_raw(start)
    eventually(lambda: budget.incoming_bytes == len(clients) * len(start), "all of it is counted")
    assert served.connection_count() == len(clients)
    clients += [served.connect() for _ in range(5)]
    for client in clients[-5:]:
        client.send_raw(start)
    eventually(lambda: served.connection_count() <= len(clients) - 5 + 1, "the slowest go")
    assert budget.incoming_bytes <= bound
    with served.connect() as bystander:
        assert bystander.ask(ASK, 3).error_code == 0
    for client in clients:
        client.close()
    eventually(lambda: served.connection_count() == 0)
    assert budget.incoming_bytes == 0


def test_every_split_of_the_stream_gives_the_same_requests(served):
    stream = b"".join(encode_request(ASK, 3, number, "c") for number in range(4))
    for step in (1, 2, 3, 5, 7, 31):
        with served.connect() as client:
            client.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for start in range(0, len(stream), step):
                client.send_raw(stream[start : start + step])
            assert [client.receive(18, 3)[0] for _ in range(4)] == [0, 1, 2, 3]


def produce_frame(size: int, correlation: int, fill: int) -> bytes:
    data = PartitionProduceData(index=0, records=bytes([fill]) * size)
    topic = TopicProduceData(name="t", partition_data=[data])
    request = ProduceRequest(acks=1, timeout_ms=1, topic_data=[topic])
    return encode_request(request, 9, correlation, None)


def test_frames_of_all_sizes_arrive_whole():
    limits = replace(LIMITS, max_frame_bytes=8 << 20)
    sizes = [1, 100, 65_000, 70_000, 262_140, 262_144, 300_000, 1 << 20, 3 << 20, 10, 5 << 20, 1]
    seen = []

    def handler(context, request):
        records = request.topic_data[0].partition_data[0].records
        assert records[0] == records[-1]
        assert bytes(records).count(records[0]) == len(records)
        seen.append((context.correlation_id, len(records)))
        context.no_reply()

    with (
        serve_listener(limits) as opened,
        route(ProduceRequest, (3, 13), handler),
        opened.connect() as client,
    ):
        for number, size in enumerate(sizes * 2):
            client.send_raw(produce_frame(size, number, number % 251))
        assert client.ask(ASK, 3).error_code == 0
        (connection,) = opened.listener.connections
        assert (
            connection._received._own is None
            or len(connection._received._own) <= received.RETAINED_BUFFER_BYTES
        )
    assert seen == list(enumerate(sizes * 2))


# -- order and bounds ------------------------------------------------------------------------------


class Parking:
    """A Fetch handler that keeps its contexts until told otherwise."""

    def __init__(self):
        self.contexts = []
        self.abandoned = 0

    def __call__(self, context, request):
        self.contexts.append(context)
        context.on_disconnect(self._gone)

    def _gone(self):
        self.abandoned += 1


def test_answers_leave_in_the_order_of_the_requests(served):
    parking = Parking()
    with route(FetchRequest, (4, 18), parking), served.connect() as client:
        fetch = FetchRequest(max_wait_ms=1, min_bytes=1)
        first, second = client.send(fetch, 12), client.send(fetch, 12)
        third = client.send(ASK, 3)
        fourth = client.send(fetch, 12)
        eventually(lambda: len(parking.contexts) == 3)
        client.sock.settimeout(0.05)
        with pytest.raises(TimeoutError):
            client.sock.recv(1)
        client.sock.settimeout(DEADLINE_S)
        answers = parking.contexts
        served.thread.call(lambda: answers[1].reply(FetchResponse(session_id=2)))
        served.thread.call(lambda: answers[2].reply(FetchResponse(session_id=4)))
        served.thread.call(lambda: answers[0].reply_lazily(lambda: FetchResponse(session_id=1)))
        assert client.receive(1, 12)[0] == first
        correlation, response = client.receive(1, 12)
        assert (correlation, response.session_id) == (second, 2)
        assert client.receive(18, 3)[0] == third
        assert client.receive(1, 12)[0] == fourth


def test_a_client_that_leaves_is_reported_to_those_who_wait(served):
    parking = Parking()
    with route(FetchRequest, (4, 18), parking):
        with served.connect() as client:
            client.send(FetchRequest(max_wait_ms=1, min_bytes=1), 12)
            client.send(FetchRequest(max_wait_ms=1, min_bytes=1), 12)
            eventually(lambda: len(parking.contexts) == 2)
        eventually(lambda: parking.abandoned == 2)
        assert all(context.disconnected for context in parking.contexts)
    assert served.connection_count() == 0


@pytest.mark.skipif(not hasattr(select, "POLLRDHUP"), reason="this system does not tell")
def test_a_client_that_leaves_while_it_is_not_read_from_is_noticed(monkeypatch):
    """Behind more requests than may be in flight nobody reads that it has closed."""
    monkeypatch.setattr(listener, "SWEEP_EVERY_S", 0.02)
    parking = Parking()
    most = dispatch.MAX_REQUESTS_IN_FLIGHT
    with (
        serve_listener() as served,
        route(FetchRequest, (4, 18), parking),
        served.connect() as stays,
        served.connect() as leaves,
    ):
        for client in (stays, leaves):
            for _ in range(most + 10):
                client.send(FetchRequest(max_wait_ms=1, min_bytes=1), 12)
        eventually(lambda: len(parking.contexts) == 2 * most)
        leaves.close()
        eventually(lambda: parking.abandoned == most)
        assert served.connection_count() == 1


def test_a_flood_of_requests_stops_at_the_bounds(served):
    """A client that pipelines without end is not read from while its requests wait."""
    parking = Parking()
    fetch = encode_request(FetchRequest(max_wait_ms=1, min_bytes=1), 12, 1, "c" * 500)
    stop = threading.Event()

    def flood(client):
        client.sock.settimeout(0.2)
        while not stop.is_set():
            try:
                client.send_raw(fetch * 100)
            except (TimeoutError, ConnectionError):
                continue

    with route(FetchRequest, (4, 18), parking), served.connect() as client:
        thread = threading.Thread(target=flood, args=(client,))
        thread.start()
        try:
            eventually(lambda: len(parking.contexts) >= dispatch.MAX_REQUESTS_IN_FLIGHT)
            (connection,) = served.listener.connections
            eventually(lambda: connection._reading_paused)
            time.sleep(0.1)  # not to synchronise: time in which more could wrongly be accepted
            assert len(parking.contexts) == dispatch.MAX_REQUESTS_IN_FLIGHT
            assert len(connection._received._tail) <= received.SCRATCH_SIZE_BYTES
        finally:
            stop.set()
            thread.join(DEADLINE_S)


def test_after_a_flood_everything_is_answered(served):
    """Back-pressure delays, it loses nothing: 500 requests behind one that waits."""
    parking = Parking()
    with route(FetchRequest, (4, 18), parking), served.connect() as client:
        client.send(FetchRequest(max_wait_ms=1, min_bytes=1), 12)
        for _ in range(500):
            client.send(ASK, 3)
        eventually(lambda: len(parking.contexts) == 1)
        served.thread.call(lambda: parking.contexts[0].reply(FetchResponse()))
        assert client.receive(1, 12)[0] == 1
        assert [client.receive(18, 3)[0] for _ in range(500)] == list(range(2, 502))


def test_a_client_that_does_not_read_holds_one_answer_in_memory():
    big = b"r" * (4 << 20)
    made = []

    def handler(context, request):
        def make():
            made.append(context.correlation_id)
            partition = fetch_partition(big)
            return FetchResponse(responses=[partition])

        context.reply_lazily(make)

    with (
        serve_listener() as opened,
        route(FetchRequest, (4, 18), handler),
        opened.connect() as client,
    ):
        client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        for _ in range(40):
            client.send(FetchRequest(max_wait_ms=1, min_bytes=1), 12)
        eventually(lambda: len(made) >= 1)
        (connection,) = opened.listener.connections
        eventually(lambda: connection._reading_paused)
        held = opened.thread.call(lambda: connection._output.size_bytes)
        assert held <= len(big) + bounds.OUTPUT_HIGH_WATER_BYTES + 4096
        assert len(made) < 10
        for number in range(1, 41):
            correlation, response = client.receive(1, 12)
            assert correlation == number
            assert bytes(response.responses[0].partitions[0].records) == big
    assert made == list(range(1, 41))


def fetch_partition(records):
    from fencepost.wire.api.fetch import FetchableTopicResponse, PartitionData

    return FetchableTopicResponse(
        topic="t", partitions=[PartitionData(partition_index=0, high_watermark=1, records=records)]
    )


def test_large_answers_arrive_unchanged(served):
    pieces = [bytes([n % 256]) * (1000 + 37 * n) for n in range(700)]

    def handler(context, request):
        return FetchResponse(responses=[fetch_partition(pieces)])

    with route(FetchRequest, (4, 18), handler), served.connect() as client:
        for _ in range(3):
            response = client.ask(FetchRequest(max_wait_ms=1, min_bytes=1), 12)
            assert bytes(response.responses[0].partitions[0].records) == b"".join(pieces)


# -- failures of ours ------------------------------------------------------------------------------


def test_a_handler_that_fails_is_an_error_in_the_answer_and_a_traceback(served, caplog):
    def handler(context, request):
        raise RuntimeError("a mistake of ours")

    with route(HeartbeatRequest, (0, 4), handler), served.connect() as client:
        assert client.ask(HeartbeatRequest(group_id="g", member_id="m"), 4).error_code == -1
        assert client.ask(ASK, 3).error_code == 0
    assert "a mistake of ours" in caplog.text
    assert "Traceback" in caplog.text


def test_a_handler_that_fails_without_an_error_field_is_disconnected(served, caplog):
    def handler(context, request):
        raise RuntimeError("a mistake of ours")

    with route(ProduceRequest, (3, 13), handler), served.connect() as client:
        client.send_raw(produce_frame(10, 1, 1))
        assert client.is_disconnected()
    assert "Traceback" in caplog.text


def test_an_answer_that_cannot_be_encoded_is_an_error(served):
    def handler(context, request):
        return HeartbeatResponse(throttle_time_ms=1 << 40)

    with route(HeartbeatRequest, (0, 4), handler), served.connect() as client:
        assert client.ask(HeartbeatRequest(group_id="g", member_id="m"), 4).error_code == -1


def test_no_reply_holds_up_nobody(served):
    def handler(context, request):
        context.no_reply()

    with route(ProduceRequest, (3, 13), handler), served.connect() as client:
        client.send_raw(produce_frame(10, 1, 1))
        client.send_raw(produce_frame(10, 2, 1))
        assert isinstance(client.ask(ASK, 3), ApiVersionsResponse)


# -- numbers and idleness --------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["max_connections", "max_connections_per_ip"])
def test_connections_beyond_the_limit_are_refused(key, caplog):
    with serve_listener(replace(LIMITS, **{key: 2})) as opened:
        with opened.connect() as first, opened.connect() as second:
            assert first.ask(ASK, 3).error_code == 0
            assert second.ask(ASK, 3).error_code == 0
            with opened.connect() as third:
                assert third.is_disconnected()
            assert first.ask(ASK, 3).error_code == 0
        eventually(lambda: opened.connection_count() == 0)
        with opened.connect() as again:
            assert again.ask(ASK, 3).error_code == 0
    assert key.replace("_", ".") in caplog.text


def test_connections_beyond_the_nodes_files_are_refused_and_counted_until_they_close(
    served, caplog
):
    caplog.set_level(logging.INFO, logger="fencepost")
    served.listener.count.most = 2
    with served.connect() as first:
        with served.connect() as second:
            assert [one.ask(ASK, 3).error_code for one in (first, second)] == [0, 0]
            with served.connect() as third:
                assert third.is_disconnected()
        eventually(lambda: served.listener.count.open == 1, "the second to be let go of")
        with served.connect() as fourth:
            assert fourth.ask(ASK, 3).error_code == 0
    assert "open files (ulimit -n) allow" in caplog.text
    eventually(lambda: served.listener.count.open == 0, "all to be let go of")


def test_idle_connections_are_closed_and_waiting_ones_are_not(caplog):
    caplog.set_level(logging.INFO, logger="fencepost")
    parking = Parking()
    with (
        serve_listener() as opened,
        route(FetchRequest, (4, 18), parking),
        opened.connect() as idle,
        opened.connect() as waiting,
    ):
        waiting.send(FetchRequest(max_wait_ms=1, min_bytes=1), 12)
        eventually(lambda: parking.contexts and opened.connection_count() == 2)
        # Only now, or who is slow to ask would be idle. The sweep adapts once it has run.
        opened.listener.limits = replace(LIMITS, max_idle_ms=100)
        opened.thread.call(opened.listener._sweep)
        assert idle.is_disconnected()
        assert opened.connection_count() == 1
        opened.thread.call(lambda: parking.contexts[0].reply(FetchResponse()))
        assert waiting.receive(1, 12)[0] == 1
    assert "connections.max.idle.ms" in caplog.text


def test_an_answer_that_comes_too_late_is_in_vain_and_harmless(served, caplog):
    parking = Parking()
    with route(FetchRequest, (4, 18), parking):
        with served.connect() as client:
            client.send(FetchRequest(max_wait_ms=1, min_bytes=1), 12)
            eventually(lambda: len(parking.contexts) == 1)
        eventually(lambda: parking.abandoned == 1)
        served.thread.call(lambda: parking.contexts[0].reply(FetchResponse()))
    assert not caplog.records


def test_a_second_answer_is_a_mistake(served, caplog):
    def handler(context, request):
        context.reply(HeartbeatResponse())
        context.reply(HeartbeatResponse())

    with route(HeartbeatRequest, (0, 4), handler), served.connect() as client:
        assert client.ask(HeartbeatRequest(group_id="g", member_id="m"), 4).error_code == 0
        assert client.ask(ASK, 3).error_code == 0
    assert "answered twice" in caplog.text


def test_a_client_may_call_itself_differently_in_every_request(served):
    seen = []

    def handler(context, request):
        seen.append((context.client_id, request.group_id))
        return HeartbeatResponse()

    names = [None, "a", "a", "", "b" * 10, "b" * 300, "b" * 300, "b" * 9 + "c", None, "é"]
    with route(HeartbeatRequest, (0, 4), handler), served.connect() as client:
        for version in (0, 4, 3):
            for name in names:
                request = HeartbeatRequest(group_id=f"g{version}", member_id="m")
                client.send_raw(encode_request(request, version, 1, name))
                assert client.receive(12, version)[1].error_code == 0
    assert seen == [(name, f"g{version}") for version in (0, 4, 3) for name in names]


def test_bytes_behind_a_request_are_passed_over(served):
    """As Kafka does; librdkafka 2.16 sends three too many with some Metadata requests."""
    with served.connect() as client:
        client.send_raw(frame(encode_request(ASK, 3, 7, "test")[4:] + b"\x01\x00\x00"))
        assert client.receive(18, 3)[0] == 7
        assert client.ask(ASK, 3).error_code == 0
