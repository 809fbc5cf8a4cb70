"""`Verifier`: a leader asks coordinators whether partitions are part of transactions (KIP-890).

Theory of operation
-------------------
What is to be written in a transaction that is not open in a partition yet is a `Claim`: a producer,
its transactional id, and the partitions. The coordinator is asked with AddPartitionsToTxn from v4
on, which either looks (`verify_only`) or, for producers that never add partitions themselves
(Produce from v12 on, TxnOffsetCommit from v5 on), adds them.

Claims wait for the node that coordinates them. As long as `MAX_IN_FLIGHT` requests to a node are
under way, further claims wait; the next request takes along all that have come meanwhile, one of
each transactional id. One of a newer epoch takes the place of one that waits, which gets
INVALID_PRODUCER_EPOCH. A coordinator on this node is asked by a call.

A producer's claims are decided in the order in which they came. While one is asked about, further
ones of the same producer in the same epoch wait, and are asked about together when it is decided
(Kafka refuses the earlier one, which then comes again). So does a claim without partitions, of who
need not ask since the transaction is open where it writes: what waits may be about to write there,
too, and would be overtaken. As answers leave in order, its producer would hear of the gap
(OUT_OF_ORDER_SEQUENCE_NUMBER) when there is none any more, and give up.

That the transaction before is not quite over yet is usual for a producer that adds implicitly. The
coordinator waits a little for that (`machines.transaction.waiting`); where it was not enough
(CONCURRENT_TRANSACTIONS), the claim is made again here for a while
(`add.partitions.to.txn.retry.backoff.*`), before the producer hears of it (KAFKA-18654). It is over
when its markers and its last record are committed, for which they are fsynced by their leaders and
then by followers: on slow disks, or busy ones, beyond the 100 ms that Kafka waits. franz-go, once
refused, sends nothing before it has metadata again, seconds later.

What goes wrong on the way is NETWORK_EXCEPTION; `runtime.transactional_writes` says what clients
hear of it. Nothing but what the answer says of a partition counts as its agreement.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Protocol

from msgspec import Struct
from msgspec.structs import replace

from fencepost.machines.group.partitioner import partition_for
from fencepost.machines.image import ClusterImage
from fencepost.runtime.claims import Claim, OnOutcome, Outcome, TopicPartition
from fencepost.runtime.internal_topics import TRANSACTIONS_TOPIC
from fencepost.runtime.ports import MachinePorts
from fencepost.wire.api.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from fencepost.wire.errors import ErrorCode, known_error

log = logging.getLogger(__name__)

MAX_IN_FLIGHT: Final = 2
"""Requests to one node that wait for their answer: one of them may wait for a transaction that is
being completed, and the claims of other producers are not to wait along."""
CLAIMS_MAX: Final = 10_000
"""Transactional ids that wait for one node."""
CLAIMS_PER_REQUEST: Final = 1_000
BEHIND_MAX: Final = 100
"""Claims that wait behind another one of the same producer; clients have 5 requests under way."""
PARTITIONS_PER_REQUEST: Final = 20_000
"""Beyond so many the next claim waits for the next request: a node takes only so long lists. As
many may wait behind a claim of the same producer."""

OnResponse = Callable[[AddPartitionsToTxnResponse], None]


class CoordinatorLink(Protocol):
    """How coordinators of transactions are reached."""

    def ask_here(self, request: AddPartitionsToTxnRequest, on_response: OnResponse) -> None:
        """Ask the coordinators of this node; perhaps answered at once."""
        ...

    def ask(
        self,
        node_id: int,
        request: AddPartitionsToTxnRequest,
        on_response: OnResponse,
        on_failure: Callable[[str], None],
    ) -> None:
        """Ask another node; one of the two is called, never before this returns."""
        ...


_Claims = list[tuple[Claim, OnOutcome]]


class _Waiting(Struct, frozen=True):
    """A question that waits for its coordinator, or for the answer."""

    claim: Claim
    on_outcome: OnOutcome
    began_ms: int


class _Node:
    """What waits for one node, by transactional id."""

    __slots__ = ("in_flight", "waiting")

    def __init__(self) -> None:
        self.waiting: dict[str, _Waiting] = {}
        self.in_flight = 0


class Verifier:
    """See the module docstring."""

    def __init__(
        self,
        node_id: int,
        ports: MachinePorts,
        image: Callable[[], ClusterImage],
        link: CoordinatorLink,
        retry_backoff_ms: int,
        retry_max_ms: int,
    ) -> None:
        self._node_id = node_id
        self._ports = ports
        self._image = image
        self._link = link
        self._retry_backoff_ms = retry_backoff_ms
        self._retry_max_ms = retry_max_ms
        self._nodes: dict[int, _Node] = {}
        self.on_told: Callable[[int, int], None] = lambda waited_ms, failures: None
        """Hears of every answer, and every refusal here: after how many milliseconds it came, and
        for how many partitions it was an error."""
        self._behind: dict[Claim, _Claims] = {}  # one that is asked about, by producer

    def is_asking(self, claim: Claim) -> bool:
        """Whether a claim of the same producer is undecided, so that this one has to wait."""
        return bool(self._behind) and replace(claim, partitions=()) in self._behind

    def ask(self, claim: Claim, on_outcome: OnOutcome) -> None:
        """Have the coordinator look at a claim; answered once, perhaps before this returns."""
        producer = replace(claim, partitions=())
        behind = self._behind.get(producer)
        if behind is None:
            self._behind[producer] = []
            self._ask_about(producer, [(claim, on_outcome)])
            return
        waiting = sum(len(one.partitions) for one, _ in behind)
        if len(behind) < BEHIND_MAX and waiting + len(claim.partitions) <= PARTITIONS_PER_REQUEST:
            behind.append((claim, on_outcome))
        else:
            on_outcome(dict.fromkeys(claim.partitions, ErrorCode.NETWORK_EXCEPTION))

    def _ask_about(self, producer: Claim, claims: _Claims) -> None:
        wanted = dict.fromkeys(one for claim, _ in claims for one in claim.partitions)

        def decided(outcome: Outcome) -> None:
            for claim, on_outcome in claims:
                _tell(claim, on_outcome, outcome)
            behind = self._behind.pop(producer)
            if behind:
                self._behind[producer] = []
                self._ask_about(producer, behind)

        asked = replace(producer, partitions=tuple(wanted))
        if not wanted:
            decided({})
        elif producer.adds:
            self._ask_again(asked, decided, self._ports.now_ms() + self._retry_max_ms)
        else:
            self._ask_once(asked, decided)

    def _ask_again(self, claim: Claim, on_outcome: OnOutcome, until_ms: int) -> None:
        def take(outcome: Outcome) -> None:
            is_late = self._ports.now_ms() >= until_ms
            if is_late or ErrorCode.CONCURRENT_TRANSACTIONS not in outcome.values():
                on_outcome(outcome)
            else:
                self._ports.timers.after(
                    self._retry_backoff_ms,
                    lambda: self._ask_again(claim, on_outcome, until_ms),
                )

        self._ask_once(claim, take)

    def _ask_once(self, claim: Claim, on_outcome: OnOutcome) -> None:
        node_id = self._coordinator_of(claim.transactional_id)
        waiting = _Waiting(claim, on_outcome, self._ports.now_ms())
        if node_id < 0:
            self._refuse(waiting, ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return
        node = self._nodes.setdefault(node_id, _Node())
        before = node.waiting.get(claim.transactional_id)
        if before is not None:
            older, newer = _in_order(before, waiting)
            node.waiting[claim.transactional_id] = newer
            self._refuse(older, _why_replaced(older.claim, newer.claim))
        elif len(node.waiting) >= CLAIMS_MAX:
            self._refuse(waiting, ErrorCode.NETWORK_EXCEPTION)
        else:
            node.waiting[claim.transactional_id] = waiting
        self._pump(node_id, node)

    def _coordinator_of(self, transactional_id: str) -> int:
        topic = self._image().topics_by_name.get(TRANSACTIONS_TOPIC)
        if topic is None:
            return -1
        return topic.partitions[partition_for(transactional_id, len(topic.partitions))].leader

    def _pump(self, node_id: int, node: _Node) -> None:
        if node.in_flight >= MAX_IN_FLIGHT or not node.waiting:
            return
        node.in_flight += 1
        asked = _take(node)
        request = AddPartitionsToTxnRequest(transactions=[_told(one) for one in asked.values()])

        def done() -> None:
            node.in_flight -= 1
            self._pump(node_id, node)

        def on_response(response: AddPartitionsToTxnResponse) -> None:
            for transactional_id, outcome in _outcomes(response, asked).items():
                self._tell(asked[transactional_id], outcome)
            done()

        def on_failure(reason: str) -> None:
            for one in asked.values():
                self._refuse(one, ErrorCode.NETWORK_EXCEPTION)
            done()

        if node_id == self._node_id:
            self._link.ask_here(request, on_response)
        else:
            self._link.ask(node_id, request, on_response, on_failure)

    def _refuse(self, waiting: _Waiting, error: ErrorCode) -> None:
        self._tell(waiting, dict.fromkeys(waiting.claim.partitions, error))

    def _tell(self, waiting: _Waiting, outcome: Outcome) -> None:
        failures = sum(error is not ErrorCode.NONE for error in outcome.values())
        self.on_told(self._ports.now_ms() - waiting.began_ms, failures)
        waiting.on_outcome(outcome)


def _tell(claim: Claim, on_outcome: OnOutcome, outcome: Outcome) -> None:
    """The trouble of one claim is neither the others' nor the next request's."""
    try:
        on_outcome({one: outcome[one] for one in claim.partitions})
    except Exception:
        log.exception("%r: handling the result of a verification failed", claim.transactional_id)


def _take(node: _Node) -> dict[str, _Waiting]:
    """The next request's worth of what waits, oldest first; one claim at least."""
    asked: dict[str, _Waiting] = {}
    room = PARTITIONS_PER_REQUEST
    for transactional_id, one in node.waiting.items():
        room -= len(one.claim.partitions)
        if asked and (room < 0 or len(asked) == CLAIMS_PER_REQUEST):
            break
        asked[transactional_id] = one
    for transactional_id in asked:
        del node.waiting[transactional_id]
    return asked


