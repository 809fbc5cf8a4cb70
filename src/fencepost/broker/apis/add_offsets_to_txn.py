"""AddOffsetsToTxn (key 25) v0-4: the partition with a group's offsets joins a transaction.

Producers of version 2 do not send it: the group's coordinator adds its partition by itself when
offsets are committed.
"""

from __future__ import annotations

from fencepost.broker.cluster.topic_creation import AutoTopicCreation
from fencepost.broker.groups.group_host import GroupHost
from fencepost.broker.net.registry import handles
from fencepost.broker.transactions.transaction_host import TransactionHost
from fencepost.machines.transaction.partitions import AddPartitions
from fencepost.runtime.internal_topics import OFFSETS_TOPIC
from fencepost.runtime.requests.context import RequestContext
from fencepost.runtime.transaction_requests import fenced_for
from fencepost.wire.api.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from fencepost.wire.errors import ErrorCode


@handles(AddOffsetsToTxnRequest)
def handle(
    context: RequestContext,
    request: AddOffsetsToTxnRequest,
    *,
    group_host: GroupHost,
    topic_creation: AutoTopicCreation,
    transaction_host: TransactionHost,
) -> AddOffsetsToTxnResponse | None:
    """Have the transaction's coordinator add the partition that the group belongs to."""
    if not request.transactional_id:
        return _answer(ErrorCode.INVALID_REQUEST)
    index = group_host.partition_of(request.group_id)
    if index is None:
        topic_creation.create([OFFSETS_TOPIC])
        return _answer(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def on_reply(error: ErrorCode, reply: ErrorCode | None) -> None:
        told = error if reply is None else reply
        context.reply(_answer(fenced_for(told, context.api_version)))

    wanted = AddPartitions(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        frozenset({(OFFSETS_TOPIC, index)}),
    )
    transaction_host.add(wanted, on_reply)
    return None


def _answer(error: ErrorCode) -> AddOffsetsToTxnResponse:
    return AddOffsetsToTxnResponse(error_code=int(error))
