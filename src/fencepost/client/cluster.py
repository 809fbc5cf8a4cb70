"""A cluster as a blocking client sees it: who leads what, and how to reach them despite failures.

`Cluster` owns one connection per broker, a metadata cache, and the retry rules:

* connections that fail, time out or turn out to be stale are dropped and opened again, with the
  metadata asked again in between, through any broker that answers (bootstrap servers included);
* retriable error codes are tried again with exponential back-off until a total deadline;
* an unknown topic is believed only after a few attempts, because brokers learn of new topics late.

`request_any`, `request_controller` and `request_coordinator` send one request to the right broker;
`fencepost.client.leaders` spreads many partitions over their leaders. What asyncio clients do in
the same way is in `asking`, what they know of a cluster in `cluster_view`. One thread at a time.
Not picklable: ship the `ClientConfig` and open a Cluster where it is needed.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from fencepost.client import asking
from fencepost.client.asking import Ask, ErrorOf
from fencepost.client.cluster_view import (
    GROUP_KEY,
    TRANSACTION_KEY as TRANSACTION_KEY,
    ClusterView,
    parse_servers as parse_servers,
)
from fencepost.client.connection import Connection, wait_for_answers
from fencepost.client.conversation import (
    Alone,
    Begin,
    Connect,
    Conversation,
    Exchange,
    ExchangeAll,
    FirstOf,
    Pause,
    Step,
    Tell,
    Where,
    drive,
)
from fencepost.client.errors import ClientError, RequestTimedOut
from fencepost.client.metadata import Node, TopicInfo
from fencepost.client.protocol.in_flight import Token
from fencepost.client.retry import Deadline
from fencepost.wire.message import Message, Request

R = TypeVar("R", bound=Message)
T = TypeVar("T")


class Cluster(ClusterView[Connection]):
    """Connections and metadata of one cluster; a context manager.

    `bootstrap_servers` is "host:port,...", `config` everything else (its own bootstrap servers
    apply when the argument is None). Opening is lazy: the first request connects.
    """

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Close every connection; the next request opens them again."""
        self._close_connections()

    # -- carrying out conversations --------------------------------------------------------------

    def run(self, conversation: Conversation[T]) -> T:
        """Carry out a conversation over this cluster's connections."""
        return drive(conversation, self._take)

    def _take(self, step: Step[Any]) -> Any:
        if isinstance(step, Exchange):
            return self._exchange(step)
        if isinstance(step, Connect):
            return self._connect(step.where)
        if isinstance(step, ExchangeAll):
            return self._exchange_all(step.exchanges)
        if isinstance(step, Begin):
            return _Begun.send(step.exchange, self.config.request_timeout_ms)
        if isinstance(step, FirstOf):
            return _first_of(step.begun, Deadline(step.wait_ms))
        if isinstance(step, Alone):
            return self.run(step.conversation)  # one thread at a time
        if isinstance(step, Pause):
            return time.sleep(step.pause_ms / 1000)
        assert isinstance(step, Tell), step
        return step.function(step.argument)

    def _connect(self, where: Where) -> Connection:
        known = self.open_connection(where)
        if known is not None and not known.was_closed:
            return known
        made = Connection.configured(self.config, where.host, where.port)
        return self.keep_connection(where, made)

    def _exchange(self, asked: Exchange[R]) -> R:
        return _receive(asked, _send(asked))

    def _exchange_all(self, exchanges: list[Exchange[Any]]) -> list[Any]:
        """All requests are written before the first answer is awaited."""
        found: list[Any] = []
        for one in exchanges:
            try:
                found.append(_send(one))
            except ClientError as error:
                found.append(error)
        for place, (one, token) in enumerate(zip(exchanges, found, strict=True)):
            if isinstance(token, ClientError):
                continue
            try:
                found[place] = _receive(one, token)
            except ClientError as error:
                found[place] = error
        return found

    # -- metadata and connections ----------------------------------------------------------------

    def describe(
        self, topics: Iterable[str] | None = None, *, deadline: Deadline | None = None
    ) -> list[TopicInfo]:
        """Ask for `topics` (None: all there are) and return what came, error codes included."""
        return self.run(asking.describe(self, topics, deadline=deadline))

    def topic(self, name: str, *, deadline: Deadline | None = None) -> TopicInfo:
        """A topic from the cache, asked for when missing or old. Raises UnknownTopic."""
        return self.run(asking.topic(self, name, deadline))

    def leader(self, topic: str, partition: int, deadline: Deadline) -> tuple[Node, int]:
        """See `asking.leader_once`; callers retry."""
        return self.run(asking.leader_once(self, topic, partition, deadline))

    def connection(self, node: Node) -> Connection:
        """An open connection to `node`, made if there is none."""
        return self._connect(Where(node.host, node.port))

    def any_connection(self) -> Connection:
        """Some open connection; see `asking.any_connection`."""
        return cast("Connection", self.run(asking.any_connection(self)))

    # -- requests --------------------------------------------------------------------------------

    def request_any(
        self,
        message: Request[R],
        error_of: ErrorOf | None = None,
        *,
        highest: int | None = None,
        deadline: Deadline | None = None,
    ) -> R:
        """Send `message` to whichever broker answers; see `asking.request_any`."""
        return self.run(
            asking.request_any(self, message, error_of, highest=highest, deadline=deadline)
        )

    def request_controller(self, message: Request[R], error_of: ErrorOf | None = None) -> R:
        """Send `message` to the controller; see `asking.request_controller`."""
        return self.run(asking.request_controller(self, message, error_of))

    def request_coordinator(
        self, key: str, message: Ask[R], error_of: ErrorOf | None = None, **how: Any
    ) -> R:
        """Send `message` to the coordinator of `key`; see `asking.request_coordinator`."""
        return self.run(asking.request_coordinator(self, key, message, error_of, **how))

    def coordinator(self, key: str, key_type: int = GROUP_KEY) -> Node:
        """The broker that coordinates `key` (with TRANSACTION_KEY: the transactional id)."""
        return self.run(asking.coordinator(self, key, key_type))

    def find_coordinator(self, key: str, key_type: int = GROUP_KEY) -> Node:
        """The coordinator as known, or by asking once; the caller retries."""
        return self.run(asking.coordinator_once(self, key, key_type))


