"""Which certificates a trust store lets a client and a listener trust: those in it, as in Java."""

from __future__ import annotations

import datetime
import ssl

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from fencepost.broker.config.broker_config import BrokerConfig
from fencepost.broker.security.server_tls import load_trusted
from fencepost.client.pem import load_pem
from fencepost.client.security import Security
from fencepost.testing.certificates import Certificate, CertificateAuthority


def signed_by_itself() -> Certificate:
    """As keytool writes it: of the same subject each time, with nothing that tells keys apart."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    form = serialization.PrivateFormat.PKCS8
    secret = key.private_bytes(pem, form, serialization.NoEncryption())
    return Certificate("localhost", made.public_bytes(pem).decode(), secret.decode())


def shake_hands(client: ssl.SSLContext, server: ssl.SSLContext) -> None:
    """A handshake in memory. ssl.SSLCertVerificationError."""
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [
        client.wrap_bio(down, up, server_hostname="localhost"),
        server.wrap_bio(up, down, server_side=True),
    ]
    for _ in range(4):
        for side in sides:
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue


def trusting(*certificates: Certificate) -> Security:
    return Security("SSL", ca_pem="\n".join(one.certificate_pem for one in certificates))


def showing(certificate: Certificate) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    load_pem(context, certificate.certificate_pem, certificate.key_pem, None)
    return context


TWINS = (signed_by_itself(), signed_by_itself())
ISSUED = CertificateAuthority().issue("broker")


@pytest.mark.parametrize("shown", [*TWINS, ISSUED], ids=["first", "second", "issued"])
def test_a_certificate_in_the_trust_store_is_trusted(shown):
    shake_hands(trusting(*TWINS, ISSUED).tls_context(), showing(shown))


def test_others_of_the_same_subject_or_issuer_are_not():
    for shown, known in ((TWINS[1], TWINS[0]), (CertificateAuthority().issue("broker"), ISSUED)):
        with pytest.raises(ssl.SSLCertVerificationError):
            shake_hands(trusting(known).tls_context(), showing(shown))


@pytest.mark.parametrize("shown", [*TWINS, ISSUED], ids=["first", "second", "issued"])
def test_a_listener_trusts_a_client_likewise(shown):
    listener = BrokerConfig.load(None, {}).for_listener("PLAINTEXT")
    client = trusting(ISSUED).tls_context()
    load_pem(client, shown.certificate_pem, shown.key_pem, None)
    for known, is_trusted in (([*TWINS, ISSUED], True), ([signed_by_itself()], False)):
        server = showing(ISSUED)
        server.verify_mode = ssl.CERT_REQUIRED
        load_trusted(server, listener, "\n".join(one.certificate_pem for one in known))
        if is_trusted:
            shake_hands(client, server)
        else:
            with pytest.raises(ssl.SSLCertVerificationError):
                shake_hands(client, server)
