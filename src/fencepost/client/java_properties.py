"""Properties that Apache Kafka's Java clients know and ours have nothing to do with.

A program that moves over brings its properties along, so these are accepted: the value is checked
as Kafka checks its type, and what has no effect is said once. What is in neither this table nor
`config.KNOWN` is a mistake and is refused. An interop test holds both tables against the classes
of Kafka's jar (ProducerConfig, ConsumerConfig, AdminClientConfig of 4.4).
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from typing import Final

from fencepost.client.errors import ConfigError

log = logging.getLogger("fencepost.client")

_JVM: Final = "there is no Java here to load a class or read a setting of it"
_OWN_RULES: Final = "connections and retries follow retry.backoff.ms and default.api.timeout.ms"
_METRICS: Final = "clients keep no metrics"
_TLS: Final = "TLS is OpenSSL's, with its own choice"
_KERBEROS: Final = "GSSAPI is not supported"
_TOKENS: Final = "access tokens are passed on to the broker, which checks them"
_NO_GROUP_STATE: Final = "offsets are committed when told"
_PARTITIONING: Final = "rows without a key go to partitions in turn"
_LEADERS: Final = "partitions are read from their leaders"

_REASONS: Final[dict[str, dict[str, str]]] = {
    _JVM: {
        "config.providers": "list",
        "interceptor.classes": "list",
        "key.deserializer": "class",
        "key.serializer": "class",
        "value.deserializer": "class",
        "value.serializer": "class",
        "security.providers": "string",
        "sasl.client.callback.handler.class": "class",
        "sasl.login.class": "class",
    },
    _OWN_RULES: {
        "bootstrap.resolve.timeout.ms": "long",
        "connections.max.idle.ms": "long",
        "metadata.max.idle.ms": "long",
        "metadata.recovery.rebootstrap.trigger.ms": "long",
        "metadata.recovery.strategy": "string",
        "reconnect.backoff.max.ms": "long",
        "reconnect.backoff.ms": "long",
        "sasl.login.connect.timeout.ms": "int",
        "socket.connection.setup.timeout.max.ms": "long",
        "bootstrap.controllers": "list",
    },
    _METRICS: {
        "enable.metrics.push": "boolean",
        "metric.reporters": "list",
        "metrics.num.samples": "int",
        "metrics.recording.level": "string",
        "metrics.sample.window.ms": "long",
    },
    _TLS: {
        "ssl.cipher.suites": "list",
        "ssl.engine.factory.class": "class",
        "ssl.keymanager.algorithm": "string",
        "ssl.protocol": "string",
        "ssl.provider": "string",
        "ssl.secure.random.implementation": "string",
        "ssl.trustmanager.algorithm": "string",
    },
    _KERBEROS: {
        "sasl.kerberos.kinit.cmd": "string",
        "sasl.kerberos.min.time.before.relogin": "long",
        "sasl.kerberos.service.name": "string",
        "sasl.kerberos.ticket.renew.jitter": "double",
        "sasl.kerberos.ticket.renew.window.factor": "double",
    },
    _TOKENS: {
        "sasl.oauthbearer.allow.unverified.audience": "boolean",
        "sasl.oauthbearer.allow.unverified.issuer": "boolean",
        "sasl.oauthbearer.clock.skew.seconds": "int",
        "sasl.oauthbearer.expected.audience": "list",
        "sasl.oauthbearer.expected.issuer": "string",
        "sasl.oauthbearer.jwks.endpoint.refresh.ms": "long",
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms": "long",
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms": "long",
        "sasl.oauthbearer.jwks.endpoint.url": "string",
        "sasl.oauthbearer.jwt.validator.class": "class",
        "sasl.oauthbearer.scope.claim.name": "string",
        "sasl.oauthbearer.sub.claim.name": "string",
        "sasl.login.refresh.buffer.seconds": "short",
        "sasl.login.refresh.min.period.seconds": "short",
        "sasl.login.refresh.window.factor": "double",
        "sasl.login.refresh.window.jitter": "double",
    },
    "tokens signed by the client are not made: give sasl.oauthbearer.token.endpoint.url": {
        "sasl.oauthbearer.assertion.algorithm": "string",
        "sasl.oauthbearer.assertion.claim.aud": "string",
        "sasl.oauthbearer.assertion.claim.exp.seconds": "int",
        "sasl.oauthbearer.assertion.claim.iss": "string",
        "sasl.oauthbearer.assertion.claim.jti.include": "boolean",
        "sasl.oauthbearer.assertion.claim.nbf.seconds": "int",
        "sasl.oauthbearer.assertion.claim.sub": "string",
        "sasl.oauthbearer.assertion.file": "string",
        "sasl.oauthbearer.assertion.private.key.file": "string",
        "sasl.oauthbearer.assertion.private.key.passphrase": "password",
        "sasl.oauthbearer.assertion.template.file": "string",
    },
    _NO_GROUP_STATE: {
        "auto.commit.interval.ms": "int",
        "enable.auto.commit": "boolean",
        "exclude.internal.topics": "boolean",
        "internal.throw.on.fetch.stable.offset.unsupported": "boolean",
    },
    _PARTITIONING: {
        "partitioner.adaptive.partitioning.enable": "boolean",
        "partitioner.availability.timeout.ms": "long",
        "partitioner.rack.aware": "boolean",
    },
    "clients do not say which cluster and node they mean to reach": {
        "metadata.cluster.check.enable": "boolean",
    },
    "room for batches is taken as records come": {
        "buffer.memory.allocation.strategy": "string",
    },
    _LEADERS: {"client.rack": "string"},
}

JAVA_ONLY: Final[dict[str, tuple[str, str]]] = {
    key: (kind, reason) for reason, keys in _REASONS.items() for key, kind in keys.items()
}
"""Property to its type in Kafka's definitions and the reason why it has no effect."""

WHOLE: Final = re.compile(r"[+-]?\d{1,100}")
"""A number as Java parses it, and no longer than one can be."""
_LIMITS: Final = {"short": 2**15, "int": 2**31, "long": 2**63}
_named: set[str] = set()


def check_value(key: str, value: object) -> None:
    """Raise ConfigError for a value of a property of JAVA_ONLY that Kafka would not parse."""
    kind, _ = JAVA_ONLY[key]
    text = str(value).strip()
    if kind in _LIMITS:
        if not WHOLE.fullmatch(text):
            raise ConfigError(key, value, "must be a whole number")
        number = int(text)
        if not -_LIMITS[kind] <= number < _LIMITS[kind]:
            raise ConfigError(key, value, f"does not fit into Java's {kind}")
    elif kind == "boolean" and text.lower() not in ("true", "false"):
        raise ConfigError(key, value, "must be true or false")
    elif kind == "double":
        try:
            float(text)
        except ValueError:
            raise ConfigError(key, value, "must be a number") from None


def name_once(unused: Iterable[tuple[str, str]]) -> None:
    """Say of (property, reason) that it has no effect: in one warning, and of each property once
    in the life of a process. Spark makes a writer for each micro-batch."""
    new = [(key, reason) for key, reason in unused if key not in _named]
    if new:
        _named.update(key for key, _ in new)
        told = "; ".join(f"{key} ({reason})" for key, reason in new)
        log.warning("accepted without effect: %s", told)
