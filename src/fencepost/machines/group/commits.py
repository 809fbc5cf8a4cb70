"""Offsets of groups: committing, fetching, deleting and forgetting them.

Theory of operation
-------------------
Offsets belong to groups of all types. Here is what is the same for all; a group says itself whose
commits it takes (`Group.refuse_commit`), which topics it reads and from when on retention counts.
A commit that names no generation and no known group makes a simple group: a consumer assigns itself
its partitions, or an administrator sets offsets.

An offset never changes without a request. It is forgotten when the group does not read the topic
any more and the retention time is over. An expiry that an old client gave with its commit goes
before that. An offset for which a transaction is open stays. A group that is empty and has no
offsets left goes as well, where its type allows that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from fencepost.machines.coordinator import Producer
from fencepost.machines.group.group import Committer, Group, OffsetPartition, dissolve
from fencepost.machines.group.offsets import CommittedOffset, TopicPartition
from fencepost.machines.group.partitioner import utf16_length
from fencepost.machines.group.shard import EXPIRY_TIMER, Decision, Shard
from fencepost.wire.api.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from fencepost.wire.api.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from fencepost.wire.api.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from fencepost.wire.api.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
)
from fencepost.wire.errors import ErrorCode
from fencepost.wire.records.group import OffsetCommitKey, OffsetCommitValue
from fencepost.wire.types import Uuid

GROUP_ID_NOT_FOUND_FROM: Final = 9
"""Version of OffsetCommit from which an unknown group is called that."""
TXN_NEW_ERRORS_FROM: Final = 6
"""Version of TxnOffsetCommit from which an unknown group and an old member epoch are called that
(KIP-1319); before it both are ILLEGAL_GENERATION."""

NO_OFFSET: Final = -1
_USES_RETENTION: Final = -1
_LATEST_MS: Final = (1 << 63) - 1
"""The latest time that a record can have."""


class TxnOffset(NamedTuple):
    """An offset of a TxnOffsetCommit, of a topic that exists."""

    topic: str
    topic_id: Uuid
    partition: TxnOffsetCommitRequestPartition


class Commits:
    """Decides about offsets; shares the shard's state with the rest of the coordinator."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self._config = shard.config

    # OffsetCommit

    def commit(
        self, request: OffsetCommitRequest, api_version: int, token: Any, wall_ms: int
    ) -> Decision:
        """OffsetCommit v2-10, with the names of topics filled in and, where known, their ids."""
        decision = Decision(is_atomic=False)
        group = self._shard.groups.get(request.group_id)
        error = self._refuse_commit(group, request, api_version)
        if error is None and group is not None:
            group.note_commit(decision, request.member_id)
        response = OffsetCommitResponse()
        for topic in request.topics:
            outcome = OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id)
            for partition in topic.partitions:
                refused = error or self._refuse_metadata(partition.committed_metadata)
                if refused is None:
                    key = _key(request.group_id, topic.name, partition.partition_index)
                    retention_ms = request.retention_time_ms
                    value = _value(topic.topic_id, partition, wall_ms, retention_ms)
                    decision.records.append((key, value))
                outcome.partitions.append(
                    OffsetCommitResponsePartition(
                        partition_index=partition.partition_index,
                        error_code=refused or ErrorCode.NONE,
                    )
                )
            response.topics.append(outcome)
        decision.reply(token, response)
        return decision

    def _refuse_commit(
        self, group: Group | None, request: OffsetCommitRequest, api_version: int
    ) -> ErrorCode | None:
        epoch = request.generation_id_or_member_epoch
        if group is None:
            if epoch < 0:
                return None  # the offsets make it a simple group
            if api_version >= GROUP_ID_NOT_FOUND_FROM:
                return ErrorCode.GROUP_ID_NOT_FOUND
            return ErrorCode.ILLEGAL_GENERATION

        def partitions() -> Iterator[OffsetPartition]:
            for topic in request.topics:
                for partition in topic.partitions:
                    yield OffsetPartition(topic.name, topic.topic_id, partition.partition_index)

        member_id, instance_id = request.member_id, request.group_instance_id
        committer = Committer(member_id, instance_id, epoch, api_version, False, partitions)
        return group.refuse_commit(committer, self._shard.rules)

    def _refuse_metadata(self, metadata: str | None) -> ErrorCode | None:
        limit = self._config.offset_metadata_max_length
        if metadata is not None and utf16_length(metadata) > limit:
            return ErrorCode.OFFSET_METADATA_TOO_LARGE
        return None

    # TxnOffsetCommit

    def commit_in_transaction(
        self,
        request: TxnOffsetCommitRequest,
        api_version: int,
        offsets: Sequence[TxnOffset],
        producer: Producer,
        token: Any,
        wall_ms: int,
    ) -> Decision:
        """TxnOffsetCommit v0-6: those of its `offsets` whose topics exist; replies their errors."""
        decision = Decision()
        error = self._refuse_in_transaction(request, api_version, offsets)
        errors = []
        for topic, topic_id, partition in offsets:
            refused = error or self._refuse_metadata(partition.committed_metadata)
            if refused is None:
                key = _key(request.group_id, topic, partition.partition_index)
                decision.records.append((key, _value(topic_id, partition, wall_ms)))
            errors.append(refused or ErrorCode.NONE)
        if decision.records:
            decision.producer = producer
        decision.reply(token, errors)
        return decision

    def _refuse_in_transaction(
        self, request: TxnOffsetCommitRequest, api_version: int, offsets: Sequence[TxnOffset]
    ) -> ErrorCode | None:
        """A request without an epoch is one of before KIP-447, and makes a simple group."""
        epoch = request.generation_id_or_member_epoch
        knows_new_errors = api_version >= TXN_NEW_ERRORS_FROM
        group = self._shard.groups.get(request.group_id)
        if group is None and epoch < 0:
            return None
        if group is None:
            unknown = ErrorCode.GROUP_ID_NOT_FOUND
            return unknown if knows_new_errors else ErrorCode.ILLEGAL_GENERATION

        def partitions() -> Iterator[OffsetPartition]:
            for topic, topic_id, partition in offsets:
                yield OffsetPartition(topic, topic_id, partition.partition_index)

        member_id, instance_id = request.member_id, request.group_instance_id
        committer = Committer(member_id, instance_id, epoch, api_version, True, partitions)
        error = group.refuse_commit(committer, self._shard.rules)
        if error is ErrorCode.STALE_MEMBER_EPOCH and not knows_new_errors:
            return ErrorCode.ILLEGAL_GENERATION
        return error

    # OffsetFetch

    def fetch(self, wanted: OffsetFetchRequestGroup, require_stable: bool, token: Any) -> Decision:
        """One group of OffsetFetch v1-10, all its offsets if `topics` is None.

        A group that does not exist has no offsets, which is no error. Topics are found by name; an
        offset of another topic that had the name before is none.
        """
        decision = Decision()
        offsets = self._shard.offsets.of_group(wanted.group_id)
        answer = OffsetFetchResponseGroup(group_id=wanted.group_id)
        group = self._shard.groups.get(wanted.group_id)
        refused = None
        if group is not None:
            refused = group.refuse_fetch(wanted.member_id, wanted.member_epoch)
        if refused is not None:
            answer.error_code = refused
            decision.reply(token, answer)
            return decision

        def answer_for(partition: TopicPartition, topic_id: Uuid) -> OffsetFetchResponsePartitions:
            unstable = require_stable and self._shard.offsets.is_undecided(
                wanted.group_id, partition
            )
            return _fetched(partition[1], offsets.get(partition), topic_id, unstable)

        if wanted.topics is not None:
            for topic in wanted.topics:
                answer.topics.append(
                    OffsetFetchResponseTopics(
                        name=topic.name,
                        topic_id=topic.topic_id,
                        partitions=[
                            answer_for((topic.name, index), topic.topic_id)
                            for index in topic.partition_indexes
                        ],
                    )
                )
        else:
            by_topic: dict[str, list[int]] = {}
            for topic_name, index in offsets:
                by_topic.setdefault(topic_name, []).append(index)
            for topic_name, indexes in by_topic.items():
                partitions = [answer_for((topic_name, index), Uuid.ZERO) for index in indexes]
                answer.topics.append(
                    OffsetFetchResponseTopics(name=topic_name, partitions=partitions)
                )
        decision.reply(token, answer)
        return decision

    # OffsetDelete

    def delete(self, request: OffsetDeleteRequest, token: Any) -> Decision:
        """OffsetDelete v0: of topics that the group's members do not read."""
        decision = Decision(is_atomic=False)
        group = self._shard.groups.get(request.group_id)
        if group is None:
            error = ErrorCode.GROUP_ID_NOT_FOUND
        else:
            error = group.refuse_offset_delete() or ErrorCode.NONE
        response = OffsetDeleteResponse(error_code=error)
        if group is not None and error is ErrorCode.NONE:
            for topic in request.topics:
                subscribed = group.is_subscribed(topic.name)
                refused = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if subscribed else ErrorCode.NONE
                indexes = [partition.partition_index for partition in topic.partitions]
                if not subscribed:
                    self._forget(decision, request.group_id, topic.name, indexes)
                outcomes = [
                    OffsetDeleteResponsePartition(partition_index=index, error_code=refused)
                    for index in indexes
                ]
                response.topics.append(
                    OffsetDeleteResponseTopic(name=topic.name, partitions=outcomes)
                )
        decision.reply(token, response)
        return decision

    def _forget(
        self, decision: Decision, group_id: str, topic: str, indexes: Iterable[int]
    ) -> None:
        offsets = self._shard.offsets
        for index in indexes:
            partition = (topic, index)
            is_known = partition in offsets.of_group(group_id)
            if is_known or offsets.is_undecided(group_id, partition):
                decision.records.append((_key(group_id, topic, index), None))

    # What is forgotten unasked

    def forget_topics(self, is_gone: Callable[[str, Uuid], bool]) -> Decision:
        """Forget the offsets of all topics that `is_gone(name, id)` says are gone."""
        decision = Decision(is_atomic=False)
        offsets = self._shard.offsets
        for group_id in self._shard.groups:
            committed = offsets.of_group(group_id)
            doomed = {p: None for p, offset in committed.items() if is_gone(p[0], offset.topic_id)}
            for partition in offsets.undecided_of(group_id):
                if is_gone(partition[0], Uuid.ZERO):
                    doomed[partition] = None
            decision.records += [(_key(group_id, *partition), None) for partition in doomed]
        return decision

    def forget_group(self, decision: Decision, group: Group) -> None:
        """Delete a group and all its offsets."""
        offsets = self._shard.offsets
        partitions = dict.fromkeys(offsets.of_group(group.group_id))
        partitions.update(dict.fromkeys(offsets.undecided_of(group.group_id)))
        for partition in partitions:
            decision.records.append((_key(group.group_id, *partition), None))
        dissolve(decision, group)

    def expire(self, wall_ms: int) -> Decision:
        """The expiry timer fired: forget offsets whose retention is over, then groups."""
        decision = Decision(is_atomic=False)
        for group in list(self._shard.groups.values()):
            everything = self._expire_offsets(decision, group, wall_ms)
            if everything and group.may_expire:
                dissolve(decision, group)
        if decision.records:
            decision.notes.append(f"{len(decision.records)} expired offsets and groups")
        decision.set_timer(EXPIRY_TIMER, self._config.offsets_retention_check_ms)
        return decision

    def _expire_offsets(self, decision: Decision, group: Group, wall_ms: int) -> bool:
        """Tombstones for the expired offsets of a group; whether none is left behind them."""
        offsets = self._shard.offsets
        group_id = group.group_id
        remaining = bool(offsets.undecided_of(group_id))
        for partition, offset in offsets.of_group(group_id).items():
            counted_from_ms = group.retention_start_ms(offset)
            if (
                counted_from_ms is None
                or group.is_subscribed(partition[0])
                or not self._is_over(offset, counted_from_ms, wall_ms)
                or not self._shard.rules.may_expire(offsets.is_undecided(group_id, partition))
            ):
                remaining = True
            else:
                decision.records.append((_key(group_id, *partition), None))
        return not remaining

    def _is_over(self, offset: CommittedOffset, counted_from_ms: int, wall_ms: int) -> bool:
        if offset.expire_timestamp_ms != _USES_RETENTION:
            return wall_ms >= offset.expire_timestamp_ms
        return wall_ms - counted_from_ms >= self._config.offsets_retention_ms


