"""`fencepost format`: makes the directories of a node ready for its first start."""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING, Any

from fencepost.cli.commands import add_repeatable
from fencepost.cli.failures import UsageError
from fencepost.cli.node_options import add_node_options, overrides_of

if TYPE_CHECKING:
    from fencepost.broker.config.broker_config import BrokerConfig
    from fencepost.broker.storage.formatting import FormatPlan
    from fencepost.machines.quorum.voters import VoterSet
    from fencepost.wire.types import Uuid

RANDOM = "random-uuid"
CLUSTER_ID_LETTERS = 200
LEVEL_DIGITS = 5

EPILOG = """\
A node that is a whole cluster by itself formats itself at its first start. The nodes of any other
cluster have to agree on the cluster's id, so they are formatted, each with its own configuration:

  voters in the configuration (controller.quorum.voters): nothing else is needed;
  voters in the metadata log (KIP-853): --standalone on the first controller, from which the others
    follow, or --initial-controllers, the same on all of them;
  nodes that join later: --no-initial-controllers.

examples:
  fencepost format random-uuid                          (prints a new id, does nothing else)
  fencepost format --cluster-id random-uuid --standalone --config controller.properties
  fencepost format --cluster-id MkU3OEVBNTcwNTJENDM2Qg --config server.properties \\
    --initial-controllers 1@h1:9093:JEXY6aqzQY-32P5TStzaFg,2@h2:9093:MvDxzVmcRsaTz33bUuRU6A
  fencepost format --cluster-id MkU3OEVBNTcwNTJENDM2Qg --config broker.properties \\
    --release-version 4.0
  fencepost format --cluster-id MkU3OEVBNTcwNTJENDM2Qg --config controller.properties \\
    --standalone --add-scram 'SCRAM-SHA-256=[name=admin,password=...]'

Exit codes: 0 done; 1 it could not be done, and nothing was if it says why; 2 wrong options or
configuration.
"""


def register(subparsers: Any) -> None:
    """Add the parser of `fencepost format`."""
    parser = subparsers.add_parser(
        "format", description="Make a node's directories ready for its first start.", epilog=EPILOG
    )
    parser.add_argument(
        "action", nargs="?", choices=[RANDOM], help="print a new id and do nothing else"
    )
    add_node_options(parser, config_flag="-c")
    parser.add_argument(
        "--cluster-id", "-t", metavar="ID", help=f"the cluster's id, or {RANDOM} for a new one"
    )
    parser.add_argument(
        "--directory-id", metavar="ID", help="id of the metadata log's directory (default: drawn)"
    )
    _add_voters(parser)
    parser.add_argument(
        "--release-version", "-r", metavar="RELEASE", help="e.g. 4.0: its metadata.version"
    )
    add_repeatable(
        parser,
        "--feature",
        "-f",
        dest="features",
        metavar="NAME=LEVEL",
        help="the level of a feature at first; may be repeated",
    )
    add_repeatable(
        parser,
        "--add-scram",
        "-S",
        dest="scram_users",
        metavar="CREDENTIAL",
        help="a user that logs in with SCRAM, e.g. 'SCRAM-SHA-256=[name=ada,password=...]'; may be"
        " repeated",
    )
    parser.add_argument(
        "--ignore-formatted",
        "-g",
        action="store_true",
        help="leave directories of this node that are formatted, format the others",
    )
    parser.set_defaults(run=run)


def _add_voters(parser: argparse.ArgumentParser) -> None:
    voters = parser.add_mutually_exclusive_group()
    voters.add_argument(
        "--standalone", "-s", action="store_true", help="this controller is the only voter at first"
    )
    voters.add_argument(
        "--initial-controllers",
        "-I",
        metavar="ID@HOST:PORT:DIRECTORY_ID,...",
        help="the first voters; the same for all nodes",
    )
    voters.add_argument(
        "--no-initial-controllers",
        "-N",
        action="store_true",
        help="this node joins a cluster that knows its voters",
    )


def run(arguments: argparse.Namespace) -> int:
    """Check everything, then format."""
    from fencepost.broker.config.broker_config import BrokerConfig, ConfigError
    from fencepost.broker.storage.formatting import FormatError, format_directories, random_id
    from fencepost.broker.storage.scram_arguments import ScramArgumentError
    from fencepost.log.disk import OsDisk
    from fencepost.log.errors import LogError, in_words

    if arguments.action == RANDOM:
        print(random_id())
        return 0
    try:
        arguments.listen = None
        config = BrokerConfig.load(arguments.config, overrides_of(arguments))
        plan = plan_of(arguments, config)
    except (ConfigError, UsageError, FormatError, ScramArgumentError) as error:
        print(f"fencepost format: {error}", file=sys.stderr)
        return 2
    if not _is_uuid(plan.cluster_id):
        print(
            f"fencepost format: warning: cluster id {plan.cluster_id!r} is none of 22 characters as"
            f" `fencepost format {RANDOM}` makes them; all nodes must be formatted with this one",
            file=sys.stderr,
        )
    try:
        for line in format_directories(OsDisk(), config, plan, int(time.time() * 1000)):
            print(line)
    except (LogError, OSError) as error:
        print(f"fencepost format: {in_words(error)}", file=sys.stderr)
        return 1
    if arguments.cluster_id == RANDOM:
        print(f"cluster id {plan.cluster_id}")
    return 0


