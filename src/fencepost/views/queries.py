"""Spark's streaming queries: how far they are behind, and their exactly-once sinks."""

from __future__ import annotations

from typing import ClassVar

from fencepost.views.times import iso_time
from fencepost.views.view import View


class QueryPartition(View, frozen=True):
    """A partition that a query reads. Offsets are None where there is none yet; `lag` is in records
    (offsets), `condition` says whether the log still has what was read."""

    columns: ClassVar = {
        "source": "source",
        "topic": "topic",
        "partition": "partition",
        "committed": "committed",
        "planned": "planned",
        "end": "end",
        "lag": "lag",
        "epoch": "leader_epoch",
        "oldest-unread": "oldest_unread",
        "condition": "condition",
    }

    source: str
    topic: str
    partition: int
    committed: int | None
    planned: int | None
    start: int | None
    end: int | None
    lag: int | None
    leader_epoch: int | None
    oldest_unread_timestamp_ms: int | None
    oldest_unread_age_ms: int | None
    condition: str
    detail: str | None

    @property
    def oldest_unread(self) -> str | None:
        """The age in its two largest units."""
        age_ms = self.oldest_unread_age_ms
        if age_ms is None:
            return None
        seconds = age_ms // 1000
        if seconds < 60:
            return f"{age_ms / 1000:.1f}s"
        if seconds < 3600:
            return f"{seconds // 60}m{seconds % 60:02}s"
        if seconds < 86_400:
            return f"{seconds // 3600}h{seconds % 3600 // 60:02}m"
        return f"{seconds // 86_400}d{seconds % 86_400 // 3600:02}h"

    @property
    def warning(self) -> str | None:
        """What there is to say of the condition."""
        if not self.detail:
            return None
        return f"{self.topic}-{self.partition}: {self.condition}: {self.detail}"


class QueryView(View, frozen=True):
    """A query's checkpoint, and the partitions of its sources that are topics."""

    query: str | None
    state: str
    planned_batch: int | None
    committed_batch: int | None
    other_sources: list[str]
    partitions: list[QueryPartition]

    @property
    def heading(self) -> str:
        return f"query {self.query or '-'}  {self._batches}"

    @property
    def _batches(self) -> str:
        planned, committed = self.planned_batch, self.committed_batch
        if planned is None:
            return "no batch yet"
        if planned == committed:
            return f"batch {committed} committed"
        return f"batch {planned} planned, {'none' if committed is None else committed} committed"


class CheckpointRow(View, frozen=True):
    """A checkpoint in a list: what its files say; the cluster is not asked. `error` is why it
    cannot be read."""

    columns: ClassVar = {
        "checkpoint": "name",
        "query": "query",
        "state": "state",
        "planned": "planned",
        "committed": "committed",
        "error": "error",
    }

    name: str
    query: str | None
    state: str | None
    planned: int | None
    committed: int | None
    error: str | None


class FailedLook(View, frozen=True):
    """Why a query could not be looked at just now."""

    error: str


class KeptSink(View, frozen=True):
    """A sink that rests, how many keys it remembers, and whether its last decision was committed
    again; else why not."""

    columns: ClassVar = {"sink": "sink", "keys": "keys", "kept": "is_kept", "problem": "problem"}

    sink: str
    keys: int
    is_kept: bool
    problem: str | None


class SinkView(View, frozen=True):
    """An exactly-once sink: its last decision, who made it, and what became of the transactions.

    `query` is the query's id, or the key of a batch write; `batch` its batch or version; `keys` how
    many of them the sink remembers."""

    columns: ClassVar = {
        **{
            name: name
            for name in (
                *("sink", "application", "name", "topics", "batch", "transactions", "committed"),
                *("open", "aborted", "undecided", "condition"),
            )
        },
        "last": "last_decided",
    }

    sink: str
    application: str | None
    name: str | None
    topics: list[str]
    query: str | None
    batch: int | None
    decision: int | None
    transactions: int
    committed: int
    open: int
    aborted: int
    undecided: int
    condition: str
    keys: int
    decided_ms: int | None

    @property
    def last_decided(self) -> str | None:
        """When the last batch was decided, by its driver's clock."""
        return None if self.decided_ms is None else iso_time(self.decided_ms)
