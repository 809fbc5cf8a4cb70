"""I54: compaction keeps the last record of each key, at its offset, and adds nothing.

A tombstone may go when its delete horizon has passed, a record without a key at once, and what is
part of an aborted transaction is no record of its key.
"""

from __future__ import annotations

from fencepost.sim.checks import Check
from fencepost.sim.cleaned_batches import KeyedRecord, LogLook
from fencepost.sim.oracle import Oracle, Violation
from fencepost.sim.partition_oracle import PartitionBatch, PartitionKey


class Compaction(Check):
    """Compares the records of a log before and after."""

    kind = "I54"

    def replica_cleaned(
        self,
        oracle: Oracle,
        broker_id: int,
        key: PartitionKey,
        before: LogLook[PartitionBatch],
        after: LogLook[PartitionBatch],
    ) -> None:
        outcomes = oracle.transactions.outcomes.get(key, {})
        last: dict[bytes, KeyedRecord] = {}
        for record in before.records:
            if record.key is not None and outcomes.get(record.batch_offset, True) is not False:
                last[record.key] = record
        where = f"of partition {key[1]} on {broker_id}"
        there = {(one.offset, one.key, one.value) for one in before.records}
        for one in after.records:
            if (one.offset, one.key, one.value) not in there:
                raise Violation(self.kind, f"compaction has written {one} {where}")
        left = {one.offset for one in after.records}
        for one in last.values():
            if one.offset not in left and not one.may_go:
                raise Violation(self.kind, f"compaction has removed {one} {where}")


CHECK = Compaction
