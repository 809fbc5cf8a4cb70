"""EndTxn (key 26) v0-5: a producer commits or aborts its transaction.

v5 is version 2 of transactions (KIP-890): the answer has the producer's next epoch, now and then
with a new id. It leaves when the decision is committed; markers follow.
"""

from __future__ import annotations

from typing import Final

from fencepost.broker.net.registry import handles
from fencepost.broker.transactions.transaction_host import TransactionHost
from fencepost.machines.transaction.ending import Ended, EndTxn
from fencepost.runtime.requests.context import RequestContext
from fencepost.runtime.transaction_requests import fenced_for
from fencepost.wire.api.end_txn import EndTxnRequest, EndTxnResponse
from fencepost.wire.errors import ErrorCode

VERSION_2_FROM: Final = 5


@handles(EndTxnRequest)
def handle(
    context: RequestContext, request: EndTxnRequest, *, transaction_host: TransactionHost
) -> EndTxnResponse | None:
    """Have the transaction's coordinator decide."""
    if not request.transactional_id:
        return EndTxnResponse(error_code=int(ErrorCode.INVALID_REQUEST))

    def on_reply(error: ErrorCode, ended: Ended | None) -> None:
        told = ended or Ended(error)
        context.reply(
            EndTxnResponse(
                error_code=int(fenced_for(told.error, context.api_version)),
                producer_id=told.producer_id,
                producer_epoch=told.epoch,
            )
        )

    asked = EndTxn(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        request.committed,
        2 if context.api_version >= VERSION_2_FROM else 0,
    )
    transaction_host.end(asked, on_reply)
    return None
