"""What a console that is served refuses: over its own sockets, since clients that are well made
send nothing of this. Its cluster is one that refuses connections."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
from collections.abc import Iterator

import pytest

from tests.console.serving import ServedConsole, serving
from tests.ports import address_of, refusing_port
from tests.waiting import DEADLINE_S, eventually

pytest.importorskip("starlette")

from fencepost.console.web.access import Access, Door
from fencepost.console.web.hosts import Address, BadAddress, Hosts, address_of as listen


@pytest.fixture(scope="module")
def served() -> Iterator[ServedConsole]:
    with refusing_port() as held, serving(address_of(held)) as console:
        yield console


@pytest.fixture(scope="module")
def asking_token() -> Iterator[ServedConsole]:
    with refusing_port() as held, serving(address_of(held), "--token") as console:
        yield console


def port_of(console: ServedConsole) -> int:
    return int(console.origin.rpartition(":")[2])


def answer_to(console: ServedConsole, request: bytes) -> tuple[int, str]:
    """The status and the rest of what the console answers to these bytes."""
    with socket.create_connection(("127.0.0.1", port_of(console)), timeout=DEADLINE_S) as client:
        client.sendall(request)
        found = b""
        with contextlib.suppress(ConnectionResetError):
            while chunk := client.recv(65536):
                found += chunk
    text = found.decode("latin-1")
    return int(text.split(" ", 2)[1]) if text else 0, text


def get(console: ServedConsole, target: str, *headers: str, method: str = "GET") -> tuple[int, str]:
    lines = [f"{method} {target} HTTP/1.1", f"Host: 127.0.0.1:{port_of(console)}", *headers]
    return answer_to(console, "\r\n".join([*lines, "Connection: close", "", ""]).encode())


@pytest.mark.parametrize(
    "target",
    [
        "/static/../server.py",
        "/static/..%2fserver.py",
        "/static/%2e%2e/%2e%2e/session.py",
        "/static//etc/passwd",
        "/static/..%5cserver.py",
        "/static/console.css%00",
    ],
)
def test_static_files_are_those_of_one_directory(served, target):
    status, text = get(served, target)
    assert status in (400, 404)
    assert "import" not in text
    assert "root:" not in text


@pytest.mark.parametrize(
    ("target", "status"),
    [
        ("/nowhere", 404),
        ("/topics/", 404),
        ("/api/nowhere", 404),
        ("/%ff%fe", 404),
        ("/%zz", 404),
        ("/topics?filter=%ff%zz%00", 502),
        ("/topics?" + "a=1&" * 2000, 400),
        ("/topics?rows=99999999999999999999", 502),
        ("//evil.example/", 404),
        ("http://evil.example/", 400),
        ("*", 400),
        ("/" + "x" * 9_000, 414),
        ("/api", 502),
        ("/api/", 502),
    ],
)
def test_every_target_has_an_answer(served, target, status):
    assert get(served, target)[0] == status


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PROPFIND"])
def test_pages_are_only_read(served, method):
    status, text = get(served, "/topics", method=method)
    assert status == 405
    assert f"{method} is not allowed for" in text


def test_head_has_what_get_has_but_its_body(served):
    status, text = get(served, "/nowhere", method="HEAD")
    assert (status, text.partition("\r\n\r\n")[2]) == (404, "")


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GET / HTTP/1.0\r\n\r\n", 421),
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: HERE\r\nHost: HERE\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n", 421),
        (b"GET / HTTP/1.1\r\nHost : HERE\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: HERE\r\nContent-Length: 5\r\n\r\nhello", 400),
        (
            b"POST / HTTP/1.1\r\nHost: HERE\r\nContent-Length: 4\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            400,
        ),
        (b"POST / HTTP/1.1\r\nHost: HERE\r\nTransfer-Encoding: xchunked\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: HERE\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 411),
        (b"POST / HTTP/1.1\r\nHost: HERE\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: HERE\r\nContent-Length: 99999999\r\n\r\n", 413),
        (b"GET / HTTP/1.1\r\nHost: HERE\r\n" + b"A: b\r\n" * 101 + b"\r\n", 431),
        (b"GET / HTTP/1.1\r\nHost: HERE\r\nA: " + b"b" * 17_000 + b"\r\n\r\n", 431),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(40), 400),
        (b"CONNECT evil.example:443 HTTP/1.1\r\nHost: HERE\r\n\r\n", 400),
    ],
)
def test_hostile_requests_are_refused(served, request_bytes, status):
    here = f"127.0.0.1:{port_of(served)}".encode()
    closing = request_bytes.replace(b"HERE", here).replace(
        b"\r\nHost", b"\r\nConnection: close\r\nHost", 1
    )
    assert answer_to(served, closing)[0] == status


@pytest.mark.parametrize(
    ("headers", "method", "status"),
    [
        (["Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors"], "GET", 403),
        (["Sec-Fetch-Site: same-site", "Sec-Fetch-Mode: cors"], "GET", 403),
        (["Sec-Fetch-Site: cross-site", "Sec-Fetch-Dest: iframe"], "GET", 403),
        (["Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate"], "GET", 404),
        (["Sec-Fetch-Site: cross-site"], "POST", 403),
        (["Sec-Fetch-Site: none"], "POST", 403),
        (["Origin: http://evil.example"], "POST", 403),
        (["Origin: null"], "POST", 403),
        (["Origin: http://127.0.0.1:1"], "POST", 403),
    ],
)
def test_other_sites_may_link_here_and_nothing_else(served, headers, method, status):
    assert get(served, "/nowhere", *headers, method=method)[0] == status


@pytest.mark.long
def test_a_slow_request_is_ended(served):
    with socket.create_connection(("127.0.0.1", port_of(served)), timeout=DEADLINE_S) as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost:")
        with contextlib.suppress(ConnectionResetError):
            assert client.recv(1) == b""


def test_an_unreachable_cluster_is_a_page_that_says_since_when(served):
    status, text = get(served, "/topics")
    assert status == 502
    assert "The cluster does not answer" in text
    eventually(lambda: "has not answered since" in get(served, "/topics")[1], "the standing")

    def document() -> dict:
        return json.loads(get(served, "/api/topics")[1].partition("\r\n\r\n")[2])

    first = document()
    assert "no broker of" in first["error"]
    failing = first["console"]["failing_since_ms"]
    later = eventually(
        lambda: (found := document())["console"]["failures"] > 2 and found, "looks are repeated"
    )
    assert later["console"]["failing_since_ms"] == failing


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_while_its_cluster_is_away(number):
    with refusing_port() as held, serving(address_of(held)) as console:
        port = port_of(console)
        client = socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S)
        with contextlib.closing(client):
            client.sendall(b"GET /topics HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n" % port)
            console.process.send_signal(number)
            assert console.process.wait(timeout=DEADLINE_S) == 0
    assert console.stderr == []


def test_a_token_is_asked_for_and_leaves_the_address(asking_token):
    path = asking_token.url.removeprefix(asking_token.origin)
    token = path.partition("token=")[2]
    assert len(token) > 40
    status, text = get(asking_token, "/topics")
    assert (status, "asks for its token" in text) == (401, True)
    assert get(asking_token, "/api/topics")[0] == 401
    assert get(asking_token, "/?token=" + "x" * len(token))[0] == 401
    assert get(asking_token, f"/?token={token}&token={token}")[0] == 401
    status, text = get(asking_token, f"/topics?rows=5&token={token}")
    assert (status, "location: /topics?rows=5\r\n" in text.lower()) == (303, True)
    cookie = next(line for line in text.splitlines() if line.lower().startswith("set-cookie"))
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert token not in cookie
    value = cookie.partition(": ")[2].partition(";")[0]
    assert get(asking_token, "/topics", f"Cookie: {value}")[0] == 502
    assert get(asking_token, "/topics", f"Cookie: {value}x")[0] == 401
    assert get(asking_token, "/topics", f"Authorization: Bearer {token}")[0] == 502
    assert get(asking_token, "/topics", "Authorization: Bearer ")[0] == 401
    status, text = get(asking_token, f"//evil.example/?token={token}")
    assert "location: /evil.example/\r\n" in text.lower(), "no redirect to another host"
    assert not any(token in line for line in asking_token.stderr)


def test_a_proxy_names_users():
    with refusing_port() as held:
        options = ("--listen", "127.0.0.1:0", "--proxy-auth-header", "X-User")
        with serving(address_of(held), *options) as console:
            assert get(console, "/topics")[0] == 401
            assert get(console, "/topics", "X-User: ")[0] == 401
            assert get(console, "/topics", "X-User: a", "X-User: b")[0] == 401
            assert get(console, "/topics", "X-User: alice")[0] == 502


@pytest.mark.parametrize(
    "text", ["", "8093", ":8093", "a:", "a:70000", "a:-1", "::1:8093", "[::1]", "[x]:1", "a:1.5"]
)
def test_an_address_that_is_none_is_refused(text):
    with pytest.raises(BadAddress, match=r"is allowed"):
        listen(text)


def test_addresses_say_what_they_are():
    assert listen("[::1]:8093") == Address("::1", 8093)
    assert listen("127.0.0.2:1").is_loopback
    assert listen("localhost:1").is_loopback
    assert not listen("example.org:1").is_loopback
    assert listen("0.0.0.0:1").is_wildcard
    assert not listen("[::]:1").is_loopback


def test_hosts_are_names_with_the_port():
    hosts = Hosts(listen("127.0.0.1:8093"), ["console.example", "other.example:443"])
    for host in ("127.0.0.1:8093", "LOCALHOST:8093", "console.example", "console.example:1"):
        assert host in hosts
    for host in ("", "127.0.0.1", "10.0.0.1:8093", "other.example", "other.example:8093", None):
        assert host not in hosts
    everywhere = Hosts(listen("0.0.0.0:8093"))
    assert "10.0.0.1:8093" in everywhere
    assert "[fe80::1]:8093" in everywhere
    assert "evil.example:8093" not in everywhere
    assert "10.0.0.1:80" not in everywhere
    for bad in ("a b", "a/b", "", "é", "a:b:c"):
        with pytest.raises(BadAddress):
            Hosts(listen("127.0.0.1:1"), [bad])


def test_cookies_are_compared_with_a_secret_of_the_process():
    one, other = (Door(None, Access("t"), "c") for _ in range(2))
    assert one._secret != other._secret


def test_forms_of_the_console_itself_come_with_its_origin(served):
    """A page that forbids referrers altogether has browsers send its forms with `Origin: null`,
    as those of a page that hides where it is from: these are refused."""
    _, answer = get(served, "/nowhere")
    assert "referrer-policy: same-origin" in answer.lower()
    assert get(served, "/nowhere", "Origin: null", "Content-Length: 0", method="POST")[0] == 403
