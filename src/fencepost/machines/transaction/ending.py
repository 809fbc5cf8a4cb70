"""The end of a transaction: decided, written to every partition, complete.

An end is decided by a record, PREPARE_COMMIT or PREPARE_ABORT. Once it is committed nothing can
change it any more: the producer is answered, and markers go out (`SendMarkers`), again and again,
by this coordinator or the next, until every partition has one. Then a COMPLETE record says so, and
the next transaction may begin. A producer that begins one before waits a little (`waiting`), and
gets CONCURRENT_TRANSACTIONS then.

Answers to EndTxn of the current producer, for transaction versions 0 and 1 (request v0-4):

| state           | commit              | abort               |
|-----------------|---------------------|---------------------|
| EMPTY           | INVALID_TXN_STATE   | INVALID_TXN_STATE   |
| ONGOING         | commits             | aborts              |
| COMPLETE_COMMIT | NONE                | INVALID_TXN_STATE   |
| COMPLETE_ABORT  | INVALID_TXN_STATE   | NONE                |
| PREPARE_*       | CONCURRENT_TRANSACTIONS, either way          ||

NONE answers a repetition when the COMPLETE record was written once more (`Shard.write_again`).
Kafka answers from memory, also where another coordinator has taken over and begun the next
transaction.

For version 2 (request v5) a retry is recognized by its epoch, so an abort of nothing begins the
next epoch, too. In PREPARE_* every request is answered CONCURRENT_TRANSACTIONS, whatever epoch it
names.

| state           | commit, again | commit            | abort, again      | abort     |
|-----------------|---------------|-------------------|-------------------|-----------|
| EMPTY           | fenced        | INVALID_TXN_STATE | fenced            | aborts    |
| ONGOING         | fenced        | commits           | fenced            | aborts    |
| COMPLETE_COMMIT | NONE          | INVALID_TXN_STATE | INVALID_TXN_STATE | aborts    |
| COMPLETE_ABORT  | INVALID_TXN_STATE | INVALID_TXN_STATE | NONE          | aborts    |

What version 0 or 1 has ended cannot be repeated with version 2: a producer with the epoch before is
fenced, since the present one was given to another.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from fencepost.machines.transaction.epochs import (
    BUMPS_FROM,
    NEEDS_PRODUCER_ID,
    NO_EPOCH,
    NO_PRODUCER_ID,
    Claim,
    Identity,
    NeedsProducerId,
    claim_of,
    completed,
    ended,
    unchanged,
)
from fencepost.machines.transaction.model import IDLE, TopicPartition, Transaction
from fencepost.machines.transaction.sends import CompleteWith, SendMarkers
from fencepost.machines.transaction.shard import LATEST_VERSION, Decision, Shard
from fencepost.wire.errors import ErrorCode
from fencepost.wire.records.transaction import TransactionState

_COMPLETE = frozenset({TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT})


class EndTxn(NamedTuple):
    """What is asked."""

    transactional_id: str
    producer_id: int
    epoch: int
    committed: bool
    client_version: int
    """The transaction version of the request: 2 if it is v5, which is KIP-890's."""


class Ended(NamedTuple):
    """Who the producer is from now on, or why nothing has ended."""

    error: ErrorCode
    producer_id: int = NO_PRODUCER_ID
    epoch: int = NO_EPOCH


def end(shard: Shard, request: EndTxn, fresh: int | None, token: Any, wall_ms: int) -> Decision:
    """Answers with `Ended`, or with NEEDS_PRODUCER_ID: decide again with a `fresh` one."""
    decision = Decision()
    present = shard.transactions.get(request.transactional_id)
    if not request.transactional_id:
        decision.reply(token, Ended(ErrorCode.INVALID_REQUEST))
    elif present is None:
        decision.reply(token, Ended(ErrorCode.INVALID_PRODUCER_ID_MAPPING))
    elif request.client_version < BUMPS_FROM:
        _end_classic(shard, decision, present, request, token, wall_ms)
    else:
        _end_bumping(shard, decision, present, request, fresh, token, wall_ms)
    return decision


def _end_classic(
    shard: Shard,
    decision: Decision,
    present: Transaction,
    request: EndTxn,
    token: Any,
    wall_ms: int,
) -> None:
    claim = claim_of(present.identity, request.producer_id, request.epoch)
    if request.producer_id != present.identity.producer_id:
        error = ErrorCode.INVALID_PRODUCER_ID_MAPPING
    elif not shard.rules.may_end(claim):
        error = ErrorCode.PRODUCER_FENCED
    elif shard.rules.must_wait(present):
        error = ErrorCode.CONCURRENT_TRANSACTIONS
    elif present.state is TransactionState.ONGOING:
        identity = unchanged(present.identity)._replace(next_producer_id=NO_PRODUCER_ID)
        _prepare(shard, decision, present, identity, request.committed, 0, wall_ms)
        error = ErrorCode.NONE
    else:
        error = _of_what_is_over(shard, present, request.committed)
        if error is ErrorCode.NONE:
            shard.write_again(decision, present)
    decision.reply(token, Ended(error))