def _is_uuid(text: str) -> bool:
    from fencepost.wire.types import Uuid

    try:
        return str(Uuid.from_string(text)) == text
    except ValueError:
        return False


def plan_of(arguments: argparse.Namespace, config: BrokerConfig) -> FormatPlan:
    """What the options and the configuration come to.

    FormatError, ScramArgumentError, UsageError.
    """
    from fencepost.broker.config.release_versions import name_of
    from fencepost.broker.storage.formatting import (
        FormatError,
        FormatPlan,
        choose_features,
    )
    from fencepost.broker.storage.scram_arguments import parse_scram_arguments
    from fencepost.machines.image import SCRAM_SINCE
    from fencepost.machines.image.model import METADATA_VERSION

    cluster_id = _cluster_id(arguments.cluster_id)
    voters, directory_id = _voters(arguments, config)
    _check_voters(arguments, config, voters)
    features = choose_features(
        _levels(arguments.features, arguments.release_version),
        has_dynamic_voters=voters is not None
        or (arguments.no_initial_controllers and not config.quorum.voters.ids),
    )
    if arguments.scram_users and features[METADATA_VERSION] < SCRAM_SINCE:
        raise FormatError(
            f"SCRAM is only supported in {METADATA_VERSION} {name_of(SCRAM_SINCE)} or later"
        )
    return FormatPlan(
        cluster_id=cluster_id,
        metadata_directory_id=directory_id,
        features=features,
        voters=voters,
        scram_users=tuple(parse_scram_arguments(arguments.scram_users)),
        ignore_formatted=arguments.ignore_formatted,
        is_directory_id_given=arguments.directory_id is not None
        or (arguments.initial_controllers is not None and config.is_controller),
    )


def _cluster_id(given: str | None) -> str:
    """The id that is given, or a new one. FormatError."""
    from fencepost.broker.storage.formatting import FormatError, random_id

    if not given:
        raise FormatError(f"--cluster-id is missing; {RANDOM} for a new one")
    if len(given) > CLUSTER_ID_LETTERS or not given.isprintable():
        raise FormatError(
            f"--cluster-id has letters that cannot be printed, or more than {CLUSTER_ID_LETTERS}"
        )
    return str(random_id()) if given == RANDOM else given


def _check_voters(
    arguments: argparse.Namespace, config: BrokerConfig, voters: VoterSet | None
) -> None:
    """Whether the first voters are known, and from one place alone. FormatError."""
    from fencepost.broker.storage.formatting import FormatError

    is_known = arguments.no_initial_controllers or not config.is_controller
    is_configured = bool(config.quorum.voters.ids) or config.formats_itself
    if voters is None and not is_known and not is_configured:
        raise FormatError(
            "controller.quorum.voters is not set, so say who votes at first: --standalone,"
            " --initial-controllers or --no-initial-controllers"
        )
    if voters is not None and config.quorum.voters.ids:
        raise FormatError(
            "voters in the configuration (controller.quorum.voters) and in the metadata log"
            " do not go together"
        )


def _voters(arguments: argparse.Namespace, config: BrokerConfig) -> tuple[VoterSet | None, Uuid]:
    """The first voters, if they are in the log, and the id of the metadata log's directory."""
    from fencepost.broker.storage.formatting import (
        FormatError,
        check_own_voter,
        is_reserved,
        parse_voters,
        random_id,
        standalone_voters,
    )
    from fencepost.wire.types import Uuid

    directory_id = None
    if arguments.directory_id is not None:
        try:
            directory_id = Uuid.from_string(arguments.directory_id)
        except ValueError as error:
            raise FormatError(f"--directory-id is {error}") from None
        if is_reserved(directory_id):
            raise FormatError(f"--directory-id {directory_id} is one of those that are reserved")
    if arguments.standalone:
        directory_id = directory_id or random_id()
        return standalone_voters(config, directory_id), directory_id
    if arguments.initial_controllers is None:
        return None, directory_id or random_id()
    names = config.quorum.listener_names
    voters = parse_voters(arguments.initial_controllers, names[0] if names else "CONTROLLER")
    check_own_voter(config, voters)
    own = voters.get(config.node_id)
    if own is None:
        return voters, directory_id or random_id()
    if directory_id not in (None, own.key.directory_id):
        raise FormatError("--directory-id and --initial-controllers say different ids")
    return voters, own.key.directory_id


def _levels(features: list[str], release: str | None) -> dict[str, int]:
    """The feature levels that are asked for."""
    from fencepost.broker.config.features import METADATA_VERSION
    from fencepost.broker.config.release_versions import level_of
    from fencepost.broker.storage.formatting import FormatError

    levels: dict[str, int] = {}
    for text in features:
        name, equals, level = text.partition("=")
        if not equals or not level.isdecimal() or len(level) > LEVEL_DIGITS:
            raise FormatError(f"--feature {text!r}: allowed is NAME=LEVEL")
        if name in levels:
            raise FormatError(f"--feature {name} is given twice")
        levels[name] = int(level)
    if release is not None:
        if METADATA_VERSION.name in levels:
            raise FormatError(f"--release-version and --feature {METADATA_VERSION.name} are one")
        try:
            levels[METADATA_VERSION.name] = level_of(release)
        except ValueError as error:
            raise FormatError(str(error)) from None
    return levels
