"""Checkpoints of Spark's streaming queries: what is in them, and what a command changes."""

from __future__ import annotations

from typing import ClassVar

from fencepost.views.view import View


class CheckpointPartition(View, frozen=True):
    """A partition's offsets in a checkpoint; `begin` where the planned batch begins elsewhere than
    the one before ended."""

    columns: ClassVar = {
        name.replace("_", "-"): name
        for name in (
            *("source", "topic", "partition", "committed", "planned", "begin"),
            *("leader_epoch", "topic_id"),
        )
    }

    source: str
    topic: str
    partition: int
    committed: int | None
    planned: int | None
    begin: int | None
    leader_epoch: int | None
    topic_id: str | None


class CheckpointSource(View, frozen=True):
    """A source and which connector wrote its newest offset: kafka, fencepost or other."""

    name: str
    connector: str


class CheckpointOperator(View, frozen=True):
    """A stateful operator; the name is empty where Spark does not tell it."""

    number: int
    name: str


class CheckpointView(View, frozen=True):
    """What a checkpoint says. `sinks` are exactly-once sinks of the query, which only brokers
    know: None if none were asked."""

    query: str | None
    state: str
    planned_batch: int | None
    committed_batch: int | None
    batches: int
    watermark_ms: int | None
    sources: list[CheckpointSource]
    operators: list[CheckpointOperator]
    backups: list[str]
    sinks: list[str] | None
    partitions: list[CheckpointPartition]

    @property
    def lines(self) -> list[str]:
        """All but the partitions, for people."""
        kept = "none" if self.committed_batch is None else str(self.committed_batch)
        planned = "none" if self.planned_batch is None else str(self.planned_batch)
        found = [
            f"query {self.query or '-'}: {self.state}; planned batch: {planned}, "
            f"committed: {kept}, batches kept: {self.batches}"
        ]
        if self.sources:
            found.append(f"sources: {', '.join(f'{s.name} {s.connector}' for s in self.sources)}")
        if self.operators:
            names = (f"{one.number} {one.name}".strip() for one in self.operators)
            found.append(f"state: {', '.join(names)}; watermark: {self.watermark_ms or 0} ms")
        if self.sinks:
            found.append(f"exactly-once sinks: {', '.join(self.sinks)}")
        if self.backups:
            found.append(f"backups: {', '.join(self.backups)}")
        return found


class MovedOffset(View, frozen=True):
    """A partition's offset before and after a change."""

    columns: ClassVar = {name: name for name in ("source", "topic", "partition", "before", "after")}

    source: str
    topic: str
    partition: int
    before: int | None
    after: int | None


class CheckpointChange(View, frozen=True):
    """What a command changed, or would change: `done` tells which."""

    done: bool
    files: list[str]
    backup: str | None
    warnings: list[str]
    moved: list[MovedOffset]

    @property
    def sentence(self) -> str:
        """The result for people."""
        if not self.files:
            return "nothing to change"
        files = ", ".join(self.files[:3]) + (
            f" and {len(self.files) - 3} more" * (len(self.files) > 3)
        )
        if not self.done:
            return f"would change {files}; nothing is changed without --execute"
        return f"changed {files}; what was there is in {self.backup}"
