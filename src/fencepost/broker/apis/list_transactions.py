"""ListTransactions (key 66) v0-2: the transactional ids that this node coordinates.

While a coordinator loads, the answer is COORDINATOR_LOAD_IN_PROGRESS: a list that lacks ids would
be taken for the whole. Ids that the client may not describe are left out. State names that are none
are told; v1 filters by duration (KIP-994), v2 by a pattern of the id (KIP-1152), which is offered
where `id_pattern` can match it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from concurrent.futures import Future
from functools import partial
from typing import Any, Final

from fencepost.broker.net.registry import handles
from fencepost.broker.transactions import id_pattern
from fencepost.machines.transaction.coordinator import TransactionCoordinator
from fencepost.machines.transaction.listing import filters_for
from fencepost.machines.transaction.shard import Decision
from fencepost.runtime.clock import Clocks
from fencepost.runtime.requests.access import Access
from fencepost.runtime.requests.context import Pieces, RequestContext
from fencepost.runtime.requests.permissions import DESCRIBE_TRANSACTIONAL_ID
from fencepost.runtime.transactions import TransactionCoordinators
from fencepost.wire.api.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)
from fencepost.wire.errors import ErrorCode

MATCHED_IN_ONE_PIECE: Final = 20
"""Ids that a pattern is held against, or an authorizer asked about, in one go."""


@handles(ListTransactionsRequest)
def handle(
    context: RequestContext,
    request: ListTransactionsRequest,
    *,
    access: Access,
    clocks: Clocks,
    transactions: TransactionCoordinators,
) -> Pieces:
    """Ask every coordinator here; answer when all have answered."""
    try:
        pattern = request.transactional_id_pattern
        matches = id_pattern.id_matcher(pattern) if pattern else None
    except id_pattern.PatternError:
        return ListTransactionsResponse(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION)
    filters, unknown = filters_for(
        request.state_filters, request.producer_id_filters, request.duration_filter
    )
    coordinators = list(transactions.coordinators())
    listed: list[TransactionState] = []
    outstanding = len(coordinators)
    failure = ErrorCode.NONE
    all_answered: Future[None] = Future()

    def decide(coordinator: TransactionCoordinator, token: Any) -> Decision:
        return coordinator.decide_list(filters, token, clocks.wall_ms())

    def on_reply(error: ErrorCode, some: list[TransactionState] | None) -> None:
        nonlocal outstanding, failure
        outstanding -= 1
        if some is not None:
            listed.extend(some)
        elif error is not ErrorCode.NOT_COORDINATOR:  # whose ids then are another node's
            failure = error
        if outstanding == 0:
            all_answered.set_result(None)

    for one in coordinators:  # each may have ten thousand ids
        one.submit(decide, on_reply)
        yield None
    if outstanding:
        yield all_answered
    if failure is not ErrorCode.NONE:
        return ListTransactionsResponse(error_code=failure, unknown_state_filters=unknown)
    if matches is not None:
        listed = yield from _matching(listed, matches)
    if access.authorizer is not None:
        may_see = partial(access.allows, context, DESCRIBE_TRANSACTIONAL_ID, quiet=True)
        listed = yield from _matching(listed, may_see)
    return ListTransactionsResponse(unknown_state_filters=unknown, transaction_states=listed)


def _matching(
    listed: list[TransactionState], matches: Callable[[str], bool]
) -> Generator[None, None, list[TransactionState]]:
    """Those whose ids match."""
    found: list[TransactionState] = []
    for first in range(0, len(listed), MATCHED_IN_ONE_PIECE):
        some = listed[first : first + MATCHED_IN_ONE_PIECE]
        found += [one for one in some if matches(one.transactional_id)]
        yield None
    return found
