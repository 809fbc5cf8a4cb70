"""A replica as a follower: what it makes of its leader's answers.

It appends what continues its log, cuts its log where the leader says that the two part, and takes
over the leader's high watermark and log start. Answers of another leader epoch, and any while it
leads, change nothing.
"""

from __future__ import annotations

from fencepost.batch.header import MAGIC
from fencepost.batch.record_batch import RecordBatch
from fencepost.log.divergence import truncation_target
from fencepost.log.epochs import EpochEndOffset
from fencepost.machines.effects import Append, DropPrefix, Effect, Persist, Truncate
from fencepost.machines.partition.inputs import Diverged, Fetched, FetchedOutOfRange
from fencepost.machines.partition.queries import LogView, PartitionQueries
from fencepost.machines.partition.rules import PartitionRules


def beginning_for(log: LogView, answer: Fetched) -> int | None:
    """Where an empty log has to begin for the first batch of `answer`; None: where it does.

    A leader whose log begins in the middle of a batch (DeleteRecords) serves the batch as a whole,
    and a follower that has just started over at that offset would wait for another for ever.
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


class FollowingPartition(PartitionQueries):
    """What a partition knows of its own log, and its steps as a follower."""

    def __init__(
        self,
        local_id: int,
        log: LogView,
        *,
        high_watermark: int,
        durable_offset: int,
        rules: PartitionRules,
    ) -> None:
        super().__init__(local_id, log, high_watermark, rules)
        self.durable_offset = min(durable_offset, log.end_offset)
        """What lies below is on stable storage."""
        self.answers_taken = 0
        """How many answers of leaders it was given, whatever came of them."""

    def fetch_position(self) -> tuple[int, int]:
        """What a follower asks its leader for next: (offset, last fetched epoch or -1).

        To be asked when everything is durable up to there. The epoch is the latest we know, also
        if we led it and wrote nothing: the leader then tells us to forget it, and only so can
        records of earlier epochs follow.
        """
        latest = self._log.epochs.latest_epoch()
        return self._log.end_offset, -1 if latest is None else latest

    def _step_fetched(self, answer: Fetched, now_ms: int) -> list[Effect]:
        self.answers_taken += 1
        if self._leader_state is not None or answer.leader_epoch != self.leader_epoch:
            return []
        batches = appendable(self._log, answer)
        start_offset, end_offset = self._log.start_offset, self._log.end_offset
        effects: list[Effect] = []
        if batches:
            begins_at = beginning_for(self._log, answer)
            if begins_at is not None:
                self.durable_offset = start_offset = begins_at
                effects.append(Persist(Truncate(begins_at, start_over=True)))
            effects.append(Persist(Append(batches, answer.leader_epoch, as_leader=False)))
            end_offset = batches[-1].header.next_offset
        elif answer.fetch_offset != end_offset:
            return []
        known = min(answer.leader_high_watermark, end_offset)
        if known > self.high_watermark:
            self._raise_high_watermark(known)
        # In this order: nothing is deleted above the high watermark.
        log_start = min(answer.leader_log_start_offset, self.high_watermark)
        if log_start > start_offset:
            effects.append(Persist(DropPrefix(log_start)))
        return effects

    def _step_diverged(self, answer: Diverged, now_ms: int) -> list[Effect]:
        self.answers_taken += 1
        if self._leader_state is not None or answer.leader_epoch != self.leader_epoch:
            return []
        log = self._log
        told = EpochEndOffset(answer.epoch, answer.end_offset)
        target = truncation_target(log.epochs, told, log.end_offset, self.high_watermark)
        return self._truncate(max(target, log.start_offset), start_over=False)

    def _step_out_of_range(self, answer: FetchedOutOfRange, now_ms: int) -> list[Effect]:
        self.answers_taken += 1
        if self._leader_state is not None or answer.leader_epoch != self.leader_epoch:
            return []
        end_offset = self._log.end_offset
        if answer.leader_end_offset < end_offset:
            return self._truncate(
                max(answer.leader_end_offset, self._log.start_offset), start_over=False
            )
        if answer.leader_start_offset > end_offset:
            # All that we have was deleted by the leader's retention.
            effects = self._truncate(answer.leader_start_offset, start_over=True)
            self.high_watermark = answer.leader_start_offset
            return effects
        return []

    def _truncate(self, target: int, *, start_over: bool) -> list[Effect]:
        latest = self._log.epochs.latest()
        names_nothing = latest is not None and latest.start_offset >= target
        if not start_over and target >= self._log.end_offset and not names_nothing:
            return []
        self.high_watermark = min(self.high_watermark, target)
        self.durable_offset = target if start_over else min(self.durable_offset, target)
        return [Persist(Truncate(target, start_over=start_over))]

    def _raise_high_watermark(self, offset: int) -> None:
        self.high_watermark = offset
        self._log.producers.forget_decided(offset)
