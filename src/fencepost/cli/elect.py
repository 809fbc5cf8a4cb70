"""`fencepost elect`: have the controller elect leaders of partitions now (KIP-460)."""

from __future__ import annotations

import argparse
from typing import Any

from fencepost.cli.cluster_options import command, finish_cluster_command, open_admin
from fencepost.cli.commands import add_actions
from fencepost.cli.failures import UsageError
from fencepost.cli.partition_words import existing_partitions, print_outcomes

EXAMPLES = """\
A preferred election makes the first replica the leader again, if it is in sync. An unclean one
makes a replica that is out of sync the leader of a partition that has none: records that it lacks
are lost, although producers were told that they are stored. `fencepost epochs` shows what each has.

examples:
  fencepost elect preferred --all
  fencepost elect preferred orders flights:3
  fencepost elect unclean orders:0
"""


def register(subparsers: Any) -> None:
    """Add the parser of `fencepost elect`."""
    parser = subparsers.add_parser(
        "elect", description="Elect leaders of partitions now.", epilog=EXAMPLES
    )
    actions = add_actions(parser)
    for name, text in (
        ("preferred", "the first replica leads again"),
        ("unclean", "a replica that is out of sync leads; loses records"),
    ):
        action = actions.add_parser(name, help=text, epilog=EXAMPLES)
        action.add_argument(
            "partitions", nargs="*", metavar="PARTITION", help="TOPIC or TOPIC:PARTITION"
        )
        action.add_argument("--all", action="store_true", help="all partitions of the cluster")
        finish_cluster_command(action, elect)


@command
def elect(arguments: argparse.Namespace) -> int:
    """Elect; says of each partition what became of it. Not to need an election is no failure."""
    from fencepost.client.replicas import PREFERRED, UNCLEAN, Outcome
    from fencepost.views.partitions import HeldElection
    from fencepost.wire.errors import ErrorCode

    if arguments.all == bool(arguments.partitions):
        raise UsageError("name partitions, or say --all")
    with open_admin(arguments) as admin:
        partitions = None if arguments.all else existing_partitions(admin, arguments.partitions)
        election = PREFERRED if arguments.action == "preferred" else UNCLEAN
        outcomes = admin.elect_leaders(partitions, election)
    shown, notes = {}, {}
    for where, outcome in outcomes.items():
        is_needless = outcome.error_code == ErrorCode.ELECTION_NOT_NEEDED
        shown[where] = Outcome(0) if is_needless else outcome
        held = "held" if outcome.is_done else "failed"
        notes[where] = "not needed" if is_needless else held
    return print_outcomes(arguments, shown, "ok", kind=HeldElection, extra=notes)
