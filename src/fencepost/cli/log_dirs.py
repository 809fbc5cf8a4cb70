"""`fencepost log-dirs`: what is in brokers' log directories, and moving replicas (KIP-113)."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from fencepost.cli.cluster_options import (
    command,
    finish_cluster_command,
    open_cluster,
    partition_of,
)
from fencepost.cli.commands import add_actions
from fencepost.cli.failures import UsageError
from fencepost.cli.output import counted, print_json, print_table
from fencepost.cli.partition_words import broker_ids, existing_partitions, print_outcomes
from fencepost.wire.errors import ErrorCode, error_name

if TYPE_CHECKING:
    from fencepost.client.replicas import LogDirState

EXAMPLES = """\
examples:
  fencepost log-dirs describe
  fencepost log-dirs describe --broker 1,2 orders flights:3
  fencepost log-dirs move orders:0 orders:1 --broker 1 --to /data/second
"""


def register(subparsers: Any) -> None:
    """Add the parser of `fencepost log-dirs`."""
    parser = subparsers.add_parser(
        "log-dirs",
        help="log directories of brokers: what is in them, moving replicas between them",
        description="Log directories of brokers.",
        epilog=EXAMPLES,
    )
    actions = add_actions(parser)
    describing = actions.add_parser("describe", help="directories, and replicas in them")
    describing.add_argument(
        "partitions", nargs="*", metavar="PARTITION", help="TOPIC or TOPIC:PARTITION, default: all"
    )
    describing.add_argument("--broker", metavar="ID,ID", help="default: all brokers")
    finish_cluster_command(describing, describe)

    moving = actions.add_parser("move", help="have a broker copy replicas to another directory")
    moving.add_argument("partitions", nargs="+", metavar="TOPIC:PARTITION")
    moving.add_argument("--broker", type=int, required=True, metavar="ID", help="whose replicas")
    moving.add_argument(
        "--to", required=True, metavar="PATH", help="a directory as in the broker's log.dirs"
    )
    finish_cluster_command(moving, move)


@command
def describe(arguments: argparse.Namespace) -> int:
    """All directories of the brokers with their replicas."""
    from fencepost.client.admin import Admin

    with open_cluster(arguments) as cluster:
        admin = Admin(cluster)
        named = existing_partitions(admin, arguments.partitions)
        cluster.describe([])
        known = sorted(cluster.metadata.nodes)
        brokers = broker_ids(arguments.broker, "--broker") if arguments.broker else known
        found = [
            (broker, state)
            for broker in brokers
            for state in admin.describe_log_dirs(broker, named or None)
        ]
    if arguments.json:
        print_json([as_json(broker, state) for broker, state in found])
        return 0
    for number, (broker, state) in enumerate(found):
        if number:
            print()
        print(f"broker {broker}  {state.path}  {_condition(state)}")
        if state.replicas:
            print_table(
                ("topic", "partition", "bytes", "lag", ""),
                [
                    (*where, one.size_bytes, one.offset_lag, "future" if one.is_future else "")
                    for where, one in sorted(state.replicas.items())
                ],
            )
    return 0


def _condition(state: LogDirState) -> str:
    if state.error_code != ErrorCode.NONE:
        return f"offline: {error_name(state.error_code)}"
    words = [counted(len(state.replicas), "replica")]
    if state.usable_bytes >= 0:
        words.append(f"{state.usable_bytes >> 20} of {state.total_bytes >> 20} MiB free")
    if state.is_cordoned:
        words.append("cordoned")
    return ", ".join(words)


def as_json(broker: int, state: LogDirState) -> dict[str, Any]:
    """A log directory of a broker with its replicas."""
    return {
        "broker": broker,
        "path": state.path,
        "error": error_name(state.error_code) if state.error_code else None,
        "total_bytes": state.total_bytes if state.total_bytes >= 0 else None,
        "usable_bytes": state.usable_bytes if state.usable_bytes >= 0 else None,
        "cordoned": state.is_cordoned,
        "replicas": [
            {
                "topic": where.topic,
                "partition": where.partition,
                "size_bytes": one.size_bytes,
                "offset_lag": one.offset_lag,
                "future": one.is_future,
            }
            for where, one in sorted(state.replicas.items())
        ],
    }


@command
def move(arguments: argparse.Namespace) -> int:
    """Begin; `describe` shows a future replica until the copy has taken the other's place."""
    from fencepost.client.admin import Admin

    if not arguments.to.startswith("/"):
        raise UsageError(f"--to {arguments.to!r}: must be an absolute path, as in log.dirs")
    targets = {partition_of(text, "PARTITION"): arguments.to for text in arguments.partitions}
    with open_cluster(arguments) as cluster:
        outcomes = Admin(cluster).alter_replica_log_dirs(arguments.broker, targets)
    return print_outcomes(arguments, outcomes, "begun")
