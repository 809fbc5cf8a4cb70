"""`BrokerConfig`: a `server.properties` file and overrides, checked, typed and immutable.

Every key is looked up in `config_keys`. A key that is refused, and a value that is not allowed,
raise ConfigError with key, value, what would be right, and the line of the file; so do values that
contradict each other. Keys that are set and have no effect are named in `notes`, in lines for the
log.

A file may have keys that no broker knows (KIP-226): plugins, other programs and other versions
have keys of their own. Each is one line of `notes`, with the nearest known key; its value is not
repeated, it may be a secret. A key that begins with `fencepost.` is ours, so an unknown one is a
typing error and raises ConfigError; so does an unknown key of the command line.

Empty elements of lists are dropped in a file: `a,,b,` is `a,b`.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fencepost.addresses import AddressError, parse_listener
from fencepost.broker.config.authorizer import check_authorizer
from fencepost.broker.config.endpoints import (
    WILDCARDS,
    ConnectionLimits,
    Endpoint,
    check_names,
    check_ports,
    is_loopback,
    parse_host_limits,
)
from fencepost.broker.config.group_bounds import check_group_bounds
from fencepost.broker.config.keys import ALIASES, BROKER_CONFIGS, REFUSED, REMOVED
from fencepost.broker.config.listener_config import ListenerConfig
from fencepost.broker.config.prefixed_keys import (
    PREFIX,
    definition_of,
    listener_of,
    unknown_prefixed,
)
from fencepost.broker.config.quorum_config import (
    NAMES_KEY,
    SERVERS_KEY,
    VOTERS_KEY,
    QuorumPart,
    check_advertised,
    check_listeners,
    quorum_part,
)
from fencepost.broker.config.security_protocols import (
    INTER_BROKER_KEY,
    INTER_BROKER_MECHANISM_KEY,
    INTER_BROKER_PROTOCOL_KEY,
    PROTOCOLS_KEY,
    inter_broker_listener,
    listener_protocols,
)
from fencepost.log.config import TOPIC_CONFIGS, LogConfig
from fencepost.log.configdef import ConfigDef, ConfigError, ConfigType, closest
from fencepost.log.errors import CorruptFileError
from fencepost.log.properties import read_properties
from fencepost.machines.session import SecurityProtocol

if TYPE_CHECKING:
    from fencepost.machines.image.token_secret import TokenSecret

__all__ = ["BrokerConfig", "ConfigError"]

CONFIG_FILE_MAX_BYTES = 1024 * 1024
EARLY_START_KEY = "early.start.listeners"
ALLOW_ANONYMOUS_KEY = "fencepost.allow.anonymous.listeners"
METRICS_KEY = "fencepost.metrics.listener"
DRAFT_KEYS = "fencepost.draft.fetch.quorum.records"
OWN_PREFIX: Final = "fencepost."
"""With which our own keys begin."""
KEY_PATTERN: Final = r"[A-Za-z0-9._-]{1,255}"
CLEANER_MAP_BYTES_MIN = 1024 * 1024
SINGLE_NODE_DEFAULTS: Final = {
    "offsets.topic.replication.factor": 1,
    "share.coordinator.state.topic.min.isr": 1,
    "share.coordinator.state.topic.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "transaction.state.log.replication.factor": 1,
}
"""Defaults of a node that is started without a quorum: there is nobody for further replicas."""


class BrokerConfig:
    """The configuration of one node; `get` takes Kafka's key names."""

    def __init__(
        self,
        explicit: Mapping[str, Any],
        notes: tuple[str, ...] = (),
        unknown: frozenset[str] = frozenset(),
    ) -> None:
        self.explicit: dict[str, Any] = dict(explicit)
        """Typed values of the keys that were set."""
        self.notes = notes
        """What the operator should know of: keys accepted without effect."""
        self.unknown = unknown
        """Keys of the file that no broker has."""
        self.node_id: int = self.get("node.id")
        self._check_draft()
        self.log_dirs = self._check_log_dirs()
        """Where partitions are kept."""
        self.metadata_log_dir = self._check_metadata_log_dir()
        """Where the metadata log is kept: `metadata.log.dir`, or the first of `log_dirs`."""
        self.quorum: QuorumPart = quorum_part(
            self.node_id,
            self.get("process.roles"),
            self.get(NAMES_KEY) or (),
            self.get(VOTERS_KEY),
            self.get(SERVERS_KEY),
        )
        """This node's roles, the voters, and whom to ask for the leader."""
        self._opened = self._check_listeners()
        self._protocols = self._check_protocols()
        self.inter_broker_listener = self._check_inter_broker()
        """The name of the listener that brokers use among themselves."""
        self._told = self._check_advertised()
        self.metrics_listener = self._check_metrics_listener()
        """Where metrics and health are served over HTTP; None if they are not."""
        self._check_early_start()
        check_pairs(self.get)
        self.topic_defaults = self._topic_defaults()

    @classmethod
    def load(cls, path: Path | str | None, overrides: Mapping[str, str]) -> BrokerConfig:
        """Read the file at `path` (None: no file) and put `overrides` over it. ConfigError."""
        lines: dict[str, int] = {}
        written: dict[str, str] = {}
        unknown: dict[str, int] = {}
        if path is not None:
            for line, name, text in _read_file(Path(path)):
                if is_foreign(name):
                    unknown[name] = line
                    continue
                written[name] = _without_empty_elements(name, text)
                lines[ALIASES.get(name, name)] = line
        named = _by_name(overrides)
        try:
            return cls._checked({**_by_name(written), **named}, str(path), unknown)
        except ConfigError as error:
            key = ALIASES.get(error.key, error.key)
            if key in named or key not in lines:
                raise
            raise error.at(f"line {lines[key]} of {path}") from None

    @classmethod
    def _checked(
        cls, texts: Mapping[str, str], path: str, unknown: Mapping[str, int]
    ) -> BrokerConfig:
        explicit: dict[str, Any] = {}
        without_effect: list[str] = []
        repeating: list[str] = []
        for name, text in texts.items():
            if name in REMOVED:
                without_effect.append(name)
                continue
            definition = definition_of(name)
            if definition is None:
                raise _unknown(name, text)
            explicit[name] = definition.parse(text)
            if definition.type is ConfigType.LIST and len(_items(text)) > len(explicit[name]):
                repeating.append(name)
            if not definition.has_effect and explicit[name] != definition.default:
                without_effect.append(name)
        notes = [
            f"line {line} of {path}: {name} has no effect: {_why_unknown(name)}"
            for name, line in unknown.items()
        ]
        if repeating:
            notes.append(f"these keys have a value twice, which counts once: {_list(repeating)}")
        if without_effect:
            notes.append(f"these keys have no effect here: {_list(without_effect)}")
        config = cls(explicit, tuple(notes), frozenset(unknown))
        if keys := config._keys_of_no_listener():
            config.notes += (f"these keys are for listeners that are not here: {keys}",)
        return config

    def _keys_of_no_listener(self) -> str:
        here = {*self.quorum.listener_names, *(endpoint.name for endpoint in self._opened)}
        return ", ".join(
            key for key in self.explicit if key.startswith(PREFIX) and listener_of(key) not in here
        )

    def get(self, key: str) -> Any:
        """The typed value of `key`, set or default; KeyError for a key that does not exist."""
        key = ALIASES.get(key, key)
        if key in self.explicit:
            return self.explicit[key]
        return self.default(key)

    def default(self, key: str) -> Any:
        """The typed value that `key` has on this node if nobody sets it; KeyError likewise."""
        if key in SINGLE_NODE_DEFAULTS and self._is_single_node:
            return SINGLE_NODE_DEFAULTS[key]
        return BROKER_CONFIGS[key].default

    def is_set(self, key: str) -> bool:
        """Whether the file or the command line sets `key`."""
        return ALIASES.get(key, key) in self.explicit

    def log_config(self, overrides: Mapping[str, object]) -> LogConfig:
        """A topic's configs: its own `overrides` over this broker's over the defaults."""
        return LogConfig.from_props(overrides, self.topic_defaults)

    @property
    def is_broker(self) -> bool:
        """Whether this node holds topics."""
        return self.quorum.is_broker

    @property
    def is_controller(self) -> bool:
        """Whether this node may vote and decide."""
        return self.quorum.is_controller

    @property
    def token_secret(self) -> TokenSecret | None:
        """`delegation.token.secret.key`; None where there are no delegation tokens."""
        text = self.get("delegation.token.secret.key")
        if not text:
            return None
        # What a node without tokens never needs, its start can do without.
        from fencepost.machines.image.token_secret import TokenSecret

        return TokenSecret(text)

    @property
    def _is_single_node(self) -> bool:
        """Whether nothing is configured of a quorum: no other node can join this one."""
        return self.quorum.is_lone and not self.quorum.voters.ids

    @property
    def formats_itself(self) -> bool:
        """Whether empty directories may be made this node's: it is the whole of its cluster.

        The nodes of any other cluster have to agree on its id, so somebody has to format them.
        """
        return self.quorum.is_lone

    @property
    def listeners(self) -> list[Endpoint]:
        """Where clients are listened for; none on a node that is only a controller."""
        return self._of_clients(self._opened)

    @property
    def controller_listeners(self) -> list[Endpoint]:
        """Where the quorum is listened for; none on a node that is only a broker."""
        return self._of_controllers(self._opened)

    @property
    def advertised(self) -> list[Endpoint]:
        """What clients are told of `listeners`."""
        return self._of_clients(self._told)

    def protocol_of(self, listener: str) -> SecurityProtocol:
        """How a listener is secured: one of this node's, or one that it connects to. KeyError."""
        return self._protocols[listener.upper()]

    def for_listener(self, listener: str, mechanism: str | None = None) -> ListenerConfig:
        """The configs of one listener, and of a SASL mechanism on it; what this node was started
        with (`Settings.for_listener`: what is in force)."""
        return ListenerConfig(listener, mechanism, self.get, self.is_set)

    @property
    def names_inter_broker(self) -> bool:
        """Whether the operator says by which listener or mechanism brokers use each other."""
        keys = (INTER_BROKER_KEY, INTER_BROKER_PROTOCOL_KEY, INTER_BROKER_MECHANISM_KEY)
        return any(map(self.is_set, keys))

    @property
    def flush_before_ack(self) -> bool:
        """Whether appends count only when fsynced."""
        return bool(self.get("log.flush.before.ack"))

    def exposed_listeners(self) -> list[Endpoint]:
        """Listeners that other machines can reach, and that ask clients for no login."""
        return [
            endpoint
            for endpoint in self._opened
            if not (self._asks_for_login(endpoint.name) or is_loopback(endpoint.host))
        ]

    def _asks_for_login(self, listener: str) -> bool:
        """Whether clients need SASL, or a certificate."""
        protocol = self.protocol_of(listener)
        asked = self.for_listener(listener).get("ssl.client.auth").lower()
        return protocol.has_sasl or (protocol.has_tls and asked == "required")

    @property
    def early_start_listeners(self) -> frozenset[str]:
        """Listeners that need not wait until it is known what clients may do: those of controllers
        if nothing else is configured (KIP-801)."""
        named = self.get(EARLY_START_KEY)
        if named is None:
            return frozenset(self.quorum.listener_names)
        return frozenset(name.upper() for name in named)

    def advertised_endpoints(self, bound: list[Endpoint]) -> list[Endpoint]:
        """What clients are told, given where the listeners were `bound` (port 0 is then known)."""
        return _with_ports(self.advertised, bound)

    def advertised_controllers(self, bound: list[Endpoint]) -> list[Endpoint]:
        """What the quorum is told of this controller's listeners; likewise."""
        return _with_ports(self._of_controllers(self._told), bound)

    def _of_clients(self, endpoints: list[Endpoint]) -> list[Endpoint]:
        return [one for one in endpoints if one.name not in self.quorum.listener_names]

    def _of_controllers(self, endpoints: list[Endpoint]) -> list[Endpoint]:
        return [one for one in endpoints if one.name in self.quorum.listener_names]

    # -- checks ----------------------------------------------------------------------------

    def _check_draft(self) -> None:
        key, follow = f"{DRAFT_KEYS}.api.key", f"{DRAFT_KEYS}.follow.version"
        if self.get(follow) >= 0 and self.get(key) < 0:
            raise ConfigError(follow, str(self.get(follow)), f"-1, as long as {key} is not set")

    def _check_log_dirs(self) -> list[Path]:
        key = "log.dirs" if self.get("log.dirs") else "log.dir"
        found = [_directory(key, name) for name in self.get(key)]
        if len(set(found)) != len(found):
            raise ConfigError(key, ",".join(self.get(key)), "each directory once")
        return found

    def _check_metadata_log_dir(self) -> Path:
        name = self.get("metadata.log.dir")
        return self.log_dirs[0] if name is None else _directory("metadata.log.dir", name)

    def _check_listeners(self) -> list[Endpoint]:
        found = [_endpoint("listeners", text) for text in self.get("listeners")]
        check_names("listeners", found)
        check_ports("listeners", found)
        if self.is_set("listeners") or not self.quorum.is_lone:
            check_listeners(self.quorum, found)
        if self.is_broker and not self._of_clients(found):
            raise ConfigError(
                "listeners",
                ",".join(self.get("listeners")),
                "at least one listener that controller.listener.names does not name",
            )
        return found

    def _check_metrics_listener(self) -> Endpoint | None:
        text = self.get(METRICS_KEY)
        if text is None:
            return None
        address = f"127.0.0.1:{text}" if text.isdecimal() else text
        try:
            endpoint = _endpoint(METRICS_KEY, f"METRICS://{address}")
        except ConfigError:
            raise ConfigError(METRICS_KEY, text, "PORT or HOST:PORT") from None
        if not endpoint.host:
            raise ConfigError(METRICS_KEY, text, "PORT, or HOST:PORT; 0.0.0.0 is every interface")
        if endpoint.port and any(
            (one.host, one.port) == (endpoint.host, endpoint.port) for one in self._opened
        ):
            raise ConfigError(METRICS_KEY, text, "an address that `listeners` has not")
        return endpoint

    def _check_protocols(self) -> dict[str, SecurityProtocol]:
        return listener_protocols(
            self.get(PROTOCOLS_KEY),
            self.is_set(PROTOCOLS_KEY),
            [endpoint.name for endpoint in self._opened],
            self.quorum.listener_names,
        )

    def _check_inter_broker(self) -> str:
        written = [
            self.get(key) if self.is_set(key) else None
            for key in (INTER_BROKER_KEY, INTER_BROKER_PROTOCOL_KEY)
        ]
        names = [endpoint.name for endpoint in self.listeners]
        return inter_broker_listener(written[0], written[1], names)

    def _check_early_start(self) -> None:
        known = {*(endpoint.name for endpoint in self._opened), *self.quorum.listener_names}
        for name in self.early_start_listeners - known:
            allowed = f"names out of `listeners` and {NAMES_KEY}"
            raise ConfigError(EARLY_START_KEY, name, allowed)

    def _check_advertised(self) -> list[Endpoint]:
        texts = self.get("advertised.listeners")
        if texts is None:
            return [self._reachable(endpoint) for endpoint in self._opened]
        told = [_endpoint("advertised.listeners", text) for text in texts]
        check_names("advertised.listeners", told)
        check_advertised(self.quorum, told)
        names = {endpoint.name for endpoint in self._opened}
        for endpoint in told:
            if endpoint.name not in names:
                raise ConfigError(
                    "advertised.listeners",
                    f"{endpoint.name}://{endpoint}",
                    f"one of the listeners {', '.join(sorted(names))}",
                )
            if endpoint.host in WILDCARDS:
                raise ConfigError(
                    "advertised.listeners",
                    f"{endpoint.name}://{endpoint}",
                    "an address that clients can connect to",
                )
        told_names = {endpoint.name for endpoint in told}
        told += [self._reachable(e) for e in self._opened if e.name not in told_names]
        return told

    def _reachable(self, endpoint: Endpoint) -> Endpoint:
        """The address to tell clients about a listener that is not advertised explicitly."""
        if endpoint.host in WILDCARDS:
            return Endpoint(endpoint.name, socket.getfqdn(), endpoint.port)
        return endpoint

    def _topic_defaults(self) -> dict[str, Any]:
        """The set keys that topic configs fall back to."""
        keys = {synonym.key for topic in TOPIC_CONFIGS.values() for synonym in topic.synonyms}
        defaults = {key: value for key, value in self.explicit.items() if key in keys}
        LogConfig.from_props({}, defaults)
        return defaults


