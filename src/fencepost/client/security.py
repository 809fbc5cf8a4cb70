"""How a connection is secured: TLS, and SASL PLAIN, SCRAM or OAUTHBEARER.

`Security` is plain data, so it travels in pickles; its repr hides secrets. What is said in an
authentication is in `protocol.sasl`.
"""

from __future__ import annotations

import re
import ssl
from dataclasses import dataclass, field

from fencepost.client.errors import AuthenticationFailed, ClientError, ConfigError, ConnectionFailed
from fencepost.client.key_files import (
    TRUST_FLAGS,
    check_files,
    check_key_file,
    key_pair,
    trusted_certificates,
)
from fencepost.client.pem import load_pem
from fencepost.client.protocol.oauthbearer import MECHANISM as OAUTHBEARER, TokenSource
from fencepost.log.configdef import ConfigError as KeyFileError

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", OAUTHBEARER)
TLS_VERSIONS = {
    "TLSv1": ssl.TLSVersion.TLSv1,
    "TLSv1.1": ssl.TLSVersion.TLSv1_1,
    "TLSv1.2": ssl.TLSVersion.TLSv1_2,
    "TLSv1.3": ssl.TLSVersion.TLSv1_3,
}


_REFUSALS = re.compile(
    r"_ALERT_(?:UNKNOWN_CA|ACCESS_DENIED|HANDSHAKE_FAILURE|PROTOCOL_VERSION"
    r"|(?:BAD|NO|UNSUPPORTED)_CERTIFICATE|CERTIFICATE_(?:EXPIRED|REQUIRED|REVOKED|UNKNOWN))$"
)
"""OpenSSL's names of the alerts by which a broker refuses a client's TLS. From TLS 1.3 on the
client hears of it when its side of the handshake is done, at its first read."""


def lost_connection(error: BaseException, text: str, host: str) -> ClientError:
    """What to raise for a connection that broke: AuthenticationFailed, which is not tried again,
    if the broker refused the client's certificate or version of TLS; else ConnectionFailed."""
    if isinstance(error, ssl.SSLError) and _REFUSALS.search(error.reason or ""):
        return AuthenticationFailed(f"the broker refused this client's TLS: {text}", host=host)
    return ConnectionFailed(text, host=host)


@dataclass(frozen=True, slots=True)
class Security:
    """What `security.protocol` and its companions say: key stores in PEM or PKCS#12."""

    protocol: str = "PLAINTEXT"
    ca_file: str | None = None
    ca_pem: str | None = field(default=None, repr=False)
    certificate_file: str | None = None
    key_file: str | None = None
    certificate_pem: str | None = field(default=None, repr=False)
    key_pem: str | None = field(default=None, repr=False)
    key_password: str | None = field(default=None, repr=False)
    check_hostname: bool = True
    tls_versions: tuple[str, ...] = ()
    mechanism: str = "PLAIN"
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    token_authenticated: bool = False
    """Whether SCRAM's user name and password are a delegation token's id and HMAC (KIP-48)."""
    tokens: TokenSource = field(default_factory=TokenSource)
    ca_type: str = ""
    """PEM, PKCS12 or JKS, which stands for PKCS12; "" is what the file is."""
    ca_password: str | None = field(default=None, repr=False)
    certificate_type: str = ""
    certificate_password: str | None = field(default=None, repr=False)
    """Of a PKCS#12 file; `key_password` is of a key in PEM."""

    def missing(self) -> str | None:
        """What SASL cannot do without and is not there; None when nothing is missing."""
        if not self.uses_sasl:
            return None
        if self.mechanism == OAUTHBEARER:
            return self.tokens.missing()
        if self.username is None or self.password is None:
            return "sasl.username and sasl.password, or sasl.jaas.config"
        return None

    @property
    def hint(self) -> str:
        """What to say of a broker that disconnects at the first request; "" where TLS has begun."""
        if self.uses_tls:
            return ""
        return f" (security.protocol={self.protocol}: does its listener have TLS?)"

    @property
    def uses_tls(self) -> bool:
        return self.protocol.endswith("SSL")

    @property
    def uses_sasl(self) -> bool:
        return self.protocol.startswith("SASL")

    def tls_context(self) -> ssl.SSLContext:
        """A client context; the files are read again.

        ConfigError for files that cannot be used; OSError or ssl.SSLError where a key is in a file
        of its own (`key_file`) or does not go with its certificate.
        """
        try:
            trusted = trusted_certificates(_Stores(self))
            # A client's key may be readable for a group of programs, as Kafka's may.
            pair = None if self.key_file else key_pair(_Stores(self), is_private=False)
            if self.key_file is not None:
                check_key_file(self.key_file)
        except KeyFileError as error:
            raise ConfigError(error.key, error.value, f"must be {error.allowed}") from None
        context = ssl.create_default_context(cadata=trusted)
        if trusted is not None:
            context.verify_flags |= TRUST_FLAGS
        context.check_hostname = self.check_hostname
        if self.tls_versions:
            versions = [TLS_VERSIONS[name] for name in self.tls_versions]
            context.minimum_version, context.maximum_version = min(versions), max(versions)
        if self.certificate_file is not None and self.key_file is not None:
            context.load_cert_chain(self.certificate_file, self.key_file, self.key_password)
        elif pair is not None:
            load_pem(context, pair.certificates, pair.key, pair.password)
        return context

    def check_files(self) -> None:
        """Refuse key stores that are none or contradict the other values; what cannot be read on
        this machine is not looked at. ConfigError."""
        try:
            check_files(_Stores(self))
        except KeyFileError as error:
            raise ConfigError(error.key, error.value, f"must be {error.allowed}") from None


class _Stores:
    """A client's key stores, under Kafka's names."""

    def __init__(self, security: Security) -> None:
        own = security.key_file is None  # else the certificate's file has no key
        self._values = {
            "ssl.keystore.type": security.certificate_type,
            "ssl.keystore.location": security.certificate_file if own else None,
            "ssl.keystore.password": security.certificate_password,
            "ssl.keystore.key": security.key_pem,
            "ssl.keystore.certificate.chain": security.certificate_pem,
            "ssl.key.password": security.key_password,
            "ssl.truststore.type": security.ca_type,
            "ssl.truststore.location": security.ca_file,
            "ssl.truststore.password": security.ca_password,
            "ssl.truststore.certificates": security.ca_pem,
        }

    def get(self, key: str) -> str | None:
        return self._values[key]

    def name_of(self, key: str) -> str:
        return key
