"""`fencepost quorum`: who leads and follows the metadata log, and changes of its voters."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fencepost.addresses import AddressError, parse_listener
from fencepost.cli.cluster_options import (
    CONNECT_TIMEOUT_MS,
    bootstrap_servers,
    client_config,
    command,
    connect_limit_ms,
    finish_cluster_command,
)
from fencepost.cli.commands import add_actions, add_repeatable
from fencepost.cli.failures import UsageError
from fencepost.cli.output import print_json, print_result, print_table_of

if TYPE_CHECKING:
    from fencepost.client.errors import ClientError
    from fencepost.client.quorum import QuorumAdmin, QuorumDescription, QuorumReplica, VoterListener
    from fencepost.wire.types import Uuid

LOOK_TIMEOUT_MS = 5_000
CHANGE_TIMEOUT_MS = 35_000
"""A new voter has thirty seconds to catch up."""

NODE_ID_MAX = (1 << 31) - 1

EXAMPLES = """\
Brokers take every question to the leader; --bootstrap-controller asks the controllers themselves.
A voter is a node with its disk: the id of the directory its metadata log is in belongs to it.

examples:
  fencepost quorum describe
  fencepost quorum describe --bootstrap-controller 127.0.0.1:9093 --json
  fencepost quorum add-voter --config controller-4/server.properties
  fencepost quorum add-voter --id 4 --directory-id lnnLXmBzSSOJWn5hTmk93g \\
      --listener CONTROLLER://127.0.0.1:9096
  fencepost quorum remove-voter --id 2
