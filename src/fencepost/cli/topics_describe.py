"""`fencepost topics describe`: partitions, leaders, replicas, configs, and only those in trouble.

Below the table is why replicas are not in sync.
"""

from __future__ import annotations

import argparse
from typing import Any

from fencepost.cli.cluster_options import command, finish_cluster_command, open_admin
from fencepost.cli.output import print_json, print_table_of


def add_describe(actions: Any) -> None:
    """Add the parser of `fencepost topics describe`."""
    from fencepost.views.topics import FILTERS

    parser = actions.add_parser(
        "describe", help="partitions, leaders, leader epochs, replicas in sync, configs"
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="default: all topics")
    for name, (text, _) in FILTERS.items():
        parser.add_argument(
            f"--{name.replace('_', '-')}", action="store_true", help=f"only partitions {text}"
        )
    finish_cluster_command(parser, describe_topics)


@command
def describe_topics(arguments: argparse.Namespace) -> int:
    """Everything about some topics or all, or those of their partitions that are in trouble."""
    from fencepost.views.topics import FILTERS, PartitionView, viewing_topic

    chosen = [choose for name, (_, choose) in FILTERS.items() if getattr(arguments, name)]
    described = []
    unreachable: dict[int, str] = {}
    with open_admin(arguments) as admin:
        names = arguments.names or [
            topic.name for topic in admin.list_topics(include_internal=bool(chosen))
        ]
        for name in names:
            topic = admin.cluster.run(viewing_topic(admin.cluster, name, chosen, unreachable))
            if topic.partitions or not chosen:
                described.append(topic)
    if arguments.json:
        print_json(described)
        return 0
    for number, topic in enumerate(described):
        if number:
            print()
        configs_text = " ".join(f"{key}={value}" for key, value in topic.configs.items())
        print(f"topic {topic.name}  id {topic.id}  {configs_text}".rstrip())
        print_table_of(PartitionView, topic.partitions)
        for halted in topic.halted:
            print(halted.sentence)
    return 0
