"""`fencepost groups share-offsets` and `delete-share-offsets`: where share groups begin to read."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from fencepost.cli.cluster_options import command, finish_cluster_command, open_admin
from fencepost.cli.failures import UsageError
from fencepost.cli.groups_offsets import (
    add_to_option,
    named_offsets,
    partitions_of,
    require_group,
    require_kind,
)
from fencepost.cli.output import print_result, print_views
from fencepost.cli.partition_words import add_topic_option
from fencepost.client.errors import BrokerError
from fencepost.wire.errors import ErrorCode

if TYPE_CHECKING:
    from fencepost.client.admin import Admin
    from fencepost.client.metadata import TopicPartition
    from fencepost.client.share_groups import ShareOffset


def add_share_offsets(actions: Any) -> None:
    """Add the parsers of both actions."""
    showing = actions.add_parser(
        "share-offsets", help="start offsets and lag of a share group; --to sets them"
    )
    showing.add_argument("group")
    add_topic_option(showing)
    add_to_option(showing)
    showing.add_argument("--dry-run", action="store_true", help="say what would be set")
    finish_cluster_command(showing, share_offsets)

    deleting = actions.add_parser(
        "delete-share-offsets", help="forget what a share group has read of topics"
    )
    deleting.add_argument("group")
    deleting.add_argument("topics", nargs="+", metavar="TOPIC")
    finish_cluster_command(deleting, delete_share_offsets)


@command
def share_offsets(arguments: argparse.Namespace) -> int:
    """Start offsets with the logs' ends; sets them first when asked to."""
    from fencepost.client.lag import ends_of
    from fencepost.views.group_offsets import PlannedOffset, ShareOffsetView

    if arguments.to is not None and not arguments.topic:
        raise UsageError("to set offsets, say --topic")
    if arguments.dry_run and arguments.to is None:
        raise UsageError("--dry-run goes with --to")
    with open_admin(arguments) as admin:
        wanted = partitions_of(admin.cluster, arguments.topic)
        found = admin.share_group_offsets(arguments.group, wanted or None)
        targets: dict[TopicPartition, int] = {}
        if arguments.to is not None:
            targets = named_offsets(admin.cluster, wanted, arguments.to, _starts(found))
        if targets and not arguments.dry_run:
            _set_offsets(admin, arguments.group, targets)
            found = admin.share_group_offsets(arguments.group, wanted)
        if not found and arguments.to is None:
            require_group(admin, arguments.group, is_share=True)
        ends = ends_of(admin, {*found, *targets})
    if arguments.dry_run:
        at = _starts(found)
        planned = [
            PlannedOffset(*one, at.get(one), offset, ends.get(one))
            for one, offset in sorted(targets.items())
        ]
        print_views(arguments, PlannedOffset, planned)
    else:
        shown = [ShareOffsetView.of(one, at, ends.get(one)) for one, at in found.items()]
        print_views(arguments, ShareOffsetView, shown)
    return 0


def _set_offsets(admin: Admin, group: str, targets: dict[TopicPartition, int]) -> None:
    try:
        admin.alter_share_group_offsets(group, targets)
    except BrokerError as error:
        if error.code == ErrorCode.GROUP_ID_NOT_FOUND:
            require_kind(admin, group, is_share=True)
        raise


def _starts(found: dict[TopicPartition, ShareOffset]) -> dict[TopicPartition, int]:
    return {one: at.start_offset for one, at in found.items() if at.start_offset is not None}


@command
def delete_share_offsets(arguments: argparse.Namespace) -> int:
    """Forget topics; an error names the first that the coordinator refused."""
    from fencepost.views.group_offsets import DeletedShareOffsets

    with open_admin(arguments) as admin:
        admin.delete_share_group_offsets(arguments.group, arguments.topics)
    topics = ", ".join(arguments.topics)
    sentence = f"group {arguments.group} has forgotten {topics}"
    print_result(arguments, DeletedShareOffsets(arguments.group, arguments.topics), sentence)
    return 0
