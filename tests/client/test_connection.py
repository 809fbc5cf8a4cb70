"""One connection against brokers of every kind: old, strange, slow, broken."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import random
import socket
import struct
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from fencepost.client.aio.connection import AsyncConnection
from fencepost.client.config import ClientConfig
from fencepost.client.connection import Connection, wait_readable
from fencepost.client.errors import (
    BrokerError,
    ConnectionFailed,
    ProtocolError,
    RequestTimedOut,
    UnsupportedApi,
)
from fencepost.client.protocol.framing import ReceiveBuffer
from fencepost.client.protocol.in_flight import FIRST_CORRELATION_ID
from fencepost.wire.api import (
    FetchRequest,
    FetchResponse,
    MetadataRequest,
    MetadataResponse,
    ProduceRequest,
)
from fencepost.wire.api.api_versions import ApiVersionsRequest
from fencepost.wire.api.metadata import MetadataRequestTopic
from fencepost.wire.errors import ErrorCode
from fencepost.wire.frame import encode_response_parts

from ..ports import address_of, refusing_port
from ..waiting import DEADLINE_S
from .fake_broker import FakeBroker, framed

METADATA = 3


HOST = "127.0.0.1"


class _Silent(BaseHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


def named(name: str) -> MetadataRequest:
    return MetadataRequest(topics=[MetadataRequestTopic(name=name)])


def answer_with_cluster_id(request: Any, version: int, correlation_id: int) -> Any:
    """Metadata answers name the topic asked for as the cluster's id, so that tests can tell them
    apart."""
    if isinstance(request, ApiVersionsRequest):
        return NotImplemented
    return MetadataResponse(cluster_id=request.topics[0].name)


def connect(broker: FakeBroker, **settings: Any) -> Connection:
    return Connection(
        "127.0.0.1", broker.port, timeout_ms=settings.pop("timeout_ms", 60_000), **settings
    )


def test_speaks_the_highest_version_both_know():
    with FakeBroker(answer_with_cluster_id, {METADATA: (1, 9)}) as broker:
        with connect(broker) as connection:
            assert connection.request(named("a")).cluster_id == "a"
            assert connection.version_for(MetadataRequest, highest=7) == 7
        assert [version for _, version in broker.requests] == [4, 9]


def test_names_both_ranges_when_there_is_no_common_version():
    with FakeBroker(answer_with_cluster_id, {METADATA: (0, 3)}) as broker, connect(broker) as it:
        with pytest.raises(UnsupportedApi, match=r"Metadata: .* 0 to 3, .* 9 to 13"):
            it.version_for(MetadataRequest, lowest=9)
        with pytest.raises(UnsupportedApi, match="no Fetch API"):
            it.send(FetchRequest())
        assert it.is_open  # nothing was sent, so nothing is lost
        assert it.request(named("still works")).cluster_id == "still works"


def test_a_broker_that_refuses_the_version_is_asked_again_with_the_one_it_names():
    def answer(request: Any, version: int, correlation_id: int) -> Any:
        if version > 2:
            refusal = broker.api_versions(ErrorCode.UNSUPPORTED_VERSION)
            return b"".join(encode_response_parts(refusal, 0, correlation_id))
        return NotImplemented

    with FakeBroker(answer, {18: (0, 2), METADATA: (0, 5)}) as broker, connect(broker) as it:
        assert it.api_versions[METADATA] == (0, 5)
        assert [version for _, version in broker.requests] == [4, 2]
        assert broker.connections == 1


def test_a_refusal_without_a_list_means_version_zero():
    def answer(request: Any, version: int, correlation_id: int) -> Any:
        if version == 0:
            return NotImplemented
        return framed(struct.pack(">ihi", correlation_id, ErrorCode.UNSUPPORTED_VERSION, 0))

    with FakeBroker(answer, {METADATA: (0, 5)}) as broker, connect(broker) as it:
        assert it.api_versions[METADATA] == (0, 5)
        assert [version for _, version in broker.requests] == [4, 0]


def test_a_broker_that_closes_on_unknown_versions_is_asked_again_in_version_zero():
    def answer(request: Any, version: int, correlation_id: int) -> Any:
        return NotImplemented if version == 0 else None

    with FakeBroker(answer, {METADATA: (0, 5)}) as broker, connect(broker) as it:
        assert it.api_versions[METADATA] == (0, 5)
        assert broker.connections == 2


def test_a_broker_that_answers_garbage_to_unknown_versions_is_asked_again_in_version_zero():
    def answer(request: Any, version: int, correlation_id: int) -> Any:
        return NotImplemented if version == 0 else struct.pack(">i", -1)

    with FakeBroker(answer, {METADATA: (0, 5)}) as broker, connect(broker) as it:
        assert it.api_versions[METADATA] == (0, 5)
        assert broker.connections == 2


def test_any_other_error_of_the_negotiation_is_told():
    def answer(request: Any, version: int, correlation_id: int) -> Any:
        return broker.api_versions(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)

    with FakeBroker(answer) as broker, pytest.raises(BrokerError, match="CLUSTER_AUTHORIZATION"):
        connect(broker)


def test_pipelined_answers_may_be_taken_in_any_order():
    with FakeBroker(answer_with_cluster_id, {METADATA: (0, 9)}) as broker, connect(broker) as it:
        tokens = [it.send(named(name)) for name in "abcd"]
        assert it.in_flight == 4
        order = [2, 0, 3, 1]
        assert [it.receive(tokens[i]).cluster_id for i in order] == ["c", "a", "d", "b"]
        assert it.in_flight == 0


def test_abandoned_answers_are_dropped_wherever_they_are():
    with FakeBroker(answer_with_cluster_id, {METADATA: (0, 9)}) as broker, connect(broker) as it:
        first, second, third, fourth = (it.send(named(name)) for name in "abcd")
        it.abandon(first)  # not read yet
        assert it.receive(third).cluster_id == "c"
        it.abandon(second)  # read already, while waiting for the third
        assert it.receive(fourth).cluster_id == "d"
        with pytest.raises(ConnectionFailed):
            it.receive(second)


def test_a_wrong_correlation_id_ends_the_connection():
    def answer(request: Any, version: int, correlation_id: int) -> Any:
        if isinstance(request, ApiVersionsRequest):
            return NotImplemented
        reply = MetadataResponse(cluster_id="x")
        return b"".join(encode_response_parts(reply, version, correlation_id + 1))

    with FakeBroker(answer, {METADATA: (0, 9)}) as broker, connect(broker) as it:
        with pytest.raises(ProtocolError, match="correlation id 12 where 11 was due"):
            it.request(named("a"))
        assert not it.is_open


@pytest.mark.parametrize("length", [-1, 0, 3, 2**31 - 1, 1_000_001])
def test_a_length_out_of_bounds_is_refused_before_anything_is_allocated(length: int):
    def answer(request: Any, version: int, correlation_id: int) -> Any:
        if isinstance(request, ApiVersionsRequest):
            return NotImplemented
        return struct.pack(">i", length) + b"rest"

    with FakeBroker(answer, {METADATA: (0, 9)}) as broker:
        it = connect(broker, max_response_bytes=1_000_000)
        with pytest.raises(ProtocolError, match=f"announced a frame of {length} bytes"):
            it.request(named("a"))
        assert not it.is_open


def test_an_http_server_is_told_from_a_broker():
    def answer(request: Any, version: int, correlation_id: int) -> Any:
        return b"HTTP/1.0 400 Bad request syntax\r\n\r\n"

    with (
        FakeBroker(answer, {METADATA: (0, 9)}) as broker,
        pytest.raises(ProtocolError, match="the answer is HTTP, not Kafka's protocol"),
    ):
        connect(broker).request(named("a"))


def test_python_s_http_server_is_told_from_a_broker():
    """It answers a whole line only, and to one that it cannot read with a document alone."""
    timeout_ms = int(DEADLINE_S * 1000)
    server = HTTPServer((HOST, 0), _Silent)
    serving = threading.Thread(target=server.serve_forever, daemon=True)
    serving.start()
    try:
        config = ClientConfig(connect_timeout_ms=timeout_ms)
        with pytest.raises(ProtocolError, match="the answer is HTTP, not Kafka's protocol"):
            Connection(HOST, server.server_port, timeout_ms=timeout_ms)
        with pytest.raises(ProtocolError, match="the answer is HTTP, not Kafka's protocol"):
            asyncio.run(AsyncConnection.open(config, HOST, server.server_port))
    finally:
        server.shutdown()
        server.server_close()
        serving.join(DEADLINE_S)


def test_garbage_leads_to_typed_errors_only():
    seed = 20260731
    rng = random.Random(seed)
    payload = b""

    def answer(request: Any, version: int, correlation_id: int) -> Any:
        if isinstance(request, ApiVersionsRequest):
            return NotImplemented
        return framed(struct.pack(">i", correlation_id) + payload)

    good = b"".join(MetadataResponse(cluster_id="abc").encode_parts(9))
    with FakeBroker(answer, {METADATA: (0, 9)}) as broker:
        for _ in range(60):
            mangled = bytearray(b"\0" + good)
            for _ in range(rng.randrange(1, 4)):
                mangled[rng.randrange(len(mangled))] = rng.randrange(256)
            payload = bytes(mangled[: rng.randrange(len(mangled) + 1)])
            with connect(broker) as it:
                # Mangled bytes may still be a message; otherwise there is one kind of error.
                with contextlib.suppress(ProtocolError):
                    it.request(named("a"))
                    continue
                assert not it.is_open, (seed, payload)


def test_bytes_after_the_last_field_are_ignored_as_kafkas_own_clients_do():
    def answer(request: Any, version: int, correlation_id: int) -> Any:
        if isinstance(request, ApiVersionsRequest):
            return NotImplemented
        parts = encode_response_parts(MetadataResponse(cluster_id="x"), version, correlation_id)
        return framed(b"".join(parts)[4:] + b"\0")

    with FakeBroker(answer, {METADATA: (0, 9)}) as broker, connect(broker) as it:
        assert it.request(named("a")).cluster_id == "x"


def test_a_cut_answer_is_a_lost_connection():
    def answer(request: Any, version: int, correlation_id: int) -> Any:
        if isinstance(request, ApiVersionsRequest):
            return NotImplemented
        threading.Timer(0.05, broker.cut_connections).start()
        return struct.pack(">ii", 100, correlation_id)

    with FakeBroker(answer, {METADATA: (0, 9)}) as broker, connect(broker) as it:
        with pytest.raises(ConnectionFailed, match=broker.address):
            it.request(named("a"))
        with pytest.raises(ConnectionFailed, match="closed"):
            it.send(named("b"))


def test_silence_is_a_timeout_that_names_what_was_awaited():
    def answer(request: Any, version: int, correlation_id: int) -> Any:
        return NotImplemented if isinstance(request, ApiVersionsRequest) else b""

    with FakeBroker(answer, {METADATA: (0, 9)}) as broker, connect(broker) as it:
        with pytest.raises(RequestTimedOut, match="no MetadataResponse within 100 ms"):
            it.request(named("a"), timeout_ms=100)
        assert not it.is_open


def test_an_answer_that_comes_byte_by_byte_is_put_together():
    listener = socket.create_server(("127.0.0.1", 0))

    def drip() -> None:
        peer, _ = listener.accept()
        with peer:
            peer.recv(4096)
            versions = FakeBroker.api_versions(_Offer({METADATA: (0, 9)}))
            for byte in b"".join(encode_response_parts(versions, 4, FIRST_CORRELATION_ID)):
                peer.sendall(bytes([byte]))

    thread = threading.Thread(target=drip)
    thread.start()
    with listener, Connection("127.0.0.1", listener.getsockname()[1], timeout_ms=60_000) as it:
        assert it.api_versions == {METADATA: (0, 9)}
    thread.join(DEADLINE_S)


class _Offer:
    def __init__(self, versions: dict[int, tuple[int, int]]) -> None:
        self.versions = versions


def test_nobody_listening_is_told_with_the_address():
    with (
        refusing_port() as held,
        pytest.raises(ConnectionFailed, match=f"{address_of(held)}: cannot connect") as caught,
    ):
        Connection(*held.getsockname(), timeout_ms=60_000)
    assert caught.value.retriable


def test_a_large_request_gets_through_to_a_slow_reader():
    received = []

    def answer(request: Any, version: int, correlation_id: int) -> Any:
        if isinstance(request, ApiVersionsRequest):
            return NotImplemented
        received.append(len(request.topics))
        return MetadataResponse(cluster_id="x")

    with FakeBroker(answer, {METADATA: (0, 9)}) as broker, connect(broker) as it:
        many = [MetadataRequestTopic(name="t" * 249) for _ in range(20_000)]
        assert it.request(MetadataRequest(topics=many)).cluster_id == "x"
    assert received == [20_000]


def test_a_receive_buffer_is_used_again():
    def answer(request: Any, version: int, correlation_id: int) -> Any:
        if isinstance(request, ApiVersionsRequest):
            return NotImplemented
        return FetchResponse(session_id=request.max_wait_ms)

    with FakeBroker(answer, {1: (4, 11)}) as broker, connect(broker) as it:
        buffer = ReceiveBuffer()
        memory = set()
        for number in range(3):
            token = it.send(FetchRequest(max_wait_ms=number))
            assert it.receive(token, buffer=buffer).session_id == number
            memory.add(id(buffer.view(10).obj))
        assert len(memory) == 1


def test_a_receive_buffer_takes_no_response_but_the_one_asked_for():
    with FakeBroker(answer_with_cluster_id, {METADATA: (0, 9)}) as broker, connect(broker) as it:
        first, second = (it.send(named(name)) for name in "ab")
        buffer = ReceiveBuffer()
        assert it.receive(second, buffer=buffer).cluster_id == "b"
        assert it.receive(first).cluster_id == "a"


def test_a_version_the_broker_does_not_have_is_refused_before_it_is_sent():
    with FakeBroker(answer_with_cluster_id, {METADATA: (1, 9)}) as broker, connect(broker) as it:
        for version in (0, 10, 13, 99):
            with pytest.raises(UnsupportedApi, match=f"Metadata: .* 1 to 9, not {version}"):
                it.request(named("a"), version)
        with pytest.raises(UnsupportedApi, match="no Fetch API"):
            it.request(FetchRequest(), 12)
        assert [version for _, version in broker.requests] == [4]
        assert it.request(named("still works"), 1).cluster_id is None  # v1 has no such field
        assert it.request(named("still works"), 9).cluster_id == "still works"


def test_api_versions_may_be_asked_at_any_version():
    def answer(request: Any, version: int, correlation_id: int) -> Any:
        if version > 4:
            refusal = broker.api_versions(ErrorCode.UNSUPPORTED_VERSION)
            return b"".join(encode_response_parts(refusal, 0, correlation_id))
        return NotImplemented

    with FakeBroker(answer, {METADATA: (0, 5)}) as broker, connect(broker) as it:
        refused = it.request(ApiVersionsRequest(), 5)
        assert refused.error_code == ErrorCode.UNSUPPORTED_VERSION
        assert [entry.max_version for entry in refused.api_keys] == [4, 5]
        assert it.request(ApiVersionsRequest(), 4).error_code == ErrorCode.NONE


def test_produce_without_acks_is_not_waited_for():
    def answer(request: Any, version: int, correlation_id: int) -> Any:
        return b"" if isinstance(request, ProduceRequest) else NotImplemented

    with FakeBroker(answer, {0: (3, 11)}) as broker, connect(broker) as it:
        unanswered, answered = ProduceRequest(acks=0), ProduceRequest(acks=-1)
        with pytest.raises(ValueError, match="acks=0 has no response"):
            it.request(unanswered)
        with pytest.raises(ValueError, match="everything else has one"):
            it.send(answered, expect_response=False)
        assert len(broker.requests) == 1
        it.send(unanswered, expect_response=False)
        assert it.in_flight == 0
        assert it.request(ApiVersionsRequest()).error_code == ErrorCode.NONE
        assert [type(request) for request, _ in broker.requests[1:]] == [
            ProduceRequest,
            ApiVersionsRequest,
        ]


def test_descriptors_beyond_what_select_can_name_are_waited_for() -> None:
    here, there = socket.socketpair()
    with here, there:
        try:
            high = socket.socket(fileno=fcntl.fcntl(here.fileno(), fcntl.F_DUPFD, 1024))
        except OSError:
            pytest.skip("this process may not have so many files open")
        with high:
            assert not wait_readable([high], 0)
            there.send(b"x")
            assert wait_readable([high], 1000)
            assert high.recv(1) == b"x"
            there.close()
            assert wait_readable([high], 1000), "an end is to be read"
