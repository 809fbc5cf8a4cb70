"""`fencepost brokers`: the brokers of a cluster, what is on them, and how one is taken out."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, NamedTuple

from fencepost.cli.brokers_state import check_unregistrable, counts, quorum_of
from fencepost.cli.cluster_options import (
    INT32_MAX,
    check_number,
    client_config,
    command,
    finish_cluster_command,
    open_cluster,
)
from fencepost.cli.commands import add_actions
from fencepost.cli.failures import UsageError
from fencepost.cli.output import counted, print_json, print_table
from fencepost.client.errors import ClientError

if TYPE_CHECKING:
    from fencepost.client.admin import Admin
    from fencepost.client.metadata import Node
    from fencepost.client.quorum import QuorumDescription

EXAMPLES = """\
A broker is decommissioned in steps: its replicas are copied to other brokers, then it may be
stopped, then the cluster forgets it. The command does the first and the last, and waits in between.
When it is interrupted, the same command goes on.

examples:
  fencepost brokers list
  fencepost brokers describe 1 2
  fencepost brokers decommission 4 --dry-run          (which replicas would move where)
  fencepost brokers decommission 4 --throttle 50000000
  fencepost brokers unregister 4                      (no replica is assigned to it any more)
  fencepost brokers unregister 4 --force              (its disk is lost, and it will not come back)
