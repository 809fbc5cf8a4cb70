"""The offsets that a group has committed: reading and writing them, as conversations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from fencepost.client import asking
from fencepost.client.cluster_view import ClusterView
from fencepost.client.connection_core import ConnectionCore
from fencepost.client.conversation import Conversation
from fencepost.client.errors import BrokerError, ClientError
from fencepost.client.leaders import by_topic
from fencepost.client.metadata import CommittedOffset, TopicPartition
from fencepost.client.protocol.transaction_requests import ConsumerGroupMetadata
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
from fencepost.wire.errors import ErrorCode, is_retriable

# Later versions name topics by id.
OFFSETS_HIGHEST = 9
FIRST_OFFSET_FETCH_OF_STABLE = 7
FIRST_OFFSET_FETCH_OF_GROUPS = 8


def reading_offsets(
    view: ClusterView[Any],
    group: str,
    partitions: Iterable[TopicPartition] | None = None,
    *,
    require_stable: bool = False,
) -> Conversation[dict[TopicPartition, CommittedOffset]]:
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

    def build(connection: ConnectionCore) -> OffsetFetchRequest:
        version = connection.version_for(OffsetFetchRequest, highest=OFFSETS_HIGHEST)
        is_stable = require_stable and version >= FIRST_OFFSET_FETCH_OF_STABLE
        if version < FIRST_OFFSET_FETCH_OF_GROUPS:
            found = asked(OffsetFetchRequestTopic)
            return OffsetFetchRequest(group_id=group, topics=found, require_stable=is_stable)
        one = OffsetFetchRequestGroup(group_id=group, topics=asked(OffsetFetchRequestTopics))
        return OffsetFetchRequest(groups=[one], require_stable=is_stable)

    def error_of(response: Any) -> int:
        code = error_in(response.groups) if response.groups else int(response.error_code)
        found = response.groups[0] if response.groups else response
        return code or next(filter(is_retriable, _codes_of_partitions(found)), 0)

    response = yield from asking.request_coordinator(
        view,
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


def writing_offsets(
    view: ClusterView[Any],
    member: ConsumerGroupMetadata,
    offsets: Mapping[TopicPartition, CommittedOffset],
) -> Conversation[None]:
    """Set a group's offsets, as one of its members or, while it is empty, from outside.

    BrokerError: UNKNOWN_MEMBER_ID while it has members; for a member also ILLEGAL_GENERATION
    and REBALANCE_IN_PROGRESS.
    """
    request = OffsetCommitRequest(
        group_id=member.group_id,
        generation_id_or_member_epoch=member.generation_id,
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
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
    yield from asking.request_coordinator(
        view,
        member.group_id,
        request,
        _error_of_partitions,
        what=f"cannot set the offsets of group {member.group_id}",
        highest=OFFSETS_HIGHEST,
    )


def error_in(entries: Any) -> int:
    """The error code of the one entry there must be."""
    if len(entries) != 1:
        raise ClientError(f"asked about one group, the broker answered about {len(entries)}")
    return int(entries[0].error_code)


def _codes_of_partitions(response: Any) -> Iterator[int]:
    return (entry.error_code for topic in response.topics for entry in topic.partitions)


def _error_of_partitions(response: Any) -> int:
    return next((code for code in _codes_of_partitions(response) if code != ErrorCode.NONE), 0)
