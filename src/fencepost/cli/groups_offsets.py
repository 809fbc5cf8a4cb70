"""`fencepost groups offsets` and `delete-offsets`: what a group has committed, and changing it.

The ways to say a new offset are those of Kafka's kafka-consumer-groups, and so is what becomes of
one that the log does not have: it is set to where the log begins or ends, with a warning.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from fencepost.cli.cluster_options import (
    INT64_MAX,
    check_number,
    command,
    finish_cluster_command,
    open_admin,
)
from fencepost.cli.failures import UsageError
from fencepost.cli.output import print_views
from fencepost.cli.partition_words import add_topic_option, print_outcomes, topic_word
from fencepost.client.errors import BrokerError, ClientError
from fencepost.client.group_descriptions import SHARE
from fencepost.wire.errors import ErrorCode

if TYPE_CHECKING:
    from fencepost.client.admin import Admin
    from fencepost.client.cluster import Cluster
    from fencepost.client.metadata import TopicPartition

    Offsets = dict[TopicPartition, int]

WAYS: Final = ("to", "shift_by", "by_duration")
"""Options that set offsets, of which one may be given."""
_DURATION: Final = re.compile(
    r"P(?:(\d+)D)?(?:T(?=\d)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?", re.IGNORECASE
)
_DAYS_MAX: Final = 100_000


def add_offsets(actions: Any) -> None:
    """Add the parsers of both actions."""
    showing = actions.add_parser(
        "offsets", help="committed offsets and lag; --to, --shift-by and --by-duration set them"
    )
    showing.add_argument("group")
    scope = showing.add_mutually_exclusive_group()
    add_topic_option(scope)
    scope.add_argument(
        "--all-topics", action="store_true", help="all partitions that the group has committed"
    )
    way = showing.add_mutually_exclusive_group()
    add_to_option(way)
    way.add_argument("--shift-by", type=int, metavar="N", help="so many records on, or (-N) back")
    way.add_argument(
        "--by-duration", metavar="PnDTnHnMnS", help="the first record of this time before now"
    )
    showing.add_argument("--dry-run", action="store_true", help="say what would be set")
    finish_cluster_command(showing, group_offsets)

    deleting = actions.add_parser("delete-offsets", help="forget what a group has committed")
    deleting.add_argument("group")
    deleting.add_argument("topics", nargs="+", metavar="TOPIC", help="TOPIC or TOPIC:N,N")
    finish_cluster_command(deleting, delete_offsets)


def add_to_option(parser: argparse._ActionsContainer) -> None:
    """Add --to, which `named_offsets` looks up."""
    parser.add_argument(
        "--to",
        metavar="WHERE",
        help="earliest, latest, current, an offset, @MILLISECONDS, or a time like"
        " 2026-01-31T12:00:00 (UTC): the first record since",
    )


@command
def group_offsets(arguments: argparse.Namespace) -> int:
    """Committed offsets with the logs' ends; sets them first when asked to."""
    from fencepost.client.lag import ends_of
    from fencepost.views.group_offsets import GroupOffset, PlannedOffset

    is_reset = any(getattr(arguments, way) is not None for way in WAYS)
    if is_reset and not (arguments.topic or arguments.all_topics):
        raise UsageError("to set offsets, say --topic or --all-topics")
    if arguments.dry_run and not is_reset:
        raise UsageError("--dry-run goes with --to, --shift-by or --by-duration")
    with open_admin(arguments) as admin:
        wanted = partitions_of(admin.cluster, arguments.topic)
        targets = _targets(admin, arguments, wanted) if is_reset else {}
        if is_reset and not arguments.dry_run:
            _set_offsets(admin, arguments.group, targets)
        committed = admin.group_offsets(arguments.group)
        if not (committed or is_reset):
            require_group(admin, arguments.group, is_share=False)
        shown = targets or wanted
        if shown:
            committed = {one: at for one, at in committed.items() if one in shown}
        ends = ends_of(admin, {*committed, *targets})
    if arguments.dry_run:
        planned = [
            PlannedOffset(*one, at.offset if at else None, offset, ends.get(one))
            for one, offset in sorted(targets.items())
            for at in [committed.get(one)]
        ]
        print_views(arguments, PlannedOffset, planned)
    else:
        shown_ones = [GroupOffset.of(one, at, ends.get(one)) for one, at in committed.items()]
        print_views(arguments, GroupOffset, shown_ones)
    return 0


