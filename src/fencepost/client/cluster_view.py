"""What blocking and asyncio clients know of a cluster in the same way: settings, metadata, who
coordinates what, and what an error shows to be out of date. No I/O."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Final, Generic, TypeVar

from fencepost.addresses import AddressError, parse_server
from fencepost.client.config import ClientConfig
from fencepost.client.connection_core import ConnectionCore
from fencepost.client.conversation import Where
from fencepost.client.errors import (
    BrokerError,
    ClientError,
    ConfigError,
    ConnectionFailed,
    ProtocolError,
    RequestTimedOut,
    UnknownTopic,
    refusal,
)
from fencepost.client.metadata import Metadata, Node, TopicInfo
from fencepost.client.protocol.versions import FinalizedFeatures
from fencepost.client.retry import Backoff, Deadline
from fencepost.wire.api.find_coordinator import FindCoordinatorRequest
from fencepost.wire.api.metadata import MetadataRequest, MetadataRequestTopic
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Uuid

# Attempts, with back-off between them, before "no such topic" is believed (about 2.5 s).
UNKNOWN_TOPIC_ATTEMPTS: Final = 6
GROUP_KEY: Final = 0
TRANSACTION_KEY: Final = 1
COORDINATED: Final = {GROUP_KEY: "group", TRANSACTION_KEY: "transactional id"}
"""What has a coordinator, by the kinds of FindCoordinator."""
FIRST_FIND_OF_MANY: Final = 4
"""Version from which FindCoordinator has a list of keys."""


BLANKS: Final = " \t\n\v\f\r"
"""That may be around an address: those of ASCII, as in Java."""


def parse_servers(text: str) -> list[tuple[str, int]]:
    """ "host:port,host:port" to pairs, each as `parse_server` takes it. Raises ConfigError."""
    servers = []
    for part in (piece.strip(BLANKS) for piece in text.split(",")):
        if not part:
            continue
        try:
            servers.append(parse_server(part))
        except AddressError as error:
            raise ConfigError("bootstrap.servers", text, f"{part!r} is not {error}") from None
    if not servers:
        raise ConfigError("bootstrap.servers", text, "names no server")
    return servers


C = TypeVar("C", bound=ConnectionCore)


class ClusterView(Generic[C]):
    """See the module; connections are of type C. Not picklable: ship the `ClientConfig`."""

    def __init__(
        self,
        bootstrap_servers: str | None = None,
        config: ClientConfig | None = None,
        **properties: Any,
    ) -> None:
        config = (config or ClientConfig()).with_settings(properties)
        if bootstrap_servers is not None:
            config = replace(config, bootstrap_servers=bootstrap_servers)
        self.config = config
        self.bootstrap = parse_servers(config.bootstrap_servers)
        self.metadata = Metadata()
        self.unknown_topic_attempts = UNKNOWN_TOPIC_ATTEMPTS
        self.finalized_features = FinalizedFeatures()
        """The levels of features that brokers told when they were connected to."""
        self._connections: dict[Where, C] = {}
        self._coordinators: dict[tuple[int, str], Node] = {}
        self._fresh_at: dict[str, float] = {}  # topic to monotonic seconds of its last answer

    def __reduce__(self) -> Any:
        raise TypeError(
            f"a {type(self).__name__} holds sockets and cannot be pickled; pickle its config"
            " instead"
        )

    # -- connections -----------------------------------------------------------------------------

    def open_connection(self, where: Where | None = None) -> C | None:
        """The connection, if it is open; None: some open one on which no answers are held."""
        if where is not None:
            found = self._connections.get(where)
            return found if found is not None and found.is_open else None
        usable = (one for to, one in self._connections.items() if not to.purpose and one.is_open)
        return next(usable, None)

    def keep_connection(self, where: Where, made: C) -> C:
        """Use this connection from now on, in the place of one that is not open any more."""
        former = self._connections.get(where)
        if former is not None:
            former.close()
        self.finalized_features.update(made.api_versions.features)
        self._connections[where] = made
        return made

    def close_connections(self, purpose: str) -> None:
        """Close those that are for this purpose alone."""
        for where in [where for where in self._connections if where.purpose == purpose]:
            self._connections.pop(where).close()

    def _close_connections(self) -> None:
        """Close every connection; the next request opens them again."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    # -- what is known ---------------------------------------------------------------------------

    def deadline(self, timeout_ms: float | None = None) -> Deadline:
        """A deadline `timeout_ms` from now, by default the configured API timeout."""
        return Deadline(self.config.api_timeout_ms if timeout_ms is None else timeout_ms)

    def backoff(self) -> Backoff:
        return Backoff(self.config.retry_backoff_ms, self.config.retry_backoff_max_ms)

    def is_stale(self, names: Iterable[str]) -> bool:
        """Whether what is known of any of these topics is older than `metadata.max.age.ms`."""
        oldest = time.monotonic() - self.config.metadata_max_age_ms / 1000
        return any(self._fresh_at.get(name, float("-inf")) < oldest for name in names)

    def topic_name(self, topic_id: Any) -> str | None:
        """The name a topic id has in the cache."""
        return self.metadata.names_by_id.get(topic_id)

    def topic_ids(self, names: Iterable[str]) -> dict[str, Uuid]:
        """Ids of topics by their names, as far as they are in the cache."""
        known = ((name, self.metadata.topics.get(name)) for name in names)
        return {
            name: topic.topic_id
            for name, topic in known
            if topic is not None and topic.topic_id != Uuid.ZERO
        }

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

    def metadata_request(self, names: list[str] | None) -> MetadataRequest:
        """The request for topics (None: all there are)."""
        return MetadataRequest(
            topics=None if names is None else [MetadataRequestTopic(name=n) for n in names],
            allow_auto_topic_creation=self.config.allow_auto_create_topics,
        )

    def take_metadata(self, response: Any) -> list[TopicInfo]:
        """Take in the answer; the topics in it."""
        infos = self.metadata.update(response)
        now = time.monotonic()
        for info in infos:
            self._fresh_at[info.name] = now
        return infos

    def fresh_topic(self, name: str) -> TopicInfo | None:
        """A topic as known, unless that is too old."""
        oldest = time.monotonic() - self.config.metadata_max_age_ms / 1000
        is_fresh = self._fresh_at.get(name, float("-inf")) >= oldest
        return self.metadata.topics.get(name) if is_fresh else None

    def leader_in(self, info: TopicInfo, partition: int) -> tuple[Node, int]:
        """The leader's node and leader epoch (-1 from brokers that do not tell). Raises as
        `leader`."""
        found = info.partitions.get(partition)
        node = self.metadata.nodes.get(found.leader_id) if found is not None else None
        if found is None or node is None:
            code = (
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                if found is None
                else ErrorCode.LEADER_NOT_AVAILABLE
            )
            what = "no such partition" if found is None else "the partition has no leader"
            raise BrokerError.of(code, what, topic=info.name, partition=partition)
        return node, found.leader_epoch

    def known_coordinator(self, key: str, key_type: int) -> Node | None:
        """The coordinator that was found before."""
        return self._coordinators.get((key_type, key))

    def take_coordinator(
        self, key: str, key_type: int, response: Any, version: int, host: str
    ) -> Node:
        """Take in the answer to `coordinator_request`. BrokerError, ProtocolError."""
        found = response
        if version >= FIRST_FIND_OF_MANY:
            if len(response.coordinators) != 1:
                count = len(response.coordinators)
                raise ProtocolError(f"asked for one coordinator, the broker named {count}")
            found = response.coordinators[0]
        if found.error_code != ErrorCode.NONE:
            raise BrokerError.of(
                found.error_code,
                found.error_message or f"no coordinator for {COORDINATED[key_type]} {key}",
                host=host,
            )
        node = Node(found.node_id, found.host, found.port)
        self._coordinators[key_type, key] = node
        return node

    def forget_coordinator(self, key: str, key_type: int = GROUP_KEY) -> None:
        """Have the next question for the coordinator asked of a broker again."""
        self._coordinators.pop((key_type, key), None)


