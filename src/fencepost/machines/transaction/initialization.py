"""InitProducerId with a transactional id: a producer takes the id over, or goes on after an error.

The producer that held the id before is fenced by the next epoch. A transaction that is still open
is aborted first: the new producer gets CONCURRENT_TRANSACTIONS and retries until that is done. A
producer that says which id and epoch it has (KIP-360) and has another epoch than the transaction
that is open is fenced, and the transaction goes on. Kafka looks at the id alone then: there a
producer that was fenced takes the transaction of the one that fenced it along.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from fencepost.machines.transaction.ending import abort
from fencepost.machines.transaction.epochs import (
    NEEDS_PRODUCER_ID,
    NO_EPOCH,
    NO_PRODUCER_ID,
    Claim,
    Identity,
    NeedsProducerId,
    claim_of,
    initialized,
)
from fencepost.machines.transaction.model import NEVER_MS, NO_TIME, Transaction
from fencepost.machines.transaction.shard import Decision, Shard
from fencepost.wire.errors import ErrorCode
from fencepost.wire.records.transaction import TransactionState


class Granted(NamedTuple):
    """A producer's id and epoch, or why it has none."""

    error: ErrorCode
    producer_id: int = NO_PRODUCER_ID
    epoch: int = NO_EPOCH


class InitProducerId(NamedTuple):
    """What is asked; `expected` is the (producer id, epoch) that the producer has, if any."""

    transactional_id: str
    timeout_ms: int
    expected: tuple[int, int] | None = None
    two_phase_commit: bool = False
    keep_prepared: bool = False


def refuse(request: InitProducerId, shard: Shard) -> ErrorCode | None:
    """What is wrong with the request whatever the state."""
    config = shard.config
    if not request.transactional_id:
        return ErrorCode.INVALID_REQUEST
    if request.two_phase_commit and not config.two_phase_commit:
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if request.keep_prepared:
        return ErrorCode.UNSUPPORTED_VERSION
    if not request.two_phase_commit and not 0 < request.timeout_ms <= config.max_timeout_ms:
        return ErrorCode.INVALID_TRANSACTION_TIMEOUT
    return None


def initialize(
    shard: Shard, request: InitProducerId, fresh: int | None, token: Any, wall_ms: int
) -> Decision:
    """Answers with `Granted`, or with NEEDS_PRODUCER_ID: decide again with a `fresh` one."""
    decision = Decision()
    refused = refuse(request, shard)
    present = shard.transactions.get(request.transactional_id)
    if refused is not None:
        decision.reply(token, Granted(refused))
    elif present is None and fresh is None:
        decision.reply(token, NEEDS_PRODUCER_ID)
    elif present is not None and shard.rules.must_wait(present):
        decision.reply(token, Granted(ErrorCode.CONCURRENT_TRANSACTIONS))
    elif present is not None and present.state is TransactionState.ONGOING:
        _fence(shard, decision, present, request, fresh, token, wall_ms)
    else:
        _give(shard, decision, present, request, fresh, token, wall_ms)
    return decision


def _fence(
    shard: Shard,
    decision: Decision,
    present: Transaction,
    request: InitProducerId,
    fresh: int | None,
    token: Any,
    wall_ms: int,
) -> None:
    """Abort what is open, if the caller may take the id over."""
    expected = request.expected
    if expected is not None and claim_of(present.identity, *expected) is not Claim.CURRENT:
        decision.reply(token, Granted(ErrorCode.PRODUCER_FENCED))
    elif abort(shard, decision, present, fresh, wall_ms):
        decision.reply(token, Granted(ErrorCode.CONCURRENT_TRANSACTIONS))
    else:
        decision.reply(token, NEEDS_PRODUCER_ID)


def _give(
    shard: Shard,
    decision: Decision,
    present: Transaction | None,
    request: InitProducerId,
    fresh: int | None,
    token: Any,
    wall_ms: int,
) -> None:
    """The producer gets the id in the next epoch."""
    identity: Identity | ErrorCode | NeedsProducerId
    if present is None:
        assert fresh is not None
        identity = initialized(Identity(fresh), request.expected, None)
    else:
        identity = initialized(present.identity, request.expected, fresh)
    if isinstance(identity, NeedsProducerId):
        decision.reply(token, NEEDS_PRODUCER_ID)
    elif isinstance(identity, ErrorCode):
        decision.reply(token, Granted(identity))
    else:
        after = Transaction(
            request.transactional_id,
            identity,
            NEVER_MS if request.two_phase_commit else request.timeout_ms,
            TransactionState.EMPTY,
            start_ms=NO_TIME,
            last_update_ms=wall_ms,
            client_version=0 if present is None else present.client_version,
        )
        if not shard.memory.admits(present, after):
            decision.reply(token, Granted(ErrorCode.COORDINATOR_NOT_AVAILABLE))
            return
        decision.records.append(shard.record(after))
        decision.reply(token, Granted(ErrorCode.NONE, identity.producer_id, identity.epoch))