"""


def register(subparsers: Any) -> None:
    """Add the parser of `fencepost quorum`."""
    parser = subparsers.add_parser(
        "quorum", description="Look at the metadata quorum and change its voters.", epilog=EXAMPLES
    )
    actions = add_actions(parser)

    describing = actions.add_parser("describe", help="leader, voters, observers, and their lag")
    _finish(describing, describe)

    adding = actions.add_parser("add-voter", help="make a controller that follows a voter")
    adding.add_argument(
        "--config", type=Path, metavar="FILE", help="server.properties of the controller, formatted"
    )
    adding.add_argument("--id", type=_node_id, metavar="N", help="its node.id, without --config")
    adding.add_argument("--directory-id", metavar="ID", help="of its metadata directory, likewise")
    add_repeatable(
        adding,
        "--listener",
        metavar="NAME://HOST:PORT",
        help="where it is reached, likewise; may be repeated",
    )
    _finish(adding, add_voter)

    removing = actions.add_parser("remove-voter", help="take a controller's vote away")
    removing.add_argument("--id", type=_node_id, required=True, metavar="N", help="its node.id")
    removing.add_argument(
        "--directory-id", metavar="ID", help="of its metadata directory (default: the voter's)"
    )
    _finish(removing, remove_voter)


def _node_id(text: str) -> int:
    if not text.isdecimal() or int(text) > NODE_ID_MAX:
        raise argparse.ArgumentTypeError(f"{text!r}: a node id is a number from 0 to {NODE_ID_MAX}")
    return int(text)


def _finish(parser: argparse.ArgumentParser, run: Any) -> None:
    finish_cluster_command(parser, run)
    parser.add_argument(
        "--bootstrap-controller",
        metavar="HOST:PORT",
        help="controllers to ask, in place of brokers",
    )


@command
def describe(arguments: argparse.Namespace) -> int:
    """The quorum as its leader sees it."""
    from fencepost.views.quorum import QuorumReplicaRow, quorum_rows, quorum_view

    with _admin(arguments) as admin:
        view = quorum_view(_describe(admin, arguments))
    if arguments.json:
        print_json(view)
        return 0
    print(view.heading)
    print_table_of(QuorumReplicaRow, quorum_rows(view, time.time() * 1000))
    return 0


@command
def add_voter(arguments: argparse.Namespace) -> int:
    """One more voter."""
    from fencepost.client.errors import BrokerError
    from fencepost.wire.errors import ErrorCode

    node_id, directory_id, listeners = _new_voter(arguments)
    with _admin(arguments) as admin:
        found = _changeable(admin, arguments)
    _must_be_reached(listeners, found)
    with _admin(arguments, CHANGE_TIMEOUT_MS) as admin:
        try:
            admin.add_voter(node_id, directory_id, listeners)
        except BrokerError as error:
            if error.code != ErrorCode.DUPLICATE_VOTER:
                raise
            before = _voters(found).get(node_id)
            now = before or _voters(_describe(admin, arguments)).get(node_id)
            # It may have been added by us, and a leader that went took the answer with it.
            if before is not None or now is None or now.directory_id != directory_id:
                raise _duplicate(error, now, directory_id) from error
    _print_voter(arguments, node_id, directory_id, f"node {node_id} votes, with {directory_id}")
    return 0


@command
def remove_voter(arguments: argparse.Namespace) -> int:
    """One voter less."""
    from fencepost.client.errors import BrokerError
    from fencepost.wire.errors import ErrorCode

    given = None if arguments.directory_id is None else _uuid(arguments.directory_id)
    with _admin(arguments) as admin:
        directory_id = _directory_of_voter(admin, arguments, given)
        try:
            admin.remove_voter(arguments.id, directory_id)
        except BrokerError as error:
            # It voted a moment ago: a leader that removes itself may take its answer with it.
            if error.code != ErrorCode.VOTER_NOT_FOUND:
                raise
            voters = _voters(_describe(admin, arguments))
            left = voters.get(arguments.id)
            if left is not None and left.directory_id == directory_id:
                if len(voters) == 1:
                    error.message += ": it is the only voter, and a quorum needs one"
                raise
    _print_voter(
        arguments, arguments.id, directory_id, f"node {arguments.id} does not vote any more"
    )
    print(
        "if it runs with controller.quorum.auto.join.enable=true, it soon votes again: stop it"
        " first, or set controller.quorum.auto.join.enable=false there",
        file=sys.stderr,
    )
    return 0


# -- the command line ------------------------------------------------------------------------


def _admin(arguments: argparse.Namespace, timeout_ms: int = LOOK_TIMEOUT_MS) -> QuorumAdmin:
    """Connected to some node; `timeout_ms` is the default of --timeout."""
    from fencepost.client.quorum import QuorumAdmin

    controllers = arguments.bootstrap_controller
    config = client_config(
        arguments,
        bootstrap_servers(arguments) if controllers is None else controllers,
        socket_connection_setup_timeout_ms=CONNECT_TIMEOUT_MS,
        default_api_timeout_ms=timeout_ms,
        request_timeout_ms=timeout_ms,
    )
    admin = QuorumAdmin(config, controllers=controllers is not None)
    admin.connect(connect_limit_ms(arguments, config))
    return admin


def _describe(admin: QuorumAdmin, arguments: argparse.Namespace) -> QuorumDescription:
    """The quorum. ClientError says that no controller leads if a broker's answer means that.

    Without a leader a broker answers too late, or NOT_LEADER_OR_FOLLOWER if one has just resigned.
    """
    from fencepost.client.errors import ClientError, DeadlineExceeded, RequestTimedOut
    from fencepost.wire.errors import ErrorCode

    try:
        return admin.describe()
    except (DeadlineExceeded, RequestTimedOut) as error:
        last = getattr(error, "last", None) or error
        is_leaderless = isinstance(last, RequestTimedOut) or (
            last.code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        )
        if arguments.bootstrap_controller is not None or not is_leaderless:
            raise
        raise ClientError(
            f"no controller leads, as far as the broker at {last.host} can tell: it has no answer"
            " from one; --bootstrap-controller asks the controllers and counts those that answer"
            " (also if this is no broker but a controller, which answers for itself alone)"
        ) from error


def _new_voter(arguments: argparse.Namespace) -> tuple[int, Uuid, list[VoterListener]]:
    """Node id, directory id and listeners, out of the controller's files or the options."""
    if arguments.config is not None:
        if arguments.id is not None or arguments.directory_id is not None or arguments.listener:
            raise UsageError("--config says what --id, --directory-id and --listener would")
        return _voter_of_files(arguments.config)
    if arguments.id is None or arguments.directory_id is None or not arguments.listener:
        raise UsageError("give --config, or --id, --directory-id and --listener")
    listeners = [_listener(text) for text in arguments.listener]
    return arguments.id, _uuid(arguments.directory_id), listeners


