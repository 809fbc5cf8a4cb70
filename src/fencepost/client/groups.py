"""Managing consumer groups: list, describe, delete, and their committed offsets.

Every broker lists the groups it coordinates; everything else goes to the group's coordinator.
Offsets are set by committing without a member, which brokers allow while the group is empty.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from fencepost.client.cluster import Cluster
from fencepost.client.connection import Connection
from fencepost.client.errors import BrokerError, ClientError
from fencepost.client.leaders import by_topic
from fencepost.client.membership import PROTOCOL_TYPE, Membership, decode_assignment
from fencepost.client.metadata import TopicPartition
from fencepost.wire.api.delete_groups import DeleteGroupsRequest
from fencepost.wire.api.describe_groups import DescribeGroupsRequest
from fencepost.wire.api.list_groups import ListGroupsRequest
from fencepost.wire.api.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from fencepost.wire.api.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from fencepost.wire.errors import DecodeError, ErrorCode, is_retriable

# Later versions name topics by id.
OFFSETS_HIGHEST = 9
FIRST_OFFSET_FETCH_OF_STABLE = 7
FIRST_OFFSET_FETCH_OF_GROUPS = 8


class ListedGroup(NamedTuple):
    """A group as its coordinator lists it; `state` and `kind` are empty from old brokers."""

    group_id: str
    state: str
    kind: str
    protocol_type: str


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A member and what it was assigned (consumer protocol only)."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    assigned: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A classic group; `assignor` is the protocol its members agreed on."""

    group_id: str
    state: str
    protocol_type: str
    assignor: str
    coordinator_id: int
    members: tuple[GroupMember, ...]


class CommittedOffset(NamedTuple):
    """A group's position in a partition: next offset, epoch of the record before it (or -1)."""

    offset: int
    leader_epoch: int
    metadata: str


