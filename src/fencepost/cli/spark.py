"""`fencepost spark`: streaming queries of Spark, seen from their checkpoints, and their sinks."""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import TYPE_CHECKING, Any, Final

from fencepost.cli.cluster_options import command, finish_cluster_command, open_cluster
from fencepost.cli.commands import add_actions
from fencepost.cli.failures import as_input_errors
from fencepost.cli.output import print_json, print_table_of
from fencepost.cli.stores import add_storage_option, storage_settings
from fencepost.client.errors import ClientError
from fencepost.views.rendering import document_of

if TYPE_CHECKING:
    from pathlib import Path

    from fencepost.arrow.archives import Archive
    from fencepost.arrow.storage import Storage
    from fencepost.client.cluster import Cluster
    from fencepost.views.queries import FailedLook, QueryView

INTERVAL_S: Final = 2.0
INTERVAL_MAX_S: Final = 3600.0
CLEAR: Final = "\x1b[H\x1b[2J"
WATCHING = """\
CHECKPOINT is the checkpointLocation of any query that reads topics, with .format("fencepost") or
with Spark's own connector: a path or a URI (file:, s3://, gs://, abfs://, hdfs://). Nothing is
changed or committed.

examples:
  fencepost spark watch /data/checkpoints/orders
  fencepost spark watch /data/checkpoints/orders --once --json | jq '[.partitions[].lag] | add'
  fencepost spark watch file:///data/checkpoints/orders -b kafka-1:9092 --interval 10
  fencepost spark watch /data/checkpoints/orders --archive s3a://lake/orders
"""
EXAMPLES = """\
examples:
  fencepost spark watch /data/checkpoints/orders
  fencepost spark checkpoint show /data/checkpoints/orders
  fencepost spark sinks --unfinished
  fencepost spark finish nightly-export
  fencepost spark forget nightly-export --keys-older-than 30
  fencepost spark keep
"""


def register(subparsers: Any) -> None:
    """Add the parser of `fencepost spark`."""
    from fencepost.cli import spark_checkpoint, spark_sinks

    parser = subparsers.add_parser(
        "spark", description="Streaming queries of Spark, and what they write.", epilog=EXAMPLES
    )
    actions = add_actions(parser)
    spark_sinks.register(actions)
    spark_checkpoint.register(actions)
    watching = actions.add_parser(
        "watch", help="a query's checkpoint against the cluster, again and again", epilog=WATCHING
    )
    watching.add_argument("checkpoint", metavar="CHECKPOINT", help="a path or a URI")
    watching.add_argument("--once", action="store_true", help="look once")
    watching.add_argument(
        "--interval",
        type=_interval,
        default=INTERVAL_S,
        metavar="SECONDS",
        help=f"between two looks (default: {INTERVAL_S:g})",
    )
    watching.add_argument(
        "--archive",
        metavar="DIR",
        help="the archive that the query reads from (option archive): what it has is not lost",
    )
    add_storage_option(watching, "--archive")
    finish_cluster_command(watching, watch)


def _interval(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds") from None
    if not 0.1 <= seconds <= INTERVAL_MAX_S:
        raise argparse.ArgumentTypeError(f"{text}: must be from 0.1 to {INTERVAL_MAX_S:g}")
    return seconds


@command
def watch(arguments: argparse.Namespace) -> int:
    """A row per source and partition; without --once until it is interrupted."""
    from fencepost.arrow.checkpoint import CheckpointError
    from fencepost.arrow.errors import ReadError
    from fencepost.arrow.storage import StorageError, storage_at
    from fencepost.spark.lag import CLIENT_PROPERTIES
    from fencepost.spark.query_look import look_at_query

    with as_input_errors(CheckpointError, StorageError, ReadError):
        directory = storage_at(arguments.checkpoint)
        archive = _archive(arguments)
        defaults = {key.replace(".", "_"): value for key, value in CLIENT_PROPERTIES.items()}
        with open_cluster(arguments, **defaults) as cluster:
            view = look_at_query(cluster, directory, archive)
            _show(view, arguments)
            while not arguments.once:
                time.sleep(arguments.interval)
                _show(_look_again(cluster, directory, archive), arguments)
    return 0


def _archive(arguments: argparse.Namespace) -> Archive | None:
    """The archive that the query reads from. ArgumentError."""
    from fencepost.arrow.arguments import archive_of

    return archive_of(arguments.archive, storage_settings(arguments) or None)


def _look_again(
    cluster: Cluster, directory: Path | Storage, archive: Archive | None
) -> QueryView | FailedLook:
    """A look whose failure is shown in the view: the next one may work."""
    from fencepost.arrow.checkpoint import CheckpointError
    from fencepost.arrow.errors import ReadError
    from fencepost.spark.query_look import look_at_query
    from fencepost.views.queries import FailedLook

    try:
        return look_at_query(cluster, directory, archive)
    except (CheckpointError, ClientError, ReadError) as error:
        return FailedLook(str(error))


def _show(view: QueryView | FailedLook, arguments: argparse.Namespace) -> None:
    if arguments.json and arguments.once:
        print_json(view)
    elif arguments.json:
        print(json.dumps(document_of(view)), flush=True)
    else:
        is_screen = sys.stdout.isatty() and not arguments.once
        if is_screen:
            print(CLEAR, end="")
        _print(view)
        if not arguments.once:
            print("" if not is_screen else time.strftime("\n%H:%M:%S  Ctrl-C ends"), flush=True)


def _print(view: QueryView | FailedLook) -> None:
    from fencepost.views.queries import FailedLook, QueryPartition

    if isinstance(view, FailedLook):
        print(view.error)
        return
    print(view.heading)
    print_table_of(QueryPartition, view.partitions)
    for partition in view.partitions:
        if partition.warning is not None:
            print(partition.warning)
    for name in view.other_sources:
        print(f"source {name} does not read topics")
