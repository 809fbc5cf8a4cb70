"""The transactional ids of one partition of `__transaction_state`, and how they are reverted."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from fencepost.machines.coordinator import Decision as CoordinatorDecision, TimerName, UndoLog
from fencepost.machines.transaction.config import TransactionConfig
from fencepost.machines.transaction.memory import TransactionMemory, bytes_of
from fencepost.machines.transaction.model import Transaction
from fencepost.machines.transaction.records import FLEXIBLE_FROM, TransactionRecord
from fencepost.machines.transaction.rules import RULES, TransactionRules
from fencepost.machines.transaction.waiting import WaitingAdds

Decision = CoordinatorDecision[TransactionRecord]
"""A decision about transactions. Its changes are `Transaction`s, whose partitions have become fewer
as their markers were written, and those of `waiting`; its sends are those of `sends`."""

TIMEOUT_TIMER: Final[TimerName] = ("timeouts",)
EXPIRY_TIMER: Final[TimerName] = ("expiry",)

LATEST_VERSION: Final = 2


class Shard:
    """The transactional ids of one partition."""

    def __init__(
        self,
        config: TransactionConfig,
        memory: TransactionMemory,
        level: Callable[[], int] = lambda: LATEST_VERSION,
        rules: TransactionRules = RULES,
    ) -> None:
        """`memory` is what all of the node take together; `level` is the level of
        `transaction.version` that the cluster has finalized."""
        self.config = config
        self.memory = memory
        self.level = level
        self.rules = rules
        self.undo_log = UndoLog()
        self.transactions: dict[str, Transaction] = {}
        self.ongoing: dict[str, None] = {}
        """The ids whose transactions may time out."""
        self.waiting = WaitingAdds(self.undo_log)

    def record(self, transaction: Transaction) -> TransactionRecord:
        """What is written of it."""
        version = 0 if self.level() < FLEXIBLE_FROM else 1
        return TransactionRecord(transaction.transactional_id, transaction, version)

    def write_again(self, decision: Decision, transaction: Transaction) -> None:
        """Write what was done before, when it is asked for once more.

        Before version 2 nothing tells a repetition from a request of the next transaction, and
        another coordinator may have begun that; a coordinator that was replaced unawares gets no
        write committed.
        """
        decision.records.append(self.record(transaction))

    def put(self, transactional_id: str, transaction: Transaction | None) -> None:
        """The id is this from now on; None is nothing any more."""
        before = self.transactions.get(transactional_id)
        self.undo_log.note(partial(self._set, transactional_id, before))
        self._set(transactional_id, transaction)

    def discard(self) -> None:
        """The ids are not here any more: they take no memory."""
        for transaction in self.transactions.values():
            self.memory.used_bytes -= bytes_of(transaction)
        self.transactions.clear()
        self.ongoing.clear()
        self.waiting.clear()

    def _set(self, transactional_id: str, transaction: Transaction | None) -> None:
        before = self.transactions.get(transactional_id)
        self.memory.used_bytes += bytes_of(transaction) - bytes_of(before)
        if transaction is None:
            self.transactions.pop(transactional_id, None)
        else:
            self.transactions[transactional_id] = transaction
        if transaction is not None and self.rules.may_time_out(transaction):
            self.ongoing[transactional_id] = None
        else:
            self.ongoing.pop(transactional_id, None)
