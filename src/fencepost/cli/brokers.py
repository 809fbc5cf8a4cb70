"""`fencepost brokers`: the brokers of a cluster, what is on them, and how one is taken out."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from fencepost.cli.brokers_state import check_unregistrable, quorum_of
from fencepost.cli.cluster_options import (
    INT32_MAX,
    bootstrap_servers,
    check_number,
    client_config,
    command,
    finish_cluster_command,
    open_admin,
    open_cluster,
)
from fencepost.cli.commands import add_actions
from fencepost.cli.failures import UsageError
from fencepost.cli.output import print_json, print_result, print_views
from fencepost.client.errors import ClientError

if TYPE_CHECKING:
    from fencepost.client.quorum import QuorumDescription
    from fencepost.views.brokers import BrokerDetails

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
        "brokers", description="The brokers of a cluster.", epilog=EXAMPLES
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


@command
def list_brokers(arguments: argparse.Namespace) -> int:
    """A row per registered broker, fenced ones among them."""
    from fencepost.views.brokers import BrokerView, viewing_brokers

    with open_cluster(arguments) as cluster:
        found = cluster.run(viewing_brokers(cluster, quorum_of(arguments)))
    print_views(arguments, BrokerView, found)
    return 0


@command
def describe_brokers(arguments: argparse.Namespace) -> int:
    """Everything that can be asked about some brokers, or all."""
    from fencepost.views.brokers import viewing_brokers, viewing_details

    found = []
    with open_cluster(arguments) as cluster:
        quorum = quorum_of(arguments)
        brokers = {one.broker: one for one in cluster.run(viewing_brokers(cluster, quorum))}
        epochs = _epochs(arguments, quorum)
        for id_ in arguments.brokers or brokers:
            if id_ not in brokers:
                raise UsageError(f"no broker {id_} is registered; there are {sorted(brokers)}")
            details = viewing_details(cluster, brokers[id_], quorum, epochs.get(id_))
            found.append(cluster.run(details))
    if arguments.json:
        print_json(found)
        return 0
    for number, broker in enumerate(found):
        if number:
            print()
        _print_details(broker)
    return 0


def _epochs(arguments: argparse.Namespace, quorum: QuorumDescription | None) -> dict[int, int]:
    """Broker epochs; none where no controller is reached from here, as of a node that is alone."""
    from fencepost.client.registrations import broker_epochs

    if quorum is None:
        return {}
    try:
        return broker_epochs(client_config(arguments, bootstrap_servers(arguments)), quorum)
    except ClientError:
        return {}


def _print_details(one: BrokerDetails) -> None:
    from fencepost.cli.features import level_text
    from fencepost.views.tables import escaped
    from fencepost.views.view import count

    epoch = "-" if one.broker_epoch is None else one.broker_epoch
    line = f"broker {one.broker}  {one.host}:{one.port}  rack {one.rack or '-'}"
    print(escaped(f"{line}  {one.state}  broker epoch {epoch}"))
    if one.quorum_role is not None:
        print(f"metadata quorum: {one.quorum_role}, leader epoch {one.leader_epoch_of_quorum}")
    print(f"{count(one.replicas, 'replica')}, leads {one.leads}, out of sync {one.out_of_sync}")
    if one.error is not None:
        print(escaped(f"not known: features and log directories: {one.error}"))
        return
    print(f"epoch of the finalized features: {one.features_epoch}")
    for feature in one.features or ():
        name = feature.name
        span = f"{level_text(name, feature.min_level)} to {level_text(name, feature.max_level)}"
        print(f"feature {name}: level {level_text(name, feature.level)}, runs {span}")
    for directory in one.log_dirs or ():
        print(escaped(f"log directory {directory.path}: {directory.condition}"))


@command
def unregister(arguments: argparse.Namespace) -> int:
    """Forget a broker; refused while it runs or something is assigned to it, unless forced."""
    from fencepost.views.brokers import UnregisteredBroker

    check_number("ID", arguments.broker, 0, INT32_MAX)
    with open_admin(arguments) as admin:
        if not arguments.force:
            check_unregistrable(admin, arguments.broker)
        admin.unregister_broker(arguments.broker)
    done = UnregisteredBroker(arguments.broker)
    print_result(arguments, done, f"broker {arguments.broker} is unregistered")
    return 0
