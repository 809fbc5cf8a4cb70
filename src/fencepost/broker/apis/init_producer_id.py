"""InitProducerId (key 22) v0-5: an id for an idempotent producer.

Without a transactional id every request gets a new id with epoch 0, also one that names an older
id. Transactions are not offered: a transactional id is refused with INVALID_REQUEST, which clients
treat as final, instead of an error that they would go on retrying. Version 6 is not stable in
Kafka 4.3 and not advertised.
"""

from __future__ import annotations

from fencepost.broker.net.registry import handles
from fencepost.broker.net.request_context import RequestContext
from fencepost.runtime.producer_ids import ProducerIds
from fencepost.wire.api.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from fencepost.wire.errors import ErrorCode


@handles(InitProducerIdRequest, versions="0-5")
def handle(
    context: RequestContext, request: InitProducerIdRequest, *, producer_ids: ProducerIds
) -> InitProducerIdResponse | None:
    """Answer with a new producer id, once there is one."""
    half_known = (request.producer_id == -1) != (request.producer_epoch == -1)
    if request.transactional_id is not None or half_known:
        return _answer(ErrorCode.INVALID_REQUEST, -1)

    def on_producer_id(error: ErrorCode, producer_id: int) -> None:
        context.reply(_answer(error, producer_id))

    producer_ids.next_id(on_producer_id)
    return None


def _answer(error: ErrorCode, producer_id: int) -> InitProducerIdResponse:
    return InitProducerIdResponse(
        error_code=int(error),
        producer_id=producer_id,
        producer_epoch=0 if error is ErrorCode.NONE else -1,
    )
