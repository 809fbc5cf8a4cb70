"""DescribeTransactions (key 65) v0: what the coordinators here know of transactional ids.

Topics that the client may not describe are left out of its transactions.
"""

from __future__ import annotations

from typing import Any

from fencepost.broker.net.registry import handles
from fencepost.machines.transaction.coordinator import TransactionCoordinator
from fencepost.machines.transaction.shard import Decision
from fencepost.runtime.requests.access import Access
from fencepost.runtime.requests.context import Pieces, RequestContext
from fencepost.runtime.requests.permissions import DESCRIBE_TOPIC, DESCRIBE_TRANSACTIONAL_ID
from fencepost.runtime.transactions import TransactionCoordinators
from fencepost.wire.api.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)
from fencepost.wire.errors import ErrorCode


@handles(DescribeTransactionsRequest)
def handle(
    context: RequestContext,
    request: DescribeTransactionsRequest,
    *,
    access: Access,
    transactions: TransactionCoordinators,
) -> Pieces:
    """Ask the coordinator of each id that the client may describe; answer when all have."""
    ids = list(dict.fromkeys(request.transactional_ids))
    if not ids:
        return DescribeTransactionsResponse()
    answers: dict[str, TransactionState] = {}

    def ask(transactional_id: str) -> None:
        def decide(coordinator: TransactionCoordinator, token: Any) -> Decision:
            return coordinator.decide_describe(transactional_id, token)

        def on_reply(error: ErrorCode, described: TransactionState | None) -> None:
            if described is None:
                described = TransactionState(
                    transactional_id=transactional_id, error_code=int(error)
                )
            described.topics = [
                one
                for one in described.topics
                if access.allows(context, DESCRIBE_TOPIC, one.topic, quiet=True)
            ]
            answers[transactional_id] = described
            if len(answers) == len(ids):
                states = [answers[one] for one in ids]
                context.reply(DescribeTransactionsResponse(transaction_states=states))

        if refusal := access.refusal(context, DESCRIBE_TRANSACTIONAL_ID, transactional_id):
            on_reply(refusal, None)
        elif not transactional_id:
            on_reply(ErrorCode.INVALID_REQUEST, None)
        else:
            transactions.submit(transactional_id, decide, on_reply)

    for transactional_id in ids:
        ask(transactional_id)
        yield None
    return None
