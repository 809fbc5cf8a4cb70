"""Waiting for the markers of transactions: a coordinator answers before they are written.

EndTxn is answered when the end is decided and committed in `__transaction_state`; the markers that
let readers with read_committed see the records follow. A test that reads right after a commit has
to wait for them, on Apache Kafka as on ours.
"""

from __future__ import annotations

from collections.abc import Iterable

from fencepost.client.cluster import Cluster
from fencepost.client.metadata import TopicPartition
from fencepost.client.offsets import LATEST, list_offsets

from .waiting import eventually


def stable_ends(
    cluster: Cluster, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, int]:
    """Where these partitions end, as soon as no transaction is open in any of them."""
    wanted = dict.fromkeys(partitions, LATEST)

    def ends(isolation_level: str) -> dict[TopicPartition, int]:
        listed = list_offsets(cluster, wanted, isolation_level=isolation_level)
        return {partition: found.offset for partition, found in listed.items()}

    def all_ended() -> dict[TopicPartition, int] | None:
        stable = ends("read_committed")  # before the others: a transaction may end in between
        return stable if stable == ends("read_uncommitted") else None

    found = eventually(all_ended, f"no transaction is open in {[*wanted]}")
    assert found is not None, "that is what was waited for"
    return found
