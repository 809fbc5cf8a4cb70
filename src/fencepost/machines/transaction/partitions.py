"""AddPartitionsToTxn and AddOffsetsToTxn: partitions become part of a transaction.

The first ones begin it. Only partitions that are in here get a marker, so a partition takes records
of a transaction only when the coordinator knows of it: leaders ask (`verify`), or add the partition
themselves (version 2, KIP-890).

While the transaction before is not complete, a request of the producer that is to begin the next
waits a little (`waiting`); any other is answered CONCURRENT_TRANSACTIONS.

Partitions that are in it already are written once more (`Shard.write_again`).

A record has all partitions of a transaction, and one that is larger than `max.message.bytes` of
`__transaction_state` cannot be written: UNKNOWN_SERVER_ERROR, as with Kafka, and the producer
aborts. The record that ends the transaction may be a little larger than the one before it. Kafka
finds that out when it ends, and then it can neither be committed nor aborted; here partitions are
added only while there is room for its end, too (`END_BYTES`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from fencepost.machines.coordinator import TimerName
from fencepost.machines.transaction.epochs import (
    NeedsProducerId,
    claim_of,
    completed,
    unchanged,
)
from fencepost.machines.transaction.model import IDLE, TopicPartition, Transaction
from fencepost.machines.transaction.partition_set import joined
from fencepost.machines.transaction.requests import AddPartitions
from fencepost.machines.transaction.shard import Decision, Shard
from fencepost.machines.transaction.waiting import WAIT_MS, Wait, WaitOver
from fencepost.wire.errors import ErrorCode
from fencepost.wire.records.transaction import TransactionState

END_BYTES: Final = 64
"""How much larger the record that ends a transaction may be than the last one that adds to it: the
producer ids before and behind, the client's version, and longer lengths of what contains them."""


def add(shard: Shard, request: AddPartitions, token: Any, wall_ms: int) -> Decision:
    """Answers with an `ErrorCode`, at once or later; all of the partitions are added, or none."""
    present = shard.transactions.get(request.transactional_id)
    if present is not None and shard.rules.must_wait(present) and _is_next(present, request, shard):
        name = shard.waiting.next_name(request.transactional_id)
        if name is not None:
            decision = Decision(changes=[Wait(name, request, token)])
            decision.set_timer(name, WAIT_MS)
            return decision
    return _add_now(shard, request, token, wall_ms)


def add_waiting(shard: Shard, name: TimerName, wall_ms: int) -> Decision:
    """Answers a request that has waited, whether the transaction before is complete or not."""
    wait = shard.waiting.get(name)
    if wait is None:
        return Decision()
    over, token = WaitOver(name), wait.token
    decision = _add_now(shard, wait.request, token, wall_ms)
    decision.changes.append(over)
    # The timer is set again behind a refused write, and finds nothing then.
    decision.on_refused = lambda error: Decision(changes=[over], replies=[(token, error)])
    return decision


def _is_next(present: Transaction, request: AddPartitions, shard: Shard) -> bool:
    """Whether the request is of the producer that goes on when the end is complete."""
    identity = completed(present.identity, present.client_version)
    if isinstance(identity, NeedsProducerId):
        return False
    return shard.rules.may_add(claim_of(identity, request.producer_id, request.epoch))


def _add_now(shard: Shard, request: AddPartitions, token: Any, wall_ms: int) -> Decision:
    decision = Decision()
    present = shard.transactions.get(request.transactional_id)
    error = ErrorCode.NONE
    if not request.transactional_id:
        error = ErrorCode.INVALID_REQUEST
    elif present is None:
        error = ErrorCode.INVALID_PRODUCER_ID_MAPPING
    elif shard.rules.must_wait(present):
        error = ErrorCode.CONCURRENT_TRANSACTIONS
    elif request.producer_id != present.identity.producer_id:
        error = ErrorCode.INVALID_PRODUCER_ID_MAPPING
    elif not shard.rules.may_add(claim_of(present.identity, request.producer_id, request.epoch)):
        error = ErrorCode.PRODUCER_FENCED
    elif (
        present.state is not TransactionState.ONGOING
        or not request.partitions <= present.partitions
    ):
        error = _add(shard, decision, present, request, wall_ms)
    else:
        shard.write_again(decision, present)
    decision.reply(token, error)
    return decision


def _add(
    shard: Shard, decision: Decision, present: Transaction, request: AddPartitions, wall_ms: int
) -> ErrorCode:
    begins = present.state in IDLE
    after = present._replace(
        identity=unchanged(present.identity),
        state=TransactionState.ONGOING,
        partitions=joined(present.partitions, request.partitions),
        start_ms=wall_ms if begins else present.start_ms,
        last_update_ms=wall_ms,
        client_version=request.client_version,
    )
    if not shard.memory.admits(present, after):
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    decision.records.append(shard.record(after))
    decision.spare_bytes = END_BYTES
    return ErrorCode.NONE


def verify(shard: Shard, request: AddPartitions, token: Any) -> Decision:
    """Answers with `dict[TopicPartition, ErrorCode]`; changes nothing."""
    decision = Decision()
    partitions: Iterable[TopicPartition] = request.partitions
    present = shard.transactions.get(request.transactional_id)
    error = ErrorCode.NONE
    if not request.transactional_id:
        error = ErrorCode.INVALID_REQUEST
    elif present is None or request.producer_id != present.identity.producer_id:
        error = ErrorCode.INVALID_PRODUCER_ID_MAPPING
    elif request.epoch != present.identity.epoch:
        error = ErrorCode.PRODUCER_FENCED
    elif present.is_ending:
        error = ErrorCode.CONCURRENT_TRANSACTIONS
    known = frozenset() if present is None else present.partitions
    outside = ErrorCode.TRANSACTION_ABORTABLE
    answers = {
        one: error if error is not ErrorCode.NONE or one in known else outside for one in partitions
    }
    decision.reply(token, answers)
    return decision
