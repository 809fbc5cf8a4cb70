"""SASL, which is not offered.

A key that asks for it is refused and not ignored, so that no operator believes a node to be safer
than it is. Kafka's defaults may be written out: they ask for nothing.
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
)

_SASL = "SASL is not offered"

KEYS: Final[tuple[BrokerConfigDef, ...]] = (
    default_only("sasl.client.callback.handler.class", CLASS, None, _SASL),
    default_only("sasl.enabled.mechanisms", LIST, ("GSSAPI",), _SASL, PER_BROKER),
    default_only("sasl.jaas.config", PASSWORD, None, _SASL, PER_BROKER),
    default_only("sasl.kerberos.kinit.cmd", STRING, "/usr/bin/kinit", _SASL, PER_BROKER),
    default_only("sasl.kerberos.min.time.before.relogin", LONG, 60_000, _SASL, PER_BROKER),
    default_only("sasl.kerberos.principal.to.local.rules", LIST, ("DEFAULT",), _SASL, PER_BROKER),
    default_only("sasl.kerberos.service.name", STRING, None, _SASL, PER_BROKER),
    default_only("sasl.kerberos.ticket.renew.jitter", DOUBLE, 0.05, _SASL, PER_BROKER),
    default_only("sasl.kerberos.ticket.renew.window.factor", DOUBLE, 0.8, _SASL, PER_BROKER),
    default_only("sasl.login.callback.handler.class", CLASS, None, _SASL),
    default_only("sasl.login.class", CLASS, None, _SASL),
    default_only("sasl.login.connect.timeout.ms", INT, None, _SASL),
    default_only("sasl.login.read.timeout.ms", INT, None, _SASL),
    default_only("sasl.login.refresh.buffer.seconds", SHORT, 300, _SASL, PER_BROKER),
    default_only("sasl.login.refresh.min.period.seconds", SHORT, 60, _SASL, PER_BROKER),
    default_only("sasl.login.refresh.window.factor", DOUBLE, 0.8, _SASL, PER_BROKER),
    default_only("sasl.login.refresh.window.jitter", DOUBLE, 0.05, _SASL, PER_BROKER),
    default_only("sasl.login.retry.backoff.max.ms", LONG, 10_000, _SASL),
    default_only("sasl.login.retry.backoff.ms", LONG, 100, _SASL),
    default_only("sasl.mechanism.controller.protocol", STRING, "GSSAPI", _SASL),
    default_only("sasl.mechanism.inter.broker.protocol", STRING, "GSSAPI", _SASL, PER_BROKER),
    default_only("sasl.oauthbearer.allow.unverified.audience", BOOLEAN, False, _SASL),
    default_only("sasl.oauthbearer.allow.unverified.issuer", BOOLEAN, False, _SASL),
    default_only("sasl.oauthbearer.assertion.algorithm", STRING, "RS256", _SASL),
    default_only("sasl.oauthbearer.assertion.claim.aud", STRING, None, _SASL),
    default_only("sasl.oauthbearer.assertion.claim.exp.seconds", INT, 300, _SASL),
    default_only("sasl.oauthbearer.assertion.claim.iss", STRING, None, _SASL),
    default_only("sasl.oauthbearer.assertion.claim.jti.include", BOOLEAN, False, _SASL),
    default_only("sasl.oauthbearer.assertion.claim.nbf.seconds", INT, 60, _SASL),
    default_only("sasl.oauthbearer.assertion.claim.sub", STRING, None, _SASL),
    default_only("sasl.oauthbearer.assertion.file", STRING, None, _SASL),
    default_only("sasl.oauthbearer.assertion.private.key.file", STRING, None, _SASL),
    default_only("sasl.oauthbearer.assertion.private.key.passphrase", PASSWORD, None, _SASL),
    default_only("sasl.oauthbearer.assertion.template.file", STRING, None, _SASL),
    default_only("sasl.oauthbearer.client.credentials.client.id", STRING, None, _SASL),
    default_only("sasl.oauthbearer.client.credentials.client.secret", PASSWORD, None, _SASL),
    default_only("sasl.oauthbearer.clock.skew.seconds", INT, 30, _SASL),
    default_only("sasl.oauthbearer.expected.audience", LIST, (), _SASL),
    default_only("sasl.oauthbearer.expected.issuer", STRING, None, _SASL),
    default_only("sasl.oauthbearer.jwks.endpoint.refresh.ms", LONG, 3_600_000, _SASL),
    default_only("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", LONG, 10_000, _SASL),
    default_only("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", LONG, 100, _SASL),
    default_only("sasl.oauthbearer.jwks.endpoint.url", STRING, None, _SASL),
    default_only(
        "sasl.oauthbearer.jwt.retriever.class",
        CLASS,
        "org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever",
        _SASL,
    ),
    default_only(
        "sasl.oauthbearer.jwt.validator.class",
        CLASS,
        "org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator",
        _SASL,
    ),
    default_only("sasl.oauthbearer.scope", STRING, None, _SASL),
    default_only("sasl.oauthbearer.scope.claim.name", STRING, "scope", _SASL),
    default_only("sasl.oauthbearer.sub.claim.name", STRING, "sub", _SASL),
    default_only("sasl.oauthbearer.token.endpoint.url", STRING, None, _SASL),
    default_only("sasl.server.callback.handler.class", CLASS, None, _SASL),
    default_only("sasl.server.max.receive.size", INT, 524_288, _SASL),
    default_only("connections.max.reauth.ms", LONG, 0, _SASL),
)
"""See the module."""
