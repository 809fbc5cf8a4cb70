"""A certificate authority for tests: P-256 keys, certificates for a day."""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)
from cryptography.x509.oid import NameOID

DAY = datetime.timedelta(days=1)


def _name(words: dict[str, str]) -> x509.Name:
    oids = {
        "CN": NameOID.COMMON_NAME,
        "OU": NameOID.ORGANIZATIONAL_UNIT_NAME,
        "O": NameOID.ORGANIZATION_NAME,
    }
    return x509.Name([x509.NameAttribute(oids[word], text) for word, text in words.items()])


class Identity:
    """A key and its certificate."""

    def __init__(self, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> None:
        self.key = key
        self.certificate = certificate

    @property
    def certificate_pem(self) -> str:
        return self.certificate.public_bytes(Encoding.PEM).decode()

    @property
    def der(self) -> bytes:
        return self.certificate.public_bytes(Encoding.DER)

    def key_pem(self, password: str | None = None) -> str:
        secret = BestAvailableEncryption(password.encode()) if password else NoEncryption()
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, secret).decode()

    def write_pem(self, path: Path) -> Path:
        """Key and certificate in one file, as Kafka reads it."""
        path.write_text(self.key_pem() + self.certificate_pem)
        path.chmod(0o600)
        return path

    def write_pkcs12(self, path: Path, password: str) -> Path:
        secret = BestAvailableEncryption(password.encode())
        path.write_bytes(
            pkcs12.serialize_key_and_certificates(b"one", self.key, self.certificate, None, secret)
        )
        path.chmod(0o600)
        return path


class Authority:
    """Signs certificates."""

    def __init__(self, name: str = "Test CA") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name({"CN": name})
        builder = self._builder(self._name, self._key, DAY)
        self.certificate = builder.add_extension(
            x509.BasicConstraints(ca=True, path_length=0), critical=True
        ).sign(self._key, hashes.SHA256())
        self.pem = self.certificate.public_bytes(Encoding.PEM).decode()

    def write(self, path: Path) -> Path:
        path.write_text(self.pem)
        return path

    def issue(
        self,
        words: dict[str, str] | None = None,
        hosts: tuple[str, ...] = ("localhost", "127.0.0.1"),
        *,
        lasts: datetime.timedelta = DAY,
    ) -> Identity:
        """A certificate for the subject and the hosts; one that has expired if `lasts` is < 0."""
        key = ec.generate_private_key(ec.SECP256R1())
        names: list[x509.GeneralName] = []
        for host in hosts:
            try:
                names.append(x509.IPAddress(ipaddress.ip_address(host)))
            except ValueError:
                names.append(x509.DNSName(host))
        builder = self._builder(_name(words or {"CN": "broker"}), key, lasts)
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return Identity(key, builder.sign(self._key, hashes.SHA256()))

    def _builder(
        self, name: x509.Name, key: ec.EllipticCurvePrivateKey, lasts: datetime.timedelta
    ) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - 2 * DAY)
            .not_valid_after(now + lasts)
        )
