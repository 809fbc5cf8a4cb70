"""`fencepost epochs TOPIC`: where each leader epoch of a topic's partitions begins and ends.

The boundaries are asked of the leaders with OffsetForLeaderEpoch, from the current epoch back to
the log's beginning, so this works against any broker that offers version 2 of it.
"""

from __future__ import annotations

import argparse
from typing import Any

from fencepost.cli.cluster_options import add_cluster_options, command, open_cluster
from fencepost.cli.failures import UsageError
from fencepost.cli.output import add_json_option, print_json, print_table

EPILOG = """\
Every leader notes the offset at which its epoch begins before it takes a write. A table in which
an epoch begins below an offset that a reader had reached before is a log that was cut.

examples:
  fencepost epochs orders
  fencepost epochs orders --partition 3 --json
"""


def register(subparsers: Any) -> None:
    """Add the parser of `fencepost epochs`."""
    parser = subparsers.add_parser(
        "epochs",
        help="where each leader epoch of a topic begins and ends",
        description="Where each leader epoch of a topic's partitions begins and ends.",
        epilog=EPILOG,
    )
    parser.add_argument("topic")
    parser.add_argument(
        "--partition", type=int, action="append", metavar="N", help="only this (repeatable)"
    )
    add_json_option(parser)
    add_cluster_options(parser)
    parser.set_defaults(run=run)


@command
def run(arguments: argparse.Namespace) -> int:
    """Ask, and print a table or JSON."""
    from fencepost.client.metadata import TopicPartition
    from fencepost.client.offsets import epoch_spans

    rows = []
    with open_cluster(arguments) as cluster:
        existing = cluster.topic(arguments.topic).partition_ids
        unknown = sorted(set(arguments.partition or ()) - set(existing))
        if unknown:
            raise UsageError(f"topic {arguments.topic} has no partition {unknown[0]}")
        for number in sorted(set(arguments.partition or existing)):
            for span in epoch_spans(cluster, TopicPartition(arguments.topic, number)):
                rows.append({"partition": number, **span._asdict()})
    if arguments.json:
        print_json({"topic": arguments.topic, "epochs": rows})
    else:
        print_table(
            ("partition", "leader epoch", "start offset", "end offset"),
            [tuple(row.values()) for row in rows],
        )
    return 0
