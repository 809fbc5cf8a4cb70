"""What executors do: verify a segment, or part of a large one, or what lies beside segments.

The checks are those of `fencepost log verify`. A task begins with the producers in the snapshot at
its segment's first offset, so it does not wait for the segments before it to be read; what only
shows where two segments meet is for `stitching`.

Of a large segment one task reads the headers alone, for all checks but the CRC; others read parts
of it, beginning where the offset index says that a batch begins. If any of them finds something,
the segment is read once more as a whole: only that can tell exactly.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from fencepost.batch.errors import BatchError
from fencepost.batch.header import HEADER_BYTES, read_header
from fencepost.log.dump.batches import FoundBatch, UnreadableBytes, find_batch, scan_batches
from fencepost.log.names import LEADER_EPOCH_FILE
from fencepost.log.verify.epochs import EpochCheck
from fencepost.log.verify.files import PlainFiles
from fencepost.log.verify.offsets import OffsetCheck
from fencepost.log.verify.partition import PartitionVerifier
from fencepost.log.verify.problems import Counts, Problem, Severity, unreadable
from fencepost.log.verify.segments import Checks, SegmentVerifier, crc_problem
from fencepost.log.verify.transactions import TransactionCheck
from fencepost.spark.audit.cover import Cover, Digest, DigestBuilder
from fencepost.spark.audit.model import Copy, SegmentFile

PROBLEMS_MAX: Final = 1000
SPANS_MAX: Final = 10_000
"""Bounds of what one task answers, whatever is in the files."""
_HEADERS_WEIGHT: Final = 2
"""Reading headers alone costs about half as much as everything, where batches are small."""


@dataclass
class SegmentAnswer:
    """What a segment, or a part of one, shows."""

    problems: list[Problem] = field(default_factory=list)
    digests: dict[int, Digest] = field(default_factory=dict)
    next_offset: int = 0
    has_batches: bool = False
    is_thinned: bool = False
    """Whether compaction has been here."""
    spans: list[tuple[int, int, int]] = field(default_factory=list)
    """(leader epoch, start offset, end offset), in order."""
    open_transactions: list[tuple[int, int]] = field(default_factory=list)
    """(producer id, first offset), where this is the log's end."""
    batches: int = 0
    is_gone: bool = False
    """Whether the file is not there any more."""

    def note(self, found: FoundBatch | UnreadableBytes) -> None:
        """Something in the file, in order."""
        if isinstance(found, UnreadableBytes):
            return
        self.batches += 1
        self.has_batches = True
        header = found.header
        if not found.is_sound:
            return
        last = self.spans[-1] if self.spans else None
        if last is not None and last[0] == header.partition_leader_epoch:
            self.spans[-1] = (last[0], last[1], header.next_offset)
        elif len(self.spans) < SPANS_MAX:
            span = header.partition_leader_epoch, header.base_offset, header.next_offset
            self.spans.append(span)


