"""The control port: what it does, and what it refuses."""

from __future__ import annotations

import http.client
import json
import socket
import struct
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from fencepost.testing import Cluster, Proxy
from fencepost.testing.control import BODY_BYTES_MAX, REQUESTS_AT_ONCE_MAX, ControlPort

from ..broker.listener_fixtures import connect
from ..broker.topic_requests import batch, fetch_request, make_topic, produce
from ..waiting import DEADLINE_S, eventually


@pytest.fixture
def control(lone: Cluster) -> Iterator[ControlPort]:
    """The control port of a lone broker."""
    with ControlPort(lone) as port:
        yield port


def ask(control: ControlPort, method: str, path: str, body: Any = None, **headers: str):
    """Status and content of an answer."""
    host, port = control.address.split(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=DEADLINE_S)
    data = body if body is None or isinstance(body, bytes) else json.dumps(body)
    try:
        connection.request(method, path, data, headers)
        answer = connection.getresponse()
        assert answer.getheader("Content-Type") == "application/json"
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def test_it_shows_what_there_is(lone: Cluster, control: ControlPort):
    status, state = ask(control, "GET", "/")
    assert status == 200
    assert state["bootstrap_servers"] == lone.bootstrap_servers
    (node,) = state["nodes"]
    assert (node["id"], node["role"], node["running"], node["paused"]) == (1, "broker", True, False)
    assert (node["pid"], state["faults"], state["cuts"]) == (lone.pid, [], [])


def test_a_fault_is_injected_watched_and_lifted(lone: Cluster, control: ControlPort):
    wanted = {"api": "Produce", "error": "NOT_LEADER_OR_FOLLOWER", "count": 1, "topic": "of-faults"}
    status, fault = ask(control, "POST", "/faults", wanted)
    assert (status, fault["remaining"], fault["hits"]) == (201, 1, 0)
    assert ask(control, "GET", "/faults") == (200, [fault])
    with connect(lone) as client:
        topic = make_topic(client, name="of-faults")
        codes = [produce(client, topic, batch(b"a")).error_code for _ in range(2)]
        assert codes == [6, 0]
        assert ask(control, "GET", f"/faults/{fault['id']}")[1]["hits"] == 1
        status, held = ask(control, "POST", "/faults", {"kind": "hold", "api": "Fetch"})
        assert (status, held["remaining"]) == (201, None)
        sent = client.send(fetch_request(topic, 0), 12)
        eventually(lambda: ask(control, "GET", f"/faults/{held['id']}")[1]["hits"])
        assert ask(control, "DELETE", f"/faults/{held['id']}")[0] == 200
        assert client.receive(1, 12)[0] == sent
    ask(control, "POST", "/faults", {"kind": "delay", "delay_ms": 5})
    assert len(lone.faults) == 1
    assert ask(control, "DELETE", "/faults") == (200, [])
    assert lone.faults == []


def test_links_are_cut_and_healed(lone: Cluster, control: ControlPort):
    assert ask(control, "POST", "/cuts", {"from": "app", "to": 1, "one_way": True}) == (
        201,
        [{"from": "app", "to": 1}],
    )
    assert ask(control, "POST", "/cuts", {"from": 1})[0] == 201
    assert set(lone.cuts) == {("app", 1), (1, None), (None, 1)}
    assert ask(control, "DELETE", "/cuts") == (200, [])
    assert lone.cuts == []


def test_links_are_slowed_down_and_healed(lone: Cluster, control: ControlPort):
    pace = {"delay_ms": 5, "bytes_per_s": 1_000_000}
    slow = {"from": "app", "to": 1, **pace}
    assert ask(control, "POST", "/slow", slow | {"one_way": True}) == (201, [slow])
    assert ask(control, "GET", "/")[1]["slow"] == [slow]
    assert ask(control, "POST", "/slow", {"from": 1, "delay_ms": 7})[0] == 201
    assert set(lone.slow_links) == {("app", 1), (1, None), (None, 1)}
    assert ask(control, "DELETE", "/slow")[0] == 200
    assert lone.slow_links == {}


