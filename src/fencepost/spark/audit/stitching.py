"""One replica's log from what its segments have shown: seams, and one finding for one cause.

Segments are verified apart from each other. Here they are looked at in a row: whether the next
begins where one ends, with an epoch that is not older; and whether a gap has an explanation in
compaction that was seen in front of it.

Damage shows in several places: behind bytes that are no batch offsets are missing, indexes point to
nothing, the log ends below its recovery point. What another finding explains is left out, and the
offsets that are gone become those of the finding that remains.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fencepost.log.names import parse_offset_file
from fencepost.log.verify.epochs import falling_epoch
from fencepost.log.verify.offsets import OffsetCheck, is_gap
from fencepost.log.verify.partition import check_facts
from fencepost.log.verify.problems import Problem, Severity
from fencepost.spark.audit.model import Copy, CopyReport, SegmentFile
from fencepost.spark.audit.tasks import SegmentAnswer

Seen = Sequence[tuple[SegmentFile, SegmentAnswer]]
_DERIVED = frozenset({"index", "txnindex", "snapshot"})
"""Checks of files that are made from a segment: where that is damaged, they cannot be judged."""
_LOSING = frozenset({"batch", "file"})
"""Problems of bytes that cannot be read as batches."""


def stitch(copy: Copy, beside: Sequence[Problem], seen: Seen) -> tuple[CopyReport, list[Problem]]:
    """What one replica's log is made of, and what is wrong with it."""
    report = CopyReport(copy, copy.start_offset)
    problems = [_harmless(one) if not copy.facts.is_clean else one for one in beside]
    check = OffsetCheck(copy.partition.topic, copy.facts.cleaned_offset)
    latest_epoch = -1
    for segment, answer in seen:
        path = copy.path_of(segment)
        if seen[0][0] is not segment:
            problems += check.begin(path, segment.base_offset)
            problems += check.end()
        problems += _falling(path, answer, latest_epoch)
        problems += _settled(copy, path, answer, was_thinned=check.is_thinned)
        check.resume(
            path,
            segment.base_offset,
            answer.next_offset,
            has_batches=answer.has_batches,
            is_thinned=answer.is_thinned,
        )
        for epoch, start, end in answer.spans:
            latest_epoch = max(latest_epoch, epoch)
            _extend(report.spans, epoch, start, end)
    if seen:
        report.end_offset = check.next_offset or 0
        first = seen[0][0].base_offset
        problems += check_facts(copy.facts, copy.directory, first, report.end_offset)
        problems += _open_transactions(copy, seen[-1][1], report.end_offset)
    return report, list(_Explaining(copy, report.end_offset, problems).run())


def _harmless(problem: Problem) -> Problem:
    """Files of an operation that is not finished: a broker may be at it."""
    is_leftover = problem.check == "leftover"
    return problem._replace(severity=Severity.NOTE) if is_leftover else problem


def _extend(spans: list[tuple[int, int, int]], epoch: int, start: int, end: int) -> None:
    if spans and spans[-1][0] == epoch:
        spans[-1] = epoch, spans[-1][1], end
    else:
        spans.append((epoch, start, end))


def _falling(path: str, answer: SegmentAnswer, latest: int) -> Iterator[Problem]:
    """Epochs at the segment's beginning that are older than one in front of it."""
    ends = [end for _, _, end in answer.spans]
    for place, (epoch, start, end) in enumerate(answer.spans):
        if epoch >= latest:
            return
        following = answer.spans[place + 1][0] if place + 1 < len(ends) else latest
        yield falling_epoch(path, 0 if not place else None, epoch, latest, start, end)
        if following <= epoch:
            return  # the task has seen that one itself


def _settled(
    copy: Copy, path: str, answer: SegmentAnswer, *, was_thinned: bool
) -> Iterator[Problem]:
    """A segment's problems as they are with what was seen in front of it, each once."""
    has_content_damage = any(
        one.check in ("batch", "crc", "file", "tail") or (is_gap(one) and not was_thinned)
        for one in answer.problems
    )
    for problem in answer.problems:
        if was_thinned and is_gap(problem):
            text = f"{problem.text}: compaction"
            yield problem._replace(severity=Severity.NOTE, text=text)
        elif not (has_content_damage and problem.check in _DERIVED):
            yield problem


def _open_transactions(copy: Copy, last: SegmentAnswer, end_offset: int) -> Iterator[Problem]:
    for producer_id, first_offset in last.open_transactions:
        reason = f"producer {producer_id} has begun a transaction that has no end yet"
        yield Problem(
            copy.directory, None, Severity.NOTE, "transaction", reason, first_offset, end_offset
        )


