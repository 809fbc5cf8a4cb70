"""Key stores of clients: PKCS#12 and PEM, whatever the type; Java's old formats are refused."""

from __future__ import annotations

import pickle
import socket
import ssl
import threading
from pathlib import Path
from typing import Any

import pytest

from fencepost.client.config import ClientConfig
from fencepost.client.errors import ConfigError
from fencepost.client.security import Security
from fencepost.testing.certificates import CertificateAuthority

from ..waiting import DEADLINE_S

CA = CertificateAuthority()
NODE, CLIENT = CA.issue("node"), CA.issue("client")
STORES = {
    "ssl.truststore.location": "ssl.truststore.password",
    "ssl.keystore.location": "ssl.keystore.password",
}


def secured(props: dict[str, str]) -> Security:
    config = ClientConfig.from_props({"security.protocol": "SSL", **props})
    travelled: ClientConfig = pickle.loads(pickle.dumps(config))
    return travelled.security


def subject_seen(folder: Path, security: Security) -> Any:
    """What a server that asks for a certificate is shown."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(NODE.write(folder))
    context.load_verify_locations(cadata=CA.certificate_pem)
    context.verify_mode = ssl.CERT_REQUIRED
    seen: list[Any] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            plain, _ = listener.accept()
            with context.wrap_socket(plain, server_side=True) as peer:
                seen.append(peer.getpeercert())
                peer.recv(1)

        thread = threading.Thread(target=serve)
        thread.start()
        plain = socket.create_connection(listener.getsockname(), timeout=DEADLINE_S)
        with security.tls_context().wrap_socket(plain, server_hostname="127.0.0.1") as ours:
            ours.sendall(b"x")
        thread.join(DEADLINE_S)
    return seen[0]["subject"]


@pytest.mark.parametrize("kind", ["PKCS12", "jks", None])
def test_a_pkcs12_store_is_shown_and_trusted(tmp_path: Path, kind: str | None):
    path = CLIENT.write_pkcs12(tmp_path, "hush", CA.certificate_pem)
    props = {key: str(path) for key in STORES} | dict.fromkeys(STORES.values(), "hush")
    if kind is not None:
        props |= {"ssl.truststore.type": kind, "ssl.keystore.type": kind}
    security = secured(props)
    assert "hush" not in repr(security)
    assert subject_seen(tmp_path, security) == ((("commonName", "client"),),)


@pytest.mark.parametrize("kind", ["PEM", None])
def test_a_pem_store_is_shown_and_trusted(tmp_path: Path, kind: str | None):
    path = CLIENT.write(tmp_path)
    path.chmod(0o644)  # a client's key is the user's own affair, as with Kafka
    props = {"ssl.keystore.location": str(path), "ssl.truststore.location": str(CA.write(tmp_path))}
    if kind is not None:
        props |= {"ssl.truststore.type": kind, "ssl.keystore.type": kind}
    assert subject_seen(tmp_path, secured(props)) == ((("commonName", "client"),),)


@pytest.mark.parametrize("key", STORES)
@pytest.mark.parametrize(
    ("begin", "says"),
    [
        (b"\xfe\xed\xfe\xed\0\0\0\2", "JKS, which `keytool -importkeystore"),
        (b"\xce\xce\xce\xce", "JCEKS, which `keytool -importkeystore"),
        (b"0\x82\4", r"\.password"),
    ],
)
def test_a_wrong_store_is_refused_before_a_connection(
    tmp_path: Path, key: str, begin: bytes, says: str
):
    path = tmp_path / "store"
    path.write_bytes(begin)
    with pytest.raises(ConfigError, match=says):
        ClientConfig.from_props({key: str(path)})
    # What is not here may be on the machine where the client will run.
    path.unlink()
    ClientConfig.from_props({key: str(path)})


def test_a_wrong_password_and_contradictions_are_named(tmp_path: Path):
    path = str(CLIENT.write_pkcs12(tmp_path, "hush", CA.certificate_pem))
    pem = str(CA.write(tmp_path))
    for props, key, says in (
        ({"ssl.truststore.location": path, "ssl.truststore.password": "no"}, "location", "opens"),
        ({"ssl.truststore.location": pem, "ssl.truststore.password": "no"}, "password", "left out"),
        ({"ssl.truststore.location": pem, "ssl.truststore.type": "JKS"}, "password", "set, as"),
        ({"ssl.truststore.location": str(tmp_path / "none")}, "location", "No such file"),
    ):
        with pytest.raises(ConfigError, match=says) as caught:
            secured(props).tls_context()
        assert caught.value.key == f"ssl.truststore.{key}"
        assert "'no'" not in str(caught.value)
