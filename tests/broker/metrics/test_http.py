"""The HTTP server: what it answers, and what strangers cannot make it do."""

import re
import socket
from http import HTTPStatus
from types import SimpleNamespace

import pytest

from fencepost.broker.config.endpoints import BindError, Endpoint
from fencepost.broker.metrics import http
from fencepost.broker.metrics.http import (
    CONNECTIONS_MAX,
    REQUEST_BYTES_MAX,
    WRITTEN_PER_TURN_BYTES,
    Answer,
    HttpServer,
    _Connection,
)

from ...waiting import DEADLINE_S, eventually
from ..listener_fixtures import LoopThread
from .scraping import Response, get, receive, send

LARGE = [bytes([number]) * 100_000 for number in range(200)]
GET = b"GET /fast HTTP/1.1\r\nHost: localhost\r\n\r\n"


class Served:
    """A server with a fast path, one that fails, and one that waits for `respond_all`."""

    def __init__(self):
        self.thread = LoopThread()
        self.waiting = []
        self.server = HttpServer(
            self.thread.loop,
            {
                "/fast": lambda respond: respond(Answer(HTTPStatus.OK, (b"he", b"re\n"))),
                "/slow": self.waiting.append,
                "/broken": lambda respond: 1 / 0,
                "/large": lambda respond: respond(Answer(HTTPStatus.OK, LARGE)),
            },
        )
        endpoint = Endpoint("METRICS", "127.0.0.1", 0)
        self.port = self.thread.call(self.server.start, endpoint).port

    def respond_all(self, answer):
        waiting, self.waiting[:] = list(self.waiting), []
        for respond in waiting:
            self.thread.call(respond, answer)

    def open(self):
        """How many connections it has."""
        return self.thread.call(len, self.server)

    def close(self):
        self.thread.call(self.server.close)
        eventually(lambda: not self.open())
        self.thread.close()


@pytest.fixture
def served():
    one = Served()
    yield one
    one.close()


def test_a_path_is_answered_and_the_connection_ends(served):
    response = get(served.port, "/fast?what=ever")
    assert (response.status, response.text) == (200, "here\n")
    assert response.headers["Connection"] == "close"
    assert response.headers["Content-Length"] == "5"
    eventually(lambda: not served.open())


def test_head_has_the_headers_alone(served):
    response = get(served.port, "/fast", "HEAD")
    assert (response.status, response.body) == (200, b"")
    assert response.headers["Content-Length"] == "5"


def test_a_long_answer_is_whole(served):
    assert get(served.port, "/large").body == b"".join(LARGE)
    eventually(lambda: not served.open())


class Taker:
    """A transport whose client takes everything at once."""

    def __init__(self):
        self.written = bytearray()
        self.is_closed = False

    def write(self, data):
        self.written += data

    def pause_reading(self):
        pass

    def is_closing(self):
        return self.is_closed

    def close(self):
        self.is_closed = True


def test_a_long_answer_leaves_the_loop_its_turns():
    """However fast the client takes it: what the loop has to do besides comes in between."""
    turns = []
    loop = SimpleNamespace(
        call_soon=turns.append, call_later=lambda *_: SimpleNamespace(cancel=lambda: None)
    )
    server = HttpServer(loop, {"/large": lambda respond: respond(Answer(HTTPStatus.OK, LARGE))})
    transport = Taker()
    connection = _Connection(server)
    connection.connection_made(transport)
    connection.data_received(b"GET /large HTTP/1.1\r\n\r\n")
    largest_bytes = before_bytes = len(transport.written)
    while turns:
        turns.pop(0)()
        largest_bytes = max(largest_bytes, len(transport.written) - before_bytes)
        before_bytes = len(transport.written)
    assert transport.is_closed and transport.written.endswith(b"".join(LARGE))
    assert largest_bytes < WRITTEN_PER_TURN_BYTES + 2 * len(LARGE[0])


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GET /nowhere HTTP/1.1\r\n\r\n", 404),
        (b"POST /fast HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", 405),
        (b"GET /fast\r\n\r\n", 400),
        (b"GET /fast HTTP/2.0\r\n\r\n", 400),
        (b"GET  /fast HTTP/1.1\r\n\r\n", 400),
        (b"\r\n\r\n", 400),
        (b"\x00\xff\xfe\r\n\r\n", 400),
        (b"GET /broken HTTP/1.1\r\n\r\n", 500),
        (b"GET /fast HTTP/1.0\n\n", 200),
        (GET + GET, 200),
    ],
)
def test_what_is_not_well_formed_or_not_there(served, request_bytes, status):
    with send(served.port, request_bytes) as sock:
        received = receive(sock)
    assert Response(received).status == status
    assert received.count(b"HTTP/1.1 ") == 1