def _in_order(before: _Waiting, after: _Waiting) -> tuple[_Waiting, _Waiting]:
    """Which of two goes on: the newer epoch of a producer, and the later claim otherwise."""
    is_same = before.claim.producer_id == after.claim.producer_id
    if is_same and after.claim.producer_epoch < before.claim.producer_epoch:
        return after, before
    return before, after


def _why_replaced(older: Claim, newer: Claim) -> ErrorCode:
    is_same = older.producer_id == newer.producer_id
    if is_same and older.producer_epoch < newer.producer_epoch:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return ErrorCode.NETWORK_EXCEPTION


def _told(waiting: _Waiting) -> AddPartitionsToTxnTransaction:
    claim = waiting.claim
    return AddPartitionsToTxnTransaction(
        transactional_id=claim.transactional_id,
        producer_id=claim.producer_id,
        producer_epoch=claim.producer_epoch,
        verify_only=not claim.adds,
        topics=_by_topic(claim.partitions),
    )


def _by_topic(partitions: Iterable[TopicPartition]) -> list[AddPartitionsToTxnTopic]:
    topics: dict[str, AddPartitionsToTxnTopic] = {}
    for name, index in partitions:
        topic = topics.get(name)
        if topic is None:
            topic = topics[name] = AddPartitionsToTxnTopic(name=name)
        topic.partitions.append(index)
    return list(topics.values())


def _outcomes(
    response: AddPartitionsToTxnResponse, asked: Mapping[str, _Waiting]
) -> dict[str, Outcome]:
    """What an answer says of each claim; what it leaves out it has not agreed to."""
    default = ErrorCode.NETWORK_EXCEPTION
    if response.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        default = ErrorCode.INVALID_TXN_STATE
    elif response.error_code:
        default = known_error(response.error_code)
    outcomes: dict[str, dict[TopicPartition, ErrorCode]] = {
        transactional_id: dict.fromkeys(waiting.claim.partitions, default)
        for transactional_id, waiting in asked.items()
    }
    for result in () if response.error_code else response.results_by_transaction:
        outcome: dict[TopicPartition, Any] = outcomes.get(result.transactional_id, {})
        for topic in result.topic_results:
            for partition in topic.results_by_partition:
                key = topic.name, partition.partition_index
                if key in outcome:
                    outcome[key] = known_error(partition.partition_error_code)
    return dict(outcomes)
