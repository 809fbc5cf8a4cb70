"""Where two logs diverge, by their leader epochs: the leader's half and the follower's half.

Partitions and the metadata quorum ask the same two questions of their epoch caches (`epochs`), and
both are answered here and nowhere else. All offsets are ends: the first offset after a stretch.

The leader is asked (Fetch with LastFetchedEpoch, KIP-595; OffsetForLeaderEpoch, KIP-101, KIP-320)
about a log that ends at `fetch_offset`, its last record of epoch `last_fetched_epoch`:

|   | `last_fetched_epoch` in the leader's log  | its end      | `find_divergence` says         |
|---|-------------------------------------------|--------------|--------------------------------|
| a | known                                     | >= fetch     | None: the logs agree           |
| b | known                                     | < fetch      | that epoch, its end            |
| c | not known, an older one is                | anywhere     | the largest older one, its end |
| d | older than all; its end is taken to be    | >= fetch     | None: nothing is left of it    |
|   | where the log begins                      |              | that could contradict          |
| e | the same                                  | < fetch      | that epoch, the first's start  |
| f | the same, and the log begins with a       |              | as a to c, by the snapshot's   |
|   | snapshot                                  |              | epoch and end                  |
| g | newer than all, or no epoch is known      |              | as a to c, by the log's end    |
|   |                                           |              | and `log_end.epoch`            |

"Fetch" there is `fetch_offset`. Of g Kafka's partitions answer OFFSET_OUT_OF_RANGE (their caller
names no epoch and hears of -1), Kafka's quorum its log's end.

The follower gets (epoch, end offset) and cuts its log at `truncation_target`:

|   | the leader's answer                     | cut at                                         |
|---|-----------------------------------------|------------------------------------------------|
| A | no end offset                           | the high watermark: below it logs agree        |
| B | no epoch                                | the leader's end                               |
| C | an epoch we have                        | the smaller of both ends of it                 |
| D | an epoch we lack, with an older one     | the end of that one; the next fetch asks again |
| E | an epoch older than all of ours         | where our first begins, or the leader's end    |
| F | an epoch newer than all, or we know of  | the leader's end                               |
|   | none                                    |                                                |

Never beyond the follower's own end. Asking again (D) is what finds the common prefix after several
elections in a row (KIP-279).
"""

from __future__ import annotations

from typing import Protocol

from fencepost.log.epochs import UNDEFINED_EPOCH, EpochEndOffset


class EpochEnds(Protocol):
    """An epoch cache, as far as it is asked here."""

    def end_offset_for(self, epoch: int, log_end_offset: int) -> EpochEndOffset:
        """The largest epoch not above `epoch` and where it ends; (-1, -1) if that is unknown."""
        ...


def find_divergence(
    epochs: EpochEnds,
    last_fetched_epoch: int,
    fetch_offset: int,
    log_end: EpochEndOffset,
    snapshot: EpochEndOffset | None = None,
) -> EpochEndOffset | None:
    """Where the asker's log leaves the leader's, or None if it does not: rows a to g.

    `log_end` is the leader's log end with the epoch of the record in front of it, -1 if the asker
    is to hear of that when its own epoch is not known. `snapshot` is what the log begins with.
    """
    end = epochs.end_offset_for(last_fetched_epoch, log_end.end_offset)
    if end.epoch == UNDEFINED_EPOCH:
        end = log_end
    elif snapshot is not None and end == (last_fetched_epoch, snapshot.end_offset):
        end = snapshot
    if end.epoch != last_fetched_epoch or end.end_offset < fetch_offset:
        return end
    return None


def truncation_target(
    epochs: EpochEnds, answer: EpochEndOffset, log_end_offset: int, high_watermark: int
) -> int:
    """Where to cut a log whose leader has answered that an epoch ends there: rows A to F."""
    if answer.end_offset < 0:
        return min(high_watermark, log_end_offset)
    own = epochs.end_offset_for(answer.epoch, log_end_offset)
    if own.epoch == UNDEFINED_EPOCH:  # also where the leader names no epoch
        return min(answer.end_offset, log_end_offset)
    if own.epoch == answer.epoch:
        return min(own.end_offset, answer.end_offset, log_end_offset)
    return min(own.end_offset, log_end_offset)
