"""Client properties under Kafka's names, checked and typed.

`ClientConfig.from_props` accepts the properties of KNOWN and refuses every other key by name, so a
misspelt or unsupported property never passes silently. Defaults are those of Kafka 4.x clients
except where the table says otherwise. The result is frozen plain data and travels in pickles.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple

from fencepost.client.assignors import ASSIGNORS
from fencepost.client.errors import ConfigError
from fencepost.client.security import MECHANISMS, PROTOCOLS, Security

COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")
ISOLATION_LEVELS = ("read_uncommitted", "read_committed")
OFFSET_RESETS = ("earliest", "latest", "none")


@dataclass(frozen=True, slots=True)
class ClientConfig:
    """Everything a connection, fetcher or producer lets a user choose."""

    bootstrap_servers: str = ""
    client_id: str = "fencepost"
    group_id: str | None = None
    security: Security = field(default_factory=Security)
    connect_timeout_ms: int = 10_000
    request_timeout_ms: int = 30_000
    api_timeout_ms: int = 60_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1000
    metadata_max_age_ms: int = 300_000
    # Off, so that looking never creates; producers of the command line and of Spark switch it on.
    allow_auto_create_topics: bool = False
    receive_buffer_bytes: int = -1
    send_buffer_bytes: int = -1
    # consumer
    isolation_level: str = "read_uncommitted"
    fetch_min_bytes: int = 1
    fetch_max_bytes: int = 50 * 1024 * 1024
    fetch_max_wait_ms: int = 500
    # Kafka's default is 1 MiB; tasks here read one partition at a time, so more pays off.
    max_partition_fetch_bytes: int = 8 * 1024 * 1024
    check_crcs: bool = True
    # member of a group; Spark reads without one
    group_instance_id: str | None = None
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    max_poll_interval_ms: int = 300_000
    assignors: tuple[str, ...] = tuple(ASSIGNORS)
    auto_offset_reset: str = "latest"
    # producer
    acks: int = -1
    enable_idempotence: bool = True
    compression_type: str = "none"
    batch_size: int = 256 * 1024  # Kafka: 16 KiB; our senders are bulk senders
    linger_ms: int = 5
    max_in_flight: int = 5
    max_request_size: int = 1024 * 1024
    delivery_timeout_ms: int = 120_000
    buffer_memory: int = 32 * 1024 * 1024

    @classmethod
    def from_props(cls, props: Mapping[str, object]) -> ClientConfig:
        """Parse Kafka-named properties; ConfigError names the first bad key."""
        plain: dict[str, Any] = {}
        security: dict[str, Any] = {}
        for key, value in props.items():
            prop = KNOWN.get(key)
            if prop is None:
                raise ConfigError(key, value, f"not a client property known here; {_hint(key)}")
            target = security if prop.attribute in _SECURITY_FIELDS else plain
            parsed = prop.parse(key, value)
            if isinstance(parsed, dict):
                security.update(parsed)
            else:
                target[prop.attribute] = parsed
        config = replace(cls(), **plain, security=Security(**security))
        config.check()
        return config

    def check(self) -> None:
        """Rules between properties; raises ConfigError."""
        if self.enable_idempotence and self.acks != -1:
            raise ConfigError("acks", self.acks, "an idempotent producer needs acks=all")
        if self.heartbeat_interval_ms >= self.session_timeout_ms:
            raise ConfigError(
                "heartbeat.interval.ms",
                self.heartbeat_interval_ms,
                f"must be below session.timeout.ms={self.session_timeout_ms}",
            )
        if self.security.uses_sasl and self.security.username is None:
            raise ConfigError(
                "security.protocol",
                self.security.protocol,
                "needs sasl.username and sasl.password, or sasl.jaas.config",
            )


class _Property(NamedTuple):
    attribute: str
    parse: Callable[[str, object], Any]


def _text(key: str, value: object) -> str:
    text = str(value)
    if not text:
        raise ConfigError(key, value, "must not be empty")
    return text


def _any_text(key: str, value: object) -> str:
    return str(value)


def _integer(low: int, high: int = 2**31 - 1) -> Callable[[str, object], int]:
    def parse(key: str, value: object) -> int:
        try:
            number = int(str(value).strip())
        except ValueError:
            raise ConfigError(key, value, "must be a whole number") from None
        if not low <= number <= high:
            raise ConfigError(key, value, f"must be between {low} and {high}")
        return number

    return parse


def _boolean(key: str, value: object) -> bool:
    text = str(value).strip().lower()
    if text not in ("true", "false"):
        raise ConfigError(key, value, "must be true or false")
    return text == "true"


def _one_of(allowed: tuple[str, ...], fold: Callable[[str], str]) -> Callable[[str, object], str]:
    def parse(key: str, value: object) -> str:
        text = fold(str(value).strip())
        if text not in allowed:
            raise ConfigError(key, value, f"must be one of {', '.join(allowed)}")
        return text

    return parse


def _acks(key: str, value: object) -> int:
    numbers = {"all": -1, "-1": -1, "1": 1, "0": 0}
    text = str(value).strip().lower()
    if text not in numbers:
        raise ConfigError(key, value, "must be all, -1, 0 or 1")
    return numbers[text]


def _assignors(key: str, value: object) -> tuple[str, ...]:
    """Names of assignors, or of Kafka's classes for them."""
    names = [part.strip().rpartition(".")[2] for part in str(value).split(",")]
    chosen = tuple(dict.fromkeys(name.removesuffix("Assignor").lower() for name in names))
    if not set(chosen) <= set(ASSIGNORS):
        raise ConfigError(key, value, f"must be of {', '.join(ASSIGNORS)}")
    return chosen


