"""`fencepost groups`: consumer groups, their members, and how far they have read."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from fencepost.cli.cluster_options import command, finish_cluster_command, open_cluster
from fencepost.cli.commands import add_actions
from fencepost.cli.groups_offsets import add_offsets
from fencepost.cli.output import print_json, print_table_of, print_views

if TYPE_CHECKING:
    pass

EXAMPLES = """\
examples:
  fencepost groups list
  fencepost groups describe billing
  fencepost groups offsets billing
  fencepost groups delete billing

offsets are set while the group has no members; --dry-run only says what would be:
  fencepost groups offsets billing --topic orders --to earliest
  fencepost groups offsets billing --topic orders:0,2 --to 4711
  fencepost groups offsets billing --all-topics --to 2026-01-31T12:00:00 --dry-run
  fencepost groups offsets billing --topic orders --shift-by -100
  fencepost groups offsets billing --topic orders --by-duration PT1H  (records of the last hour)
  fencepost groups delete-offsets billing orders:0
"""


def register(subparsers: Any) -> None:
    """Add the parser of `fencepost groups`."""
    parser = subparsers.add_parser(
        "groups",
        help="list, describe and delete consumer groups, see and set their offsets",
        description="Consumer groups.",
        epilog=EXAMPLES,
    )
    actions = add_actions(parser)
    finish_cluster_command(actions.add_parser("list", help="all groups"), list_groups)

    describing = actions.add_parser("describe", help="state, members, offsets and lag")
    describing.add_argument("group")
    finish_cluster_command(describing, describe_group)

    add_offsets(actions)

    deleting = actions.add_parser("delete", help="delete empty groups")
    deleting.add_argument("groups", nargs="+", metavar="GROUP")
    finish_cluster_command(deleting, delete_groups)


@command
def list_groups(arguments: argparse.Namespace) -> int:
    """All groups of all coordinators."""
    from fencepost.client.admin import Admin
    from fencepost.views.groups import GroupListed

    with open_cluster(arguments) as cluster:
        groups = Admin(cluster).list_groups()
    print_views(arguments, GroupListed, [GroupListed.of(group) for group in groups])
    return 0


@command
def describe_group(arguments: argparse.Namespace) -> int:
    """State, members, and for every partition that is committed or assigned how far it is read."""
    from fencepost.views.groups import Progress, viewing_group

    with open_cluster(arguments) as cluster:
        group = cluster.run(viewing_group(cluster, arguments.group))
    if arguments.json:
        print_json(group)
        return 0
    print(group.heading)
    print_table_of(Progress, group.partitions)
    return 0


@command
def delete_groups(arguments: argparse.Namespace) -> int:
    """One after the other."""
    from fencepost.client.admin import Admin
    from fencepost.views.groups import DeletedGroups

    with open_cluster(arguments) as cluster:
        admin = Admin(cluster)
        for group in arguments.groups:
            admin.delete_group(group)
            if not arguments.json:
                print(f"deleted group {group}")
    if arguments.json:
        print_json(DeletedGroups(arguments.groups))
    return 0
