"""Client properties under Kafka's names, checked and typed.

`ClientConfig.from_props` takes the properties of KNOWN; those that only Kafka's Java clients have a
use for (`java_properties`) it accepts with a warning, and every other key it refuses by name, so a
misspelt property never passes silently. Defaults are those of Kafka 4.x clients except where the
table says otherwise. The result is frozen plain data and travels in pickles.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple

from fencepost.client.assignors import ASSIGNORS
from fencepost.client.errors import ConfigError
from fencepost.client.jaas import login_module
from fencepost.client.java_properties import JAVA_ONLY, WHOLE, check_value, name_once
from fencepost.client.key_files import STORE_TYPES
from fencepost.client.protocol.oauthbearer import TokenSource
from fencepost.client.security import MECHANISMS, PROTOCOLS, TLS_VERSIONS, Security

COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")
ISOLATION_LEVELS = ("read_uncommitted", "read_committed")
GROUP_PROTOCOLS = ("classic", "consumer")
ACKNOWLEDGEMENT_MODES = ("implicit", "explicit")
ACQUIRE_MODES = ("batch_optimized", "record_limit")
OFFSET_RESETS = ("earliest", "latest", "none")
DNS_LOOKUPS = ("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only")
ROUND_ROBIN = "org.apache.kafka.clients.producer.RoundRobinPartitioner"
LZ4_LEVEL_MAX = 16
# More would outrun the window in which brokers recognise the batches of an idempotent producer.
IDEMPOTENT_IN_FLIGHT_MAX = 5
INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1


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
    group_protocol: str = "classic"
    group_remote_assignor: str | None = None
    group_instance_id: str | None = None
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    max_poll_interval_ms: int = 300_000
    assignors: tuple[str, ...] = tuple(ASSIGNORS)
    auto_offset_reset: str = "latest"
    # member of a share group
    share_acknowledgement_mode: str = "implicit"
    share_acquire_mode: str = "batch_optimized"
    max_poll_records: int = 500  # of share consumers; others are given what was fetched
    # producer
    acks: int = -1
    enable_idempotence: bool = True
    compression_type: str = "none"
    batch_size: int = 256 * 1024  # Kafka: 16 KiB; our senders are bulk senders
    linger_ms: int = 5
    max_in_flight: int = 5
    max_request_size: int = 1024 * 1024
    delivery_timeout_ms: int = 120_000
    retries: int = 2**31 - 1
    gzip_level: int | None = None
    lz4_level: int | None = None
    zstd_level: int | None = None
    round_robin: bool = False  # whatever the key
    ignore_keys: bool = False
    buffer_memory: int = 32 * 1024 * 1024
    transactional_id: str | None = None
    transaction_timeout_ms: int = 60_000
    two_phase_commit: bool = False  # transactions never time out (KIP-939)

    @property
    def compression_level(self) -> int | None:
        """The level of `compression_type`; None takes a fast one."""
        # Java's LZ4 has a level more than the library has; both are "as small as can be".
        lz4_level = None if self.lz4_level is None else min(self.lz4_level, LZ4_LEVEL_MAX)
        levels = {"gzip": self.gzip_level, "lz4": lz4_level, "zstd": self.zstd_level}
        return levels.get(self.compression_type)

    @classmethod
    def from_props(cls, props: Mapping[str, object]) -> ClientConfig:
        """Parse Kafka-named properties; ConfigError names the first bad key."""
        plain: dict[str, Any] = {}
        security: dict[str, Any] = {}
        tokens: dict[str, Any] = {}
        unused: list[tuple[str, str]] = []
        for key, value in props.items():
            if key in JAVA_ONLY:
                check_value(key, value)
                unused.append((key, JAVA_ONLY[key][1]))
                continue
            prop = KNOWN.get(key)
            if prop is None:
                raise ConfigError(key, value, f"not a client property known here; {_hint(key)}")
            parsed = prop.parse(key, value)
            given = parsed if isinstance(parsed, dict) else {prop.attribute: parsed}
            for name, one in given.items():
                if name in _SECURITY_FIELDS:
                    security[name] = one
                elif name in _TOKEN_FIELDS:
                    # The properties beat what sasl.jaas.config says in the same matter.
                    tokens[name] = tokens.get(name, one) if key == "sasl.jaas.config" else one
                else:
                    plain[name] = one
        name_once(unused)
        if plain.get("two_phase_commit") and "transaction_timeout_ms" in plain:
            raise ConfigError(
                "transaction.timeout.ms",
                props["transaction.timeout.ms"],
                "cannot be set with transaction.two.phase.commit.enable=true, whose transactions"
                " never time out",
            )
        secured = Security(**security, tokens=TokenSource(**tokens))
        secured.check_files()
        config = replace(cls(), **_without_idempotence(plain), **plain, security=secured)
        config.check()
        return config

    def with_settings(self, settings: Mapping[str, Any]) -> ClientConfig:
        """The same with other values of these attributes. ConfigError for a name that is none."""
        names = [one.name for one in fields(ClientConfig)]
        for name, value in settings.items():
            if name not in names:
                prop = KNOWN.get(name.replace("_", "."))
                close = difflib.get_close_matches(name, names, 1)
                meant = [prop.attribute] if prop and prop.attribute in names else close
                hint = f"did you mean {meant[0]}?" if meant else "see ClientConfig"
                raise ConfigError(name, value, f"no setting of a client; {hint}")
        return replace(self, **settings)

    def check(self) -> None:
        """Rules between properties; raises ConfigError."""
        if self.transactional_id == "":
            raise ConfigError("transactional.id", "", "must not be empty")
        if self.enable_idempotence and self.acks != -1:
            raise ConfigError("acks", self.acks, "an idempotent producer needs acks=all")
        if self.enable_idempotence and self.retries == 0:
            raise ConfigError("retries", 0, "an idempotent producer must be able to try again")
        if self.enable_idempotence and self.max_in_flight > IDEMPOTENT_IN_FLIGHT_MAX:
            raise ConfigError(
                "max.in.flight.requests.per.connection",
                self.max_in_flight,
                f"must be at most {IDEMPOTENT_IN_FLIGHT_MAX} of an idempotent producer",
            )
        if self.transactional_id is not None and not self.enable_idempotence:
            raise ConfigError(
                "transactional.id", self.transactional_id, "needs enable.idempotence=true"
            )
        if self.two_phase_commit and self.transactional_id is None:
            raise ConfigError("transaction.two.phase.commit.enable", True, "needs transactional.id")
        if self.heartbeat_interval_ms >= self.session_timeout_ms:
            raise ConfigError(
                "heartbeat.interval.ms",
                self.heartbeat_interval_ms,
                f"must be below session.timeout.ms={self.session_timeout_ms}",
            )
        for key, value, allowed in (
            ("group.protocol", self.group_protocol, GROUP_PROTOCOLS),
            ("share.acknowledgement.mode", self.share_acknowledgement_mode, ACKNOWLEDGEMENT_MODES),
            ("share.acquire.mode", self.share_acquire_mode, ACQUIRE_MODES),
        ):
            if value not in allowed:
                raise ConfigError(key, value, f"must be one of {', '.join(allowed)}")
        if self.group_remote_assignor is not None and self.group_protocol == "classic":
            raise ConfigError(
                "group.remote.assignor", self.group_remote_assignor, "needs group.protocol=consumer"
            )
        missing = self.security.missing()
        if missing is not None:
            raise ConfigError("security.protocol", self.security.protocol, f"needs {missing}")


def _without_idempotence(given: Mapping[str, Any]) -> dict[str, Any]:
    """As Kafka's producer does: what cannot go together with idempotence switches it off, unless
    it was asked for by name (then `check` refuses)."""
    conflicts = (
        given.get("acks", -1) != -1
        or given.get("retries", 1) == 0
        or given.get("max_in_flight", 1) > IDEMPOTENT_IN_FLIGHT_MAX
    )
    return {"enable_idempotence": False} if conflicts and "enable_idempotence" not in given else {}


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


def _integer(low: int, high: int = INT32_MAX) -> Callable[[str, object], int]:
    def parse(key: str, value: object) -> int:
        text = str(value).strip()
        if not WHOLE.fullmatch(text):
            raise ConfigError(key, value, "must be a whole number")
        number = int(text)
        if not low <= number <= high:
            raise ConfigError(key, value, f"must be between {low} and {high}")
        return number

    return parse


def _milliseconds(low: int) -> Callable[[str, object], int]:
    """A time that Java keeps in 64 bits; more than fits into 32, which is 24 days, is that much."""
    whole = _integer(low, INT64_MAX)
    return lambda key, value: min(whole(key, value), INT32_MAX)


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


def _dns_lookup(key: str, value: object) -> dict[str, Any]:
    """All addresses of a name are tried, one after the other, whatever is chosen."""
    chosen = _one_of(DNS_LOOKUPS, str.lower)(key, value)
    if chosen != DNS_LOOKUPS[0]:
        name_once([(f"{key}={chosen}", "servers are called by the names they are given")])
    return {}


def _jaas(key: str, value: object) -> dict[str, Any]:
    """What a JAAS line such as Java clients take says of credentials."""
    module = login_module(str(value))
    options = module.options
    if module.name == "OAuthBearerLoginModule":
        names = {"clientId": "oauth_client_id", "clientSecret": "client_secret", "scope": "scope"}
        found: dict[str, Any] = {
            ours: options[theirs] for theirs, ours in names.items() if theirs in options
        }
        extensions = [
            (name.removeprefix("extension_"), text)
            for name, text in options.items()
            if name.startswith("extension_")
        ]
        claims = [pair for pair in options.items() if pair[0].startswith("unsecuredLogin")]
        return {**found, "extensions": tuple(extensions), "claims": tuple(claims)}
    if not {"username", "password"} <= set(options):
        raise ConfigError(key, "...", 'must hold username="..." and password="..."')
    return {
        "username": options["username"],
        "password": options["password"],
        # A delegation token's id and HMAC; only SCRAM can say so.
        "token_authenticated": module.name == "ScramLoginModule"
        and options.get("tokenauth", "").lower() == "true",
    }


def _login_callback(key: str, value: object) -> dict[str, Any]:
    """Kafka's own handlers get tokens as is done here anyway; others are Java classes."""
    name = str(value).strip().rpartition(".")[2]
    if name not in ("OAuthBearerLoginCallbackHandler", "OAuthBearerUnsecuredLoginCallbackHandler"):
        raise ConfigError(key, value, "a class of Java cannot be loaded; known are Kafka's own")
    return {}


