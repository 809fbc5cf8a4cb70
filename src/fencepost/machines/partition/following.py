"""A replica as a follower: what it makes of its leader's answers.

A follower appends what continues its log, cuts its log where the leader says that the two part, and
takes over the leader's high watermark and log start. Answers of another leader epoch, and any while
the replica leads, change nothing.
"""

from __future__ import annotations

from fencepost.batch.header import MAGIC
from fencepost.batch.record_batch import RecordBatch
from fencepost.log.divergence import truncation_target
from fencepost.log.epochs import EpochEndOffset
from fencepost.machines.effects import Append, DropPrefix, Persist, Truncate, TruncatedBelow
from fencepost.machines.partition.inputs import Diverged, Fetched, FetchedOutOfRange
from fencepost.machines.partition.part import PartitionPart
from fencepost.machines.partition.queries import LogView


def beginning_for(log: LogView, answer: Fetched) -> int | None:
    """Where an empty log has to begin for the first batch of `answer`; None: where it does.

    A leader whose log begins in the middle of a batch (DeleteRecords) serves the batch as a whole,
    and a follower that has just started over at that offset would never append it.
    """
    if not answer.batches or not answer.fetch_offset == log.end_offset == log.start_offset:
        return None
    header = answer.batches[0].header
    begins_earlier = header.base_offset < log.end_offset < header.next_offset
    return header.base_offset if begins_earlier else None


def appendable(log: LogView, answer: Fetched) -> list[RecordBatch]:
    """The batches of `answer` that continue the log: all up to the first that does not fit.

    An answer to another fetch than our last one (late, doubled) has nothing for us. A batch of an
    epoch newer than that of the fetch belongs to a leader epoch whose start we have not agreed
    on yet (KAFKA-18723), and epochs never go down along a log. Messages of formats v0 and v1 have
    none, and stand in front of the first that has.
    """
    if answer.fetch_offset != log.end_offset:
        return []
    batches: list[RecordBatch] = []
    begins_at = beginning_for(log, answer)
    next_offset = log.end_offset if begins_at is None else begins_at
    epoch = log.epochs.latest_epoch()
    for batch in answer.batches:
        header = batch.header
        batch_epoch = header.partition_leader_epoch
        is_older = header.magic < MAGIC and epoch is None  # messages of before there were epochs
        if header.base_offset < next_offset or not (
            is_older or 0 <= batch_epoch <= answer.leader_epoch
        ):
            break
        if epoch is not None and batch_epoch < epoch:
            break
        batches.append(batch)
        next_offset, epoch = header.next_offset, None if is_older else batch_epoch
    return batches


class Following(PartitionPart):
    """The steps of a replica that does not lead."""

    __slots__ = ()

    def step_fetched(self, answer: Fetched, now_ms: int) -> None:
        """The leader has answered a fetch with records, or with none."""
        partition = self._partition
        if not self._counts(answer.leader_epoch):
            return
        log, outbox = partition.log, self._outbox
        batches = appendable(log, answer)
        start_offset, end_offset = log.start_offset, log.end_offset
        if batches:
            begins_at = beginning_for(log, answer)
            if begins_at is not None:
                partition.durable_offset = start_offset = begins_at
                outbox.emit(Persist(Truncate(begins_at, start_over=True)))
            outbox.emit(Persist(Append(batches, answer.leader_epoch, as_leader=False)))
            end_offset = batches[-1].header.next_offset
        elif answer.fetch_offset != end_offset:
            return
        known = min(answer.leader_high_watermark, end_offset)
        if known > partition.high_watermark:
            partition.raise_high_watermark(known)
        # In this order: nothing is deleted above the high watermark.
        log_start = min(answer.leader_log_start_offset, partition.high_watermark)
        if log_start > start_offset:
            outbox.emit(Persist(DropPrefix(log_start)))

    def step_diverged(self, answer: Diverged, now_ms: int) -> None:
        """The leader has said where its log and ours part."""
        if not self._counts(answer.leader_epoch):
            return
        log = self._partition.log
        told = EpochEndOffset(answer.epoch, answer.end_offset)
        target = truncation_target(log.epochs, told, log.end_offset, self._partition.high_watermark)
        self.truncate(max(target, log.start_offset), start_over=False)

    def step_out_of_range(self, answer: FetchedOutOfRange, now_ms: int) -> None:
        """The leader's log does not hold the offset that was fetched from."""
        if not self._counts(answer.leader_epoch):
            return
        log = self._partition.log
        if answer.leader_end_offset < log.end_offset:
            self.truncate(max(answer.leader_end_offset, log.start_offset), start_over=False)
        elif answer.leader_start_offset > log.end_offset:
            # All that we have was deleted by the leader's retention.
            self.truncate(answer.leader_start_offset, start_over=True)
            self._partition.high_watermark = answer.leader_start_offset

    def _counts(self, leader_epoch: int) -> bool:
        """Count an answer; whether it is one for this replica, in its leader epoch."""
        partition = self._partition
        partition.answers_taken += 1
        return partition.leader_state is None and leader_epoch == partition.leader_epoch

    def truncate(self, target: int, *, start_over: bool) -> None:
        """Cut the log at `target`, and forget the epochs that begin there; or start over there."""
        partition = self._partition
        latest = partition.log.epochs.latest()
        names_nothing = latest is not None and latest.start_offset >= target
        if not start_over and target >= partition.log.end_offset and not names_nothing:
            return
        self._end_at(target)
        if start_over:
            partition.durable_offset = target
        self._outbox.emit(Persist(Truncate(target, start_over=start_over)))

    def step_truncated_below(self, truncated: TruncatedBelow, now_ms: int) -> None:
        """The log was cut in the middle of a batch, and ends where that batch began.

        A leader's epoch can end there: its compacted log need not have our batches.
        """
        self._end_at(truncated.end_offset)

    def _end_at(self, end_offset: int) -> None:
        """What is cut off is neither durable nor below the high watermark."""
        partition = self._partition
        partition.high_watermark = min(partition.high_watermark, end_offset)
        partition.durable_offset = min(partition.durable_offset, end_offset)
