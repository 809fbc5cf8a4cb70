"""Records taken back as an unclean election takes them back: by a real one.

What clients of Kafka meet when a replica without the last records becomes leader: the log ends
earlier than what they have read, and goes on with other records under a higher leader epoch. This
is how `truncate` makes that happen, with nothing but what brokers do anyway:

1. The brokers of all replicas stop in order, the one that is to lead last: the controller makes it
   the only in-sync replica, and then leaves the partition without a leader.
2. Its log is cut, as after a power cut that took unsynced records: the checkpoints are lowered and
   the records are gone, with the leader epochs and producer states that they carried.
3. It starts, registers, and is elected under a new leader epoch.
4. The others start. They find that their logs diverge from the leader's, and cut them.

A batch is never split, so the log may end a little earlier than asked for.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from fencepost.log.checkpoints import TopicPartition
from fencepost.log.config import LogConfig
from fencepost.log.disk import OsDisk
from fencepost.log.log_dir import LogDir

SEGMENT_FILES: Final = 16


@dataclass(frozen=True, slots=True)
class Truncation:
    """What `truncate` has done."""

    topic: str
    partition: int
    offset: int
    """Where the log ends now: as asked for, or before the batch that has this offset in it."""
    leader: int
    """The id of the broker that leads."""
    leader_epoch: int
    """Its leader epoch, under which it has written nothing yet."""
    previous_leader_epoch: int
    """The leader epoch before."""

    def to_json(self) -> dict[str, Any]:
        """As the control port tells it."""
        return {name: getattr(self, name) for name in self.__slots__}


def cut_log(data_dir: Path, topic: str, partition: int, offset: int) -> int:
    """Cut a partition's log in the data directory of a broker that does not run; where it ends.

    ValueError for an offset that is not within the log; LogError, OSError; FileNotFoundError if the
    partition is not there.
    """
    log_dir = LogDir.open(OsDisk(), str(data_dir), files_max=SEGMENT_FILES)
    key = topic, partition
    high_watermarks: dict[TopicPartition, int] = {}
    is_sound = True
    try:
        if key not in log_dir.partitions_on_disk():
            raise FileNotFoundError(f"{data_dir} has no {topic}-{partition}")
        is_sound = False
        wall_ms = int(time.time() * 1000)
        found = log_dir.create(topic, partition, None, LogConfig.from_props({}), wall_ms=wall_ms)
        if found.start_offset <= offset <= found.end_offset:
            found.truncate_to(offset)
        else:
            offset = -1
        high_watermarks[key] = min(log_dir.high_watermark(*key), found.end_offset)
        is_sound = True
    finally:
        # With the marker of a clean shutdown, if it was there: to the controller, the broker is one
        # that has stopped in order.
        log_dir.close(
            clean=is_sound,
            broker_epoch=log_dir.previous_broker_epoch,
            high_watermarks=high_watermarks,
        )
    if offset < 0:
        raise ValueError(f"the log goes from {found.start_offset} to {found.end_offset}")
    return found.end_offset
