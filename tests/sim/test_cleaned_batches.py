"""The oracle's view of compacted logs: as if nothing had been removed, on whatever disk."""

from __future__ import annotations

from fencepost.sim.cleaned_batches import CleanedBatches, KeyedRecord, LogLook
from fencepost.sim.partition_oracle import PartitionBatch

from .partition_histories import batch

LOG = [batch(0), batch(1), batch(2), batch(3)]
SHORT = [batch(1, crc=7), batch(3)]
"""Batch 0 is gone, 1 is emptied, 2 is gone."""


def look(batches: list[PartitionBatch], *full: int) -> LogLook[PartitionBatch]:
    return LogLook(batches, [KeyedRecord(at, at, b"k", b"v", may_go=False) for at in full])


def cleaned() -> CleanedBatches[PartitionBatch]:
    made: CleanedBatches[PartitionBatch] = CleanedBatches()
    made.note(look(LOG, 0, 1, 2, 3), look(SHORT, 3))
    return made


def test_what_is_left_stands_for_what_was_written() -> None:
    known = cleaned()
    assert [known.written(one) for one in SHORT] == [LOG[1], LOG[3]]
    assert known.log_as_written(0, SHORT) == LOG
    assert known.log_as_written(1, SHORT) == LOG[1:]
    assert known.log_as_written(2, SHORT[1:]) == LOG[2:]
    assert known.log_as_written(0, LOG) == LOG
    assert known.without_records == {0, 1, 2}
    assert len(known) == 3


def test_a_batch_that_is_gone_may_begin_where_records_were_deleted() -> None:
    """As one that is there does: the log begins in the midst of it."""
    wide = PartitionBatch(0, 5, 0, 1)
    known: CleanedBatches[PartitionBatch] = CleanedBatches()
    known.note(look([wide, batch(5)], 0, 5), look([batch(5)], 5))
    assert known.log_as_written(3, [batch(5)]) == [wide, batch(5)]
    assert known.log_as_written(5, [batch(5)]) == [batch(5)]


def test_what_no_cleaner_has_left_is_no_such_batch() -> None:
    known = cleaned()
    other = batch(1, crc=8)
    assert known.written(other) == other
    assert known.log_as_written(4, [batch(6)]) == [batch(6)], "a gap that no cleaner has made"


def test_a_copy_is_cleaned_again() -> None:
    known = cleaned()
    again = [batch(3, crc=9)]
    known.note(look(SHORT, 3), look(again))
    assert known.log_as_written(0, again) == LOG
    assert known.log_as_written(0, SHORT) == LOG, "another replica is not as far"
    assert known.without_records == {0, 1, 2, 3}
