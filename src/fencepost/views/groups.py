"""Groups: in a list, and one with its members and how far they have read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from fencepost.client.cluster_view import ClusterView
from fencepost.client.consumer_membership import LEAVE_FOR_A_WHILE_EPOCH
from fencepost.client.conversation import Conversation
from fencepost.client.group_descriptions import (
    CLASSIC,
    CONSUMER,
    SHARE,
    AnyGroup,
    GroupDescription,
    GroupMember,
    StreamsGroupDescription,
    StreamsGroupMember,
    describing_any_group,
)
from fencepost.client.groups import ListedGroup
from fencepost.client.lag import PartitionLag, finding_ends, finding_lag
from fencepost.client.metadata import TopicPartition
from fencepost.client.share_groups import describing_share_offsets
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
    """A member and the partitions that it has ("topic-0"). Of a classic group's members `epoch` is
    None; what they are to have and subscribe to is known of consumer groups' members."""

    columns: ClassVar = {
        "member": "member",
        "instance": "instance",
        "client-id": "client",
        "host": "host",
        "epoch": "epoch",
        "state": "state",
        "partitions": "partitions_text",
        "target": "target_text",
    }

    member: str
    instance: str | None
    client: str
    host: str
    partitions: list[str]
    epoch: int | None
    state: str | None
    target: list[str] | None
    topics: list[str] | None
    pattern: str | None

    @property
    def partitions_text(self) -> str:
        return ",".join(self.partitions) or "-"

    @property
    def target_text(self) -> str:
        return ",".join(self.target or ()) or "-"

    @classmethod
    def of(cls, one: GroupMember, group: GroupDescription) -> MemberView:
        names = [[str(at) for at in some] for some in (one.assigned, one.target)]
        plain = (one.member_id, one.instance_id, one.client_id, one.client_host, names[0])
        if group.kind == CLASSIC:
            return cls(*plain, None, None, None, None, None)
        state = member_state(one, group)
        target = names[1] if group.kind == CONSUMER else None
        return cls(*plain, one.member_epoch, state, target, list(one.topics), one.pattern)


def member_state(one: GroupMember, group: GroupDescription) -> str:
    """How far a member is on its way to the group's target assignment, by Kafka's names for it: a
    member of a consumer group has partitions to give up (UnrevokedPartitions) before it gets those
    that others have to give up (UnreleasedPartitions). `Joining` has not reached the epoch of the
    assignment, and `Away` is a static member that left for a while."""
    if one.member_epoch == LEAVE_FOR_A_WHILE_EPOCH:
        return "Away"
    if group.kind == CONSUMER and set(one.assigned).difference(one.target):
        return "UnrevokedPartitions"
    if one.member_epoch < group.assignment_epoch:
        return "Joining"
    if group.kind == CONSUMER and set(one.target).difference(one.assigned):
        return "UnreleasedPartitions"
    return "Stable"


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
    """A classic, consumer or share group (`kind`). `assignor` is the protocol on which members of a
    classic group agreed, or what the coordinator uses; classic groups have no epochs."""

    group: str
    state: str
    protocol_type: str
    assignor: str
    coordinator: int
    members: list[MemberView]
    partitions: list[Progress]
    kind: str
    group_epoch: int | None
    assignment_epoch: int | None

    @property
    def heading(self) -> str:
        text = (
            f"group {self.group}  state {self.state}  assignor {self.assignor or '-'}  "
            f"coordinator {self.coordinator}"
        )
        if self.group_epoch is None:
            return text
        epochs = f"epoch {self.group_epoch}  assignment-epoch {self.assignment_epoch}"
        return f"{text}  type {self.kind}  {epochs}"