def check_pairs(get: Callable[[str], Any]) -> None:
    """Whether values that have to go together do; `get` gives typed ones. ConfigError."""
    map_key = "log.cleaner.dedupe.buffer.size"
    if get(map_key) < get("log.cleaner.threads") * CLEANER_MAP_BYTES_MIN:
        allowed = "at least 1 MiB for each of log.cleaner.threads"
        raise ConfigError(map_key, get(map_key), allowed)
    low, high = "group.min.session.timeout.ms", "group.max.session.timeout.ms"
    if get(low) > get(high):
        raise ConfigError(low, get(low), f"not over {high}={get(high)}")
    check_group_bounds(get)
    per_ip, overrides = "max.connections.per.ip", "max.connections.per.ip.overrides"
    if get(per_ip) == 0 and not parse_host_limits(get(overrides)):
        raise ConfigError(per_ip, 0, f"at least 1, or {overrides} names who may connect")
    check_authorizer(get)
    cordoned, dirs = get("cordoned.log.dirs"), get("log.dirs") or get("log.dir")
    for path in cordoned:
        if path != "*" and Path(path) not in map(Path, dirs):
            raise ConfigError("cordoned.log.dirs", path, "* or a directory of log.dirs")
    delay, idle = "connection.failed.authentication.delay.ms", "connections.max.idle.ms"
    if 0 <= get(idle) <= get(delay):
        raise ConfigError(delay, get(delay), f"less than {idle}={get(idle)}")
    wait = "replica.fetch.wait.max.ms"
    for longer in ("replica.socket.timeout.ms", "replica.lag.time.max.ms"):
        if get(wait) > get(longer):  # a follower with nothing to fetch would be given up
            raise ConfigError(wait, get(wait), f"not over {longer}={get(longer)}")


