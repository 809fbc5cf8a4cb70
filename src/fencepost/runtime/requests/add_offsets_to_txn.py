"""AddOffsetsToTxn (key 25) v0-4: the partition with a group's offsets joins a transaction.

Producers of version 2 do not send it: the group's coordinator adds its partition by itself when
offsets are committed.
"""

from __future__ import annotations

from fencepost.machines.transaction.requests import AddPartitions
from fencepost.runtime.groups import GroupCoordinators
from fencepost.runtime.internal_topics import OFFSETS_TOPIC
from fencepost.runtime.requests.access import Access
from fencepost.runtime.requests.add_partitions_to_txn import fenced_for
from fencepost.runtime.requests.context import RequestContext
from fencepost.runtime.requests.parts import InternalTopicCreation
from fencepost.runtime.requests.permissions import READ_GROUP, WRITE_TRANSACTIONAL_ID
from fencepost.runtime.transactions import TransactionCoordinators
from fencepost.wire.api.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from fencepost.wire.errors import ErrorCode


def add_offsets_to_txn(
    context: RequestContext,
    request: AddOffsetsToTxnRequest,
    *,
    access: Access,
    groups: GroupCoordinators,
    topics: InternalTopicCreation,
    transactions: TransactionCoordinators,
) -> AddOffsetsToTxnResponse | None:
    """Have the transaction's coordinator add the partition that the group belongs to."""
    refusal = access.refusal(context, WRITE_TRANSACTIONAL_ID, request.transactional_id)
    refusal = refusal or access.refusal(context, READ_GROUP, request.group_id)
    if refusal:
        return _answer(refusal)
    if not request.transactional_id:
        return _answer(ErrorCode.INVALID_REQUEST)
    index = groups.partition_of(request.group_id)
    if index is None:
        topics.create([OFFSETS_TOPIC])
        return _answer(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def on_reply(error: ErrorCode, reply: ErrorCode | None) -> None:
        result = error if reply is None else reply
        context.reply(_answer(fenced_for(result, context.api_version)))

    wanted = AddPartitions(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        frozenset({(OFFSETS_TOPIC, index)}),
    )
    transactions.add(wanted, on_reply)
    return None


def _answer(error: ErrorCode) -> AddOffsetsToTxnResponse:
    return AddOffsetsToTxnResponse(error_code=int(error))
