"""`fencepost topics describe`: partitions, leaders, replicas, configs, and only those in trouble.

Who is eligible to lead (KIP-966) comes from DescribeTopicPartitions. A broker without that API is
asked for Metadata, and what it does not tell is shown as not known. Below the table is why replicas
are not in sync.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from fencepost.cli.cluster_options import command, finish_cluster_command, open_cluster
from fencepost.cli.halted_replicas import halted_replicas
from fencepost.cli.output import print_json, print_table

if TYPE_CHECKING:
    from fencepost.client.admin import Admin
    from fencepost.client.metadata import TopicInfo

COLUMNS = (
    "partition",
    "leader",
    "epoch",
    "replicas",
    "isr",
    "offline",
    "elr",
    "last-known-elr",
)
Chosen = Callable[[dict[str, Any], int], bool]
"""Whether a partition is to be shown, given its topic's min.insync.replicas."""

FILTERS: dict[str, tuple[str, Chosen]] = {
    "under_replicated": (
        "with replicas that are not in sync",
        lambda one, least: len(one["isr"]) < len(one["replicas"]),
    ),
    "unavailable": ("without a leader", lambda one, least: one["leader"] < 0),
    "under_min_isr": (
        "with fewer in sync than min.insync.replicas",
        lambda one, least: len(one["isr"]) < least,
    ),
    "at_min_isr": (
        "with just as many in sync as min.insync.replicas",
        lambda one, least: len(one["isr"]) == least,
    ),
}
"""By option: what it says, and which partitions it chooses. Several choose what any does."""


def add_describe(actions: Any) -> None:
    """Add the parser of `fencepost topics describe`."""
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
    from fencepost.client.admin import Admin

    chosen = [choose for name, (_, choose) in FILTERS.items() if getattr(arguments, name)]
    described = []
    unreachable: dict[int, str] = {}
    with open_cluster(arguments) as cluster:
        admin = Admin(cluster)
        names = arguments.names or [
            topic.name for topic in admin.list_topics(include_internal=bool(chosen))
        ]
        for name in names:
            entry = _topic(admin, name, chosen, unreachable)
            if entry["partitions"] or not chosen:
                described.append(entry)
    if arguments.json:
        print_json(described)
        return 0
    for number, entry in enumerate(described):
        if number:
            print()
        configs_text = " ".join(f"{key}={value}" for key, value in entry["configs"].items())
        print(f"topic {entry['name']}  id {entry['id']}  {configs_text}".rstrip())
        print_table(COLUMNS, [tuple(partition.values()) for partition in entry["partitions"]])
        for one in entry["halted"]:
            print("partition {partition}, replica {replica}: {why}".format_map(one))
    return 0


def _topic(
    admin: Admin, name: str, chosen: list[Chosen], unreachable: dict[int, str]
) -> dict[str, Any]:
    """One topic, with those of its partitions that are chosen; with all if nothing chooses."""
    from fencepost.client.admin import TOPIC_RESOURCE

    topic = admin.describe_topic(name)
    configs = admin.describe_configs(TOPIC_RESOURCE, name)
    min_isr = next(
        (int(c.value) for c in configs if c.name == "min.insync.replicas" and c.value), 1
    )
    partitions = _partitions(admin, topic)
    if chosen:
        partitions = [one for one in partitions if any(choose(one, min_isr) for choose in chosen)]
    return {
        "name": name,
        "id": str(topic.topic_id),
        "internal": topic.is_internal,
        "configs": {c.name: c.value for c in configs if c.source == "topic"},
        "partitions": partitions,
        "halted": [one._asdict() for one in halted_replicas(admin, name, partitions, unreachable)],
    }


def _partitions(admin: Admin, topic: TopicInfo) -> list[dict[str, Any]]:
    """The partitions in order, with their eligible replicas if the broker tells of them."""
    from fencepost.client.errors import UnsupportedApi

    try:
        told = admin.describe_partitions([topic.name])
    except UnsupportedApi:
        return [
            _partition(number, asdict(topic.partitions[number])) for number in topic.partition_ids
        ]
    return [_partition(where.partition, asdict(state)) for where, state in sorted(told.items())]


def _partition(number: int, state: dict[str, Any]) -> dict[str, Any]:
    """As it is shown; None is what the broker did not tell."""
    return {
        "partition": number,
        "leader": state["leader_id"],
        "leader_epoch": state["leader_epoch"],
        "replicas": list(state["replicas"]),
        "isr": list(state["isr"]),
        "offline": list(state["offline"]),
        "elr": list(state["eligible"]) if "eligible" in state else None,
        "last_known_elr": list(state["last_known"]) if "last_known" in state else None,
    }