def test_nodes_and_logs(lone: Cluster, control: ControlPort):
    with connect(lone) as client:
        topic = make_topic(client, name="short")
        for value in (b"a", b"b"):
            produce(client, topic, batch(value))
    status, done = ask(control, "POST", "/truncate", {"topic": "short", "partition": 0, "to": 1})
    assert (status, done["offset"], done["leader"]) == (200, 1, 1)
    assert done["leader_epoch"] > done["previous_leader_epoch"]
    assert ask(control, "POST", "/nodes/1/kill") == (200, {"id": 1, "running": False})
    assert ask(control, "GET", "/")[1]["nodes"][0]["pid"] is None
    assert ask(control, "POST", "/nodes/1/pause")[0] == 409
    assert ask(control, "POST", "/nodes/1/start") == (200, {"id": 1, "running": True})
    assert ask(control, "POST", "/nodes/1/pause")[0] == 200
    assert ask(control, "GET", "/")[1]["nodes"][0]["paused"]
    assert ask(control, "POST", "/nodes/1/resume")[0] == 200


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "word"),
    [
        ("GET", "/nothing", None, 404, "/nothing"),
        ("GET", "/../etc/passwd", None, 404, "etc"),
        ("GET", "/" + "x" * 3_000, None, 404, "xxx"),
        ("PUT", "/", None, 405, "GET"),
        ("GET", "/nodes/1/kill", None, 405, "POST"),
        ("POST", "/nodes/9/kill", None, 404, "no node 9"),
        ("POST", "/nodes/1/explode", None, 404, "kill"),
        ("POST", "/nodes/1/kill", {"really": True}, 400, "really"),
        ("GET", "/faults/7777", None, 404, "no fault"),
        ("DELETE", "/faults/7777", None, 404, "no fault"),
        ("POST", "/faults", b"{", 400, "JSON"),
        ("POST", "/faults", b"[" * 20_000, 400, "JSON"),
        ("POST", "/faults", b"[]", 400, "object"),
        ("POST", "/faults", {"api": "Produce"}, 400, "error"),
        ("POST", "/faults", {"api": "Nothing", "error": "NOT_LEADER_OR_FOLLOWER"}, 400, "Nothing"),
        ("POST", "/faults", {"api": 10**400, "error": 6}, 400, "api"),
        ("POST", "/faults", {"api": "Produce", "error": "OOPS"}, 400, "OOPS"),
        ("POST", "/faults", {"api": "Produce", "error": 6, "count": "3"}, 400, "count"),
        ("POST", "/faults", {"api": "Produce", "error": 6, "count": True}, 400, "count"),
        ("POST", "/faults", {"api": "Produce", "error": 6, "count": -1}, 400, "count"),
        ("POST", "/faults", {"api": "Produce", "error": 6, "after": 1}, 400, "after"),
        ("POST", "/faults", {"kind": "explode"}, 400, "hold"),
        ("POST", "/faults", {"kind": "delay", "delay_ms": 10**12}, 400, "delay_ms"),
        ("POST", "/faults", {"api": "Fetch", "error": 6, "topic": "x" * 2_000}, 400, "topic"),
        ("POST", "/cuts", {}, 400, "from"),
        ("POST", "/cuts", {"from": [1]}, 400, "from"),
        ("POST", "/slow", {"delay_ms": 1}, 400, "from"),
        ("POST", "/slow", {"from": 1}, 400, "bytes_per_s"),
        ("POST", "/slow", {"from": 1, "bytes_per_s": "1"}, 400, "bytes_per_s"),
        ("POST", "/truncate", {"topic": "a"}, 400, "partition"),
        ("POST", "/truncate", {"topic": "nowhere", "partition": 0, "to": 0}, 409, "nowhere"),
        ("POST", "/truncate", {"topic": "a", "partition": 0, "to": -1}, 400, "offset"),
    ],
)
def test_what_makes_no_sense_is_refused(
    lone: Cluster, control: ControlPort, method, path, body, status, word
):
    found, answer = ask(control, method, path, body)
    assert found == status
    assert word in answer["error"]
    assert (lone.faults, lone.cuts, lone.running) == ([], [], True)


def test_what_is_too_long_is_refused_before_it_is_read(control: ControlPort):
    status, answer = ask(control, "POST", "/faults", b"{}", **{"Content-Length": "100000000"})
    assert (status, "bytes" in answer["error"]) == (413, True)
    status, _ = ask(control, "POST", "/faults", b" " * (BODY_BYTES_MAX + 1))
    assert status == 413
    assert ask(control, "POST", "/faults", b"", **{"Content-Length": "-1"})[0] == 400
    assert ask(control, "POST", "/faults", b"", **{"Transfer-Encoding": "chunked"})[0] == 411


def test_browsers_are_refused(control: ControlPort):
    assert ask(control, "GET", "/", Origin="http://example.org")[0] == 403
    assert ask(control, "GET", "/", Host="example.org:80")[0] == 403
    assert ask(control, "GET", "/", Host="localhost")[0] == 200


def test_bytes_that_are_no_request_do_no_harm(control: ControlPort):
    host, port = control.address.split(":")
    for data in (b"\0" * 100, b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"x" * 70_000):
        with socket.create_connection((host, int(port)), timeout=DEADLINE_S) as client:
            client.sendall(data)
            client.shutdown(socket.SHUT_WR)
            while client.recv(65_536):
                pass
    assert ask(control, "GET", "/")[0] == 200


def test_so_many_requests_at_once_and_no_more(control: ControlPort):
    host, port = control.address.split(":")
    waiting = [socket.create_connection((host, int(port))) for _ in range(REQUESTS_AT_ONCE_MAX)]
    try:
        for one in waiting:
            one.sendall(b"POST /faults HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n{")
        eventually(lambda: ask(control, "GET", "/")[0] == 503)
    finally:
        for one in waiting:
            one.close()
    eventually(lambda: ask(control, "GET", "/")[0] == 200)


def test_a_proxy_has_faults_and_no_nodes(lone: Cluster):
    with Proxy(lone.bootstrap_servers) as proxy, ControlPort(proxy) as control:
        state = ask(control, "GET", "/")[1]
        assert state["bootstrap_servers"] == proxy.bootstrap_servers
        (target,) = state["targets"].values()
        assert target == {"node": None, "address": lone.bootstrap_servers}
        assert ask(control, "POST", "/nodes/1/kill")[0] == 404
        assert ask(control, "POST", "/truncate", {"topic": "a", "partition": 0, "to": 0})[0] == 404
        assert ask(control, "POST", "/faults", {"api": "Produce", "error": 6})[0] == 201


def test_who_goes_before_the_answer_is_no_error(
    control: ControlPort, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    ended = threading.Event()
    shut_down = control._server.shutdown_request

    def note(request: socket.socket) -> None:
        shut_down(request)
        ended.set()

    monkeypatch.setattr(control._server, "shutdown_request", note)
    host, port = control.address.split(":")
    with socket.create_connection((host, int(port)), timeout=DEADLINE_S) as sock:
        sock.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\n\r\n{")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    assert ended.wait(DEADLINE_S)
    assert capfd.readouterr().err == ""
