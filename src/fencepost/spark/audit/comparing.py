"""Where replicas differ: digests of ranges first, then the batches of the ranges that differ.

Digests tell that a range is not the same in all replicas. Its batches are then read in all of them
by one task, and held against each other. Only batches that overlap and are not the same diverge.
What one replica lacks is a gap there, or the log's end, and found by its own checks, as is a batch
whose CRC does not hold; and a batch from which compaction has taken records is no divergence.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Final, NamedTuple

from fencepost.batch.header import MAGIC
from fencepost.log.dump.batches import FoundBatch, scan_batches
from fencepost.log.verify.files import PlainFiles
from fencepost.spark.audit.cover import EMPTY, Cover, Digest, digest_of
from fencepost.spark.audit.model import ComparedRange, Copy

DIVERGENCES_MAX: Final = 1000
"""How many one task tells of."""


class Divergence(NamedTuple):
    """Offsets in which a replica has other batches than the one it is held against."""

    place: int
    other_place: int
    start_offset: int
    end_offset: int
    epochs: tuple[int, int]
    """Leader epochs of the first batches that differ."""


def compared_ranges(
    copies: Sequence[Copy], cover: Cover, digests: Sequence[Mapping[int, Digest] | None]
) -> Iterator[ComparedRange]:
    """Every range that two or more replicas must have, as far as one of them has a batch in it.

    A replica has no digests if its log is not there any more.
    """
    cuts = cover.cuts()
    for start in sorted(set().union(*filter(None, digests))):
        holders = [place for place in cover.holders(start) if digests[place] is not None]
        found = [(digests[place] or {}).get(start, EMPTY) for place in holders]
        if len(holders) < 2:
            continue
        yield ComparedRange(
            *copies[0].partition,
            start,
            cover.range_at(start, cuts)[1],
            tuple(copies[place].replica for place in holders),
            max(one.batches for one in found),
            len(set(found)) == 1,
        )


class _Batch(NamedTuple):
    start: int
    end: int
    epoch: int
    digest: int
    is_excused: bool
    """Not sound, or thinned out by compaction."""


@dataclass(frozen=True)
class CompareTask:
    """Reads the batches of a range in the copies of a partition that must agree there."""

    copies: tuple[Copy, ...]
    places: tuple[int, ...]
    """Of the copies among all of the partition."""
    start_offset: int
    end_offset: int

    @property
    def weight_bytes(self) -> int:
        """See `Task`: one segment of each, at most."""
        return sum(
            max((one.size_bytes for one in copy.segments), default=0) for copy in self.copies
        )

    def run(self) -> list[Divergence]:
        """See `Task`."""
        found = {
            place: list(self._batches(copy))
            for place, copy in zip(self.places, self.copies, strict=True)
        }
        reference = _reference(found)
        divergences: list[Divergence] = []
        for place, batches in found.items():
            if place != reference:
                divergences += _diverging(place, batches, reference, found[reference])
        return divergences[:DIVERGENCES_MAX]

    def _batches(self, copy: Copy) -> Iterator[_Batch]:
        """Those that begin in the range, as far as they can be read."""
        bases = [segment.base_offset for segment in copy.segments] + [self.end_offset]
        for segment, following in zip(copy.segments, bases[1:]):
            if following <= self.start_offset or segment.base_offset >= self.end_offset:
                continue
            with suppress(OSError), closing(PlainFiles().open(copy.path_of(segment))) as file:
                for found in scan_batches(
                    file, base_offset=segment.base_offset, from_offset=self.start_offset
                ):
                    if not isinstance(found, FoundBatch):
                        continue
                    header = found.header
                    if header.base_offset >= self.end_offset:
                        break
                    if header.base_offset < self.start_offset:
                        continue
                    is_thinned = header.magic == MAGIC and (
                        header.records_count <= header.last_offset_delta
                        or header.has_delete_horizon
                    )
                    yield _Batch(
                        header.base_offset,
                        header.next_offset,
                        header.partition_leader_epoch,
                        digest_of(header),
                        is_thinned or not found.is_sound,
                    )


def _reference(found: Mapping[int, Sequence[_Batch]]) -> int:
    """The copy that others are held against: as most have it, else of the newest epoch, else the
    first."""
    digests = {place: tuple(one.digest for one in batches) for place, batches in found.items()}
    counts = Counter(digests.values())

    def rank(place: int) -> tuple[int, int, int]:
        epochs = [one.epoch for one in found[place] if not one.is_excused]
        return counts[digests[place]], max(epochs, default=-1), -place

    return max(found, key=rank)


def _diverging(
    place: int, batches: Sequence[_Batch], other_place: int, others: Sequence[_Batch]
) -> Iterator[Divergence]:
    """Where batches overlap and are not the same; what follows each other is joined."""
    at = other_at = 0
    last: Divergence | None = None
    while at < len(batches) and other_at < len(others):
        one, other = batches[at], others[other_at]
        is_overlap = one.start < other.end and other.start < one.end
        is_same = one == other or one.is_excused or other.is_excused
        if is_overlap and not is_same:
            start, end = min(one.start, other.start), max(one.end, other.end)
            if last is not None and start <= last.end_offset:
                last = last._replace(end_offset=max(end, last.end_offset))
            else:
                if last is not None:
                    yield last
                last = Divergence(place, other_place, start, end, (one.epoch, other.epoch))
        ends = one.end, other.end
        at += ends[0] <= ends[1]
        other_at += ends[1] <= ends[0]
    if last is not None:
        yield last


def join_divergences(found: Sequence[Divergence]) -> list[Divergence]:
    """Those of neighbouring ranges as one."""
    joined: list[Divergence] = []
    for one in sorted(found):
        last = joined[-1] if joined else None
        if last is not None and last[:2] == one[:2] and one.start_offset <= last.end_offset:
            joined[-1] = last._replace(end_offset=max(last.end_offset, one.end_offset))
        else:
            joined.append(one)
    return joined
