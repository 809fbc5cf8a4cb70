"""What log compaction has made of the batches of one partition, so that the oracle can go on
speaking of batches as they were written.

Replicas are cleaned each for itself, and a follower may copy what its leader's cleaner has left. So
one batch may be on one disk as it was written, on another with fewer records, and on a third not at
all; to the checks it is the same log.
"""

from __future__ import annotations

from typing import Generic, NamedTuple

from fencepost.sim.log_contents import B


class KeyedRecord(NamedTuple):
    """A record of a log that is cleaned. `may_go`: a tombstone whose delete horizon has passed."""

    offset: int
    batch_offset: int
    key: bytes | None
    value: bytes | None
    may_go: bool


class LogLook(NamedTuple, Generic[B]):
    """What is in a log on a disk: its batches, and the records in them that users wrote."""

    batches: list[B]
    records: list[KeyedRecord]

    @property
    def without_records(self) -> set[int]:
        """Base offsets of batches that are there and have no record."""
        full = {record.batch_offset for record in self.records}
        return {batch.base_offset for batch in self.batches} - full


class CleanedBatches(Generic[B]):
    """See the module docstring; all of it is of one partition."""

    def __init__(self) -> None:
        self._written: dict[int, B] = {}
        self._left: set[B] = set()
        self.without_records: set[int] = set()
        """Base offsets of batches of which somewhere no record is left."""

    def __len__(self) -> int:
        return len(self._written)

    def note(self, before: LogLook[B], after: LogLook[B]) -> None:
        """A cleaning of a replica that held `before` has left `after`."""
        left = set(after.batches)
        for batch in before.batches:
            if batch not in left:
                self._written.setdefault(batch.base_offset, self.written(batch))
        self._left.update(left.difference(before.batches))
        remain = {batch.base_offset for batch in after.batches}
        gone = {batch.base_offset for batch in before.batches} - remain
        self.without_records |= gone | after.without_records

    def written(self, batch: B) -> B:
        """The batch as it was written, if it is what a cleaner has left of one."""
        return self._written[batch.base_offset] if batch in self._left else batch

    def log_as_written(self, from_offset: int, batches: list[B]) -> list[B]:
        """A stretch of a log that begins at `from_offset`, with all that cleaners have removed."""
        found: list[B] = []
        for batch in batches:
            base = found[-1].next_offset if found else from_offset
            if base < batch.base_offset:
                removed = (self._written[at] for at in sorted(self._written))
                found += [  # the first may begin below, if records before were deleted
                    one
                    for one in removed
                    if one.next_offset > base and one.base_offset < batch.base_offset
                ]
            found.append(self.written(batch))
        return found
