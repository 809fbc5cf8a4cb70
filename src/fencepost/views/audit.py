"""What an audit of all replicas' log directories has found."""

from __future__ import annotations

from typing import ClassVar

from fencepost.views.view import View


class FindingView(View, frozen=True):
    """Something that an audit has found. Offsets run from `start_offset` up to, not including,
    `end_offset`; `position` is a byte of the file at `path`. What is about all of a log directory
    has an empty topic and partition -1."""

    topic: str
    partition: int
    replica: int
    severity: str
    check: str
    start_offset: int | None
    end_offset: int | None
    leader_epoch: int | None
    other_replica: int | None
    other_leader_epoch: int | None
    path: str
    position: int | None
    text: str

    @property
    def sentence(self) -> str:
        where = f"{self.topic}-{self.partition} " if self.topic else ""
        offsets = f" offsets {self.start_offset}-" if self.start_offset is not None else ""
        if offsets:
            offsets += "" if self.end_offset is None else str(self.end_offset - 1)
        place = self.path if self.position is None else f"{self.path} at {self.position}"
        text = f"{where}replica {self.replica}{offsets}: {place}: {self.text}"
        return f"{self.severity}: {text} [{self.check}]"


class AuditSummary(View, frozen=True):
    """How much was read and found; `ranges` are of offsets, compared in all replicas. `replicas`
    are brokers with topics, `metadata_only` nodes with the metadata log alone."""

    replicas: int
    metadata_only: int
    partitions: int
    segments: int
    batches: int
    size_bytes: int
    ranges: int
    differing_ranges: int
    errors: int
    warnings: int
    notes: int
    seconds: float

    @property
    def _nodes(self) -> str:
        if not self.metadata_only:
            return f"{self.replicas} brokers"
        return f"{self.replicas} brokers and {self.metadata_only} nodes with the metadata log alone"

    @property
    def sentence(self) -> str:
        verdict = "sound" if not self.errors + self.warnings else "not sound"
        return (
            f"{verdict}: {self.errors} errors, {self.warnings} warnings, {self.notes} notes in"
            f" {self.partitions} partitions of {self._nodes}, {self.segments} segments,"
            f" {self.batches} batches, {self.size_bytes} bytes;"
            f" {self.ranges - self.differing_ranges} of {self.ranges} ranges equal in all replicas;"
            f" {self.seconds:.1f} s"
        )


class AuditView(View, frozen=True):
    """All of it."""

    findings: list[FindingView]
    summary: AuditSummary


class AuditListed(View, frozen=True):
    """A stored audit in a list. `error` is why it cannot be read."""

    columns: ClassVar = {
        "audit": "name",
        "errors": "errors",
        "warnings": "warnings",
        "notes": "notes",
        "ranges that differ": "differing",
        "problem": "error",
    }

    name: str
    errors: int | None
    warnings: int | None
    notes: int | None
    differing: int | None
    error: str | None


class StoredAudit(View, frozen=True):
    """An audit as it was stored: its findings, how many ranges of offsets were compared and how
    many of them differ where that is known, and its summary in words where it has one."""

    findings: list[FindingView]
    ranges: int | None
    differing: int | None
    summary: str | None

    def count_of(self, severity: str) -> int:
        """How many findings are of this severity."""
        return sum(one.severity == severity for one in self.findings)
