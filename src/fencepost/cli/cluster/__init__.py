"""`fencepost cluster`: a cluster of several nodes on this machine.

`up` runs it and stays; the other actions are for another terminal and ask that process to kill,
pause or restart a node (`control`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fencepost.cli.cluster.actions import ACTIONS, run_action, run_status
from fencepost.cli.cluster.up import (
    DEFAULT_BROKERS,
    DEFAULT_CONTROLLERS,
    DEFAULT_DIRECTORY,
    EXAMPLES,
    SECURED,
    run,
)
from fencepost.cli.commands import add_actions
from fencepost.cli.node_options import add_override_option
from fencepost.cli.output import add_json_option


def register(subparsers: Any) -> None:
    """Add the parser of `fencepost cluster`."""
    parser = subparsers.add_parser(
        "cluster",
        description="Run controllers and brokers on this machine, one process each.",
        epilog=EXAMPLES,
    )
    actions = add_actions(parser)
    _add_up(actions)
    for name, action in ACTIONS.items():
        one = actions.add_parser(name, help=action.help)
        one.add_argument(
            "nodes", nargs=action.nargs, metavar="NODE", help="its id or name, as `status` says"
        )
        _add_directory(one)
        one.set_defaults(run=run_action)
    status = actions.add_parser("status", help="nodes, where they listen, and how they are")
    _add_directory(status)
    add_json_option(status)
    status.set_defaults(run=run_status)


def _add_up(actions: Any) -> None:
    up = actions.add_parser("up", help="start a cluster, until Ctrl-C stops it", epilog=EXAMPLES)
    up.add_argument(
        "--controllers", type=int, metavar="N", help=f"how many (default: {DEFAULT_CONTROLLERS})"
    )
    up.add_argument(
        "--brokers",
        type=int,
        metavar="N",
        help=f"how many (default: {DEFAULT_BROKERS}, or 0 with --combined)",
    )
    up.add_argument(
        "--combined", action="store_true", help="every controller is a broker, too", default=None
    )
    up.add_argument(
        "--secure",
        nargs="?",
        const=SECURED[0],
        choices=SECURED,
        type=str.upper,
        metavar="PROTOCOL",
        help="have everyone log in: an authority, certificates, users and ACLs are made; the"
        f" protocol is {', '.join(SECURED[:-1])} or {SECURED[-1]} (default: {SECURED[0]})",
    )
    _add_directory(up)
    up.add_argument(
        "--controller-port", type=int, metavar="PORT", help="of the first; the others follow"
    )
    up.add_argument(
        "--broker-port", type=int, metavar="PORT", help="of the first; the others follow"
    )
    add_override_option(up, "a configuration key for all nodes of a new cluster; may be repeated")
    up.set_defaults(run=run)


def _add_directory(parser: Any) -> None:
    parser.add_argument(
        "--dir",
        type=Path,
        default=Path(DEFAULT_DIRECTORY),
        help=f"where everything is kept (default: {DEFAULT_DIRECTORY})",
    )