def _endpoint_identification(key: str, value: object) -> bool:
    text = str(value).strip().lower()
    if text not in ("https", "", "none"):
        raise ConfigError(key, value, "must be https, or empty for no check")
    return text == "https"


def _pem_store_type(key: str, value: object) -> dict[str, Any]:
    if str(value).strip().upper() != "PEM":
        raise ConfigError(key, value, "only PEM stores can be read; Java key stores cannot")
    return {}


def _jaas(key: str, value: object) -> dict[str, Any]:
    """User name and password from a JAAS line such as Java clients take."""
    text = str(value)
    found = dict(re.findall(r"""(username|password)\s*=\s*["']([^"']*)["']""", text))
    if set(found) != {"username", "password"}:
        raise ConfigError(key, "...", 'must hold username="..." and password="..."')
    return found


_SECURITY_FIELDS = {item.name for item in fields(Security)}

KNOWN: dict[str, _Property] = {
    "bootstrap.servers": _Property("bootstrap_servers", _text),
    "client.id": _Property("client_id", _text),
    "group.id": _Property("group_id", _text),
    "socket.connection.setup.timeout.ms": _Property("connect_timeout_ms", _integer(1)),
    "request.timeout.ms": _Property("request_timeout_ms", _integer(1)),
    "default.api.timeout.ms": _Property("api_timeout_ms", _integer(1)),
    "retry.backoff.ms": _Property("retry_backoff_ms", _integer(0)),
    "retry.backoff.max.ms": _Property("retry_backoff_max_ms", _integer(0)),
    "metadata.max.age.ms": _Property("metadata_max_age_ms", _integer(0)),
    "allow.auto.create.topics": _Property("allow_auto_create_topics", _boolean),
    "receive.buffer.bytes": _Property("receive_buffer_bytes", _integer(-1)),
    "send.buffer.bytes": _Property("send_buffer_bytes", _integer(-1)),
    "isolation.level": _Property("isolation_level", _one_of(ISOLATION_LEVELS, str.lower)),
    "fetch.min.bytes": _Property("fetch_min_bytes", _integer(0)),
    "fetch.max.bytes": _Property("fetch_max_bytes", _integer(1)),
    "fetch.max.wait.ms": _Property("fetch_max_wait_ms", _integer(0)),
    "max.partition.fetch.bytes": _Property("max_partition_fetch_bytes", _integer(1)),
    "check.crcs": _Property("check_crcs", _boolean),
    "group.instance.id": _Property("group_instance_id", _text),
    "session.timeout.ms": _Property("session_timeout_ms", _integer(1)),
    "heartbeat.interval.ms": _Property("heartbeat_interval_ms", _integer(1)),
    "max.poll.interval.ms": _Property("max_poll_interval_ms", _integer(1)),
    "partition.assignment.strategy": _Property("assignors", _assignors),
    "auto.offset.reset": _Property("auto_offset_reset", _one_of(OFFSET_RESETS, str.lower)),
    "acks": _Property("acks", _acks),
    "enable.idempotence": _Property("enable_idempotence", _boolean),
    "compression.type": _Property("compression_type", _one_of(COMPRESSIONS, str.lower)),
    "batch.size": _Property("batch_size", _integer(1)),
    "linger.ms": _Property("linger_ms", _integer(0)),
    # More than five would outrun the window in which brokers recognise duplicates.
    "max.in.flight.requests.per.connection": _Property("max_in_flight", _integer(1, 5)),
    "max.request.size": _Property("max_request_size", _integer(1)),
    "delivery.timeout.ms": _Property("delivery_timeout_ms", _integer(1)),
    "buffer.memory": _Property("buffer_memory", _integer(1, 2**63 - 1)),
    "security.protocol": _Property("protocol", _one_of(PROTOCOLS, str.upper)),
    "sasl.mechanism": _Property("mechanism", _one_of(MECHANISMS, str.upper)),
    "sasl.username": _Property("username", _text),
    "sasl.password": _Property("password", _any_text),
    "sasl.jaas.config": _Property("username", _jaas),
    "ssl.ca.location": _Property("ca_file", _text),
    "ssl.truststore.location": _Property("ca_file", _text),
    "ssl.truststore.certificates": _Property("ca_pem", _text),
    "ssl.truststore.type": _Property("ca_file", _pem_store_type),
    "ssl.certificate.location": _Property("certificate_file", _text),
    "ssl.keystore.location": _Property("certificate_file", _text),
    "ssl.keystore.type": _Property("certificate_file", _pem_store_type),
    "ssl.key.location": _Property("key_file", _text),
    "ssl.key.password": _Property("key_password", _any_text),
    "ssl.endpoint.identification.algorithm": _Property("check_hostname", _endpoint_identification),
}


def _hint(key: str) -> str:
    close = difflib.get_close_matches(key, KNOWN, n=2)
    return f"did you mean {' or '.join(close)}?" if close else f"known are {', '.join(KNOWN)}"
