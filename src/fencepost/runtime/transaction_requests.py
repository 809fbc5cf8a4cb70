"""AddPartitionsToTxn, for clients and for brokers: from a message to coordinators and back.

Up to v3 a producer asks for one transaction; from v4 on leaders ask for many at once, each to be
added to (version 2 of transactions) or only to be looked at (`VerifyOnly`). A leader that asks
about a coordinator on its own node calls `add_partitions` as the handler of the API does.

All partitions of a transaction must exist: those that do not are UNKNOWN_TOPIC_OR_PARTITION, the
others OPERATION_NOT_ATTEMPTED then, and nothing is added. An id that is named twice has one result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from fencepost.machines.image import ClusterImage
from fencepost.machines.transaction import AddPartitions, TopicPartition
from fencepost.runtime.cooperative import Pieces
from fencepost.runtime.transactions import TransactionCoordinators
from fencepost.wire.api.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from fencepost.wire.errors import ErrorCode

BATCHED_FROM: Final = 4
"""From this version on brokers ask, for many transactions, of producers of version 2."""
FENCED_FROM: Final = 2
"""Before, who is fenced hears INVALID_PRODUCER_EPOCH."""

OnResponse = Callable[[AddPartitionsToTxnResponse], None]
_Outcome = Mapping[TopicPartition, ErrorCode]


def add_partitions(
    coordinators: TransactionCoordinators,
    image: ClusterImage,
    request: AddPartitionsToTxnRequest,
    api_version: int,
    on_response: OnResponse,
) -> Pieces[None]:
    """Answer when every transaction is decided; in pieces of one transaction."""
    transactions = request.transactions if api_version >= BATCHED_FROM else [_single(request)]
    gathered = _Gathered(api_version, transactions, on_response)
    for one in transactions:
        _decide(coordinators, image, one, api_version, gathered.taker(one.transactional_id))
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


def _decide(
    coordinators: TransactionCoordinators,
    image: ClusterImage,
    one: AddPartitionsToTxnTransaction,
    api_version: int,
    on_outcome: Callable[[_Outcome], None],
) -> None:
    wanted = {(t.name, index): None for t in one.topics for index in t.partitions}
    unknown = {partition for partition in wanted if not _exists(image, partition)}
    if unknown:
        outside, others = (
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.OPERATION_NOT_ATTEMPTED,
        )
        on_outcome({p: outside if p in unknown else others for p in wanted})
        return
    request = AddPartitions(
        one.transactional_id,
        one.producer_id,
        one.producer_epoch,
        frozenset(_shared(image, wanted)),
        2 if api_version >= BATCHED_FROM else 0,
    )

    def on_reply(error: ErrorCode, reply: ErrorCode | _Outcome | None) -> None:
        if isinstance(reply, Mapping):
            on_outcome(reply)
            return
        told = error if reply is None else reply
        on_outcome(dict.fromkeys(wanted, fenced_for(told, api_version)))

    if not one.transactional_id:
        on_reply(ErrorCode.INVALID_REQUEST, None)
    elif one.verify_only and api_version >= BATCHED_FROM:
        coordinators.verify(request, on_reply)
    else:
        coordinators.add(request, on_reply)


def _exists(image: ClusterImage, partition: TopicPartition) -> bool:
    topic = image.topics_by_name.get(partition[0])
    return topic is not None and 0 <= partition[1] < len(topic.partitions)


def _shared(image: ClusterImage, wanted: Iterable[TopicPartition]) -> Iterable[TopicPartition]:
    """The partitions with the image's own strings: transactions of one topic share its name."""
    return ((image.topics_by_name[topic].name, index) for topic, index in wanted)


class _Gathered:
    """The response as it fills."""

    def __init__(
        self,
        api_version: int,
        transactions: Iterable[AddPartitionsToTxnTransaction],
        on_response: OnResponse,
    ) -> None:
        self._api_version = api_version
        self._on_response = on_response
        self._outstanding = 1  # the request itself, until all of it is taken
        self._outcomes: dict[str, dict[TopicPartition, ErrorCode]] = {
            one.transactional_id: {} for one in transactions
        }

    def taker(self, transactional_id: str) -> Callable[[_Outcome], None]:
        """Takes what became of one transaction's partitions."""
        self._outstanding += 1

        def take(outcome: _Outcome) -> None:
            self._outcomes[transactional_id].update(outcome)
            self.finish_one()

        return take

    def finish_one(self) -> None:
        """One outcome is known; with the last of them the request is answered."""
        self._outstanding -= 1
        if not self._outstanding:
            self._on_response(self._response())

    def _response(self) -> AddPartitionsToTxnResponse:
        if self._api_version < BATCHED_FROM:
            (outcome,) = self._outcomes.values()
            return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_by_topic(outcome))
        return AddPartitionsToTxnResponse(
            results_by_transaction=[
                AddPartitionsToTxnResult(transactional_id=id_, topic_results=_by_topic(outcome))
                for id_, outcome in self._outcomes.items()
            ]
        )


def _by_topic(outcome: _Outcome) -> list[AddPartitionsToTxnTopicResult]:
    by_topic: dict[str, list[AddPartitionsToTxnPartitionResult]] = {}
    for (topic, index), error in outcome.items():
        result = AddPartitionsToTxnPartitionResult(
            partition_index=index, partition_error_code=int(error)
        )
        by_topic.setdefault(topic, []).append(result)
    return [
        AddPartitionsToTxnTopicResult(name=topic, results_by_partition=results)
        for topic, results in by_topic.items()
    ]
