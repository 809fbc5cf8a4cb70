"""`fencepost log-dirs`: what is in brokers' log directories, and moving replicas (KIP-113)."""

from __future__ import annotations

import argparse
from typing import Any

from fencepost.cli.cluster_options import (
    command,
    finish_cluster_command,
    open_admin,
    partition_of,
)
from fencepost.cli.commands import add_actions
from fencepost.cli.failures import UsageError
from fencepost.cli.output import print_json, print_table_of
from fencepost.cli.partition_words import broker_ids, existing_partitions, print_outcomes

EXAMPLES = """\
examples:
  fencepost log-dirs describe
  fencepost log-dirs describe --broker 1,2 orders flights:3
  fencepost log-dirs move orders:0 orders:1 --broker 1 --to /data/second
"""


def register(subparsers: Any) -> None:
    """Add the parser of `fencepost log-dirs`."""
    parser = subparsers.add_parser(
        "log-dirs", description="Log directories of brokers.", epilog=EXAMPLES
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
    from fencepost.views.log_dirs import LogDirView, StoredReplica

    with open_admin(arguments) as admin:
        named = existing_partitions(admin, arguments.partitions)
        admin.cluster.describe([])
        known = sorted(admin.cluster.metadata.nodes)
        brokers = broker_ids(arguments.broker, "--broker") if arguments.broker else known
        found = [
            LogDirView.of(broker, state)
            for broker in brokers
            for state in admin.describe_log_dirs(broker, named or None)
        ]
    if arguments.json:
        print_json(found)
        return 0
    for number, one in enumerate(found):
        if number:
            print()
        print(f"broker {one.broker}  {one.path}  {one.condition}")
        if one.replicas:
            print_table_of(StoredReplica, one.replicas)
    return 0


@command
def move(arguments: argparse.Namespace) -> int:
    """Begin; `describe` shows a future replica until the copy has taken the other's place."""

    if not arguments.to.startswith("/"):
        raise UsageError(f"--to {arguments.to!r}: must be an absolute path, as in log.dirs")
    targets = {partition_of(text, "PARTITION"): arguments.to for text in arguments.partitions}
    with open_admin(arguments) as admin:
        outcomes = admin.alter_replica_log_dirs(arguments.broker, targets)
    return print_outcomes(arguments, outcomes, "begun")
