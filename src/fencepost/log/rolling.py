"""When the active segment has no room, or no time, for one more batch."""

from __future__ import annotations

from fencepost.log.config import LogConfig
from fencepost.log.offset_index import RELATIVE_MAX
from fencepost.log.segment import UNKNOWN, Segment


class RollRule:
    """The rule as the configs of a topic make it, for one of its partitions."""

    __slots__ = (
        "_bytes_max",
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
        begun_ms = segment.first_timestamp_ms
        if begun_ms == UNKNOWN:
            begun_ms = segment.rolling_timestamp_ms()
        age_ms = timestamp_ms - begun_ms if begun_ms >= 0 else wall_ms - segment.created_ms
        if age_ms > self._ms_max:
            return True
        # A full index matters only to a batch that would make an entry.
        return segment.bytes_since_index > self._index_interval_bytes and (
            len(segment.index) >= self._index_entries_max
            or len(segment.time_index) >= self._time_index_entries_max
        )

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
