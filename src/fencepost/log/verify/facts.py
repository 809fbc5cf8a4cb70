"""What a log directory says about its partitions, and whether that can be held against them.

After a clean shutdown everything is in its file. After any other end, and while a broker is at
work, what lies above a partition's recovery point may be torn or not written yet; the next start
reads the log there and makes indexes, snapshots and epochs again. So those are checked only as far
as they are settled.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from msgspec import Struct

from fencepost.log.checkpoints import TopicPartition


class PartitionFacts(Struct, frozen=True):
    """What is known of a partition from outside of its directory."""

    is_clean: bool = True
    """False if the log was not closed cleanly; True also where that is unknown."""
    is_recorded: bool = False
    """Whether it stands in a log directory, whose checkpoints are about it."""
    recovery_point: int | None = None
    start_offset: int | None = None
    high_watermark: int | None = None
    cleaned_offset: int | None = None
    """Below it a compaction has been at work."""

    def is_settled(self, offset: int) -> bool:
        """Whether what lies below `offset` is to be as it was left."""
        return self.is_clean or offset <= (self.recovery_point or 0)


@dataclass
class DirectoryFacts:
    """What the files of one log directory say."""

    is_clean: bool = True
    recovery_points: dict[TopicPartition, int] = field(default_factory=dict)
    start_offsets: dict[TopicPartition, int] = field(default_factory=dict)
    high_watermarks: dict[TopicPartition, int] = field(default_factory=dict)
    cleaned_offsets: dict[TopicPartition, int] = field(default_factory=dict)

    def of(self, key: TopicPartition) -> PartitionFacts:
        """What they say of one partition."""
        return PartitionFacts(
            self.is_clean,
            True,
            self.recovery_points.get(key),
            self.start_offsets.get(key),
            self.high_watermarks.get(key),
            self.cleaned_offsets.get(key),
        )
