"""Consumer groups: their members, and how far they have read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from fencepost.client.cluster_view import ClusterView
from fencepost.client.conversation import Conversation
from fencepost.client.group_descriptions import GroupDescription, GroupMember, describing_group
from fencepost.client.groups import ListedGroup
from fencepost.client.lag import PartitionLag, finding_lag
from fencepost.client.metadata import CommittedOffset, TopicPartition
from fencepost.views.view import View


class GroupListed(View, frozen=True):
    """A group in a list; `state` and `kind` are empty from old brokers."""

    columns: ClassVar = {
        "group": "group_id",
        "state": "state",
        "type": "kind",
        "protocol": "protocol_type",
    }

    group_id: str
    state: str
    kind: str
    protocol_type: str

    @classmethod
    def of(cls, group: ListedGroup) -> GroupListed:
        return cls(*group)


class MemberView(View, frozen=True):
    """A member and the partitions that it was assigned ("topic-0")."""

    member: str
    instance: str | None
    client: str
    host: str
    partitions: list[str]

    @classmethod
    def of(cls, one: GroupMember) -> MemberView:
        assigned = [str(partition) for partition in one.assigned]
        return cls(one.member_id, one.instance_id, one.client_id, one.client_host, assigned)


class Progress(View, frozen=True):
    """How far a partition is read and by which member, or a member without a partition. `lag` is in
    records (offsets). The columns are those of Kafka's kafka-consumer-groups.sh."""

    columns: ClassVar = {
        "topic": "topic",
        "partition": "partition",
        "current-offset": "offset",
        "log-end-offset": "end",
        "lag": "lag",
        "consumer-id": "member",
        "host": "host",
        "client-id": "client",
    }

    topic: str | None
    partition: int | None
    offset: int | None
    end: int | None
    lag: int | None
    member: str | None
    host: str | None
    client: str | None


class GroupView(View, frozen=True):
    """A classic group; `assignor` is the protocol that its members agreed on."""

    group: str
    state: str
    protocol_type: str
    assignor: str
    coordinator: int
    members: list[MemberView]
    partitions: list[Progress]

    @property
    def heading(self) -> str:
        return (
            f"group {self.group}  state {self.state}  assignor {self.assignor or '-'}  "
            f"coordinator {self.coordinator}"
        )


class GroupOffset(View, frozen=True):
    """An offset that a group has committed. `lag` is in records (offsets)."""

    columns: ClassVar = {n: n for n in ("topic", "partition", "offset", "end", "lag")}

    topic: str
    partition: int
    offset: int
    leader_epoch: int
    end: int | None
    lag: int | None
    metadata: str

    @classmethod
    def of(cls, where: TopicPartition, at: CommittedOffset, end: int | None) -> GroupOffset:
        lag = PartitionLag(at, end).lag_records
        return cls(*where, at.offset, at.leader_epoch, end, lag, at.metadata)


class PlannedOffset(View, frozen=True):
    """An offset that a group would get."""

    columns: ClassVar = {
        "topic": "topic",
        "partition": "partition",
        "offset": "offset",
        "new-offset": "new_offset",
        "end": "end",
    }

    topic: str
    partition: int
    offset: int | None
    new_offset: int
    end: int | None


class DeletedGroups(View, frozen=True):
    """Groups that were deleted."""

    deleted: list[str]


def viewing_group(view: ClusterView[Any], group: str) -> Conversation[GroupView]:
    """State, members, and for every partition that is committed or assigned how far it is read."""
    described = yield from describing_group(view, group)
    assigned = [where for member in described.members for where in member.assigned]
    return group_view(described, (yield from finding_lag(view, group, assigned)))


def group_view(group: GroupDescription, lags: Mapping[TopicPartition, PartitionLag]) -> GroupView:
    """The view of what was answered."""
    return GroupView(
        group.group_id,
        group.state,
        group.protocol_type,
        group.assignor,
        group.coordinator_id,
        [MemberView.of(member) for member in group.members],
        list(progress_of(group.members, lags)),
    )


def progress_of(
    members: Iterable[GroupMember], lags: Mapping[TopicPartition, PartitionLag]
) -> Iterable[Progress]:
    """A row per partition in order, and per member without any; what is not known is None."""
    owners = {where: member for member in members for where in member.assigned}
    for where, at in sorted(lags.items()):
        member = owners.get(where)
        yield Progress(
            *where,
            at.committed.offset if at.committed else None,
            at.end_offset,
            at.lag_records,
            member.member_id if member else None,
            member.client_host if member else None,
            member.client_id if member else None,
        )
    for member in members:
        if not member.assigned:
            idle = (member.member_id, member.client_host, member.client_id)
            yield Progress(None, None, None, None, None, *idle)