def topic_in(infos: list[TopicInfo], name: str) -> TopicInfo:
    """The topic asked for. BrokerError, UnknownTopic."""
    found = [info for info in infos if info.name == name]
    code = found[0].error_code if found else int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if code != ErrorCode.NONE:
        raise BrokerError.of(code, _why_no_metadata(code, name), topic=name)
    return found[0]


def _why_no_metadata(code: int, topic: str) -> str:
    if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return "no such topic"
    if code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        return "this user may not describe the topic, or not create it where there is none"
    if code == ErrorCode.INVALID_TOPIC_EXCEPTION:
        from fencepost.log.names import invalid_topic_reason  # texts for people: for failures only

        return invalid_topic_reason(topic) or refusal(code)
    return f"metadata is not available: {refusal(code)}"


def coordinator_request(key: str, key_type: int, version: int) -> FindCoordinatorRequest:
    """Who coordinates `key`: one key up to version 3, a list of keys from version 4 on."""
    if version >= FIRST_FIND_OF_MANY:
        return FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
    return FindCoordinatorRequest(key_type=key_type, key=key)


def check_response(
    response: Any, error_of: Callable[[Any], int] | None, message: Any, host: str
) -> None:
    """Raise the error that `error_of` finds in a response, if any. BrokerError."""
    code = error_of(response) if error_of is not None else ErrorCode.NONE
    if code != ErrorCode.NONE:
        text = getattr(response, "error_message", None)
        raise BrokerError.of(code, text or f"{type(message).__name__} was refused", host=host)
