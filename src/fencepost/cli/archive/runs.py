"""`fencepost archive run`."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from fencepost.cli.archive.places import layout_of
from fencepost.cli.cluster_options import command
from fencepost.cli.failures import UsageError, as_input_errors
from fencepost.cli.interrupts import Interrupts
from fencepost.cli.output import print_json
from fencepost.cli.rates import Rates, duration
from fencepost.cli.spark_query import source_options_of, wait_for_query
from fencepost.cli.spark_session import open_session, spark_failures
from fencepost.views.rates import ArchivedRecords

if TYPE_CHECKING:
    from fencepost.spark.archive.batches import Written


def source_of(arguments: argparse.Namespace) -> dict[str, str]:
    """Options of the source as the command line gives them. UsageError."""
    if bool(arguments.topics) == bool(arguments.pattern):
        raise UsageError("name topics, or give a --pattern")
    if arguments.pattern:
        return source_options_of(arguments, subscribePattern=arguments.pattern)
    return source_options_of(arguments, subscribe=",".join(arguments.topics))


@command
def run(arguments: argparse.Namespace) -> int:
    """Until what was there is archived; with --every until it is interrupted."""
    from fencepost.arrow.archive.layout import ArchiveError
    from fencepost.arrow.errors import ReadError
    from fencepost.spark.errors import SparkError

    source = source_of(arguments)
    layout = layout_of(arguments)
    with (
        as_input_errors(ArchiveError, ReadError, SparkError, OSError),
        layout.lock("writer", wait=False, holder="another run that archives"),
    ):
        return _run(arguments, layout, source)


def _run(arguments: argparse.Namespace, layout: Any, source: dict[str, str]) -> int:
    from fencepost.spark.archive.progress import offsets_to_read
    from fencepost.spark.archive.query import archive_topics, prepare, source_options_of

    options = source_options_of(source)
    prepare(layout, arguments.format, checkpoint=arguments.checkpoint)
    total = offsets_to_read(layout, options) if arguments.every is None else None
    rates = Rates(total, quiet=arguments.quiet)
    batches: list[Written] = []

    def on_batch(written: Written) -> None:
        batches.append(written)
        done = sum(end - start for start, end in written.read.values())
        rates.add(written.rows, written.data_bytes, done)

    try:
        # Entered when there is a session: PySpark then has a handler of its own, which calls Java
        # in the middle of a call of Java and tells of that at length.
        with (
            spark_failures(),
            open_session(arguments, "fencepost archive") as spark,
            Interrupts() as interrupts,
        ):
            query = archive_topics(
                spark,
                source,
                layout,
                format=arguments.format,
                interval=arguments.every,
                on_batch=on_batch,
            )
            wait_for_query(query, interrupts, rates.show)
    except KeyboardInterrupt:
        rates.close()
        _summary(arguments, rates, batches)
        raise
    finally:
        rates.close()
    _summary(arguments, rates, batches)
    return 0


def _summary(arguments: argparse.Namespace, rates: Rates, batches: list[Written]) -> None:
    file_bytes = sum(one.file_bytes for one in batches)
    files = sum(one.files for one in batches)
    if arguments.json:
        print_json(
            ArchivedRecords(
                len(batches),
                rates.rows,
                rates.data_bytes,
                file_bytes,
                files,
                round(rates.took_s, 3),
            )
        )
        return
    if arguments.format != "parquet":
        print(f"archived as {arguments.format} in {arguments.directory}/table")
        return
    print(
        f"archived {rates.rows:,} records ({rates.data_bytes / 1e6:,.1f} MB, in files "
        f"{file_bytes / 1e6:,.1f} MB) in {len(batches)} batches and {files} files, "
        f"{duration(rates.took_s)}, {rates.data_bytes / 1e6 / rates.took_s:,.1f} MB/s"
    )
    sys.stdout.flush()
