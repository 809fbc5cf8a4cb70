"""Does the log still hold what a query counted on? The decision, as a table, without I/O.

A query stopped at `stored`: an offset, the leader epoch in which the partition was seen to reach
it, and the topic's id. What the cluster says now is a `PartitionState`. Cases, first match wins:

| | case | what is lost | the query may go on at |
|---|---|---|---|
| A | the topic or partition is gone | everything from the offset on | nowhere |
| B | the topic has another id | everything, from the offset on never read | new beginning |
| C | the leader does not know the stored epoch | unknown: the log has another history | offset, |
|   |                                           |                                      | clipped |
| D | the stored epoch now ends before the offset | from that end to the offset: other records | |
|   | are there now, or none                    |                                      | that end |
| E | no epoch to ask for, log ends before the offset | from the log's end to the offset | log end |
| F | the log begins after the offset | from the offset to the beginning | beginning |
| G | none of these | nothing | the offset |

D is what Spark's own connector cannot see: after an unclean election the log may have grown beyond
the offset again, with other records. Kafka's rule that every leader notes (epoch, its end offset)
before it takes a write makes the question exact (KIP-101, KIP-279, KIP-320): a leader that lacked
records below the offset has a higher epoch, which starts below the offset.

With an epoch known, an end below the offset (E) is not loss: a new leader's high watermark lags
for a moment behind what it has.
"""

from __future__ import annotations

from dataclasses import dataclass

from fencepost.arrow.offsets import Position
from fencepost.client.metadata import TopicPartition
from fencepost.client.offsets import EpochEnd

UNKNOWN_END = -1


@dataclass(frozen=True, slots=True)
class PartitionState:
    """A partition as the cluster describes it now; `topic_id` is empty where ids do not exist,
    `epoch_end` None where the stored epoch could not be asked for."""

    topic_id: str
    earliest: int
    latest: int
    leader_epoch: int
    epoch_end: EpochEnd | None = None


@dataclass(frozen=True, slots=True)
class Loss:
    """Records of one partition that a query missed, or read and would not find again.

    The offsets lost are `start` up to `end`, which is UNKNOWN_END where it cannot be known. Of a
    topic that was recreated `topic_ids` has the ids of then and now.
    """

    kind: str
    partition: TopicPartition
    start: int
    end: int
    detail: str
    topic_ids: tuple[str, str] = ("", "")
    is_new_partition: bool = False

    def __str__(self) -> str:
        end = "the end" if self.end == UNKNOWN_END else str(self.end)
        return f"{self.partition}: {self.kind}, offsets {self.start} to {end}: {self.detail}"


def judge(
    partition: TopicPartition,
    stored: Position,
    stored_id: str,
    now: PartitionState | None,
) -> tuple[Loss | None, int | None]:
    """The loss, if any, and the offset to go on from (None: nowhere); see the module's table."""
    offset, epoch = stored
    if now is None:
        detail = "the topic or partition does not exist any more"
        return Loss("deleted", partition, offset, UNKNOWN_END, detail), None
    if stored_id and now.topic_id and stored_id != now.topic_id:
        loss = recreated(partition, offset, UNKNOWN_END, stored_id, now.topic_id, now.earliest)
        return loss, now.earliest
    if epoch >= 0 and now.epoch_end is not None:
        if now.epoch_end.end_offset < 0:
            detail = (
                f"leader epoch {epoch}, in which offset {offset} was reached, is unknown to the "
                f"leader of epoch {now.leader_epoch}"
            )
            onward = min(max(offset, now.earliest), max(now.latest, now.earliest))
            start, end = sorted((now.earliest, offset))
            return Loss("history replaced", partition, start, end, detail), onward
        if now.epoch_end.end_offset < offset:
            return _truncated(partition, stored, now, now.epoch_end)
    elif now.latest < offset:
        detail = f"the log ends at {now.latest}, before offset {offset}, which was reached before"
        return Loss("truncated", partition, now.latest, offset, detail), now.latest
    if now.earliest > offset:
        detail = f"the log begins at offset {now.earliest}; records were deleted before being read"
        return Loss("aged out", partition, offset, now.earliest, detail), now.earliest
    return None, offset


def recreated(
    partition: TopicPartition, start: int, end: int, then_id: str, now_id: str, earliest: int
) -> Loss:
    """The loss of all that is left of a topic, of whose name there is another one now."""
    detail = (
        f"the topic was deleted and created again: its id was {then_id} and is now {now_id}; "
        f"the new topic begins at offset {earliest}"
    )
    return Loss("recreated", partition, start, end, detail, (then_id, now_id))


def _truncated(
    partition: TopicPartition, stored: Position, now: PartitionState, end: EpochEnd
) -> tuple[Loss, int]:
    """Case D."""
    rewritten = now.latest > end.end_offset
    detail = (
        f"offset {stored.offset} was reached in leader epoch {stored.leader_epoch}, but the leader "
        f"of epoch {now.leader_epoch} says that epoch {end.leader_epoch} ends at "
        f"{end.end_offset}: a leader was elected that lacked these records"
    )
    if rewritten:
        detail += f", and other records stand there now (the log reaches {now.latest})"
    kind = "rewritten" if rewritten else "truncated"
    onward = max(end.end_offset, now.earliest)
    return Loss(kind, partition, end.end_offset, stored.offset, detail), onward


def never_seen(partition: TopicPartition) -> Loss:
    """A partition that was deleted again before it could be asked where it begins."""
    detail = "the partition was new to the query and is deleted already"
    return Loss("never seen", partition, 0, UNKNOWN_END, detail, is_new_partition=True)


def unseen_beginning(partition: TopicPartition, earliest: int) -> Loss | None:
    """A partition that appeared while the query ran should begin at offset 0; what was deleted
    before its first look was never read."""
    if earliest == 0:
        return None
    detail = "the partition is new to the query and its beginning was deleted already"
    return Loss("aged out", partition, 0, earliest, detail, is_new_partition=True)
