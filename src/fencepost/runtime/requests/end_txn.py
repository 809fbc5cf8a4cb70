"""EndTxn (key 26) v0-5: a producer commits or aborts its transaction.

v5 is version 2 of transactions (KIP-890): the answer has the producer's next epoch, now and then
with a new id. It leaves when the decision is committed; markers follow.
"""

from __future__ import annotations

from typing import Final

from fencepost.machines.transaction.ending import Ended, EndTxn
from fencepost.runtime.requests.access import Access
from fencepost.runtime.requests.add_partitions_to_txn import fenced_for
from fencepost.runtime.requests.context import RequestContext
from fencepost.runtime.requests.permissions import WRITE_TRANSACTIONAL_ID
from fencepost.runtime.transactions import TransactionCoordinators
from fencepost.wire.api.end_txn import EndTxnRequest, EndTxnResponse
from fencepost.wire.errors import ErrorCode

VERSION_2_FROM: Final = 5


def end_txn(
    context: RequestContext,
    request: EndTxnRequest,
    *,
    access: Access,
    transactions: TransactionCoordinators,
) -> EndTxnResponse | None:
    """Have the transaction's coordinator decide."""
    if refusal := access.refusal(context, WRITE_TRANSACTIONAL_ID, request.transactional_id):
        return EndTxnResponse(error_code=int(refusal))
    if not request.transactional_id:
        return EndTxnResponse(error_code=int(ErrorCode.INVALID_REQUEST))

    def on_reply(error: ErrorCode, ended: Ended | None) -> None:
        ended = ended or Ended(error)
        context.reply(
            EndTxnResponse(
                error_code=int(fenced_for(ended.error, context.api_version)),
                producer_id=ended.producer_id,
                producer_epoch=ended.epoch,
            )
        )

    asked = EndTxn(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        request.committed,
        2 if context.api_version >= VERSION_2_FROM else 0,
    )
    transactions.end(asked, on_reply)
    return None
