"""TLS of one listener: the context of its handshakes, and whom a certificate makes a client.

Sessions are not resumed: a client that comes again is verified again, with the trust and the dates
of that moment. TLS 1.2 is not renegotiated.
"""

from __future__ import annotations

import ssl
from collections.abc import Collection
from typing import Final

from msgspec import Struct

from fencepost.broker.config.listener_config import ListenerConfig
from fencepost.broker.security.certificate import CertificateError, Subject, read_subject
from fencepost.broker.security.ciphers import TLS_1_2, TLS_1_3
from fencepost.broker.security.principal_mapping import (
    RULES_KEY,
    NoPrincipalError,
    PrincipalMapping,
)
from fencepost.client.key_files import TRUST_FLAGS, KeyPair, key_pair, trusted_certificates
from fencepost.client.pem import load_pem
from fencepost.log.configdef import ConfigError
from fencepost.machines.session import ANONYMOUS, USER, Principal, SecurityProtocol

CLIENT_AUTH_KEY: Final = "ssl.client.auth"
_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_VERIFY: Final = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}


class ServerTls(Struct, frozen=True):
    """What all handshakes of a listener have in common."""

    context: ssl.SSLContext
    mapping: PrincipalMapping
    subject: Subject
    """Of the listener's own certificate."""

    def principal_of(self, certificate: bytes | None) -> Principal:
        """Who the client with this certificate (DER) is. NoPrincipalError."""
        if certificate is None:
            return ANONYMOUS
        try:
            name = self.mapping.name_of(read_subject(certificate).distinguished_name)
        except CertificateError as error:
            raise NoPrincipalError(str(error)) from None
        return Principal(USER, name)


def server_tls(config: ListenerConfig, protocol: SecurityProtocol) -> ServerTls:
    """TLS of a listener as configured; its files are read. ConfigError."""
    pair = key_pair(config)
    if pair is None:
        name = f"listener.name.{config.listener.lower()}.ssl.keystore.location"
        allowed = f"set (or ssl.keystore.location): listener {config.listener} is {protocol.name}"
        raise ConfigError(name, None, allowed)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION | ssl.OP_NO_TICKET
    context.num_tickets = 0
    context.options |= ssl.OP_CIPHER_SERVER_PREFERENCE
    set_versions(context, config)
    load_key_pair(context, config, pair)
    _ask_for_certificates(context, config, protocol)
    mapping = PrincipalMapping(config.get(RULES_KEY), config.name_of(RULES_KEY))
    return ServerTls(context, mapping, own_subject(config, pair))


def client_auth(config: ListenerConfig, protocol: SecurityProtocol) -> str:
    """Whether clients are asked for certificates: none, requested or required.

    On a SASL_SSL listener the key of all listeners does not count, as in Kafka: there clients log
    in by SASL.
    """
    if protocol is SecurityProtocol.SASL_SSL and not config.has_own(CLIENT_AUTH_KEY):
        return "none"
    return str(config.get(CLIENT_AUTH_KEY)).lower()


def set_versions(context: ssl.SSLContext, config: ListenerConfig) -> None:
    """Versions of TLS and cipher suites. ConfigError."""
    versions = [_VERSIONS[one] for one in config.get("ssl.enabled.protocols")]
    key, suites = config.name_of("ssl.cipher.suites"), config.get("ssl.cipher.suites")
    if suites:
        versions = _versions_with(versions, suites, key)
        older = [TLS_1_2[one] for one in suites if one in TLS_1_2]
        try:
            context.set_ciphers(":".join(older) or "ECDHE+AESGCM")
        except ssl.SSLError:
            raise ConfigError(key, ",".join(suites), "suites that OpenSSL offers") from None
    context.minimum_version, context.maximum_version = min(versions), max(versions)


def load_key_pair(context: ssl.SSLContext, config: ListenerConfig, pair: KeyPair) -> None:
    """Have the context show the certificate. ConfigError."""
    try:
        load_pem(context, pair.certificates, pair.key, pair.password)
    except (ssl.SSLError, OSError) as error:
        reason = getattr(error, "reason", None) or "the key's password is wrong, or it is no key"
        raise ConfigError(
            _key_name(config), "[hidden]", f"a key that goes with its certificate: {reason}"
        ) from None


def load_trusted(context: ssl.SSLContext, config: ListenerConfig, trusted: str) -> None:
    """Have the context trust what these authorities have signed. ConfigError."""
    try:
        context.load_verify_locations(cadata=trusted)
    except ssl.SSLError as error:
        name = config.name_of("ssl.truststore.location")
        raise ConfigError(name, "[hidden]", f"certificates: {error.reason}") from None
    context.verify_flags |= TRUST_FLAGS


def own_subject(config: ListenerConfig, pair: KeyPair) -> Subject:
    """Whose certificate the first of the pair is. ConfigError."""
    first = pair.certificates.partition("-----END CERTIFICATE-----")
    try:
        start = first[0].index("-----BEGIN CERTIFICATE-----")
        return read_subject(ssl.PEM_cert_to_DER_cert(first[0][start:] + first[1]))
    except (ValueError, CertificateError):
        raise ConfigError(_key_name(config), "[hidden]", "a certificate") from None


def _versions_with(
    versions: Collection[ssl.TLSVersion], suites: Collection[str], key: str
) -> list[ssl.TLSVersion]:
    """Those of the versions that have any of the suites. ConfigError."""
    unknown = [one for one in suites if one not in TLS_1_2 and one not in TLS_1_3]
    if unknown:
        known = ", ".join([*TLS_1_3, *TLS_1_2])
        raise ConfigError(key, unknown[0], f"out of {known}")
    newer = [one for one in suites if one in TLS_1_3]
    if newer and len(set(newer)) < len(TLS_1_3) and ssl.TLSVersion.TLSv1_3 in versions:
        allowed = f"all of {', '.join(TLS_1_3)}, or none: Python cannot choose among them"
        raise ConfigError(key, ",".join(newer), allowed)
    left = [
        one
        for one in versions
        if (newer if one is ssl.TLSVersion.TLSv1_3 else len(suites) > len(newer))
    ]
    if not left:
        raise ConfigError(key, ",".join(suites), "suites of a version in ssl.enabled.protocols")
    return left


def _ask_for_certificates(
    context: ssl.SSLContext, config: ListenerConfig, protocol: SecurityProtocol
) -> None:
    asked = client_auth(config, protocol)
    trusted = trusted_certificates(config)
    context.verify_mode = _VERIFY[asked]
    if asked == "none":
        return
    if trusted is None:
        name = config.name_of("ssl.truststore.location")
        allowed = f"set: {config.name_of(CLIENT_AUTH_KEY)}={asked}, and no authority is trusted"
        raise ConfigError(name, None, allowed)
    load_trusted(context, config, trusted)


def _key_name(config: ListenerConfig) -> str:
    is_inline = config.get("ssl.keystore.key") is not None
    return config.name_of("ssl.keystore.key" if is_inline else "ssl.keystore.location")
