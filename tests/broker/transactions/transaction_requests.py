"""What a transactional producer asks, through a raw client."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fencepost.wire.api import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    DescribeTransactionsRequest,
    EndTxnRequest,
    FindCoordinatorRequest,
    InitProducerIdRequest,
    ListTransactionsRequest,
)
from fencepost.wire.api.add_partitions_to_txn import (
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from fencepost.wire.errors import ErrorCode

from ...waiting import eventually
from ..listener_fixtures import Client

COUNTER = iter(range(1_000_000))
TRANSACTION = 1
BUSY = ErrorCode.CONCURRENT_TRANSACTIONS
Producer = tuple[int, int]


def new_id() -> str:
    return f"txn-{next(COUNTER)}"


def coordinated(client: Client, transactional_id: str = "any") -> None:
    """Have coordinators, and wait until all have loaded."""
    request = FindCoordinatorRequest(key=transactional_id, key_type=TRANSACTION)
    eventually(lambda: client.ask(request, 3).error_code == 0, "the coordinator")
    eventually(lambda: client.ask(ListTransactionsRequest(), 1).error_code == 0, "loading")


def init(
    client: Client,
    transactional_id: str,
    producer: Producer = (-1, -1),
    version: int = 5,
    timeout_ms: int = 60_000,
) -> Any:
    """InitProducerId, once."""
    request = InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=timeout_ms,
        producer_id=producer[0],
        producer_epoch=producer[1],
    )
    return client.ask(request, version)


def initialized(client: Client, transactional_id: str, **more: Any) -> Producer:
    """A producer's id and epoch, once what was open is aborted."""
    answer = eventually(lambda: _unless_busy(init(client, transactional_id, **more)))
    assert answer.error_code == 0, answer
    return answer.producer_id, answer.producer_epoch


def adding(
    transactional_id: str, producer: Producer, topic: str, *indexes: int
) -> AddPartitionsToTxnRequest:
    """AddPartitionsToTxn as a producer sends it."""
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=producer[0],
        v3_and_below_producer_epoch=producer[1],
        v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=list(indexes))],
    )


def add(
    client: Client, transactional_id: str, producer: Producer, topic: str, *indexes: int, version=3
) -> dict[int, int]:
    """AddPartitionsToTxn as a producer sends it: an error for each partition."""
    answer = client.ask(adding(transactional_id, producer, topic, *indexes), version)
    return {
        result.partition_index: result.partition_error_code
        for one in answer.results_by_topic_v3_and_below
        for result in one.results_by_partition
    }


def asked_by_leader(
    client: Client,
    *transactions: tuple[str, Producer, str, Iterable[int]],
    verify_only: bool = False,
    version: int = 5,
) -> dict[str, dict[tuple[str, int], int]]:
    """AddPartitionsToTxn as brokers send it."""
    request = AddPartitionsToTxnRequest(
        transactions=[
            AddPartitionsToTxnTransaction(
                transactional_id=transactional_id,
                producer_id=producer[0],
                producer_epoch=producer[1],
                verify_only=verify_only,
                topics=[AddPartitionsToTxnTopic(name=topic, partitions=list(indexes))],
            )
            for transactional_id, producer, topic, indexes in transactions
        ]
    )
    answer = client.ask(request, version)
    assert answer.error_code == 0
    ids = [one.transactional_id for one in answer.results_by_transaction]
    assert len(ids) == len(set(ids)), "one result for each"
    return {
        one.transactional_id: {
            (topic.name, result.partition_index): result.partition_error_code
            for topic in one.topic_results
            for result in topic.results_by_partition
        }
        for one in answer.results_by_transaction
    }


def add_offsets(
    client: Client, transactional_id: str, producer: Producer, group: str, version: int = 4
) -> int:
    request = AddOffsetsToTxnRequest(
        transactional_id=transactional_id,
        producer_id=producer[0],
        producer_epoch=producer[1],
        group_id=group,
    )
    return client.ask(request, version).error_code


def end(
    client: Client, transactional_id: str, producer: Producer, *, committed: bool, version: int = 4
) -> Any:
    """EndTxn, once."""
    request = EndTxnRequest(
        transactional_id=transactional_id,
        producer_id=producer[0],
        producer_epoch=producer[1],
        committed=committed,
    )
    return client.ask(request, version)


def describe(client: Client, transactional_id: str) -> Any:
    request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
    (state,) = client.ask(request, 0).transaction_states
    return state


def state_of(client: Client, transactional_id: str) -> str:
    return describe(client, transactional_id).transaction_state


def _unless_busy(answer: Any) -> Any:
    return None if answer.error_code == BUSY else answer
