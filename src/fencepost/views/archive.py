"""An archive of topics: what is in its files, whether they are whole, and their compaction.

Ranges of offsets are pairs, the second of which is the first offset behind the range.
"""

from __future__ import annotations

from typing import ClassVar

from fencepost.views.view import View, count

MB = 1_000_000

OffsetRange = tuple[int, int]


class ArchivedDate(View, frozen=True):
    """The files of a topic's date."""

    columns: ClassVar = {
        "topic": "topic",
        "date": "date",
        "files": "files",
        "records": "records",
        "MB": "megabytes",
    }

    topic: str
    date: str
    files: int
    records: int
    file_bytes: int

    @property
    def megabytes(self) -> str:
        return f"{self.file_bytes / MB:.1f}"


class ArchivedPartition(View, frozen=True):
    """What was read of a partition, and what is in the files. `gaps` are offsets that were not
    read, between such that were; offsets `without_record` were read, and are of none."""

    columns: ClassVar = {
        "topic": "topic",
        "id": "id",
        "partition": "partition",
        "offsets": "offsets",
        "records": "file_records",
        "without-record": "without_record",
        "gaps": "gap_offsets",
    }

    topic: str
    topic_id: str
    partition: int
    read: list[OffsetRange]
    records: int
    files: int
    file_records: int
    problems: list[str]
    gaps: list[OffsetRange]
    without_record: int

    @property
    def id(self) -> str | None:
        return self.topic_id or None

    @property
    def offsets(self) -> str | None:
        return f"{self.read[0][0]}-{self.read[-1][1] - 1}" if self.read else None

    @property
    def gap_offsets(self) -> list[str]:
        return [f"{start}-{end - 1}" for start, end in self.gaps]


class ComparedPartition(View, frozen=True):
    """A partition's records in the archive and in the topic, from `start` up to, not including,
    `end`; `condition` says why there is nothing to compare."""

    columns: ClassVar = {
        "topic": "topic",
        "partition": "partition",
        "offsets": "offsets",
        "archived": "archived_records",
        "in-topic": "topic_records",
        "contents": "contents",
    }

    topic: str
    partition: int
    start: int
    end: int
    archived: int
    in_topic: int
    same: bool
    condition: str

    @property
    def offsets(self) -> str | None:
        return None if self.condition else f"{self.start}-{self.end - 1}"

    @property
    def archived_records(self) -> int | None:
        return None if self.condition else self.archived

    @property
    def topic_records(self) -> int | None:
        return None if self.condition else self.in_topic

    @property
    def contents(self) -> str:
        return self.condition or ("same" if self.same else "DIFFERENT")


class ArchiveStatus(View, frozen=True):
    """What `archive status` and `archive verify` find; no topic was read if `compared` is None."""

    batch: int
    format: str
    dates: list[ArchivedDate]
    partitions: list[ArchivedPartition]
    problems: list[str]
    compared: list[ComparedPartition] | None

    @property
    def sentence(self) -> str:
        return f"{self.format}, last batch {self.batch}"


class CompactedArchive(View, frozen=True):
    """What a compaction did with an archive's files."""

    directories: int
    files_before: int
    files_after: int
    rows: int
    bytes_before: int
    bytes_after: int

    @property
    def sentence(self) -> str:
        return (
            f"{count(self.files_before, 'file')} became {self.files_after} in "
            f"{self.directories} directories, {self.rows:,} records, "
            f"{self.bytes_before / MB:,.1f} MB to {self.bytes_after / MB:,.1f} MB"
        )


class MaintainedArchive(CompactedArchive, frozen=True):
    """What maintenance did besides compaction; 0 where the format does not tell."""

    snapshots_expired: int
    files_removed: int

    @property
    def sentence(self) -> str:
        return (
            f"{super().sentence}; {count(self.snapshots_expired, 'snapshot')} expired, "
            f"{count(self.files_removed, 'file')} removed"
        )
