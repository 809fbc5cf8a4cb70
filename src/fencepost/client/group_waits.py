"""Which member of a consumer group waits for which other one, and since when (KIP-848).

A partition goes to its next member when the one that has it has given it up. So a member waits for
each partition of its target assignment that another member still has. The description of a group
says that much; since when, the coordinator's log does: `__consumer_offsets` has a record of each
step of each member, with the time that it was taken. `explaining_waits` reads the log of the last
hour, and leaves times out that are older, or that the caller may not read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from fencepost.batch.errors import BatchError
from fencepost.client import asking
from fencepost.client.cluster_view import ClusterView
from fencepost.client.consumer_membership import LEAVE_FOR_A_WHILE_EPOCH, IdPartition
from fencepost.client.conversation import Conversation
from fencepost.client.errors import BrokerError, ClientError
from fencepost.client.fetch_core import FetchCore, FetchPosition
from fencepost.client.group_descriptions import CONSUMER, GroupDescription, describing_group
from fencepost.client.metadata import TopicPartition
from fencepost.client.offsets import listing_offsets
from fencepost.machines.group.partitioner import partition_for
from fencepost.wire.errors import DecodeError, ErrorCode
from fencepost.wire.records import group as records
from fencepost.wire.types import Uuid

OFFSETS_TOPIC: Final = "__consumer_offsets"
LOOK_BACK_MS: Final = 3_600_000
LOG_BYTES_MAX: Final = 64 * 1024 * 1024
"""So much of the log is read at most; without all of it no time is told."""


class Wait(NamedTuple):
    """A member waits for a partition. `holder_id` is the member that has it, None for a partition
    that is free: the coordinator gives it with the waiting member's next heartbeat.

    `is_asked` tells whether the coordinator has taken the partition from the holder's assignment;
    from then on (`since_ms`, else since the target assignment was made) the holder has until
    `ends_ms` to give it up, or is put out of the group. `is_away`: the holder is a static member
    that has left for a while. Times are milliseconds since 1970, None where they are not known.
    """

    member_id: str
    partition: TopicPartition
    holder_id: str | None = None
    is_asked: bool = False
    is_away: bool = False
    since_ms: int | None = None
    ends_ms: int | None = None


@dataclass(frozen=True, slots=True)
class GroupWaits:
    """A group with its waits, by member and partition. `assignment_since_ms` is when the group
    reached an epoch for which no target assignment is computed yet, None where there is none such,
    or the time is not known."""

    group: GroupDescription
    waits: tuple[Wait, ...]
    assignment_since_ms: int | None = None

    @property
    def awaits_assignment(self) -> bool:
        """Whether the coordinator has to compute another target assignment first."""
        return self.group.group_epoch > self.group.assignment_epoch


@dataclass(slots=True)
class GroupLog:
    """What the coordinator's log says of one group."""

    group_id: str
    epoch_since_ms: int | None = None
    target_since_ms: int | None = None
    pending_since_ms: dict[str, dict[IdPartition, int]] = field(default_factory=dict)
    rebalance_timeout_ms: dict[str, int] = field(default_factory=dict)

    def replay(self, timestamp_ms: int, key: Any, value: Any) -> None:
        """Take in a record; a value of None deletes what the key names."""
        if getattr(key, "group_id", None) != self.group_id:
            return
        if isinstance(key, records.ConsumerGroupMetadataKey):
            self.epoch_since_ms = None if value is None else timestamp_ms
        elif isinstance(key, records.ConsumerGroupTargetAssignmentMetadataKey):
            self.target_since_ms = None if value is None else timestamp_ms
        elif isinstance(key, records.ConsumerGroupMemberMetadataKey):
            self.rebalance_timeout_ms.pop(key.member_id, None)
            if value is not None:
                self.rebalance_timeout_ms[key.member_id] = value.rebalance_timeout_ms
        elif isinstance(key, records.ConsumerGroupCurrentMemberAssignmentKey):
            before = self.pending_since_ms.pop(key.member_id, {})
            if value is not None:
                self.pending_since_ms[key.member_id] = {
                    one: before.get(one, timestamp_ms)
                    for topic in value.partitions_pending_revocation
                    for number in topic.partitions
                    for one in [IdPartition(Uuid(topic.topic_id), number)]
                }