def _voter_of_files(path: Path) -> tuple[int, Uuid, list[VoterListener]]:
    from fencepost.broker.config.broker_config import BrokerConfig, ConfigError
    from fencepost.client.quorum import VoterListener
    from fencepost.log.disk import OsDisk
    from fencepost.log.errors import LogError, in_words
    from fencepost.log.meta import read_meta_properties

    try:
        config = BrokerConfig.load(path, {})
        told = config.advertised_controllers(config.controller_listeners)
        meta = read_meta_properties(OsDisk(), str(config.metadata_log_dir))
    except (ConfigError, LogError, OSError) as error:
        what = in_words(error).removeprefix(f"--config {path}: ")
        raise UsageError(f"--config {path}: {what}") from error
    if not told or meta.directory_id is None:
        raise UsageError(f"--config {path}: this is not a controller's that has been formatted")
    listeners = [VoterListener(one.name, one.host, one.port) for one in told]
    return config.node_id, meta.directory_id, listeners


def _listener(text: str) -> VoterListener:
    from fencepost.client.quorum import VoterListener

    try:
        return VoterListener(*parse_listener(text))
    except AddressError as error:
        raise UsageError(f"--listener {text!r}: must be {error}") from None


def _uuid(text: str) -> Uuid:
    from fencepost.wire.types import Uuid

    try:
        directory_id = Uuid.from_string(text)
    except ValueError as error:
        raise UsageError(f"--directory-id {text!r}: {error}") from error
    if directory_id == Uuid.ZERO:
        raise UsageError(f"--directory-id {text!r}: this is no directory's")
    return directory_id


def _changeable(admin: QuorumAdmin, arguments: argparse.Namespace) -> QuorumDescription:
    """The quorum. ClientError where its voters cannot be changed: they have no directories there.

    A lone voter of the log has one, so does every voter of a dynamic quorum (KIP-853).
    """
    from fencepost.client.errors import ClientError
    from fencepost.wire.types import Uuid

    found = _describe(admin, arguments)
    if found.voters and all(voter.directory_id == Uuid.ZERO for voter in found.voters):
        raise ClientError(
            f"the voters of this cluster ({_ids(found)}) are fixed: they are not in the metadata"
            " log, where `fencepost features upgrade kraft.version=1` puts them"
        )
    return found


def _voters(found: QuorumDescription) -> dict[int, QuorumReplica]:
    return {voter.node_id: voter for voter in found.voters}


def _ids(found: QuorumDescription) -> str:
    return ", ".join(map(str, sorted(_voters(found))))


def _must_be_reached(listeners: list[VoterListener], found: QuorumDescription) -> None:
    """Whether a new voter is reached by the listener that the voters are reached by. UsageError."""
    theirs = found.listeners.get(found.leader_id, [])
    names = [listener.name for listener in theirs]
    if names and names[0] not in [listener.name for listener in listeners]:
        given = ", ".join(f"{one.name}://{one.host}:{one.port}" for one in listeners)
        raise UsageError(f"--listener {given}: the voters of this quorum are reached by {names[0]}")


def _duplicate(error: ClientError, voter: QuorumReplica | None, directory_id: Uuid) -> ClientError:
    """Which of a node's disks votes already, and what to do about it."""
    from fencepost.client.errors import BrokerError

    code, host = error.code or 0, error.host
    if voter is None:
        return error
    if voter.directory_id == directory_id:
        what = f"node {voter.node_id} votes already, with this directory"
    else:
        what = (
            f"node {voter.node_id} votes with another directory, {voter.directory_id}:"
            f" `fencepost quorum remove-voter --id {voter.node_id}` comes first"
        )
    return BrokerError.of(code, what, host=host)


def _directory_of_voter(
    admin: QuorumAdmin, arguments: argparse.Namespace, given: Uuid | None
) -> Uuid:
    """The directory that votes under --id, which must be the one that is given, if one is."""
    found = _changeable(admin, arguments)
    node_id = arguments.id
    voter = _voters(found).get(node_id)
    if voter is None:
        raise UsageError(f"--id {node_id}: the voters are {_ids(found)}")
    directory_id = voter.directory_id
    if given not in (None, directory_id):
        raise UsageError(f"--directory-id {given}: node {node_id} votes with {directory_id}")
    return directory_id


def _print_voter(
    arguments: argparse.Namespace, node_id: int, directory_id: Uuid, sentence: str
) -> None:
    from fencepost.views.quorum import QuorumVoter, directory_text

    print_result(arguments, QuorumVoter(node_id, directory_text(directory_id)), sentence)
