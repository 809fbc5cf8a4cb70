"""`TransactionAdmin`: the transactions that coordinators know, and those that partitions have open.

A coordinator knows transactional ids; the leader of a partition knows producer ids, and which of
them have a transaction open there. One that is open in a partition but not at any coordinator hangs
(KIP-664): no coordinator will ever end it; `client.stable_offset` finds it by asking both.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from fencepost.client import asking
from fencepost.client.cluster import Cluster
from fencepost.client.cluster_view import TRANSACTION_KEY, ClusterView
from fencepost.client.conversation import Conversation, Exchange
from fencepost.client.errors import BrokerError, ClientError
from fencepost.client.faces import blocking
from fencepost.client.leaders import Answered, Asked, asking_leaders, by_topic
from fencepost.client.metadata import Node, TopicPartition
from fencepost.client.retry import Deadline, repeating
from fencepost.wire.api.describe_producers import DescribeProducersRequest, TopicRequest
from fencepost.wire.api.describe_transactions import DescribeTransactionsRequest
from fencepost.wire.api.init_producer_id import InitProducerIdRequest
from fencepost.wire.api.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from fencepost.wire.api.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from fencepost.wire.errors import ErrorCode
from fencepost.wire.message import Request

FIRST_LIST_WITH_DURATION: Final = 1
FIRST_LIST_WITH_PATTERN: Final = 2
INIT_PRODUCER_ID_HIGHEST: Final = 5
UNSET: Final = -1
TRANSACTIONS_TOPIC: Final = "__transaction_state"


class ListedTransaction(NamedTuple):
    """A transactional id as its coordinator lists it."""

    transactional_id: str
    coordinator_id: int
    producer_id: int
    state: str


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    """A transactional id as its coordinator describes it. `start_ms` (since 1970) is -1 without a
    transaction; `partitions` are those of it that have no marker yet."""

    transactional_id: str
    coordinator_id: int
    producer_id: int
    producer_epoch: int
    state: str
    timeout_ms: int
    start_ms: int
    partitions: tuple[TopicPartition, ...]

    @property
    def is_over(self) -> bool:
        """Whether `start_ms` is of a transaction that is complete."""
        return self.state in ("CompleteCommit", "CompleteAbort")


class PartitionProducer(NamedTuple):
    """A producer that the leader of a partition remembers; -1 for what there is not."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int
    start_offset: int
    """Where its open transaction begins."""

    @property
    def is_open(self) -> bool:
        return self.start_offset >= 0


def listing_transactions(
    view: ClusterView[Any],
    *,
    states: Sequence[str] = (),
    producer_ids: Sequence[int] = (),
    duration_ms: int | None = None,
    pattern: str | None = None,
    timeout_ms: float | None = None,
    node: Node | None = None,
) -> Conversation[list[ListedTransaction]]:
    """The transactional ids of all coordinators (of `node` alone if it is given), by id; every
    filter that is given must match.

    `duration_ms` lists those that began longer ago (KIP-994; UnsupportedApi before Kafka 3.8),
    `pattern` is a regular expression for the whole id: of RE2 where brokers match it
    (KIP-1152), of Python where they cannot. Brokers are asked again for `timeout_ms`, by
    default `default.api.timeout.ms`. ClientError for a state that there is not, BrokerError
    INVALID_REGULAR_EXPRESSION.
    """
    deadline = view.deadline(timeout_ms)

    def asked(by_pattern: bool) -> ListTransactionsRequest:
        return ListTransactionsRequest(
            state_filters=list(states),
            producer_id_filters=list(producer_ids),
            duration_filter=UNSET if duration_ms is None else duration_ms,
            transactional_id_pattern=pattern if by_pattern else None,
        )

    lowest = FIRST_LIST_WITH_DURATION if duration_ms is not None else 0
    nodes = [node] if node is not None else None
    if nodes is None:
        yield from asking.describe(view, [])
        nodes = list(view.metadata.nodes.values())
    found: dict[str, ListedTransaction] = {}
    for each in nodes:
        for one in (yield from _listing_of(view, each, asked, lowest, pattern, deadline)):
            found[one.transactional_id] = one
    return [found[name] for name in sorted(found)]


