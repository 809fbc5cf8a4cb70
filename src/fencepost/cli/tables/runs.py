"""`fencepost tables run`."""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING, Final

from fencepost.cli.cluster_options import command
from fencepost.cli.failures import UsageError
from fencepost.cli.interrupts import Interrupts
from fencepost.cli.key_values import pairs
from fencepost.cli.output import print_result
from fencepost.cli.spark_query import source_options_of, wait_for_query
from fencepost.cli.spark_session import open_session, spark_failures
from fencepost.views.latest_values import MergedTable

if TYPE_CHECKING:
    from fencepost.spark.tables.batches import MergeOptions
    from fencepost.spark.tables.versions import Version

HOUR_MS: Final = 3_600_000


def retention_of(arguments: argparse.Namespace, on_error: str = "fail") -> MergeOptions:
    """What is kept how long. UsageError."""
    from fencepost.spark.tables.batches import DAY_MS, ON_ERROR, MergeOptions

    if on_error not in ON_ERROR:
        raise UsageError(f"--on-error {on_error}: must be one of {', '.join(ON_ERROR)}")
    if arguments.keep_versions < 1:
        raise UsageError(f"--keep-versions {arguments.keep_versions}: must be 1 or more")
    if not 0 <= arguments.keep_hours <= 1e6:
        raise UsageError(f"--keep-hours {arguments.keep_hours:g}: must be from 0 to 1000000")
    days = arguments.keep_deletions_days
    if days != -1 and not 0 <= days <= 1e6:
        raise UsageError(f"--keep-deletions-days {days:g}: must be from 0 to 1000000, or -1")
    return MergeOptions(
        on_error=on_error,
        delete_retention_ms=None if days == -1 else int(days * DAY_MS),
        keep_versions=arguments.keep_versions,
        keep_ms=int(arguments.keep_hours * HOUR_MS),
    )


@command
def run(arguments: argparse.Namespace) -> int:
    """Until what was there is taken in; with --every until it is interrupted."""
    from fencepost.spark.tables.errors import TableError
    from fencepost.spark.tables.query import latest

    options = retention_of(arguments, arguments.on_error)
    source = source_options_of(arguments, subscribe=arguments.topic)
    versions: list[Version] = []
    started = time.monotonic()

    def on_batch(version: Version) -> None:
        versions.append(version)
        print(_told(version), file=sys.stderr, flush=True)

    try:
        with (
            spark_failures(TableError, OSError),
            open_session(arguments, "fencepost tables") as spark,
            Interrupts() as interrupts,
        ):
            query = latest(
                spark,
                source,
                arguments.path,
                decode=arguments.decode,
                schema=arguments.schema,
                key=arguments.key or "key",
                order=arguments.order,
                registry=arguments.registry,
                key_registry=arguments.key_registry,
                semantic_types=pairs(arguments.semantic_type, "--semantic-type"),
                buckets=arguments.buckets,
                format=arguments.format,
                options=options,
                interval=arguments.every,
                on_batch=on_batch,
            )
            wait_for_query(query, interrupts, lambda: None)  # batches tell of themselves
    except KeyboardInterrupt:
        _summary(arguments, versions, time.monotonic() - started)
        raise
    _summary(arguments, versions, time.monotonic() - started)
    return 0


def _told(version: Version) -> str:
    counts = ", ".join(f"{name} {count:,}" for name, count in version.counts.items() if count)
    return f"version {version.number}: {version.row_count:,} rows; {counts or 'nothing new'}"


def _summary(arguments: argparse.Namespace, versions: list[Version], took_s: float) -> None:
    def total(*names: str) -> int:
        return sum(version.counts.get(name, 0) for version in versions for name in names)

    view = MergedTable(
        batches=len(versions),
        events=total("upserts", "deletes", "late", "overtaken", "repeated"),
        rows=versions[-1].row_count if versions else 0,
        version=versions[-1].number if versions else 0,
        late=total("late"),
        overtaken=total("overtaken"),
        repeated=total("repeated"),
        errors=total("errors"),
        took_s=round(took_s, 3),
    )
    sentence = f"{view.events:,} events in {view.batches} batches, {took_s:,.1f} s"
    if versions:
        sentence += f"; version {view.version} has {view.rows:,} rows"
    print_result(arguments, view, sentence)
    sys.stdout.flush()