def _send(asked: Exchange[R]) -> Token[R]:
    connection = cast("Connection", asked.connection)  # a Cluster makes no others
    return connection.send(asked.message, asked.version, highest=asked.highest)


def _receive(asked: Exchange[R], token: Token[R]) -> R:
    connection = cast("Connection", asked.connection)
    return connection.receive(token, timeout_ms=asked.timeout_ms, buffer=asked.buffer)


@dataclass(slots=True, eq=False)
class _Begun:
    """A request on its way. Its answer is late once nothing of it came for `timeout_ms`."""

    connection: Connection
    asked: Exchange[Any]
    token: Token[Any]
    timeout_ms: float
    late: Deadline

    @classmethod
    def send(cls, asked: Exchange[Any], default_timeout_ms: float) -> _Begun:
        timeout_ms = default_timeout_ms if asked.timeout_ms is None else asked.timeout_ms
        connection = cast("Connection", asked.connection)
        return cls(connection, asked, _send(asked), timeout_ms, Deadline(timeout_ms))

    def look(self, *, has_come: bool) -> Any:
        """The answer, or what is wrong; None: not yet. `has_come` says that there is something to
        read, which the application may have let wait for longer than `timeout_ms`."""
        if has_come:
            try:
                answer = self.connection.receive_now(self.token, self.asked.buffer)
            except ClientError as error:
                return error
            if answer is None:
                self.late = Deadline(self.timeout_ms)
            return answer
        if not self.late.passed:
            return None
        self.connection.close()
        awaited = self.token.response_class.__name__
        return RequestTimedOut(
            f"no {awaited} within {self.timeout_ms:.0f} ms", host=self.connection.address
        )


def _first_of(begun: list[_Begun], deadline: Deadline) -> list[Any]:
    connections = {one.connection for one in begun}
    while True:
        wait_ms = min([deadline.remaining_ms(), *(one.late.remaining_ms() for one in begun)])
        ready = wait_for_answers(connections, wait_ms)
        answers = [one.look(has_come=one.connection in ready) for one in begun]
        if deadline.passed or any(answer is not None for answer in answers):
            return answers
