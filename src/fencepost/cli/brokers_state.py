"""What the commands about brokers ask in common: who runs, who votes, and what is on whom."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from fencepost.cli.cluster_options import client_config, connect_limit_ms
from fencepost.cli.failures import InputError
from fencepost.cli.output import counted
from fencepost.client.errors import ClientError

if TYPE_CHECKING:
    from fencepost.client.admin import Admin, ClusterDescription
    from fencepost.client.metadata import TopicInfo
    from fencepost.client.quorum import QuorumDescription


def counts(topics: Iterable[TopicInfo]) -> tuple[Counter[int], Counter[int], Counter[int]]:
    """By broker: its replicas, the partitions that it leads, its replicas that are out of sync."""
    replicas: Counter[int] = Counter()
    leads: Counter[int] = Counter()
    out_of_sync: Counter[int] = Counter()
    for topic in topics:
        for partition in topic.partitions.values():
            replicas.update(partition.replicas)
            leads[partition.leader_id] += 1
            out_of_sync.update(set(partition.replicas) - set(partition.isr))
    return replicas, leads, out_of_sync


def quorum_of(arguments: argparse.Namespace) -> QuorumDescription | None:
    """The metadata quorum; None where the cluster cannot describe it."""
    from fencepost.client.quorum import QuorumAdmin

    config = client_config(arguments, arguments.bootstrap_server)
    with QuorumAdmin(config) as admin:
        try:
            admin.connect(connect_limit_ms(arguments, config))
            return admin.describe()
        except ClientError:
            return None


def check_unregistrable(admin: Admin, broker_id: int) -> None:
    """Whether nothing is lost, and the broker does not register again. InputError."""
    replicas, _, _ = counts(admin.list_topics(include_internal=True))
    if replicas[broker_id]:
        raise InputError(
            f"{counted(replicas[broker_id], 'replica')} assigned to broker {broker_id}:"
            f" `fencepost brokers decommission {broker_id}` moves them away first"
        )
    if is_running(admin.describe_cluster(include_fenced=True), broker_id):
        raise InputError(f"broker {broker_id} runs, and would register again: stop it first")


def is_running(found: ClusterDescription, broker_id: int) -> bool:
    """Whether the broker is registered and not fenced."""
    known = {node.node_id for node in found.brokers}
    return broker_id in known and broker_id not in found.fenced
