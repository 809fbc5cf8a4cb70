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
_FLIGHTS_MAX: Final = 10
_NO_CHECK_TIME: Final = ssl.VerifyFlags(0x20_0000)
"""X509_V_FLAG_NO_CHECK_TIME of OpenSSL."""
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
    trusted: str | None = None
    """Certificates of the authorities in the listener's trust store (PEM); None: it has none."""

    def principal_of(self, certificate: bytes | None) -> Principal:
        """Who the client with this certificate (DER) is. NoPrincipalError."""
        if certificate is None:
            return ANONYMOUS
        try:
            name = self.mapping.name_of(read_subject(certificate).distinguished_name)
        except CertificateError as error:
            raise NoPrincipalError(str(error)) from None
        return Principal(USER, name)

    def distrust(self, trusted: str, *, at_any_time: bool = False) -> str | None:
        """Why a client that trusts these authorities (PEM) refuses the listener's certificate; None
        if it does not. The name in it is not looked at; nor its dates, if it is for any time."""
        client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        client.check_hostname = False
        client.load_verify_locations(cadata=trusted)
        client.verify_flags |= TRUST_FLAGS | (_NO_CHECK_TIME if at_any_time else 0)
        try:
            _shake_hands(client, self.context)
        except ssl.SSLCertVerificationError as error:
            return error.verify_message
        return None


def _shake_hands(client: ssl.SSLContext, server: ssl.SSLContext) -> None:
    """A handshake in memory, until the client has verified the server. SSLCertVerificationError."""
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = (
        client.wrap_bio(to_client, to_server),
        server.wrap_bio(to_server, to_client, server_side=True),
    )
    for _ in range(_FLIGHTS_MAX):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLCertVerificationError:
                if not end.server_side:
                    raise
                return
            except ssl.SSLError:  # the server wants a certificate of the client's, and is verified
                return


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
    trusted = trusted_certificates(config)
    _ask_for_certificates(context, config, protocol, trusted)
    mapping = PrincipalMapping(config.get(RULES_KEY), config.name_of(RULES_KEY))
    return ServerTls(context, mapping, own_subject(config, pair), trusted)


def check_own_trust(config: ListenerConfig, new: ServerTls, old: ServerTls | None = None) -> None:
    """Whether nodes with these key files can connect to each other, and to those with the old ones:
    for the listener that brokers use among themselves, where it has a trust store. Nodes have the
    same files, and change them one after the other. ConfigError. Kafka checks the same; that a
    certificate has expired is no reason here not to start, and none not to replace it.
    """
    trusted = new.trusted if old is None else old.trusted
    shown, key = new, "keystore"
    why = None if trusted is None else new.distrust(trusted, at_any_time=old is None)
    if why is None and old is not None and new.trusted is not None:
        shown, key = old, "truststore"
        why = old.distrust(new.trusted, at_any_time=True)
    if why is not None:
        allowed = {
            "keystore": "a certificate that the listener's own trust store verifies",
            "truststore": "authorities by which the certificate in use is verified, too",
        }[key]
        name = config.name_of(f"ssl.{key}.location")
        raise ConfigError(name, shown.subject.distinguished_name, f"{allowed}: {why}")


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
    context: ssl.SSLContext, config: ListenerConfig, protocol: SecurityProtocol, trusted: str | None
) -> None:
    asked = client_auth(config, protocol)
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
