"""Metrics of the transactional ids that a node coordinates, and of what leaders ask for them."""

from __future__ import annotations

from collections import Counter
from typing import Final

from fencepost.broker.metrics.catalogue import MARKERS, TRANSACTION_COORDINATOR, VERIFICATION
from fencepost.broker.metrics.sheet import Sheet
from fencepost.broker.metrics.verifications import Verifications
from fencepost.broker.transactions.transaction_host import TransactionHost
from fencepost.runtime.cooperative import Pieces
from fencepost.runtime.coordinator.coordinator import CoordinatorState

_STATES: Final = {
    CoordinatorState.ACTIVE: "active",
    CoordinatorState.LOADING: "loading",
    CoordinatorState.FAILED: "failed",
}


def collect_transactions(
    sheet: Sheet, transactions: TransactionHost, verifications: Verifications
) -> Pieces[None]:
    """Put in what there is now."""
    partitions: Counter[CoordinatorState] = Counter()
    ids = retried = 0
    for coordinator in list(transactions.coordinators()):
        partitions[coordinator.state] += 1
        ids += len(coordinator.machine.transactions)
        retried += coordinator.retried_count
        yield None
    sheet.add(f"{MARKERS}unknowndestinationqueuesize", transactions.markers.without_leader)
    sheet.add(f"{MARKERS}logappendretryqueuesize", retried)
    sheet.add(f"{VERIFICATION}verificationfailurerate_count_total", verifications.failures)
    sheet.add_summary(f"{VERIFICATION}verificationtimems", verifications.times_ms)
    longest_ms, average_ms = transactions.runtime.load_times.recent()
    sheet.add(f"{TRANSACTION_COORDINATOR}partition_load_time_max", longest_ms)
    sheet.add(f"{TRANSACTION_COORDINATOR}partition_load_time_avg", average_ms)
    sheet.add("fencepost_transactional_ids", ids)
    for state, name in _STATES.items():
        sheet.add("fencepost_transaction_partitions", partitions[state], state=name)
    sheet.add("fencepost_transactions_waiting_for_markers", transactions.markers.waiting)
    sheet.add("fencepost_transactions_with_refused_markers", transactions.markers.refused)
    sheet.add("fencepost_transaction_memory_bytes", transactions.memory.used_bytes)