def waits_of(
    group: GroupDescription,
    log: GroupLog | None = None,
    topic_ids: Mapping[str, Uuid] | None = None,
) -> list[Wait]:
    """The waits in a group, with the times that the log has."""
    holders = {at: member for member in group.members for at in member.assigned}
    found = []
    for member in sorted(group.members, key=lambda one: one.member_id):
        for at in sorted(set(member.target).difference(member.assigned)):
            holder = holders.get(at)
            if holder is None:
                found.append(Wait(member.member_id, at))
                continue
            wait = Wait(member.member_id, at, holder.member_id)
            is_away = holder.member_epoch == LEAVE_FOR_A_WHILE_EPOCH
            found.append(_timed(wait._replace(is_away=is_away), log, topic_ids or {}))
    return found


def _timed(wait: Wait, log: GroupLog | None, topic_ids: Mapping[str, Uuid]) -> Wait:
    topic_id = topic_ids.get(wait.partition.topic)
    if log is None or topic_id is None or wait.holder_id is None:
        return wait
    pending = log.pending_since_ms.get(wait.holder_id, {})
    since_ms = pending.get(IdPartition(topic_id, wait.partition.partition))
    if since_ms is None:
        return wait._replace(since_ms=log.target_since_ms)
    timeout_ms = log.rebalance_timeout_ms.get(wait.holder_id)
    ends_ms = None if timeout_ms is None else min(pending.values()) + timeout_ms
    return wait._replace(is_asked=True, since_ms=since_ms, ends_ms=ends_ms)


def explaining_waits(view: ClusterView[Any], group: str, now_ms: int) -> Conversation[GroupWaits]:
    """Who waits for whom in a group; `now_ms` is milliseconds since 1970. Members of classic and
    share groups are not described well enough to tell, so there is no wait in these.

    Raises BrokerError, GROUP_ID_NOT_FOUND among others.
    """
    return (
        yield from explaining_waits_in(view, (yield from describing_group(view, group)), now_ms)
    )


def explaining_waits_in(
    view: ClusterView[Any], described: GroupDescription, now_ms: int
) -> Conversation[GroupWaits]:
    """The same of a group that was described just now."""
    if described.kind != CONSUMER:
        return GroupWaits(described, ())
    if not waits_of(described) and described.group_epoch == described.assignment_epoch:
        return GroupWaits(described, ())
    log = yield from _reading_log(view, described.group_id, now_ms - LOOK_BACK_MS)
    topics = {at.topic for member in described.members for at in member.target}
    infos = yield from asking.describe(view, topics)
    ids = {info.name: info.topic_id for info in infos if info.error_code == ErrorCode.NONE}
    since_ms = None
    if log is not None and described.group_epoch > described.assignment_epoch:
        since_ms = log.epoch_since_ms
    return GroupWaits(described, tuple(waits_of(described, log, ids)), since_ms)


def _reading_log(
    view: ClusterView[Any], group: str, since_ms: int
) -> Conversation[GroupLog | None]:
    """What the log says since then; None if it may not be read, or is too long."""
    log = GroupLog(group)
    try:
        info = yield from asking.topic(view, OFFSETS_TOPIC)
        where = TopicPartition(OFFSETS_TOPIC, partition_for(group, len(info.partitions)))
        listed = yield from listing_offsets(view, {where: max(0, since_ms)})
        if listed[where].offset < 0:
            return log
        position = FetchPosition(listed[where].offset)
        core, read_bytes = FetchCore(view), 0
        while read_bytes < LOG_BYTES_MAX:
            for fetched in (yield from core.fetching({where: position}, max_wait_ms=0)):
                for timestamp_ms, key, value in _decoded(fetched.read_records()):
                    log.replay(timestamp_ms, key, value)
                read_bytes += len(fetched.records)
                position = FetchPosition(fetched.next_offset, fetched.last_epoch)
                if position.offset >= fetched.high_watermark:
                    return log
                if not len(fetched.records):
                    return None
    except (BrokerError, BatchError) as error:
        if isinstance(error, ClientError) and error.retriable:
            raise
    return None


def _decoded(found: Iterable[Any]) -> Iterator[tuple[int, Any, Any]]:
    """Time, key and value of records; without those of types that this release does not know."""
    for record in found:
        if record.key is None:
            continue
        try:
            key = records.decode_key(record.key)
            value = None if record.value is None else records.decode_value(key, record.value)
        except DecodeError:
            continue
        yield record.timestamp_ms, key, value