def require_group(admin: Admin, group: str, *, is_share: bool) -> None:
    """Raise ClientError for a group that does not exist, and for one that keeps offsets of the
    other kind; brokers answer for either as if it were there and had none."""
    if require_kind(admin, group, is_share=is_share) is None:
        raise ClientError(f"no such group: {group}")


def require_kind(admin: Admin, group: str, *, is_share: bool) -> str | None:
    """The type of a group, None if it does not exist; ClientError if it is no share group, or is
    one, and so keeps offsets of the other kind."""
    kind = {listed.group_id: listed.kind for listed in admin.list_groups()}.get(group)
    if kind is not None and (kind == SHARE) is not is_share:
        action = "offsets" if is_share else "share-offsets"
        raise ClientError(
            f"group {group} is of the type {kind}: see `fencepost groups {action} {group}`"
        )
    return kind


def partitions_of(cluster: Cluster, words: Iterable[str]) -> list[TopicPartition]:
    """`TOPIC` (all its partitions) and `TOPIC:N,N` words. UsageError, UnknownTopic."""
    from fencepost.client.metadata import TopicPartition

    found: dict[TopicPartition, None] = {}
    for word in words:
        topic, named = topic_word(word)
        existing = cluster.topic(topic).partition_ids
        numbers = existing if named is None else named
        if unknown := [number for number in numbers if number not in existing]:
            raise UsageError(f"topic {topic} has no partition {unknown[0]}")
        found.update(dict.fromkeys(TopicPartition(topic, number) for number in numbers))
    return list(found)


# -- setting ---------------------------------------------------------------------------------------


def _set_offsets(admin: Admin, group: str, targets: Offsets) -> None:
    from fencepost.client.groups import CommittedOffset

    chosen = {partition: CommittedOffset(offset, -1, "") for partition, offset in targets.items()}
    try:
        admin.alter_group_offsets(group, chosen)
    except BrokerError as error:
        if error.code == ErrorCode.GROUP_ID_NOT_FOUND:
            require_kind(admin, group, is_share=False)
        if error.code == ErrorCode.UNKNOWN_MEMBER_ID:  # which a command line has no use for
            error.message = _has_members(group)
        raise


def _has_members(group: str) -> str:
    return (
        f"group {group} has members, and offsets can be set without them only: stop them first;"
        " a static one is a member until its session ends"
    )


def _targets(admin: Admin, arguments: argparse.Namespace, wanted: list[TopicPartition]) -> Offsets:
    """The offsets to be set, within what each log has. ClientError, UsageError."""
    committed = admin.group_offsets(arguments.group)
    if arguments.dry_run:
        _require_empty(admin, arguments.group)
    if arguments.all_topics:
        wanted = existing(admin, committed)
        if not wanted:
            raise ClientError(f"group {arguments.group} has committed no offset of any topic")
    at = {partition: one.offset for partition, one in committed.items() if partition in wanted}
    if arguments.shift_by is not None:
        check_number("--shift-by", arguments.shift_by, -INT64_MAX, INT64_MAX)
        if missing := [partition for partition in wanted if partition not in at]:
            raise ClientError(
                f"--shift-by: group {arguments.group} has committed no offset of {missing[0]}"
            )
        moved = {partition: offset + arguments.shift_by for partition, offset in at.items()}
        return within_logs(admin.cluster, moved)
    if arguments.by_duration is not None:
        return _since(admin.cluster, wanted, _before_now_ms(arguments.by_duration))
    return named_offsets(admin.cluster, wanted, arguments.to, at)


def _require_empty(admin: Admin, group: str) -> None:
    """Raise ClientError for a group with members; there may be no group yet."""
    try:
        has_members = bool(admin.describe_group(group).members)
    except BrokerError as error:
        if error.code != ErrorCode.GROUP_ID_NOT_FOUND:
            raise
        return
    if has_members:
        raise ClientError(_has_members(group))


