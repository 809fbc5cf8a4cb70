"""Access tokens from a served endpoint, from a file, and on their way to a broker."""

from __future__ import annotations

import base64
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from fencepost.client.config import ClientConfig
from fencepost.client.connection import Connection
from fencepost.client.errors import AuthenticationFailed, ConfigError, ConnectionFailed
from fencepost.client.security import Security
from fencepost.client.tokens import access_token
from fencepost.wire.api.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from fencepost.wire.api.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

from ..waiting import DEADLINE_S
from .fake_broker import FakeBroker

SASL_VERSIONS = {17: (0, 1), 36: (0, 2)}


def test_clients_without_tokens_load_neither_http_nor_machines_of_groups():
    """A process of Spark's imports the client for every query that it serves first."""
    code = (
        "import sys; import fencepost.client.admin, fencepost.client.batch_producer, "
        "fencepost.client.fetcher, fencepost.client.open_transactions; "
        "print({'http.client', 'email', 'fencepost.machines.group'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True
    )
    assert done.stdout.strip() == "set()"


class Endpoint:
    """A token endpoint with the answers it is told, the last one for ever."""

    def __init__(self, *answers: tuple[int, bytes]) -> None:
        self.answers = list(answers)
        self.requests: list[tuple[str, bytes]] = []
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                length = int(self.headers["Content-Length"])
                endpoint.requests.append((self.headers["Authorization"], self.rfile.read(length)))
                more = len(endpoint.answers) > 1
                status, body = endpoint.answers.pop(0) if more else endpoint.answers[0]
                self.send_response(status)
                if status == 307:
                    self.send_header("Location", body.decode())
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *arguments: Any) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/token"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))

    def __enter__(self) -> Endpoint:
        self.thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.server.shutdown()
        self.thread.join(DEADLINE_S)
        self.server.server_close()


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")


def security(url: str, **more: str) -> Security:
    """For a client that nobody else has, since tokens are kept."""
    props = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": url,
        "sasl.oauthbearer.client.credentials.client.id": uuid.uuid4().hex,
        "sasl.oauthbearer.client.credentials.client.secret": "hush",
        "sasl.login.retry.backoff.ms": "1",
        "sasl.login.retry.backoff.max.ms": "60000",
        **more,
    }
    return ClientConfig.from_props(props).security


def test_a_token_is_asked_for_once_while_it_lives():
    with Endpoint((200, b'{"access_token": "abc", "expires_in": 3600}')) as endpoint:
        chosen = security(endpoint.url)
        assert [access_token(chosen) for _ in range(3)] == ["abc"] * 3
        ((header, body),) = endpoint.requests
        name = chosen.tokens.oauth_client_id or ""
        assert base64.b64decode(header.removeprefix("Basic ")) == f"{name}:hush".encode()
        assert body == b"grant_type=client_credentials"


def test_tokens_that_end_or_do_not_say_when_are_asked_for_again():
    for answer in (b'{"access_token": "abc", "expires_in": 0}', b'{"access_token": "abc"}'):
        with Endpoint((200, answer)) as endpoint:
            chosen = security(endpoint.url)
            assert access_token(chosen) == access_token(chosen) == "abc"
            assert len(endpoint.requests) == 2


@pytest.mark.parametrize(
    ("wall_s", "monotonic_s", "asked"),
    [(0, 0, 1), (4_000, 0, 2), (-86_400, 0, 1), (-86_400, 4_000, 2)],
)
def test_a_token_is_kept_no_longer_than_either_clock_allows(
    wall_s: float, monotonic_s: float, asked: int, monkeypatch: pytest.MonkeyPatch
):
    """The wall clock may be set back by a day; the other may stop while a machine sleeps."""
    wall, monotonic = time.time, time.monotonic
    with Endpoint((200, b'{"access_token": "abc", "expires_in": 3600}')) as endpoint:
        chosen = security(endpoint.url)
        assert access_token(chosen) == "abc"
        with monkeypatch.context() as patched:
            patched.setattr(time, "time", lambda: wall() + wall_s)
            patched.setattr(time, "monotonic", lambda: monotonic() + monotonic_s)
            assert access_token(chosen) == "abc"
        assert len(endpoint.requests) == asked


def test_server_errors_are_tried_again_and_refusals_are_not():
    with Endpoint((503, b"later"), (200, b'{"access_token": "abc"}')) as endpoint:
        assert access_token(security(endpoint.url)) == "abc"
        assert len(endpoint.requests) == 2
    with Endpoint((401, b'{"error": "invalid_client"}')) as endpoint:
        with pytest.raises(AuthenticationFailed, match="status 401, invalid_client") as caught:
            access_token(security(endpoint.url))
        assert len(endpoint.requests) == 1
        assert "hush" not in str(caught.value)


def test_redirects_are_not_followed_with_the_secret():
    with (
        Endpoint((200, b'{"access_token": "abc"}')) as other,
        Endpoint((307, other.url.encode())) as endpoint,
    ):
        with pytest.raises(AuthenticationFailed, match="status 307"):
            access_token(security(endpoint.url))
        assert other.requests == []


def test_an_answer_without_end_and_an_endpoint_that_is_not_there():
    with Endpoint((200, b" " * ((1 << 20) + 1))) as endpoint:
        with pytest.raises(AuthenticationFailed, match="too long"):
            access_token(security(endpoint.url))
        url = endpoint.url
    with pytest.raises(ConnectionFailed, match="does not answer"):
        access_token(security(url, **{"sasl.login.retry.backoff.max.ms": "1"}))
    with pytest.raises(AuthenticationFailed, match="must be http, https or file"):
        access_token(security("ftp://somewhere/x"))


def test_a_file_is_read_every_time(tmp_path: Path):
    file = tmp_path / "token"
    chosen = security(f"file://{file}")
    with pytest.raises(AuthenticationFailed, match="cannot be read"):
        access_token(chosen)
    for content in ("one", "two"):
        file.write_text(f"{content}\n")
        assert access_token(chosen) == content


def test_other_mechanisms_need_no_token():
    assert access_token(Security()) is None
    assert access_token(Security("SASL_SSL", username="a", password="b")) is None
    with pytest.raises(ConfigError, match=r"needs sasl\.oauthbearer\.token"):
        ClientConfig.from_props({"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"})


@pytest.fixture
def broker() -> Iterator[FakeBroker]:
    """Takes the token abc, and no other."""

    def answer(request: Any, version: int, correlation_id: int) -> Any:
        if isinstance(request, SaslHandshakeRequest):
            return SaslHandshakeResponse(error_code=0, mechanisms=["OAUTHBEARER"])
        if isinstance(request, SaslAuthenticateRequest):
            right = b"auth=Bearer abc\x01" in bytes(request.auth_bytes)
            said = b"" if right else b'{"status":"invalid_token"}'
            return SaslAuthenticateResponse(auth_bytes=said)
        return NotImplemented

    with FakeBroker(answer, SASL_VERSIONS) as opened:
        yield opened


def test_a_connection_authenticates_with_its_token(broker: FakeBroker, tmp_path: Path):
    file = tmp_path / "token"
    chosen = security(f"file://{file}")
    file.write_text("abc")
    with Connection("127.0.0.1", broker.port, timeout_ms=60_000, security=chosen) as connection:
        assert connection.is_open
    file.write_text("abd")
    with pytest.raises(AuthenticationFailed, match="invalid_token"):
        Connection("127.0.0.1", broker.port, timeout_ms=60_000, security=chosen)
