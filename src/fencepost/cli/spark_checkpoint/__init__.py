"""`fencepost spark checkpoint`: what a query's checkpoint says, and the query's start elsewhere.

Without `--execute` the commands that change something say what they would do.
"""

from __future__ import annotations

import argparse
from typing import Any

from fencepost.cli.cluster_options import finish_cluster_command
from fencepost.cli.commands import add_actions, add_repeatable
from fencepost.cli.partition_words import add_topic_option
from fencepost.cli.spark_checkpoint.moving import move
from fencepost.cli.spark_checkpoint.showing import show
from fencepost.cli.spark_checkpoint.translating import convert, translate

EXAMPLES = """\
CHECKPOINT is the checkpointLocation of a query that reads topics, with .format("fencepost") or
with Spark's own connector: a path or a URI (file:, s3://, gs://, abfs://, hdfs://). Stop the query
first.

examples:
  fencepost spark checkpoint show /data/checkpoints/orders
  fencepost spark checkpoint move /data/checkpoints/orders --to 2026-01-31T12:00:00 --execute
  fencepost spark checkpoint move /data/checkpoints/orders --shift-by -1000 --topic orders:0
  fencepost spark checkpoint convert /data/checkpoints/orders --to kafka --execute
  fencepost spark checkpoint translate /data/checkpoints/orders --archive /data/orders \\
      --replay orders-again --execute
"""


def register(actions: Any) -> None:
    """Add the parser of `fencepost spark checkpoint` and its own actions."""
    parser = actions.add_parser(
        "checkpoint", help="show a query's checkpoint, or have it start elsewhere", epilog=EXAMPLES
    )
    inner = add_actions(parser)
    showing = _action(inner, "show", "sources, offsets, batches and state")
    finish_cluster_command(showing, show)
    _add_move(inner)
    converting = _action(inner, "convert", "for the other connector, without a batch")
    converting.add_argument(
        "--to", required=True, choices=("kafka", "fencepost"), help="the format that reads it next"
    )
    _add_changing(converting)
    finish_cluster_command(converting, convert)
    _add_translate(inner)


def _action(inner: Any, name: str, text: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = inner.add_parser(name, help=text, epilog=EXAMPLES)
    parser.add_argument("checkpoint", metavar="CHECKPOINT", help="a path or a URI")
    add_repeatable(
        parser,
        "--storage",
        metavar="KEY=VALUE",
        help="a setting of its store, such as endpoint_override=HOST:PORT (repeatable)",
    )
    return parser


def _add_changing(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--execute", action="store_true", help="do it; else it is only told")
    parser.add_argument(
        "--force", action="store_true", help="though a batch was written a moment ago"
    )


def _add_move(inner: Any) -> None:
    parser = _action(inner, "move", "other offsets to go on from")
    way = parser.add_mutually_exclusive_group(required=True)
    way.add_argument(
        "--to",
        metavar="WHERE",
        help="earliest, latest, an offset, @MILLISECONDS, or a time like 2026-01-31T12:00:00 (UTC)",
    )
    way.add_argument("--shift-by", type=int, metavar="N", help="so many offsets on, or (-N) back")
    way.add_argument(
        "--offsets", metavar="JSON", help='{"topic":{"0":23}}, or @FILE; needs no brokers'
    )
    add_topic_option(parser)
    parser.add_argument("--source", metavar="NAME", help="only this source of the query")
    parser.add_argument(
        "--forget-missing",
        action="store_true",
        help="leave partitions out that do not exist any more",
    )
    _add_abandon(parser)
    _add_changing(parser)
    finish_cluster_command(parser, move)


def _add_abandon(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--abandon-batch", action="store_true", help="give up a batch that cannot be finished"
    )


def _add_translate(inner: Any) -> None:
    parser = _action(inner, "translate", "offsets in a replayed, copied or migrated topic")
    way = parser.add_mutually_exclusive_group(required=True)
    way.add_argument("--replay", metavar="NAME", help="of the archive that --archive names")
    way.add_argument("--syncs", metavar="TOPIC", help="MirrorMaker 2's topic of offset syncs")
    way.add_argument("--same-offsets", action="store_true", help="the copy keeps offsets")
    way.add_argument("--by-time", action="store_true", help="by the first unread record's time")
    way.add_argument("--offsets", metavar="JSON", help='the new ones, {"topic":{"0":23}} or @FILE')
    parser.add_argument("--archive", metavar="DIR", help="the archive that was replayed")
    add_repeatable(
        parser,
        "--rename",
        metavar="OLD=NEW",
        help="topics and what they are called now (repeatable)",
    )
    parser.add_argument(
        "--old-servers",
        metavar="HOST:PORT",
        help="brokers that have the old topic and the syncs (default: those of -b)",
    )
    _add_abandon(parser)
    _add_changing(parser)
    finish_cluster_command(parser, translate)
