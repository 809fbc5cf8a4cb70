"""`fencepost archive status` and `verify`."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from fencepost.cli.archive.places import layout_of
from fencepost.cli.cluster_options import command, open_cluster
from fencepost.cli.failures import as_input_errors
from fencepost.cli.output import print_json, print_table_of
from fencepost.cli.spark_query import kafka_options
from fencepost.cli.spark_session import open_session, spark_failures
from fencepost.views.archive import (
    ArchivedDate,
    ArchivedPartition,
    ArchiveStatus,
    ComparedPartition,
)

if TYPE_CHECKING:
    from fencepost.spark.archive.checking import Status
    from fencepost.spark.archive.comparing import Compared


@command
def status(arguments: argparse.Namespace) -> int:
    """Without Spark."""
    from fencepost.arrow.archive.layout import ArchiveError
    from fencepost.spark.archive.checking import status as status_of

    with as_input_errors(ArchiveError, OSError):
        found = status_of(layout_of(arguments))
    _print(arguments, found, None)
    return 1 if found.all_problems else 0


@command
def verify(arguments: argparse.Namespace) -> int:
    """By all that is in the files, and in the topics if asked."""
    from fencepost.arrow.archive.layout import ArchiveError
    from fencepost.spark.archive.checking import verify as verify_archive
    from fencepost.spark.archive.running import in_tasks

    layout = layout_of(arguments)
    compared: list[Compared] | None = None
    with spark_failures(ArchiveError, OSError):
        layout.require()
        with open_session(arguments, "fencepost archive verify") as spark:
            found = verify_archive(layout, in_tasks(spark))
            if arguments.against_topic:
                compared = _compare(arguments, spark, layout)
    _print(arguments, found, compared)
    differs = any(not one.same for one in compared or [])
    return 1 if found.all_problems or differs else 0


def _compare(arguments: argparse.Namespace, spark: Any, layout: Any) -> list[Compared]:
    from fencepost.spark.archive.comparing import compare

    with open_cluster(arguments) as cluster:
        return compare(spark, layout, kafka_options(arguments), cluster)


def _print(arguments: argparse.Namespace, found: Status, compared: list[Compared] | None) -> None:
    view = ArchiveStatus(
        batch=found.batch,
        format=found.format,
        dates=[ArchivedDate(**asdict(one)) for one in found.dates],
        partitions=[
            ArchivedPartition(**asdict(one), gaps=one.gaps, without_record=one.without_record)
            for one in found.partitions
        ],
        problems=found.all_problems,
        compared=None
        if compared is None
        else [ComparedPartition(**asdict(one)) for one in compared],
    )
    if arguments.json:
        print_json(view)
        return
    print(view.sentence)
    print_table_of(ArchivedDate, view.dates)
    print()
    print_table_of(ArchivedPartition, view.partitions)
    if view.compared is not None:
        print()
        print_table_of(ComparedPartition, view.compared)
    for text in view.problems:
        print(text)
