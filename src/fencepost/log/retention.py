"""Which segments are old enough to be deleted: decisions without a disk.

Segments go from the oldest up and as a whole. Each of three rules may let some go, and the most
generous counts: the log's start has been moved beyond them (DeleteRecords, a follower of its
leader), all their records are older than `retention.ms`, or the log would still have
`retention.bytes` without them. The last two hold only for `cleanup.policy=delete`, and never reach
beyond the high watermark: what not all in-sync replicas have is not old.
"""

from __future__ import annotations

from collections.abc import Callable

from fencepost.log.config import LogConfig
from fencepost.log.segment import Segment


def segments_to_delete(
    segments: list[Segment],
    config: LogConfig,
    *,
    below_start: int,
    end_offset: int,
    high_watermark: int,
    wall_ms: int,
    modified_ms: Callable[[Segment], int],
) -> int:
    """How many of the first segments are to go; all of them if the active one is old, too.

    `below_start` lie below the log's start already. `modified_ms` stands in where records have no
    timestamps. Raises CorruptFileError, OSError.
    """
    if not config.is_deleted:
        return below_start
    ends = [segment.base_offset for segment in segments[1:]] + [end_offset]
    deletable = 0
    for segment, end in zip(segments, ends, strict=True):
        if end > high_watermark or (segment.is_active and not segment.size_bytes):
            break
        deletable += 1
    by_age = _count_aged(segments[:deletable], config.retention_ms, wall_ms, modified_ms)
    excess_bytes = sum(segment.size_bytes for segment in segments) - config.retention_bytes
    by_size = 0
    if config.retention_bytes >= 0:
        by_size = _count_in_excess(segments[:deletable], excess_bytes)
    return max(below_start, by_age, by_size)


def _count_aged(
    segments: list[Segment],
    retention_ms: int,
    wall_ms: int,
    modified_ms: Callable[[Segment], int],
) -> int:
    if retention_ms < 0:
        return 0
    for count, segment in enumerate(segments):
        newest_ms = segment.largest_timestamp().timestamp_ms
        if newest_ms < 0:
            newest_ms = modified_ms(segment)
        if wall_ms - newest_ms <= retention_ms:
            return count
    return len(segments)


def _count_in_excess(segments: list[Segment], excess_bytes: int) -> int:
    for count, segment in enumerate(segments):
        excess_bytes -= segment.size_bytes
        if excess_bytes < 0:
            return count
    return len(segments)
