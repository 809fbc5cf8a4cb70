"""Faults of a test cluster, by its control port: shown, switched on, lifted."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

pytest.importorskip("htpy")

from fencepost.cli.main import main
from fencepost.console.control_port import BadControlUrl, address_of_control
from fencepost.testing import Cluster, Proxy
from fencepost.testing.control import ControlPort
from tests.console.forms import change
from tests.console.serving import serving
from tests.ports import address_of, refusing_port

NOWHERE = "127.0.0.1:1"


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    with Proxy(NOWHERE) as found:
        yield found


@pytest.fixture
def control(proxy: Proxy) -> Iterator[str]:
    with ControlPort(proxy) as port:
        yield port.address


def sections(console: Any) -> dict[str, Any]:
    found = console.get("/api/faults").json()["sections"]
    return {one["heading"]: one for one in found}


def words(console: Any) -> str:
    return " ".join(one["text"] for one in sections(console)[""]["sentences"])


def test_faults_that_are_in_force_are_shown(browse, proxy: Proxy, control: str):
    console = browse(NOWHERE, faults=control)
    assert "No fault is in force" in words(console)
    proxy.fail_next("Produce", "NOT_LEADER_OR_FOLLOWER", 3, topic="<b>")
    proxy.delay(None, 100, client_id="app", node=2, after=True)
    proxy.cut(1, "app")
    proxy.slow("app", delay_ms=5, bytes_per_s=1000, one_way=True)
    found = sections(console)
    assert "In force: 2 faults, 2 cut links, 1 slow link" in words(console)
    assert [(one["what"], one["requests"], one["left"]) for one in found["Faults"]["document"]] == [
        ("fail with NOT_LEADER_OR_FOLLOWER", "Produce about <b>", 3),
        ("delay by 100 ms, only the answer", "any request of app to node 2", "any number"),
    ]
    links = {(one["source"], one["target"], one["state"]) for one in found["Links"]["document"]}
    assert ("client app", "any", "5 ms later, 1000 bytes/s") in links
    assert ("node 1", "client app", "cut") in links
    assert "Nodes" not in found
    text = console.get("/faults").text
    assert "<b>&" not in text and "/writes/" not in text, "changes are offered only where allowed"
    assert console.get("/writes/fault").status_code == 404


def test_a_fault_is_switched_on_and_lifted(browse, proxy: Proxy, control: str, capsys):
    console = browse(NOWHERE, faults=control, allow_writes=True)
    status, text = change(console, "fault", kind="delay", api="produce", delay_ms=70, count=2)
    assert (status, "The fault is in force" in text) == (200, True)
    (fault,) = proxy.faults
    assert (fault.kind, fault.delay_ms, fault.remaining) == ("delay", 70, 2)
    assert '"path": "/faults"' in capsys.readouterr().err
    assert "/writes/lift-fault?fault=1" in console.get("/faults").text
    assert change(console, "lift-fault", "no", fault=1)[0] == 409
    assert proxy.faults == [fault]
    assert change(console, "lift-fault", fault=1)[0] == 200
    assert proxy.faults == []
    assert change(console, "lift-fault", fault=1)[0] == 409
    proxy.hold("Fetch")
    proxy.hold("Produce")
    assert change(console, "lift-fault", fault="all")[0] == 200
    assert proxy.faults == []


def test_links_are_cut_slowed_and_healed(browse, proxy: Proxy, control: str):
    console = browse(NOWHERE, faults=control, allow_writes=True)
    assert change(console, "link", action="cut", end="app", to="2")[0] == 200
    assert sorted(proxy.cuts, key=str) == [("app", 2), (2, "app")]
    slow = change(console, "link", action="slow", end="app", delay_ms=9, one_way="yes")
    assert slow[0] == 200
    assert proxy.slow_links["app", None].delay_ms == 9
    assert change(console, "link", action="heal")[0] == 200
    assert (proxy.cuts, proxy.slow_links) == ([], {})
    status, text = change(console, "link", action="slow", end="app")
    assert (status, "delay_ms, bytes_per_s or both" in text) == (400, True)


@pytest.mark.parametrize(
    ("name", "values", "status"),
    [
        ("fault", {"kind": "explode"}, 400),
        ("fault", {"kind": "fail", "error": "NO_SUCH"}, 400),
        ("fault", {"kind": "fail", "error": "NONE"}, 400),
        ("fault", {"kind": "hold", "api": "Nope"}, 400),
        ("fault", {"kind": "delay", "delay_ms": "-1"}, 400),
        ("fault", {"kind": "hold", "count": "x"}, 400),
        ("fault", {"kind": "hold", "node": "9999999999"}, 400),
        ("lift-fault", {"fault": "x"}, 400),
        ("lift-fault", {"fault": "77"}, 409),
        ("lift-fault", {"fault": "all"}, 409),
        ("node", {"node": "1", "action": "kill"}, 409),
        ("node", {"node": "1", "action": "burn"}, 400),
    ],
)
def test_faults_that_cannot_be_are_refused(
    browse, control: str, name: str, values: dict[str, str], status: int
):
    console = browse(NOWHERE, faults=control, allow_writes=True)
    assert change(console, name, **values)[0] == status


@pytest.mark.slow
def test_a_node_is_killed_and_started(browse):
    with Cluster(1) as cluster, ControlPort(cluster) as port:
        console = browse(cluster.bootstrap_servers, faults=port.address, allow_writes=True)
        (row,) = sections(console)["Nodes"]["document"]
        number = row["node"]
        assert (row["state"], row["change"]) == ("running", f"kill node {number}")
        kill = f'<a href="/writes/node?node={number}&amp;action=kill">kill node {number}</a>'
        assert kill in console.get("/faults").text
        assert change(console, "node", node=number, action="kill")[0] == 200
        (row,) = sections(console)["Nodes"]["document"]
        assert (row["state"], row["change"]) == ("stopped", f"start node {number}")
        assert "1 node that does not run" in words(console)
        for action in ("kill", "stop", "restart", "pause", "resume"):
            status, text = change(console, "node", node=number, action=action)
            assert (status, f"node {number} is stopped" in text) == (409, True)
        assert change(console, "node", node=number, action="start")[0] == 200
        assert "No fault is in force" in words(console)
        assert change(console, "node", node=number, action="start")[0] == 409
        assert change(console, "node", node=77, action="start")[0] == 409


def test_a_control_port_that_is_away_is_told_of(browse):
    with refusing_port() as held:
        console = browse(NOWHERE, faults=address_of(held), allow_writes=True)
        assert "does not answer" in words(console)
        status, text = change(console, "fault", kind="hold")
        assert (status, "does not answer" in text) == (409, True)
    assert "name its control port with --faults" in words(browse(NOWHERE))


@pytest.mark.parametrize(
    "answer", [b"", b"[]", b"{}", b"\xff", b"[" * 100_000, b'{"faults": 1}', b" " * (5 << 20)]
)
def test_what_is_no_control_port_is_told_of(browse, answer: bytes):
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            console = browse(NOWHERE, faults=f"127.0.0.1:{server.server_address[1]}")
            (sentence,) = sections(console)[""]["sentences"]
        finally:
            server.shutdown()
            thread.join()
    assert sentence["level"] == "bad"


@pytest.mark.parametrize(
    "url",
    [
        "",
        "127.0.0.1:8090",
        "https://127.0.0.1:8090",
        "http://127.0.0.1",
        "http://127.0.0.1:0",
        "http://127.0.0.1:99999",
        "http://10.0.0.1:8090/",
        "http://example.org:8090/",
        "http://a@127.0.0.1:8090/",
        "http://127.0.0.1:8090/x",
        "http://[",
    ],
)
def test_only_a_control_port_on_loopback_is_taken(url: str, capsys):
    with pytest.raises(BadControlUrl, match=re.escape("http://127.0.0.1:PORT")):
        address_of_control(url)
    assert main(["console", "-b", NOWHERE, "--faults", url, "--once", "faults"]) == 2
    assert "--faults" in capsys.readouterr().err
    assert address_of_control("http://localhost:8090/") == "127.0.0.1:8090"


@pytest.mark.slow
def test_what_does_not_answer_as_a_control_port_is_told_of_at_the_start():
    with refusing_port() as held:
        with serving(NOWHERE, "--faults", f"http://{address_of(held)}") as console:
            pass
        told = f"fencepost console: --faults: the control port {address_of(held)} does not answer"
        assert any(line.startswith(told) for line in console.stderr)


def test_another_server_is_no_control_port(browse):
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_error(404)

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        address = f"127.0.0.1:{server.server_address[1]}"
        try:
            assert f"{address} is no control port: it answers with 404" in words(
                browse(NOWHERE, faults=address)
            )
        finally:
            server.shutdown()
            thread.join()
