"""Offsets that follow each other: batches in order, segments end to end, nothing missing.

Compaction leaves gaps, between batches and within them. They are taken for its work below the
cleaner's checkpoint, in Kafka's own compacted topics, and behind a batch that has fewer records
than offsets, which nothing but compaction makes. Any other gap is missing records.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from fencepost.batch.header import MAGIC, BatchHeader
from fencepost.log.offset_index import RELATIVE_MAX
from fencepost.log.verify.problems import Problem, Severity

_MISSING: Final = "are missing"
_COMPACTED_TOPICS: Final = ("__consumer_offsets", "__transaction_state")


class OffsetCheck:
    """Sees the batches of a partition, segment by segment."""

    def __init__(self, topic: str | None, cleaned_offset: int | None) -> None:
        self.next_offset: int | None = None
        """Behind the last batch; None in front of the first segment."""
        self.is_thinned = topic in _COMPACTED_TOPICS or cleaned_offset is not None
        """Whether compaction has been here, as far as can be told by now."""
        self._is_compacted_topic = topic in _COMPACTED_TOPICS
        self._cleaned_offset = cleaned_offset or 0
        self._base = 0
        self._path = ""
        self._has_batches = False
        self._gaps: list[tuple[int, int, int]] = []

    def resume(
        self, path: str, base_offset: int, next_offset: int, *, has_batches: bool, is_thinned: bool
    ) -> None:
        """Go on behind the segment at `path`, which another check has seen."""
        self._path, self._base, self._has_batches = path, base_offset, has_batches
        self.next_offset = next_offset
        self.is_thinned = self.is_thinned or is_thinned

    def begin(self, path: str, base_offset: int) -> Iterator[Problem]:
        """A segment begins."""
        if self._path and not self._has_batches and base_offset - self._base <= RELATIVE_MAX:
            reason = f"holds no batch, although the next segment begins at {base_offset}"
            yield Problem(self._path, None, Severity.WARNING, "offsets", reason)
        self._path, self._base, self._has_batches = path, base_offset, False
        expected = self.next_offset
        if expected is None or base_offset - expected > RELATIVE_MAX:
            self.next_offset = base_offset
        elif base_offset > expected:
            yield from self._gap(None, expected, base_offset)
            self.next_offset = base_offset
        elif base_offset < expected:
            reason = f"the segment before it ends behind its first offset, at {expected}"
            offsets = base_offset, expected
            yield Problem(path, None, Severity.ERROR, "offsets", reason, *offsets)

    def batch(self, position: int, header: BatchHeader) -> Iterator[Problem]:
        """A batch of the segment."""
        self._has_batches = True
        expected = self.next_offset
        assert expected is not None, "begin was called"
        first, last = header.base_offset, header.last_offset
        count = header.records_count
        if header.magic == MAGIC and count <= header.last_offset_delta:
            self.is_thinned = True
        if count > header.last_offset_delta + 1:
            reason = f"{count} records in a batch of offsets {first}-{last}"
            yield Problem(self._path, position, Severity.ERROR, "offsets", reason)
        if first < expected:
            reason = f"offsets {first}-{last} where those from {expected} on belong"
            yield Problem(self._path, position, Severity.ERROR, "offsets", reason, first, last + 1)
        elif first > expected and not (header.magic < MAGIC and count < 0):
            yield from self._gap(position, expected, first)
        if last - self._base > RELATIVE_MAX:
            reason = f"offset {last} is too far from {self._base} for an index"
            yield Problem(self._path, position, Severity.ERROR, "offsets", reason)
        self.next_offset = header.next_offset

    def _gap(self, position: int | None, expected: int, found: int) -> Iterator[Problem]:
        if self._is_compacted_topic or self.is_thinned or found <= self._cleaned_offset:
            self._gaps.append((position or 0, expected, found))
            return
        reason = f"offsets {expected}-{found - 1} {_MISSING}"
        yield Problem(self._path, position, Severity.ERROR, "offsets", reason, expected, found)

    def end(self) -> Iterator[Problem]:
        """The segment ends: what compaction has left of it."""
        if self._gaps:
            self.is_thinned = True
            missing = sum(found - expected for _, expected, found in self._gaps)
            reason = f"{len(self._gaps)} gaps of {missing} offsets between batches: compaction"
            yield Problem(self._path, self._gaps[0][0], Severity.NOTE, "offsets", reason)
            self._gaps = []


def is_gap(problem: Problem) -> bool:
    """Whether it says that offsets are missing."""
    return problem.check == "offsets" and problem.text.endswith(_MISSING)
