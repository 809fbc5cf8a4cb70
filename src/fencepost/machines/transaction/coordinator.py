"""`TransactionCoordinator`: the transactional ids of one partition of `__transaction_state`.

Theory of operation
-------------------
Requests go to `decide_*`, timers to `decide_timer`; each answers with a `Decision` and changes
nothing. The runtime (`runtime.coordinator`) carries it out. All state is durable: a record has a
transactional id with everything about it (`model`). Only which markers are written already is known
in memory alone; the next coordinator has all of them written again.

Kafka gives a transactional id a pending state while a record about it is being replicated, and
refuses others meanwhile. Here the next decision builds on records that are in the leader's log, and
its answer is held until both are committed, so no client has to retry.

What comes from the controller, a producer id, is given to a decision that may need one. A decision
that lacks it answers NEEDS_PRODUCER_ID, and is made again.

It must not know: clocks (`wall_ms` is the time that records are stamped with), how markers travel
(`sends`), who its clients are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from fencepost.machines.coordinator import TimerName
from fencepost.machines.transaction.config import TransactionConfig
from fencepost.machines.transaction.ending import EndTxn, abort, end, marked
from fencepost.machines.transaction.epochs import (
    NEEDS_PRODUCER_ID,
    Claim,
    claim_of,
)
from fencepost.machines.transaction.initialization import InitProducerId, initialize
from fencepost.machines.transaction.listing import Filters, describe, list_transactions
from fencepost.machines.transaction.memory import TransactionMemory
from fencepost.machines.transaction.model import IDLE, TopicPartition, Transaction
from fencepost.machines.transaction.partitions import add, add_waiting, verify
from fencepost.machines.transaction.records import TransactionRecord
from fencepost.machines.transaction.requests import AddPartitions
from fencepost.machines.transaction.rules import RULES, TransactionRules
from fencepost.machines.transaction.sends import AbortTimedOut, SendMarkers
from fencepost.machines.transaction.shard import (
    EXPIRY_TIMER,
    LATEST_VERSION,
    TIMEOUT_TIMER,
    Decision,
    Shard,
)
from fencepost.machines.transaction.waiting import ADD_TIMER, Wait, WaitOver
from fencepost.wire.errors import ErrorCode

ABORTS_AT_ONCE: Final = 10
"""Of transactions that have timed out, in one coordinator; a node may have fifty of them."""
ABORTS_PAUSE_MS: Final = 10
"""Between so many and the next."""


class TransactionCoordinator:
    """See the module."""

    max_batch_bytes = 0
    """Not asked for: every decision is one record, or tombstones, which may be split."""

    def __init__(
        self,
        config: TransactionConfig | None = None,
        memory: TransactionMemory | None = None,
        level: Callable[[], int] = lambda: LATEST_VERSION,
        rules: TransactionRules = RULES,
    ) -> None:
        """`memory` is shared by the coordinators of a node; `level` is the finalized level of
        `transaction.version`."""
        config = config or TransactionConfig()
        self._shard = Shard(config, memory or TransactionMemory(), level, rules)
        self.undo_log = self._shard.undo_log

    @property
    def transactions(self) -> dict[str, Transaction]:
        """The transactional ids; to be read only."""
        return self._shard.transactions

    def discard(self) -> None:
        """The coordinator is thrown away: its ids take no memory any more."""
        self._shard.discard()

    # State

    def apply(self, record: TransactionRecord, offset: int, producer_id: int = -1) -> None:
        """A record is in the log at `offset`, or about to be."""
        self._shard.put(record.transactional_id, record.transaction)

    def apply_transaction_end(self, producer_id: int, *, committed: bool) -> None:
        """Records of `__transaction_state` are not written in transactions."""

    def apply_change(self, change: Transaction | Wait | WaitOver) -> None:
        """Some markers of an end are written; a request waits, or waits no more."""
        if isinstance(change, Transaction):
            self._shard.put(change.transactional_id, change)
        else:
            self._shard.waiting.apply(change)

    # Requests

    def decide_init(
        self, request: InitProducerId, fresh: int | None, token: Any, wall_ms: int
    ) -> Decision:
        """InitProducerId with a transactional id."""
        return initialize(self._shard, request, fresh, token, wall_ms)

    def decide_add(self, request: AddPartitions, token: Any, wall_ms: int) -> Decision:
        """AddPartitionsToTxn, AddOffsetsToTxn; perhaps answered later (`waiting`)."""
        return add(self._shard, request, token, wall_ms)

    def decide_verify(self, request: AddPartitions, token: Any) -> Decision:
        """AddPartitionsToTxn that only asks (`VerifyOnly`)."""
        return verify(self._shard, request, token)

    def decide_end(self, request: EndTxn, fresh: int | None, token: Any, wall_ms: int) -> Decision:
        """EndTxn."""
        return end(self._shard, request, fresh, token, wall_ms)

    def decide_describe(self, transactional_id: str, token: Any) -> Decision:
        """DescribeTransactions, of one id."""
        return describe(self._shard, transactional_id, token)

    def decide_list(self, filters: Filters, token: Any, wall_ms: int) -> Decision:
        """ListTransactions."""
        return list_transactions(self._shard, filters, token, wall_ms)

    # Without a request

    def decide_loaded(self, wall_ms: int) -> Decision:
        """Ends that were decided go on; the timers run."""
        shard = self._shard
        decision = Decision()
        ending = tuple(one for one in shard.transactions.values() if shard.rules.is_resent(one))
        if ending:
            decision.sends.append(SendMarkers(ending))
        decision.set_timer(TIMEOUT_TIMER, shard.config.timeout_check_ms)
        decision.set_timer(EXPIRY_TIMER, shard.config.expiration_check_ms)
        return decision

    def decide_timer(self, name: TimerName, wall_ms: int) -> Decision:
        """It is time to look for transactions that last too long, or for ids that are unused; or to
        decide about a request that has waited."""
        if name[0] == ADD_TIMER:
            return add_waiting(self._shard, name, wall_ms)
        return self._time_out(wall_ms) if name == TIMEOUT_TIMER else self._expire(wall_ms)

    def _time_out(self, wall_ms: int) -> Decision:
        """Abort what has lasted too long: a few at a time, and the others very soon."""
        shard = self._shard
        decision = Decision()
        delay_ms = shard.config.timeout_check_ms
        for transactional_id in shard.ongoing:
            one = shard.transactions[transactional_id]
            if one.can_time_out and one.start_ms + one.timeout_ms < wall_ms:
                if len(decision.sends) == ABORTS_AT_ONCE:
                    delay_ms = min(delay_ms, ABORTS_PAUSE_MS)
                    break
                identity = one.identity
                decision.sends.append(
                    AbortTimedOut(transactional_id, identity.producer_id, identity.epoch)
                )
        decision.set_timer(TIMEOUT_TIMER, delay_ms)
        return decision

    def _expire(self, wall_ms: int) -> Decision:
        shard = self._shard
        decision = Decision(is_atomic=False)
        latest_ms = wall_ms - shard.config.expiration_ms
        decision.records += [
            TransactionRecord(one.transactional_id, None)
            for one in shard.transactions.values()
            if one.state in IDLE and one.last_update_ms <= latest_ms
        ]
        if decision.records:
            decision.notes.append(f"{len(decision.records)} transactional ids have expired")
        decision.set_timer(EXPIRY_TIMER, shard.config.expiration_check_ms)
        return decision

    def decide_abort(
        self, late: AbortTimedOut, fresh: int | None, token: Any, wall_ms: int
    ) -> Decision:
        """Abort what has lasted too long, and fence its producer.

        Answers with an `ErrorCode`, which is not NONE if something else has happened since, or with
        NEEDS_PRODUCER_ID.
        """
        decision = Decision()
        shard = self._shard
        present = shard.transactions.get(late.transactional_id)
        if (
            present is None
            or not shard.rules.may_time_out(present)
            or claim_of(present.identity, late.producer_id, late.epoch) is not Claim.CURRENT
            or present.start_ms + present.timeout_ms >= wall_ms
        ):
            decision.reply(token, ErrorCode.PRODUCER_FENCED)
        elif abort(shard, decision, present, fresh, wall_ms):
            decision.notes.append(
                f"transaction of {late.transactional_id!r} timed out after "
                f"{present.timeout_ms} ms and is aborted"
            )
            decision.reply(token, ErrorCode.NONE)
        else:
            decision.reply(token, NEEDS_PRODUCER_ID)
        return decision

    def decide_marked(
        self,
        sent: Transaction,
        written: frozenset[TopicPartition],
        fresh: int | None,
        wall_ms: int,
    ) -> Decision:
        """Partitions of the end that was `sent` have their marker, or are deleted."""
        return marked(self._shard, sent, written, fresh, wall_ms)
