"""I47: the start offset of a share partition passes no record whose delivery is not complete.

Complete is what a member has accepted or rejected, what was delivered as often as it may be, and
what the log does not have any more: so every record is delivered at least once. A group that reads
committed data is done with what is aborted, and with markers, without their being delivered. The
start offset that is stored never falls.
"""

from __future__ import annotations

from fencepost.machines.share.state_batch import SharePartitionKey
from fencepost.sim.checks import Check
from fencepost.sim.oracle import Oracle, Violation
from fencepost.sim.partition_oracle import PartitionBatch, PartitionKey
from fencepost.sim.share_oracle import Delivered, Returned


class ShareStart(Check):
    """Compares what share coordinators have stored with what members were given and have said."""

    kind = "I47"

    def __init__(self) -> None:
        self._starts: dict[SharePartitionKey, int] = {}
        self._complete: dict[SharePartitionKey, set[int]] = {}

    def share_delivered(self, oracle: Oracle, broker_id: int, delivered: Delivered) -> None:
        if delivered.delivery_count >= delivered.limit:
            self._settle(delivered.key, delivered.first, delivered.last)

    def share_returned(self, oracle: Oracle, returned: Returned) -> None:
        if returned.key is not None and returned.is_settled:
            self._settle(returned.key, returned.first, returned.last)

    def _settle(self, key: SharePartitionKey, first: int, last: int) -> None:
        self._complete.setdefault(key, set()).update(range(first, last + 1))

    def became_visible(self, oracle: Oracle, key: PartitionKey, batch: PartitionBatch) -> None:
        for share, start_offset in oracle.shares.starts_in(key, batch):
            before = self._starts.get(share, -1)
            if start_offset is None:
                continue
            if start_offset < before:
                self._refuse(share, f"goes back to {start_offset} from {before}")
            complete = self._complete.setdefault(share, set())
            partition = share.topic_id, share.partition
            views = oracle.partitions.views.values()
            starts = [view.start_offset for view in views if view.key == partition]
            deleted = max(starts, default=0)
            for offset in range(max(before, deleted, 0), start_offset):
                if offset not in complete and not _is_filtered(oracle, partition, offset):
                    self._refuse(share, f"passes {offset} on its way to {start_offset}")
            self._starts[share] = start_offset

    def _refuse(self, share: SharePartitionKey, wrong: str) -> None:
        what = f"the start of partition {share.partition} for {share.group_id} {wrong}"
        raise Violation(self.kind, what)


def _is_filtered(oracle: Oracle, key: PartitionKey, offset: int) -> bool:
    """Whether who reads committed data is not given what stands there."""
    if not oracle.shares.reads_committed:
        return False
    is_marker = offset in oracle.transactions.marker_offsets.get(key, ())
    return is_marker or oracle.transactions.outcome_at(key, offset) is False


CHECK = ShareStart