class StreamsMemberView(View, frozen=True):
    """A member of a streams group and its tasks ("subtopology_partition")."""

    columns: ClassVar = {
        "member": "member",
        "client-id": "client",
        "host": "host",
        "epoch": "epoch",
        "active": "active_text",
        "standby": "standby_text",
        "target-active": "target_text",
    }

    member: str
    instance: str | None
    client: str
    host: str
    epoch: int
    process: str
    active: list[str]
    standby: list[str]
    warmup: list[str]
    target_active: list[str]
    target_standby: list[str]
    target_warmup: list[str]

    @property
    def active_text(self) -> str:
        return ",".join(self.active) or "-"

    @property
    def standby_text(self) -> str:
        return ",".join(self.standby) or "-"

    @property
    def target_text(self) -> str:
        return ",".join(self.target_active) or "-"

    @classmethod
    def of(cls, one: StreamsGroupMember) -> StreamsMemberView:
        tasks = [
            [str(task) for task in role]
            for which in (one.assigned, one.target)
            for role in (which.active, which.standby, which.warmup)
        ]
        who = (one.member_id, one.instance_id, one.client_id, one.client_host)
        return cls(*who, one.member_epoch, one.process_id, *tasks)


class StreamsGroupView(View, frozen=True):
    """A streams group. `subtopologies` has the source topics of each, and is None while these are
    missing or do not fit."""

    group: str
    state: str
    assignor: str | None
    coordinator: int
    group_epoch: int
    assignment_epoch: int
    topology_epoch: int
    subtopologies: dict[str, list[str]] | None
    members: list[StreamsMemberView]
    kind: str

    @property
    def heading(self) -> str:
        return (
            f"group {self.group}  state {self.state}  assignor {self.assignor or '-'}  "
            f"coordinator {self.coordinator}  type {self.kind}  epoch {self.group_epoch}  "
            f"assignment-epoch {self.assignment_epoch}  topology-epoch {self.topology_epoch}"
        )

    @classmethod
    def of(cls, group: StreamsGroupDescription) -> StreamsGroupView:
        parts = group.subtopologies
        return cls(
            group.group_id,
            group.state,
            group.assignor,
            group.coordinator_id,
            group.group_epoch,
            group.assignment_epoch,
            group.topology_epoch,
            None if parts is None else {one: list(topics) for one, topics in parts.items()},
            [StreamsMemberView.of(member) for member in group.members],
            group.kind,
        )


class DeletedGroups(View, frozen=True):
    """Groups that were deleted."""

    deleted: list[str]


def viewing_group(view: ClusterView[Any], group: str) -> Conversation[GroupView | StreamsGroupView]:
    """State and members of a group of any type; of each partition that is assigned, or that the
    group has an offset of, how far it is read. Streams groups are described by tasks instead."""
    return (yield from viewing_described(view, (yield from describing_any_group(view, group))))


def viewing_described(
    view: ClusterView[Any], described: AnyGroup
) -> Conversation[GroupView | StreamsGroupView]:
    """The same of a group that was described just now."""
    if isinstance(described, StreamsGroupDescription):
        return StreamsGroupView.of(described)
    assigned = [where for member in described.members for where in member.assigned]
    if described.kind == SHARE:
        return group_view(described, (yield from _share_progress(view, described, assigned)))
    lags = yield from finding_lag(view, described.group_id, assigned)
    return group_view(described, progress_of(described.members, lags))


def _share_progress(
    view: ClusterView[Any], group: GroupDescription, assigned: Iterable[TopicPartition]
) -> Conversation[list[Progress]]:
    """A row per partition, with its member if only one reads it."""
    offsets = yield from describing_share_offsets(view, group.group_id)
    wanted = sorted({*offsets, *assigned})
    ends = yield from finding_ends(view, wanted)
    rows = []
    for where in wanted:
        readers = [member for member in group.members if where in member.assigned]
        at = offsets.get(where)
        reader = readers[0] if len(readers) == 1 else None
        rows.append(
            Progress(
                *where,
                at.start_offset if at else None,
                ends.get(where),
                at.lag if at else None,
                reader.member_id if reader else None,
                reader.client_host if reader else None,
                reader.client_id if reader else None,
            )
        )
    return rows


def group_view(group: GroupDescription, progress: Iterable[Progress]) -> GroupView:
    """The view of what was answered."""
    has_epochs = group.kind != CLASSIC
    return GroupView(
        group.group_id,
        group.state,
        group.protocol_type,
        group.assignor,
        group.coordinator_id,
        [MemberView.of(member, group) for member in group.members],
        list(progress),
        group.kind,
        group.group_epoch if has_epochs else None,
        group.assignment_epoch if has_epochs else None,
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
