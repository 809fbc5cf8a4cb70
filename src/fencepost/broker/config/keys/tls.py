"""TLS of listeners and of connections to other nodes, as Kafka configures it.

A key that names a class or an algorithm of Java's has only its default: another value asks for
something that OpenSSL does otherwise, and is refused and not ignored, so that no operator believes
a node to be safer than it is.
"""

from __future__ import annotations

from typing import Final

from fencepost.broker.config.keys.definition import (
    BOOLEAN,
    CLASS,
    LIST,
    PASSWORD,
    PER_BROKER,
    STRING,
    BrokerConfigDef,
    default_only,
    honoured,
)
from fencepost.log.configdef import Validator, distinct, each_of, one_of_any_case

_JAVA: Final = "OpenSSL does TLS here, and no Java class"
_TYPES: Final = one_of_any_case("JKS", "PKCS12", "PEM")

_NOT_EMPTY: Final = Validator("not empty", lambda value: value is None or bool(value))

_KEYS_OF_ITS_OWN = (
    honoured(
        "ssl.keystore.type",
        STRING,
        "JKS",
        _TYPES,
        "PEM or PKCS12; JKS is read as PKCS12, which Java writes under that name, too.",
        PER_BROKER,
    ),
    honoured(
        "ssl.keystore.location",
        STRING,
        None,
        _NOT_EMPTY,
        "File with the private key and its certificate chain, which others must not be able to"
        " read.",
        PER_BROKER,
    ),
    honoured("ssl.keystore.password", PASSWORD, None, None, "Of a PKCS12 key store.", PER_BROKER),
    honoured(
        "ssl.keystore.key", PASSWORD, None, _NOT_EMPTY, "The private key itself, PEM.", PER_BROKER
    ),
    honoured(
        "ssl.keystore.certificate.chain",
        PASSWORD,
        None,
        _NOT_EMPTY,
        "The certificate chain itself, PEM, with ssl.keystore.key.",
        PER_BROKER,
    ),
    honoured(
        "ssl.key.password", PASSWORD, None, None, "Of an encrypted private key in PEM.", PER_BROKER
    ),
    honoured(
        "ssl.truststore.type",
        STRING,
        "JKS",
        _TYPES,
        "Likewise, of ssl.truststore.location.",
        PER_BROKER,
    ),
    honoured(
        "ssl.truststore.location",
        STRING,
        None,
        _NOT_EMPTY,
        "File with the certificates of the authorities that sign for clients and other nodes.",
        PER_BROKER,
    ),
    honoured(
        "ssl.truststore.password", PASSWORD, None, None, "Of a PKCS12 trust store.", PER_BROKER
    ),
    honoured(
        "ssl.truststore.certificates",
        PASSWORD,
        None,
        _NOT_EMPTY,
        "These certificates themselves, PEM.",
        PER_BROKER,
    ),
)

_HANDSHAKES = (
    honoured(
        "ssl.client.auth",
        STRING,
        "none",
        one_of_any_case("none", "requested", "required"),
        "Whether clients are asked for certificates. Without a listener's prefix it is not for"
        " SASL_SSL listeners.",
        PER_BROKER,
    ),
    honoured(
        "ssl.principal.mapping.rules",
        STRING,
        "DEFAULT",
        None,
        "Principals of clients' certificates: RULE:pattern/replacement/[LU], DEFAULT.",
    ),
    honoured(
        "ssl.enabled.protocols",
        LIST,
        ("TLSv1.2", "TLSv1.3"),
        each_of("TLSv1.2", "TLSv1.3", may_be_empty=False),
        "Versions of TLS; older ones are not offered.",
        PER_BROKER,
    ),
    honoured(
        "ssl.cipher.suites",
        LIST,
        (),
        distinct(may_be_empty=True),
        "Cipher suites by their names at IANA; OpenSSL's choice if empty.",
        PER_BROKER,
    ),
    honoured(
        "ssl.endpoint.identification.algorithm",
        STRING,
        "https",
        one_of_any_case("https", ""),
        "https: other nodes must have their host's name in their certificate; empty: need not.",
        PER_BROKER,
    ),
    honoured(
        "ssl.allow.dn.changes",
        BOOLEAN,
        False,
        None,
        "Whether a new certificate of brokers' own listener may have another subject.",
    ),
    honoured(
        "ssl.allow.san.changes",
        BOOLEAN,
        False,
        None,
        "Whether a new certificate of brokers' own listener may lack alternative names.",
    ),
)

_JAVAS = (
    default_only("ssl.engine.factory.class", CLASS, None, _JAVA, PER_BROKER),
    default_only("ssl.keymanager.algorithm", STRING, "SunX509", _JAVA, PER_BROKER),
    default_only(
        "ssl.protocol", STRING, "TLSv1.3", "ssl.enabled.protocols says which versions", PER_BROKER
    ),
    default_only("ssl.provider", STRING, None, _JAVA, PER_BROKER),
    default_only("ssl.secure.random.implementation", STRING, None, _JAVA, PER_BROKER),
    default_only("ssl.trustmanager.algorithm", STRING, "PKIX", _JAVA, PER_BROKER),
)

KEYS: Final[tuple[BrokerConfigDef, ...]] = (*_KEYS_OF_ITS_OWN, *_HANDSHAKES, *_JAVAS)
"""See the module."""
