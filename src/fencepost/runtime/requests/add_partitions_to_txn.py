"""AddPartitionsToTxn (key 24) v0-5: partitions become part of transactions.

Up to v3 a producer asks for one transaction; from v4 on leaders ask for many at once, each to be
added to (version 2 of transactions) or only to be looked at (`VerifyOnly`). A leader whose node has
the coordinator calls `add_partitions` without sending a request. v4 and later are for brokers alone
(CLUSTER_ACTION); a producer needs WRITE to its transactional id and to each topic, and where there
is an authorizer no client can write to an internal topic.

All partitions of a transaction must be writable to the producer and exist: those that are not have
TOPIC_AUTHORIZATION_FAILED or UNKNOWN_TOPIC_OR_PARTITION, the others OPERATION_NOT_ATTEMPTED then,
and nothing is added. An id that is named twice has one result.

A transaction may have as many partitions as the cluster, so one transaction is work in pieces, too:
what is looked up and what is answered is made along with it, some hundred partitions at a time.
Left for one go are the union of two sets, the transaction's record, for which they are by topic
already (`machines.transaction.partition_set`), and, if it is refused, one error for all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Final

from fencepost.machines.image import ClusterImage
from fencepost.machines.transaction.model import TopicPartition
from fencepost.machines.transaction.partition_set import PartitionSet
from fencepost.machines.transaction.requests import AddPartitions
from fencepost.runtime import cooperative
from fencepost.runtime.internal_topics import INTERNAL_TOPICS
from fencepost.runtime.requests.access import Access
from fencepost.runtime.requests.context import Pieces, RequestContext
from fencepost.runtime.requests.parts import ClusterMetadata
from fencepost.runtime.requests.permissions import (
    CLUSTER_ACTION,
    WRITE_TOPIC,
    WRITE_TRANSACTIONAL_ID,
)
from fencepost.runtime.transactions import TransactionCoordinators
from fencepost.wire.api.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from fencepost.wire.errors import ErrorCode
from fencepost.wire.records.transaction import PartitionsSchema

BATCHED_FROM: Final = 4
"""From this version on brokers send it, for many transactions of producers of version 2."""
FENCED_FROM: Final = 2
"""The error PRODUCER_FENCED is INVALID_PRODUCER_EPOCH in versions before this one."""

PARTITIONS_PER_PIECE: Final = 250
"""Partitions looked up before others have their turn."""

TopicRefusal = Callable[[str], ErrorCode]
"""Why the producer may not write to the topic of that name; NONE if it may."""
OnResponse = Callable[[AddPartitionsToTxnResponse], None]
_Outcome = Mapping[TopicPartition, ErrorCode] | ErrorCode
"""An error for each partition, or one for all."""


def _may_write(topic: str) -> ErrorCode:
    """The `TopicRefusal` of brokers, and of producers where there is no authorizer."""
    return ErrorCode.NONE


def add_partitions_to_txn(
    context: RequestContext,
    request: AddPartitionsToTxnRequest,
    *,
    access: Access,
    metadata: ClusterMetadata,
    transactions: TransactionCoordinators,
) -> Pieces:
    """Have the coordinators decide; answer when all have."""
    version, topic_refusal = context.api_version, _may_write
    if version >= BATCHED_FROM:
        if refusal := access.refusal(context, CLUSTER_ACTION):
            return AddPartitionsToTxnResponse(error_code=int(refusal))
    elif access.authorizer is not None:
        id_ = request.v3_and_below_transactional_id
        if refusal := access.refusal(context, WRITE_TRANSACTIONAL_ID, id_):
            return (yield from _refused(request, refusal))
        topic_refusal = partial(_topic_refusal, access, context)
    yield from add_partitions(
        transactions, metadata.image, request, version, context.reply, topic_refusal
    )
    return None


def _topic_refusal(access: Access, context: RequestContext, topic: str) -> ErrorCode:
    """Why the producer may not write to the topic; NONE if it may."""
    if topic in INTERNAL_TOPICS:
        return WRITE_TOPIC.refusal
    return access.refusal(context, WRITE_TOPIC, topic)


def _refused(
    request: AddPartitionsToTxnRequest, error: ErrorCode
) -> cooperative.Pieces[AddPartitionsToTxnResponse]:
    """The answer of up to v3 with the error in every partition."""
    results = _Results(error)
    for topic, indexes in _some_at_a_time(request.v3_and_below_topics):
        results.open(topic, indexes)
        yield None
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=list(results.topics.values()))


def add_partitions(
    coordinators: TransactionCoordinators,
    image: ClusterImage,
    request: AddPartitionsToTxnRequest,
    api_version: int,
    on_response: OnResponse,
    topic_refusal: TopicRefusal = _may_write,
) -> cooperative.Pieces[None]:
    """Answer when every transaction is decided; in pieces."""
    transactions = request.transactions if api_version >= BATCHED_FROM else [_single(request)]
    gathered = _Gathered(api_version, on_response)
    for one in transactions:
        yield from _ask(coordinators, image, one, api_version, topic_refusal, gathered)
        yield None
    gathered.finish_one()


def fenced_for(error: ErrorCode, api_version: int) -> ErrorCode:
    """The error as clients of that version of AddPartitionsToTxn, AddOffsetsToTxn or EndTxn
    understand it."""
    if error is ErrorCode.PRODUCER_FENCED and api_version < FENCED_FROM:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error


def _single(request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnTransaction:
    return AddPartitionsToTxnTransaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )


def _ask(
    coordinators: TransactionCoordinators,
    image: ClusterImage,
    one: AddPartitionsToTxnTransaction,
    api_version: int,
    topic_refusal: TopicRefusal,
    gathered: _Gathered,
) -> cooperative.Pieces[None]:
    """Have a coordinator decide about one transaction."""
    results = gathered.results_of(one.transactional_id)
    wanted: set[TopicPartition] = set()
    topics: dict[str, PartitionsSchema] = {}
    failed: dict[TopicPartition, ErrorCode] = {}
    for number, (name, indexes) in enumerate(_some_at_a_time(one.topics)):
        if number:
            yield None
        refusal = topic_refusal(name)
        topic = image.topics_by_name.get(name)
        count = 0 if topic is None else len(topic.partitions)
        # The image's own string: the transactions of one topic share its name.
        shared = name if topic is None else topic.name
        of_topic = topics.setdefault(shared, PartitionsSchema(topic=shared))
        for index in indexes:
            partition = (shared, index)
            if partition not in wanted:
                wanted.add(partition)
                of_topic.partition_ids.append(index)
            if refusal:
                failed[partition] = refusal
            elif not 0 <= index < count:
                failed[partition] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        results.open(shared, indexes)
    on_outcome = gathered.taker(results, wanted)
    if failed:
        on_outcome({p: failed.get(p, ErrorCode.OPERATION_NOT_ATTEMPTED) for p in wanted})
        return

    def on_reply(error: ErrorCode, reply: _Outcome | None) -> None:
        if isinstance(reply, Mapping):
            on_outcome(reply)
        else:
            on_outcome(fenced_for(error if reply is None else reply, api_version))

    request = AddPartitions(
        one.transactional_id,
        one.producer_id,
        one.producer_epoch,
        PartitionSet.of(wanted, topics),
        2 if api_version >= BATCHED_FROM else 0,
    )
    if not one.transactional_id:
        on_reply(ErrorCode.INVALID_REQUEST, None)
    elif one.verify_only and api_version >= BATCHED_FROM:
        coordinators.verify(request, on_reply)
    else:
        coordinators.add(request, on_reply)


def _some_at_a_time(topics: Iterable[AddPartitionsToTxnTopic]) -> Iterator[tuple[str, list[int]]]:
    """The partitions of each topic, as many as one piece of work has."""
    for topic in topics:
        for first in range(0, len(topic.partitions), PARTITIONS_PER_PIECE):
            yield topic.name, topic.partitions[first : first + PARTITIONS_PER_PIECE]


class _Results:
    """The answer about one transaction: one error for all partitions, until another is set."""

    def __init__(self, error: ErrorCode = ErrorCode.NONE) -> None:
        self._error = int(error)
        self.topics: dict[str, AddPartitionsToTxnTopicResult] = {}
        self._partitions: dict[TopicPartition, AddPartitionsToTxnPartitionResult] = {}

    def open(self, topic: str, indexes: Iterable[int]) -> None:
        """Make a result for each of these partitions."""
        found = self.topics.get(topic)
        if found is None:
            found = self.topics[topic] = AddPartitionsToTxnTopicResult(name=topic)
        for index in indexes:
            if (topic, index) not in self._partitions:
                result = AddPartitionsToTxnPartitionResult(
                    partition_index=index, partition_error_code=self._error
                )
                self._partitions[topic, index] = result
                found.results_by_partition.append(result)

    def take(self, wanted: Iterable[TopicPartition], outcome: _Outcome) -> None:
        """What became of these partitions."""
        if outcome is ErrorCode.NONE:
            return
        if isinstance(outcome, Mapping):
            for partition, error in outcome.items():
                self._partitions[partition].partition_error_code = int(error)
        else:
            for partition in wanted:
                self._partitions[partition].partition_error_code = int(outcome)


class _Gathered:
    """The response as it fills."""

    def __init__(self, api_version: int, on_response: OnResponse) -> None:
        self._api_version = api_version
        self._on_response = on_response
        self._outstanding = 1  # the request itself, until all of it is taken
        self._results: dict[str, _Results] = {}

    def results_of(self, transactional_id: str) -> _Results:
        """Where the answer about a transaction goes."""
        return self._results.setdefault(transactional_id, _Results())

    def taker(
        self, results: _Results, wanted: Iterable[TopicPartition]
    ) -> Callable[[_Outcome], None]:
        """Takes what became of one transaction's partitions."""
        self._outstanding += 1

        def take(outcome: _Outcome) -> None:
            results.take(wanted, outcome)
            self.finish_one()

        return take

    def finish_one(self) -> None:
        """One outcome is known; with the last of them the request is answered."""
        self._outstanding -= 1
        if not self._outstanding:
            self._on_response(self._response())

    def _response(self) -> AddPartitionsToTxnResponse:
        if self._api_version < BATCHED_FROM:
            (results,) = self._results.values()
            return AddPartitionsToTxnResponse(
                results_by_topic_v3_and_below=list(results.topics.values())
            )
        return AddPartitionsToTxnResponse(
            results_by_transaction=[
                AddPartitionsToTxnResult(
                    transactional_id=id_, topic_results=list(results.topics.values())
                )
                for id_, results in self._results.items()
            ]
        )