def _listing_of(
    view: ClusterView[Any],
    node: Node,
    asked: Callable[[bool], ListTransactionsRequest],
    lowest: int,
    pattern: str | None,
    deadline: Deadline,
) -> Conversation[list[ListedTransaction]]:
    matched_here: re.Pattern[str] | None = None

    def attempt() -> Conversation[ListTransactionsResponse]:
        nonlocal matched_here
        connection = yield from asking.connect(node)
        version = connection.version_for(ListTransactionsRequest, lowest=lowest)
        by_pattern = version >= FIRST_LIST_WITH_PATTERN
        if pattern is not None and not by_pattern:
            matched_here = _compiled(pattern)
        response = yield from Exchange(connection, asked(by_pattern), version)
        if response.error_code != ErrorCode.NONE:
            what = "cannot list transactions"
            if response.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION:
                what += f": {pattern!r} is no pattern, or none that the broker takes"
            raise BrokerError.of(response.error_code, what, host=node.address)
        return response

    response = yield from repeating(
        f"listing the transactions of broker {node.node_id}",
        attempt,
        deadline,
        view.backoff(),
        view.note_failure,
    )
    if response.unknown_state_filters:
        names = ", ".join(sorted(response.unknown_state_filters))
        raise ClientError(f"no such transaction state: {names}", host=node.address)
    return [
        ListedTransaction(
            one.transactional_id, node.node_id, one.producer_id, one.transaction_state
        )
        for one in response.transaction_states
        if matched_here is None or matched_here.fullmatch(one.transactional_id)
    ]


def describing_transaction(
    view: ClusterView[Any], transactional_id: str
) -> Conversation[TransactionDescription]:
    """What the coordinator knows. BrokerError TRANSACTIONAL_ID_NOT_FOUND."""

    def only(response: Any) -> Any:
        if len(response.transaction_states) != 1:
            raise ClientError(
                "asked about one transactional id, the broker answered about "
                f"{len(response.transaction_states)}"
            )
        return response.transaction_states[0]

    response = yield from asking.request_coordinator(
        view,
        transactional_id,
        DescribeTransactionsRequest(transactional_ids=[transactional_id]),
        lambda answer: int(only(answer).error_code),
        what=f"cannot describe transactional id {transactional_id}",
        key_type=TRANSACTION_KEY,
    )
    found = only(response)
    return TransactionDescription(
        transactional_id=transactional_id,
        coordinator_id=(
            yield from asking.coordinator(view, transactional_id, TRANSACTION_KEY)
        ).node_id,
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        state=found.transaction_state,
        timeout_ms=found.transaction_timeout_ms,
        start_ms=found.transaction_start_time_ms,
        partitions=tuple(
            sorted(
                TopicPartition(topic.topic, number)
                for topic in found.topics
                for number in topic.partitions
            )
        ),
    )


def describing_producers(
    view: ClusterView[Any], partitions: Iterable[TopicPartition], *, broker: int | None = None
) -> Conversation[dict[TopicPartition, list[PartitionProducer]]]:
    """The producers that the leaders of partitions remember, or `broker` with its replicas, by
    producer id."""
    wanted = {TopicPartition(*partition): None for partition in partitions}
    if broker is None:
        answers = yield from asking_leaders(
            view, wanted, _ask_producers, _read_producers, what="DescribeProducers"
        )
        return {partition: answers[partition] for partition in sorted(answers)}
    yield from asking.describe(view, [])
    node = view.metadata.nodes.get(broker)
    if node is None:
        raise ClientError(f"no broker {broker} is there")
    questions = {partition: Asked(None, -1) for partition in wanted}
    response = yield from asking.request_node(node, _ask_producers(questions))
    found = {}
    for partition, code, producers in _read_producers(response):
        if code != ErrorCode.NONE:
            raise BrokerError.of(
                code,
                "DescribeProducers was refused",
                host=node.address,
                topic=partition.topic,
                partition=partition.partition,
            )
        found[partition] = producers
    return found


def reading_coordinator_epoch(view: ClusterView[Any], transactional_id: str) -> Conversation[int]:
    """The epoch that an id's coordinator stamps its markers with: the leader epoch of its
    partition of `__transaction_state`, -1 where brokers do not tell leader epochs."""
    # The machines of groups take as long to import as the rest of a client.
    from fencepost.machines.group.partitioner import partition_for

    epochs = yield from _reading_coordinator_epochs(view)
    return epochs[partition_for(transactional_id, len(epochs))] if epochs else UNSET


def reading_newest_coordinator_epoch(view: ClusterView[Any]) -> Conversation[int]:
    """The latest epoch that a marker of any coordinator can have; -1 if there is none."""
    return max((yield from _reading_coordinator_epochs(view)).values(), default=UNSET)


def _reading_coordinator_epochs(view: ClusterView[Any]) -> Conversation[dict[int, int]]:
    (topic,) = yield from asking.describe(view, [TRANSACTIONS_TOPIC])
    return {index: one.leader_epoch for index, one in topic.partitions.items()}


