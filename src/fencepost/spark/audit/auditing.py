"""The course of an audit, wherever its tasks run: list, read, stitch, compare.

A log directory that was not closed cleanly may be in use. Its files are read as after a crash (what
lies above the recovery point is not judged by files that are written later), and where something is
found it is looked at again: segments that are the same and had nothing are not read again, others
are. What is gone by then was deleted, and what differs no more was being written.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeVar

from fencepost.client.lineage import find_divergence
from fencepost.client.offsets import EpochSpan
from fencepost.log.verify.problems import Problem, Severity
from fencepost.spark.audit.comparing import (
    CompareTask,
    Divergence,
    compared_ranges,
    join_divergences,
)
from fencepost.spark.audit.cover import EMPTY, Cover, Digest
from fencepost.spark.audit.listing import SPLIT_BYTES, ListTask, LogDirectory
from fencepost.spark.audit.model import (
    AuditError,
    ComparedRange,
    Copy,
    CopyReport,
    Finding,
    Partition,
    SegmentFile,
    Task,
    Totals,
    finding_of,
)
from fencepost.spark.audit.stitching import stitch
from fencepost.spark.audit.tasks import BesideTask, ContentTask, SegmentAnswer, SegmentTask

A = TypeVar("A")

RANGE_OFFSETS: Final = 1 << 16
RANGES_MAX: Final = 1 << 20
"""Digests that the driver holds, about; with more offsets ranges become longer."""
LOOKS_AGAIN: Final = 3
_PAUSE_S: Final = 0.3


class Runner(Protocol):
    """Runs tasks where the directories are."""

    def run(self, tasks: Sequence[Task[A]], title: str) -> list[A]:
        """The answer of each, in order. AuditError."""
        ...


@dataclass(frozen=True)
class Source:
    """A directory to audit, and the replica it is of; None: by its own `node.id`."""

    path: str
    replica: int | None = None


@dataclass(frozen=True)
class Settings:
    """What an audit looks at, and how."""

    topics: tuple[str, ...] = ()
    """Regular expressions for whole names; all topics if there are none."""
    is_deep: bool = False
    range_offsets: int = RANGE_OFFSETS
    split_bytes: int = SPLIT_BYTES
    pause: Callable[[float], None] = time.sleep


@dataclass
class Outcome:
    """What an audit has found."""

    findings: list[Finding] = field(default_factory=list)
    ranges: list[ComparedRange] = field(default_factory=list)
    reports: dict[Partition, list[CopyReport]] = field(default_factory=dict)
    totals: Totals = field(default_factory=Totals)

    @property
    def is_clean(self) -> bool:
        """Whether there are but notes."""
        return not any(finding.is_problem for finding in self.findings)


@dataclass
class _Reading:
    """What is known of one copy by now."""

    copy: Copy
    beside: list[Problem] = field(default_factory=list)
    seen: dict[int, tuple[SegmentFile, SegmentAnswer]] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    report: CopyReport | None = None
    is_gone: bool = False
    """Whether the partition was deleted meanwhile, or moved to another directory."""

    @property
    def is_suspect(self) -> bool:
        """Whether it has problems that a broker at work may have caused."""
        return not self.copy.facts.is_clean and any(one.is_problem for one in self.problems)

    def digests(self) -> dict[int, Digest]:
        """Of all its segments, by ranges."""
        found: dict[int, Digest] = {}
        for _, answer in self.seen.values():
            for start, digest in answer.digests.items():
                found[start] = found.get(start, EMPTY).with_(digest)
        return found


class Audit:
    """One audit; `run` it once. AuditError where it cannot be done."""

    def __init__(self, runner: Runner, sources: Sequence[Source], settings: Settings) -> None:
        self._runner = runner
        self._sources = sources
        self._settings = settings
        self._outcome = Outcome()
        self._covers: dict[Partition, Cover] = {}
        self._directories: dict[str, int] = {}
        """Replica of each log directory."""

    def run(self) -> Outcome:
        """List, read, look again, compare."""
        begun = time.monotonic()
        partitions = self._listed()
        self._cover(partitions)
        readings = {
            where: [_Reading(copy) for copy in copies] for where, copies in partitions.items()
        }
        self._read(readings, "reading logs")
        self._look_again(readings)
        for where, found in readings.items():
            for one in found:
                self._outcome.findings += [
                    finding_of(where, one.copy.replica, problem) for problem in one.problems
                ]
            self._outcome.reports[where] = [one.report for one in found if one.report is not None]
            self._outcome.findings += _tails(self._outcome.reports[where])
        self._compare(readings)
        self._count(readings)
        self._outcome.findings.sort(key=_order)
        self._outcome.totals.seconds = time.monotonic() - begun
        return self._outcome

    # -- listing

    def _listed(self) -> dict[Partition, list[Copy]]:
        settings = self._settings
        tasks = [
            ListTask(one.path, one.replica, settings.topics, split_bytes=settings.split_bytes)
            for one in self._sources
        ]
        found: dict[str, tuple[LogDirectory, int]] = {}
        for source, answer in zip(self._sources, self._run(tasks, "listing"), strict=True):
            if isinstance(answer, str):
                raise AuditError(answer)
            for directory in answer:
                number = source.replica if source.replica is not None else directory.node_id
                if number is None:
                    raise AuditError(
                        f"{directory.path} has no meta.properties that says whose it is; name its"
                        " replica"
                    )
                found[directory.path] = directory, number
        _check_clusters([directory for directory, _ in found.values()])
        partitions: dict[Partition, dict[int, Copy]] = defaultdict(dict)
        for directory, number in found.values():
            self._directories[directory.path] = number
            self._outcome.findings += [
                finding_of(Partition("", -1), number, problem) for problem in directory.problems
            ]
            for copy in directory.copies:
                twin = partitions[copy.partition].setdefault(number, copy)
                if twin is not copy:
                    reason = f"is in {twin.directory}, too; that one was read"
                    problem = Problem(copy.directory, None, Severity.ERROR, "document", reason)
                    self._outcome.findings.append(finding_of(copy.partition, number, problem))
        if not partitions:
            raise AuditError("there are no partitions of these topics")
        with_topics = {number for directory, number in found.values() if directory.has_topics}
        self._outcome.totals.replicas = len(with_topics)
        self._outcome.totals.metadata_only = len({*self._directories.values()} - with_topics)
        return {where: list(partitions[where].values()) for where in sorted(partitions)}

    def _cover(self, partitions: Mapping[Partition, Sequence[Copy]]) -> None:
        """What replicas must agree in; of a topic that was made again, only those of one id."""
        total = 0
        for copies in partitions.values():
            for copy in copies:
                if copy.segments:
                    last = copy.segments[-1].base_offset
                    total += last - copy.segments[0].base_offset
        range_offsets = self._settings.range_offsets
        while total // range_offsets > RANGES_MAX:
            range_offsets *= 2
        for where, copies in partitions.items():
            ids = Counter(one.topic_id for one in copies if one.topic_id is not None)
            usual = ids.most_common(1)[0][0] if ids else None
            strangers = {
                place
                for place, one in enumerate(copies)
                if one.topic_id is not None and one.topic_id != usual
            }
            for place in strangers:
                copy = copies[place]
                reason = f"topic id {copy.topic_id}, but other replicas have {usual}"
                problem = Problem(copy.directory, None, Severity.ERROR, "document", reason)
                self._outcome.findings.append(finding_of(where, copy.replica, problem))
            self._covers[where] = Cover.of(copies, range_offsets, strangers)

    # -- reading

    def _run(self, tasks: Sequence[Task[Any]], title: str) -> list[Any]:
        self._outcome.totals.tasks += len(tasks)
        return self._runner.run(tasks, title) if tasks else []

    def _read(self, readings: Mapping[Partition, Sequence[_Reading]], title: str) -> None:
        """Read what is not known yet, and stitch."""
        tasks: list[Task[Any]] = []
        takers: list[Callable[[Any], None]] = []
        unsure: list[tuple[_Reading, SegmentTask]] = []
        for where, found in readings.items():
            for place, one in enumerate(found):
                if one.copy.error is not None or one.is_gone:
                    continue
                tasks.append(BesideTask(one.copy))
                takers.append(_take_beside(one))
                for number, segment in enumerate(one.copy.segments):
                    if segment.base_offset in one.seen:
                        continue
                    whole = SegmentTask(
                        one.copy, number, self._covers[where], place, self._settings.is_deep
                    )
                    for task in _parts(whole):
                        tasks.append(task)
                        takers.append(_take_segment(one, whole, task, unsure))
        for take, answer in zip(takers, self._run(tasks, title), strict=True):
            take(answer)
        again = {(id(one), task.place): (one, task) for one, task in unsure}
        answers = self._run([task for _, task in again.values()], "reading damaged segments")
        for (one, task), answer in zip(again.values(), answers, strict=True):
            one.seen[task.segment.base_offset] = task.segment, answer
        for found in readings.values():
            for one in found:
                _stitch(one)

    def _look_again(self, readings: dict[Partition, list[_Reading]]) -> None:
        for _ in range(LOOKS_AGAIN):
            suspects = {
                where: [one for one in found if one.is_suspect]
                for where, found in readings.items()
                if any(one.is_suspect for one in found)
            }
            if not suspects:
                return
            self._settings.pause(_PAUSE_S)
            fresh = self._listed_again(suspects)
            before = {}
            for where in suspects:
                for one in suspects[where]:
                    before[id(one)] = set(map(_place_of, one.problems))
                    _renew(one, fresh.get((where, one.copy.replica)))
            self._read({where: readings[where] for where in suspects}, "looking again")
            for where in suspects:
                for one in suspects[where]:
                    one.problems = [
                        problem
                        for problem in one.problems
                        if not problem.is_problem or _place_of(problem) in before[id(one)]
                    ]

    def _listed_again(
        self, suspects: Mapping[Partition, Sequence[_Reading]]
    ) -> dict[tuple[Partition, int], Copy]:
        wanted: dict[str, set[Partition]] = defaultdict(set)
        for where, found in suspects.items():
            for one in found:
                wanted[one.copy.directory.rpartition("/")[0]].add(where)
        tasks = [
            ListTask(path, self._directories[path], only=frozenset(only), split_bytes=1 << 62)
            for path, only in wanted.items()
        ]
        fresh: dict[tuple[Partition, int], Copy] = {}
        for answer in self._run(tasks, "looking again"):
            for directory in () if isinstance(answer, str) else answer:
                for copy in directory.copies:
                    fresh[copy.partition, copy.replica] = copy
        return fresh

    # -- comparing

    def _compare(self, readings: Mapping[Partition, Sequence[_Reading]]) -> None:
        differing: dict[Partition, list[ComparedRange]] = defaultdict(list)
        for where, found in readings.items():
            digests = [None if one.is_gone else one.digests() for one in found]
            copies = [one.copy for one in found]
            for compared in compared_ranges(copies, self._covers[where], digests):
                self._outcome.ranges.append(compared)
                if not compared.is_equal:
                    differing[where].append(compared)
        divergences = self._divergences(readings, differing)
        for _ in range(LOOKS_AGAIN):
            moving = {
                where: differing[where]
                for where, found in divergences.items()
                if found and any(not one.copy.facts.is_clean for one in readings[where])
            }
            if not moving:
                break
            self._settings.pause(_PAUSE_S)
            fresh = self._listed_again({where: readings[where] for where in moving})
            for where in moving:
                for one in readings[where]:
                    one.copy = fresh.get((where, one.copy.replica), one.copy)
            again = self._divergences(readings, moving)
            divergences.update(again)
            if all(again.values()):
                break  # what is so twice is so
        for where, diverging in divergences.items():
            for divergence in diverging:
                finding = _diverges(where, readings[where], divergence)
                if not any(_explains(one, finding) for one in self._outcome.findings):
                    self._outcome.findings.append(finding)

    def _divergences(
        self,
        readings: Mapping[Partition, Sequence[_Reading]],
        differing: Mapping[Partition, Sequence[ComparedRange]],
    ) -> dict[Partition, list[Divergence]]:
        tasks, wheres = [], []
        for where, ranges in differing.items():
            for compared in ranges:
                places = [
                    place
                    for place in self._covers[where].holders(compared.start_offset)
                    if not readings[where][place].is_gone
                ]
                copies = tuple(readings[where][place].copy for place in places)
                start, end = compared.start_offset, compared.end_offset
                tasks.append(CompareTask(copies, tuple(places), start, end))
                wheres.append(where)
        found: dict[Partition, list[Divergence]] = {where: [] for where in differing}
        for where, answer in zip(wheres, self._run(tasks, "comparing replicas"), strict=True):
            found[where] += answer
        return {where: join_divergences(diverging) for where, diverging in found.items()}

    def _count(self, readings: Mapping[Partition, Sequence[_Reading]]) -> None:
        totals = self._outcome.totals
        totals.partitions = len(readings)
        totals.ranges = len(self._outcome.ranges)
        totals.differing_ranges = sum(not one.is_equal for one in self._outcome.ranges)
        for found in readings.values():
            for one in found:
                totals.segments += len(one.seen)
                for segment, answer in one.seen.values():
                    totals.batches += answer.batches
                    totals.size_bytes += segment.size_bytes


def _place_of(problem: Problem) -> tuple[str, str, int | None]:
    """What is the same each time one looks, unless a broker is writing there."""
    return problem.path, problem.check, problem.position


def _order(finding: Finding) -> tuple[Any, ...]:
    return finding[:3] + (finding.start_offset or 0, finding.path, finding.position or 0)


def _check_clusters(directories: Sequence[LogDirectory]) -> None:
    """All are of one cluster, as far as they say. AuditError."""
    ids = {one.cluster_id: one.path for one in directories if one.cluster_id is not None}
    if len(ids) > 1:
        (first, path), (second, other), *_ = ids.items()
        raise AuditError(f"{path} is of cluster {first}, and {other} of cluster {second}")


def _parts(whole: SegmentTask) -> Iterator[Task[SegmentAnswer]]:
    """The segment as one task; a large one as its headers, and parts of its content."""
    if not whole.segment.splits or whole.is_deep:
        yield whole
        return
    copy, place, cover, cover_place = whole.copy, whole.place, whole.cover, whole.cover_place
    yield SegmentTask(copy, place, cover, cover_place, with_crc=False)
    for part in range(len(whole.segment.splits) + 1):
        yield ContentTask(copy, place, part, cover, cover_place)


def _take_beside(one: _Reading) -> Callable[[list[Problem]], None]:
    def take(problems: list[Problem]) -> None:
        one.beside = problems

    return take


def _take_segment(
    one: _Reading,
    whole: SegmentTask,
    task: Task[SegmentAnswer],
    unsure: list[tuple[_Reading, SegmentTask]],
) -> Callable[[SegmentAnswer], None]:
    segment = whole.segment

    def take(answer: SegmentAnswer) -> None:
        if task is not whole and any(problem.is_problem for problem in answer.problems):
            unsure.append((one, whole))
        if isinstance(task, ContentTask):
            digests = one.seen[segment.base_offset][1].digests
            for start, digest in answer.digests.items():
                digests[start] = digests.get(start, EMPTY).with_(digest)
        elif answer.is_gone:
            reason = "is not there any more"
            problem = Problem(one.copy.path_of(segment), None, Severity.ERROR, "file", reason)
            answer.problems = [problem]
            one.seen[segment.base_offset] = segment, answer
        else:
            one.seen[segment.base_offset] = segment, answer

    return take


def _stitch(one: _Reading) -> None:
    copy = one.copy
    if one.is_gone:
        one.report, one.problems = None, []
        return
    if copy.error is not None:
        one.problems = [Problem(copy.directory, None, Severity.ERROR, "file", copy.error)]
        one.report = CopyReport(copy)
        return
    seen = [one.seen[base] for base in sorted(one.seen)]
    one.report, one.problems = stitch(copy, one.beside, seen)


def _renew(one: _Reading, fresh: Copy | None) -> None:
    """Take over how a copy is now, and forget what has to be read again."""
    if fresh is None:
        one.is_gone = True
        return
    last = fresh.segments[-1].base_offset if fresh.segments else -1
    known = {segment.base_offset: segment for segment in fresh.segments}
    one.copy = fresh
    one.seen = {
        base: (segment, answer)
        for base, (segment, answer) in one.seen.items()
        if base != last
        and base in known
        and known[base][:4] == segment[:4]
        and not any(problem.is_problem for problem in answer.problems)
    }


def _tails(reports: Sequence[CopyReport]) -> Iterator[Finding]:
    """Records above a replica's high watermark that the log with the newest epoch lacks."""
    told = [one for one in reports if one.spans]
    if len(told) < 2:
        return
    reference = max(told, key=lambda one: (one.spans[-1][0], one.end_offset))
    spans = tuple(EpochSpan(*span) for span in reference.spans)
    for one in told:
        if one is reference:
            continue
        parting = find_divergence(spans, tuple(EpochSpan(*span) for span in one.spans))
        committed = one.copy.facts.high_watermark or 0
        if parting is None or parting.offset < committed or not one.copy.has_checkpoints:
            continue
        text = (
            f"records above the high watermark, {committed}, that replica"
            f" {reference.copy.replica} does not have: truncated when this one follows again"
        )
        yield Finding(
            *one.copy.partition,
            one.copy.replica,
            Severity.NOTE.name.lower(),
            "tail",
            parting.offset,
            one.end_offset,
            parting.epoch,
            reference.copy.replica,
            parting.reference_epoch,
            one.copy.directory,
            None,
            text,
        )


