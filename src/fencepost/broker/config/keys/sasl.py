"""SASL: who may log in at a listener, and how this node logs in at others.

A key that asks for what is not offered (GSSAPI, classes of Java's) is refused and not ignored, so
that no operator believes a node to be safer than it is.
"""

from __future__ import annotations

from typing import Final

from fencepost.broker.config.keys.definition import (
    BOOLEAN,
    CLASS,
    DOUBLE,
    INT,
    LIST,
    LONG,
    PASSWORD,
    PER_BROKER,
    SHORT,
    STRING,
    BrokerConfigDef,
    default_only,
    honoured,
)
from fencepost.log.configdef import at_least, distinct

_KERBEROS = "GSSAPI (Kerberos) is not offered"
_CLASS = "classes of Java's are not loaded"
_RENEWAL = "tokens are renewed at four fifths of their lifetime"
_ASSERTION = "assertions are not offered; client credentials and files of tokens are"
_TOKENS: Final = "sasl.oauthbearer."

_SERVER = (
    honoured(
        "sasl.enabled.mechanisms",
        LIST,
        ("GSSAPI",),
        distinct(may_be_empty=False),
        "Mechanisms of a listener: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER.",
        PER_BROKER,
    ),
    honoured(
        "sasl.jaas.config",
        PASSWORD,
        None,
        None,
        "Login module of a mechanism (listener.name.L.M.sasl.jaas.config); never set by a request.",
    ),
    honoured(
        "sasl.server.max.receive.size",
        INT,
        524_288,
        None,
        "Largest request before a client has logged in, in bytes.",
    ),
    honoured(
        "connections.max.reauth.ms",
        LONG,
        0,
        None,
        "How long a client may go on before it has to log in again; 0 for ever (KIP-368).",
    ),
    honoured(
        "fencepost.sasl.login.timeout.ms",
        INT,
        60_000,
        at_least(1),
        "How long after connecting a client may take to log in; Kafka has no such limit.",
    ),
    honoured(
        "fencepost.sasl.plain.users.file",
        STRING,
        None,
        None,
        "File of the users of PLAIN, NAME:HASH in each line.",
    ),
)
_CLIENT = (
    honoured(
        "sasl.mechanism.controller.protocol",
        STRING,
        "GSSAPI",
        None,
        "Mechanism that this node logs in by at controllers.",
    ),
    honoured(
        "sasl.mechanism.inter.broker.protocol",
        STRING,
        "GSSAPI",
        None,
        "Mechanism that this node logs in by at other brokers.",
        PER_BROKER,
    ),
    honoured(
        "sasl.login.retry.backoff.ms",
        LONG,
        100,
        None,
        "Pause before a token endpoint is asked again.",
    ),
    honoured(
        "sasl.login.retry.backoff.max.ms",
        LONG,
        10_000,
        None,
        "How long a token endpoint is asked again.",
    ),
    honoured(
        f"{_TOKENS}token.endpoint.url",
        STRING,
        None,
        None,
        "Where this node gets its own access token: https, http, or file.",
    ),
    honoured(
        f"{_TOKENS}client.credentials.client.id",
        STRING,
        None,
        None,
        "This node's id at the token endpoint.",
    ),
    honoured(
        f"{_TOKENS}client.credentials.client.secret",
        PASSWORD,
        None,
        None,
        "This node's secret at the token endpoint.",
    ),
    honoured(f"{_TOKENS}scope", STRING, None, None, "Scope that the token endpoint is asked for."),
)
_ACCESS_TOKENS = (
    honoured(
        f"{_TOKENS}allow.unverified.audience",
        BOOLEAN,
        False,
        None,
        "Whether tokens are taken for whatever audience, if no audience is expected.",
    ),
    honoured(
        f"{_TOKENS}allow.unverified.issuer",
        BOOLEAN,
        False,
        None,
        "Whether tokens are taken from whatever issuer, if no issuer is expected.",
    ),
    honoured(
        f"{_TOKENS}clock.skew.seconds", INT, 30, None, "By how much clocks may differ for tokens."
    ),
    honoured(
        f"{_TOKENS}expected.audience",
        LIST,
        (),
        distinct(may_be_empty=True),
        "Audiences of which tokens name one.",
    ),
    honoured(f"{_TOKENS}expected.issuer", STRING, None, None, "The issuer that tokens name."),
    honoured(
        f"{_TOKENS}jwks.endpoint.url",
        STRING,
        None,
        None,
        "Where the keys are that tokens are signed with: https or file.",
    ),
    honoured(
        f"{_TOKENS}jwks.endpoint.refresh.ms",
        LONG,
        3_600_000,
        None,
        "How often these keys are fetched.",
    ),
    honoured(
        f"{_TOKENS}jwks.endpoint.retry.backoff.ms",
        LONG,
        100,
        None,
        "Pause before they are fetched again, if that failed; longer each time.",
    ),
    honoured(
        f"{_TOKENS}jwks.endpoint.retry.backoff.max.ms",
        LONG,
        10_000,
        None,
        "The longest pause.",
    ),
    honoured(
        f"{_TOKENS}scope.claim.name", STRING, "scope", None, "The claim that has a token's scopes."
    ),
    honoured(
        f"{_TOKENS}sub.claim.name", STRING, "sub", None, "The claim that names a token's principal."
    ),
    honoured(
        "fencepost.sasl.oauthbearer.allowed.urls",
        LIST,
        (),
        None,
        "URLs that sasl.oauthbearer.jwks.endpoint.url may be (a property of the JVM in Kafka).",
    ),
)

