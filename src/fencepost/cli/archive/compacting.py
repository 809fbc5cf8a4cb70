"""`fencepost archive compact` and `maintain`."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import asdict
from datetime import timedelta
from typing import Any

from fencepost.cli.archive.places import layout_of
from fencepost.cli.cluster_options import command
from fencepost.cli.failures import UsageError
from fencepost.cli.output import print_result
from fencepost.cli.rates import Rates, duration
from fencepost.cli.spark_session import open_session, spark_failures
from fencepost.views.archive import CompactedArchive, MaintainedArchive

MB = 1_000_000


@command
def compact(arguments: argparse.Namespace) -> int:
    """Compaction by Spark's tasks, or by the table's own command."""
    from fencepost.arrow.archive.state import PARQUET, read_state
    from fencepost.spark.archive.compaction import compact as compact_archive
    from fencepost.spark.archive.maintaining import compact_table
    from fencepost.spark.archive.running import in_tasks

    def work(spark: Any, layout: Any, target_bytes: int, rates: Rates) -> Any:
        if (format := read_state(layout).data_format) != PARQUET:
            return compact_table(spark, layout, format, target_bytes)
        return compact_archive(
            layout,
            in_tasks(spark),
            target_bytes=target_bytes,
            discard=arguments.discard,
            on_progress=_shown(rates),
        )

    done, took_s = _in_session(arguments, "compact", work)
    view = CompactedArchive(**asdict(done))
    print_result(arguments, view, f"{view.sentence}, {duration(took_s)}")
    return 0


@command
def maintain(arguments: argparse.Namespace) -> int:
    """Compaction, and the removal of what no reader needs."""
    from fencepost.spark.archive.maintaining import maintain as maintain_archive
    from fencepost.spark.archive.running import in_tasks

    retention = timedelta(hours=arguments.retention_hours)

    def work(spark: Any, layout: Any, target_bytes: int, rates: Rates) -> Any:
        return maintain_archive(
            spark, layout, in_tasks(spark), target_bytes, retention, on_progress=_shown(rates)
        )

    done, took_s = _in_session(arguments, "maintain", work)
    view = MaintainedArchive(
        **asdict(done.compacted),
        snapshots_expired=done.snapshots_expired,
        files_removed=done.files_removed,
    )
    print_result(arguments, view, f"{view.sentence}, {duration(took_s)}")
    return 0


def _shown(rates: Rates) -> Callable[[int, int], None]:
    def on_progress(done: int, total: int) -> None:
        rates.total = total
        rates.add(0, done - rates.done, done - rates.done)

    return on_progress


def _in_session(
    arguments: argparse.Namespace, action: str, work: Callable[[Any, Any, int, Rates], Any]
) -> tuple[Any, float]:
    """What `work` returns, given a session, the archive, the target and a meter; and how long it
    took. UsageError, InputError."""
    from fencepost.arrow.archive.layout import ArchiveError

    if not 0 < arguments.target_mb <= 1 << 20:
        raise UsageError(f"--target-mb {arguments.target_mb:g}: must be more than 0")
    rates = Rates(None, quiet=arguments.quiet)
    layout = layout_of(arguments)
    try:
        with spark_failures(ArchiveError, OSError):
            layout.require()
            with open_session(arguments, f"fencepost archive {action}") as spark:
                done = work(spark, layout, int(arguments.target_mb * MB), rates)
    finally:
        rates.close()
    return done, rates.took_s
