"""How a connection is secured: TLS, and SASL PLAIN or SCRAM.

`Security` is plain data, so it travels in pickles; its repr hides secrets. What is said in an
authentication is in `protocol.sasl`.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


@dataclass(frozen=True, slots=True)
class Security:
    """What `security.protocol` and its companions say; PEM files only, no Java key stores."""

    protocol: str = "PLAINTEXT"
    ca_file: str | None = None
    ca_pem: str | None = field(default=None, repr=False)
    certificate_file: str | None = None
    key_file: str | None = None
    key_password: str | None = field(default=None, repr=False)
    check_hostname: bool = True
    mechanism: str = "PLAIN"
    username: str | None = None
    password: str | None = field(default=None, repr=False)

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
        if self.certificate_file is not None:
            context.load_cert_chain(self.certificate_file, self.key_file, self.key_password)
        return context
