"""Key stores and trust stores: PEM and PKCS#12, what contradicts itself, what others can read."""

import os
import ssl

import pytest
from cryptography.hazmat.primitives import serialization

from fencepost.broker.config.broker_config import BrokerConfig
from fencepost.broker.config.settings import Settings
from fencepost.broker.security.peer_security import peer_security
from fencepost.broker.security.server_tls import client_auth, server_tls
from fencepost.client import key_files
from fencepost.client.key_files import key_pair, trusted_certificates
from fencepost.log.configdef import ConfigError
from fencepost.machines.session import SecurityProtocol
from fencepost.testing.certificates import CertificateAuthority

from ...endless_keys import pbes2, pem, pkcs12

CA = CertificateAuthority()
ONE = CA.issue("one")
KEY, CHAIN, LOCATION = (
    "ssl.keystore.key",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.location",
)
TYPE, PASSWORD = "ssl.keystore.type", "ssl.keystore.password"
INLINE = {TYPE: "PEM", KEY: ONE.key_pem, CHAIN: ONE.certificate_pem}
TRUST = {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": CA.certificate_pem}
SSL = SecurityProtocol.SSL


def listener(keys, name="SSL"):
    return BrokerConfig.load(None, {"listeners": "SSL://127.0.0.1:0", **keys}).for_listener(name)


def encrypted(password="hush"):
    key = serialization.load_pem_private_key(ONE.key_pem.encode(), None)
    how = serialization.BestAvailableEncryption(password.encode())
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, how)
    return pem.decode()


def test_pem_inline_and_in_a_file(tmp_path):
    path = ONE.write(tmp_path)
    for keys in (INLINE, {TYPE: "pem", LOCATION: str(path)}):
        made = server_tls(listener(keys), SSL)
        assert made.subject.distinguished_name == "CN=one"
        assert made.context.verify_mode is ssl.CERT_NONE


def test_a_key_with_a_password(tmp_path):
    path = tmp_path / "one.pem"
    path.write_text(encrypted() + ONE.certificate_pem)
    path.chmod(0o600)
    keys = {TYPE: "PEM", LOCATION: str(path)}
    server_tls(listener({**keys, "ssl.key.password": "hush"}), SSL)
    for more, says in (({}, "ssl.key.password"), ({"ssl.key.password": "other"}, "goes with")):
        with pytest.raises(ConfigError, match=says) as caught:
            server_tls(listener({**keys, **more}), SSL)
        assert "other" not in str(caught.value)


def test_a_key_that_takes_for_ever_to_decrypt(tmp_path):
    """The number of iterations is its maker's choice, and OpenSSL would begin."""
    bomb = pem(pbes2(2**31 - 1))
    path = tmp_path / "one.pem"
    path.write_text(bomb + ONE.certificate_pem)
    path.chmod(0o600)
    hush = {TYPE: "PEM", "ssl.key.password": "hush"}
    for keys, key in (
        ({**hush, LOCATION: str(path)}, LOCATION),
        ({**hush, KEY: bomb, CHAIN: ONE.certificate_pem}, KEY),
    ):
        with pytest.raises(ConfigError, match="at most 5000000 iterations") as caught:
            server_tls(listener(keys), SSL)
        assert caught.value.key == key
        assert "BEGIN" not in str(caught.value)
    path.write_bytes(pkcs12(pbes2(1), 2**31 - 1))
    for keys in (
        {LOCATION: str(path), PASSWORD: "hush"},
        {"ssl.truststore.location": str(path), "ssl.truststore.password": "hush"},
    ):
        with pytest.raises(ConfigError, match="at most 5000000 iterations"):
            (key_pair if LOCATION in keys else trusted_certificates)(listener(keys))