def _explains(damage: Finding, divergence: Finding) -> bool:
    """Whether a divergence is but what was found in one of the two replicas anyway."""
    if damage.start_offset is None or damage.end_offset is None or not damage.is_problem:
        return False
    assert divergence.start_offset is not None
    assert divergence.end_offset is not None
    return (
        damage.check != "divergence"
        and damage[:2] == divergence[:2]
        and damage.replica in (divergence.replica, divergence.other_replica)
        and damage.start_offset <= divergence.start_offset
        and divergence.end_offset <= damage.end_offset
    )


def _diverges(where: Partition, readings: Sequence[_Reading], found: Divergence) -> Finding:
    copy, other = readings[found.place].copy, readings[found.other_place].copy
    is_known = copy.has_checkpoints and other.has_checkpoints
    below = "below the high watermark" if is_known else "and no high watermark is known"
    epoch, other_epoch = found.epochs
    text = (
        f"offsets {found.start_offset}-{found.end_offset - 1} differ from replica"
        f" {other.replica}, {below}: leader epoch {epoch} here, {other_epoch} there"
    )
    severity = Severity.ERROR if is_known else Severity.WARNING
    return Finding(
        *where,
        copy.replica,
        severity.name.lower(),
        "divergence",
        found.start_offset,
        found.end_offset,
        epoch,
        other.replica,
        other_epoch,
        copy.directory,
        None,
        text,
    )