def aborting_in_partition(
    view: ClusterView[Any],
    partition: TopicPartition,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int = 0,
) -> Conversation[None]:
    """Write an abort marker for a producer past its coordinator; only for a transaction that
    hangs: the partition would lack the records of one that is committed elsewhere.

    BrokerError INVALID_PRODUCER_EPOCH when the partition knows a later epoch,
    TRANSACTION_COORDINATOR_FENCED a later coordinator's. What has no open transaction there
    gets a marker that changes nothing.
    """

    def build(group: dict[TopicPartition, Asked[None]]) -> Request[Any]:
        marker = WritableTxnMarker(
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            transaction_result=False,
            coordinator_epoch=max(0, coordinator_epoch),
            topics=[
                WritableTxnMarkerTopic(
                    name=name, partition_indexes=[number for number, _ in numbers]
                )
                for name, numbers in by_topic(group).items()
            ],
        )
        return WriteTxnMarkersRequest(markers=[marker])

    yield from asking_leaders(view, {partition: None}, build, _read_markers, what="WriteTxnMarkers")


def force_terminating(
    view: ClusterView[Any], transactional_id: str
) -> Conversation[TransactionDescription]:
    """Abort the transaction of an id and fence its producer, which InitProducerId does.

    Returns what the coordinator knew before. BrokerError TRANSACTIONAL_ID_NOT_FOUND: it would
    make one of an id that there is not.
    """
    known = yield from describing_transaction(view, transactional_id)
    yield from asking.request_coordinator(
        view,
        transactional_id,
        InitProducerIdRequest(
            transactional_id=transactional_id,
            transaction_timeout_ms=max(1, min(known.timeout_ms, 60_000)),
        ),
        lambda response: int(response.error_code),
        what=f"cannot terminate the transaction of {transactional_id}",
        key_type=TRANSACTION_KEY,
        highest=INIT_PRODUCER_ID_HIGHEST,
    )
    return known


def finding_transactions_of(
    view: ClusterView[Any], producer_ids: Iterable[int]
) -> Conversation[Mapping[int, TransactionDescription]]:
    """What coordinators know of producer ids; those that none knows are left out."""
    wanted = sorted(set(producer_ids))
    found = {}
    listed_ones = (yield from listing_transactions(view, producer_ids=wanted)) if wanted else []
    for listed in listed_ones:
        try:
            described = yield from describing_transaction(view, listed.transactional_id)
        except BrokerError as error:
            if error.code != ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                raise
            continue  # it has expired since it was listed
        found[described.producer_id] = described
    return found


class TransactionAdmin:
    """The part of `Admin` that is about transactions."""

    cluster: Cluster

    list_transactions = blocking(listing_transactions)
    describe_transaction = blocking(describing_transaction)
    describe_producers = blocking(describing_producers)
    coordinator_epoch = blocking(reading_coordinator_epoch)
    newest_coordinator_epoch = blocking(reading_newest_coordinator_epoch)
    abort_in_partition = blocking(aborting_in_partition)
    force_terminate = blocking(force_terminating)
    transactions_of = blocking(finding_transactions_of)


def _compiled(pattern: str) -> re.Pattern[str]:
    """What a broker would refuse is refused with the same error."""
    try:
        return re.compile(pattern)
    except re.error as error:
        raise BrokerError.of(
            ErrorCode.INVALID_REGULAR_EXPRESSION, f"the pattern {pattern!r}: {error}"
        ) from error


def _ask_producers(group: Mapping[TopicPartition, Asked[None]]) -> Request[Any]:
    return DescribeProducersRequest(
        topics=[
            TopicRequest(name=name, partition_indexes=[number for number, _ in numbers])
            for name, numbers in by_topic(group).items()
        ]
    )


def _read_producers(response: Any) -> Iterator[Answered[list[PartitionProducer]]]:
    for topic in response.topics:
        for entry in topic.partitions:
            producers = [
                PartitionProducer(
                    one.producer_id,
                    one.producer_epoch,
                    one.last_sequence,
                    one.last_timestamp,
                    one.coordinator_epoch,
                    one.current_txn_start_offset,
                )
                for one in entry.active_producers
            ]
            yield Answered(
                TopicPartition(topic.name, entry.partition_index),
                entry.error_code,
                sorted(producers),
            )


def _read_markers(response: Any) -> Iterator[Answered[None]]:
    for marker in response.markers:
        for topic in marker.topics:
            for entry in topic.partitions:
                yield Answered(
                    TopicPartition(topic.name, entry.partition_index), entry.error_code, None
                )
