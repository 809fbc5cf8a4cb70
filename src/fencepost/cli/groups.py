"""`fencepost groups`: groups of every type, their members, and how far they have read."""

from __future__ import annotations

import argparse
from typing import Any

from fencepost.cli.cluster_options import command, finish_cluster_command, open_admin, open_cluster
from fencepost.cli.commands import add_actions, add_repeatable
from fencepost.cli.groups_offsets import add_offsets
from fencepost.cli.groups_share_offsets import add_share_offsets
from fencepost.cli.output import print_json, print_table_of, print_views

TYPES = ("classic", "consumer", "share", "streams")

EXAMPLES = """\
examples:
  fencepost groups list
  fencepost groups list --type share --state empty
  fencepost groups describe billing
  fencepost groups describe billing --members      (their epochs, states and partitions)
  fencepost groups explain billing                 (which member waits for which, since when)
  fencepost groups offsets billing
  fencepost groups delete billing

offsets are set while the group has no members; --dry-run only says what would be:
  fencepost groups offsets billing --topic orders --to earliest
  fencepost groups offsets billing --topic orders:0,2 --to 4711
  fencepost groups offsets billing --all-topics --to 2026-01-31T12:00:00 --dry-run
  fencepost groups offsets billing --topic orders --shift-by -100
  fencepost groups offsets billing --topic orders --by-duration PT1H  (records of the last hour)
  fencepost groups delete-offsets billing orders:0

share groups have start offsets instead, before which everything is settled:
  fencepost groups share-offsets workers
  fencepost groups share-offsets workers --topic jobs --to earliest
  fencepost groups delete-share-offsets workers jobs
"""


EXPLAINING = """\
A partition of a consumer group goes to its next member when the one that has it has given it up.
This names for every member that waits the partition, the member that has it, and since when, from
the coordinator's log of the last hour (which needs READ on __consumer_offsets; without it the times
are left out).
"""


def register(subparsers: Any) -> None:
    """Add the parser of `fencepost groups`."""
    parser = subparsers.add_parser(
        "groups", description="Groups: classic, consumer, share and streams ones.", epilog=EXAMPLES
    )
    actions = add_actions(parser)
    listing = actions.add_parser("list", help="all groups, or some of them")
    add_repeatable(
        listing, "--type", choices=TYPES, type=str.lower, help="of this type (repeatable)"
    )
    for option, text in (
        ("--state", "such as stable or empty"),
        ("--protocol", "such as consumer or connect"),
    ):
        add_repeatable(listing, option, metavar="NAME", help=f"{text} (repeatable)")
    finish_cluster_command(listing, list_groups)

    describing = actions.add_parser("describe", help="state, members, offsets and lag")
    describing.add_argument("group")
    describing.add_argument(
        "--members", action="store_true", help="a row per member instead of one per partition"
    )
    finish_cluster_command(describing, describe_group)

    explaining = actions.add_parser(
        "explain", help="which member waits for which, since when", description=EXPLAINING
    )
    explaining.add_argument("group")
    finish_cluster_command(explaining, explain_group)

    add_offsets(actions)
    add_share_offsets(actions)

    deleting = actions.add_parser("delete", help="delete empty groups")
    deleting.add_argument("groups", nargs="+", metavar="GROUP")
    finish_cluster_command(deleting, delete_groups)


@command
def list_groups(arguments: argparse.Namespace) -> int:
    """The groups of all coordinators."""
    from fencepost.views.groups import GroupListed

    with open_admin(arguments) as admin:
        groups = admin.list_groups(
            kinds=arguments.type, states=arguments.state, protocols=arguments.protocol
        )
    print_views(arguments, GroupListed, [GroupListed.of(group) for group in groups])
    return 0


@command
def describe_group(arguments: argparse.Namespace) -> int:
    """State, members, and for every partition that is committed or assigned how far it is read."""
    from fencepost.views.groups import (
        MemberView,
        Progress,
        StreamsGroupView,
        StreamsMemberView,
        viewing_group,
    )

    with open_cluster(arguments) as cluster:
        group = cluster.run(viewing_group(cluster, arguments.group))
    if arguments.json:
        print_json(group)
        return 0
    print(group.heading)
    if isinstance(group, StreamsGroupView):
        print_table_of(StreamsMemberView, group.members)
    elif arguments.members:
        print_table_of(MemberView, group.members)
    else:
        print_table_of(Progress, group.partitions)
    return 0


@command
def explain_group(arguments: argparse.Namespace) -> int:
    """A sentence for every wait."""
    from fencepost.cli.times import now_ms
    from fencepost.client.group_waits import explaining_waits
    from fencepost.views.group_waits import GroupWaitsView, waits_explained
    from fencepost.views.tables import escaped

    now = now_ms()
    with open_cluster(arguments) as cluster:
        found = cluster.run(explaining_waits(cluster, arguments.group, now))
    if arguments.json:
        print_json(GroupWaitsView.of(found))
        return 0
    for line in waits_explained(found, now):
        print(escaped(line))
    return 0


@command
def delete_groups(arguments: argparse.Namespace) -> int:
    """One after the other."""
    from fencepost.views.groups import DeletedGroups

    with open_admin(arguments) as admin:
        for group in arguments.groups:
            admin.delete_group(group)
            if not arguments.json:
                print(f"deleted group {group}")
    if arguments.json:
        print_json(DeletedGroups(arguments.groups))
    return 0
