"""`fencepost archive replay`, `offsets`, `translate` and `continue`."""

from __future__ import annotations

import argparse
import csv
from pathlib import Path
from typing import TYPE_CHECKING

from fencepost.cli.archive.places import layout_of
from fencepost.cli.cluster_options import client_config, command, open_cluster
from fencepost.cli.failures import as_input_errors
from fencepost.cli.output import print_json, print_table, print_views
from fencepost.cli.rates import Rates, duration
from fencepost.cli.spark_query import kafka_options
from fencepost.cli.spark_session import open_session, spark_failures
from fencepost.views.rates import ContinuedPartition, ReplayedRecords, TranslatedOffset

if TYPE_CHECKING:
    from fencepost.spark.archive.replaying import StepDone

OFFSET_COLUMNS = (
    "topic", "topic_id", "partition", "offset", "new_topic", "new_partition", "new_offset",
)  # fmt: skip


def _written_options(arguments: argparse.Namespace) -> dict[str, str]:
    """The options of the sink that a replay writes with."""
    return kafka_options(arguments) | {
        "topic": arguments.to,
        "deliveryGuarantee": "exactly-once",
        "keepTimestamps": "true",
    }


@command
def replay(arguments: argparse.Namespace) -> int:
    """By Spark's tasks, in transactions."""
    from fencepost.arrow.archive.layout import ArchiveError
    from fencepost.spark.archive.replaying import STEP_RECORDS, replay as replay_archive
    from fencepost.spark.archive.running import in_tasks
    from fencepost.spark.options import sink_options
    from fencepost.spark.sink_errors import ExactlyOnceError

    layout = layout_of(arguments)
    rates = Rates(None, quiet=arguments.quiet)

    def on_step(done: StepDone) -> None:
        rates.total = done.steps
        rates.done = done.step
        rates.add(done.rows, done.data_bytes, 1)

    try:
        with spark_failures(ArchiveError, ExactlyOnceError, OSError):
            layout.require()
            sink = sink_options(_written_options(arguments))
            with open_session(arguments, "fencepost archive replay") as spark:
                plan = replay_archive(
                    layout,
                    sink,
                    in_tasks(spark),
                    name=arguments.name or arguments.to,
                    topic=arguments.topic,
                    keep_partitions=not arguments.by_key,
                    step_records=arguments.step_records or STEP_RECORDS,
                    spark=spark,
                    on_step=on_step,
                )
    finally:
        rates.close()
    if arguments.json:
        took_s = round(rates.took_s, 3)
        print_json(ReplayedRecords(rates.rows, rates.data_bytes, took_s))
        return 0
    print(
        f"replayed {rates.rows:,} records of {plan.topic} into {plan.new_topic} in "
        f"{len(plan.steps)} steps, {duration(rates.took_s)}, "
        f"{rates.data_bytes / 1e6 / rates.took_s:,.1f} MB/s"
    )
    return 0


@command
def offsets(arguments: argparse.Namespace) -> int:
    """As runs, or a row for each record in a CSV file."""
    from fencepost.arrow.archive.layout import ArchiveError
    from fencepost.spark.archive.offset_map import each_offset
    from fencepost.spark.archive.replaying import read_offsets

    with as_input_errors(ArchiveError, OSError):
        table = read_offsets(layout_of(arguments), arguments.name)
        if arguments.csv:
            with Path(arguments.csv).open("w", newline="") as file:
                writer = csv.writer(file)
                writer.writerow(OFFSET_COLUMNS)
                writer.writerows(each_offset(table))
            return 0
    if arguments.json:
        print_json(table.to_pylist())
    else:
        print_table(table.column_names, [tuple(row.values()) for row in table.to_pylist()])
    return 0


@command
def translate(arguments: argparse.Namespace) -> int:
    """A group's offsets in the new topic, committed there if asked."""
    from fencepost.arrow.archive.layout import ArchiveError
    from fencepost.client.cluster import Cluster
    from fencepost.client.groups import GroupAdmin
    from fencepost.client.metadata import CommittedOffset
    from fencepost.spark.archive.offset_map import translate as translated
    from fencepost.spark.archive.replaying import last_topic_id, read_offsets

    layout = layout_of(arguments)
    with as_input_errors(ArchiveError, OSError):
        table = read_offsets(layout, arguments.name)
        with open_cluster(arguments) as cluster:
            known = GroupAdmin(cluster).group_offsets(arguments.group)
        committed = {where: one.offset for where, one in known.items()}
        found = translated(table, committed, last_topic_id(layout, arguments.name))
    group = arguments.new_group or arguments.group
    if arguments.commit_to:
        config = client_config(arguments, arguments.commit_to)
        with Cluster(config=config) as target:
            GroupAdmin(target).alter_group_offsets(
                group, {where: CommittedOffset(offset) for where, offset in found.items()}
            )
    rows = [TranslatedOffset(group, *where, offset) for where, offset in found.items()]
    print_views(arguments, TranslatedOffset, rows)
    return 0


@command
def go_on(arguments: argparse.Namespace) -> int:
    """Where the archive goes on."""
    from fencepost.arrow.archive.layout import ArchiveError
    from fencepost.arrow.checkpoint import CheckpointError
    from fencepost.spark.archive.continuing import continue_archive

    layout = layout_of(arguments)
    with (
        as_input_errors(ArchiveError, CheckpointError, OSError),
        open_cluster(arguments, isolation_level="read_committed") as cluster,
    ):
        found = continue_archive(layout, cluster, arguments.name)
    rows = [ContinuedPartition(*where, *at) for where, at in sorted(found.items())]
    print_views(arguments, ContinuedPartition, rows)
    return 0
