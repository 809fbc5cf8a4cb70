"""`fencepost groups`: consumer groups, their members, and how far they have read."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from fencepost.cli.cluster_options import (
    INT64_MAX,
    check_number,
    command,
    finish_cluster_command,
    open_cluster,
)
from fencepost.cli.commands import add_actions
from fencepost.cli.failures import UsageError
from fencepost.cli.output import print_json, print_table
from fencepost.client.errors import BrokerError, ClientError
from fencepost.wire.errors import ErrorCode

if TYPE_CHECKING:
    from fencepost.client.admin import Admin
    from fencepost.client.cluster import Cluster
    from fencepost.client.groups import CommittedOffset, GroupDescription
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
    )
    actions = add_actions(parser)
    finish_cluster_command(actions.add_parser("list", help="all groups"), list_groups)

    describing = actions.add_parser("describe", help="state, members, offsets and lag")
    describing.add_argument("group")
    finish_cluster_command(describing, describe_group)

    showing = actions.add_parser("offsets", help="committed offsets and lag; --to sets them")
    showing.add_argument("group")
    showing.add_argument("--topic", metavar="NAME", help="only this topic")
    showing.add_argument(
        "--to", metavar="WHERE", help="earliest, latest, an offset, or @MILLISECONDS"
    )
    finish_cluster_command(showing, group_offsets)

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

    with open_cluster(arguments) as cluster:
        admin = Admin(cluster)
        group = admin.describe_group(arguments.group)
        committed = admin.group_offsets(arguments.group)
        ends = _ends(cluster, {*committed, *(p for m in group.members for p in m.assigned)})
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


def _ends(cluster: Cluster, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """Where logs end, of the partitions that exist and have a leader: a group keeps the offsets of
    a deleted topic for a while."""
    from fencepost.client.offsets import LATEST, list_offsets

    wanted = list(partitions)
    if not wanted:
        return {}
    infos = {info.name: info for info in cluster.describe({one.topic for one in wanted})}
    led = [
        one
        for one in wanted
        if (found := infos[one.topic].partitions.get(one.partition)) and found.leader_id >= 0
    ]
    return {p: at.offset for p, at in list_offsets(cluster, dict.fromkeys(led, LATEST)).items()}


@command
def group_offsets(arguments: argparse.Namespace) -> int:
    """Committed offsets with the logs' ends; sets them first when asked to."""
    from fencepost.client.admin import Admin

    with open_cluster(arguments) as cluster:
        admin = Admin(cluster)
        if arguments.to is not None:
            _set_offsets(cluster, arguments)
        committed = admin.group_offsets(arguments.group)
        if not committed:
            _require_group(admin, arguments.group)
        if arguments.topic is not None:
            committed = {p: at for p, at in committed.items() if p.topic == arguments.topic}
        ends = _ends(cluster, committed)
    rows = [
        {
            "topic": partition.topic,
            "partition": partition.partition,
            "offset": at.offset,
            "leader_epoch": at.leader_epoch,
            "end": end,
            "lag": None if end is None else max(0, end - at.offset),
            "metadata": at.metadata,
        }
        for partition, at in committed.items()
        for end in [ends.get(partition)]
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
    chosen = {partition: CommittedOffset(offset, -1, "") for partition, offset in offsets.items()}
    try:
        Admin(cluster).alter_group_offsets(arguments.group, chosen)
    except BrokerError as error:
        if error.code == ErrorCode.UNKNOWN_MEMBER_ID:  # which a command line has no use for
            error.message = (
                f"group {arguments.group} has members, and offsets can be set without them only:"
                " stop them first"
            )
        raise


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
        check_number("--to", int(where[1:]), 0, INT64_MAX)
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
