"""`fencepost archive`: topics into partitioned files by Spark, and back into topics."""

from __future__ import annotations

import argparse
from typing import Any

from fencepost.cli.archive.places import add_place_options
from fencepost.cli.cluster_options import add_cluster_options
from fencepost.cli.commands import add_actions
from fencepost.cli.output import add_json_option
from fencepost.cli.spark_query import add_query_options
from fencepost.cli.spark_session import add_spark_options

EXAMPLES = """\
DIR is a directory that driver and executors see under the same path, or one in an object store or
HDFS: s3a://BUCKET/DIR, gs://BUCKET/DIR, abfs://CONTAINER@ACCOUNT.dfs.core.windows.net/DIR,
hdfs://HOST/DIR.

examples:
  fencepost archive run /data/orders orders -b kafka-1:9092
  fencepost archive run /data/all --pattern 'shop\\..*' --every "30 seconds" --master spark://s:7077
  fencepost archive compact /data/orders
  fencepost archive maintain s3a://lake/orders --conf spark.hadoop.fs.s3a.endpoint.region=eu-west-1
  fencepost archive verify /data/orders --against-topic -b kafka-1:9092
  fencepost archive replay /data/orders --to orders-again -b kafka-2:9092
  fencepost archive offsets /data/orders orders-again --csv offsets.csv
  fencepost archive translate /data/orders orders-again --group billing -b kafka-1:9092
  fencepost archive continue /data/orders orders-again -b kafka-2:9092
"""


def register(subparsers: Any) -> None:
    """Add the parser of `fencepost archive`."""
    parser = subparsers.add_parser(
        "archive",
        description="Archives of topics: Parquet files by topic and date, written by Spark.",
        epilog=EXAMPLES,
    )
    actions = add_actions(parser)
    _add_run(actions)
    _add_compact(actions)
    _add_maintain(actions)
    _add_status(actions)
    _add_verify(actions)
    _add_replay(actions)
    _add_offsets(actions)
    _add_translate(actions)
    _add_continue(actions)


def _action(actions: Any, name: str, text: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = actions.add_parser(name, help=text, epilog=EXAMPLES)
    add_place_options(parser)
    add_json_option(parser)
    return parser


def _add_run(actions: Any) -> None:
    from fencepost.cli.archive.runs import run

    parser = _action(actions, "run", "archive what topics have, or go on doing so")
    parser.add_argument("topics", nargs="*", metavar="TOPIC")
    parser.add_argument(
        "--pattern",
        help="topics in whose name it is found, as subscribePattern; ^...$ for whole names",
    )
    parser.add_argument(
        "--format", default="parquet", help="parquet (default), or a format of Spark such as delta"
    )
    parser.add_argument(
        "--checkpoint",
        metavar="LOCATION",
        help="where Spark keeps the query's checkpoint (default: in DIR)",
    )
    add_query_options(parser)
    parser.add_argument("--quiet", action="store_true", help="no progress")
    add_spark_options(parser)
    add_cluster_options(parser)
    parser.set_defaults(run=run)


def _add_compact(actions: Any) -> None:
    from fencepost.cli.archive.compacting import compact

    parser = _action(actions, "compact", "make few files of many small ones")
    parser.add_argument("--target-mb", type=float, default=256, metavar="N", help="default: 256")
    parser.add_argument(
        "--discard", action="store_true", help="remove replaced files now, not at the next run"
    )
    parser.add_argument("--quiet", action="store_true", help="no progress")
    add_spark_options(parser)
    parser.set_defaults(run=compact)


def _add_maintain(actions: Any) -> None:
    from fencepost.cli.archive.compacting import maintain

    parser = _action(actions, "maintain", "compact, and remove what no reader needs any more")
    parser.add_argument("--target-mb", type=float, default=256, metavar="N", help="default: 256")
    parser.add_argument(
        "--retention-hours",
        type=float,
        default=168,
        metavar="N",
        help="of a table, keep versions and files that are younger (default: a week; at least 24)",
    )
    parser.add_argument("--quiet", action="store_true", help="no progress")
    add_spark_options(parser)
    parser.set_defaults(run=maintain)


def _add_status(actions: Any) -> None:
    from fencepost.cli.archive.upkeep import status

    parser = _action(actions, "status", "what is archived, by names and footers of files")
    parser.set_defaults(run=status)


def _add_verify(actions: Any) -> None:
    from fencepost.cli.archive.upkeep import verify

    parser = _action(actions, "verify", "read everything: gaps, duplicates, damage")
    parser.add_argument(
        "--against-topic",
        action="store_true",
        help="compare contents with the topics, as far as they still have the records",
    )
    add_spark_options(parser)
    add_cluster_options(parser)
    parser.set_defaults(run=verify)


def _add_replay(actions: Any) -> None:
    from fencepost.cli.archive.replays import replay

    parser = _action(actions, "replay", "write an archived topic into a topic, exactly once")
    parser.add_argument("--to", required=True, metavar="TOPIC", help="made if it is not there")
    parser.add_argument("--topic", metavar="TOPIC", help="of the archive, where it has several")
    parser.add_argument(
        "--name", help="under which it goes on after it was ended (default: the new topic)"
    )
    parser.add_argument(
        "--by-key", action="store_true", help="partitions by key, not those of the archive"
    )
    parser.add_argument(
        "--step-records", type=int, metavar="N", help="offsets of a partition in a transaction"
    )
    parser.add_argument("--quiet", action="store_true", help="no progress")
    add_spark_options(parser)
    add_cluster_options(parser)
    parser.set_defaults(run=replay)


def _add_offsets(actions: Any) -> None:
    from fencepost.cli.archive.replays import offsets

    parser = _action(actions, "offsets", "old and new offsets of a replay's records")
    parser.add_argument("name", metavar="NAME", help="the replay's")
    parser.add_argument("--csv", metavar="FILE", help="a row for each record")
    parser.set_defaults(run=offsets)


def _add_translate(actions: Any) -> None:
    from fencepost.cli.archive.replays import translate

    parser = _action(actions, "translate", "where a consumer group goes on in the replayed topic")
    parser.add_argument("name", metavar="NAME", help="the replay's")
    parser.add_argument("--group", required=True, help="whose offsets in the old topic are asked")
    parser.add_argument("--commit-to", metavar="HOST:PORT", help="commit them there, for the group")
    parser.add_argument("--new-group", metavar="GROUP", help="commit them for this one instead")
    add_cluster_options(parser)
    parser.set_defaults(run=translate)


def _add_continue(actions: Any) -> None:
    from fencepost.cli.archive.replays import go_on

    parser = _action(
        actions, "continue", "have the archive go on in the replayed topic, where the replay ended"
    )
    parser.add_argument("name", metavar="NAME", help="the replay's")
    add_cluster_options(parser)
    parser.set_defaults(run=go_on)
