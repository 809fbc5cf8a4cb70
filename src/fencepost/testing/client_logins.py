"""How a client reaches a secured cluster, in the words of each client library.

A `ClientLogin` says where, whom to trust and as whom to log in; each method gives the configuration
of one library, ready to be passed on.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from fencepost.client.jaas import jaas_line

OAUTHBEARER: Final = "OAUTHBEARER"
_MODULES: Final = "org.apache.kafka.common.security"


@dataclass(frozen=True, slots=True)
class ClientLogin:
    """A login: of a user by a SASL mechanism, by a client's certificate, or of none."""

    bootstrap_servers: str
    protocol: str
    """PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL."""
    mechanism: str | None = None
    """PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER."""
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    """The access token that OAUTHBEARER shows."""
    token_file: Path | None = None
    """A file with the token, for clients that read it from there. Java's take a file that the
    property `org.apache.kafka.sasl.oauthbearer.allowed.urls` of their JVM names."""
    is_delegation_token: bool = False
    """Whether the user name and password are a delegation token's id and HMAC."""
    ca_file: Path | None = None
    """PEM: the authorities that are trusted."""
    certificate_file: Path | None = None
    """PEM: the client's key and certificate."""

    @property
    def uses_tls(self) -> bool:
        return self.protocol.endswith("SSL")

    @property
    def uses_sasl(self) -> bool:
        return self.protocol.startswith("SASL")

    def properties(self) -> dict[str, str]:
        """Of Java's clients and tools, and of Fencepost's: `ClientConfig.from_props`."""
        props = {"bootstrap.servers": self.bootstrap_servers, "security.protocol": self.protocol}
        if self.uses_tls and self.ca_file is not None:
            props["ssl.truststore.type"] = "PEM"
            props["ssl.truststore.location"] = str(self.ca_file)
        if self.uses_tls and self.certificate_file is not None:
            props["ssl.keystore.type"] = "PEM"
            props["ssl.keystore.location"] = str(self.certificate_file)
        if self.uses_sasl and self.mechanism is not None:
            props["sasl.mechanism"] = self.mechanism
            props["sasl.jaas.config"] = self._jaas()
            if self.mechanism == OAUTHBEARER and self.token_file is not None:
                # Without this handler Java's clients make up tokens that no issuer has signed.
                handler = f"{_MODULES}.oauthbearer.OAuthBearerLoginCallbackHandler"
                props["sasl.login.callback.handler.class"] = handler
                props["sasl.oauthbearer.token.endpoint.url"] = self.token_file.absolute().as_uri()
        return props

    def properties_text(self) -> str:
        """The same as a properties file has them."""
        escaped = {key: text.replace("\\", "\\\\") for key, text in self.properties().items()}
        return "".join(f"{key}={text}\n" for key, text in escaped.items())

    def spark_options(self) -> dict[str, str]:
        """Options of Spark's sources and sinks, ours and `kafka`."""
        return {f"kafka.{key}": text for key, text in self.properties().items()}

    def confluent(self) -> dict[str, Any]:
        """Of confluent-kafka (librdkafka). An access token is given by a callback."""
        chosen: dict[str, Any] = {
            "bootstrap.servers": self.bootstrap_servers,
            "security.protocol": self.protocol,
        }
        if self.uses_tls and self.ca_file is not None:
            chosen["ssl.ca.location"] = str(self.ca_file)
        if self.uses_tls and self.certificate_file is not None:
            chosen["ssl.certificate.location"] = str(self.certificate_file)
            chosen["ssl.key.location"] = str(self.certificate_file)
        if self.uses_sasl:
            chosen["sasl.mechanisms"] = self.mechanism
            if self.mechanism == OAUTHBEARER:
                token = self.token
                chosen["oauth_cb"] = lambda _: (token, 2**31)
            else:
                chosen |= {"sasl.username": self.username, "sasl.password": self.password}
        return chosen

    def aiokafka(self) -> dict[str, Any]:
        """Keyword arguments of aiokafka's clients."""
        chosen = self._python_arguments()
        if self.token is not None:
            from aiokafka.abc import AbstractTokenProvider

            token = self.token

            class Provider(AbstractTokenProvider):  # type: ignore[misc]  # untyped
                async def token(self) -> str:
                    return token

            chosen["sasl_oauth_token_provider"] = Provider()
        return chosen

    def kafka_python(self) -> dict[str, Any]:
        """Keyword arguments of kafka-python's clients."""
        chosen = self._python_arguments()
        if self.token is not None:
            from kafka.net.sasl.oauth import AbstractTokenProvider

            text = self.token

            class Provider(AbstractTokenProvider):  # type: ignore[misc]  # untyped
                def token(self) -> str:
                    return text

            chosen["sasl_oauth_token_provider"] = Provider()
        return chosen

    def _python_arguments(self) -> dict[str, Any]:
        chosen: dict[str, Any] = {
            "bootstrap_servers": self.bootstrap_servers,
            "security_protocol": self.protocol,
        }
        if self.uses_tls:
            chosen["ssl_context"] = self.ssl_context()
        if self.uses_sasl:
            chosen["sasl_mechanism"] = self.mechanism
            if self.mechanism != OAUTHBEARER:
                chosen["sasl_plain_username"] = self.username
                chosen["sasl_plain_password"] = self.password
        return chosen

    def ssl_context(self) -> ssl.SSLContext:
        """For clients that take one: it trusts `ca_file` alone and shows the certificate."""
        context = ssl.create_default_context(cafile=self.ca_file)
        if self.certificate_file is not None:
            context.load_cert_chain(self.certificate_file)
        return context

    def _jaas(self) -> str:
        if self.mechanism == OAUTHBEARER:
            if self.token_file is None:
                raise ValueError("an access token is given to Java by a file or an endpoint")
            return jaas_line(f"{_MODULES}.oauthbearer.OAuthBearerLoginModule", {})
        options = {"username": self.username or "", "password": self.password or ""}
        if self.is_delegation_token:
            options["tokenauth"] = "true"
        package = "plain.Plain" if self.mechanism == "PLAIN" else "scram.Scram"
        return jaas_line(f"{_MODULES}.{package}LoginModule", options)
