"""Transactions that others left open are ended together, over however few connections."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from fencepost.client.conversation import Connect, ExchangeAll, Pause, drive
from fencepost.client.errors import ConnectionFailed, DeadlineExceeded, ProducerFenced
from fencepost.client.metadata import Node
from fencepost.client.open_transactions import OpenTransaction, Outcome, end_all, outcomes
from fencepost.client.retry import Backoff, Deadline
from fencepost.wire.api.describe_transactions import (
    DescribeTransactionsResponse,
    TransactionState,
)
from fencepost.wire.api.end_txn import EndTxnRequest, EndTxnResponse
from fencepost.wire.errors import ErrorCode


class Cluster:
    """Coordinators that answer EndTxn with what is in `answers`, then with NONE."""

    def __init__(self, answers: dict[str, list[ErrorCode | None]], timeout_ms: float = 1e6) -> None:
        self.answers = answers
        self.rounds: list[list[str]] = []
        self.sent: list[tuple[EndTxnRequest, int]] = []
        self.forgotten: list[str] = []
        self.failures = 0
        self.pauses_ms: list[float] = []
        self._timeout_ms = timeout_ms

    def deadline(self) -> Deadline:
        return Deadline(self._timeout_ms)

    def backoff(self) -> Backoff:
        return Backoff()

    def known_coordinator(self, key: str, key_type: int) -> Node:
        return Node(1, "one", 1)

    def forget_coordinator(self, key: str, key_type: int) -> None:
        self.forgotten.append(key)

    def note_failure(self, error: Exception) -> None:
        self.failures += 1

    def run(self, conversation: Any) -> Any:
        return drive(conversation, self._take)

    def _take(self, step: Any) -> Any:
        if isinstance(step, Connect):
            return SimpleNamespace(version_for=lambda kind, lowest, highest: highest or 5)
        if isinstance(step, Pause):
            return self.pauses_ms.append(step.pause_ms)
        assert isinstance(step, ExchangeAll)
        asked: list[tuple[Any, int | None]] = [(one.message, one.version) for one in step.exchanges]
        self.rounds.append([message.transactional_id for message, _ in asked])
        return [self._answer(*one) for one in asked]

    def _answer(self, message: Any, version: int | None) -> Any:
        self.sent.append((message, version or 0))
        left = self.answers.get(message.transactional_id, [])
        error = left.pop(0) if left else ErrorCode.NONE
        if error is None:
            return ConnectionFailed("gone")
        return EndTxnResponse(error_code=int(error), producer_id=message.producer_id)


def end(cluster: Cluster, names: Sequence[str], *, commit: bool = True) -> dict[str, Exception]:
    some = [OpenTransaction(name, 7, 3, True) for name in names]
    failed = end_all(cluster, some, commit=commit)  # type: ignore[arg-type]
    return {one.transactional_id: error for one, error in failed.items()}


def test_all_are_asked_for_at_once() -> None:
    cluster = Cluster({})
    assert end(cluster, "abc", commit=False) == {}
    assert cluster.rounds == [["a", "b", "c"]] and not cluster.pauses_ms
    assert {(one.committed, one.producer_id, one.producer_epoch) for one, _ in cluster.sent} == {
        (False, 7, 3)
    }


def test_those_that_are_refused_for_now_are_asked_for_again_alone() -> None:
    moved, busy = ErrorCode.NOT_COORDINATOR, ErrorCode.CONCURRENT_TRANSACTIONS
    cluster = Cluster({"b": [moved], "c": [None], "d": [busy, busy]})
    assert end(cluster, "abcd") == {}
    assert cluster.rounds == [["a", "b", "c", "d"], ["b", "c", "d"], ["d"]]
    assert "b" in cluster.forgotten and "d" not in cluster.forgotten
    assert cluster.failures == 1 and len(cluster.pauses_ms) == 2
    assert cluster.pauses_ms[1] == 20, "the transaction before is still being completed"


def test_one_that_is_fenced_keeps_none_of_the_others() -> None:
    cluster = Cluster({"a": [ErrorCode.PRODUCER_FENCED], "b": [ErrorCode.NOT_COORDINATOR]})
    failed = end(cluster, "abc")
    assert list(failed) == ["a"] and isinstance(failed["a"], ProducerFenced)
    assert cluster.rounds == [["a", "b", "c"], ["b"]]


def test_what_is_not_ended_in_time_is_said() -> None:
    cluster = Cluster({"a": [ErrorCode.NOT_COORDINATOR] * 100}, timeout_ms=50)
    failed = end(cluster, "ab")
    assert list(failed) == ["a"] and isinstance(failed["a"], DeadlineExceeded)
    with pytest.raises(DeadlineExceeded, match="a was not ended within 50 ms"):
        raise failed["a"]


class Coordinators:
    """A cluster whose one coordinator describes every transaction as `state`."""

    def __init__(self, **state: Any) -> None:
        self.state = TransactionState(transactional_id="a", **state)

    def deadline(self) -> Deadline:
        return Deadline(1e6)

    def backoff(self) -> Backoff:
        return Backoff()

    def find_coordinator(self, key: str, key_type: int) -> Node:
        return Node(1, "one", 1)

    def connection(self, node: Node) -> Any:
        response = DescribeTransactionsResponse(transaction_states=[self.state])
        return SimpleNamespace(request=lambda message: response)


@pytest.mark.parametrize("ended", ["Prepare", "Complete"])
@pytest.mark.parametrize(
    ("is_tv2", "epoch", "now", "is_ours"),
    [
        (True, 3, (7, 4), True),
        (True, 3, (7, 3), False),
        (True, 3, (7, 5), False),
        (True, 3, (8, 4), False),
        (False, 3, (7, 3), True),
        (False, 3, (7, 4), False),
        (True, 32_765, (7, 32_766), True),
        (True, 32_765, (8, 0), False),
        # The epochs have run out: the marker has the last one, and the id another producer then.
        (True, 32_766, (7, 32_767), True),
        (True, 32_766, (8, 0), True),
        (True, 32_766, (7, 32_766), False),
        (True, 32_766, (8, 1), False),
        (True, 32_766, (8, 32_767), False),
        (False, 32_766, (7, 32_766), True),
    ],
)
def test_whose_commit_it_is_that_a_coordinator_knows_of(
    ended: str, is_tv2: bool, epoch: int, now: tuple[int, int], is_ours: bool
) -> None:
    one = OpenTransaction("a", 7, epoch, is_tv2)
    producer_id, producer_epoch = now
    described = {"producer_id": producer_id, "producer_epoch": producer_epoch}
    cluster: Any = Coordinators(transaction_state=f"{ended}Commit", **described)
    assert outcomes(cluster, [one]) == {one: Outcome.COMMITTED if is_ours else Outcome.ABORTED}
    cluster = Coordinators(transaction_state=f"{ended}Abort", **described)
    assert outcomes(cluster, [one]) == {one: Outcome.ABORTED}


@pytest.mark.parametrize(
    ("now", "outcome"),
    [((7, 3), Outcome.OPEN), ((7, 4), Outcome.ABORTED), ((8, 3), Outcome.ABORTED)],
)
def test_an_open_transaction_is_ours_in_our_epoch_alone(
    now: tuple[int, int], outcome: Outcome
) -> None:
    one = OpenTransaction("a", 7, 3, True)
    cluster: Any = Coordinators(
        transaction_state="Ongoing", producer_id=now[0], producer_epoch=now[1]
    )
    assert outcomes(cluster, [one]) == {one: outcome}


def test_nothing_is_sent_for_nothing() -> None:
    cluster = Cluster({})
    assert end(cluster, "") == {} and not cluster.rounds