@dataclass(frozen=True)
class SegmentTask:
    """Verifies the segment at `place` of a copy's."""

    copy: Copy
    place: int
    cover: Cover
    cover_place: int
    is_deep: bool = False
    with_crc: bool = True

    @property
    def weight_bytes(self) -> int:
        """See `Task`."""
        return self.segment.size_bytes // (1 if self.with_crc else _HEADERS_WEIGHT)

    @property
    def segment(self) -> SegmentFile:
        """The segment's file."""
        return self.copy.segments[self.place]

    @property
    def _following(self) -> int | None:
        segments = self.copy.segments
        last = self.place + 1 == len(segments)
        return None if last else segments[self.place + 1].base_offset

    def run(self) -> SegmentAnswer:
        """See `Task`."""
        answer = SegmentAnswer(next_offset=self.segment.base_offset)
        try:
            problems = self._verify(answer)
            answer.problems = list(islice(problems, PROBLEMS_MAX))
            if more := sum(1 for _ in problems):
                path = self.copy.path_of(self.segment)
                reason = f"{more} more problems, which are not listed"
                answer.problems.append(Problem(path, None, Severity.ERROR, "more", reason))
        except FileNotFoundError:
            answer.is_gone = True
        except OSError as error:
            path = self.copy.path_of(self.segment)
            answer.problems.append(unreadable(path, "file", error))
        return answer

    def _verify(self, answer: SegmentAnswer) -> Iterator[Problem]:
        copy, files, base = self.copy, PlainFiles(), self.segment.base_offset
        offsets = OffsetCheck(copy.partition.topic, copy.facts.cleaned_offset)
        epochs = EpochCheck(files, f"{copy.directory}/{LEADER_EPOCH_FILE}", copy.facts)
        transactions = TransactionCheck(files, copy.directory, copy.facts, [*self._snapshots()])
        if self.place == 0:
            yield from transactions.start(base)
        else:
            transactions.resume(base)
        digests = DigestBuilder(self.cover, self.cover_place)

        def observe(found: FoundBatch | UnreadableBytes) -> None:
            answer.note(found)
            if self.with_crc and isinstance(found, FoundBatch) and found.is_sound:
                digests.add(found.header)

        yield from SegmentVerifier(
            files,
            copy.directory,
            copy.facts,
            Checks(offsets, epochs, transactions),
            Counts(),
            is_deep=self.is_deep,
            with_crc=self.with_crc,
            observe=observe,
        ).run(base, self._following)
        answer.next_offset = end_offset = offsets.next_offset or base
        answer.is_thinned = offsets.is_thinned
        answer.digests = digests.finish()
        yield from transactions.finish(end_offset, is_log_end=self._following is None)
        if self._following is None:
            yield from epochs.end(end_offset)
            for state in transactions.open_transactions():
                answer.open_transactions.append((state.producer_id, state.current_txn_first_offset))
        else:
            yield from epochs.check_presence(end_offset)

    def _snapshots(self) -> Iterator[int]:
        """The producer snapshots that this segment can be asked about."""
        base, following = self.segment.base_offset, self._following
        for offset in self.copy.snapshots:
            if (self.place == 0 or offset >= base) and (following is None or offset <= following):
                yield offset


@dataclass(frozen=True)
class ContentTask:
    """Checks CRCs in a part of a segment, of which another task reads the headers."""

    copy: Copy
    place: int
    part: int
    cover: Cover
    cover_place: int

    @property
    def segment(self) -> SegmentFile:
        """The segment's file."""
        return self.copy.segments[self.place]

    @property
    def _bounds(self) -> tuple[int, int]:
        places = [0, *(at for at, _ in self.segment.splits), self.segment.size_bytes]
        return places[self.part], places[self.part + 1]

    @property
    def weight_bytes(self) -> int:
        """See `Task`."""
        start, stop = self._bounds
        return stop - start

    def run(self) -> SegmentAnswer:
        """See `Task`."""
        answer = SegmentAnswer()
        digests = DigestBuilder(self.cover, self.cover_place)
        try:
            for found in self._scan():
                if isinstance(found, UnreadableBytes):
                    reason = f"{found.size_bytes} bytes are no batch: {found.reason}"
                elif found.is_sound:
                    digests.add(found.header)
                    continue
                else:
                    reason = crc_problem("", found).text
                path = self.copy.path_of(self.segment)
                problem = Problem(path, found.position, Severity.ERROR, "batch", reason)
                answer.problems = [problem]
                break  # the segment is read as a whole
        except FileNotFoundError:
            answer.is_gone = True
        except OSError as error:
            answer.problems = [unreadable(self.copy.path_of(self.segment), "file", error)]
        answer.digests = digests.finish()
        return answer

    def _scan(self) -> Iterator[FoundBatch | UnreadableBytes]:
        start, stop = self._bounds
        with closing(PlainFiles().open(self.copy.path_of(self.segment))) as file:
            if self.part + 1 > len(self.segment.splits):
                stop = max(stop, file.size())  # the newest segment may have grown
            if start:
                last_offset = self.segment.splits[self.part - 1][1]
                try:
                    begins = read_header(file.read_at(HEADER_BYTES, start)).last_offset
                except BatchError:
                    begins = -1
                if begins != last_offset:  # damage, or the index is wrong: see the other task
                    following = find_batch(file, start, file.size(), None)
                    start = stop if following is None else following
            yield from scan_batches(file, start=start, stop=stop)


@dataclass(frozen=True)
class BesideTask:
    """Looks at everything in a copy's directory but its segments."""

    copy: Copy

    @property
    def weight_bytes(self) -> int:
        """See `Task`."""
        return 0

    def run(self) -> list[Problem]:
        """See `Task`."""
        copy = self.copy
        verifier = PartitionVerifier(PlainFiles(), copy.directory, copy.facts, Counts())
        try:
            return list(islice(verifier.run_beside_segments(), PROBLEMS_MAX))
        except OSError as error:
            return [unreadable(error.filename or copy.directory, "file", error)]
