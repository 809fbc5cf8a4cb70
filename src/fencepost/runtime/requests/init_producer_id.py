"""InitProducerId (key 22) v0-6: an id for an idempotent or a transactional producer.

A client needs WRITE to its transactional id, for two-phase commits TWO_PHASE_COMMIT as well;
without an id IDEMPOTENT_WRITE to the cluster or WRITE to some topic.

Without a transactional id every request gets a new id with epoch 0, also one that names an older
id. With one, its coordinator decides (`machines.transaction.initialization`). v6 is for two-phase
commits (KIP-939). Kafka 4.4 calls it unstable, so as there it is served with
`unstable.api.versions.enable` alone; a request to keep a prepared transaction is answered
UNSUPPORTED_VERSION, as there.
"""

from __future__ import annotations

from typing import Final

from fencepost.machines.transaction.initialization import Granted, InitProducerId
from fencepost.runtime.producer_ids import ProducerIds
from fencepost.runtime.requests.access import Access
from fencepost.runtime.requests.context import RequestContext
from fencepost.runtime.requests.permissions import (
    IDEMPOTENT_WRITE,
    TWO_PHASE_COMMIT,
    WRITE_TOPIC,
    WRITE_TRANSACTIONAL_ID,
)
from fencepost.runtime.transactions import TransactionCoordinators
from fencepost.wire.api.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from fencepost.wire.errors import ErrorCode

FENCED_FROM: Final = 4
"""The error PRODUCER_FENCED is INVALID_PRODUCER_EPOCH in versions before this one."""


def init_producer_id(
    context: RequestContext,
    request: InitProducerIdRequest,
    *,
    access: Access,
    producer_ids: ProducerIds,
    transactions: TransactionCoordinators,
) -> InitProducerIdResponse | None:
    """Answer with a producer id and epoch, once there are some."""
    if refusal := _refusal(access, context, request):
        return _answer(Granted(refusal))
    half_known = (request.producer_id == -1) != (request.producer_epoch == -1)
    if half_known or request.transactional_id == "":
        return _answer(Granted(ErrorCode.INVALID_REQUEST))
    if request.transactional_id is None:
        _give_new(context, producer_ids)
    else:
        _ask_coordinator(context, request, request.transactional_id, transactions)
    return None


def _refusal(access: Access, context: RequestContext, request: InitProducerIdRequest) -> ErrorCode:
    transactional_id = request.transactional_id
    if transactional_id is None:
        if access.allows(context, IDEMPOTENT_WRITE, quiet=True):
            return ErrorCode.NONE
        can_write = access.allows_any(context, WRITE_TOPIC)
        return ErrorCode.NONE if can_write else IDEMPOTENT_WRITE.refusal
    refusal = access.refusal(context, WRITE_TRANSACTIONAL_ID, transactional_id)
    if not refusal and request.enable_2pc:
        refusal = access.refusal(context, TWO_PHASE_COMMIT, transactional_id)
    return refusal


def _give_new(context: RequestContext, producer_ids: ProducerIds) -> None:
    def on_producer_id(error: ErrorCode, producer_id: int) -> None:
        if error is ErrorCode.NONE:
            context.reply(_answer(Granted(error, producer_id, 0)))
        else:  # the one error after which every client retries
            context.reply(_answer(Granted(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)))

    producer_ids.next_id(on_producer_id)


def _ask_coordinator(
    context: RequestContext,
    request: InitProducerIdRequest,
    transactional_id: str,
    transactions: TransactionCoordinators,
) -> None:
    def on_reply(error: ErrorCode, granted: Granted | None) -> None:
        granted = granted or Granted(error)
        if granted.error is ErrorCode.PRODUCER_FENCED and context.api_version < FENCED_FROM:
            granted = Granted(ErrorCode.INVALID_PRODUCER_EPOCH)
        context.reply(_answer(granted))

    has_id = request.producer_id != -1
    asked = InitProducerId(
        transactional_id,
        request.transaction_timeout_ms,
        (request.producer_id, request.producer_epoch) if has_id else None,
        request.enable_2pc,
        request.keep_prepared_txn,
    )
    transactions.init_producer_id(asked, on_reply)


def _answer(granted: Granted) -> InitProducerIdResponse:
    return InitProducerIdResponse(
        error_code=int(granted.error),
        producer_id=granted.producer_id,
        producer_epoch=granted.epoch,
    )