def _key(group_id: str, topic: str, partition: int) -> OffsetCommitKey:
    return OffsetCommitKey(group=group_id, topic=topic, partition=partition)


def _value(
    topic_id: Uuid,
    partition: OffsetCommitRequestPartition | TxnOffsetCommitRequestPartition,
    wall_ms: int,
    retention_ms: int = _USES_RETENTION,
) -> OffsetCommitValue:
    return OffsetCommitValue(
        offset=partition.committed_offset,
        leader_epoch=partition.committed_leader_epoch,
        metadata=partition.committed_metadata or "",
        commit_timestamp=wall_ms,
        expire_timestamp=-1 if retention_ms < 0 else min(wall_ms + retention_ms, _LATEST_MS),
        topic_id=topic_id,
    )


def _fetched(
    index: int, offset: CommittedOffset | None, topic_id: Uuid, unstable: bool
) -> OffsetFetchResponsePartitions:
    if unstable or offset is None or not offset.is_of(topic_id):
        return OffsetFetchResponsePartitions(
            partition_index=index,
            committed_offset=NO_OFFSET,
            committed_leader_epoch=-1,
            metadata="",
            error_code=ErrorCode.UNSTABLE_OFFSET_COMMIT if unstable else ErrorCode.NONE,
        )
    return OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=offset.offset,
        committed_leader_epoch=offset.leader_epoch,
        metadata=offset.metadata,
    )
