"""SASL and TLS over a fake broker; secrets do not show."""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from fencepost.client.connection import Connection
from fencepost.client.errors import AuthenticationFailed
from fencepost.client.protocol.in_flight import FIRST_CORRELATION_ID
from fencepost.client.security import Security
from fencepost.wire.api.api_versions import ApiVersionsRequest
from fencepost.wire.api.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from fencepost.wire.api.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from fencepost.wire.errors import ErrorCode
from fencepost.wire.frame import encode_response_parts

from ..waiting import DEADLINE_S
from .fake_broker import FakeBroker


def sasl_answer(request: Any, version: int, correlation_id: int) -> Any:
    if isinstance(request, SaslHandshakeRequest):
        known = request.mechanism == "PLAIN"
        code = ErrorCode.NONE if known else ErrorCode.UNSUPPORTED_SASL_MECHANISM
        return SaslHandshakeResponse(error_code=code, mechanisms=["PLAIN"])
    if isinstance(request, SaslAuthenticateRequest):
        right = bytes(request.auth_bytes) == b"\0ada\0secret"
        code = ErrorCode.NONE if right else ErrorCode.SASL_AUTHENTICATION_FAILED
        return SaslAuthenticateResponse(
            error_code=code, error_message=None if right else "go away", session_lifetime_ms=0
        )
    assert isinstance(request, ApiVersionsRequest)
    return NotImplemented


SASL_VERSIONS = {17: (0, 1), 36: (0, 2)}


def sasl(mechanism: str, password: str) -> Security:
    return Security("SASL_PLAINTEXT", mechanism=mechanism, username="ada", password=password)


def test_plain_over_the_wire():
    with FakeBroker(sasl_answer, SASL_VERSIONS) as broker:
        connection = Connection(
            "127.0.0.1", broker.port, timeout_ms=60_000, security=sasl("PLAIN", "secret")
        )
        assert connection.is_open
        connection.close()
        with pytest.raises(AuthenticationFailed, match="go away"):
            Connection("127.0.0.1", broker.port, security=sasl("PLAIN", "wrong"))
        with pytest.raises(AuthenticationFailed, match=r"SCRAM-SHA-512 is not among .*PLAIN"):
            Connection("127.0.0.1", broker.port, security=sasl("SCRAM-SHA-512", "secret"))


def test_secrets_do_not_show():
    assert "secret" not in repr(sasl("PLAIN", "secret"))


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A self-signed certificate for 127.0.0.1 and its key."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("needs the openssl command")
    folder = tmp_path_factory.mktemp("tls")
    certificate, key = folder / "cert.pem", folder / "key.pem"
    subprocess.run(
        [openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
        + ["-nodes", "-days", "2", "-subj", "/CN=fake", "-addext", "subjectAltName=IP:127.0.0.1"]
        + ["-keyout", str(key), "-out", str(certificate)],
        check=True,
        capture_output=True,
        timeout=300,
    )
    return certificate, key


def serve_tls_once(certificate: Path, key: Path) -> tuple[int, threading.Thread]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    listener = socket.create_server(("127.0.0.1", 0))

    def run() -> None:
        with listener:
            plain, _ = listener.accept()
            try:
                with context.wrap_socket(plain, server_side=True) as peer:
                    peer.recv(4096)
                    offer = FakeBroker.api_versions(type("Offer", (), {"versions": {3: (0, 9)}})())
                    peer.sendall(b"".join(encode_response_parts(offer, 4, FIRST_CORRELATION_ID)))
                    peer.recv(1)
            except OSError:
                plain.close()

    thread = threading.Thread(target=run)
    thread.start()
    return listener.getsockname()[1], thread


def test_tls_with_a_trusted_certificate(certificate: tuple[Path, Path]):
    port, thread = serve_tls_once(*certificate)
    security = Security("SSL", ca_file=str(certificate[0]))
    with Connection("127.0.0.1", port, timeout_ms=60_000, security=security) as connection:
        assert connection.api_versions == {3: (0, 9)}
        assert not connection.readable()
    thread.join(DEADLINE_S)


def test_tls_with_an_unknown_certificate(certificate: tuple[Path, Path]):
    port, thread = serve_tls_once(*certificate)
    with pytest.raises(AuthenticationFailed, match="not trusted"):
        Connection("127.0.0.1", port, timeout_ms=60_000, security=Security("SSL"))
    thread.join(DEADLINE_S)
