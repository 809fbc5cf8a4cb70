"""Groups as their coordinators describe them, of every type.

Each type has a request of its own: DescribeGroups for classic groups, ConsumerGroupDescribe
(KIP-848), ShareGroupDescribe (KIP-932) and StreamsGroupDescribe (KIP-1071). A coordinator answers
GROUP_ID_NOT_FOUND for a group of another type, so `describing_group` asks one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from fencepost.client import asking
from fencepost.client.cluster_view import ClusterView
from fencepost.client.conversation import Conversation
from fencepost.client.errors import BrokerError
from fencepost.client.group_offsets import error_in
from fencepost.client.membership import PROTOCOL_TYPE, decode_assignment
from fencepost.client.metadata import TopicPartition
from fencepost.wire.api.consumer_group_describe import ConsumerGroupDescribeRequest
from fencepost.wire.api.describe_groups import DescribeGroupsRequest
from fencepost.wire.api.share_group_describe import ShareGroupDescribeRequest
from fencepost.wire.api.streams_group_describe import StreamsGroupDescribeRequest
from fencepost.wire.errors import DecodeError, ErrorCode
from fencepost.wire.message import Request

CLASSIC, CONSUMER, SHARE, STREAMS = "classic", "consumer", "share", "streams"
GROUP_TYPES: Final = (CLASSIC, CONSUMER, SHARE, STREAMS)
DEAD: Final = "Dead"
UNKNOWN_EPOCH: Final = -1
CLASSIC_MEMBER: Final = 0
"""The member type of a consumer group's member that speaks the classic protocol."""


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A member of a classic, consumer or share group, and its partitions.

    `assigned` are those that it has, of a consumer group with those that it still has to give up;
    `target` those that it is to have (consumer groups). Epochs, topics, pattern and rack are those
    of consumer and share groups. `is_classic` members of a consumer group speak the classic
    protocol, while the group is being moved over.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    assigned: tuple[TopicPartition, ...]
    member_epoch: int = UNKNOWN_EPOCH
    target: tuple[TopicPartition, ...] = ()
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    rack_id: str | None = None
    is_classic: bool = False


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A classic, consumer or share group (`kind`). `assignor` is the protocol on which members of a
    classic group agreed, or what the coordinator uses.

    `group_epoch` grows with each change of members, subscriptions or partitions; `assignment_epoch`
    is the one that the target assignment was computed for. Both are -1 for classic groups.
    """

    group_id: str
    state: str
    protocol_type: str
    assignor: str
    coordinator_id: int
    members: tuple[GroupMember, ...]
    kind: str = CLASSIC
    group_epoch: int = UNKNOWN_EPOCH
    assignment_epoch: int = UNKNOWN_EPOCH


class Task(NamedTuple):
    """A task of a streams group: a partition of a subtopology."""

    subtopology: str
    partition: int

    def __str__(self) -> str:
        return f"{self.subtopology}_{self.partition}"


@dataclass(frozen=True, slots=True)
class StreamsTasks:
    """The tasks of a member by what it does with them."""

    active: tuple[Task, ...]
    standby: tuple[Task, ...]
    warmup: tuple[Task, ...]


@dataclass(frozen=True, slots=True)
class StreamsGroupMember:
    """A member of a streams group; `process_id` is common to the threads of a process."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    member_epoch: int
    topology_epoch: int
    process_id: str
    assigned: StreamsTasks
    target: StreamsTasks
    rack_id: str | None = None


@dataclass(frozen=True, slots=True)
class StreamsGroupDescription:
    """A streams group. `subtopologies` has the source topics of each, and is None while these are
    missing or do not fit; `assignor` is None from brokers that do not tell."""

    group_id: str
    state: str
    assignor: str | None
    coordinator_id: int
    group_epoch: int
    assignment_epoch: int
    topology_epoch: int
    subtopologies: dict[str, tuple[str, ...]] | None
    members: tuple[StreamsGroupMember, ...]
    kind: str = STREAMS


AnyGroup = GroupDescription | StreamsGroupDescription


def describing_group(view: ClusterView[Any], group: str) -> Conversation[GroupDescription]:
    """A classic, consumer or share group.

    Kafka answers for one that does not exist with state Dead, or with GROUP_ID_NOT_FOUND
    (BrokerError) since version 6 of DescribeGroups; a streams group does not exist here.
    """
    found = yield from _first_known(view, group, (CLASSIC, CONSUMER, SHARE))
    assert isinstance(found, GroupDescription), found
    return found


def describing_any_group(
    view: ClusterView[Any], group: str, likely: str | None = None
) -> Conversation[AnyGroup]:
    """The same of a group of any type; the type that is `likely` is asked for first, which costs
    one request where it is right."""
    kinds = sorted(GROUP_TYPES, key=lambda kind: kind != likely)
    return (yield from _first_known(view, group, kinds))


def describing_streams_group(
    view: ClusterView[Any], group: str
) -> Conversation[StreamsGroupDescription]:
    """A streams group. BrokerError, GROUP_ID_NOT_FOUND among others."""
    found = yield from _describing(view, group, STREAMS)
    assert isinstance(found, StreamsGroupDescription), found
    return found