@pytest.mark.parametrize("kind", ["PKCS12", "JKS"])
def test_pkcs12_whatever_the_type_says(tmp_path, kind):
    path = ONE.write_pkcs12(tmp_path, "hush", CA.certificate_pem)
    keys = {TYPE: kind, LOCATION: str(path), PASSWORD: "hush"}
    assert server_tls(listener(keys), SSL).subject.distinguished_name == "CN=one"
    trust = {key.replace("keystore", "truststore"): text for key, text in keys.items()}
    assert CA.certificate_pem in (trusted_certificates(listener(trust)) or "")
    with pytest.raises(ConfigError, match="the password opens"):
        key_pair(listener({**keys, PASSWORD: "wrong"}))
    with pytest.raises(ConfigError, match=r"ssl\.key\.password"):
        key_pair(listener({**keys, "ssl.key.password": "another"}))


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"\xfe\xed\xfe\xed\0\0", "JKS, which `keytool -importkeystore"),
        (b"\xce\xce\xce\xce\0\0", "JCEKS, which `keytool -importkeystore"),
        (b"", "a PKCS#12 file"),
        (b"-----BEGIN CERTIFICATE-----", r"set ssl\.keystore\.type=PEM"),
        (b"\x30\x80\x01", "the password opens"),
        (b"\x30" * (1 << 20) + b"x", "at most 1048576 bytes"),
    ],
)
def test_files_that_are_no_key_stores(tmp_path, data, says):
    path = tmp_path / "keys.jks"
    path.write_bytes(data)
    path.chmod(0o600)
    with pytest.raises(ConfigError, match=says):
        key_pair(listener({LOCATION: str(path), PASSWORD: "hush"}))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "one private key"),
        (ONE.key_pem, "one private key and its"),
        (ONE.certificate_pem, "one private key"),
        (ONE.key_pem * 2 + ONE.certificate_pem, "one private key"),
        ("\x30\x82", "for PKCS#12 set"),
    ],
)
def test_pem_files_without_a_pair(tmp_path, text, says):
    path = tmp_path / "keys.pem"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(ConfigError, match=says):
        key_pair(listener({TYPE: "PEM", LOCATION: str(path)}))


def test_garbled_keys_and_other_peoples_are_refused_and_not_shown():
    other = CA.issue("other")
    broken = ONE.key_pem[:60] + "AAAA" + ONE.key_pem[64:]
    for key in (other.key_pem, broken):
        with pytest.raises(ConfigError, match="a key that goes with") as caught:
            server_tls(listener({**INLINE, KEY: key}), SSL)
        assert "BEGIN" not in str(caught.value)
    with pytest.raises(ConfigError, match="one private key in PEM"):
        server_tls(listener({**INLINE, KEY: "nonsense"}), SSL)
    with pytest.raises(ConfigError):
        server_tls(listener({**INLINE, CHAIN: "nonsense"}), SSL)


def test_a_key_file_that_others_can_read_is_refused(tmp_path):
    path = ONE.write(tmp_path)
    path.chmod(0o644)
    with pytest.raises(ConfigError, match="chmod 600"):
        key_pair(listener({TYPE: "PEM", LOCATION: str(path)}))
    path.chmod(0o602)
    with pytest.raises(ConfigError, match="chmod 600"):
        key_pair(listener({TYPE: "PEM", LOCATION: str(path)}))
    path.chmod(0o640)
    assert key_pair(listener({TYPE: "PEM", LOCATION: str(path)})) is not None
    # certificates of authorities are public
    trust = CA.write(tmp_path)
    trust.chmod(0o644)
    keys = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(trust)}
    assert trusted_certificates(listener(keys)) == CA.certificate_pem.strip()


def test_what_is_no_file(tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    os.chmod(fifo, 0o600)
    for path, says in ((tmp_path / "none", "No such file"), (tmp_path, "s a directory")):
        with pytest.raises(ConfigError, match=says):
            key_pair(listener({TYPE: "PEM", LOCATION: str(path)}))
    with pytest.raises(ConfigError, match="a file"):
        key_pair(listener({TYPE: "PEM", LOCATION: str(fifo)}))
    with pytest.raises(ConfigError, match="NUL"):
        key_pair(listener({TYPE: "PEM", LOCATION: "/a\0b"}))


def test_a_file_that_would_be_waited_for(tmp_path, monkeypatch):
    """Such as /proc/kmsg, which has a mode like any other."""
    monkeypatch.setattr(key_files, "open", lambda handle, mode: Empty(handle), raising=False)
    path = ONE.write(tmp_path)
    with pytest.raises(ConfigError, match="nothing in it now"):
        key_pair(listener({TYPE: "PEM", LOCATION: str(path)}))


class Empty:
    """What is opened without waiting and has nothing yet."""

    def __init__(self, handle):
        self.handle = handle

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self.handle)

    def fileno(self):
        return self.handle

    def read(self, size):
        return None


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({KEY: ONE.key_pem, CHAIN: ONE.certificate_pem}, "PEM, as ssl.keystore.key is set"),
        ({TYPE: "PEM", KEY: ONE.key_pem}, "the other half"),
        ({TYPE: "PEM", CHAIN: ONE.certificate_pem}, "the other half"),
        ({**INLINE, LOCATION: "/x"}, "left out, as ssl.keystore.key is set"),
        ({**INLINE, PASSWORD: "hush"}, "a PEM file has no password"),
        ({LOCATION: "/x"}, "set, as ssl.keystore.location is"),
        ({}, "listener SSL is SSL"),
        ({**INLINE, "ssl.truststore.certificates": "x"}, "PEM, as ssl.truststore"),
        ({**INLINE, **TRUST, "ssl.truststore.certificates": "x"}, "certificates in PEM"),
        ({**INLINE, "ssl.client.auth": "required"}, "no authority is trusted"),
        ({**INLINE, "ssl.cipher.suites": "TLS_NONE"}, "out of TLS_AES_128"),
        ({**INLINE, "ssl.cipher.suites": "TLS_AES_128_GCM_SHA256"}, "Python cannot choose"),
        (
            {
                **INLINE,
                "ssl.enabled.protocols": "TLSv1.3",
                "ssl.cipher.suites": "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
            },
            "suites of a version",
        ),
    ],
)
def test_keys_that_do_not_go_together(keys, says):
    with pytest.raises(ConfigError, match=says) as caught:
        server_tls(listener(keys), SSL)
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("ssl.protocol", "TLSv1.2"),
        ("ssl.provider", "BC"),
        ("ssl.engine.factory.class", "an.Engine"),
        ("ssl.enabled.protocols", "TLSv1.1"),
        ("ssl.client.auth", "maybe"),
        ("ssl.keystore.type", "BKS"),
        ("ssl.endpoint.identification.algorithm", "ldaps"),
    ],
)
def test_values_that_are_not_offered(key, value):
    with pytest.raises(ConfigError) as caught:
        listener({key: value})
    assert caught.value.key == key


