"""Fetches that stay in flight from one poll to the next, without I/O: one to each leader.

A poll takes the answers that are there, of whichever leaders; a leader that has nothing to answer
with holds back nothing of the others. Each leader is fetched from over a connection of its own, so
that no other request waits behind a fetch that the leader holds.

Positions may move while a fetch is in flight, partitions be paused, revoked, or led by another
broker. Then that part of its answer is dropped. As in Kafka's consumer, a leader is not asked for
more partitions while its fetch is in flight; but one that has kept them waiting for
`WAIT_FOR_ANSWER_S` is given up with its connection, and all are asked for in another one.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from fencepost.client import asking
from fencepost.client.cluster_view import ClusterView
from fencepost.client.conversation import Begin, Begun, Conversation, Exchange, FirstOf, Pause
from fencepost.client.errors import BrokerError, ClientError, DeadlineExceeded
from fencepost.client.fetch_core import FetchCore, Fetched, FetchPosition, about
from fencepost.client.metadata import Node, TopicInfo, TopicPartition
from fencepost.client.protocol.framing import ReceiveBuffer
from fencepost.client.retry import Deadline

WAIT_FOR_ANSWER_S: Final = 0.1
"""For so long partitions wait for the answer to a fetch that was sent without them."""
TRIES_MIN: Final = 6
"""So often, at least, everything must have failed before that is an error."""

_ONCE: Final = Deadline(0)
"""For what is tried once."""

_numbers = itertools.count(1)

Positions = Mapping[TopicPartition, FetchPosition]
Asked = dict[TopicPartition, tuple[FetchPosition, int]]
"""Positions, and the leader epochs that metadata had."""


@dataclass(slots=True, eq=False)
class _InFlight:
    """A fetch on its way. `asked` loses partitions that have got another leader, or another topic
    of that name; `topics` is what metadata had of its topics when that was looked at last."""

    node: Node
    exchange: Exchange[Any]
    begun: Begun
    asked: Asked
    topics: dict[str, TopicInfo | None]
    missed_since: float | None = None
    """When partitions were first wanted of the leader that this was sent without."""

    def covers(self, at: TopicPartition, position: FetchPosition) -> bool:
        asked = self.asked.get(at)
        return asked is not None and asked[0] == position

    def drop_moved(self, known: Mapping[str, TopicInfo]) -> None:
        """Forget what the leader does not lead any more, according to metadata."""
        for name, before in self.topics.items():
            now = known.get(name)
            if now is before or now is None:  # None: about to be asked for
                continue
            self.topics[name] = now
            for at in [at for at in self.asked if at.topic == name]:
                partition = now.partitions.get(at.partition)
                moved = partition is None or partition.leader_id != self.node.node_id
                if moved or before is None or now.topic_id != before.topic_id:
                    del self.asked[at]


@dataclass(slots=True)
class _Failure:
    """What went wrong, and of which partitions at which positions nothing came for that."""

    error: ClientError
    positions: Positions


class PendingFetches:
    """See the module; `core` makes requests and reads answers."""

    def __init__(self, core: FetchCore) -> None:
        self._core = core
        self._view = core.view
        self._purpose = f"fetches {next(_numbers)}"
        self._in_flight: dict[int, _InFlight] = {}
        self._buffers: dict[int, ReceiveBuffer] = {}
        self._retries = _Retries(core.view)
        self._raised_next: _Failure | None = None

    def receiving(
        self, wanted: Callable[[], Positions], max_wait_ms: float
    ) -> Conversation[list[Fetched]]:
        """What leaders have answered with, if any does within `max_wait_ms`; perhaps nothing, also
        before that. What has not come yet stays in flight.

        `wanted` says where to read on. It is asked again after each wait, in which the application
        may have moved positions. Blobs are valid until the next call.

        Raises OffsetOutOfRange, UnknownTopic and other errors that trying again cannot help, naming
        the partition, and DeadlineExceeded when everything has failed for `default.api.timeout.ms`;
        if other leaders have brought records, in the next call.
        """
        deadline = Deadline(max_wait_ms)
        failures: list[_Failure] = []
        positions = wanted()
        if (late := self._raised_next) is not None:
            self._raised_next = None
            if _is_current(late, positions):
                raise late.error
        yield from self._asking(positions, failures)
        wait_ms = 0 if failures else deadline.remaining_ms()
        wait_ms = min(wait_ms, self._retries.wait_ms(), self._missing_wait_ms())
        in_flight = list(self._in_flight.values())
        answers: list[Any] = []
        if in_flight:
            answers = yield from FirstOf([one.begun for one in in_flight], wait_ms)
        else:
            yield from Pause(wait_ms)
        positions = wanted()
        found = self._take(in_flight, answers, positions, failures)
        is_asked = bool(self._in_flight)
        final = self._retries.note(failures, found, positions, in_flight=is_asked)
        if final is not None:
            if not any(len(one.records) for one in found):
                raise final.error
            self._raised_next = final
        return found

    def close(self) -> None:
        """Give up what is in flight, with its connections."""
        self._in_flight.clear()
        self._raised_next = None
        self._view.close_connections(self._purpose)

    # -- asking ----------------------------------------------------------------------------------

    def _asking(self, wanted: Positions, failures: list[_Failure]) -> Conversation[None]:
        """Send a fetch to each leader that has none in flight, of what is wanted of it."""
        known = self._view.metadata.topics
        for one in self._in_flight.values():
            one.drop_moved(known)
        due = self._retries.due(wanted)
        leaders = yield from self._leaders(self._uncovered(due), failures)
        now = time.monotonic()
        given_up = False
        for node_id, one in list(self._in_flight.items()):
            if node_id not in leaders:
                one.missed_since = None
            elif one.missed_since is None:
                one.missed_since = now
            elif now - one.missed_since >= WAIT_FOR_ANSWER_S:
                self._give_up(one)
                given_up = True
        if given_up:  # what these had asked for is wanted still
            leaders = yield from self._leaders(self._uncovered(due), [])
        for node_id, (node, asked) in leaders.items():
            if node_id not in self._in_flight:
                try:
                    yield from self._sending(node, asked)
                except ClientError as error:
                    failures.append(_Failure(about(error, asked), _positions(asked)))

    def _uncovered(self, due: Positions) -> Positions:
        """What no fetch in flight will bring."""
        in_flight = self._in_flight.values()
        if not in_flight:
            return due
        return {
            at: position
            for at, position in due.items()
            if not any(one.covers(at, position) for one in in_flight)
        }

    def _leaders(
        self, positions: Positions, failures: list[_Failure]
    ) -> Conversation[dict[int, tuple[Node, Asked]]]:
        """What each leader is to be asked for. A broker is asked for metadata once at most: when
        to try again is for `_Retries` to say."""
        found: dict[int, tuple[Node, Asked]] = {}
        topics: dict[str, TopicInfo | ClientError] = {}
        unreachable: ClientError | None = None
        for at, position in positions.items():
            topic = topics.get(at.topic) or self._view.fresh_topic(at.topic) or unreachable
            if topic is None:
                try:
                    topic = yield from asking.topic_once(self._view, at.topic, _ONCE)
                except ClientError as error:
                    topic = getattr(error, "last", None) or error
                    unreachable = None if isinstance(topic, BrokerError) else topic
            topics[at.topic] = topic
            try:
                if isinstance(topic, ClientError):
                    raise topic
                node, epoch = self._view.leader_in(topic, at.partition)
            except ClientError as error:
                failures.append(_Failure(error, {at: position}))
            else:
                found.setdefault(node.node_id, (node, {}))[1][at] = (position, epoch)
        return found

    def _sending(self, node: Node, asked: Asked) -> Conversation[None]:
        config = self._view.config
        connection = yield from asking.connect(node, purpose=self._purpose)
        request, version = yield from self._core.request(connection, asked)
        exchange: Exchange[Any] = Exchange(
            connection,
            request,
            version,
            timeout_ms=config.fetch_max_wait_ms + config.request_timeout_ms,
            buffer=self._buffers.setdefault(node.node_id, ReceiveBuffer()),
        )
        begun = yield from Begin(exchange)
        known = self._view.metadata.topics
        topics = {at.topic: known.get(at.topic) for at in asked}
        self._in_flight[node.node_id] = _InFlight(node, exchange, begun, asked, topics)

    def _give_up(self, one: _InFlight) -> None:
        """Its connection ends with it: an answer may come over that for a long time yet."""
        del self._in_flight[one.node.node_id]
        one.exchange.connection.close()

    def _missing_wait_ms(self) -> float:
        """For how long the partitions that have waited longest are to wait for an answer yet."""
        missed = (one.missed_since for one in self._in_flight.values())
        since = min((at for at in missed if at is not None), default=float("inf"))
        return max(0.0, since + WAIT_FOR_ANSWER_S - time.monotonic()) * 1000

    # -- answers ---------------------------------------------------------------------------------

    def _take(
        self,
        in_flight: list[_InFlight],
        answers: list[Any],
        wanted: Positions,
        failures: list[_Failure],
    ) -> list[Fetched]:
        """Take the answers that have come, without what is not wanted any more."""
        found: list[Fetched] = []
        for one, answer in zip(in_flight, answers, strict=True):
            if answer is None or self._in_flight.get(one.node.node_id) is not one:
                continue  # not yet; or it was closed meanwhile
            del self._in_flight[one.node.node_id]
            one.drop_moved(self._view.metadata.topics)
            asked = {at: one.asked[at] for at in one.asked if one.covers(at, wanted.get(at, _NO))}
            self._read(one, answer, asked, found, failures)
        return found

    def _read(
        self,
        one: _InFlight,
        answer: Any,
        asked: Asked,
        found: list[Fetched],
        failures: list[_Failure],
    ) -> None:
        """Sort the parts of an answer that are wanted still into what it brings and refuses."""
        try:
            if isinstance(answer, ClientError):
                raise answer
            brought, refused = self._core.read(answer, asked, one.exchange.connection.address)
        except ClientError as error:
            if asked:
                about(error, asked)
            failures.append(_Failure(error, _positions(asked)))
            return
        found += brought
        for refusal in refused:
            at = TopicPartition(refusal.topic or "", refusal.partition or 0)
            failures.append(_Failure(refusal, {at: asked[at][0]}))


_NO: Final = FetchPosition(-1)
"""Where nothing is read."""


def _positions(asked: Asked) -> dict[TopicPartition, FetchPosition]:
    return {at: position for at, (position, _) in asked.items()}


def _is_current(failure: _Failure, wanted: Positions) -> bool:
    """Whether what failed is wanted still."""
    return any(wanted.get(at) == position for at, position in failure.positions.items())


class _Retries:
    """What has failed, and when it is tried again. Meanwhile other leaders answer."""

    def __init__(self, view: ClusterView[Any]) -> None:
        self._view = view
        self._failed: dict[TopicPartition, FetchPosition] = {}
        self._retry_at = 0.0
        self._backoff = view.backoff()
        self._recover()

    def _recover(self) -> None:
        """Some leader has answered: failures are counted from the start again."""
        self._give_up_on_unknown = self._view.unknown_topic_limit()
        self._gives_up_at: Deadline | None = None
        self._tries = 0

    def due(self, wanted: Positions) -> Positions:
        """What may be asked for now."""
        if self._failed and time.monotonic() >= self._retry_at:
            self._failed.clear()
        if not self._failed:
            return wanted
        return {at: one for at, one in wanted.items() if self._failed.get(at) != one}

    def wait_ms(self) -> float:
        """Milliseconds until something that has failed is due."""
        if not self._failed:
            return float("inf")
        return max(0.0, self._retry_at - time.monotonic()) * 1000

    def note(
        self,
        failures: list[_Failure],
        found: list[Fetched],
        wanted: Positions,
        *,
        in_flight: bool,
    ) -> _Failure | None:
        """Take note of what has failed; the first failure that trying again cannot help.

        When nothing but failures came for long, trying again does not help either: UnknownTopic,
        DeadlineExceeded.
        """
        if found and self._tries:
            self._recover()
        for one in failures:
            self._view.note_failure(one.error)
        current = [one for one in failures if _is_current(one, wanted)]
        for one in current:
            self._failed.update(one.positions)
        if current:
            self._retry_at = time.monotonic() + self._backoff.next_ms() / 1000
        elif not self._failed:
            self._backoff.reset()
        final = next((one for one in current if not one.error.retriable), None)
        if final is None and current and not in_flight and self._failed.keys() >= wanted.keys():
            self._count_failure(current[0].error)
        return final

    def _count_failure(self, error: ClientError) -> None:
        """Everything has failed once more."""
        self._tries += 1
        if self._gives_up_at is None:
            self._gives_up_at = self._view.deadline()
        try:
            self._give_up_on_unknown(error)
            if self._gives_up_at.passed and self._tries >= TRIES_MIN:
                limit_ms = self._gives_up_at.timeout_ms
                text = f"nothing could be fetched within {limit_ms:.0f} ms"
                raise DeadlineExceeded(text, error)
        except ClientError:
            self._recover()
            raise
