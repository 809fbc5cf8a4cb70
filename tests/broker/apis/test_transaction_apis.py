"""Handlers of transactions over coordinators that say what a test has them say."""

from __future__ import annotations

from collections.abc import Generator
from types import SimpleNamespace
from typing import Any

import pytest

from fencepost.broker.apis import list_transactions
from fencepost.broker.transactions import id_pattern
from fencepost.runtime.requests.access import Access
from fencepost.runtime.requests.add_offsets_to_txn import add_offsets_to_txn
from fencepost.wire.api.add_offsets_to_txn import AddOffsetsToTxnRequest
from fencepost.wire.api.list_transactions import ListTransactionsRequest, TransactionState
from fencepost.wire.errors import ErrorCode

NONE, LOADS = ErrorCode.NONE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
MOVED = ErrorCode.NOT_COORDINATOR


def answered(handler: Any, request: Any, version: int, **parts: Any) -> Any:
    """What the handler answers, at once or later."""
    answers: list[Any] = []
    context = SimpleNamespace(api_version=version, reply=answers.append)
    at_once = handler(context, request, **parts)
    if isinstance(at_once, Generator):
        at_once = finished(at_once)
    [answer] = [at_once] if at_once is not None else answers
    return answer


def finished(pieces: Generator[Any, None, Any]) -> Any:
    """What work in pieces comes to that waits for nobody."""
    try:
        while True:
            assert next(pieces) is None, "it waits"
    except StopIteration as stop:
        return stop.value


class Shards:
    """A host whose coordinators each have said this: an error, or ids."""

    def __init__(self, *said: ErrorCode | list[str]) -> None:
        self._said = said

    def coordinators(self) -> list[Any]:
        return [SimpleNamespace(submit=self._submit(one)) for one in self._said]

    def _submit(self, said: ErrorCode | list[str]) -> Any:
        def submit(decide: Any, on_reply: Any) -> None:
            if isinstance(said, ErrorCode):
                on_reply(said, None)
            else:
                on_reply(NONE, [TransactionState(transactional_id=one) for one in said])

        return submit


@pytest.mark.parametrize(
    ("said", "error", "ids"),
    [
        ([["a"], ["b", "c"]], NONE, ["a", "b", "c"]),
        ([["a"], LOADS, ["b"]], LOADS, []),  # a part would be taken for the whole
        ([LOADS, MOVED], LOADS, []),
        ([["a"], MOVED], NONE, ["a"]),  # the others are another node's
        ([MOVED], NONE, []),
        ([], NONE, []),
    ],
)
def test_ids_are_listed_by_all_coordinators_or_by_none(
    said: list[Any], error: ErrorCode, ids: list[str]
) -> None:
    clocks = SimpleNamespace(wall_ms=lambda: 0)
    answer = answered(
        list_transactions.handle,
        ListTransactionsRequest(),
        1,
        access=Access(),
        clocks=clocks,
        transactions=Shards(*said),
    )
    assert answer.error_code == error
    assert [one.transactional_id for one in answer.transaction_states] == ids


def listed_by(pattern: str, *ids: str) -> Any:
    return answered(
        list_transactions.handle,
        ListTransactionsRequest(transactional_id_pattern=pattern),
        2,
        access=Access(),
        clocks=SimpleNamespace(wall_ms=lambda: 0),
        transactions=Shards(list(ids), ["other"]),
    )


@pytest.mark.parametrize(
    ("pattern", "ids"),
    [
        ("", ["a-1", "a-12", "b", "other"]),
        ("a-[0-9]", ["a-1"]),
        ("a", []),
        ("a.*|other", ["a-1", "a-12", "other"]),
        ("(?i)OTHER", ["other"]),
        (r"\Qa-1\E", ["a-1"]),
        (r"\pL", ["b"]),
    ],
)
def test_a_pattern_matches_whole_ids(pattern: str, ids: list[str]) -> None:
    answer = listed_by(pattern, "a-1", "a-12", "b")
    assert answer.error_code == ErrorCode.NONE
    assert [one.transactional_id for one in answer.transaction_states] == ids


@pytest.mark.parametrize(
    "pattern",
    [
        "(",
        "*",
        "a++",
        "(?=a)",
        r"(a)\1",
        r"\C",
        r"a\\\C",
        "a{1001}",
        "((a{100}){100}){100}",
        r"(\pL{100}){10}",
        "a" * (id_pattern.PATTERN_MAX + 1),
    ],
)
def test_a_pattern_that_is_none_is_refused(pattern: str) -> None:
    answer = listed_by(pattern, "a-1")
    assert answer.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert answer.transaction_states == []


def test_an_escaped_backslash_before_a_c_is_no_byte() -> None:
    answer = listed_by(r"a\\C", "a\\C")
    assert [one.transactional_id for one in answer.transaction_states] == ["a\\C"]


def test_others_have_their_turn_while_ids_are_matched() -> None:
    ids = [f"{number}" for number in range(10 * list_transactions.MATCHED_IN_ONE_PIECE)]
    pieces = list_transactions.handle(
        SimpleNamespace(api_version=2),  # type: ignore[arg-type]
        ListTransactionsRequest(transactional_id_pattern="1.*"),
        access=Access(),
        clocks=SimpleNamespace(wall_ms=lambda: 0),  # type: ignore[arg-type]
        transactions=Shards(ids),  # type: ignore[arg-type]
    )
    assert len(list(pieces)) == 1 + 10, "the coordinator is asked, then ids are matched"


@pytest.mark.parametrize("version", range(5))
def test_who_is_fenced_hears_it_as_its_version_knows_it(version: int) -> None:
    """PRODUCER_FENCED is known from AddOffsetsToTxn v2 on."""
    expected = ErrorCode.INVALID_PRODUCER_EPOCH if version < 2 else ErrorCode.PRODUCER_FENCED
    wanted: list[Any] = []

    def add(request: Any, on_reply: Any) -> None:
        wanted.append(request)
        on_reply(NONE, ErrorCode.PRODUCER_FENCED)

    answer = answered(
        add_offsets_to_txn,
        AddOffsetsToTxnRequest(transactional_id="tx", group_id="g"),
        version,
        access=Access(),
        groups=SimpleNamespace(partition_of=lambda group: 3),
        topics=None,
        transactions=SimpleNamespace(add=add),
    )
    assert answer.error_code == expected
    assert wanted[0].partitions == {("__consumer_offsets", 3)}
