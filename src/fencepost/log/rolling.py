"""When the active segment has no room, or no time, for one more batch."""

from __future__ import annotations

from typing import Final

from fencepost.log.config import LogConfig
from fencepost.log.offset_index import RELATIVE_MAX
from fencepost.log.segment import UNKNOWN, Segment

ANY_MS: Final = (1 << 63) - 1
NO_MS: Final = -(1 << 63)
"""Bounds of timestamps: none is newer than the one, and every one is than the other."""
COLLECTED_BYTES: Final = 4 * 1024 * 1024
COLLECTED_BATCHES: Final = 4096
"""What the active segment has room for if batches are collected for it: more than one turn of the
event loop brings (`CombinedAppends`)."""


class RollRule:
    """The rule as the configs of a topic make it, for one of its partitions."""

    __slots__ = (
        "_bytes_max",
        "_collected_behind_bytes",
        "_collected_behind_entries",
        "_index_entries_max",
        "_index_interval_bytes",
        "_ms_max",
        "_time_index_entries_max",
        "reserve_bytes",
    )

    def __init__(self, config: LogConfig, topic: str, partition: int) -> None:
        self._bytes_max = config.roll_bytes
        self._ms_max = config.roll_ms - _jitter_ms(config, topic, partition)
        self._index_interval_bytes = config.index_interval_bytes
        self._index_entries_max = config.max_index_entries
        self._time_index_entries_max = config.max_time_index_entries - 1
        self._collected_behind_bytes = config.roll_bytes - COLLECTED_BYTES
        entries_max = min(self._index_entries_max, self._time_index_entries_max)
        self._collected_behind_entries = entries_max - COLLECTED_BATCHES
        self.reserve_bytes = config.roll_bytes if config.preallocate else 0
        """Room to be reserved for a new segment."""

    def must_roll(
        self, segment: Segment, size_bytes: int, last_offset: int, timestamp_ms: int, wall_ms: int
    ) -> bool:
        """Whether a batch of that size, last offset and time must go to a new segment. OSError."""
        if last_offset - segment.base_offset > RELATIVE_MAX:
            return True
        segment_bytes = segment.size_bytes
        if not segment_bytes:
            return False
        if segment_bytes > self._bytes_max - size_bytes:
            return True
        if timestamp_ms > self.newest_ms(segment, wall_ms):
            return True
        # A full index matters only to a batch that would make an entry.
        return segment.bytes_since_index > self._index_interval_bytes and (
            len(segment.index) >= self._index_entries_max
            or len(segment.time_index) >= self._time_index_entries_max
        )

    def newest_ms(self, segment: Segment, wall_ms: int) -> int:
        """The newest timestamp for which a segment is not too old. OSError."""
        begun_ms = segment.first_timestamp_ms
        if begun_ms == UNKNOWN:
            begun_ms = segment.rolling_timestamp_ms()
        if begun_ms >= 0:
            return min(begun_ms + self._ms_max, ANY_MS)
        return ANY_MS if wall_ms - segment.created_ms <= self._ms_max else NO_MS

    def newest_collected_ms(self, segment: Segment, end_offset: int, wall_ms: int) -> int:
        """See `PartitionLog.newest_collected_ms`. OSError."""
        size_bytes = segment.size_bytes
        if (
            not size_bytes
            or size_bytes > self._collected_behind_bytes
            or len(segment.index) > self._collected_behind_entries
            or end_offset - segment.base_offset > RELATIVE_MAX - COLLECTED_BYTES  # some per record
        ):
            return NO_MS
        return self.newest_ms(segment, wall_ms)

    def has_room(
        self,
        segment: Segment,
        size_bytes: int,
        last_offset: int,
        timestamp_ms: int,
        wall_ms: int,
        batches: int,
    ) -> bool:
        """Whether so many batches with that size together, and at most that time, must not roll.

        An empty segment takes its age from its first batch, so of that it is never said. OSError.
        """
        return (
            segment.size_bytes > 0
            and not self.must_roll(segment, size_bytes, last_offset, timestamp_ms, wall_ms)
            and len(segment.index) + batches < self._index_entries_max
            and len(segment.time_index) + batches < self._time_index_entries_max
        )


def _jitter_ms(config: LogConfig, topic: str, partition: int) -> int:
    # Spread by name, not by dice: the same partition rolls at the same time after a restart.
    if not config.segment_jitter_ms:
        return 0
    spread = sum(topic.encode()) * 31 + partition * 7919
    return spread % min(config.segment_jitter_ms, config.roll_ms)