CONNECTION_KEYS = (
    "max.connections",
    "max.connections.per.ip",
    "max.connections.per.ip.overrides",
    "max.connection.creation.rate",
)
"""Configs of `connection_limits` that may change while a node runs."""


def connection_limits(
    get: Callable[[str], Any], of_listeners: Iterable[ListenerConfig] = ()
) -> ConnectionLimits:
    """The bounds of the front door; `get` gives typed values, `of_listeners` those of each
    listener."""
    own = {one.listener: one for one in of_listeners}
    return ConnectionLimits(
        max_frame_bytes=get("socket.request.max.bytes"),
        max_connections=get("max.connections"),
        max_connections_per_ip=get("max.connections.per.ip"),
        max_idle_ms=get("connections.max.idle.ms"),
        backlog=get("socket.listen.backlog.size"),
        send_buffer_bytes=get("socket.send.buffer.bytes"),
        receive_buffer_bytes=get("socket.receive.buffer.bytes"),
        max_connections_of=parse_host_limits(get("max.connections.per.ip.overrides")),
        max_created_per_s=get("max.connection.creation.rate"),
        max_connections_by_listener={
            name: one.get("max.connections")
            for name, one in own.items()
            if one.has_own("max.connections")
        },
        max_created_per_s_by_listener={
            name: one.get("max.connection.creation.rate")
            for name, one in own.items()
            if one.has_own("max.connection.creation.rate")
        },
    )


