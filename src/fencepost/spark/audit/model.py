"""What an audit is about: replicas' copies of partitions, and what is found in them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, TypeVar

from fencepost.log.names import LOG_SUFFIX, offset_file
from fencepost.log.verify.facts import PartitionFacts
from fencepost.log.verify.problems import Problem, Severity
from fencepost.wire.types import Uuid

A_co = TypeVar("A_co", covariant=True)


class Task(Protocol[A_co]):
    """A piece of work for an executor, which must see the directories it names."""

    @property
    def weight_bytes(self) -> int:
        """About how many bytes it reads."""
        ...

    def run(self) -> A_co:
        """Do it. What is wrong with files is in the answer."""
        ...


class AuditError(Exception):
    """The audit could not be done; the text says why."""


class SegmentFile(NamedTuple):
    """A segment's file as it was listed. `splits` are places at which a batch begins, by the
    offset index, with that batch's last offset."""

    base_offset: int
    size_bytes: int
    changed_ns: int
    inode: int
    splits: tuple[tuple[int, int], ...] = ()


class Partition(NamedTuple):
    """A topic's partition."""

    topic: str
    number: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.number}"


@dataclass(frozen=True, slots=True)
class Copy:
    """One replica's log of a partition, as it was listed."""

    replica: int
    directory: str
    """The partition's own directory."""
    partition: Partition
    facts: PartitionFacts
    has_checkpoints: bool
    """Whether its log directory has a file of high watermarks."""
    segments: tuple[SegmentFile, ...] = ()
    snapshots: tuple[int, ...] = ()
    topic_id: Uuid | None = None
    error: str | None = None
    """Why it could not be listed."""

    @property
    def start_offset(self) -> int:
        """The first offset that counts."""
        first = self.segments[0].base_offset if self.segments else 0
        return max(self.facts.start_offset or 0, first)

    def path_of(self, segment: SegmentFile) -> str:
        """The segment's file."""
        return f"{self.directory}/{offset_file(segment.base_offset, LOG_SUFFIX)}"


class Finding(NamedTuple):
    """Something that an audit has found. Offsets run from `start_offset` up to, not including,
    `end_offset`; None where there is nothing to say. What is about all of a log directory has an
    empty topic and partition -1."""

    topic: str
    partition: int
    replica: int
    severity: str
    """`error`, `warning` or `note`; see `fencepost.log.verify.problems`."""
    check: str
    start_offset: int | None
    end_offset: int | None
    leader_epoch: int | None
    """Of a divergence: the epoch in this replica, and in the one it is held against."""
    other_replica: int | None
    other_leader_epoch: int | None
    path: str
    position: int | None
    """Byte of the file at `path`."""
    text: str

    @property
    def is_problem(self) -> bool:
        """Whether the log is not sound because of it."""
        return self.severity != Severity.NOTE.name.lower()


def finding_of(partition: Partition, replica: int, problem: Problem) -> Finding:
    """What verification has found in a replica."""
    return Finding(
        *partition,
        replica,
        problem.severity.name.lower(),
        problem.check,
        problem.start_offset,
        problem.end_offset,
        None,
        None,
        None,
        problem.path,
        problem.position,
        problem.text,
    )


class ComparedRange(NamedTuple):
    """Offsets of a partition that two or more replicas are to have, and whether they are equal.

    They count as equal if the headers of all their batches are, which have the CRC of all behind
    them, after that CRC was found right.
    """

    topic: str
    partition: int
    start_offset: int
    end_offset: int
    replicas: tuple[int, ...]
    batches: int
    is_equal: bool


@dataclass
class Totals:
    """How much was looked at; `replicas` are brokers with topics, `metadata_only` nodes that have
    the metadata log alone: controllers, and brokers without a partition."""

    replicas: int = 0
    metadata_only: int = 0
    partitions: int = 0
    segments: int = 0
    batches: int = 0
    size_bytes: int = 0
    ranges: int = 0
    differing_ranges: int = 0
    tasks: int = 0
    seconds: float = 0.0


@dataclass
class CopyReport:
    """What became of one replica's log: where it begins and ends, and its leader epochs."""

    copy: Copy
    end_offset: int = 0
    spans: list[tuple[int, int, int]] = field(default_factory=list)
    """(leader epoch, start offset, end offset), oldest first."""
