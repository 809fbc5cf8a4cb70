"""AddPartitionsToTxn of many transactions: worked on one by one, so that others come between."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from fencepost.machines.transaction.partition_set import PartitionSet
from fencepost.machines.transaction.requests import AddPartitions
from fencepost.runtime.cooperative import Scheduler
from fencepost.runtime.requests.add_partitions_to_txn import (
    PARTITIONS_PER_PIECE,
    add_partitions,
    fenced_for,
)
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
        self.requests: list[AddPartitions] = []

    def add(self, request: Any, on_reply: Any) -> None:
        self.asked.append(request.transactional_id)
        self.requests.append(request)
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
    """Then nothing is added, and no coordinator is asked."""
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


def wide_request(count: int) -> AddPartitionsToTxnRequest:
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="wide",
        v3_and_below_topics=[
            AddPartitionsToTxnTopic(name="t", partitions=list(range(0, count, 2))),
            AddPartitionsToTxnTopic(name="t", partitions=list(range(count))),
        ],
    )


def image_of(count: int) -> Any:
    partitions = dict.fromkeys(range(count))
    return SimpleNamespace(topics_by_name={"t": SimpleNamespace(name="t", partitions=partitions)})


def test_one_wide_transaction_is_worked_on_in_pieces() -> None:
    """Between two pieces others have their turn, however many partitions it names."""
    count = 10_000
    coordinators: Any = Coordinators()
    answers: list[AddPartitionsToTxnResponse] = []
    pieces = add_partitions(coordinators, image_of(count), wide_request(count), 3, answers.append)
    before = sum(1 for _ in iter(lambda: next(pieces, 1) or bool(coordinators.asked), True))
    assert before >= count * 1.5 / PARTITIONS_PER_PIECE - 1
    assert list(pieces) == [] and coordinators.asked == ["wide"]
    partitions = coordinators.requests[0].partitions
    assert isinstance(partitions, PartitionSet), "grouped on the way"
    assert sorted(partitions.topics["t"].partition_ids) == list(range(count))
    assert partitions == {("t", index) for index in range(count)}
    [answer] = answers
    [topic] = answer.results_by_topic_v3_and_below
    assert {one.partition_index for one in topic.results_by_partition} == set(range(count))
    assert len(topic.results_by_partition) == count
    assert {one.partition_error_code for one in topic.results_by_partition} == {0}


def test_others_are_served_beside_a_wide_transaction() -> None:
    """Everybody's small requests are answered in the next turn, not behind the wide one."""
    turns: list[Any] = []
    loop: Any = SimpleNamespace(call_soon=turns.append)
    scheduler = Scheduler(loop, lambda: 0.0, 0.0, 0.0)  # a turn is one piece
    coordinators: Any = Coordinators()
    answered: list[str] = []

    def ask(lane: Any, request: AddPartitionsToTxnRequest) -> None:
        name = request.v3_and_below_transactional_id
        work = add_partitions(
            coordinators, image_of(10_000), request, 3, lambda _: answered.append(name)
        )
        lane.begin(work)

    ask(scheduler.lane(), wide_request(10_000))
    others = scheduler.lane()
    for number in range(5):
        small = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=f"small-{number}",
            v3_and_below_topics=[AddPartitionsToTxnTopic(name="t", partitions=[number])],
        )
        ask(others, small)
        for _ in range(3):
            turns.pop(0)()
    assert answered == [f"small-{number}" for number in range(5)]
    while turns:
        turns.pop(0)()
    assert answered[5:] == ["wide"]


def test_an_error_is_every_partitions() -> None:
    coordinators: Any = SimpleNamespace(
        add=lambda request, on_reply: on_reply(ErrorCode.NONE, ErrorCode.PRODUCER_FENCED)
    )
    answers: list[AddPartitionsToTxnResponse] = []
    list(add_partitions(coordinators, image_of(3), wide_request(3), 3, answers.append))
    [answer] = answers
    [topic] = answer.results_by_topic_v3_and_below
    assert [one.partition_error_code for one in topic.results_by_partition] == [
        ErrorCode.PRODUCER_FENCED
    ] * 3


def test_who_is_fenced_hears_so_from_version_2_on() -> None:
    fenced, invalid = ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH
    assert [fenced_for(fenced, version) for version in range(4)] == [invalid] * 2 + [fenced] * 2
    assert fenced_for(ErrorCode.INVALID_TXN_STATE, 0) is ErrorCode.INVALID_TXN_STATE
