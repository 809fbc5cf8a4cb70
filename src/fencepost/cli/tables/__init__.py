"""`fencepost tables`: topics as tables of latest values, by Spark."""

from __future__ import annotations

import argparse
from typing import Any

from fencepost.cli.cluster_options import add_cluster_options
from fencepost.cli.commands import add_actions, add_repeatable
from fencepost.cli.output import add_json_option
from fencepost.cli.spark_query import add_query_options
from fencepost.cli.spark_session import add_spark_options

EXAMPLES = """\
PATH is a directory that driver and executors see under the same path, or a URI of a store.

examples:
  fencepost tables run /data/orders orders -b kafka-1:9092
  fencepost tables run /data/customers shop.public.customers -b kafka-1:9092 \\
      --decode debezium --schema 'id long, name string, email string' --key id
  fencepost tables status /data/customers
  fencepost tables verify /data/customers
  fencepost tables maintain /data/customers --keep-versions 5
"""


def register(subparsers: Any) -> None:
    """Add the parser of `fencepost tables`."""
    parser = subparsers.add_parser(
        "tables",
        description="Tables of the latest value of each key, written by Spark.",
        epilog=EXAMPLES,
    )
    actions = add_actions(parser)
    _add_run(actions)
    _add_upkeep(actions)


def _action(actions: Any, name: str, text: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = actions.add_parser(name, help=text, epilog=EXAMPLES)
    parser.add_argument("path", metavar="PATH", help="where the table is")
    add_json_option(parser)
    return parser


def _add_run(actions: Any) -> None:
    from fencepost.cli.tables.runs import run

    parser = _action(actions, "run", "take in what a topic has, or go on doing so")
    parser.add_argument("topic", metavar="TOPIC")
    parser.add_argument(
        "--decode",
        default="bytes",
        metavar="FORMAT",
        help="bytes (default), json, debezium, or flat (Debezium's ExtractNewRecordState)",
    )
    parser.add_argument("--schema", help='the columns, in Spark\'s words: "id long, name string"')
    parser.add_argument(
        "--key",
        action="append",
        metavar="COLUMN",
        help="a column of the key (repeatable); not for bytes",
    )
    parser.add_argument(
        "--order", help="topic, timestamp or source (default: source for change data, else topic)"
    )
    parser.add_argument("--registry", metavar="URL", help="a schema registry, for values")
    parser.add_argument("--key-registry", metavar="URL", help="a schema registry, for keys")
    add_repeatable(
        parser,
        "--semantic-type",
        metavar="COLUMN=TYPE",
        help="what events do not say of a column: Decimal, Timestamp, MicroTimestamp, ...",
    )
    parser.add_argument("--buckets", type=int, metavar="N", help="of a new table (default: 16)")
    parser.add_argument(
        "--format", default="parquet", help="parquet (default), delta or iceberg, by their MERGE"
    )
    parser.add_argument(
        "--on-error",
        default="fail",
        metavar="WHAT",
        help="records that cannot be understood: fail (default), or keep them aside",
    )
    add_query_options(parser)
    _add_retention(parser)
    add_spark_options(parser)
    add_cluster_options(parser)
    parser.set_defaults(run=run)


def _add_retention(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--keep-versions", type=int, default=10, metavar="N", help="at least so many (default: 10)"
    )
    parser.add_argument(
        "--keep-hours",
        type=float,
        default=1.0,
        metavar="N",
        help="and all that were replaced within so many hours (default: 1)",
    )
    parser.add_argument(
        "--keep-deletions-days",
        type=float,
        default=7.0,
        metavar="N",
        help="remember deletions so long, by the records' timestamps (default: 7; -1: for ever)",
    )


def _add_upkeep(actions: Any) -> None:
    from fencepost.cli.tables.upkeep import maintain, status, verify

    parser = _action(actions, "status", "what a table has, by its newest version")
    parser.set_defaults(run=status)
    parser = _action(actions, "verify", "read everything: missing files, misplaced or doubled keys")
    parser.add_argument("--version", type=int, metavar="N", help="of this one, not the newest")
    parser.set_defaults(run=verify)
    parser = _action(actions, "maintain", "remove old versions, deletions and unused files")
    _add_retention(parser)
    parser.add_argument(
        "--unused-hours",
        type=float,
        default=24.0,
        metavar="N",
        help="remove files that no version has when they are so old (default: 24)",
    )
    parser.set_defaults(run=maintain)