def test_versions_and_suites():
    suite = "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"
    context = server_tls(listener({**INLINE, "ssl.cipher.suites": suite}), SSL).context
    assert context.maximum_version is ssl.TLSVersion.TLSv1_2  # the list has none of TLS 1.3
    names = {one["name"] for one in context.get_ciphers() if "TLSv1.2" in one["description"]}
    assert names == {"ECDHE-ECDSA-AES256-GCM-SHA384"}
    context = server_tls(listener({**INLINE, "ssl.enabled.protocols": "TLSv1.3"}), SSL).context
    assert context.minimum_version is ssl.TLSVersion.TLSv1_3


def test_a_session_is_neither_negotiated_anew_nor_resumed():
    context = server_tls(listener(INLINE), SSL).context
    for option in (ssl.OP_NO_RENEGOTIATION, ssl.OP_NO_COMPRESSION, ssl.OP_NO_TICKET):
        assert context.options & option
    assert context.num_tickets == 0


def test_every_suite_is_one_of_openssl():
    from fencepost.broker.security.ciphers import TLS_1_2

    for name in TLS_1_2:
        server_tls(listener({**INLINE, "ssl.cipher.suites": name}), SSL)


def test_a_key_of_all_listeners_does_not_ask_for_certificates_where_there_is_sasl():
    plain = listener({"ssl.client.auth": "required"})
    own = listener({"listener.name.ssl.ssl.client.auth": "requested"})
    assert client_auth(plain, SecurityProtocol.SSL) == "required"
    assert client_auth(plain, SecurityProtocol.SASL_SSL) == "none"
    assert client_auth(own, SecurityProtocol.SASL_SSL) == "requested"


def test_the_listeners_own_keys_come_first():
    other = CA.issue("other")
    own = {f"listener.name.ssl.{key}": text for key, text in INLINE.items()}
    keys = {TYPE: "PEM", KEY: other.key_pem, CHAIN: other.certificate_pem, **own}
    assert server_tls(listener(keys), SSL).subject.distinguished_name == "CN=one"


def test_connections_to_other_nodes_have_the_listeners_keys():
    keys = {"listeners": "SSL://127.0.0.1:0", **INLINE, **TRUST}
    security = peer_security(Settings(BrokerConfig.load(None, keys)), "SSL")
    assert (security.protocol, security.check_hostname) == ("SSL", True)
    assert security.certificate_pem == ONE.certificate_pem
    assert (security.ca_pem or "").strip() == CA.certificate_pem.strip()
    assert ONE.key_pem not in repr(security)
    security.tls_context()
    keys["ssl.enabled.protocols"] = "TLSv1.3"
    newer = peer_security(Settings(BrokerConfig.load(None, keys)), "SSL").tls_context()
    assert newer.minimum_version is ssl.TLSVersion.TLSv1_3
    assert newer.check_hostname and newer.verify_mode is ssl.CERT_REQUIRED
    keys["ssl.endpoint.identification.algorithm"] = ""
    assert not peer_security(Settings(BrokerConfig.load(None, keys)), "SSL").check_hostname
    plain = peer_security(Settings(BrokerConfig.load(None, {})), "PLAINTEXT")
    assert not plain.uses_tls


def test_no_value_of_a_key_is_shown():
    config = BrokerConfig.load(None, {"listeners": "SSL://127.0.0.1:0", **INLINE, PASSWORD: "hush"})
    with pytest.raises(ConfigError) as caught:
        server_tls(config.for_listener("SSL"), SSL)
    assert "hush" not in str(caught.value)
    assert ONE.key_pem not in repr(key_pair(listener(INLINE)))