def _jwt_retriever(key: str, value: object) -> dict[str, Any]:
    name = str(value).strip().rpartition(".")[2]
    known = ("DefaultJwtRetriever", "ClientCredentialsJwtRetriever", "FileJwtRetriever")
    if name not in known:
        raise ConfigError(key, value, f"must be one of {', '.join(known)}")
    return {}


def _partitioner(key: str, value: object) -> dict[str, Any]:
    if str(value).strip() != ROUND_ROBIN:
        raise ConfigError(key, value, f"a class of Java cannot be loaded; known is {ROUND_ROBIN}")
    return {"round_robin": True}


def _tls_versions(key: str, value: object) -> tuple[str, ...]:
    chosen = tuple(part.strip() for part in str(value).split(",") if part.strip())
    if not chosen or not set(chosen) <= set(TLS_VERSIONS):
        raise ConfigError(key, value, f"must be of {', '.join(TLS_VERSIONS)}")
    return chosen


def _level(low: int, high: int, default: int | None = None) -> Callable[[str, object], int | None]:
    """A codec's level; `default` stands for the codec's own."""

    def parse(key: str, value: object) -> int | None:
        text = str(value).strip()
        return None if text == str(default) else _integer(low, high)(key, value)

    return parse


_SECURITY_FIELDS = {item.name for item in fields(Security)}
_TOKEN_FIELDS = {item.name for item in fields(TokenSource)}