KEYS: Final[tuple[BrokerConfigDef, ...]] = (
    *_SERVER,
    *_CLIENT,
    *_ACCESS_TOKENS,
    default_only("sasl.client.callback.handler.class", CLASS, None, _CLASS),
    default_only("sasl.kerberos.kinit.cmd", STRING, "/usr/bin/kinit", _KERBEROS, PER_BROKER),
    default_only("sasl.kerberos.min.time.before.relogin", LONG, 60_000, _KERBEROS, PER_BROKER),
    default_only(
        "sasl.kerberos.principal.to.local.rules", LIST, ("DEFAULT",), _KERBEROS, PER_BROKER
    ),
    default_only("sasl.kerberos.service.name", STRING, None, _KERBEROS, PER_BROKER),
    default_only("sasl.kerberos.ticket.renew.jitter", DOUBLE, 0.05, _KERBEROS, PER_BROKER),
    default_only("sasl.kerberos.ticket.renew.window.factor", DOUBLE, 0.8, _KERBEROS, PER_BROKER),
    default_only("sasl.login.callback.handler.class", CLASS, None, _CLASS),
    default_only("sasl.login.class", CLASS, None, _CLASS),
    default_only("sasl.login.connect.timeout.ms", INT, None, _RENEWAL),
    default_only("sasl.login.read.timeout.ms", INT, None, _RENEWAL),
    default_only("sasl.login.refresh.buffer.seconds", SHORT, 300, _RENEWAL, PER_BROKER),
    default_only("sasl.login.refresh.min.period.seconds", SHORT, 60, _RENEWAL, PER_BROKER),
    default_only("sasl.login.refresh.window.factor", DOUBLE, 0.8, _RENEWAL, PER_BROKER),
    default_only("sasl.login.refresh.window.jitter", DOUBLE, 0.05, _RENEWAL, PER_BROKER),
    default_only("sasl.oauthbearer.assertion.algorithm", STRING, "RS256", _ASSERTION),
    default_only("sasl.oauthbearer.assertion.claim.aud", STRING, None, _ASSERTION),
    default_only("sasl.oauthbearer.assertion.claim.exp.seconds", INT, 300, _ASSERTION),
    default_only("sasl.oauthbearer.assertion.claim.iss", STRING, None, _ASSERTION),
    default_only("sasl.oauthbearer.assertion.claim.jti.include", BOOLEAN, False, _ASSERTION),
    default_only("sasl.oauthbearer.assertion.claim.nbf.seconds", INT, 60, _ASSERTION),
    default_only("sasl.oauthbearer.assertion.claim.sub", STRING, None, _ASSERTION),
    default_only("sasl.oauthbearer.assertion.file", STRING, None, _ASSERTION),
    default_only("sasl.oauthbearer.assertion.private.key.file", STRING, None, _ASSERTION),
    default_only("sasl.oauthbearer.assertion.private.key.passphrase", PASSWORD, None, _ASSERTION),
    default_only("sasl.oauthbearer.assertion.template.file", STRING, None, _ASSERTION),
    default_only(
        "sasl.oauthbearer.jwt.retriever.class",
        CLASS,
        "org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever",
        _CLASS,
    ),
    default_only(
        "sasl.oauthbearer.jwt.validator.class",
        CLASS,
        "org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator",
        _CLASS,
    ),
    default_only("sasl.server.callback.handler.class", CLASS, None, _CLASS),
)
"""See the module."""