class ConfigFileError(ConfigError):
    """The file of `--config` is none that a configuration can be read from."""

    def __init__(self, path: Path, reason: str) -> None:
        ValueError.__init__(self, f"--config {path}: {reason}")
        self.key = "--config"
        self.value = str(path)
        self.allowed = "a readable properties file"


def _by_name(texts: Mapping[str, str]) -> dict[str, str]:
    """The entries, with a key that has two names under the first. ConfigError if they differ."""
    named: dict[str, str] = {}
    for key, text in texts.items():
        name = ALIASES.get(key, key)
        if named.setdefault(name, text) != text:
            raise ConfigError(key, text, f"{name} says {named[name]}, and they are one key")
    return named


def _read_file(path: Path) -> list[tuple[int, str, str]]:
    """Line, key and value of each entry. ConfigFileError."""
    try:
        with path.open("rb") as file:  # a pipe or a device does not say how much it has
            data = file.read(CONFIG_FILE_MAX_BYTES + 1)
        if len(data) > CONFIG_FILE_MAX_BYTES:
            raise ConfigFileError(path, f"it may have at most {CONFIG_FILE_MAX_BYTES} bytes")
        return list(read_properties(str(path), data))
    except OSError as error:
        raise ConfigFileError(path, f"it cannot be read: {error.strerror}") from None
    except CorruptFileError as error:
        raise ConfigFileError(path, f"it is no properties file: it {error.reason}") from None


