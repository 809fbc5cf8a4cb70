"""Setting the offsets of a group that has no members."""

from __future__ import annotations

from fencepost.client.admin import describing_topic
from fencepost.client.errors import BrokerError
from fencepost.client.group_descriptions import SHARE, describing_group
from fencepost.client.group_offsets import reading_offsets
from fencepost.client.groups import altering_group_offsets
from fencepost.client.metadata import CommittedOffset, TopicPartition
from fencepost.client.offset_targets import OffsetTarget, resolving_target
from fencepost.console.asked import Asked, BadQuery
from fencepost.console.session import Session
from fencepost.console.writes.plan import CannotBe, Plan
from fencepost.console.writes.topics import required
from fencepost.views.view import count
from fencepost.wire.errors import ErrorCode


async def reset_offsets(session: Session, asked: Asked) -> Plan:
    """A group's offsets in a topic, or in one partition of it, to a place in each log."""
    group = required(asked, "group")
    is_known = await _require_empty(session, group)
    partitions = await _partitions(session, asked)
    target = _target(asked)
    committed: dict[TopicPartition, CommittedOffset] = {}
    if is_known:
        committed = await session.run(reading_offsets(session.cluster, group, partitions))
    current = {where: now.offset for where, now in committed.items()}
    targets = await session.run(resolving_target(session.cluster, partitions, target, current))
    diff = []
    for where, offset in sorted(targets.items()):
        now = committed.get(where)
        was = "nothing committed" if now is None else f"offset {now.offset}"
        if now is None or now.offset != offset:
            diff += [f"- {where}: {was}", f"+ {where}: offset {offset}"]
    if not diff:
        raise CannotBe(f"group {group} is where it would be set to already")

    async def carry_out(session: Session) -> str:
        chosen = {where: CommittedOffset(offset, -1, "") for where, offset in targets.items()}
        await session.run(altering_group_offsets(session.cluster, group, chosen))
        return f"Set {count(len(targets), 'offset')} of group {group}."

    audited = {str(where): offset for where, offset in sorted(targets.items())}
    return Plan(group, diff, carry_out, audited=audited)


async def _require_empty(session: Session, group: str) -> bool:
    """Whether there is such a group, which has no members then. CannotBe for another one."""
    try:
        found = await session.run(describing_group(session.cluster, group))
    except BrokerError as error:
        if error.code != ErrorCode.GROUP_ID_NOT_FOUND:
            raise
        return False  # a group comes to be with its first offset
    if found.kind == SHARE:
        raise CannotBe(f"group {group} is a share group, which has no offsets of this kind")
    if found.members:
        raise CannotBe(
            f"group {group} has {count(len(found.members), 'member')}: offsets are set of groups"
            " without members only; stop them first"
        )
    return True


async def _partitions(session: Session, asked: Asked) -> list[TopicPartition]:
    info = await session.run(describing_topic(session.cluster, required(asked, "topic")))
    number = asked.number("partition", -1, -1, 2**31 - 1)
    if number >= 0 and number not in info.partitions:
        raise CannotBe(f"topic {info.name} has no partition {number}")
    numbers = info.partition_ids if number < 0 else [number]
    return [TopicPartition(info.name, one) for one in numbers]


def _target(asked: Asked) -> OffsetTarget:
    to = asked.text("to").strip()
    try:
        return OffsetTarget.of(to)
    except ValueError as error:
        raise BadQuery("to", to, str(error)) from None