KNOWN: dict[str, _Property] = {
    "bootstrap.servers": _Property("bootstrap_servers", _text),
    "client.id": _Property("client_id", _text),
    "group.id": _Property("group_id", _text),
    "socket.connection.setup.timeout.ms": _Property("connect_timeout_ms", _milliseconds(1)),
    "request.timeout.ms": _Property("request_timeout_ms", _integer(1)),
    "default.api.timeout.ms": _Property("api_timeout_ms", _integer(1)),
    "max.block.ms": _Property("api_timeout_ms", _milliseconds(1)),  # the producer's name
    "client.dns.lookup": _Property("bootstrap_servers", _dns_lookup),
    "retry.backoff.ms": _Property("retry_backoff_ms", _milliseconds(0)),
    "retry.backoff.max.ms": _Property("retry_backoff_max_ms", _milliseconds(0)),
    "metadata.max.age.ms": _Property("metadata_max_age_ms", _milliseconds(0)),
    "allow.auto.create.topics": _Property("allow_auto_create_topics", _boolean),
    "receive.buffer.bytes": _Property("receive_buffer_bytes", _integer(-1)),
    "send.buffer.bytes": _Property("send_buffer_bytes", _integer(-1)),
    "isolation.level": _Property("isolation_level", _one_of(ISOLATION_LEVELS, str.lower)),
    "fetch.min.bytes": _Property("fetch_min_bytes", _integer(0)),
    "fetch.max.bytes": _Property("fetch_max_bytes", _integer(0)),
    "fetch.max.wait.ms": _Property("fetch_max_wait_ms", _integer(0)),
    "max.partition.fetch.bytes": _Property("max_partition_fetch_bytes", _integer(0)),
    "check.crcs": _Property("check_crcs", _boolean),
    "group.protocol": _Property("group_protocol", _one_of(GROUP_PROTOCOLS, str.lower)),
    "group.remote.assignor": _Property("group_remote_assignor", _text),
    "group.instance.id": _Property("group_instance_id", _text),
    "session.timeout.ms": _Property("session_timeout_ms", _integer(1)),
    "heartbeat.interval.ms": _Property("heartbeat_interval_ms", _integer(1)),
    "max.poll.interval.ms": _Property("max_poll_interval_ms", _integer(1)),
    "partition.assignment.strategy": _Property("assignors", _assignors),
    "auto.offset.reset": _Property("auto_offset_reset", _one_of(OFFSET_RESETS, str.lower)),
    "share.acknowledgement.mode": _Property(
        "share_acknowledgement_mode", _one_of(ACKNOWLEDGEMENT_MODES, str.lower)
    ),
    "share.acquire.mode": _Property("share_acquire_mode", _one_of(ACQUIRE_MODES, str.lower)),
    "max.poll.records": _Property("max_poll_records", _integer(1)),
    "acks": _Property("acks", _acks),
    "enable.idempotence": _Property("enable_idempotence", _boolean),
    "compression.type": _Property("compression_type", _one_of(COMPRESSIONS, str.lower)),
    "batch.size": _Property("batch_size", _integer(0)),
    "linger.ms": _Property("linger_ms", _milliseconds(0)),
    "max.in.flight.requests.per.connection": _Property("max_in_flight", _integer(1)),
    "max.request.size": _Property("max_request_size", _integer(1)),
    "delivery.timeout.ms": _Property("delivery_timeout_ms", _integer(1)),
    "retries": _Property("retries", _integer(0)),
    "compression.gzip.level": _Property("gzip_level", _level(1, 9, -1)),
    "compression.lz4.level": _Property("lz4_level", _level(1, 17)),
    "compression.zstd.level": _Property("zstd_level", _level(-131072, 22)),
    "partitioner.class": _Property("round_robin", _partitioner),
    "partitioner.ignore.keys": _Property("ignore_keys", _boolean),
    "buffer.memory": _Property("buffer_memory", _integer(1, INT64_MAX)),
    "transactional.id": _Property("transactional_id", _text),
    "transaction.timeout.ms": _Property("transaction_timeout_ms", _integer(1)),
    "transaction.two.phase.commit.enable": _Property("two_phase_commit", _boolean),
    "security.protocol": _Property("protocol", _one_of(PROTOCOLS, str.upper)),
    "sasl.mechanism": _Property("mechanism", _one_of(MECHANISMS, str.upper)),
    "sasl.username": _Property("username", _text),
    "sasl.password": _Property("password", _any_text),
    "sasl.jaas.config": _Property("username", _jaas),
    "sasl.login.callback.handler.class": _Property("tokens", _login_callback),
    "sasl.login.read.timeout.ms": _Property("login_timeout_ms", _integer(1)),
    "sasl.login.retry.backoff.ms": _Property("login_backoff_ms", _milliseconds(0)),
    "sasl.login.retry.backoff.max.ms": _Property("login_backoff_max_ms", _milliseconds(0)),
    "sasl.oauthbearer.token.endpoint.url": _Property("endpoint_url", _text),
    "sasl.oauthbearer.client.credentials.client.id": _Property("oauth_client_id", _text),
    "sasl.oauthbearer.client.credentials.client.secret": _Property("client_secret", _text),
    "sasl.oauthbearer.scope": _Property("scope", _text),
    "sasl.oauthbearer.header.urlencode": _Property("header_urlencode", _boolean),
    "sasl.oauthbearer.jwt.retriever.class": _Property("tokens", _jwt_retriever),
    "ssl.enabled.protocols": _Property("tls_versions", _tls_versions),
    "ssl.keystore.key": _Property("key_pem", _text),
    "ssl.keystore.certificate.chain": _Property("certificate_pem", _text),
    "ssl.ca.location": _Property("ca_file", _text),
    "ssl.truststore.location": _Property("ca_file", _text),
    "ssl.truststore.certificates": _Property("ca_pem", _text),
    "ssl.truststore.password": _Property("ca_password", _any_text),
    "ssl.truststore.type": _Property("ca_type", _one_of(STORE_TYPES, str.upper)),
    "ssl.certificate.location": _Property("certificate_file", _text),
    "ssl.keystore.location": _Property("certificate_file", _text),
    "ssl.keystore.password": _Property("certificate_password", _any_text),
    "ssl.keystore.type": _Property("certificate_type", _one_of(STORE_TYPES, str.upper)),
    "ssl.key.location": _Property("key_file", _text),
    "ssl.key.password": _Property("key_password", _any_text),
    "ssl.endpoint.identification.algorithm": _Property("check_hostname", _endpoint_identification),
}


def _hint(key: str) -> str:
    close = difflib.get_close_matches(key, KNOWN, n=2)
    return f"did you mean {' or '.join(close)}?" if close else f"known are {', '.join(KNOWN)}"
