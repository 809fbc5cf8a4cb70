"""Tables of latest values, as commands show them."""

from __future__ import annotations

from typing import ClassVar

from fencepost.views.view import View


class TableBucket(View, frozen=True):
    """A bucket of a table and its files."""

    columns: ClassVar = {
        "bucket": "bucket",
        "rows": "rows",
        "deletions": "deletions",
        "MB": "megabytes",
    }

    bucket: int
    rows: int
    deletions: int
    file_bytes: int

    @property
    def megabytes(self) -> str:
        return f"{self.file_bytes / 1e6:.1f}"


class TableEnd(View, frozen=True):
    """Which offset of a partition the table's next batch begins with."""

    columns: ClassVar = {"partition": "partition", "next-offset": "next_offset"}

    partition: int
    next_offset: int


class TableStatus(View, frozen=True):
    """A version of a table."""

    version: int
    oldest_version: int
    published_ms: int
    format: str
    decode: str
    key: list[str]
    order: str
    types: dict[str, str]
    topic: str
    topic_id: str
    generation: int
    query: str
    batch: int
    rows: int
    deletions: int
    errors_files: int
    totals: dict[str, int]
    ends: list[TableEnd]
    buckets: list[TableBucket]
    problems: list[str]

    @property
    def sentence(self) -> str:
        """What is most asked for."""
        types = ", ".join(f"{name} {kind}" for name, kind in self.types.items())
        done = ", ".join(f"{name} {count:,}" for name, count in self.totals.items() if count)
        topic = self.topic or "no topic yet"
        return (
            f"version {self.version} (oldest {self.oldest_version}), {self.format}, of {topic}: "
            f"{self.rows:,} rows, {self.deletions:,} deletions\n"
            f"key {', '.join(self.key)}, order {self.order}, decode {self.decode}\n"
            f"columns {types}\n"
            f"so far {done or 'nothing'}"
        )


class MergedTable(View, frozen=True):
    """What a run did to a table. Events are `late` if the table knew of later ones of their keys,
    `overtaken` if such were in the same batch; neither changes anything."""

    batches: int
    events: int
    rows: int
    version: int
    late: int
    overtaken: int
    repeated: int
    errors: int
    took_s: float


class MaintainedTable(View, frozen=True):
    """What went from a table."""

    expired_versions: int
    purged_deletes: int
    unused_files: int
    unused_bytes: int

    @property
    def sentence(self) -> str:
        return (
            f"{self.expired_versions} versions expired, {self.purged_deletes:,} deletions "
            f"forgotten, {self.unused_files} unused files removed "
            f"({self.unused_bytes / 1e6:,.1f} MB)"
        )
