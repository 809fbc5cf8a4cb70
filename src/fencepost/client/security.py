"""How a connection is secured: TLS, and SASL PLAIN, SCRAM or OAUTHBEARER.

`Security` is plain data, so it travels in pickles; its repr hides secrets. What is said in an
authentication is in `protocol.sasl`.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field

from fencepost.client.pem import load_pem
from fencepost.client.protocol.oauthbearer import MECHANISM as OAUTHBEARER, TokenSource

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", OAUTHBEARER)
TLS_VERSIONS = {
    "TLSv1": ssl.TLSVersion.TLSv1,
    "TLSv1.1": ssl.TLSVersion.TLSv1_1,
    "TLSv1.2": ssl.TLSVersion.TLSv1_2,
    "TLSv1.3": ssl.TLSVersion.TLSv1_3,
}


@dataclass(frozen=True, slots=True)
class Security:
    """What `security.protocol` and its companions say; PEM files only, no Java key stores."""

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
    def uses_tls(self) -> bool:
        return self.protocol.endswith("SSL")

    @property
    def uses_sasl(self) -> bool:
        return self.protocol.startswith("SASL")

    def tls_context(self) -> ssl.SSLContext:
        """A client context; raises OSError or ssl.SSLError on unreadable files."""
        context = ssl.create_default_context(cafile=self.ca_file, cadata=self.ca_pem)
        context.check_hostname = self.check_hostname
        if self.tls_versions:
            versions = [TLS_VERSIONS[name] for name in self.tls_versions]
            context.minimum_version, context.maximum_version = min(versions), max(versions)
        if self.certificate_file is not None:
            context.load_cert_chain(self.certificate_file, self.key_file, self.key_password)
        elif self.certificate_pem is not None:
            load_pem(context, self.certificate_pem, self.key_pem or "", self.key_password)
        return context
