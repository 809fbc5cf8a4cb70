"""ListTransactions of many coordinators: one at a time, so that others come between."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from fencepost.broker.apis import list_transactions
from fencepost.runtime.requests.access import Access
from fencepost.wire.api.list_transactions import ListTransactionsRequest, TransactionState
from fencepost.wire.errors import ErrorCode


class Coordinators:
    """Each has one id; `closed` ones belong to another node by now."""

    def __init__(self, count: int, closed: frozenset[int] = frozenset()) -> None:
        self.asked: list[int] = []
        self._all = [SimpleNamespace(submit=self._answers(n, n in closed)) for n in range(count)]

    def _answers(self, number: int, is_closed: bool) -> Any:
        def submit(decide: Any, on_reply: Any) -> None:
            self.asked.append(number)
            if is_closed:
                on_reply(ErrorCode.NOT_COORDINATOR, None)
            else:
                state = TransactionState(
                    transactional_id=f"id-{number}", producer_id=number, transaction_state="Empty"
                )
                on_reply(ErrorCode.NONE, [state])

        return submit

    def coordinators(self) -> Any:
        return iter(self._all)


def test_coordinators_are_asked_one_after_the_other() -> None:
    host = Coordinators(5, closed=frozenset({3}))
    pieces: Any = list_transactions.handle(
        None,  # type: ignore[arg-type]
        ListTransactionsRequest(),
        access=Access(),
        clocks=None,  # type: ignore[arg-type]
        transactions=host,  # type: ignore[arg-type]
    )
    for count in range(1, 6):
        assert next(pieces) is None and host.asked == list(range(count))
    try:
        next(pieces)
    except StopIteration as over:
        listed = over.value.transaction_states
    assert [one.transactional_id for one in listed] == ["id-0", "id-1", "id-2", "id-4"]
