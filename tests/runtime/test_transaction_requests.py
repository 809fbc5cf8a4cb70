"""AddPartitionsToTxn of many transactions: worked on one by one, so that others come between."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from fencepost.runtime.transaction_requests import add_partitions
from fencepost.wire.api.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from fencepost.wire.errors import ErrorCode


class Coordinators:
    """They agree to everything, and note who asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def add(self, request: Any, on_reply: Any) -> None:
        self.asked.append(request.transactional_id)
        on_reply(ErrorCode.NONE, ErrorCode.NONE)


def test_one_transaction_at_a_time_is_decided() -> None:
    image: Any = SimpleNamespace(
        topics_by_name={"t": SimpleNamespace(name="t", partitions={0: None})}
    )
    request = AddPartitionsToTxnRequest(
        transactions=[
            AddPartitionsToTxnTransaction(
                transactional_id=id_, topics=[AddPartitionsToTxnTopic(name="t", partitions=[0])]
            )
            for id_ in "abc"
        ]
    )
    coordinators: Any = Coordinators()
    answers: list[AddPartitionsToTxnResponse] = []
    pieces = add_partitions(coordinators, image, request, 5, answers.append)
    for asked in (["a"], ["a", "b"], ["a", "b", "c"]):
        next(pieces)
        assert coordinators.asked == asked and not answers
    assert next(pieces, "over") == "over"
    [answer] = answers
    assert [one.transactional_id for one in answer.results_by_transaction] == ["a", "b", "c"]


def test_partitions_end_before_their_count() -> None:
    """Then nothing is added, and nobody is asked."""
    image: Any = SimpleNamespace(
        topics_by_name={"t": SimpleNamespace(name="t", partitions={0: None, 1: None})}
    )
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="a",
        v3_and_below_topics=[AddPartitionsToTxnTopic(name="t", partitions=[-1, 1, 2])],
    )
    coordinators: Any = Coordinators()
    answers: list[AddPartitionsToTxnResponse] = []
    list(add_partitions(coordinators, image, request, 3, answers.append))
    [answer] = answers
    [topic] = answer.results_by_topic_v3_and_below
    errors = {one.partition_index: one.partition_error_code for one in topic.results_by_partition}
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert errors == {-1: unknown, 1: ErrorCode.OPERATION_NOT_ATTEMPTED, 2: unknown}
    assert not coordinators.asked