class GroupAdmin:
    """The group half of `Admin`."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    def list_groups(self) -> list[ListedGroup]:
        """All groups of all coordinators, by id."""
        self.cluster.describe([])
        groups = {}
        for node in list(self.cluster.metadata.nodes.values()):
            response = self.cluster.connection(node).request(ListGroupsRequest())
            if response.error_code != ErrorCode.NONE:
                raise BrokerError.of(response.error_code, "cannot list groups", host=node.address)
            for entry in response.groups:
                groups[entry.group_id] = ListedGroup(
                    entry.group_id, entry.group_state, entry.group_type, entry.protocol_type
                )
        return [groups[group_id] for group_id in sorted(groups)]

    def describe_group(self, group: str) -> GroupDescription:
        """A classic group. Kafka answers for an unknown one with state Dead, or with
        GROUP_ID_NOT_FOUND (BrokerError) since version 6."""
        response = self.cluster.request_coordinator(
            group,
            DescribeGroupsRequest(groups=[group]),
            lambda r: _error_in(r.groups),
            what=f"cannot describe group {group}",
        )
        found = response.groups[0]
        return GroupDescription(
            group_id=found.group_id,
            state=found.group_state,
            protocol_type=found.protocol_type,
            assignor=found.protocol_data,
            coordinator_id=self.cluster.coordinator(group).node_id,
            members=tuple(
                GroupMember(
                    member.member_id,
                    member.group_instance_id,
                    member.client_id,
                    member.client_host,
                    _assigned(found.protocol_type, bytes(member.member_assignment)),
                )
                for member in found.members
            ),
        )

    def delete_group(self, group: str) -> None:
        """Delete an empty group with its offsets. Raises BrokerError NON_EMPTY_GROUP and so on."""
        self.cluster.request_coordinator(
            group,
            DeleteGroupsRequest(groups_names=[group]),
            lambda r: _error_in(r.results),
            what=f"cannot delete group {group}",
        )

    def group_offsets(
        self,
        group: str,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        require_stable: bool = False,
    ) -> dict[TopicPartition, CommittedOffset]:
        """What the group has committed, for `partitions` or (None) all; empty for an unknown group.

        With `require_stable` offsets that an open transaction may change are waited for (KIP-447),
        from brokers that can tell.
        """
        wanted = None if partitions is None else by_topic(dict.fromkeys(partitions))

        def asked(kind: Any) -> Any:
            if wanted is None:
                return None
            return [
                kind(name=topic, partition_indexes=[number for number, _ in numbers])
                for topic, numbers in wanted.items()
            ]

        def build(connection: Connection) -> OffsetFetchRequest:
            version = connection.version_for(OffsetFetchRequest, highest=OFFSETS_HIGHEST)
            is_stable = require_stable and version >= FIRST_OFFSET_FETCH_OF_STABLE
            if version < FIRST_OFFSET_FETCH_OF_GROUPS:
                found = asked(OffsetFetchRequestTopic)
                return OffsetFetchRequest(group_id=group, topics=found, require_stable=is_stable)
            one = OffsetFetchRequestGroup(group_id=group, topics=asked(OffsetFetchRequestTopics))
            return OffsetFetchRequest(groups=[one], require_stable=is_stable)

        def error_of(response: Any) -> int:
            code = _error_in(response.groups) if response.groups else int(response.error_code)
            found = response.groups[0] if response.groups else response
            return code or next(filter(is_retriable, _codes_of_partitions(found)), 0)

        response = self.cluster.request_coordinator(
            group,
            build,
            error_of,
            what=f"cannot read the offsets of group {group}",
            highest=OFFSETS_HIGHEST,
        )
        topics = response.groups[0].topics if response.groups else response.topics
        offsets = {}
        for topic in topics:
            for entry in topic.partitions:
                if entry.error_code != ErrorCode.NONE:
                    raise BrokerError.of(
                        entry.error_code,
                        f"cannot read offsets of group {group}",
                        topic=topic.name,
                        partition=entry.partition_index,
                    )
                if entry.committed_offset >= 0:
                    offsets[TopicPartition(topic.name, entry.partition_index)] = CommittedOffset(
                        entry.committed_offset, entry.committed_leader_epoch, entry.metadata or ""
                    )
        return dict(sorted(offsets.items()))

    def alter_group_offsets(
        self,
        group: str,
        offsets: Mapping[TopicPartition, CommittedOffset],
        member: Membership | None = None,
    ) -> None:
        """Set a group's offsets, as one of its members or, while it is empty, from outside.

        BrokerError: UNKNOWN_MEMBER_ID while it has members; for a member also ILLEGAL_GENERATION
        and REBALANCE_IN_PROGRESS.
        """
        request = OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=member.generation_id if member else -1,
            member_id=member.member_id if member else "",
            group_instance_id=member.config.group_instance_id if member else None,
            topics=[
                OffsetCommitRequestTopic(
                    name=topic,
                    partitions=[
                        OffsetCommitRequestPartition(
                            partition_index=number,
                            committed_offset=committed.offset,
                            committed_leader_epoch=committed.leader_epoch,
                            committed_metadata=committed.metadata,
                        )
                        for number, committed in partitions
                    ],
                )
                for topic, partitions in by_topic(offsets).items()
            ],
        )
        self.cluster.request_coordinator(
            group,
            request,
            _error_of_partitions,
            what=f"cannot set the offsets of group {group}",
            highest=OFFSETS_HIGHEST,
        )


def _error_in(entries: Any) -> int:
    """The error code of the one entry there must be."""
    if len(entries) != 1:
        raise ClientError(f"asked about one group, the broker answered about {len(entries)}")
    return int(entries[0].error_code)


def _codes_of_partitions(response: Any) -> Iterator[int]:
    return (entry.error_code for topic in response.topics for entry in topic.partitions)


def _error_of_partitions(response: Any) -> int:
    return next((code for code in _codes_of_partitions(response) if code != ErrorCode.NONE), 0)


def _assigned(protocol_type: str, assignment: bytes) -> tuple[TopicPartition, ...]:
    """What a member of the consumer protocol was assigned; nothing readable counts as nothing,
    because other protocols and other clients may put anything there."""
    if protocol_type != PROTOCOL_TYPE or not assignment:
        return ()
    try:
        return decode_assignment(assignment)
    except DecodeError:
        return ()
