"""What administrators do to the state of a share group's partitions: set it, delete it.

Each decision's reply has, besides the answer, the message that share coordinators get. The handler
sends it and has another decision made of their answer (`runtime.share_group_states`). Only an
empty group's state may be changed.

Kafka 4.4.0 sets offsets in the present group epoch, so that share partition leaders cannot tell the
state from the one before. Here, as in Kafka's trunk, the group epoch rises first (KAFKA-20910).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from fencepost.machines.group.metadata_hash import group_metadata_hash
from fencepost.machines.group.next_epoch import next_epoch
from fencepost.machines.group.refused import RefusedError
from fencepost.machines.group.shard import Decision, Shard
from fencepost.machines.group.share.assignor import Partitions
from fencepost.machines.group.share.group import ShareGroup
from fencepost.machines.group.share.heartbeat import initialize, share_group
from fencepost.machines.group.share.records import (
    epoch_record,
    state_record,
    target_epoch_record,
)
from fencepost.machines.group.share.state import (
    DeleteStates,
    InitializeStates,
    NamedPartitions,
)
from fencepost.machines.group.share.timers import initializing_timer
from fencepost.wire.api.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from fencepost.wire.api.delete_share_group_offsets import (
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Uuid

NOT_EMPTY = "The group is not empty."
UNKNOWN_PARTITION = "This server does not host this topic-partition."
NOTHING_TO_DELETE = "There is no offset information to delete."


class AlterReply(NamedTuple):
    """The answer, and what has to succeed before it is true; None: nothing has to."""

    response: AlterShareGroupOffsetsResponse
    message: InitializeStates | None = None


class DeleteReply(NamedTuple):
    """The same of DeleteShareGroupOffsets: the answer has the topics that are refused."""

    response: DeleteShareGroupOffsetsResponse
    message: DeleteStates | None = None


class ForgetReply(NamedTuple):
    """The same of DeleteGroups: an error, or what has to be deleted before the group is."""

    error: ErrorCode
    message: DeleteStates | None = None


class ShareOffsets:
    """Decides about the states of share groups; shares the shard with the coordinator."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard

    def alter(
        self, group_id: str, topics: Sequence[AlterShareGroupOffsetsRequestTopic], token: Any
    ) -> Decision:
        """AlterShareGroupOffsets v0, of topics that the client may read; replies `AlterReply`.

        An unknown group is made. 69: a group of another type; 68: not empty; a row with 3: no such
        partition.
        """
        decision = Decision()
        response = AlterShareGroupOffsetsResponse()
        found = self._shard.groups.get(group_id)
        if found is not None and not isinstance(found, ShareGroup):
            response.error_code = int(ErrorCode.GROUP_ID_NOT_FOUND)
            response.error_message = f"Group {group_id} is not a share group."
            decision.reply(token, AlterReply(response))
            return decision
        group = found or ShareGroup(group_id)
        if not group.is_empty:
            response.error_code = int(ErrorCode.NON_EMPTY_GROUP)
            response.error_message = NOT_EMPTY
            decision.reply(token, AlterReply(response))
            return decision
        begun, starts = self._set(response, topics)
        if not begun:
            decision.reply(token, AlterReply(response))
            return decision
        epoch = next_epoch(group.epoch)
        metadata_hash = group_metadata_hash(self._shard.image, ())
        decision.records.append(epoch_record(group_id, epoch, metadata_hash))
        decision.records.append(target_epoch_record(group_id, epoch, 0))
        message = InitializeStates(group_id, epoch, starts)
        initialize(self._shard, decision, group, begun)
        decision.reply(token, AlterReply(response, message))
        return decision

    def _set(
        self,
        response: AlterShareGroupOffsetsResponse,
        topics: Iterable[AlterShareGroupOffsetsRequestTopic],
    ) -> tuple[dict[Uuid, NamedPartitions], dict[Uuid, dict[int, int]]]:
        """Fill in a row for each partition; the partitions that exist, and their start offsets."""
        begun: dict[Uuid, NamedPartitions] = {}
        starts: dict[Uuid, dict[int, int]] = {}
        for asked in topics:
            topic = self._shard.image.topics_by_name.get(asked.topic_name)
            count = 0 if topic is None else len(topic.partitions)
            answer = AlterShareGroupOffsetsResponseTopic(topic_name=asked.topic_name)
            response.responses.append(answer)
            offsets: dict[int, int] = {}
            for one in asked.partitions:
                row = AlterShareGroupOffsetsResponsePartition(partition_index=one.partition_index)
                answer.partitions.append(row)
                if 0 <= one.partition_index < count:
                    offsets[one.partition_index] = one.start_offset
                else:
                    row.error_code = int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                    row.error_message = UNKNOWN_PARTITION
            if topic is not None:
                answer.topic_id = topic.topic_id
                if offsets:
                    starts.setdefault(topic.topic_id, {}).update(offsets)
                    all_of_topic = frozenset(starts[topic.topic_id])
                    begun[topic.topic_id] = NamedPartitions(topic.name, all_of_topic)
        return begun, starts

    def delete(self, group_id: str, topic_names: Sequence[str], token: Any) -> Decision:
        """DeleteShareGroupOffsets v0, of topics that the client may read; replies `DeleteReply`.

        69: no such share group; 68: not empty; a row with 3: a topic without state.
        """
        decision = Decision()
        response = DeleteShareGroupOffsetsResponse()
        message = None
        try:
            group = self._empty_group(group_id)
            message = self._delete_topics(decision, group, topic_names, response)
        except RefusedError as refused:
            response.error_code = int(refused.error)
            response.error_message = refused.message
        decision.reply(token, DeleteReply(response, message))
        return decision

    def _delete_topics(
        self,
        decision: Decision,
        group: ShareGroup,
        topic_names: Sequence[str],
        response: DeleteShareGroupOffsetsResponse,
    ) -> DeleteStates | None:
        states = group.states
        deleted: dict[Uuid, NamedPartitions] = {}
        for name in dict.fromkeys(topic_names):
            topic = self._shard.image.topics_by_name.get(name)
            if topic is not None and topic.topic_id in states.initialized:
                deleted[topic.topic_id] = states.initialized[topic.topic_id]
            elif topic is not None and topic.topic_id in states.deleting:
                everything = frozenset(range(len(topic.partitions)))
                deleted[topic.topic_id] = NamedPartitions(name, everything)
            else:
                message = UNKNOWN_PARTITION if topic is None else NOTHING_TO_DELETE
                response.responses.append(_unknown(name, message))
        if not deleted:
            return None
        newly = [topic_id for topic_id in deleted if topic_id in states.initialized]
        decision.records.append(state_record(group.group_id, states.delete(newly)))
        return DeleteStates(group.group_id, deleted)

    def forget(self, group_id: str, token: Any) -> Decision:
        """A group is to be deleted; replies `ForgetReply`.

        Where it is a share group, the state of all its partitions goes first, and is noted as
        deleting until then. A group of another type has none. 68: not empty.
        """
        decision = Decision()
        group = self._shard.group_of(group_id, ShareGroup)
        if group is None or group.stored_state is None:
            decision.reply(token, ForgetReply(ErrorCode.NONE))
            return decision
        if not group.is_empty:
            decision.reply(token, ForgetReply(ErrorCode.NON_EMPTY_GROUP))
            return decision
        image = self._shard.image
        topics = dict(group.states.everything)
        for topic_id in group.states.deleting:
            topic = image.topics_by_id.get(topic_id)
            if topic is not None:
                topics[topic_id] = NamedPartitions(
                    topic.name, frozenset(range(len(topic.partitions)))
                )
        if group.states.topic_ids:
            names = {topic_id: topic.name for topic_id, topic in topics.items()}
            decision.records.append(state_record(group_id, group.states.delete_all(names)))
            decision.set_timer(initializing_timer(group_id), None)
        message = DeleteStates(group_id, topics) if topics else None
        decision.reply(token, ForgetReply(ErrorCode.NONE, message))
        return decision

    def initialized_partitions(self, group_id: str, token: Any) -> Decision:
        """For DescribeShareGroupOffsets of all topics; replies `Partitions`, empty without one.

        As in Kafka, a group that does not exist is no error here.
        """
        group = self._shard.group_of(group_id, ShareGroup)
        initialized = {} if group is None else group.states.initialized
        found: Partitions = {one: topic.partitions for one, topic in initialized.items()}
        decision = Decision()
        decision.reply(token, found)
        return decision

    # What share coordinators have answered

    def initialized(self, message: InitializeStates, *, succeeded: bool) -> Decision:
        """All partitions of the message have a state, or at least one of them may have none.

        After a failure all are to be tried again, so that the topic is as new as it was.
        """
        decision = Decision()
        group = self._shard.group_of(message.group_id, ShareGroup)
        if group is None or group.stored_state is None:
            return decision
        states, partitions = group.stored_state, message.partitions
        after = states.finish(partitions) if succeeded else states.give_up(partitions)
        if after != states:
            decision.records.append(state_record(group.group_id, after))
            if not after.initializing:
                decision.set_timer(initializing_timer(group.group_id), None)
        return decision

    def deleted(self, message: DeleteStates, topic_ids: Sequence[Uuid]) -> Decision:
        """The states of these topics of the message are deleted."""
        decision = Decision()
        group = self._shard.group_of(message.group_id, ShareGroup)
        if group is not None and group.stored_state is not None:
            after = group.stored_state.forget(topic_ids)
            if after != group.stored_state:
                decision.records.append(state_record(group.group_id, after))
        return decision

    def _empty_group(self, group_id: str) -> ShareGroup:
        """The share group, without members. RefusedError."""
        group = share_group(self._shard, group_id)
        if not group.is_empty:
            raise RefusedError(ErrorCode.NON_EMPTY_GROUP, NOT_EMPTY)
        return group


def _unknown(name: str, message: str) -> DeleteShareGroupOffsetsResponseTopic:
    return DeleteShareGroupOffsetsResponseTopic(
        topic_name=name,
        error_code=int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        error_message=message,
    )
