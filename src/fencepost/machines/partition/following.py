"""What a follower appends of its leader's answers.

Nothing here changes anything; `Partition` does, through effects.
"""

from __future__ import annotations

from fencepost.batch.header import MAGIC
from fencepost.batch.record_batch import RecordBatch
from fencepost.machines.partition.inputs import Fetched
from fencepost.machines.partition.queries import LogView


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
