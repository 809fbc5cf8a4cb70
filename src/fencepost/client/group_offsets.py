"""The offsets that a group has committed: reading and writing them, as conversations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

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
from fencepost.wire.types import Uuid

LAST_VERSION_WITH_NAMES: Final = 9
FIRST_OFFSET_FETCH_OF_STABLE: Final = 7
FIRST_OFFSET_FETCH_OF_GROUPS: Final = 8


class _TopicIdUnknown(ClientError):
    """The coordinator knows no topic of an id that it was given."""


def reading_offsets(
    view: ClusterView[Any],
    group: str,
    partitions: Iterable[TopicPartition] | None = None,
    *,
    require_stable: bool = False,
) -> Conversation[dict[TopicPartition, CommittedOffset]]:
    """What the group has committed, for `partitions` or (None) all; empty for an unknown group.

    With `require_stable` offsets that an open transaction may change are waited for (KIP-447),
    from brokers that can tell. All of a group's offsets are asked for by name, as topics that are
    not there any more have none; those of topics whose ids are known, by id.
    """
    if partitions is None:
        return (yield from _read(view, group, None, {}, require_stable))
    wanted = by_topic(dict.fromkeys(partitions))
    ids = view.topic_ids(wanted)
    try:
        return (yield from _read(view, group, wanted, ids, require_stable))
    except _TopicIdUnknown:
        yield from asking.describe(view, list(wanted))
        return (yield from _read(view, group, wanted, {}, require_stable))


def _read(
    view: ClusterView[Any],
    group: str,
    wanted: Mapping[str, list[tuple[int, None]]] | None,
    ids: Mapping[str, Uuid],
    require_stable: bool,
) -> Conversation[dict[TopicPartition, CommittedOffset]]:
    highest = _highest(wanted or (), ids)

    def asked(kind: Any, ids: Mapping[str, Uuid]) -> Any:
        if wanted is None:
            return None
        return [
            kind(
                name=topic,
                partition_indexes=[number for number, _ in numbers],
                **({"topic_id": ids[topic]} if topic in ids else {}),
            )
            for topic, numbers in wanted.items()
        ]

    def build(connection: ConnectionCore) -> OffsetFetchRequest:
        version = connection.version_for(OffsetFetchRequest, highest=highest)
        is_stable = require_stable and version >= FIRST_OFFSET_FETCH_OF_STABLE
        if version < FIRST_OFFSET_FETCH_OF_GROUPS:
            found = asked(OffsetFetchRequestTopic, {})
            return OffsetFetchRequest(group_id=group, topics=found, require_stable=is_stable)
        one = OffsetFetchRequestGroup(group_id=group, topics=asked(OffsetFetchRequestTopics, ids))
        return OffsetFetchRequest(groups=[one], require_stable=is_stable)

    def error_of(response: Any) -> int:
        code = error_in(response.groups) if response.groups else int(response.error_code)
        found = response.groups[0] if response.groups else response
        codes = list(_codes_of_partitions(found))
        _check_ids(group, codes)
        return code or next(filter(is_retriable, codes), 0)

    response = yield from asking.request_coordinator(
        view,
        group,
        build,
        error_of,
        what=f"cannot read the offsets of group {group}",
        highest=highest,
    )
    topics = response.groups[0].topics if response.groups else response.topics
    return _offsets_in(group, topics, {topic_id: name for name, topic_id in ids.items()})


def _offsets_in(
    group: str, topics: Iterable[Any], names: Mapping[Uuid, str]
) -> dict[TopicPartition, CommittedOffset]:
    """The offsets of an answer. BrokerError if it has an error."""
    offsets = {}
    for topic in topics:
        name = _name_of(topic, names)
        for entry in topic.partitions:
            if entry.error_code != ErrorCode.NONE:
                raise BrokerError.of(
                    entry.error_code,
                    f"cannot read offsets of group {group}",
                    topic=name,
                    partition=entry.partition_index,
                )
            if entry.committed_offset >= 0:
                offsets[TopicPartition(name, entry.partition_index)] = CommittedOffset(
                    entry.committed_offset, entry.committed_leader_epoch, entry.metadata or ""
                )
    return dict(sorted(offsets.items()))


def _name_of(topic: Any, names: Mapping[Uuid, str]) -> str:
    topic_id = getattr(topic, "topic_id", Uuid.ZERO)
    return str(topic.name or names.get(Uuid(topic_id), ""))


def writing_offsets(
    view: ClusterView[Any],
    member: ConsumerGroupMetadata,
    offsets: Mapping[TopicPartition, CommittedOffset],
) -> Conversation[None]:
    """Set a group's offsets, as one of its members or, while it is empty, from outside.

    They are for the topics as this client knows them, by their ids: where one was deleted, another
    of its name gets none of them. BrokerError: UNKNOWN_MEMBER_ID while the group has members; for a
    member also ILLEGAL_GENERATION and REBALANCE_IN_PROGRESS; UNKNOWN_TOPIC_ID for a topic that is
    another by now.
    """
    topics = by_topic(offsets)
    ids = view.topic_ids(topics)
    try:
        yield from _write(view, member, topics, ids)
    except _TopicIdUnknown:
        yield from asking.describe(view, list(topics))
        now = view.topic_ids(topics)
        for name, topic_id in ids.items():
            if now.get(name) != topic_id:
                raise BrokerError.of(
                    ErrorCode.UNKNOWN_TOPIC_ID,
                    f"cannot set the offsets of group {member.group_id}: the topic was deleted",
                    topic=name,
                ) from None
        # The coordinator has not read of the topics yet.
        yield from _write(view, member, topics, {})


def _write(
    view: ClusterView[Any],
    member: ConsumerGroupMetadata,
    topics: Mapping[str, list[tuple[int, CommittedOffset]]],
    ids: Mapping[str, Uuid],
) -> Conversation[None]:
    request = OffsetCommitRequest(
        group_id=member.group_id,
        generation_id_or_member_epoch=member.generation_id,
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        topics=[
            OffsetCommitRequestTopic(
                name=topic,
                topic_id=ids.get(topic, Uuid.ZERO),
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
            for topic, partitions in topics.items()
        ],
    )

    def error_of(response: Any) -> int:
        codes = list(_codes_of_partitions(response))
        _check_ids(member.group_id, codes)
        return next((code for code in codes if code != ErrorCode.NONE), 0)

    yield from asking.request_coordinator(
        view,
        member.group_id,
        request,
        error_of,
        what=f"cannot set the offsets of group {member.group_id}",
        highest=_highest(topics, ids),
    )


def _highest(topics: Iterable[str], ids: Mapping[str, Uuid]) -> int | None:
    """The version up to which topics can be named: by id, all of them or none."""
    names = list(topics)
    return None if names and all(name in ids for name in names) else LAST_VERSION_WITH_NAMES


def _check_ids(group: str, codes: Iterable[int]) -> None:
    if ErrorCode.UNKNOWN_TOPIC_ID in codes:
        raise _TopicIdUnknown(f"the coordinator of group {group} does not know the id of a topic")


def error_in(entries: Any) -> int:
    """The error code of the one entry there must be."""
    if len(entries) != 1:
        raise ClientError(f"asked about one group, the broker answered about {len(entries)}")
    return int(entries[0].error_code)


def _codes_of_partitions(response: Any) -> Iterator[int]:
    return (entry.error_code for topic in response.topics for entry in topic.partitions)
