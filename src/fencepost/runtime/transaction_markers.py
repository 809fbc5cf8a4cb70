"""`MarkerSender`: the markers of transactions that have ended, on their way to leaders.

Theory of operation
-------------------
A coordinator that has decided an end (`begin`) wants a marker in each of its partitions. They are
grouped by the node that leads the partition, whatever transaction they are of, and go out as soon
as that node has fewer than `MAX_IN_FLIGHT` requests of ours: so the markers of many transactions
share a request while one is under way. What this node leads itself goes the same way, to the
function that handles the request here.

What comes back is told to whoever coordinates (`on_written`), what has to be sent again waits a
while and is looked up anew: the leader may be another one by then. A partition of a topic that is
gone needs no marker. What is sent for a coordinator that is unloaded (`forget`) is dropped, and its
answers with it: the next coordinator sends everything again, with its own epoch.

Nothing is given up as long as the coordinator is here, so a leader that is away for long holds back
its transactions and no others.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any, Final, Protocol

from fencepost.machines.backoff import backoff_ms
from fencepost.machines.image import ClusterImage
from fencepost.machines.transaction import TopicPartition, Transaction
from fencepost.machines.transaction.markers import Reaction, marker_for, reaction_to
from fencepost.runtime.ports import TimerQueue
from fencepost.wire.api.write_txn_markers import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from fencepost.wire.errors import ErrorCode, known_error

log = logging.getLogger(__name__)

MAX_IN_FLIGHT: Final = 2
"""Requests to one node that wait for their answer: a slow partition does not hold all others."""
MAX_PARTITIONS: Final = 500
"""Of one request. Its answer may complete as many transactions, in one go."""
FIRST_RETRY_MS: Final = 20
MAX_RETRY_MS: Final = 1_000

OnMarkers = Callable[[WriteTxnMarkersResponse], None]


class MarkerLeaders(Protocol):
    """How leaders are reached."""

    def write_here(self, request: WriteTxnMarkersRequest, on_response: OnMarkers) -> None:
        """Have this node write markers; perhaps answered at once."""
        ...

    def ask(
        self,
        node_id: int,
        request: WriteTxnMarkersRequest,
        on_response: OnMarkers,
        on_failure: Callable[[str], None],
    ) -> None:
        """Ask another node; one of the two is called, never before this returns."""
        ...


class _Ending:
    """The end of one transaction, as far as it is not everywhere written."""

    __slots__ = ("attempts", "coordinator_epoch", "index", "is_dropped", "transaction")

    def __init__(self, index: int, coordinator_epoch: int, transaction: Transaction) -> None:
        self.index = index
        self.coordinator_epoch = coordinator_epoch
        self.transaction = transaction
        self.attempts = 0
        self.is_dropped = False


class MarkerSender:
    """See the module docstring. `on_written(transaction, partitions)` hears what is done."""

    def __init__(
        self,
        node_id: int,
        timers: TimerQueue,
        leaders: MarkerLeaders,
        image: Callable[[], ClusterImage],
    ) -> None:
        self._node_id = node_id
        self._timers = timers
        self._leaders = leaders
        self._image = image
        self.on_written: Callable[[Transaction, frozenset[TopicPartition]], None] = _nobody
        self._endings: dict[str, _Ending] = {}
        self._left: dict[str, int] = {}  # partitions without a marker
        self._queues: dict[int, dict[_Ending, list[TopicPartition]]] = {}
        self._in_flight: dict[int, int] = {}
        self._closed = False
        self.without_leader = 0
        """How many transactions have markers that wait for a leader to come alive."""

    @property
    def waiting(self) -> int:
        """How many transactions wait for markers."""
        return len(self._endings)

    def begin(self, index: int, coordinator_epoch: int, transaction: Transaction) -> None:
        """Have the markers of an end written, for the coordinator of that partition."""
        if self._closed:
            return
        self._drop(transaction.transactional_id)
        if not transaction.partitions:
            self.on_written(transaction, frozenset())
            return
        ending = _Ending(index, coordinator_epoch, transaction)
        self._endings[transaction.transactional_id] = ending
        self._left[transaction.transactional_id] = len(transaction.partitions)
        self._route(ending, sorted(transaction.partitions))

    def forget(self, index: int) -> None:
        """The coordinator of that partition is not here any more."""
        for transactional_id, ending in list(self._endings.items()):
            if ending.index == index:
                self._drop(transactional_id)

    def close(self) -> None:
        """Send nothing any more."""
        self._closed = True
        for transactional_id in list(self._endings):
            self._drop(transactional_id)

    def _drop(self, transactional_id: str) -> None:
        ending = self._endings.pop(transactional_id, None)
        self._left.pop(transactional_id, None)
        if ending is not None:
            ending.is_dropped = True

    # -- to leaders ------------------------------------------------------------------------

    def _route(self, ending: _Ending, partitions: Iterable[TopicPartition]) -> None:
        """To the queues of those that lead them now."""
        if ending.is_dropped:
            return
        image = self._image()
        gone, homeless, nodes = [], [], set()
        for one in partitions:
            topic = image.topics_by_name.get(one[0])
            if topic is None or one[1] >= len(topic.partitions):
                gone.append(one)
                continue
            leader = topic.partitions[one[1]].leader
            broker = image.brokers.get(leader)
            if leader != self._node_id and (broker is None or broker.fenced):
                homeless.append(one)
            else:
                self._queues.setdefault(leader, {}).setdefault(ending, []).append(one)
                nodes.add(leader)
        if homeless:
            self.without_leader += 1
            self._retry_later(ending, homeless, self._look_for_leader)
        self._done(ending, gone)
        for node_id in sorted(nodes):
            self._pump(node_id)

    def _pump(self, node_id: int) -> None:
        """Send what is queued for the node, as far as it may have it now."""
        while self._in_flight.get(node_id, 0) < MAX_IN_FLIGHT:
            taken = self._take(node_id)
            if not taken:
                return
            self._in_flight[node_id] = self._in_flight.get(node_id, 0) + 1
            self._send(node_id, taken)

    def _take(self, node_id: int) -> dict[_Ending, list[TopicPartition]]:
        """The next request's worth of the node's queue."""
        queue = self._queues.get(node_id, {})
        taken: dict[_Ending, list[TopicPartition]] = {}
        room = MAX_PARTITIONS
        while queue and room > 0:
            ending, partitions = next(iter(queue.items()))
            if ending.is_dropped:
                del queue[ending]
                continue
            taken[ending] = partitions[:room]
            if len(partitions) > room:
                queue[ending] = partitions[room:]
            else:
                del queue[ending]
            room -= len(taken[ending])
        if not queue:
            self._queues.pop(node_id, None)
        return taken

    def _send(self, node_id: int, taken: dict[_Ending, list[TopicPartition]]) -> None:
        request = WriteTxnMarkersRequest(
            markers=[
                marker_for(ending.transaction, partitions, ending.coordinator_epoch)
                for ending, partitions in taken.items()
            ]
        )

        def on_response(response: WriteTxnMarkersResponse) -> None:
            self._answered(taken, response)
            self._finished(node_id)

        def on_failure(reason: str) -> None:
            log.debug("markers for node %d: %s", node_id, reason)
            for ending, partitions in taken.items():
                self._retry_later(ending, partitions)
            self._finished(node_id)

        if node_id == self._node_id:
            self._leaders.write_here(request, on_response)
        else:
            self._leaders.ask(node_id, request, on_response, on_failure)

    def _finished(self, node_id: int) -> None:
        self._in_flight[node_id] -= 1
        if not self._in_flight[node_id]:
            del self._in_flight[node_id]
        self._pump(node_id)

    # -- what they answer ------------------------------------------------------------------

    def _answered(
        self, taken: dict[_Ending, list[TopicPartition]], response: WriteTxnMarkersResponse
    ) -> None:
        answers: dict[int, dict[TopicPartition, int]] = {}
        for marker in response.markers:
            of_producer = answers.setdefault(marker.producer_id, {})
            for topic in marker.topics:
                for result in topic.partitions:
                    of_producer[topic.name, result.partition_index] = result.error_code
        for ending, partitions in taken.items():
            identity = ending.transaction.identity
            of_ending = answers.get(identity.producer_id, {})
            try:
                self._react(ending, {one: of_ending.get(one) for one in partitions})
            except Exception:  # that coordinator's trouble; the others' markers go on
                log.exception("the coordinator of producer %d failed", identity.producer_id)

    def _react(self, ending: _Ending, answers: dict[TopicPartition, int | None]) -> None:
        if ending.is_dropped:
            return
        done: list[TopicPartition] = []
        again: list[TopicPartition] = []
        transactional_id = ending.transaction.transactional_id
        for one, code in answers.items():
            error = ErrorCode.UNKNOWN_SERVER_ERROR if code is None else known_error(code)
            reaction = reaction_to(error)
            if reaction is Reaction.GIVE_UP:
                log.warning(
                    "markers of %r are not sent any more: %s-%d answers %s",
                    transactional_id,
                    *one,
                    error.name,
                )
                self._drop(transactional_id)
                return
            if reaction is Reaction.COMPLAIN and not ending.attempts:
                log.error("the marker of %r in %s-%d: %s", transactional_id, *one, error.name)
            (done if reaction is Reaction.DONE else again).append(one)
        if again:
            self._retry_later(ending, again)
        self._done(ending, done)

    def _done(self, ending: _Ending, partitions: list[TopicPartition]) -> None:
        if not partitions or ending.is_dropped:
            return
        transactional_id = ending.transaction.transactional_id
        self._left[transactional_id] -= len(partitions)
        if not self._left[transactional_id]:
            self._drop(transactional_id)
        self.on_written(ending.transaction, frozenset(partitions))

    def _retry_later(
        self,
        ending: _Ending,
        partitions: list[TopicPartition],
        retry: Callable[[_Ending, list[TopicPartition]], None] | None = None,
    ) -> None:
        if not partitions or ending.is_dropped:
            return
        delay_ms = backoff_ms(ending.attempts, FIRST_RETRY_MS, MAX_RETRY_MS, 0.5)
        ending.attempts += 1
        again = retry or self._route
        self._timers.after(max(1, int(delay_ms)), lambda: again(ending, partitions))

    def _look_for_leader(self, ending: _Ending, partitions: list[TopicPartition]) -> None:
        self.without_leader -= 1
        self._route(ending, partitions)


def _nobody(transaction: Transaction, partitions: Any) -> None:
    """Nobody coordinates yet."""
