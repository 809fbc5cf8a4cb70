"""A micro-batch into the next version of a table, once, whatever dies in between.

1. Tasks write new files for the buckets that the batch changes (`bucket_task`).
2. The driver creates the file of the next version, which names them, query and batch (`versions`).
   The batch counts from here on.
3. The hint and, on local disks, `current` follow.

A driver that is killed before 2 leaves files that no version has (`upkeep` removes them), and Spark
runs the batch again. Killed behind 2, the batch is known by query and number, and skipped.

What is known of the topic is kept with the version: its id, and where the next batch begins.
Another topic of the same name, or a batch that begins before the last one ended, is data that was
lost or rewritten, and is refused; or, for a query with `failOnDataLoss=false`, the beginning of a
new generation, whose events are later than all before.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from fencepost.spark.tables.bucket_task import ALL_COUNTS, BucketReport, BucketWork
from fencepost.spark.tables.columns import evolved_columns
from fencepost.spark.tables.decoding import Decoding
from fencepost.spark.tables.errors import TableError
from fencepost.spark.tables.merging import Rules, deleted_last
from fencepost.spark.tables.versions import PARQUET, Bucket, Version, Versions

FAIL: Final = "fail"
KEEP: Final = "keep"
ON_ERROR: Final = (FAIL, KEEP)
DAY_MS: Final = 24 * 60 * 60 * 1000

RunTasks = Callable[[Decoding, BucketWork], Iterable[BucketReport]]
"""Has tasks decode a batch's records and work on each bucket that has events."""


@dataclass(frozen=True)
class Reach:
    """What a batch reads, as the query's checkpoint says: the topic's id, and per partition where
    the batch begins (None where that is not known) and ends."""

    topic: str
    topic_id: str = ""
    ranges: Mapping[int, tuple[int | None, int]] = field(default_factory=dict)


@dataclass(frozen=True)
class MergeOptions:
    """How a query merges. `delete_retention_ms` is None for deletions that are kept for ever."""

    on_error: str = FAIL
    delete_retention_ms: int | None = 7 * DAY_MS
    keep_versions: int = 10
    keep_ms: int = 60 * 60 * 1000
    fail_on_data_loss: bool = True


def apply_batch(
    versions: Versions,
    decoding: Decoding,
    query: str,
    batch: int,
    reach: Reach,
    options: MergeOptions,
    run: RunTasks,
) -> Version | None:
    """Take a batch in, unless it is there; None then. TableError, OSError, what `run` raises."""
    before = versions.require_newest()
    if before.query == query and batch <= before.batch:
        versions.finish(before)
        versions.expire(options.keep_versions, options.keep_ms)
        return None
    generation = generation_of(before, query, reach, options)
    columns = evolved_columns(before.columns, decoding.columns, before.settings.key)
    horizon = options.delete_retention_ms
    purge = None if horizon is None or before.newest_ms is None else before.newest_ms - horizon
    rules = Rules(
        columns, before.settings.order, generation, before.marks, before.deleted_last, purge
    )
    files = {number: tuple(one.files) for number, one in before.buckets.items()}
    work = BucketWork(versions.storage, rules, files)
    decoding = replace(decoding, columns=columns, wanted=frozenset(decoding.columns.names))
    reports = list(run(decoding, work))
    require_accepted(reports, reach.topic, options.on_error)
    after = replace(
        with_reports(before, reports),
        columns=columns,
        generation=generation,
        query=query,
        batch=batch,
        topic=reach.topic or before.topic,
        topic_id=reach.topic_id or before.topic_id,
        ends={**before.ends, **{number: end for number, (_, end) in reach.ranges.items()}},
    )
    published = versions.publish(after)
    versions.expire(options.keep_versions, options.keep_ms)
    return published


def generation_of(before: Version, query: str, reach: Reach, options: MergeOptions) -> int:
    """The generation of a batch's events. TableError for another topic, or a rewritten log."""
    if before.topic and reach.topic != before.topic:
        raise TableError(f"the table is of topic {before.topic}, not {reach.topic}")
    lost = ""
    if before.topic_id and reach.topic_id and before.topic_id != reach.topic_id:
        lost = (
            f"topic {reach.topic} was deleted and created again: its id was {before.topic_id} and "
            f"is {reach.topic_id}"
        )
    elif query == before.query:
        for partition, (begin, _) in sorted(reach.ranges.items()):
            end = before.ends.get(partition)
            if begin is not None and end is not None and begin < end:
                lost = (
                    f"partition {partition} of {reach.topic} is read from offset {begin}, and was "
                    f"read up to {end}: its log was rewritten"
                )
                break
    if not lost:
        return before.generation
    if options.fail_on_data_loss:
        raise TableError(
            f"{lost}. Rows of the table may be of records that are gone: make a new table, or go "
            "on with failOnDataLoss=false, which takes all new events for later ones"
        )
    return before.generation + 1


def require_accepted(reports: Iterable[BucketReport], topic: str, on_error: str) -> None:
    """TableError where a batch cannot be taken in."""
    for report in sorted(reports, key=lambda one: one.bucket):
        if report.refused:
            raise TableError(f"topic {topic}: {report.refused}")
        if report.first_error and on_error == FAIL:
            raise TableError(
                f"topic {topic}, {report.first_error} ({report.counts['errors']} such records in "
                f"the batch); on_error={KEEP!r} (--on-error {KEEP}) puts them aside"
            )


def with_reports(before: Version, reports: Sequence[BucketReport]) -> Version:
    """A version with what tasks did to its buckets."""
    buckets: dict[int, Bucket] = dict(before.buckets)
    counts = dict.fromkeys(ALL_COUNTS, 0)
    now_ms = time.time_ns() // 1_000_000
    marks, newest, errors, removed = before.marks, before.newest_ms, list(before.errors), []
    for report in reports:
        for name, count in report.counts.items():
            counts[name] += count
        if report.after is not None:
            if report.bucket in buckets:
                removed += buckets[report.bucket].files
            buckets[report.bucket] = report.after
        if report.errors is not None:
            errors.append(report.errors)
        marks = report.marks or marks  # a truncation went to all buckets
        if report.newest_ms is not None:
            # A record of the far future must not have all deletions forgotten.
            at = min(report.newest_ms, now_ms)
            newest = at if newest is None else max(at, newest)
    return replace(
        before,
        buckets=dict(sorted(buckets.items())),
        counts=counts,
        totals={name: before.totals.get(name, 0) + count for name, count in counts.items()},
        marks=marks,
        deleted_last=deleted_last([one.lasts for one in reports], before.deleted_last),
        newest_ms=newest,
        errors=tuple(errors),
        removed=tuple(removed) if before.settings.format == PARQUET else (),
    )


def in_this_process(records: Any) -> RunTasks:
    """Runs a batch's work here, without Spark, on a table of records (`decoding.RECORD_COLUMNS`):
    for small batches and tests."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from fencepost.spark.tables.decoding import decode_records
    from fencepost.spark.tables.merging import events_schema

    def run(decoding: Decoding, work: BucketWork) -> list[BucketReport]:
        batches = [decode_records(one, decoding) for one in records.to_batches()]
        events = pa.Table.from_batches(batches, schema=events_schema(decoding.columns))
        numbers = sorted(pc.unique(events["bucket"]).to_pylist())
        return [
            work.merge_bucket(number, events.filter(pc.equal(events["bucket"], number)))
            for number in numbers
        ]

    return run
