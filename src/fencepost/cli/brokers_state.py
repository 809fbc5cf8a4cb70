"""What the commands about brokers ask in common: who runs, who votes, and what is on whom."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from fencepost.cli.cluster_options import bootstrap_servers, client_config, connect_limit_ms
from fencepost.cli.failures import InputError
from fencepost.client.errors import ClientError
from fencepost.views.view import count

if TYPE_CHECKING:
    from fencepost.client.admin import Admin, ClusterDescription
    from fencepost.client.quorum import QuorumDescription


def quorum_of(arguments: argparse.Namespace) -> QuorumDescription | None:
    """The metadata quorum; None where the cluster cannot describe it."""
    from fencepost.client.quorum import QuorumAdmin

    config = client_config(arguments, bootstrap_servers(arguments))
    with QuorumAdmin(config) as admin:
        try:
            admin.connect(connect_limit_ms(arguments, config))
            return admin.describe()
        except ClientError:
            return None


def check_unregistrable(admin: Admin, broker_id: int) -> None:
    """Whether nothing is lost, and the broker does not register again. InputError."""
    from fencepost.views.brokers import counts

    replicas, _, _ = counts(admin.list_topics(include_internal=True))
    if replicas[broker_id]:
        raise InputError(
            f"{count(replicas[broker_id], 'replica')} assigned to broker {broker_id}:"
            f" `fencepost brokers decommission {broker_id}` moves them away first"
        )
    if is_running(admin.describe_cluster(include_fenced=True), broker_id):
        raise InputError(f"broker {broker_id} runs, and would register again: stop it first")


def is_running(found: ClusterDescription, broker_id: int) -> bool:
    """Whether the broker is registered and not fenced."""
    known = {node.node_id for node in found.brokers}
    return broker_id in known and broker_id not in found.fenced
