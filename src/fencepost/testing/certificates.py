"""A certificate authority for tests: certificates for nodes and clients within milliseconds.

Keys are on the curve P-256, whose handshakes cost little. The faults that a client or a node must
notice are made on demand: a certificate that has expired or is not valid yet, one for another host,
one that another authority has signed. Needs the extra `security` (cryptography).
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

LOCAL_HOSTS: Final = ("localhost", "127.0.0.1", "::1")
VALID_FOR: Final = timedelta(days=90)
CLOCK_SKEW: Final = timedelta(minutes=5)
"""So much earlier than now a certificate begins to be valid."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate with its key, as PEM texts."""

    common_name: str
    certificate_pem: str
    key_pem: str = field(repr=False)
    """PKCS #8, not encrypted."""

    @property
    def chain_pem(self) -> str:
        """Key and certificate in one text, as Kafka's PEM stores have them."""
        return self.key_pem + self.certificate_pem

    def write(self, directory: Path) -> Path:
        """`NAME.pem` with key and certificate, for its owner alone; an older one is replaced."""
        return _write(directory / f"{self.common_name}.pem", self.chain_pem)

    def write_pkcs12(self, directory: Path, password: str, authority_pem: str = "") -> Path:
        """`NAME.p12` with key and certificate, and that of the authority, for its owner alone."""
        from cryptography import x509
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.serialization import pkcs12

        key = serialization.load_pem_private_key(self.key_pem.encode(), None)
        data = pkcs12.serialize_key_and_certificates(
            self.common_name.encode(),
            key,  # type: ignore[arg-type]
            x509.load_pem_x509_certificate(self.certificate_pem.encode()),
            x509.load_pem_x509_certificates(authority_pem.encode()) if authority_pem else None,
            serialization.BestAvailableEncryption(password.encode()),
        )
        return _write(directory / f"{self.common_name}.p12", data)


class CertificateAuthority:
    """Signs certificates that are trusted where its own is. Each object has a key of its own."""

    def __init__(self, name: str = "Fencepost test authority") -> None:
        """ImportError without the extra `security`."""
        try:
            from cryptography import x509
            from cryptography.hazmat.primitives.asymmetric import ec
        except ImportError as error:
            raise ImportError(
                "certificates need cryptography: pip install 'fencepost[security]'"
            ) from error
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        now = datetime.now(UTC)
        constraints = x509.BasicConstraints(ca=True, path_length=0)
        usage = _usage(signs_certificates=True)
        builder = self._builder(self._name, self._key, now - CLOCK_SKEW, now + VALID_FOR)
        builder = builder.add_extension(constraints, critical=True)
        self._certificate = _signed(builder.add_extension(usage, critical=True), self._key)
        self.certificate_pem: Final = _pem(self._certificate)
        """What clients and nodes have to trust."""

    def issue(
        self,
        common_name: str,
        *,
        hosts: Iterable[str] = LOCAL_HOSTS,
        valid_from: datetime | None = None,
        valid_for: timedelta = VALID_FOR,
        unit: str | None = None,
    ) -> Certificate:
        """A certificate for a node that is reached as one of `hosts` (names or addresses), or for a
        client. Its subject is `CN=...`, with `OU=...` if there is a unit."""
        from cryptography import x509
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.x509.oid import ExtendedKeyUsageOID

        key = ec.generate_private_key(ec.SECP256R1())
        parts = [x509.NameAttribute(x509.NameOID.COMMON_NAME, common_name)]
        if unit is not None:
            parts.insert(0, x509.NameAttribute(x509.NameOID.ORGANIZATIONAL_UNIT_NAME, unit))
        start = valid_from or datetime.now(UTC) - CLOCK_SKEW
        builder = self._builder(x509.Name(parts), key, start, start + CLOCK_SKEW + valid_for)
        names = [_general_name(host) for host in hosts]
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        purposes = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = builder.add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
        builder = builder.add_extension(_usage(signs_certificates=False), critical=True)
        key_pem = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        return Certificate(common_name, _pem(_signed(builder, self._key)), key_pem.decode())

    def issue_expired(self, common_name: str, *, hosts: Iterable[str] = LOCAL_HOSTS) -> Certificate:
        """A certificate whose time was over a day ago."""
        start = datetime.now(UTC) - timedelta(days=2)
        one_day = timedelta(days=1) - CLOCK_SKEW
        return self.issue(common_name, hosts=hosts, valid_from=start, valid_for=one_day)

    def write(self, directory: Path) -> Path:
        """`ca.pem` with the authority's certificate; the key stays in memory."""
        return _write(directory / "ca.pem", self.certificate_pem)

    def _builder(
        self, subject: x509.Name, key: EllipticCurvePrivateKey, start: datetime, end: datetime
    ) -> x509.CertificateBuilder:
        from cryptography import x509

        public = key.public_key()
        authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(start)
            .not_valid_after(end)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
            .add_extension(authority, critical=False)
        )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _general_name(host: str) -> x509.GeneralName:
    from cryptography import x509

    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _signed(builder: x509.CertificateBuilder, key: EllipticCurvePrivateKey) -> x509.Certificate:
    from cryptography.hazmat.primitives import hashes

    return builder.sign(key, hashes.SHA256())


def _pem(certificate: x509.Certificate) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding

    return certificate.public_bytes(Encoding.PEM).decode()


def _write(path: Path, content: str | bytes) -> Path:
    """Replace the file in one step, so that a node that reads it meanwhile finds a whole one."""
    data = content.encode() if isinstance(content, str) else content
    draft = path.with_name(f".{path.name}.draft")
    draft.unlink(missing_ok=True)
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(data)
    draft.replace(path)
    return path
