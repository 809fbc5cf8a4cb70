"""Which offsets of a partition its replicas must agree in, and digests of them.

Replicas have the same batches, byte for byte, from where the last of them begins up to the lowest
high watermark: below it records are committed. Not below the offset up to which one of them was
compacted, since each replica is compacted by itself. Above its high watermark a replica may have
records that it will truncate.

Offsets are cut into ranges, the same for all replicas: at multiples of a fixed number and wherever
what a replica must agree in begins or ends. The digest of a range is the exclusive or of those of
the batches that begin in it, so parts of it can be read by different tasks, in any order.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final, NamedTuple

from fencepost.batch.header import HEADER_BYTES, OFFSET_MAX, BatchHeader, pack_header
from fencepost.log.verify.metadata_log import METADATA_DIR
from fencepost.spark.audit.model import Copy

DIGEST_BYTES: Final = 8


class Digest(NamedTuple):
    """Of a range in one replica, as far as one task has read it."""

    value: int
    batches: int

    def with_(self, other: Digest) -> Digest:
        """Of both parts."""
        return Digest(self.value ^ other.value, self.batches + other.batches)


EMPTY: Final = Digest(0, 0)


def digest_of(header: BatchHeader) -> int:
    """The digest of a batch whose CRC holds."""
    data = bytearray(HEADER_BYTES)
    pack_header(data, header)
    return int.from_bytes(blake2b(data, digest_size=DIGEST_BYTES).digest())


@dataclass(frozen=True)
class Cover:
    """The offsets in which each of a partition's replicas must agree with others that have them.

    `extents` has a replica's first offset and the one behind its last; an empty extent for one that
    need not agree in anything.
    """

    extents: tuple[tuple[int, int], ...]
    range_offsets: int

    @classmethod
    def of(
        cls, copies: Sequence[Copy], range_offsets: int, strangers: Collection[int] = ()
    ) -> Cover:
        """Of these copies of one partition; those at the places `strangers` agree with no other."""
        extents = [
            (0, 0) if place in strangers else _extent(copy) for place, copy in enumerate(copies)
        ]
        return cls(tuple(extents), range_offsets)

    def cuts(self) -> list[int]:
        """All offsets at which an extent begins or ends, in order."""
        return sorted({offset for extent in self.extents for offset in extent})

    def range_at(self, offset: int, cuts: Sequence[int]) -> tuple[int, int]:
        """The range in which the offset lies: its first offset and the one behind its last."""
        start = offset - offset % self.range_offsets
        at = bisect_right(cuts, offset)
        if at:
            start = max(start, cuts[at - 1])
        end = min(start - start % self.range_offsets + self.range_offsets, OFFSET_MAX)
        return start, min(end, cuts[at]) if at < len(cuts) else end

    def holders(self, offset: int) -> list[int]:
        """The replicas, by their places, that must agree at the offset."""
        return [place for place, (start, end) in enumerate(self.extents) if start <= offset < end]


def _extent(copy: Copy) -> tuple[int, int]:
    facts = copy.facts
    start = max(copy.start_offset, facts.cleaned_offset or 0)
    end = facts.high_watermark or 0
    if not copy.has_checkpoints:
        end = OFFSET_MAX  # without checkpoints it is not known what is committed
    if copy.error is not None or copy.directory.rpartition("/")[2] == METADATA_DIR:
        end = 0  # the quorum's high watermark is in no file
    return start, max(start, end)


class DigestBuilder:
    """Takes the batches of one replica, `place` in the cover, as a task reads them."""

    def __init__(self, cover: Cover, place: int) -> None:
        self._cover = cover
        self._place = place
        self._cuts = cover.cuts()
        self._start, self._end = 0, 0
        self._is_compared = False
        self._value = 0
        self._batches = 0
        self._digests: dict[int, Digest] = {}

    def add(self, header: BatchHeader) -> None:
        """A batch whose CRC holds."""
        offset = header.base_offset
        if not self._start <= offset < self._end:
            self._close()
            self._start, self._end = self._cover.range_at(offset, self._cuts)
            holders = self._cover.holders(offset)
            self._is_compared = self._place in holders and len(holders) > 1
        if self._is_compared:
            self._value ^= digest_of(header)
            self._batches += 1

    def _close(self) -> None:
        if self._batches:
            known = self._digests.get(self._start, EMPTY)
            self._digests[self._start] = known.with_(Digest(self._value, self._batches))
        self._value = self._batches = 0

    def finish(self) -> dict[int, Digest]:
        """The digests of all ranges met, by their first offsets."""
        self._close()
        return self._digests
