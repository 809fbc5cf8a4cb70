"""`fencepost groups`: consumer groups, their members, and how far they have read."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fencepost.cli.cluster_options import command, finish_cluster_command, open_cluster
from fencepost.cli.commands import add_actions
from fencepost.cli.groups_offsets import add_offsets
from fencepost.cli.output import print_json, print_table

if TYPE_CHECKING:
    from fencepost.client.groups import CommittedOffset, GroupDescription
    from fencepost.client.metadata import TopicPartition

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

    with open_cluster(arguments) as cluster:
        groups = Admin(cluster).list_groups()
    if arguments.json:
        print_json([group._asdict() for group in groups])
    else:
        print_table(("group", "state", "type", "protocol"), groups)
    return 0


@command
def describe_group(arguments: argparse.Namespace) -> int:
    """State, members, and for every partition that is committed or assigned how far it is read."""
    from fencepost.client.admin import Admin
    from fencepost.client.lag import ends_of

    with open_cluster(arguments) as cluster:
        admin = Admin(cluster)
        group = admin.describe_group(arguments.group)
        committed = admin.group_offsets(arguments.group)
        ends = ends_of(admin, {*committed, *(p for m in group.members for p in m.assigned)})
    partitions = _progress(group, committed, ends)
    if arguments.json:
        print_json(_group_document(group, partitions))
        return 0
    print(
        f"group {group.group_id}  state {group.state}  assignor {group.assignor or '-'}  "
        f"coordinator {group.coordinator_id}"
    )
    print_table(COLUMNS, [[row[name] for name in ROW] for row in partitions])
    return 0


COLUMNS = (
    "topic",
    "partition",
    "current-offset",
    "log-end-offset",
    "lag",
    "consumer-id",
    "host",
    "client-id",
)
"""As those of Kafka's kafka-consumer-groups.sh."""
ROW = ("topic", "partition", "offset", "end", "lag", "member", "host", "client")


def _progress(
    group: GroupDescription,
    committed: Mapping[TopicPartition, CommittedOffset],
    ends: Mapping[TopicPartition, int],
) -> list[dict[str, Any]]:
    """A row per partition that is committed or assigned, and per member without any; what is not
    known is None."""
    owners = {partition: member for member in group.members for partition in member.assigned}
    idle = [(None, member) for member in group.members if not member.assigned]
    rows = []
    for partition, member in [*((p, owners.get(p)) for p in sorted({*committed, *owners})), *idle]:
        at = committed.get(partition) if partition else None
        end = ends.get(partition) if partition else None
        rows.append(
            {
                "topic": partition.topic if partition else None,
                "partition": partition.partition if partition else None,
                "offset": at.offset if at else None,
                "end": end,
                "lag": max(0, end - at.offset) if at and end is not None else None,
                "member": member.member_id if member else None,
                "host": member.client_host if member else None,
                "client": member.client_id if member else None,
            }
        )
    return rows


def _group_document(group: GroupDescription, partitions: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "group": group.group_id,
        "state": group.state,
        "protocol_type": group.protocol_type,
        "assignor": group.assignor,
        "coordinator": group.coordinator_id,
        "members": [
            {
                "member": member.member_id,
                "instance": member.instance_id,
                "client": member.client_id,
                "host": member.client_host,
                "partitions": [str(partition) for partition in member.assigned],
            }
            for member in group.members
        ],
        "partitions": partitions,
    }


@command
def delete_groups(arguments: argparse.Namespace) -> int:
    """One after the other."""
    from fencepost.client.admin import Admin

    with open_cluster(arguments) as cluster:
        admin = Admin(cluster)
        for group in arguments.groups:
            admin.delete_group(group)
            if not arguments.json:
                print(f"deleted group {group}")
    if arguments.json:
        print_json({"deleted": arguments.groups})
    return 0
