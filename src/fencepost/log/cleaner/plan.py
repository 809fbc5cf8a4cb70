"""What of a log may be cleaned, whether it is worth it, and which segments become one.

Theory of operation
-------------------
Offsets of a compacted log fall into three parts:

    start ........ first_dirty ............ first_uncleanable ............ end
      cleaned before,     to be cleaned: keys      not yet: active segment, undecided
      copied again        are noted and copied     transactions, not durable, too young

`first_dirty` is where the last cleaning ended (the cleaner's checkpoint), or the log's start if
that makes no sense. `first_uncleanable` is always where a segment begins.

A log is cleaned if the dirty part is more than `min.cleanable.dirty.ratio` of both cleanable parts,
or if a dirty segment has waited longer than `max.compaction.lag.ms` (KIP-354). Of several logs the
one with the largest ratio comes first.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import pairwise

from msgspec import Struct

from fencepost.log.config import LogConfig
from fencepost.log.offset_index import RELATIVE_MAX
from fencepost.log.segment import Segment


class Dirt(Struct, frozen=True):
    """How dirty a log is, and between which offsets."""

    first_dirty: int
    first_uncleanable: int
    clean_bytes: int
    cleanable_bytes: int
    is_overdue: bool
    """A dirty segment has waited longer than max.compaction.lag.ms."""

    @property
    def ratio(self) -> float:
        """Share of the cleanable bytes that is dirty; 0 if there are none."""
        total_bytes = self.clean_bytes + self.cleanable_bytes
        return self.cleanable_bytes / total_bytes if total_bytes else 0.0

    def is_due(self, min_ratio: float) -> bool:
        """Whether the log should be cleaned now."""
        if not self.cleanable_bytes:
            return False
        return self.is_overdue or self.ratio > min_ratio


class Source(Struct, frozen=True):
    """A closed segment as a cleaner's thread may see it: numbers that do not change."""

    segment: Segment
    """For comparing with what the log has later; its methods belong to the log's owner."""
    base_offset: int
    end_offset: int
    """Where the next segment begins."""
    size_bytes: int


def measure_dirt(
    segments: Sequence[Segment],
    config: LogConfig,
    *,
    start_offset: int,
    end_offset: int,
    stable_offset: int,
    cleaned_offset: int | None,
    wall_ms: int,
) -> Dirt:
    """How dirty the log of `segments` is; see the module docstring.

    Below `stable_offset` everything is decided, replicated and durable; `cleaned_offset` is the
    checkpoint. Raises CorruptFileError, OSError.
    """
    first_dirty = start_offset
    if cleaned_offset is not None and start_offset <= cleaned_offset <= end_offset:
        first_dirty = cleaned_offset
    bases = [segment.base_offset for segment in segments]
    dirty = segments[_index_of(bases, first_dirty) : -1]
    uncleanable = min(stable_offset, bases[-1])
    if config.min_compaction_lag_ms > 0:
        too_young_ms = wall_ms - config.min_compaction_lag_ms
        for segment in dirty:
            if segment.largest_timestamp().timestamp_ms > too_young_ms:
                uncleanable = min(uncleanable, segment.base_offset)
                break
    uncleanable = bases[_index_of(bases, max(first_dirty, uncleanable))]
    clean_bytes = sum(one.size_bytes for one in segments if one.base_offset < first_dirty)
    cleanable_bytes = sum(one.size_bytes for one in dirty if one.base_offset < uncleanable)
    too_old_ms = wall_ms - config.max_compaction_lag_ms
    is_overdue = too_old_ms > 0 and any(
        0 < one.rolling_timestamp_ms() < too_old_ms for one in dirty
    )
    return Dirt(first_dirty, uncleanable, clean_bytes, cleanable_bytes, is_overdue)


def _index_of(bases: Sequence[int], offset: int) -> int:
    """Index of the segment in which `offset` may lie."""
    return max(bisect_right(bases, offset) - 1, 0)


def sources_below(segments: Sequence[Segment], offset: int) -> list[Source]:
    """The closed segments that begin below `offset`."""
    return [
        Source(segment, segment.base_offset, following.base_offset, segment.size_bytes)
        for segment, following in pairwise(segments)
        if segment.base_offset < offset
    ]


def group_sources(
    sources: Sequence[Source], config: LogConfig, index_bytes: Callable[[Source], int]
) -> list[list[Source]]:
    """Neighbours that together stay within a segment's limits, so that segments do not dwindle.

    Limits are segment.bytes, segment.index.bytes for an index (`index_bytes` says how large those
    of a segment are), and 31 bits of offsets.
    """
    groups: list[list[Source]] = []
    size_bytes = indexes_bytes = 0
    for source in sources:
        size_bytes += source.size_bytes
        index = index_bytes(source)
        indexes_bytes += index
        if (
            not groups
            or size_bytes > config.roll_bytes
            or indexes_bytes > config.segment_index_bytes
            or source.end_offset - 1 - groups[-1][0].base_offset > RELATIVE_MAX
        ):
            groups.append([])
            size_bytes, indexes_bytes = source.size_bytes, index
        groups[-1].append(source)
    return groups
