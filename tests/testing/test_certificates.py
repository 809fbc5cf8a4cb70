"""Certificates for tests: what trusts them, and what must not."""

from __future__ import annotations

import ssl
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("cryptography")

from fencepost.client.security import Security
from fencepost.testing.certificates import Certificate, CertificateAuthority


@pytest.fixture(scope="module")
def authority() -> CertificateAuthority:
    return CertificateAuthority()


def shake(client: ssl.SSLContext, server: ssl.SSLContext, host: str) -> ssl.SSLObject:
    """The client's side of a handshake through memory. ssl.SSLError of whichever refuses."""
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    asking = client.wrap_bio(to_client, to_server, server_hostname=host)
    answering = server.wrap_bio(to_server, to_client, server_side=True)
    left = [asking, answering]
    for _ in range(20):
        for side in list(left):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            left.remove(side)
        if not left:
            # With TLS 1.3 a client learns of a refusal of its certificate with what comes next.
            answering.write(b"x")
            assert asking.read(1) == b"x"
            return asking
    raise AssertionError("the handshake does not end")


def server_of(certificate: Certificate, directory: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.write(directory))
    return context


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "::1"])
def test_a_client_that_trusts_the_authority_trusts_what_it_signs(
    authority: CertificateAuthority, tmp_path: Path, host: str
):
    trusting = Security("SSL", ca_pem=authority.certificate_pem).tls_context()
    shaken = shake(trusting, server_of(authority.issue("broker-1"), tmp_path), host)
    assert shaken.version() == "TLSv1.3"


FAULTS: list[tuple[Callable[[CertificateAuthority], Certificate], str]] = [
    (lambda authority: authority.issue_expired("broker-1"), "expired"),
    (lambda authority: authority.issue("broker-1", hosts=["elsewhere.example"]), "mismatch"),
    (lambda authority: CertificateAuthority("another").issue("broker-1"), "verify failed"),
]


@pytest.mark.parametrize(("make", "complaint"), FAULTS)
def test_faults_are_noticed(
    authority: CertificateAuthority,
    tmp_path: Path,
    make: Callable[[CertificateAuthority], Certificate],
    complaint: str,
):
    trusting = Security("SSL", ca_pem=authority.certificate_pem).tls_context()
    with pytest.raises(ssl.SSLCertVerificationError, match=complaint):
        shake(trusting, server_of(make(authority), tmp_path), "localhost")


def test_a_client_shows_its_certificate(authority: CertificateAuthority, tmp_path: Path):
    server = server_of(authority.issue("broker-1"), tmp_path)
    server.load_verify_locations(cadata=authority.certificate_pem)
    server.verify_mode = ssl.CERT_REQUIRED
    ada = authority.issue("ada", hosts=(), unit="people")
    inline = Security(
        "SSL",
        ca_file=str(authority.write(tmp_path)),
        certificate_pem=ada.certificate_pem,
        key_pem=ada.key_pem,
    )
    shake(inline.tls_context(), server, "localhost")
    with pytest.raises(ssl.SSLError):
        shake(Security("SSL", ca_pem=authority.certificate_pem).tls_context(), server, "localhost")
    expired = authority.issue_expired("eve", hosts=())
    late = Security(
        "SSL", ca_pem=authority.certificate_pem, certificate_file=str(expired.write(tmp_path))
    )
    with pytest.raises(ssl.SSLError):
        shake(late.tls_context(), server, "localhost")


def test_keys_are_for_their_owner_alone_and_not_in_texts(
    authority: CertificateAuthority, tmp_path: Path
):
    made = authority.issue("broker-1")
    for path in (made.write(tmp_path), made.write_pkcs12(tmp_path, "of the test")):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert made.key_pem not in repr(made) and "PRIVATE" not in repr(made)
    from cryptography.hazmat.primitives.serialization import pkcs12

    data = (tmp_path / "broker-1.p12").read_bytes()
    key, certificate, _ = pkcs12.load_key_and_certificates(data, b"of the test")
    assert key is not None and certificate is not None
    assert sorted(path.name for path in tmp_path.iterdir()) == ["broker-1.p12", "broker-1.pem"]