def _directory(key: str, name: str) -> Path:
    if not name:
        raise ConfigError(key, name, "the name of a directory")
    return Path(name).expanduser().absolute()


def _list(keys: Iterable[str]) -> str:
    return ", ".join(sorted(keys))


def is_foreign(key: str) -> bool:
    """Whether `key` is none of a broker's, and may be another program's or plugin's (KIP-226).

    Keys of ours and keys that must not be ignored are not, nor is a text that cannot be a key.
    """
    return (
        key not in BROKER_CONFIGS
        and key not in REMOVED
        and not key.startswith((OWN_PREFIX, PREFIX, *(prefix for prefix, _ in REFUSED)))
        and re.fullmatch(KEY_PATTERN, key) is not None
    )


def _unknown(key: str, text: str) -> ConfigError:
    """What to say of a key that is none; a value that may be a secret is not repeated."""
    hidden = ConfigDef(key, ConfigType.PASSWORD, None, "").redacted(text)
    for prefix, reason in REFUSED:
        if key.startswith(prefix):
            return ConfigError(key, hidden, reason)
    if key.startswith(PREFIX):
        return unknown_prefixed(key, hidden)
    near = _near(key)
    is_secret = near is not None and BROKER_CONFIGS[near].type is ConfigType.PASSWORD
    return ConfigError(key, hidden if is_secret else text, _why_unknown(key))