def _first_known(
    view: ClusterView[Any], group: str, kinds: Iterable[str]
) -> Conversation[AnyGroup]:
    node = yield from asking.coordinator(view, group)
    served = (yield from asking.connect(node)).api_versions
    dead: AnyGroup | None = None
    refused: BrokerError | None = None
    for kind in kinds:
        if kind != CLASSIC and _KINDS[kind][0](group).api_key not in served:
            continue
        try:
            found = yield from _describing(view, group, kind)
        except BrokerError as error:
            if error.code != ErrorCode.GROUP_ID_NOT_FOUND:
                raise
            refused = refused or error
        else:
            if found.state != DEAD:
                return found
            dead = dead or found
    if dead is not None:
        return dead
    assert refused is not None
    raise refused


def _describing(view: ClusterView[Any], group: str, kind: str) -> Conversation[AnyGroup]:
    request, read = _KINDS[kind]
    response = yield from asking.request_coordinator(
        view,
        group,
        request(group),
        lambda answer: error_in(answer.groups),
        what=f"cannot describe group {group}",
    )
    coordinator = yield from asking.coordinator(view, group)
    return read(response.groups[0], coordinator.node_id)


# -- answers ---------------------------------------------------------------------------------------


def _classic(found: Any, coordinator_id: int) -> GroupDescription:
    return GroupDescription(
        group_id=found.group_id,
        state=found.group_state,
        protocol_type=found.protocol_type,
        assignor=found.protocol_data,
        coordinator_id=coordinator_id,
        members=tuple(
            GroupMember(
                member.member_id,
                member.group_instance_id,
                member.client_id,
                member.client_host,
                _decoded(found.protocol_type, bytes(member.member_assignment)),
            )
            for member in found.members
        ),
    )


def _consumer(found: Any, coordinator_id: int) -> GroupDescription:
    return GroupDescription(
        group_id=found.group_id,
        state=found.group_state,
        protocol_type=PROTOCOL_TYPE,
        assignor=found.assignor_name,
        coordinator_id=coordinator_id,
        members=tuple(
            GroupMember(
                member.member_id,
                member.instance_id,
                member.client_id,
                member.client_host,
                _partitions(member.assignment),
                member.member_epoch,
                _partitions(member.target_assignment),
                tuple(member.subscribed_topic_names),
                member.subscribed_topic_regex or None,
                member.rack_id,
                member.member_type == CLASSIC_MEMBER,
            )
            for member in found.members
        ),
        kind=CONSUMER,
        group_epoch=found.group_epoch,
        assignment_epoch=found.assignment_epoch,
    )


def _share(found: Any, coordinator_id: int) -> GroupDescription:
    return GroupDescription(
        group_id=found.group_id,
        state=found.group_state,
        protocol_type=SHARE,
        assignor=found.assignor_name,
        coordinator_id=coordinator_id,
        members=tuple(
            GroupMember(
                member.member_id,
                None,
                member.client_id,
                member.client_host,
                _partitions(member.assignment),
                member.member_epoch,
                topics=tuple(member.subscribed_topic_names),
                rack_id=member.rack_id,
            )
            for member in found.members
        ),
        kind=SHARE,
        group_epoch=found.group_epoch,
        assignment_epoch=found.assignment_epoch,
    )


def _streams(found: Any, coordinator_id: int) -> StreamsGroupDescription:
    topology = found.topology
    parts = None if topology is None else topology.subtopologies
    return StreamsGroupDescription(
        group_id=found.group_id,
        state=found.group_state,
        assignor=found.assignor_name,
        coordinator_id=coordinator_id,
        group_epoch=found.group_epoch,
        assignment_epoch=found.assignment_epoch,
        topology_epoch=UNKNOWN_EPOCH if topology is None else topology.epoch,
        subtopologies=None
        if parts is None
        else {one.subtopology_id: tuple(one.source_topics) for one in parts},
        members=tuple(
            StreamsGroupMember(
                member.member_id,
                member.instance_id,
                member.client_id,
                member.client_host,
                member.member_epoch,
                member.topology_epoch,
                member.process_id,
                _tasks(member.assignment),
                _tasks(member.target_assignment),
                member.rack_id,
            )
            for member in found.members
        ),
    )


_KINDS: Final[dict[str, tuple[Callable[[str], Request[Any]], Callable[[Any, int], AnyGroup]]]] = {
    CLASSIC: (lambda group: DescribeGroupsRequest(groups=[group]), _classic),
    CONSUMER: (lambda group: ConsumerGroupDescribeRequest(group_ids=[group]), _consumer),
    SHARE: (lambda group: ShareGroupDescribeRequest(group_ids=[group]), _share),
    STREAMS: (lambda group: StreamsGroupDescribeRequest(group_ids=[group]), _streams),
}
"""The request about a group of each type, and what reads a group in its answer."""


def _partitions(assignment: Any) -> tuple[TopicPartition, ...]:
    return tuple(
        TopicPartition(topic.topic_name, number)
        for topic in sorted(assignment.topic_partitions, key=lambda one: one.topic_name)
        for number in sorted(topic.partitions)
    )


def _tasks(assignment: Any) -> StreamsTasks:
    def those(entries: Any) -> tuple[Task, ...]:
        found = (Task(one.subtopology_id, n) for one in entries for n in one.partitions)
        return tuple(sorted(found))

    return StreamsTasks(
        those(assignment.active_tasks),
        those(assignment.standby_tasks),
        those(assignment.warmup_tasks),
    )


def _decoded(protocol_type: str, assignment: bytes) -> tuple[TopicPartition, ...]:
    """What a member of the consumer protocol was assigned; nothing readable counts as nothing,
    because other protocols and other clients may put anything there."""
    if protocol_type != PROTOCOL_TYPE or not assignment:
        return ()
    try:
        return decode_assignment(assignment)
    except DecodeError:
        return ()