def _end_bumping(
    shard: Shard,
    decision: Decision,
    present: Transaction,
    request: EndTxn,
    fresh: int | None,
    token: Any,
    wall_ms: int,
) -> None:
    claim = claim_of(present.identity, request.producer_id, request.epoch)
    if shard.rules.must_wait(present):  # first: the producer may know its next id already
        decision.reply(token, Ended(ErrorCode.CONCURRENT_TRANSACTIONS))
        return
    if present.state is TransactionState.ONGOING and shard.rules.may_end(claim):
        claim = Claim.CURRENT
    error = _refuse_bumping(shard, present, claim, request.committed)
    if error is not None:
        decision.reply(token, Ended(error))
    elif claim is not Claim.CURRENT:
        identity = present.identity
        decision.reply(token, Ended(ErrorCode.NONE, identity.producer_id, identity.epoch))
    else:
        next_identity = ended(present.identity, fresh)
        if isinstance(next_identity, NeedsProducerId):
            decision.reply(token, NEEDS_PRODUCER_ID)
            return
        version = request.client_version
        _prepare(shard, decision, present, next_identity, request.committed, version, wall_ms)
        over = completed(next_identity, version, fresh)
        assert isinstance(over, Identity)
        decision.reply(token, Ended(ErrorCode.NONE, over.producer_id, over.epoch))


def _of_what_is_over(shard: Shard, present: Transaction, committed: bool) -> ErrorCode:
    """The error code for a request to end a transaction while none is ongoing."""
    if present.state not in _COMPLETE:
        return ErrorCode.INVALID_TXN_STATE
    has_ended_so = shard.rules.has_ended_so(present.is_committed, committed)
    return ErrorCode.NONE if has_ended_so else ErrorCode.INVALID_TXN_STATE


def _refuse_bumping(
    shard: Shard, present: Transaction, claim: Claim, committed: bool
) -> ErrorCode | None:
    """Why a transaction does not end with version 2; None if it ends, or has ended so before."""
    if claim is Claim.OTHER_ID:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if claim is Claim.STALE:
        return ErrorCode.PRODUCER_FENCED
    if claim is Claim.CURRENT:
        is_fine = present.state is TransactionState.ONGOING or not committed
        return None if is_fine else ErrorCode.INVALID_TXN_STATE
    if present.state not in _COMPLETE or present.client_version < BUMPS_FROM:
        return ErrorCode.PRODUCER_FENCED  # what ended last began no epoch: another producer has it
    return _of_what_is_over(shard, present, committed) or None


def abort(
    shard: Shard, decision: Decision, present: Transaction, fresh: int | None, wall_ms: int
) -> bool:
    """The coordinator aborts an ongoing transaction and fences its producer.

    False, and nothing is decided, if that needs a `fresh` producer id.
    """
    assert present.state not in IDLE, present.state
    version = LATEST_VERSION if shard.level() >= BUMPS_FROM else 0
    identity = shard.rules.fence(present.identity, version, fresh)
    if isinstance(identity, NeedsProducerId):
        return False
    _prepare(shard, decision, present, identity, False, version, wall_ms)
    return True


def _prepare(
    shard: Shard,
    decision: Decision,
    present: Transaction,
    identity: Identity,
    committed: bool,
    client_version: int,
    wall_ms: int,
) -> None:
    """The end is decided."""
    prepared = present._replace(
        identity=identity,
        state=(TransactionState.PREPARE_COMMIT if committed else TransactionState.PREPARE_ABORT),
        start_ms=wall_ms if present.state in IDLE else present.start_ms,
        last_update_ms=wall_ms,
        client_version=client_version,
    )
    decision.records.append(shard.record(prepared))
    decision.sends.append(SendMarkers((prepared,)))


def marked(
    shard: Shard,
    sent: Transaction,
    written: frozenset[TopicPartition],
    fresh: int | None,
    wall_ms: int,
) -> Decision:
    """These partitions need no marker any more: they have it, or are deleted.

    `sent` is the end that it was sent for. The last one completes the transaction.
    """
    decision = Decision()
    present = shard.transactions.get(sent.transactional_id)
    if present is None or present._replace(partitions=sent.partitions) != sent:
        return decision
    left = present._replace(partitions=present.partitions - written)
    if not shard.rules.is_over(left):
        decision.changes.append(left)
        return decision
    identity = completed(present.identity, present.client_version, fresh)
    if isinstance(identity, NeedsProducerId):
        decision.changes.append(left)
        decision.sends.append(CompleteWith(sent, written))
        return decision
    is_commit = present.state is TransactionState.PREPARE_COMMIT
    complete = left._replace(
        identity=identity,
        state=(TransactionState.COMPLETE_COMMIT if is_commit else TransactionState.COMPLETE_ABORT),
        partitions=frozenset(),
        last_update_ms=wall_ms,
    )
    decision.records.append(shard.record(complete))
    for name in shard.waiting.names_of(present.transactional_id):
        decision.set_timer(name, 0)
    return decision
