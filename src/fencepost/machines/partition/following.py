"""What a follower does with its leader's answers: where to cut, what to append.

Nothing here changes anything; `Partition` does, through effects.
"""

from __future__ import annotations

from fencepost.batch.header import MAGIC
from fencepost.log.epochs import UNDEFINED_EPOCH
from fencepost.machines.effects import Buffer
from fencepost.machines.partition.inputs import Fetched
from fencepost.machines.partition.queries import LogView


def truncation_target(log: LogView, epoch: int, end_offset: int, high_watermark: int) -> int:
    """Where to cut a log whose leader says that `epoch` ends at `end_offset` in its own.

    | the leader's answer                     | cut at                                         |
    |-----------------------------------------|------------------------------------------------|
    | no end offset                           | the high watermark: below it logs agree        |
    | no epoch                                | the leader's end                               |
    | an epoch we have                        | the smaller of both ends of it                 |
    | an epoch we lack, with an older one     | the end of that one; the next fetch asks again |
    | an epoch older than all of ours         | where our first begins, or the leader's end    |
    | an epoch, and we know of none           | the leader's end                               |

    Never beyond our own end. Asking again is what finds the common prefix after several elections
    in a row (KIP-279).
    """
    log_end = log.end_offset
    if end_offset < 0:
        return min(high_watermark, log_end)
    if epoch == UNDEFINED_EPOCH:
        return min(end_offset, log_end)
    local_epoch, local_end = log.epochs.end_offset_for(epoch, log_end)
    if local_epoch == UNDEFINED_EPOCH:
        return min(end_offset, log_end)
    if local_epoch == epoch:
        return min(local_end, end_offset, log_end)
    return min(local_end, log_end)


def appendable(log: LogView, answer: Fetched) -> list[Buffer]:
    """The batches of `answer` that continue the log: all up to the first that does not fit.

    An answer to another fetch than our last one (late, doubled) has nothing for us. A batch of an
    epoch newer than that of the fetch belongs to a reign whose start we have not agreed on yet
    (KAFKA-18723), and epochs never go down along a log. Messages of formats v0 and v1 have none,
    and stand in front of the first that has.
    """
    if answer.fetch_offset != log.end_offset:
        return []
    batches: list[Buffer] = []
    next_offset = log.end_offset
    epoch = log.epochs.latest_epoch()
    for header, buffer in answer.batches:
        batch_epoch = header.partition_leader_epoch
        is_older = header.magic < MAGIC and epoch is None  # messages of before there were epochs
        if header.base_offset < next_offset or not (
            is_older or 0 <= batch_epoch <= answer.leader_epoch
        ):
            break
        if epoch is not None and batch_epoch < epoch:
            break
        batches.append(buffer)
        next_offset, epoch = header.next_offset, None if is_older else batch_epoch
    return batches
