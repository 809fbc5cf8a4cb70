"""How much memory the transactional ids of a node take, and how much they may.

Counted is what clients decide the size of: the id, and each partition of a transaction, with an
allowance for the objects around them. A request that would need more is refused with
COORDINATOR_NOT_AVAILABLE, which clients retry; what is loaded from the log is always taken. The
last tenth is for ids that are there: a client that makes up ids stops no producer that is at work.
"""

from __future__ import annotations

from sys import getsizeof
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from fencepost.machines.transaction.model import Transaction

DEFAULT_BYTES_MAX: Final = 512 * 1024 * 1024
TRANSACTION_BYTES: Final = 1024
"""Allowance for the objects of one transactional id, and its entry of the marker queue."""
NEW_IDS_SHARE: Final = 0.9
"""Of the memory, that new ids may use up."""
PARTITION_BYTES: Final = 400
"""Allowance for one partition: a tuple, its number, its place in a set, and its topic's entry of
the record's form (`partition_set`), as if every partition were of a topic of its own."""


class TransactionMemory:
    """The sum over all transactional ids of a node, which its coordinators share."""

    def __init__(self, max_bytes: int = DEFAULT_BYTES_MAX) -> None:
        self.max_bytes = max_bytes
        self.used_bytes = 0

    def admits(self, before: Transaction | None, after: Transaction) -> bool:
        """Whether a transactional id may become that."""
        more_bytes = bytes_of(after) - bytes_of(before)
        most_bytes = self.max_bytes if before is not None else NEW_IDS_SHARE * self.max_bytes
        return more_bytes <= 0 or self.used_bytes + more_bytes <= most_bytes


def bytes_of(transaction: Transaction | None) -> int:
    """What a transactional id takes."""
    if transaction is None:
        return 0
    size = TRANSACTION_BYTES + getsizeof(transaction.transactional_id)
    return size + PARTITION_BYTES * len(transaction.partitions)