"""


def register(subparsers: Any) -> None:
    """Add the parser of `fencepost brokers`."""
    from fencepost.cli import brokers_decommission

    parser = subparsers.add_parser(
        "brokers",
        help="list, describe, decommission and unregister brokers",
        description="The brokers of a cluster.",
        epilog=EXAMPLES,
    )
    actions = add_actions(parser)
    listing = actions.add_parser("list", help="address, rack, state, role in the quorum, replicas")
    finish_cluster_command(listing, list_brokers)

    describing = actions.add_parser(
        "describe", help="also epochs, features and log directories of each"
    )
    describing.add_argument("brokers", nargs="*", type=int, metavar="ID", help="default: all")
    finish_cluster_command(describing, describe_brokers)

    brokers_decommission.register(actions)

    removing = actions.add_parser("unregister", help="forget a broker that will not come back")
    removing.add_argument("broker", type=int, metavar="ID")
    removing.add_argument(
        "--force",
        action="store_true",
        help="though it runs, and registers again, or replicas are assigned to it",
    )
    finish_cluster_command(removing, unregister)


class BrokerState(NamedTuple):
    """A registered broker: where it is, whether it is fenced, and what is on it."""

    node: Node
    is_fenced: bool
    quorum_role: str | None
    replicas: int
    leads: int
    out_of_sync: int


@command
def list_brokers(arguments: argparse.Namespace) -> int:
    """A row per registered broker, fenced ones among them."""
    from fencepost.client.admin import Admin

    with open_cluster(arguments) as cluster:
        states = _states(Admin(cluster), quorum_of(arguments))
    if arguments.json:
        print_json([_as_json(state) for state in states])
        return 0
    print_table(
        ("broker", "address", "rack", "state", "quorum", "replicas", "leads", "out-of-sync"),
        [
            (
                state.node.node_id,
                state.node.address,
                state.node.rack,
                "fenced" if state.is_fenced else "unfenced",
                state.quorum_role,
                *state[3:],
            )
            for state in states
        ],
    )
    return 0


@command
def describe_brokers(arguments: argparse.Namespace) -> int:
    """Everything that can be asked about some brokers, or all."""
    from fencepost.client.admin import Admin

    documents = []
    with open_cluster(arguments) as cluster:
        admin = Admin(cluster)
        quorum = quorum_of(arguments)
        states = {state.node.node_id: state for state in _states(admin, quorum)}
        epochs = _epochs(arguments, quorum)
        for id_ in arguments.brokers or states:
            if id_ not in states:
                raise UsageError(f"no broker {id_} is registered; there are {sorted(states)}")
            document = _as_json(states[id_]) | {"broker_epoch": epochs.get(id_)}
            document["leader_epoch_of_quorum"] = quorum.leader_epoch if quorum else None
            documents.append(document | _told_by_itself(admin, states[id_]))
    if arguments.json:
        print_json(documents)
        return 0
    for number, document in enumerate(documents):
        if number:
            print()
        _print_document(document)
    return 0


def _states(admin: Admin, quorum: QuorumDescription | None) -> list[BrokerState]:
    """Every registered broker, by id."""
    found = admin.describe_cluster(include_fenced=True)
    replicas, leads, out_of_sync = counts(admin.list_topics(include_internal=True))
    return [
        BrokerState(
            node,
            node.node_id in found.fenced,
            _quorum_role(node.node_id, quorum),
            replicas[node.node_id],
            leads[node.node_id],
            out_of_sync[node.node_id],
        )
        for node in found.brokers
    ]


def _epochs(arguments: argparse.Namespace, quorum: QuorumDescription | None) -> dict[int, int]:
    """Broker epochs; none where no controller is reached from here, as of a node that is alone."""
    from fencepost.client.registrations import broker_epochs

    if quorum is None:
        return {}
    try:
        return broker_epochs(client_config(arguments, arguments.bootstrap_server), quorum)
    except ClientError:
        return {}


def _quorum_role(broker_id: int, quorum: QuorumDescription | None) -> str | None:
    """A combined node has the broker and the controller under one id."""
    if quorum is None:
        return None
    if broker_id == quorum.leader_id:
        return "leader"
    return "voter" if broker_id in {one.node_id for one in quorum.voters} else "observer"


def _as_json(state: BrokerState) -> dict[str, Any]:
    return {
        "broker": state.node.node_id,
        "host": state.node.host,
        "port": state.node.port,
        "rack": state.node.rack,
        "fenced": state.is_fenced,
        "quorum_role": state.quorum_role,
        "replicas": state.replicas,
        "leads": state.leads,
        "out_of_sync": state.out_of_sync,
    }


def _told_by_itself(admin: Admin, state: BrokerState) -> dict[str, Any]:
    """What only the broker knows; `error` says why it was not asked or does not answer."""
    from fencepost.cli.log_dirs import as_json
    from fencepost.client.features import FeatureAdmin

    told: dict[str, Any] = dict.fromkeys(("features_epoch", "features", "log_dirs", "error"))
    if state.is_fenced:
        return told | {"error": "it is fenced, and was not asked"}
    try:
        features = FeatureAdmin(admin.cluster).describe(state.node)
        epoch = admin.cluster.connection(state.node).api_versions.features.epoch
        directories = admin.describe_log_dirs(state.node.node_id)
    except ClientError as error:
        return told | {"error": str(error)}
    told["features_epoch"] = epoch
    told["features"] = [asdict(one) for one in features]
    told["log_dirs"] = [as_json(state.node.node_id, one) for one in directories]
    return told


def _print_document(document: dict[str, Any]) -> None:
    from fencepost.cli.failures import escaped
    from fencepost.cli.features import level_text

    state = "fenced" if document["fenced"] else "unfenced"
    rack = document["rack"] or "-"
    line = f"broker {document['broker']}  {document['host']}:{document['port']}  rack {rack}"
    epoch = document["broker_epoch"]
    print(escaped(f"{line}  {state}  broker epoch {'-' if epoch is None else epoch}"))
    if document["quorum_role"] is not None:
        epoch = document["leader_epoch_of_quorum"]
        print(f"metadata quorum: {document['quorum_role']}, leader epoch {epoch}")
    print(
        f"{counted(document['replicas'], 'replica')}, leads {document['leads']},"
        f" out of sync {document['out_of_sync']}"
    )
    if document["error"] is not None:
        print(escaped(f"not known: features and log directories: {document['error']}"))
        return
    print(f"epoch of the finalized features: {document['features_epoch']}")
    for one in document["features"]:
        name, least, most = one["name"], one["min_level"], one["max_level"]
        span = f"{level_text(name, least)} to {level_text(name, most)}"
        print(f"feature {name}: level {level_text(name, one['level'])}, runs {span}")
    for one in document["log_dirs"]:
        free = one["usable_bytes"]
        space = "" if free is None else f", {free >> 20} of {one['total_bytes'] >> 20} MiB free"
        replicas = counted(len(one["replicas"]), "replica")
        condition = f"offline: {one['error']}" if one["error"] else f"{replicas}{space}"
        print(escaped(f"log directory {one['path']}: {condition}"))


@command
def unregister(arguments: argparse.Namespace) -> int:
    """Forget a broker; refused while it runs or something is assigned to it, unless forced."""
    from fencepost.client.admin import Admin

    check_number("ID", arguments.broker, 0, INT32_MAX)
    with open_cluster(arguments) as cluster:
        admin = Admin(cluster)
        if not arguments.force:
            check_unregistrable(admin, arguments.broker)
        admin.unregister_broker(arguments.broker)
    if arguments.json:
        print_json({"unregistered": arguments.broker})
    else:
        print(f"broker {arguments.broker} is unregistered")
    return 0
