"""`fencepost tables status`, `verify` and `maintain`: without Spark."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import TYPE_CHECKING

from fencepost.cli.cluster_options import command
from fencepost.cli.failures import UsageError, as_input_errors
from fencepost.cli.output import print_json, print_result, print_table_of
from fencepost.cli.tables.runs import HOUR_MS, retention_of
from fencepost.views.latest_values import MaintainedTable, TableBucket, TableEnd, TableStatus

if TYPE_CHECKING:
    from fencepost.spark.tables.versions import Version, Versions


def _versions(arguments: argparse.Namespace) -> Versions:
    from fencepost.arrow.storage import storage_at
    from fencepost.spark.tables.versions import Versions

    return Versions(storage_at(arguments.path))


@command
def status(arguments: argparse.Namespace) -> int:
    """By the file of the newest version alone."""
    from fencepost.spark.tables.errors import TableError

    with as_input_errors(TableError, OSError):
        versions = _versions(arguments)
        found = versions.require_newest()
        oldest = versions.numbers()[0]
    _print(arguments, found, oldest, [])
    return 0


@command
def verify(arguments: argparse.Namespace) -> int:
    """By all files of a version; exit code 1 where something is wrong."""
    from fencepost.spark.tables.errors import TableError
    from fencepost.spark.tables.upkeep import verify as verify_table

    with as_input_errors(TableError, OSError):
        versions = _versions(arguments)
        found, problems = verify_table(versions, arguments.version)
        oldest = versions.numbers()[0]
    _print(arguments, found, oldest, problems)
    return 1 if problems else 0


@command
def maintain(arguments: argparse.Namespace) -> int:
    """Remove what is not needed."""
    from fencepost.spark.tables.errors import TableError
    from fencepost.spark.tables.upkeep import maintain as maintain_table

    if not 0 <= arguments.unused_hours <= 1e6:
        raise UsageError(f"--unused-hours {arguments.unused_hours:g}: must be from 0 to 1000000")
    options = retention_of(arguments)
    with as_input_errors(TableError, OSError):
        unused_ms = int(arguments.unused_hours * HOUR_MS)
        done = maintain_table(_versions(arguments), options, unused_ms=unused_ms)
    view = MaintainedTable(**asdict(done))
    print_result(arguments, view, view.sentence)
    return 0


def _print(arguments: argparse.Namespace, found: Version, oldest: int, problems: list[str]) -> None:
    view = TableStatus(
        version=found.number,
        oldest_version=oldest,
        published_ms=found.published_ms,
        format=found.settings.format,
        decode=found.settings.decode,
        key=list(found.settings.key),
        order=found.settings.order,
        types={one.name: str(one.type) for one in found.columns},
        topic=found.topic,
        topic_id=found.topic_id,
        generation=found.generation,
        query=found.query,
        batch=found.batch,
        rows=found.row_count,
        deletions=sum(one.delete_count for one in found.buckets.values()),
        errors_files=len(found.errors),
        totals=dict(found.totals),
        ends=[TableEnd(number, end) for number, end in sorted(found.ends.items())],
        buckets=[
            TableBucket(number, one.row_count, one.delete_count, one.file_bytes)
            for number, one in found.buckets.items()
        ],
        problems=problems,
    )
    if arguments.json:
        print_json(view)
        return
    print(view.sentence)
    print_table_of(TableBucket, view.buckets)
    print()
    print_table_of(TableEnd, view.ends)
    for text in view.problems:
        print(text)
