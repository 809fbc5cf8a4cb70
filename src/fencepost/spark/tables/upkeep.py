"""Care of a table without Spark: what is there, whether it is sound, and what may go.

`verify` reads every file of a version: that it is there and has the rows that the version says,
that each row is in the bucket of its key, no key is there twice, rows and deletions are apart.

`maintain` removes what no version needs: versions that are too old, the files that only they have,
files that a killed task or driver left. A file that no version has may be of a batch that runs now,
so it goes only when it is older than `unused_ms`. It also forgets old deletions in buckets that no
batch has changed since, as one more version.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from fencepost.spark.tables.batches import DAY_MS, MergeOptions, with_reports
from fencepost.spark.tables.bucket_task import BucketReport, BucketWork, read_file
from fencepost.spark.tables.decoding import bucket_of
from fencepost.spark.tables.errors import TableError
from fencepost.spark.tables.merging import Rules, events_schema, merge
from fencepost.spark.tables.versions import Bucket, Version, Versions

UNUSED_MS: Final = DAY_MS
PROBLEMS_MAX: Final = 100


@dataclass(frozen=True, slots=True)
class Maintained:
    """What `maintain` did."""

    expired_versions: int
    purged_deletes: int
    unused_files: int
    unused_bytes: int


def maintain(
    versions: Versions, options: MergeOptions | None = None, *, unused_ms: int = UNUSED_MS
) -> Maintained:
    """Remove what is not needed; see the module. No query may write meanwhile, or this fails, or
    the query does (TableError), and is to be run again. OSError."""
    options = options or MergeOptions()
    purged = _purge(versions, options)
    expired = versions.expire(options.keep_versions, options.keep_ms)
    files, size = _remove_unused(versions, unused_ms)
    return Maintained(len(expired), purged, files, size)


def _purge(versions: Versions, options: MergeOptions) -> int:
    """Forget old deletions; how many."""
    table = versions.require_newest()
    horizon = options.delete_retention_ms
    if horizon is None or table.newest_ms is None:
        return 0
    rules = Rules(table.columns, table.settings.order, purge_before_ms=table.newest_ms - horizon)
    reports = []
    for number, bucket in table.buckets.items():
        if bucket.deletes is None or _is_younger(versions, bucket.deletes, rules):
            continue
        work = BucketWork(versions.storage, rules, {number: tuple(bucket.files)})
        nothing = events_schema(table.columns).empty_table()
        merged = merge(work.read_bucket(number), nothing, rules)
        after = work.write_bucket(number, merged.rows)
        reports.append(BucketReport(number, merged.counts, after))
    if not reports:
        return 0
    done = versions.publish(replace(with_reports(table, reports), marks=table.marks))
    return done.counts["purged"]


def _is_younger(versions: Versions, file: str, rules: Rules) -> bool:
    """Whether none of a file's deletions is old."""
    oldest = pc.min(read_file(versions.storage, file)["__timestamp_ms"]).as_py()
    assert rules.purge_before_ms is not None
    return oldest is None or oldest >= rules.purge_before_ms


def _remove_unused(versions: Versions, unused_ms: int) -> tuple[int, int]:
    """Remove files of rows that no version has."""
    used: set[str] = set()
    for number in versions.numbers():
        version = versions.read(number)
        used |= {*version.files, *version.errors}
    now_ms = time.time_ns() // 1_000_000
    count = size = 0
    for place in ("data", "errors"):
        for entry in versions.storage.list(place):
            if entry.path not in used and now_ms - entry.modified_ms >= unused_ms:
                versions.storage.delete(entry.path)
                count, size = count + 1, size + entry.size
    return count, size


def verify(versions: Versions, number: int | None = None) -> tuple[Version, list[str]]:
    """A version, the newest by default, and what is wrong with it: the first PROBLEMS_MAX. One
    bucket at a time is in memory. TableError where there is no such version."""
    version = versions.require_newest() if number is None else versions.read(number)
    problems: list[str] = []
    for at, bucket in version.buckets.items():
        for problem in _bucket_problems(versions, version, at, bucket):
            problems.append(f"bucket {at}: {problem}")
            if len(problems) >= PROBLEMS_MAX:
                return version, problems
    for file in version.errors:
        if not versions.storage.exists(file):
            problems.append(f"{file} is missing")
    return version, problems


def _bucket_problems(
    versions: Versions, version: Version, number: int, bucket: Bucket
) -> Iterator[str]:
    if not 0 <= number < version.settings.buckets:
        yield f"is none of {version.settings.buckets}"
    seen: list[pa.ChunkedArray] = []
    parts: tuple[tuple[str | None, int, bool], ...] = (
        (bucket.rows, bucket.row_count, False),
        (bucket.deletes, bucket.delete_count, True),
    )
    for file, count, deleted in parts:
        if file is None:
            if count:
                yield f"{count} rows are in no file"
            continue
        try:
            table = read_file(versions.storage, file)
            keys = table["__key"]
            flags: Any = pc.unique(table["__deleted"]).to_pylist()
        except (TableError, KeyError) as error:
            yield str(error)
            continue
        seen.append(keys)
        if table.num_rows != count:
            yield f"{file} has {table.num_rows} rows, not {count}"
        if flags != [deleted]:
            yield f"{file} has rows and deletions"
        strange = sum(
            key is None or bucket_of(key, version.settings.buckets) != number
            for key in keys.to_pylist()
        )
        if strange:
            yield f"{file} has {strange} rows of other buckets"
    whole = pa.chunked_array([chunk for keys in seen for chunk in keys.chunks], pa.binary())
    twice = len(whole) - pc.count_distinct(whole, mode="all").as_py()
    if twice:
        yield f"{twice} keys are there twice"
