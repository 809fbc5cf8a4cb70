"""Strangers at the listeners of a served broker that asks for logins.

They send what is no handshake and no login, ask between the steps, stop half-way, and call
themselves something that would spoil a log. The broker's memory stays bounded, its log has no
traceback, and whoever has a password gets in.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import resource
import shutil
import socket
import ssl
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fencepost.testing import Cluster
from fencepost.testing.certificates import CertificateAuthority
from fencepost.testing.ports import free_ports
from fencepost.wire.api import ApiVersionsRequest
from fencepost.wire.api.describe_groups import DescribeGroupsRequest
from fencepost.wire.api.metadata import MetadataRequest
from fencepost.wire.api.sasl_authenticate import SaslAuthenticateRequest
from fencepost.wire.api.sasl_handshake import SaslHandshakeRequest
from fencepost.wire.frame import encode_request

from ...waiting import DEADLINE_S, eventually
from ..hostile import Watch
from ..listener_fixtures import Client

CA = CertificateAuthority()
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
VERSIONS = ApiVersionsRequest(client_software_name="t", client_software_version="1")
HELLO_BEGINS = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"x" * 40
FAKE = "x\n2026-01-01 INFO forged: User:root is Allowed\x1b[31m\r\u2028\u202e"
ADA, WRONG = b"\0ada\0secret", b"\0ada\0guess"


class Served:
    """One broker, its port with SASL, and its port with SASL and TLS."""

    def __init__(self, directory: Path) -> None:
        self.login, self.secure = free_ports(2)
        self.audit = directory / "audit.log"
        plain = f'{MODULE} required user_ada="secret";'
        self.cluster = Cluster(
            config={
                "listeners": f"LOGIN://127.0.0.1:{self.login},SECURE://127.0.0.1:{self.secure}",
                "listener.security.protocol.map": (
                    "LOGIN:SASL_PLAINTEXT,SECURE:SASL_SSL,CONTROLLER:PLAINTEXT"
                ),
                "inter.broker.listener.name": "LOGIN",
                "sasl.mechanism.inter.broker.protocol": "PLAIN",
                "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
                "listener.name.login.plain.sasl.jaas.config": (
                    f'{MODULE} required username="node" password="n" user_node="n" '
                    'user_ada="secret";'
                ),
                "listener.name.secure.plain.sasl.jaas.config": plain,
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": CA.issue("broker").write(directory),
                "authorizer.class.name": (
                    "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
                ),
                "super.users": "User:ANONYMOUS;User:node",
                "connection.failed.authentication.delay.ms": 10,
                "fencepost.audit.log.path": self.audit,
            }
        )

    def knock(self, port: int) -> socket.socket:
        return socket.create_connection(("127.0.0.1", port), DEADLINE_S)

    def connect(self) -> Client:
        return Client(self.knock(self.login))

    def begun(self, mechanism: str = "PLAIN") -> Client:
        """A client that is in the middle of its login."""
        client = self.connect()
        assert client.ask(SaslHandshakeRequest(mechanism=mechanism), 1).error_code == 0
        return client

    def logged_in(self) -> Client:
        client = self.begun()
        assert client.ask(SaslAuthenticateRequest(auth_bytes=ADA), 2).error_code == 0
        return client


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    made = Served(tmp_path_factory.mktemp("hostile"))
    with made.cluster:
        yield made


@contextlib.contextmanager
def watched(served: Served, growth_mib: float = 60) -> Iterator[Watch]:
    """An attack, which the broker gets over."""
    with Watch(served.cluster) as watch:
        yield watch
        with served.logged_in() as client:
            assert client.ask(VERSIONS, 3).error_code == 0
        watch.assert_quiet(growth_mib)


def sent(served: Served, port: int, data: bytes) -> bytes:
    """What comes back for these bytes until the broker disconnects."""
    answer = b""
    with contextlib.suppress(ConnectionError), served.knock(port) as sock:
        sock.sendall(data)
        sock.shutdown(socket.SHUT_WR)
        while piece := sock.recv(65_536):
            answer += piece
    return answer


def frame(key: int, version: int, body: bytes = b"") -> bytes:
    request = struct.pack(">hhih", key, version, 1, -1) + body
    return struct.pack(">i", len(request)) + request


def mutated(data: bytes, rnd: random.Random) -> bytes:
    out = bytearray(data)
    for _ in range(rnd.randrange(1, 5)):
        out[rnd.randrange(len(out))] = rnd.randrange(256)
    return bytes(out[: rnd.randrange(1, len(out) + 1)])


def test_garbled_logins_and_handshakes(served: Served) -> None:
    rnd = random.Random(5)
    shake = encode_request(SaslHandshakeRequest(mechanism="SCRAM-SHA-512"), 1, 1, None)
    raw = encode_request(SaslHandshakeRequest(mechanism="PLAIN"), 0, 1, None)
    first = SaslAuthenticateRequest(auth_bytes=b"n,,n=ada,r=abcdef")
    whole = shake + encode_request(first, 2, 2, None)
    token = struct.pack(">i", len(WRONG)) + WRONG
    with watched(served):
        for port in (served.login, served.secure):
            for request in (whole, raw + token, HELLO_BEGINS + bytes(500), shake * 3):
                for _ in range(12):
                    sent(served, port, mutated(request, rnd))
        for size in (-1, 0, 7, 524_289, 2**31 - 1):
            assert sent(served, served.login, struct.pack(">i", size) + bytes(64)) == b""


def test_records_of_tls_that_are_none(served: Served) -> None:
    with watched(served):
        for data in (
            b"GET / HTTP/1.1\r\n\r\n",
            b"\x16\x03\x01\xff\xff" + bytes(65_535),
            b"\x16\x03\x01\x00\x00" * 1_000,
            b"\x14\x03\x03\x00\x01\x01" * 500,
            b"\x17\x03\x03\x40\x00" + bytes(16_384),
            b"\x15\x03\x03\x00\x02\x02\x28",
        ):
            assert len(sent(served, served.secure, data)) < 100
        for port in (served.login, served.secure):  # TLS to both, and then garbage
            context = ssl.create_default_context(cadata=CA.certificate_pem)
            with contextlib.suppress(OSError), served.knock(port) as sock:
                stream = context.wrap_socket(sock, server_hostname="127.0.0.1")
                assert port == served.secure
                stream.sendall(frame(0, 9, b"\xff" * 5_000))
                assert stream.recv(1) == b""


@pytest.mark.parametrize("record", [b"\x17\x03\x03\x00\x30" + bytes(48), b"no TLS at all" * 9])
@pytest.mark.parametrize("step", ["handshake", "login", "ready"])
def test_records_of_tls_that_go_wrong_later(served: Served, step: str, record: bytes) -> None:
    """The connection ends with one line in the log, whatever it has come to, and is forgotten."""
    context = ssl.create_default_context(cadata=CA.certificate_pem)
    shake = encode_request(SaslHandshakeRequest(mechanism="PLAIN"), 1, 1, None)
    login = encode_request(SaslAuthenticateRequest(auth_bytes=ADA), 2, 2, None)
    with watched(served) as watch:
        with contextlib.suppress(ConnectionError), served.knock(served.secure) as sock:
            stream = context.wrap_socket(sock, server_hostname="127.0.0.1")
            for request in {"handshake": (), "login": (shake,), "ready": (shake, login)}[step]:
                stream.sendall(request)
                assert stream.recv(1)
            with socket.socket(fileno=os.dup(stream.fileno())) as under:
                under.settimeout(DEADLINE_S)
                under.sendall(record)
                while under.recv(65_536):
                    pass
        eventually(lambda: "TLS failed" in watch.log_text, "the line in the log")


@pytest.mark.skipif(shutil.which("openssl") is None, reason="there is no openssl command")
def test_a_client_that_asks_for_another_handshake(served: Served) -> None:
    """A handshake costs the server many times what it costs the client, and TLS 1.2 lets a client
    ask for one after the other on the same connection (CVE-2011-1473). It is disconnected, however
    it takes the refusal."""
    command = ["openssl", "s_client", "-tls1_2", "-connect", f"127.0.0.1:{served.secure}"]
    with watched(served) as watch:
        for _ in range(3):
            with subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            ) as asking:
                assert asking.stdin is not None and asking.stdout is not None
                asking.stdin.write("R\n" * 20)
                asking.stdin.flush()
                said = asking.stdout.read()
            assert "RENEGOTIATING" in said
            assert "no renegotiation" in said
        line = "begins another TLS handshake"
        eventually(lambda: watch.log_text.count(line) == 3, "a line for each")


@pytest.mark.parametrize("is_shaken", [False, True])
def test_no_other_api_is_decoded_before_the_login(served: Served, is_shaken: bool) -> None:
    """Their bodies are bombs: counts of two thousand million, and compressed zeros."""
    bomb = b"\x7f\xff\xff\xff" * 250
    with watched(served, growth_mib=30):
        for key in set(range(95)) - {17, 18, 36}:
            with served.begun() if is_shaken else served.connect() as client:
                client.send_raw(frame(key, 3, bomb))
                answer = client.sock.recv(4_096)
                assert len(answer) < 200
                assert not answer or is_shaken


def test_what_comes_behind_a_wrong_password_is_not_served(served: Served) -> None:
    with served.begun() as client:
        client.send(SaslAuthenticateRequest(auth_bytes=WRONG), 2)
        for _ in range(5):
            client.send(MetadataRequest(), 9)
        assert client.receive(36, 2)[1].error_code == 58
        with pytest.raises((EOFError, ConnectionError)):
            client.receive_frame()


def test_what_comes_between_the_steps_is_not_served(served: Served) -> None:
    for steps in (
        [(SaslAuthenticateRequest(auth_bytes=ADA), 2)],
        [(VERSIONS, 3), (VERSIONS, 3)],
        [(SaslHandshakeRequest(mechanism="PLAIN"), 1), (VERSIONS, 3), (MetadataRequest(), 9)],
        [(SaslHandshakeRequest(mechanism="PLAIN"), 1)] * 2,
    ):
        with served.connect() as client:
            for request, version in steps:
                client.send(request, version)
            answers = []
            with contextlib.suppress(EOFError, ConnectionError):
                while True:
                    answers.append(client.receive_frame())
            assert len(answers) <= 2
            assert all(len(one) < 2_000 for one in answers)
    with served.logged_in() as client:
        for _ in range(3):
            assert client.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == 34
            assert client.ask(SaslAuthenticateRequest(auth_bytes=WRONG), 2).error_code == 34
        assert client.ask(VERSIONS, 3).error_code == 0


def test_names_stay_on_the_lines_of_both_logs(served: Served) -> None:
    with watched(served) as watch:
        with served.connect() as client:
            client.client_id = FAKE
            assert client.ask(SaslHandshakeRequest(mechanism=FAKE), 1).error_code == 33
        with served.logged_in() as client:
            client.client_id = FAKE
            answer = client.ask(DescribeGroupsRequest(groups=[FAKE]), 5)
            assert answer.groups[0].error_code == 30
        eventually(lambda: "forged" in watch.log_text and b"forged" in served.audit.read_bytes())
        assert not any(line.startswith("2026-01-01") for line in watch.log_text.splitlines())
        assert "\x1b" not in watch.log_text
    text = served.audit.read_text()
    assert text.isascii()
    assert all(isinstance(json.loads(line), dict) for line in text.splitlines())


def half_way(served: Served, kind: str) -> socket.socket:
    """A stranger that stops in the middle."""
    sock = served.knock(served.secure if kind == "handshake" else served.login)
    if kind == "handshake":
        sock.sendall(HELLO_BEGINS)
    elif kind == "frame":
        sock.sendall(struct.pack(">i", 50_000) + b"\0\x12\0\3" + bytes(10_000))
    else:
        client = Client(sock)
        client.ask(SaslHandshakeRequest(mechanism="SCRAM-SHA-512"), 1)
        client.ask(SaslAuthenticateRequest(auth_bytes=b"n,,n=eve,r=abcdef"), 2)
    return sock


def besiege(served: Served, kind: str, many: int, meanwhile: Callable[[Client], None]) -> None:
    with contextlib.ExitStack() as held, served.logged_in() as bystander:
        for number in range(many):
            held.enter_context(half_way(served, kind))
            if number % 20 == 0:
                meanwhile(bystander)
        with served.logged_in():  # whoever has a password gets in
            meanwhile(bystander)


@pytest.mark.parametrize("kind", ["handshake", "login", "frame"])
def test_strangers_that_stop_half_way(served: Served, kind: str) -> None:
    def ask(bystander: Client) -> None:
        assert bystander.ask(VERSIONS, 3).error_code == 0

    with watched(served):
        besiege(served, kind, 150, ask)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("kind", ["handshake", "login", "frame"])
def test_three_thousand_strangers_that_stop_half_way(served: Served, kind: str) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 8_192:
        pytest.skip("too few open files are allowed here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    times_s: list[float] = []

    def ask(bystander: Client) -> None:
        for _ in range(5):
            began = time.perf_counter()
            assert bystander.ask(VERSIONS, 3).error_code == 0
            times_s.append(time.perf_counter() - began)

    try:
        with watched(served, growth_mib=300):
            besiege(served, kind, 3_000, ask)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    p50_ms, p99_ms = (sorted(times_s)[int(len(times_s) * part)] * 1_000 for part in (0.5, 0.99))
    print(f"{kind}: median {p50_ms:.1f} ms, p99 {p99_ms:.1f} ms of {len(times_s)}")
    # On two busy cores the slowest hundredth took 40 ms. Strangers that are in the way are in that
    # of most requests; a machine that is busy with other things delays some of them for longer.
    assert p50_ms < 500
