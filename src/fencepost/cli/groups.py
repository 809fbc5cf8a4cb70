"""`fencepost groups`: consumer groups, their members, and how far they have read."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from fencepost.cli.cluster_options import (
    UsageError,
    add_cluster_options,
    add_json_option,
    command,
    open_cluster,
    print_json,
    print_table,
)
from fencepost.cli.commands import add_actions
from fencepost.client.errors import ClientError

if TYPE_CHECKING:
    from fencepost.client.admin import Admin
    from fencepost.client.cluster import Cluster
    from fencepost.client.metadata import TopicPartition

EXAMPLES = """\
examples:
  fencepost groups list
  fencepost groups describe billing
  fencepost groups offsets billing
  fencepost groups offsets billing --topic orders --to earliest       (group must be empty)
  fencepost groups offsets billing --topic orders --to @1700000000000 (first record since, in ms)
  fencepost groups delete billing
"""


def register(subparsers: Any) -> None:
    """Add the parser of `fencepost groups`."""
    parser = subparsers.add_parser(
        "groups",
        help="list, describe and delete consumer groups, see and set their offsets",
        description="Consumer groups.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    actions = add_actions(parser)
    _finish(actions.add_parser("list", help="all groups"), list_groups)

    describing = actions.add_parser("describe", help="state and members")
    describing.add_argument("group")
    _finish(describing, describe_group)

    showing = actions.add_parser("offsets", help="committed offsets and lag; --to sets them")
    showing.add_argument("group")
    showing.add_argument("--topic", metavar="NAME", help="only this topic")
    showing.add_argument(
        "--to", metavar="WHERE", help="earliest, latest, an offset, or @MILLISECONDS"
    )
    _finish(showing, group_offsets)

    deleting = actions.add_parser("delete", help="delete empty groups")
    deleting.add_argument("groups", nargs="+", metavar="GROUP")
    _finish(deleting, delete_groups)


def _finish(parser: argparse.ArgumentParser, run: Any) -> None:
    add_json_option(parser)
    add_cluster_options(parser)
    parser.set_defaults(run=run)


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
    """State and members of one group."""
    from fencepost.client.admin import Admin

    with open_cluster(arguments) as cluster:
        group = Admin(cluster).describe_group(arguments.group)
    if arguments.json:
        print_json(
            {
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
            }
        )
        return 0
    print(
        f"group {group.group_id}  state {group.state}  assignor {group.assignor or '-'}  "
        f"coordinator {group.coordinator_id}"
    )
    print_table(
        ("member", "client", "host", "partitions"),
        [(m.member_id, m.client_id, m.client_host, m.assigned) for m in group.members],
    )
    return 0


@command
def group_offsets(arguments: argparse.Namespace) -> int:
    """Committed offsets with the logs' ends; sets them first when asked to."""
    from fencepost.client.admin import Admin
    from fencepost.client.offsets import LATEST, list_offsets

    with open_cluster(arguments) as cluster:
        admin = Admin(cluster)
        if arguments.to is not None:
            _set_offsets(cluster, arguments)
        committed = admin.group_offsets(arguments.group)
        if not committed:
            _require_group(admin, arguments.group)
        if arguments.topic is not None:
            committed = {p: at for p, at in committed.items() if p.topic == arguments.topic}
        ends = list_offsets(cluster, dict.fromkeys(committed, LATEST))
    rows = [
        {
            "topic": partition.topic,
            "partition": partition.partition,
            "offset": at.offset,
            "leader_epoch": at.leader_epoch,
            "end": ends[partition].offset,
            "lag": max(0, ends[partition].offset - at.offset),
            "metadata": at.metadata,
        }
        for partition, at in committed.items()
    ]
    if arguments.json:
        print_json(rows)
    else:
        names = ("topic", "partition", "offset", "end", "lag")
        print_table(names, [[row[name] for name in names] for row in rows])
    return 0


def _require_group(admin: Admin, group: str) -> None:
    """Raise ClientError for a group that does not exist; brokers answer for it as if it did."""
    if group not in {listed.group_id for listed in admin.list_groups()}:
        raise ClientError(f"no such group: {group}")


def _set_offsets(cluster: Cluster, arguments: argparse.Namespace) -> None:
    from fencepost.client.admin import Admin
    from fencepost.client.groups import CommittedOffset
    from fencepost.client.metadata import TopicPartition

    if arguments.topic is None:
        raise UsageError("--to needs --topic")
    partitions = [
        TopicPartition(arguments.topic, number)
        for number in cluster.topic(arguments.topic).partition_ids
    ]
    offsets = _targets(cluster, partitions, arguments.to)
    Admin(cluster).alter_group_offsets(
        arguments.group,
        {partition: CommittedOffset(offset, -1, "") for partition, offset in offsets.items()},
    )


def _targets(
    cluster: Cluster, partitions: list[TopicPartition], where: str
) -> dict[TopicPartition, int]:
    """Offsets for --to, within what each log has."""
    from fencepost.client.offsets import EARLIEST, LATEST, list_offsets

    earliest = list_offsets(cluster, dict.fromkeys(partitions, EARLIEST))
    latest = list_offsets(cluster, dict.fromkeys(partitions, LATEST))
    if where in ("earliest", "latest"):
        chosen = earliest if where == "earliest" else latest
        return {partition: found.offset for partition, found in chosen.items()}
    if where.startswith("@") and where[1:].isdecimal():
        since = list_offsets(cluster, dict.fromkeys(partitions, int(where[1:])))
        return {
            partition: found.offset if found.offset >= 0 else latest[partition].offset
            for partition, found in since.items()
        }
    if where.isdecimal():
        return {
            partition: min(max(int(where), earliest[partition].offset), latest[partition].offset)
            for partition in partitions
        }
    raise UsageError(f"--to {where!r}: must be earliest, latest, an offset or @MILLISECONDS")


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