@dataclass
class _Explaining:
    """Leaves out what another finding explains."""

    copy: Copy
    end_offset: int
    problems: list[Problem]

    def run(self) -> Iterator[Problem]:
        """What remains, joined where it is one thing."""
        problems = self._without_lost_end(self._with_lost_offsets(self.problems))
        gaps = [one for one in problems if is_gap(one)]
        cut = {self._before(one) for one in gaps if one.position is None}
        previous: Problem | None = None
        told: set[tuple[str, str]] = set()
        for problem in problems:
            if problem.check == "leftover" and self._is_explained(problem, gaps):
                continue
            if problem.check in _DERIVED and problem.path.rpartition(".")[0] in cut:
                continue
            if problem.check == "epochs" and problem.start_offset is not None:
                joined = None if previous is None else _joined(previous, problem)
                if joined is not None:
                    previous = joined
                    continue
            if previous is not None:
                yield previous
            previous = None
            if (problem.path, problem.text) in told:
                continue
            told.add((problem.path, problem.text))
            if problem.check == "epochs":
                previous = problem
            else:
                yield problem
        if previous is not None:
            yield previous

    def _with_lost_offsets(self, problems: list[Problem]) -> list[Problem]:
        """A gap behind bytes that are no batch is what they held."""
        kept: list[Problem] = []
        for problem in problems:
            before = kept[-1] if kept else None
            if before is not None and before.check in _LOSING and before.start_offset is None:
                if is_gap(problem):
                    start, end = problem.start_offset, problem.end_offset
                    kept[-1] = before._replace(start_offset=start, end_offset=end)
                    continue
                if problem.check == "offsets" and "holds no batch" in problem.text:
                    continue
            kept.append(problem)
        return kept

    def _without_lost_end(self, problems: list[Problem]) -> list[Problem]:
        """A log that ends below its recovery point or high watermark has lost its end."""
        facts = self.copy.facts
        known = max(facts.recovery_point or 0, facts.high_watermark or 0)
        if known <= self.end_offset or not self.copy.segments:
            return problems
        last = self.copy.path_of(self.copy.segments[-1])
        kept = [one for one in problems if not self._follows_from_lost_end(one, last)]
        for place, problem in enumerate(kept):
            if problem.check == "batch" and problem.path == last and problem.start_offset is None:
                kept[place] = problem._replace(start_offset=self.end_offset, end_offset=known)
                return kept
        reason = (
            f"offsets {self.end_offset}-{known - 1} are missing at the end: the recovery point is"
            f" {facts.recovery_point}, the high watermark {facts.high_watermark}"
        )
        lost = Problem(last, None, Severity.ERROR, "offsets", reason, self.end_offset, known)
        return [*kept, lost]

    def _follows_from_lost_end(self, problem: Problem, last: str) -> bool:
        if problem.check == "checkpoint":
            return True
        stem = last.rpartition(".")[0]
        if problem.check in _DERIVED:
            return problem.path.rpartition(".")[0] == stem or self._is_behind_end(problem)
        return problem.check == "epochs" and problem.start_offset is None

    def _is_behind_end(self, problem: Problem) -> bool:
        parsed = parse_offset_file(problem.path.rpartition("/")[2])
        return parsed is not None and parsed[0] > self.end_offset

    def _before(self, gap: Problem) -> str:
        """Path, without its suffix, of the segment in front of a gap between two."""
        place = next(
            (
                number
                for number, segment in enumerate(self.copy.segments)
                if self.copy.path_of(segment) == gap.path
            ),
            0,
        )
        path = self.copy.path_of(self.copy.segments[place - 1]) if place else ""
        return path.rpartition(".")[0]

    @staticmethod
    def _is_explained(problem: Problem, gaps: Sequence[Problem]) -> bool:
        """A segment's indexes that were left where the segment itself is missing."""
        parsed = parse_offset_file(problem.path.rpartition("/")[2])
        return parsed is not None and any(
            (one.start_offset or 0) <= parsed[0] < (one.end_offset or 0) for one in gaps
        )


def _joined(before: Problem, problem: Problem) -> Problem | None:
    """One problem of two about batches that follow each other; None if they are two."""
    if (before.path, before.check, before.end_offset) != (
        problem.path, problem.check, problem.start_offset,
    ):  # fmt: skip
        return None
    if before.text.partition(",")[0] != problem.text.partition(",")[0]:
        return None
    return before._replace(end_offset=problem.end_offset)
