"""A cluster as a blocking client sees it: who leads what, and how to reach them despite failures.

`Cluster` owns one connection per broker, a metadata cache, and the retry rules:

* connections that fail, time out or turn out to be stale are dropped and opened again, with the
  metadata asked anew in between, through any broker that answers (bootstrap servers included);
* retriable error codes are tried again with exponential back-off until a total deadline;
* an unknown topic is believed only after a few attempts, because brokers learn of new topics late.

`request_any`, `request_controller` and `request_coordinator` send one request to
the right broker; `fencepost.client.leaders` spreads many partitions over their leaders.
One thread at a time. Not picklable: ship the `ClientConfig` and open a Cluster where it is needed.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, TypeVar

from fencepost.client.config import ClientConfig
from fencepost.client.connection import Connection
from fencepost.client.errors import (
    BrokerError,
    ClientError,
    ConfigError,
    ConnectionFailed,
    RequestTimedOut,
    UnknownTopic,
    refusal,
)
from fencepost.client.metadata import Metadata, Node, TopicInfo
from fencepost.client.retry import Backoff, Deadline, retrying
from fencepost.wire.api.find_coordinator import FindCoordinatorRequest
from fencepost.wire.api.metadata import MetadataRequest, MetadataRequestTopic
from fencepost.wire.errors import ErrorCode
from fencepost.wire.message import Message, Request

log = logging.getLogger("fencepost.client")

# Attempts, with back-off between them, before "no such topic" is believed (about 2.5 s).
UNKNOWN_TOPIC_ATTEMPTS = 6
GROUP_KEY = 0

R = TypeVar("R", bound=Message)
ErrorOf = Callable[[Any], int]


def parse_servers(text: str) -> list[tuple[str, int]]:
    """ "host:port,host:port" to pairs; brackets around IPv6. Raises ConfigError."""
    servers = []
    for part in (piece.strip() for piece in text.split(",")):
        if not part:
            continue
        host, colon, port = part.rpartition(":")
        if not colon or not host or not port.isdecimal() or not 0 < int(port) < 65536:
            raise ConfigError("bootstrap.servers", text, f"{part!r} is not HOST:PORT")
        servers.append((host.removeprefix("[").removesuffix("]"), int(port)))
    if not servers:
        raise ConfigError("bootstrap.servers", text, "names no server")
    return servers


class Cluster:
    """Connections and metadata of one cluster; a context manager.

    `bootstrap_servers` is "host:port,...", `config` everything else (its own bootstrap servers
    apply when the argument is None). Opening is lazy: the first request connects.
    """

    def __init__(
        self,
        bootstrap_servers: str | None = None,
        config: ClientConfig | None = None,
        **properties: Any,
    ) -> None:
        config = replace(config or ClientConfig(), **properties)
        if bootstrap_servers is not None:
            config = replace(config, bootstrap_servers=bootstrap_servers)
        self.config = config
        self.bootstrap = parse_servers(config.bootstrap_servers)
        self.metadata = Metadata()
        self.unknown_topic_attempts = UNKNOWN_TOPIC_ATTEMPTS
        self._connections: dict[int, Connection] = {}
        self._anyone: Connection | None = None  # to a bootstrap server; its node id is unknown
        self._coordinators: dict[str, Node] = {}
        self._fresh_at: dict[str, float] = {}  # topic to monotonic seconds of its last answer

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __reduce__(self) -> Any:
        raise TypeError("a Cluster holds sockets and cannot be pickled; pickle its config instead")

    def close(self) -> None:
        """Close every connection; the next request opens them again."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()
        if self._anyone is not None:
            self._anyone.close()
            self._anyone = None

    def deadline(self, timeout_ms: float | None = None) -> Deadline:
        """A deadline `timeout_ms` from now, by default the configured API timeout."""
        return Deadline(self.config.api_timeout_ms if timeout_ms is None else timeout_ms)

    def backoff(self) -> Backoff:
        return Backoff(self.config.retry_backoff_ms, self.config.retry_backoff_max_ms)

    # -- metadata --------------------------------------------------------------------------------

    def describe(
        self, topics: Iterable[str] | None = None, *, deadline: Deadline | None = None
    ) -> list[TopicInfo]:
        """Ask for `topics` (None: all there are) and return what came, error codes included."""
        names = None if topics is None else list(topics)
        request = MetadataRequest(
            topics=None if names is None else [MetadataRequestTopic(name=n) for n in names],
            allow_auto_topic_creation=self.config.allow_auto_create_topics,
        )
        response = self.request_any(request, lambda r: r.error_code, deadline=deadline)
        infos = self.metadata.update(response)
        now = time.monotonic()
        for info in infos:
            self._fresh_at[info.name] = now
        return infos

    def topic(self, name: str, *, deadline: Deadline | None = None) -> TopicInfo:
        """A topic from the cache, asked for when missing or old. Raises UnknownTopic."""
        deadline = deadline or self.deadline()
        return retrying(
            f"metadata of topic {name}",
            lambda: self._look_up(name, deadline),
            deadline,
            self.backoff(),
            self.unknown_topic_limit(),
        )

    def _look_up(self, name: str, deadline: Deadline) -> TopicInfo:
        """A topic from the cache or by asking once; the caller retries."""
        known = self.metadata.topics.get(name)
        if known is not None and not self.is_stale([name]):
            return known
        infos = [info for info in self.describe([name], deadline=deadline) if info.name == name]
        code = infos[0].error_code if infos else int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if code != ErrorCode.NONE:
            missing = code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            what = "no such topic" if missing else "metadata is not available"
            raise BrokerError.of(code, what, topic=name)
        return infos[0]

    def is_stale(self, names: Iterable[str]) -> bool:
        """Whether what is known of any of these topics is older than `metadata.max.age.ms`."""
        oldest = time.monotonic() - self.config.metadata_max_age_ms / 1000
        return any(self._fresh_at.get(name, float("-inf")) < oldest for name in names)

    def topic_name(self, topic_id: Any) -> str | None:
        """The name a topic id has in the cache."""
        return self.metadata.names_by_id.get(topic_id)

    def leader(self, topic: str, partition: int, deadline: Deadline) -> tuple[Node, int]:
        """The leader's node and leader epoch (-1 from brokers that do not tell), asking once.

        Raises UnknownTopic when there is no such partition, and BrokerError LEADER_NOT_AVAILABLE
        while nobody leads it; both retriable, and retried by the callers.
        """
        info = self._look_up(topic, deadline).partitions.get(partition)
        node = self.metadata.nodes.get(info.leader_id) if info is not None else None
        if info is None or node is None:
            code = (
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                if info is None
                else ErrorCode.LEADER_NOT_AVAILABLE
            )
            what = "no such partition" if info is None else "the partition has no leader"
            raise BrokerError.of(code, what, topic=topic, partition=partition)
        return node, info.leader_epoch

    def invalidate(self, topics: Iterable[str]) -> None:
        """Have the next question about these topics asked of a broker again."""
        for name in topics:
            self._fresh_at.pop(name, None)

    def unknown_topic_limit(self) -> Callable[[ClientError], None]:
        """A `before_retry` that lets unknown topics be retried a few times only."""
        attempts = 0

        def check(error: ClientError) -> None:
            nonlocal attempts
            self.note_failure(error)
            if isinstance(error, UnknownTopic):
                attempts += 1
                if attempts >= self.unknown_topic_attempts:
                    raise error

        return check

    def note_failure(self, error: ClientError) -> None:
        """Drop whatever an error shows to be out of date."""
        if error.topic is not None:
            self.invalidate([error.topic])
        if isinstance(error, ConnectionFailed | RequestTimedOut):
            # Whatever that broker led may have moved.
            self._fresh_at.clear()
            self._coordinators.clear()

    # -- connections -----------------------------------------------------------------------------

    def connection(self, node: Node) -> Connection:
        """An open connection to `node`, made if there is none."""
        existing = self._connections.get(node.node_id)
        if existing is not None:
            if existing.is_open and (existing.host, existing.port) == (node.host, node.port):
                return existing
            existing.close()
        connection = Connection.configured(self.config, node.host, node.port)
        self._connections[node.node_id] = connection
        return connection

    def any_connection(self) -> Connection:
        """Some open connection: one in use, else to a known broker, else to a bootstrap server."""
        for open_one in [*self._connections.values(), self._anyone]:
            if open_one is not None and open_one.is_open:
                return open_one
        last: ClientError | None = None
        for node in self.metadata.nodes.values():
            try:
                return self.connection(node)
            except (ConnectionFailed, RequestTimedOut) as error:
                last = error
        for host, port in self.bootstrap:
            try:
                self._anyone = Connection.configured(self.config, host, port)
            except (ConnectionFailed, RequestTimedOut) as error:
                last = error
            else:
                return self._anyone
        tried = ", ".join(f"{host}:{port}" for host, port in self.bootstrap)
        raise ConnectionFailed(f"no broker of {tried} can be reached; last error: {last}")

    # -- requests --------------------------------------------------------------------------------

    def request_any(
        self,
        message: Request[R],
        error_of: ErrorOf | None = None,
        *,
        highest: int | None = None,
        deadline: Deadline | None = None,
    ) -> R:
        """Send `message` to whichever broker answers; `error_of` finds its error code, if any."""

        def attempt() -> R:
            connection = self.any_connection()
            response = connection.request(message, highest=highest)
            _check(response, error_of, message, connection.address)
            return response

        return retrying(
            type(message).__name__,
            attempt,
            deadline or self.deadline(),
            self.backoff(),
            self.note_failure,
        )

    def request_controller(
        self,
        message: Request[R],
        error_of: ErrorOf | None = None,
        *,
        deadline: Deadline | None = None,
    ) -> R:
        """Send `message` to the broker that metadata names as controller (in KRaft clusters any
        broker, which forwards)."""

        def attempt() -> R:
            if self.metadata.controller_id not in self.metadata.nodes:
                self.describe([])
            node = self.metadata.nodes.get(self.metadata.controller_id)
            connection = self.connection(node) if node else self.any_connection()
            response = connection.request(message)
            _check(response, error_of, message, connection.address)
            return response

        def before_retry(error: ClientError) -> None:
            self.note_failure(error)
            self.metadata.controller_id = -1  # asked for again by the next attempt

        return retrying(
            type(message).__name__,
            attempt,
            deadline or self.deadline(),
            self.backoff(),
            before_retry,
        )

    def request_coordinator(
        self,
        group: str,
        message: Request[R] | Callable[[Connection], Request[R]],
        error_of: ErrorOf | None = None,
        *,
        what: str,
        highest: int | None = None,
        deadline: Deadline | None = None,
        timeout_ms: float | None = None,
    ) -> R:
        """Send `message` to the coordinator of `group`; a function is given the connection, for
        requests whose layout depends on the version. `what` begins the text of errors. An answer
        is awaited for `timeout_ms`, by default `request.timeout.ms`."""

        def attempt() -> R:
            node = self._find_coordinator(group)
            connection = self.connection(node)
            request = message if isinstance(message, Request) else message(connection)
            response = connection.request(request, highest=highest, timeout_ms=timeout_ms)
            code = error_of(response) if error_of is not None else ErrorCode.NONE
            if code != ErrorCode.NONE:
                raise BrokerError.of(code, f"{what}: {refusal(code)}", host=node.address)
            return response

        def before_retry(error: ClientError) -> None:
            self.note_failure(error)
            self._coordinators.pop(group, None)

        return retrying(
            what,
            attempt,
            deadline or self.deadline(),
            self.backoff(),
            before_retry,
        )

    def coordinator(self, group: str, *, deadline: Deadline | None = None) -> Node:
        """The broker that coordinates `group`."""
        return retrying(
            f"finding the coordinator of group {group}",
            lambda: self._find_coordinator(group),
            deadline or self.deadline(),
            self.backoff(),
            self.note_failure,
        )

    def _find_coordinator(self, group: str) -> Node:
        """The coordinator as known, or by asking once; the caller retries."""
        known = self._coordinators.get(group)
        if known is not None:
            return known
        connection = self.any_connection()
        # Both layouts are filled in: one key up to version 3, a list of keys from version 4.
        many = connection.version_for(FindCoordinatorRequest) >= 4
        request = (
            FindCoordinatorRequest(key_type=GROUP_KEY, coordinator_keys=[group])
            if many
            else FindCoordinatorRequest(key_type=GROUP_KEY, key=group)
        )
        response = connection.request(request)
        found = response.coordinators[0] if many else response
        if found.error_code != ErrorCode.NONE:
            raise BrokerError.of(
                found.error_code,
                found.error_message or f"no coordinator for group {group}",
                host=connection.address,
            )
        node = Node(found.node_id, found.host, found.port)
        self._coordinators[group] = node
        return node


def _check(response: Any, error_of: ErrorOf | None, message: Message, host: str) -> None:
    code = error_of(response) if error_of is not None else ErrorCode.NONE
    if code != ErrorCode.NONE:
        text = getattr(response, "error_message", None)
        raise BrokerError.of(code, text or f"{type(message).__name__} was refused", host=host)
