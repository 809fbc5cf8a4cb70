"""`ShareStateClient`: the `SharePersister` of a broker, towards share coordinators near and far.

Theory of operation
-------------------
A question about one share partition waits for the node that coordinates it, which the metadata say:
the leader of its partition of `__share_group_state`. One request of an API for a group to a node is
under way at a time, and takes along all that have come meanwhile, one of each share partition, as
Kafka's `PersisterStateManager` does; summaries of one share partition are one question. A
coordinator on this node is asked by a call.

Where there is no coordinator now, or none that answers, the question is asked again with a growing
pause, of the node that coordinates by then. What a coordinator refuses for another reason is
answered at once. After `TIMEOUT_MS` the last error is the answer.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import Any, Final, NamedTuple, Protocol

from msgspec import Struct

from fencepost.machines.backoff import backoff_ms
from fencepost.machines.group.partitioner import partition_for
from fencepost.machines.image import ClusterImage
from fencepost.machines.share.state_batch import (
    ReadState,
    SharePartitionKey,
    StateBatch,
    batches_from,
    batches_to,
)
from fencepost.runtime.internal_topics import SHARE_STATE_TOPIC
from fencepost.runtime.ports import MachinePorts
from fencepost.runtime.share_persister import OnDone, OnRead, OnSummary
from fencepost.wire.api import (
    delete_share_group_state as deleting,
    initialize_share_group_state as initializing,
    read_share_group_state as reading,
    read_share_group_state_summary as summarizing,
    write_share_group_state as writing,
)
from fencepost.wire.errors import ErrorCode, known_error
from fencepost.wire.types import Uuid

log = logging.getLogger(__name__)

TIMEOUT_MS: Final = 30_000
RETRY_FIRST_MS: Final = 100
RETRY_MAX_MS: Final = 5_000
PENDING_MAX: Final = 100_000
"""Questions without an answer yet; the next is answered COORDINATOR_NOT_AVAILABLE."""
PER_REQUEST: Final = 1_000
"""Share partitions in one request."""

RETRIED: Final = frozenset(
    {
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NETWORK_EXCEPTION,
    }
)
"""Another coordinator may answer otherwise, or this one once it is loaded or sees the topic."""

OnResponse = Callable[[Any], None]
OnRow = Callable[[ErrorCode, str | None, Any], None]
"""Takes (NONE, None, the row of the response), or (an error, what is wrong, None)."""


class ShareCoordinatorLink(Protocol):
    """How share coordinators are reached."""

    def ask_here(self, request: Any, on_response: OnResponse) -> None:
        """Ask the coordinators of this node; perhaps answered at once."""
        ...

    def ask(
        self,
        node_id: int,
        request: Any,
        on_response: OnResponse,
        on_failure: Callable[[str], None],
    ) -> None:
        """Ask another node; one of the two is called, never before this returns."""
        ...


class _Api(NamedTuple):
    request: type[Any]
    topic: type[Any]


_INITIALIZE: Final = _Api(
    initializing.InitializeShareGroupStateRequest, initializing.InitializeStateData
)
_READ: Final = _Api(reading.ReadShareGroupStateRequest, reading.ReadStateData)
_WRITE: Final = _Api(writing.WriteShareGroupStateRequest, writing.WriteStateData)
_DELETE: Final = _Api(deleting.DeleteShareGroupStateRequest, deleting.DeleteStateData)
_SUMMARY: Final = _Api(
    summarizing.ReadShareGroupStateSummaryRequest, summarizing.ReadStateSummaryData
)


class _Question(Struct, eq=False):
    """A question that waits for its coordinator, or for the answer."""

    api: _Api
    key: SharePartitionKey
    data: Any
    """The row of the request."""
    on_row: OnRow
    deadline_ms: int
    attempts: int = 0


class _Route(NamedTuple):
    """What goes into one request."""

    node_id: int
    api: _Api
    group_id: str


_Place = tuple[Uuid, int]
"""A share partition of the group that a route is for."""


class _Lane:
    """The questions of one route."""

    __slots__ = ("is_asked", "waiting")

    def __init__(self) -> None:
        self.waiting: dict[_Place, deque[_Question]] = {}
        self.is_asked = False

    def add(self, question: _Question) -> None:
        """Let the question wait."""
        place = question.key.topic_id, question.key.partition
        self.waiting.setdefault(place, deque()).append(question)

    def take(self, *, is_shared: bool) -> dict[_Place, list[_Question]]:
        """The next request's worth of what waits, in no more time than that takes.

        One question of each share partition, the oldest; all of them if one answer `is_shared`.
        """
        asked: dict[_Place, list[_Question]] = {}
        for place in list(islice(self.waiting, PER_REQUEST)):
            waiting = self.waiting.pop(place)
            asked[place] = list(waiting) if is_shared else [waiting.popleft()]
            if waiting and not is_shared:
                self.waiting[place] = waiting  # behind the others
        return asked


class ShareStateClient:
    """See the module docstring; implements `SharePersister`."""

    def __init__(
        self,
        node_id: int,
        ports: MachinePorts,
        image: Callable[[], ClusterImage],
        link: ShareCoordinatorLink,
        create_topic: Callable[[], None],
        random: Callable[[], float] = lambda: 0.5,
    ) -> None:
        """`create_topic` has `__share_group_state` created; `random` draws for the pauses."""
        self._node_id = node_id
        self._ports = ports
        self._image = image
        self._link = link
        self._create_topic = create_topic
        self._random = random
        self._lanes: dict[_Route, _Lane] = {}
        self._unanswered: dict[_Question, None] = {}
        self._closed = False

    def close(self) -> None:
        """Answer all that waits: this node asks no more."""
        self._closed = True
        self._lanes.clear()
        for question in list(self._unanswered):
            self._answer(question, ErrorCode.COORDINATOR_NOT_AVAILABLE, "the broker shuts down")

    # -- the questions ---------------------------------------------------------------------

    def read(self, key: SharePartitionKey, leader_epoch: int, done: OnRead) -> None:
        """What is stored of the share partition; the coordinator stores the leader epoch."""

        def on_row(error: ErrorCode, message: str | None, row: Any) -> None:
            if row is None:
                done(ReadState(error, message, 0, -1, ()))
                return
            batches = batches_from(row.state_batches)
            done(ReadState(error, message, row.state_epoch, row.start_offset, batches))

        data = reading.PartitionData(partition=key.partition, leader_epoch=leader_epoch)
        self._ask(_READ, key, data, on_row)

    def write(
        self,
        key: SharePartitionKey,
        *,
        state_epoch: int,
        leader_epoch: int,
        start_offset: int,
        delivery_complete_count: int,
        batches: tuple[StateBatch, ...],
        done: OnDone,
    ) -> None:
        """Have the batches merged into what is stored."""
        data = writing.PartitionData(
            partition=key.partition,
            state_epoch=state_epoch,
            leader_epoch=leader_epoch,
            start_offset=start_offset,
            delivery_complete_count=delivery_complete_count,
            state_batches=batches_to(writing.StateBatch, batches),
        )
        self._ask(_WRITE, key, data, lambda error, message, row: done(error, message))

    def initialize(
        self, key: SharePartitionKey, *, state_epoch: int, start_offset: int, done: OnDone
    ) -> None:
        """Begin the state at the offset, in place of any before."""
        data = initializing.PartitionData(
            partition=key.partition, state_epoch=state_epoch, start_offset=start_offset
        )
        self._ask(_INITIALIZE, key, data, lambda error, message, row: done(error, message))

    def delete(self, key: SharePartitionKey, done: OnDone) -> None:
        """Forget the state; none is a success, too."""
        data = deleting.PartitionData(partition=key.partition)
        self._ask(_DELETE, key, data, lambda error, message, row: done(error, message))

    def summary(self, key: SharePartitionKey, leader_epoch: int, done: OnSummary) -> None:
        """The offsets without the batches."""

        def on_row(error: ErrorCode, message: str | None, row: Any) -> None:
            if row is None:
                done(error, message, -1, 0, -1)
            else:
                done(
                    error, message, row.start_offset, row.leader_epoch, row.delivery_complete_count
                )

        data = summarizing.PartitionData(partition=key.partition, leader_epoch=leader_epoch)
        self._ask(_SUMMARY, key, data, on_row)

    # -- asking ----------------------------------------------------------------------------

    def _ask(self, api: _Api, key: SharePartitionKey, data: Any, on_row: OnRow) -> None:
        if self._closed or len(self._unanswered) >= PENDING_MAX:
            on_row(ErrorCode.COORDINATOR_NOT_AVAILABLE, "too many questions wait", None)
            return
        question = _Question(api, key, data, on_row, self._ports.now_ms() + TIMEOUT_MS)
        self._unanswered[question] = None
        self._enqueue(question)

    def _enqueue(self, question: _Question) -> None:
        if question not in self._unanswered:
            return
        topic = self._image().topics_by_name.get(SHARE_STATE_TOPIC)
        if topic is None:
            self._create_topic()
            self._failed(question, ErrorCode.COORDINATOR_NOT_AVAILABLE, "there is no topic yet")
            return
        key = question.key
        leader = topic.partitions[partition_for(key.coordinator_key, len(topic.partitions))].leader
        if leader < 0:
            reason = "the coordinator's partition has no leader"
            self._failed(question, ErrorCode.COORDINATOR_NOT_AVAILABLE, reason)
            return
        route = _Route(leader, question.api, key.group_id)
        lane = self._lanes.setdefault(route, _Lane())
        lane.add(question)
        self._pump(route, lane)

    def _pump(self, route: _Route, lane: _Lane) -> None:
        if lane.is_asked:
            return
        if not lane.waiting:
            self._lanes.pop(route, None)
            return
        lane.is_asked = True
        asked = lane.take(is_shared=route.api is _SUMMARY)

        def done() -> None:
            lane.is_asked = False
            if not self._closed:
                self._pump(route, lane)

        def on_response(response: Any) -> None:
            rows = {
                (topic.topic_id, row.partition): row
                for topic in response.results
                for row in topic.partitions
            }
            for place, questions in asked.items():
                for question in questions:
                    self._take_row(question, rows.get(place))
            done()

        def on_failure(reason: str) -> None:
            for questions in asked.values():
                for question in questions:
                    self._failed(question, ErrorCode.NETWORK_EXCEPTION, reason)
            done()

        request = _request(route, asked)
        if route.node_id == self._node_id:
            self._link.ask_here(request, on_response)
        else:
            self._link.ask(route.node_id, request, on_response, on_failure)

    def _take_row(self, question: _Question, row: Any) -> None:
        if row is None:
            reason = "the answer lacks the share partition"
            self._answer(question, ErrorCode.UNKNOWN_SERVER_ERROR, reason)
            return
        error = known_error(row.error_code)
        if error is ErrorCode.NONE:
            self._answer(question, error, None, row)
        elif error in RETRIED:
            self._failed(question, error, row.error_message)
        else:
            self._answer(question, error, row.error_message)

    def _failed(self, question: _Question, error: ErrorCode, message: str | None) -> None:
        """No coordinator has decided about it: ask again, if there is time for that."""
        pause_ms = int(backoff_ms(question.attempts, RETRY_FIRST_MS, RETRY_MAX_MS, self._random()))
        question.attempts += 1
        if self._ports.now_ms() + pause_ms >= question.deadline_ms:
            self._answer(question, error, message)
        elif question in self._unanswered:
            self._ports.timers.after(pause_ms, lambda: self._enqueue(question))

    def _answer(
        self, question: _Question, error: ErrorCode, message: str | None, row: Any = None
    ) -> None:
        if question not in self._unanswered:
            return
        del self._unanswered[question]
        try:
            question.on_row(error, message, row)
        except Exception:
            log.exception("%s: handling an answer about the share state failed", question.key)


def _request(route: _Route, asked: dict[_Place, list[_Question]]) -> Any:
    topics: dict[Uuid, Any] = {}
    for (topic_id, _), questions in asked.items():
        topic = topics.get(topic_id)
        if topic is None:
            topic = topics[topic_id] = route.api.topic(topic_id=topic_id)
        topic.partitions.append(questions[0].data)
    return route.api.request(group_id=route.group_id, topics=list(topics.values()))
