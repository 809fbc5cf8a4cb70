"""TLS listeners of served brokers: clients and their certificates, peers that misbehave, reload."""

import contextlib
import json
import os
import signal
import socket
import ssl
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.client.connection import Connection
from fencepost.client.errors import ClientError
from fencepost.client.security import Security
from fencepost.testing import Cluster
from fencepost.testing.certificates import CertificateAuthority
from fencepost.testing.ports import free_ports
from fencepost.wire.api.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from fencepost.wire.api.metadata import MetadataRequest

from ...waiting import DEADLINE_S, eventually

CA = CertificateAuthority()
STRANGER = CertificateAuthority("Another")
ALICE = CA.issue("alice", hosts=())
API_VERSIONS = struct.pack(">ihhih", 10, 18, 0, 1, -1)


class Served:
    """One broker with a listener of each kind, and its ports."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.audit_log = directory / "audit.jsonl"
        self.plain, self.tls, self.mutual = free_ports(3)
        self.certificate = CA.issue("broker").write(directory)
        names = ("PLAINTEXT", "TLS", "MUTUAL")
        ports = (self.plain, self.tls, self.mutual)
        keys = {
            "listeners": ",".join(f"{n}://127.0.0.1:{p}" for n, p in zip(names, ports)),
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,TLS:SSL,MUTUAL:SSL",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": self.certificate,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": CA.write(directory),
            "listener.name.tls.ssl.keystore.type": "PEM",
            "listener.name.tls.ssl.keystore.location": self.certificate,
            "listener.name.mutual.ssl.client.auth": "required",
            "fencepost.audit.log.path": self.audit_log,
            "listener.name.mutual.ssl.principal.mapping.rules": r"RULE:^CN=([a-z]+)$/$1/U",
        }
        self.cluster = Cluster(config=keys)

    def knock(self, port: int) -> socket.socket:
        return socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S)

    def shake_hands(self, port: int, context: ssl.SSLContext | None = None) -> ssl.SSLSocket:
        context = context or ssl.create_default_context(cadata=CA.certificate_pem)
        return context.wrap_socket(self.knock(port), server_hostname="127.0.0.1")

    def logged(self, text: str) -> int:
        return self.cluster.log_text.count(text)


@pytest.fixture(scope="module")
def served(tmp_path_factory) -> Iterator[Served]:
    made = Served(tmp_path_factory.mktemp("tls"))
    with made.cluster:
        yield made


def ask(port: int, security: Security) -> list[int]:
    """The brokers that Metadata tells of, over our own client."""
    connection = Connection("127.0.0.1", port, client_id="t", timeout_ms=10_000, security=security)
    try:
        return [one.node_id for one in connection.request(MetadataRequest(topics=[])).brokers]
    finally:
        connection.close()


def alice(**more: object) -> Security:
    return Security(
        "SSL",
        ca_pem=CA.certificate_pem,
        certificate_pem=ALICE.certificate_pem,
        key_pem=ALICE.key_pem,
        **more,  # type: ignore[arg-type]
    )


def versions_over(stream: ssl.SSLSocket) -> int:
    """The correlation id of an answer to ApiVersions."""
    stream.sendall(API_VERSIONS)
    (size,) = struct.unpack(">i", stream.recv(4))
    body = b""
    while len(body) < size:
        body += stream.recv(size - len(body))
    return struct.unpack(">i", body[:4])[0]


def test_our_client_with_a_certificate_and_without(served):
    assert ask(served.tls, Security("SSL", ca_pem=CA.certificate_pem)) == [1]
    assert ask(served.mutual, alice()) == [1]
    with pytest.raises((ClientError, OSError)):
        ask(served.mutual, Security("SSL", ca_pem=CA.certificate_pem))
    assert eventually(lambda: served.logged("peer did not return a certificate"))


def test_logins_by_certificate_are_in_the_audit_log_and_no_others(served):
    def logins() -> set[tuple[str, str, str]]:
        lines = [json.loads(line) for line in served.audit_log.read_bytes().splitlines()]
        told = [one for one in lines if one["event"] == "login" and one["succeeded"]]
        return {(one["principal"], one["listener"], one["mechanism"]) for one in told}

    assert ask(served.tls, Security("SSL", ca_pem=CA.certificate_pem)) == [1]
    assert ask(served.mutual, alice()) == [1]
    eventually(logins, "the login is told")
    assert logins() == {("User:ALICE", "MUTUAL", "TLS")}


def test_certificates_that_do_not_count(served):
    expired = CA.issue_expired("alice", hosts=())
    foreign = STRANGER.issue("alice", hosts=())
    unnamed = CA.issue("Alice2", hosts=())
    for one in (expired, foreign, unnamed):
        security = Security(
            "SSL",
            ca_pem=CA.certificate_pem,
            certificate_pem=one.certificate_pem,
            key_pem=one.key_pem,
        )
        with pytest.raises((ClientError, OSError)):
            ask(served.mutual, security)
    assert eventually(lambda: served.logged("certificate has expired"))
    assert eventually(lambda: served.logged("unable to get local issuer certificate"))
    assert eventually(lambda: served.logged("stands for no principal"))
    events = [json.loads(line) for line in served.audit_log.read_text().splitlines()]
    refused = [one for one in events if one["event"] == "login" and not one["succeeded"]]
    assert {(one["listener"], one["mechanism"]) for one in refused} >= {("MUTUAL", "TLS")}
    assert any("certificate has expired" in one["reason"] for one in refused)


def test_clients_find_out_about_the_broker(served):
    with pytest.raises((ClientError, OSError), match=r"(?i)certificate|tls|ssl"):
        ask(served.tls, Security("SSL", ca_pem=STRANGER.certificate_pem))
    context = ssl.create_default_context(cadata=CA.certificate_pem)
    with pytest.raises(ssl.SSLCertVerificationError, match="mismatch"):
        context.wrap_socket(served.knock(served.tls), server_hostname="elsewhere.example")


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_versions_of_tls(served, version):
    context = ssl.create_default_context(cadata=CA.certificate_pem)
    context.minimum_version = context.maximum_version = version
    with served.shake_hands(served.tls, context) as stream:
        assert versions_over(stream) == 1
        assert not stream.session_reused


def test_many_requests_in_one_record_and_one_in_many(served):
    with served.shake_hands(served.tls) as stream:
        stream.sendall(API_VERSIONS * 50)
        first = stream.recv(1)
        assert first
    with served.shake_hands(served.tls) as stream:
        for byte in API_VERSIONS:
            stream.sendall(bytes([byte]))
        assert struct.unpack(">i", stream.recv(4))[0] > 4


def test_plain_bytes_at_a_tls_port_are_told_once(served):
    for _ in range(3):
        with served.knock(served.tls) as sock:
            sock.sendall(API_VERSIONS)
            assert sock.recv(1) == b""
    assert eventually(lambda: served.logged("listener TLS has TLS")) == 1


def test_tls_at_a_plain_port_is_told_once(served):
    for _ in range(3):
        with pytest.raises((ssl.SSLError, OSError)):
            served.shake_hands(served.plain)
    assert eventually(lambda: served.logged("listener PLAINTEXT has no TLS")) == 1


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01",  # and no more
        b"\x16\x03\x01\x00\x05hello",
        b"\x16\x03\x01\xff\xff" + bytes(1000),
        b"\x16" * 5000,
        b"\x16\x03\x01\x40\x00" + bytes(200_000),
    ],
)
def test_garbage_ends_its_own_connection_alone(served, data):
    with served.shake_hands(served.tls) as other, served.knock(served.tls) as sock:
        with contextlib.suppress(OSError):
            sock.sendall(data)
            sock.shutdown(socket.SHUT_WR)
            while sock.recv(4096):
                pass
        assert versions_over(other) == 1


def test_a_forged_record_ends_the_connection(served):
    context = ssl.create_default_context(cadata=CA.certificate_pem)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    made = context.wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
    with served.knock(served.tls) as sock:
        while True:
            try:
                made.do_handshake()
                break
            except ssl.SSLWantReadError:
                sock.sendall(outgoing.read())
                incoming.write(sock.recv(16384))
        sock.sendall(outgoing.read())
        # What follows is no record of this session, so it ends at once.
        sock.sendall(b"\x17\x03\x03\x00\x20" + bytes(32))
        with contextlib.suppress(OSError):
            while sock.recv(4096):
                pass
    assert eventually(lambda: served.logged("TLS failed"))


def test_confluent_kafka(served):
    from confluent_kafka import Consumer, Producer

    for topic, port, more in (("c1", served.tls, {}), ("c2", served.mutual, files(served))):
        base = {
            "bootstrap.servers": f"127.0.0.1:{port}",
            "security.protocol": "SSL",
            "ssl.ca.location": str(served.directory / "ca.pem"),
            **more,
        }
        producer = Producer(base)
        values = [os.urandom(size) for size in (1, 1000, 900_000, 16_384, 70_000)]
        for value in values:
            producer.produce(topic, value)
        assert producer.flush(DEADLINE_S) == 0
        consumer = Consumer({**base, "group.id": topic, "auto.offset.reset": "earliest"})
        consumer.subscribe([topic])
        found: list[bytes] = []

        def poll(consumer: Consumer = consumer, found: list[bytes] = found) -> bool:
            message = consumer.poll(1.0)
            if message is not None and not message.error():
                found.append(message.value())
            return len(found) == 5

        eventually(poll, "five records")
        consumer.close()
        assert found == values


def test_kafka_python(served):
    from kafka import KafkaProducer

    paths = files(served)
    producer = KafkaProducer(
        bootstrap_servers=f"127.0.0.1:{served.mutual}",
        security_protocol="SSL",
        ssl_cafile=str(served.directory / "ca.pem"),
        ssl_certfile=paths["ssl.certificate.location"],
        ssl_keyfile=paths["ssl.key.location"],
    )
    assert producer.send("k", b"x" * 100_000).get(timeout=DEADLINE_S).offset == 0
    producer.close()


def files(served: Served) -> dict[str, str]:
    path = ALICE.write(served.directory)
    return {"ssl.certificate.location": str(path), "ssl.key.location": str(path)}


def shown_name(served: Served, port: int) -> str:
    with served.shake_hands(port) as stream:
        subject = dict(pair[0] for pair in stream.getpeercert()["subject"])  # type: ignore[index]
        return str(subject["commonName"])


def alter(served: Served, **configs: str) -> tuple[int, str | None]:
    request = IncrementalAlterConfigsRequest(
        resources=[
            AlterConfigsResource(
                resource_type=4,
                resource_name="1",
                configs=[
                    AlterableConfig(name=name.replace("_", "."), config_operation=0, value=value)
                    for name, value in configs.items()
                ],
            )
        ],
        validate_only=False,
    )
    connection = Connection("127.0.0.1", served.plain, client_id="t", timeout_ms=60_000)
    try:
        answer = connection.request(request).responses[0]
    finally:
        connection.close()
    return answer.error_code, answer.error_message


LOCATION = "listener_name_tls_ssl_keystore_location"


def test_new_certificates_without_a_restart(served):
    with served.shake_hands(served.tls) as live:
        # the same path, by a signal
        CA.issue("second").write(served.directory).replace(served.certificate)
        os.kill(served.cluster.nodes[1].pid, signal.SIGHUP)
        eventually(lambda: shown_name(served, served.tls) == "second", "SIGHUP")
        # the same path, by a request that changes nothing
        CA.issue("third").write(served.directory).replace(served.certificate)
        assert alter(served, **{LOCATION: str(served.certificate)}) == (0, None)
        eventually(lambda: shown_name(served, served.tls) == "third", "the first request")
        CA.issue("fourth").write(served.directory).replace(served.certificate)
        assert alter(served, **{LOCATION: str(served.certificate)}) == (0, None)
        eventually(lambda: shown_name(served, served.tls) == "fourth", "the same request")
        # another path
        other = CA.issue("fifth").write(served.directory)
        assert alter(served, **{LOCATION: str(other)}) == (0, None)
        eventually(lambda: shown_name(served, served.tls) == "fifth", "another path")
        # an expired one is told of
        CA.issue_expired("sixth").write(served.directory).replace(other)
        os.kill(served.cluster.nodes[1].pid, signal.SIGHUP)
        eventually(lambda: served.logged("the certificate of listener TLS expired at"), "a warning")
        CA.issue("fifth").write(served.directory)
        before = served.logged("listener TLS has read")
        os.kill(served.cluster.nodes[1].pid, signal.SIGHUP)
        eventually(lambda: served.logged("listener TLS has read") > before, "a good one again")
        assert shown_name(served, served.tls) == "fifth"
        # what cannot be used is refused, or changes nothing
        error, message = alter(served, **{LOCATION: "/no/such"})
        assert error == 42
        assert "No such file" in (message or "")
        other.write_text("garbage")
        os.kill(served.cluster.nodes[1].pid, signal.SIGHUP)
        eventually(lambda: served.logged("listener TLS keeps its certificate"), "the error")
        assert shown_name(served, served.tls) == "fifth"
        assert versions_over(live) == 1, "connections that are open stay"
    error, message = alter(served, ssl_keystore_location="/x")
    assert (error, "listener prefix" in (message or "")) == (42, True)


def test_a_node_without_a_key_does_not_start(tmp_path):
    command = [sys.executable, "-m", "fencepost.cli.main", "serve", "--data-dir", str(tmp_path)]
    command += ["-o", "listeners=SSL://127.0.0.1:0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    assert done.returncode == 1
    assert "listener.name.ssl.ssl.keystore.location" in done.stderr
