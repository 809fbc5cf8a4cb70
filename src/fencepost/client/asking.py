"""How requests find the broker they are for: conversations of `Cluster` and `AsyncCluster`.

Each takes the `ClusterView` whose connections and metadata it goes by. What ends in `once` asks
once, and its caller retries; the others retry by themselves until a deadline.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable
from typing import Any, TypeVar

from fencepost.client.cluster_view import (
    COORDINATED,
    GROUP_KEY,
    ClusterView,
    check_response,
    coordinator_request,
    topic_in,
)
from fencepost.client.connection_core import ConnectionCore
from fencepost.client.conversation import Connect, Conversation, Exchange, Where
from fencepost.client.errors import (
    BrokerError,
    ClientError,
    ConnectionFailed,
    ProtocolError,
    RequestTimedOut,
    refusal,
)
from fencepost.client.metadata import Node, TopicInfo
from fencepost.client.retry import Deadline, repeating
from fencepost.wire.api.find_coordinator import FindCoordinatorRequest
from fencepost.wire.api.metadata import MetadataRequest, MetadataRequestTopic
from fencepost.wire.errors import ErrorCode
from fencepost.wire.message import Message, Request
from fencepost.wire.types import Uuid

log = logging.getLogger("fencepost.client")

R = TypeVar("R", bound=Message)
ErrorOf = Callable[[Any], int]
Ask = Request[R] | Callable[[ConnectionCore], Request[R]]
"""A request, or what makes one for a connection, where its layout depends on the version."""


def connect(node: Node, *, purpose: str = "") -> Conversation[ConnectionCore]:
    """An open connection to a broker; see `Where` for those with a purpose."""
    return (yield from Connect(Where(node.host, node.port, purpose)))


def any_connection(view: ClusterView[Any]) -> Conversation[ConnectionCore]:
    """Some open connection: one in use, else to a known broker, else to a bootstrap server.

    Raises ConnectionFailed with the reason of each; ProtocolError if no retry can help.
    """
    in_use = view.open_connection()
    if in_use is not None:
        return in_use
    known = [(node.host, node.port) for node in view.metadata.nodes.values()]
    failures: list[ClientError] = []
    for host, port in dict.fromkeys([*known, *view.bootstrap]):
        try:
            return (yield from Connect(Where(host, port)))
        except (ConnectionFailed, RequestTimedOut, ProtocolError) as error:
            failures.append(error)
    tried = ", ".join(f"{host}:{port}" for host, port in view.bootstrap)
    # Of TLS first: a wrong security.protocol is the likeliest mistake, and the others may be of
    # brokers that do not run.
    reasons = map(str, sorted(failures, key=lambda error: "TLS" not in error.message))
    kind = ConnectionFailed if any(error.retriable for error in failures) else ProtocolError
    raise kind(f"no broker of {tried} can be reached: {'; '.join(reasons)}")


def request_any(
    view: ClusterView[Any],
    message: Request[R],
    error_of: ErrorOf | None = None,
    *,
    highest: int | None = None,
    deadline: Deadline | None = None,
) -> Conversation[R]:
    """Send `message` to whichever broker answers; `error_of` finds its error code, if any."""

    def attempt() -> Conversation[R]:
        connection = yield from any_connection(view)
        response = yield from Exchange(connection, message, highest=highest)
        check_response(response, error_of, message, connection.address)
        return response

    deadline = deadline or view.deadline()
    return repeating(type(message).__name__, attempt, deadline, view.backoff(), view.note_failure)


def request_controller(
    view: ClusterView[Any],
    message: Request[R],
    error_of: ErrorOf | None = None,
    *,
    deadline: Deadline | None = None,
) -> Conversation[R]:
    """Send `message` to the broker that metadata names as controller (in KRaft clusters any
    broker, which forwards)."""

    def attempt() -> Conversation[R]:
        metadata = view.metadata
        if metadata.controller_id not in metadata.nodes:
            yield from describe(view, [])
        node = metadata.nodes.get(metadata.controller_id)
        connection = yield from connect(node) if node else any_connection(view)
        response = yield from Exchange(connection, message)
        check_response(response, error_of, message, connection.address)
        return response

    def before_retry(error: ClientError) -> None:
        view.note_failure(error)
        view.metadata.controller_id = -1  # asked for again by the next attempt

    deadline = deadline or view.deadline()
    return repeating(type(message).__name__, attempt, deadline, view.backoff(), before_retry)


def request_node(node: Node, message: Request[R], version: int | None = None) -> Conversation[R]:
    """Send `message` to one broker, once."""
    connection = yield from connect(node)
    return (yield from Exchange(connection, message, version))


# -- metadata ------------------------------------------------------------------------------------


def describe(
    view: ClusterView[Any],
    topics: Iterable[str] | None = None,
    *,
    deadline: Deadline | None = None,
) -> Conversation[list[TopicInfo]]:
    """Ask for `topics` (None: all there are); what came, error codes included."""
    request = view.metadata_request(None if topics is None else list(topics))
    response = yield from request_any(view, request, lambda r: r.error_code, deadline=deadline)
    return view.take_metadata(response)


def naming_topics(
    view: ClusterView[Any], topic_ids: Collection[Uuid]
) -> Conversation[dict[Uuid, str]]:
    """The names of these topics, asked for where the cache has none; without those that the broker
    does not know."""
    missing = [one for one in topic_ids if view.topic_name(one) is None]
    if missing:
        wanted = [MetadataRequestTopic(topic_id=one, name=None) for one in sorted(missing)]
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
        view.take_metadata((yield from request_any(view, request, lambda r: r.error_code)))
    named = {one: view.topic_name(one) for one in topic_ids}
    return {one: name for one, name in named.items() if name is not None}


def topic(
    view: ClusterView[Any], name: str, deadline: Deadline | None = None
) -> Conversation[TopicInfo]:
    """A topic from the cache, asked for when missing or old. Raises UnknownTopic."""
    until = deadline or view.deadline()
    return repeating(
        f"metadata of topic {name}",
        lambda: topic_once(view, name, until),
        until,
        view.backoff(),
        view.unknown_topic_limit(),
    )


def topic_once(view: ClusterView[Any], name: str, deadline: Deadline) -> Conversation[TopicInfo]:
    """A topic from the cache, or as a broker says when asked once. Raises UnknownTopic."""
    known = view.fresh_topic(name)
    return known or topic_in((yield from describe(view, [name], deadline=deadline)), name)


def leader_once(
    view: ClusterView[Any], topic: str, partition: int, deadline: Deadline
) -> Conversation[tuple[Node, int]]:
    """The leader's node and leader epoch (-1 from brokers that do not tell).

    Raises UnknownTopic when there is no such partition, and BrokerError LEADER_NOT_AVAILABLE
    while no replica leads it; both retriable.
    """
    return view.leader_in((yield from topic_once(view, topic, deadline)), partition)


# -- coordinators --------------------------------------------------------------------------------


def coordinator_once(
    view: ClusterView[Any], key: str, key_type: int = GROUP_KEY
) -> Conversation[Node]:
    """The coordinator of `key` as known, or as a broker says."""
    known = view.known_coordinator(key, key_type)
    if known is not None:
        return known
    connection = yield from any_connection(view)
    version = connection.version_for(FindCoordinatorRequest)
    request = coordinator_request(key, key_type, version)
    response = yield from Exchange(connection, request, version)
    return view.take_coordinator(key, key_type, response, version, connection.address)


def coordinator(
    view: ClusterView[Any],
    key: str,
    key_type: int = GROUP_KEY,
    *,
    deadline: Deadline | None = None,
) -> Conversation[Node]:
    """The broker that coordinates `key`."""
    return repeating(
        f"finding the coordinator of {COORDINATED[key_type]} {key}",
        lambda: coordinator_once(view, key, key_type),
        deadline or view.deadline(),
        view.backoff(),
        view.note_failure,
    )


def request_coordinator(
    view: ClusterView[Any],
    key: str,
    message: Ask[R],
    error_of: ErrorOf | None = None,
    *,
    what: str,
    key_type: int = GROUP_KEY,
    highest: int | None = None,
    deadline: Deadline | None = None,
    timeout_ms: float | None = None,
    purpose: str = "",
) -> Conversation[R]:
    """Send `message` to the coordinator of `key`: of a group, or with TRANSACTION_KEY of a
    transactional id.

    A function is given the connection, for requests whose layout depends on the version. `what`
    begins the text of errors. An answer is awaited for `timeout_ms`, by default
    `request.timeout.ms`; on the connection that is for this `purpose`, if one is given.
    """

    def attempt() -> Conversation[R]:
        node = yield from coordinator_once(view, key, key_type)
        connection = yield from connect(node, purpose=purpose)
        request = message if isinstance(message, Request) else message(connection)
        response = yield from Exchange(connection, request, None, highest, timeout_ms)
        code = error_of(response) if error_of is not None else ErrorCode.NONE
        if code != ErrorCode.NONE:
            raise BrokerError.of(code, f"{what}: {refusal(code)}", host=node.address)
        return response

    def before_retry(error: ClientError) -> None:
        view.note_failure(error)
        view.forget_coordinator(key, key_type)

    return repeating(what, attempt, deadline or view.deadline(), view.backoff(), before_retry)
