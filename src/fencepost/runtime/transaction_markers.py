"""`MarkerSender`: the markers of transactions that have ended, on their way to leaders.

Theory of operation
-------------------
A coordinator that has decided an end (`begin`) wants a marker in each of its partitions. They are
grouped by the node that leads the partition, whatever transaction they are of, and go out as soon
as that node has fewer than `MAX_IN_FLIGHT` requests of ours: so the markers of many transactions
share a request while one is under way. What this node leads itself goes the same way, to the
function that handles the request here.

What was written is reported to the coordinator (`on_written`); what has to be sent again rests a
while and is looked up again: the leader may be another one by then. As soon as the metadata name
another leader (`image_changed`), what rests or is queued for the old one goes to it, as with
Kafka's TransactionMarkerChannelManager. A partition of a topic that is gone needs no marker. What
is sent for a coordinator that is unloaded (`forget`) is dropped, and its answers with it: the next
coordinator sends everything again, with its own epoch.

Nothing is given up as long as the coordinator is here, so a leader that is away for long holds back
its transactions and no others. That holds for a leader that knows of a later coordinator or of a
later epoch of the producer, too. Kafka's coordinator sends it nothing any more, and if it is the
present coordinator, because another client has written a marker there, its transaction stays
decided, never completed. Here the marker is sent again, seldom: it is taken when the partition has
forgotten the producer (`producer.id.expiration.ms`), or when the coordinator's epoch has passed the
other one.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import Any, Final, NamedTuple, Protocol

from fencepost.machines.backoff import backoff_ms
from fencepost.machines.image import ClusterImage, ImageDelta
from fencepost.machines.transaction.markers import Reaction, marker_for, reaction_to
from fencepost.machines.transaction.model import TopicPartition, Transaction
from fencepost.machines.transaction.partition_set import grouped
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
ROUTED_AT_ONCE: Final = 1_000
"""Partitions whose leaders are looked up, of whatever transactions, before others have their turn:
a coordinator that is loaded may have many decided ends, and one may have many partitions."""
NO_LEADER: Final = -1
FIRST_RETRY_MS: Final = 20
MAX_RETRY_MS: Final = 1_000
REFUSED_RETRY_MS: Final = 30_000
"""Until a leader that knows of a later coordinator or producer is asked again."""

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

    __slots__ = (
        "attempts",
        "coordinator_epoch",
        "index",
        "is_dropped",
        "is_refused",
        "transaction",
    )

    def __init__(self, index: int, coordinator_epoch: int, transaction: Transaction) -> None:
        self.index = index
        self.coordinator_epoch = coordinator_epoch
        self.transaction = transaction
        self.attempts = 0
        self.is_dropped = False
        self.is_refused = False
        """A leader knows of a later coordinator or a later epoch of the producer."""


class _Resting(NamedTuple):
    """Partitions whose leader is looked up and asked again after a while."""

    ending: _Ending
    partitions: list[TopicPartition]
    is_homeless: bool
    """No broker that is alive led them."""


class MarkerSender:
    """See the module docstring. `on_written(transaction, partitions)` reports what is written."""

    def __init__(
        self,
        node_id: int,
        timers: TimerQueue,
        leaders: MarkerLeaders,
        image: Callable[[], ClusterImage],
        warn: Callable[[str], None] = log.warning,
    ) -> None:
        """`warn` takes a line for the operator, of which clients can cause many."""
        self._node_id = node_id
        self._timers = timers
        self._leaders = leaders
        self._image = image
        self._warn = warn
        self.on_written: Callable[[Transaction, frozenset[TopicPartition]], None] = _ignore
        self._endings: dict[str, _Ending] = {}
        self._left: dict[str, int] = {}  # partitions without a marker
        self._queues: dict[int, dict[_Ending, list[TopicPartition]]] = {}
        self._in_flight: dict[int, int] = {}
        self._unrouted: deque[tuple[_Ending, list[TopicPartition] | None]] = deque()
        """Partitions whose leaders are to be looked up; None for all of the transaction."""
        self._is_routing = False  # or goes on when others have had their turn
        self._resting: dict[int, _Resting] = {}  # by a number that its timer knows
        self._last_rest = 0
        self._closed = False

    @property
    def waiting(self) -> int:
        """How many transactions wait for markers."""
        return len(self._endings)

    @property
    def without_leader(self) -> int:
        """How many transactions have markers that wait for a leader to come alive."""
        waiting = {one.ending for one in self._resting.values() if one.is_homeless}
        return sum(not ending.is_dropped for ending in waiting)

    @property
    def refused(self) -> int:
        """How many transactions wait for a leader that refuses their marker; see the module."""
        return sum(one.is_refused for one in self._endings.values())

    def begin(self, index: int, coordinator_epoch: int, *transactions: Transaction) -> None:
        """Have the markers of ends written, for the coordinator of that partition."""
        if self._closed:
            return
        for one in transactions:
            self._drop(one.transactional_id)
            ending = _Ending(index, coordinator_epoch, one)
            self._endings[one.transactional_id] = ending
            self._left[one.transactional_id] = len(one.partitions)
            self._unrouted.append((ending, None))
        self._route_some()

    def forget(self, index: int) -> None:
        """The coordinator of that partition is not here any more."""
        for transactional_id, ending in list(self._endings.items()):
            if ending.index == index:
                self._drop(transactional_id)

    def image_changed(self, delta: ImageDelta) -> None:
        """What waits for a leader that is not the leader any more goes to the one that is."""
        changed = [one for one in delta.partitions if one.is_new_leader_epoch or one.new is None]
        if not changed and not delta.brokers:
            return
        moved = {(one.topic, one.index) for one in changed}
        for number, one in list(self._resting.items()):
            is_back = one.is_homeless and bool(delta.brokers)
            if is_back or not moved.isdisjoint(one.partitions):
                del self._resting[number]
                one.ending.attempts = 0
                self._unrouted.append((one.ending, one.partitions))
        for node_id in sorted({one.old.leader for one in changed if one.old is not None}):
            self._unrouted.extend(self._queues.pop(node_id, {}).items())
        self._route_some()

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

    def _route(self, ending: _Ending, partitions: list[TopicPartition]) -> None:
        """To the queues of those that lead them now, behind what is routed before."""
        self._unrouted.append((ending, partitions))
        self._route_some()

    def _route_some(self) -> None:
        """Route what waits for it; of much, the rest when others have had their turn."""
        if self._is_routing:
            return
        self._is_routing = True
        try:
            self._route_pieces(ROUTED_AT_ONCE)
        finally:  # what one of them fails with is not the trouble of those behind it
            self._is_routing = bool(self._unrouted)
            if self._is_routing:
                self._timers.after(1, self._route_on)

    def _route_pieces(self, room: int) -> None:
        while self._unrouted and room > 0:
            ending, partitions = self._unrouted.popleft()
            if ending.is_dropped:
                continue
            if partitions is None:
                partitions = _partitions_of(ending.transaction)
            if len(partitions) > room:
                self._unrouted.appendleft((ending, partitions[room:]))
            self._place(ending, partitions[:room])
            room -= max(1, len(partitions))

    def _route_on(self) -> None:
        self._is_routing = False
        self._route_some()

    def _place(self, ending: _Ending, partitions: list[TopicPartition]) -> None:
        """To the queues of those that lead them now."""
        gone, homeless, nodes = [], [], set()
        for one in partitions:
            leader = self._leader_of(one)
            if leader is None:
                gone.append(one)
            elif leader == NO_LEADER:
                homeless.append(one)
            else:
                self._queues.setdefault(leader, {}).setdefault(ending, []).append(one)
                nodes.add(leader)
        self._rest(ending, homeless, is_homeless=True)
        if gone or not self._left[ending.transaction.transactional_id]:
            self._done(ending, gone)
        for node_id in sorted(nodes):
            self._pump(node_id)

    def _leader_of(self, partition: TopicPartition) -> int | None:
        """The broker that leads it, NO_LEADER if none that is alive does, None if it is gone."""
        image = self._image()
        topic = image.topics_by_name.get(partition[0])
        if topic is None or partition[1] >= len(topic.partitions):
            return None
        leader = topic.partitions[partition[1]].leader
        broker = image.brokers.get(leader)
        is_alive = leader == self._node_id or (broker is not None and not broker.fenced)
        return leader if is_alive else NO_LEADER

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
            self._answered(node_id, taken, response)
            self._finished(node_id)

        def on_failure(reason: str) -> None:
            log.debug("markers for node %d: %s", node_id, reason)
            for ending, partitions in taken.items():
                self._ask_again(ending, partitions, node_id)
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
        self,
        node_id: int,
        taken: dict[_Ending, list[TopicPartition]],
        response: WriteTxnMarkersResponse,
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
                self._react(node_id, ending, {one: of_ending.get(one) for one in partitions})
            except Exception:  # that coordinator's trouble; the others' markers go on
                log.exception("the coordinator of producer %d failed", identity.producer_id)

    def _react(
        self, node_id: int, ending: _Ending, answers: dict[TopicPartition, int | None]
    ) -> None:
        if ending.is_dropped:
            return
        by_reaction: dict[Reaction, list[TopicPartition]] = {one: [] for one in Reaction}
        for one, code in answers.items():
            error = ErrorCode.UNKNOWN_SERVER_ERROR if code is None else known_error(code)
            reaction = reaction_to(error)
            by_reaction[reaction].append(one)
            self._tell_operator(ending, one, error, reaction)
        again = by_reaction[Reaction.RETRY] + by_reaction[Reaction.COMPLAIN]
        self._ask_again(ending, again, node_id)
        self._rest(ending, by_reaction[Reaction.REFUSED], delay_ms=REFUSED_RETRY_MS)
        if by_reaction[Reaction.DONE]:
            self._done(ending, by_reaction[Reaction.DONE])

    def _tell_operator(
        self, ending: _Ending, partition: TopicPartition, error: ErrorCode, reaction: Reaction
    ) -> None:
        """Once for each transaction: what has to be looked at."""
        one, where = ending.transaction, f"{partition[0]}-{partition[1]}"
        if reaction is Reaction.COMPLAIN and not ending.attempts:
            self._warn(f"the marker of {one.transactional_id!r} in {where}: {error.name}")
        elif reaction is Reaction.REFUSED and not ending.is_refused:
            ending.is_refused = True
            self._warn(
                f"the marker of {one.transactional_id!r} (producer {one.identity.producer_id}, "
                f"epoch {one.identity.epoch}, coordinator epoch {ending.coordinator_epoch}) is "
                f"refused by {where}: {error.name}. The transaction cannot complete "
                f"before the partition takes it; `fencepost transactions describe` says why"
            )

    def _done(self, ending: _Ending, partitions: list[TopicPartition]) -> None:
        if ending.is_dropped:
            return
        transactional_id = ending.transaction.transactional_id
        self._left[transactional_id] -= len(partitions)
        if not self._left[transactional_id]:
            self._drop(transactional_id)
        self.on_written(ending.transaction, frozenset(partitions))

    def _ask_again(self, ending: _Ending, partitions: list[TopicPartition], node_id: int) -> None:
        """After a while; at once if the metadata name another leader by now."""
        moved = [one for one in partitions if self._leader_of(one) != node_id]
        if moved:
            self._route(ending, moved)
            partitions = [one for one in partitions if self._leader_of(one) == node_id]
        self._rest(ending, partitions)

    def _rest(
        self,
        ending: _Ending,
        partitions: list[TopicPartition],
        *,
        is_homeless: bool = False,
        delay_ms: int | None = None,
    ) -> None:
        """Look for their leaders again after a while, or when the metadata change."""
        if not partitions or ending.is_dropped:
            return
        if delay_ms is None:
            delay_ms = int(backoff_ms(ending.attempts, FIRST_RETRY_MS, MAX_RETRY_MS, 0.5))
            ending.attempts += 1
        self._last_rest += 1
        number = self._last_rest
        self._resting[number] = _Resting(ending, partitions, is_homeless)
        self._timers.after(max(1, delay_ms), lambda: self._rested(number))

    def _rested(self, number: int) -> None:
        one = self._resting.pop(number, None)
        if one is not None:
            self._route(one.ending, one.partitions)


def _partitions_of(transaction: Transaction) -> list[TopicPartition]:
    """In an order that is the same in every process, as that of a set is not."""
    return [
        (topic, index)
        for topic, found in grouped(transaction.partitions).items()
        for index in found.partition_ids
    ]


def _ignore(transaction: Transaction, partitions: Any) -> None:
    """No coordinator is attached yet."""
