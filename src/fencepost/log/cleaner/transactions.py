"""Which batches belong to aborted transactions, and which end markers no reader needs any more.

Theory of operation
-------------------
A tracker is shown all batches in order. It knows the aborted transactions from the transaction
indexes; everything transactional outside of them is committed, because nothing undecided is
cleaned. Data of aborted transactions may go at once: no reader of committed data ever sees it, and
readers of uncommitted data were promised nothing.

A marker must outlive its transaction's data: without it the data would become part of the
producer's next transaction (KAFKA-14055's damage). So a marker may go if no batch of its
transaction was met, emptied ones included; that it then stays until a delete horizon has passed is
the filter's business. Entries of the transaction index stay with markers that are needed.
"""

from __future__ import annotations

from collections.abc import Iterable

from fencepost.batch.header import BatchHeader
from fencepost.wire.records.control import ControlType
from fencepost.wire.records.txn_index import AbortedTxn


class _Aborted:
    """An aborted transaction whose marker has not been met yet."""

    __slots__ = ("entry", "has_data")

    def __init__(self, entry: AbortedTxn) -> None:
        self.entry = entry
        self.has_data = False


class TransactionTracker:
    """See the module docstring.

    `aborted` are the transactions with a marker from the first batch on that will be shown.
    """

    def __init__(self, aborted: Iterable[AbortedTxn]) -> None:
        self._coming = sorted(aborted, key=lambda entry: -entry.first_offset)
        self._aborted: dict[int, _Aborted] = {}
        self._committed: set[int] = set()
        self._needed: list[AbortedTxn] = []

    def on_data(self, header: BatchHeader) -> bool:
        """A data batch is met; whether it is part of an aborted transaction."""
        self._begin_up_to(header.last_offset)
        if not header.is_transactional:
            return False
        aborted = self._aborted.get(header.producer_id)
        if aborted is None:
            self._committed.add(header.producer_id)
            return False
        aborted.has_data = True
        return True

    def on_marker(self, header: BatchHeader, control_type: int | None) -> bool:
        """A control batch is met (None: an emptied one); whether no reader needs it any more."""
        self._begin_up_to(header.last_offset)
        if control_type is None:
            return True
        if control_type == ControlType.ABORT:
            aborted = self._aborted.pop(header.producer_id, None)
            if aborted is None or not aborted.has_data:
                return True
            self._needed.append(aborted.entry)
            return False
        if control_type == ControlType.COMMIT:
            is_needed = header.producer_id in self._committed
            self._committed.discard(header.producer_id)
            return not is_needed
        return False

    def take_needed(self) -> list[AbortedTxn]:
        """The index entries of markers met since the last call that are still needed."""
        needed, self._needed = self._needed, []
        return needed

    def _begin_up_to(self, offset: int) -> None:
        coming = self._coming
        while coming and coming[-1].first_offset <= offset:
            entry = coming.pop()
            self._aborted.setdefault(entry.producer_id, _Aborted(entry))