def asked(*hosts):
    lines = [b"GET /fast HTTP/1.1", *(b"Host: " + host for host in hosts)]
    return b"\r\n".join([*lines, b"Accept: */*", b"", b""])


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (asked(b"localhost"), 200),
        (asked(b"LocalHost.:9404"), 200),
        (asked(b"127.0.0.1:9404"), 200),
        (asked(b"10.1.2.3"), 200),
        (asked(b"[::1]:9404"), 200),
        (asked(b"[fe80::1%eth0]"), 200),
        (asked(b"Broker-1.example:9404"), 200),
        (asked(b"broker-1.example."), 200),
        (asked(), 200),
        (asked(b"evil.example"), 421),
        (asked(b"evil.example:9404"), 421),
        (asked(b"localhost.evil.example"), 421),
        (asked(b"127.0.0.1.evil.example"), 421),
        (asked(b"127.0.0.1@evil.example"), 421),
        (asked(b"evil.example#localhost"), 421),
        (asked(b"[localhost]"), 421),
        (asked(b"[127.0.0.1]"), 421),
        (asked(b"[::1"), 421),
        (asked(b"[::1]evil.example"), 421),
        (asked(b"::1"), 421),
        (asked(b"localhost:port"), 421),
        (asked("localhost:\u0663".encode()), 421),
        (asked(b""), 421),
        (asked(b"\xff\x00"), 421),
        (asked(b"x" * 4000), 421),
        (asked(b"localhost", b"evil.example"), 400),
        (asked(b"evil.example", b"localhost"), 400),
        (b"GET /fast HTTP/1.1\nhOST :evil.example\n\n", 421),
        (b"GET /fast HTTP/1.1\r\n\tHost: evil.example\r\n\r\n", 421),
        (b"GET /nowhere HTTP/1.1\r\nHost: evil.example\r\n\r\n", 421),
        (b"GET http://localhost/fast HTTP/1.1\r\nHost: localhost\r\n\r\n", 404),
        (b"GET /fast HTTP/1.1\r\nX: Host: evil.example\r\n\r\nHost: evil.example\r\n\r\n", 200),
    ],
)
def test_only_who_knows_the_node_by_a_name_of_its_own_is_answered(served, request_bytes, status):
    """A page whose name resolves to this machine (DNS rebinding) has another name."""
    served.server.names = frozenset({"broker-1.example"})
    with send(served.port, request_bytes) as sock:
        received = receive(sock)
    assert Response(received).status == status
    assert received.count(b"HTTP/1.1 ") == 1


def test_a_request_may_come_a_byte_at_a_time(served):
    with send(served.port, b"") as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in GET:
            sock.sendall(bytes([byte]))
        assert Response(receive(sock)).text == "here\n"


def test_a_client_that_sends_no_more_still_gets_its_answer(served):
    with send(served.port, GET) as sock:
        sock.shutdown(socket.SHUT_WR)
        assert Response(receive(sock)).status == 200


def test_headers_without_end_are_refused(served):
    with send(served.port, b"GET /fast HTTP/1.1\r\n") as sock:
        lines = b"X: " + b"y" * 1000 + b"\r\n"
        with pytest.raises(ConnectionError):  # it was answered, and closed
            sock.sendall(10_000 * lines)
    eventually(lambda: not served.open())


def test_large_headers_within_the_limit_are_taken(served):
    padding = b"X: " + b"y" * (REQUEST_BYTES_MAX - len(GET) - 100) + b"\r\n"
    with send(served.port, GET[:-2] + padding + b"\r\n") as sock:
        assert Response(receive(sock)).status == 200


def test_one_that_is_slow_has_to_go_for_one_that_is_not(served):
    slow = [send(served.port, b"GET /fast HT") for _ in range(CONNECTIONS_MAX)]
    eventually(lambda: served.open() == CONNECTIONS_MAX)
    for _ in range(3):
        assert get(served.port, "/fast").status == 200
    assert receive_or_reset(slow[0]) == b""
    slow[-1].sendall(GET[12:])  # the latest have kept their places
    assert Response(receive(slow[-1])).status == 200
    for sock in slow:
        sock.close()


def test_those_that_wait_for_answers_keep_their_places(served):
    waiting = [send(served.port, b"GET /slow HTTP/1.1\r\n\r\n") for _ in range(CONNECTIONS_MAX)]
    eventually(lambda: len(served.waiting) == CONNECTIONS_MAX)
    with send(served.port, b"") as refused:
        assert receive_or_reset(refused) == b""
    served.respond_all(Answer(HTTPStatus.OK, (b"at last\n",)))
    for sock in waiting:
        assert Response(receive(sock)).text == "at last\n"
        sock.close()
    assert get(served.port, "/fast").status == 200


def test_an_answer_for_a_client_that_has_left_goes_nowhere(served):
    send(served.port, b"GET /slow HTTP/1.1\r\n\r\n").close()
    eventually(lambda: served.waiting)
    served.respond_all(Answer(HTTPStatus.OK, LARGE))
    eventually(lambda: not served.open())


@pytest.mark.parametrize(
    ("request_bytes", "limit"),
    [(b"GET /fast", "REQUEST_TIMEOUT_S"), (b"GET /slow HTTP/1.1\r\n\r\n", "ANSWER_TIMEOUT_S")],
)
def test_time_is_limited(served, monkeypatch, request_bytes, limit):
    monkeypatch.setattr(http, limit, 0.05)
    with send(served.port, request_bytes) as sock:
        assert receive_or_reset(sock) == b""
    eventually(lambda: not served.open())


def test_an_answer_that_is_not_taken_is_dropped(served, monkeypatch):
    monkeypatch.setattr(http, "ANSWER_TIMEOUT_S", 0.05)
    with send(served.port, b"GET /large HTTP/1.1\r\n\r\n") as sock:
        eventually(lambda: served.open() == 1)
        eventually(lambda: not served.open())
        assert len(receive_or_reset(sock)) < sum(map(len, LARGE))


def test_a_port_that_is_taken_is_named(served):
    with pytest.raises(BindError, match=re.escape(f"127.0.0.1:{served.port}")):
        served.thread.call(served.server.start, Endpoint("METRICS", "127.0.0.1", served.port))


def receive_or_reset(sock):
    """What comes until the other end closes or resets the connection."""
    sock.settimeout(DEADLINE_S)
    received = bytearray()
    try:
        while data := sock.recv(1 << 20):
            received += data
    except ConnectionError:
        pass
    return bytes(received)