def _why_unknown(key: str) -> str:
    if key in TOPIC_CONFIGS:
        keys = [synonym.key for synonym in TOPIC_CONFIGS[key].synonyms]
        hint = f"; the broker's is {' or '.join(keys)}" if keys else ""
        return f"this is a topic config{hint}"
    near = _near(key)
    hint = f"; did you mean {near}?" if near else ""
    return f"there is no broker config of this name{hint}"


def _near(key: str) -> str | None:
    return None if key in TOPIC_CONFIGS else closest(key, BROKER_CONFIGS)


def _without_empty_elements(key: str, text: str) -> str:
    """The text of a list without its empty elements; the text of another config as it is."""
    definition = definition_of(ALIASES.get(key, key))
    if definition is None or definition.type is not ConfigType.LIST:
        return text
    return ",".join(_items(text))


def _items(text: str) -> list[str]:
    """The elements of a list that are not empty."""
    return [item for item in (part.strip() for part in text.split(",")) if item]


def _endpoint(key: str, text: str) -> Endpoint:
    try:
        return Endpoint(*parse_listener(text, least_port=0, empty_host=True))
    except AddressError as error:
        raise ConfigError(key, text, str(error)) from None


def _with_ports(told: list[Endpoint], bound: list[Endpoint]) -> list[Endpoint]:
    ports = {endpoint.name: endpoint.port for endpoint in bound}
    return [Endpoint(one.name, one.host, one.port or ports[one.name]) for one in told]