def existing(admin: Admin, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
    """Those that are there: a group keeps the offsets of a deleted topic for a while."""
    topics = {topic.name: topic for topic in admin.list_topics(include_internal=True)}
    found = []
    for one in partitions:
        if one.topic in topics and one.partition in topics[one.topic].partitions:
            found.append(one)
        else:
            _warn(f"{one} does not exist any more, and is left out")
    return found


def named_offsets(
    cluster: Cluster, partitions: list[TopicPartition], where: str, committed: Offsets
) -> Offsets:
    """Offsets for --to, within what each log has; `committed` are those for `current`."""
    from fencepost.client.offset_targets import OFFSET, OffsetTarget, resolving_target

    try:
        target = OffsetTarget.of(where)
    except ValueError as error:
        raise UsageError(f"--to {where!r}: {error}") from None
    found = cluster.run(resolving_target(cluster, partitions, target, committed))
    if target.kind == OFFSET:
        _warn_of_other(dict.fromkeys(partitions, target.number), found)
    return found


def _since(cluster: Cluster, partitions: list[TopicPartition], since_ms: int) -> Offsets:
    """The first record that is as new, or the end of the log where none is."""
    from fencepost.client.offset_targets import TIME, OffsetTarget, resolving_target

    target = OffsetTarget(TIME, since_ms)
    return cluster.run(resolving_target(cluster, partitions, target, {}))


def within_logs(cluster: Cluster, wanted: Offsets) -> Offsets:
    """The same, but no offset before the beginning or behind the end of its log."""
    from fencepost.client import offset_targets

    found = cluster.run(offset_targets.within_logs(cluster, wanted))
    _warn_of_other(wanted, found)
    return found


def _warn_of_other(wanted: Offsets, chosen: Offsets) -> None:
    """Tell of offsets that logs do not have."""
    for partition, offset in wanted.items():
        taken = chosen[partition]
        if offset > taken:
            _warn(f"{partition}: {offset} is beyond the log's end; {taken} is taken")
        elif offset < taken:
            _warn(f"{partition}: {offset} is before the log's start; {taken} is taken")


def _warn(text: str) -> None:
    print(f"fencepost groups: {text}", file=sys.stderr)


def _before_now_ms(text: str) -> int:
    """Milliseconds since 1970 of a moment so long ago, written as Java's Duration. UsageError."""
    from fencepost.cli.times import now_ms

    match = _DURATION.fullmatch(text)
    if match is None or not any(match.groups()):
        raise UsageError(f"--by-duration {text!r}: must be like P1DT12H30M5S")
    days, hours, minutes, seconds = (float(part or 0) for part in match.groups())
    if days + hours / 24 + minutes / 1440 + seconds / 86_400 > _DAYS_MAX:
        raise UsageError(f"--by-duration {text!r}: allowed is up to {_DAYS_MAX} days")
    ago = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
    return max(0, now_ms() - ago // timedelta(milliseconds=1))


# -- deleting --------------------------------------------------------------------------------------


@command
def delete_offsets(arguments: argparse.Namespace) -> int:
    """Forget offsets; a row per partition, exit code 1 unless all are forgotten."""
    from fencepost.client.errors import refusal
    from fencepost.client.replicas import Outcome

    with open_admin(arguments) as admin:
        known = {one.name for one in admin.list_topics(include_internal=True)}
        committed = admin.group_offsets(arguments.group)
        chosen: dict[TopicPartition, None] = {}
        for word in arguments.topics:
            if word.partition(":")[0] in known:
                found = partitions_of(admin.cluster, [word])
            else:  # a topic that was deleted, and of which the group still has offsets
                found = [one for one in committed if word in (one.topic, f"{one.topic}:{one[1]}")]
            if not found:
                raise ClientError(f"{word}: there is no such topic, nor an offset of it")
            chosen.update(dict.fromkeys(found))
        try:
            codes = admin.delete_group_offsets(arguments.group, chosen)
        except BrokerError as error:
            if error.code == ErrorCode.GROUP_ID_NOT_FOUND:
                require_kind(admin, arguments.group, is_share=False)
            raise
    outcomes = {
        partition: Outcome(code, refusal(code) if code else None)
        for partition, code in codes.items()
    }
    return print_outcomes(arguments, outcomes, "deleted")
