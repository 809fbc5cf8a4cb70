"""What the observer is shown of requests and their answers, whatever decides them.

An entry of `OBSERVED` sees a request before its handler does, and returns what is to see the answer
before it is posted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from fencepost.machines.probes import probe
from fencepost.machines.share.records import AcknowledgeType
from fencepost.machines.share.state_batch import SharePartitionKey
from fencepost.runtime.internal_topics import OFFSETS_TOPIC
from fencepost.runtime.replicas import HostedPartition
from fencepost.sim.brokers.checkpoints import key_of
from fencepost.sim.brokers.process import BrokerProcess
from fencepost.sim.clients.member import assigned_in
from fencepost.sim.group_oracle import (
    AssignmentTold,
    HoldingSaid,
    HoldingTold,
    OffsetKey,
    OffsetsTold,
    task_key,
)
from fencepost.sim.partition_oracle import Place, passed
from fencepost.sim.share_oracle import Delivered, Renewed, Returned
from fencepost.wire.api.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from fencepost.wire.api.end_txn import EndTxnRequest, EndTxnResponse
from fencepost.wire.api.fetch import FetchableTopicResponse, FetchRequest, FetchResponse
from fencepost.wire.api.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from fencepost.wire.api.join_group import JoinGroupRequest, JoinGroupResponse
from fencepost.wire.api.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)
from fencepost.wire.api.share_acknowledge import (
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
)
from fencepost.wire.api.share_fetch import ShareFetchRequest, ShareFetchResponse
from fencepost.wire.api.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)
from fencepost.wire.api.sync_group import SyncGroupRequest, SyncGroupResponse
from fencepost.wire.errors import ErrorCode
from fencepost.wire.message import Message
from fencepost.wire.types import Uuid

_UNDECIDED: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    }
)
"""Errors of EndTxn after which the transaction may end all the same."""


def _records_requested(
    broker: BrokerProcess, request: FetchRequest
) -> Callable[[FetchResponse], None]:
    """A consumer or a follower fetches."""

    def note(response: FetchResponse) -> None:
        if response.error_code:
            probe("sim.fetch.session_refused")
        for topic in response.responses:
            for part in topic.partitions:
                part.records = b"".join(bytes(buffer) for buffer in part.records or ())
                if part.records:
                    _show_served(broker, topic, part.partition_index, part.records)

    return note


def _show_served(
    broker: BrokerProcess, topic: FetchableTopicResponse, index: int, records: bytes
) -> None:
    topic_id = topic.topic_id
    if topic_id == Uuid.ZERO:
        hosted = broker.replicas.get(topic.topic, index)
        assert isinstance(hosted, HostedPartition), "it has been read just now"
        topic_id = hosted.topic_id
    for one in passed(Place.SERVED, broker.id, (topic_id, index), records):
        broker.world.observer.batch_passed(one)


def _id_requested(
    broker: BrokerProcess, request: InitProducerIdRequest
) -> Callable[[InitProducerIdResponse], None] | None:
    """A producer initializes a transactional id."""
    if request.transactional_id is not None:
        broker.world.observer.oracle.transactions.id_asked(request.transactional_id)
    return None


def _end_requested(
    broker: BrokerProcess, request: EndTxnRequest
) -> Callable[[EndTxnResponse], None]:
    """A producer commits or aborts."""
    transactions = broker.world.observer.oracle.transactions
    end = request.producer_id, request.producer_epoch, request.committed
    transactions.end_asked(*end)

    def note(response: EndTxnResponse) -> None:
        if response.error_code and response.error_code not in _UNDECIDED:
            transactions.end_refused(*end)

    return note


def _assignment_requested(
    broker: BrokerProcess, request: SyncGroupRequest
) -> Callable[[SyncGroupResponse], None] | None:
    """A member asks for its assignment."""
    index = broker.groups.partition_of(request.group_id)
    topic = broker.image.topics_by_name.get(OFFSETS_TOPIC)
    if index is None or topic is None:
        return None

    def note(response: SyncGroupResponse) -> None:
        if response.error_code:
            return
        told = AssignmentTold(
            (topic.topic_id, index),
            request.group_id,
            request.generation_id,
            request.group_instance_id or request.member_id,
            frozenset(assigned_in(response.assignment)),
        )
        broker.world.observer.assignment_told(broker.id, told)
        hosted = _hosted_group(broker, request.group_id)
        if hosted is not None:
            topics = broker.image.topics_by_name
            held = frozenset(
                (topics[name].topic_id, index) for name, index in told.assigned if name in topics
            )
            _tell_holding(
                broker, hosted, HoldingTold(*told[:2], told.member_id, told.generation, held)
            )

    return note


def _heartbeat_requested(
    broker: BrokerProcess, request: ConsumerGroupHeartbeatRequest
) -> Callable[[ConsumerGroupHeartbeatResponse], None] | None:
    """A member of a consumer group heartbeats."""
    hosted = _hosted_group(broker, request.group_id)
    if hosted is None:
        return None
    place, group_id = key_of(hosted), request.group_id
    if request.member_epoch < 0:
        leaves = HoldingSaid(place, group_id, request.member_id, frozenset())
        broker.world.observer.holding_said(leaves)
        return None
    if request.topic_partitions is not None:
        said = HoldingSaid(place, group_id, request.member_id, _keys(request.topic_partitions))
        broker.world.observer.holding_said(said)

    def note(response: ConsumerGroupHeartbeatResponse) -> None:
        if not response.error_code:
            assignment = response.assignment
            held = None if assignment is None else _keys(assignment.topic_partitions)
            member_id = response.member_id or request.member_id
            told = HoldingTold(place, group_id, member_id, response.member_epoch, held)
            _tell_holding(broker, hosted, told)

    return note


def _tasks_requested(
    broker: BrokerProcess, request: StreamsGroupHeartbeatRequest
) -> Callable[[StreamsGroupHeartbeatResponse], None] | None:
    """A member of a streams group heartbeats; of its tasks, the active ones are told."""
    hosted = _hosted_group(broker, request.group_id)
    if hosted is None:
        return None
    place, group_id, member_id = key_of(hosted), request.group_id, request.member_id
    if request.member_epoch < 0 or request.active_tasks is not None:
        owned = _task_keys(request.active_tasks or ())
        broker.world.observer.holding_said(HoldingSaid(place, group_id, member_id, owned))

    def note(response: StreamsGroupHeartbeatResponse) -> None:
        if not response.error_code and response.member_epoch > 0:
            tasks = response.active_tasks
            held = None if tasks is None else _task_keys(tasks)
            told = HoldingTold(place, group_id, member_id, response.member_epoch, held)
            _tell_holding(broker, hosted, told)

    return note


def _task_keys(listed: Iterable[Any]) -> frozenset[tuple[Uuid, int]]:
    return frozenset(
        task_key(one.subtopology_id, index) for one in listed for index in one.partitions
    )


def _join_requested(
    broker: BrokerProcess, request: JoinGroupRequest
) -> Callable[[JoinGroupResponse], None] | None:
    """A member joins, and owns nothing meanwhile."""
    hosted = _hosted_group(broker, request.group_id)
    name = request.group_instance_id or request.member_id
    if hosted is not None and name:
        said = HoldingSaid(key_of(hosted), request.group_id, name, frozenset())
        broker.world.observer.holding_said(said)
    return None


def _hosted_group(broker: BrokerProcess, group_id: str) -> HostedPartition | None:
    """The replica here that a group lives in."""
    index = broker.groups.partition_of(group_id)
    hosted = None if index is None else broker.replicas.get(OFFSETS_TOPIC, index)
    return hosted if isinstance(hosted, HostedPartition) else None


def _keys(topics: Iterable[Any]) -> frozenset[tuple[Uuid, int]]:
    return frozenset((topic.topic_id, index) for topic in topics for index in topic.partitions)


def _tell_holding(broker: BrokerProcess, hosted: HostedPartition, told: HoldingTold) -> None:
    """Show what a coordinator tells a member, unless it is deposed and does not know it."""
    broker.look_at_replica(hosted)  # the step that answers is not over
    if is_deposed(broker, hosted, told.partition[1]):
        return
    broker.world.observer.holding_told(broker.id, told)


def is_deposed(broker: BrokerProcess, hosted: HostedPartition, index: int) -> bool:
    """Whether a later leader of the partition is committed than this broker."""
    topic = broker.world.observer.committed_image.topics_by_id.get(hosted.topic_id)
    return topic is None or topic.partitions[index].leader_epoch > hosted.machine.leader_epoch


def _offsets_requested(
    broker: BrokerProcess, request: OffsetFetchRequest
) -> Callable[[OffsetFetchResponse], None]:
    """Clients ask for the offsets of groups."""
    notes = {one.group_id: _offsets_of(broker, one.group_id) for one in request.groups}

    def note(response: OffsetFetchResponse) -> None:
        for group in response.groups:
            note_group = notes[group.group_id]
            if note_group is not None and not group.error_code:
                note_group(group)

    return note


def _offsets_of(
    broker: BrokerProcess, group_id: str
) -> Callable[[OffsetFetchResponseGroup], None] | None:
    """Shows a group's offsets with the high watermarks between which they were read."""
    hosted = _hosted_group(broker, group_id)
    if hosted is None:
        return None
    from_offset = hosted.machine.high_watermark

    def note(group: OffsetFetchResponseGroup) -> None:
        broker.look_at_replica(hosted)  # the step that answers is not over
        to_offset = hosted.machine.high_watermark
        for topic in group.topics:
            for part in topic.partitions:
                if part.error_code:
                    continue
                key = OffsetKey(group_id, topic.name, part.partition_index)
                told = OffsetsTold(
                    key_of(hosted), key, part.committed_offset, from_offset, to_offset
                )
                broker.world.observer.offset_told(broker.id, told)

    return note


def _share_fetch_requested(
    broker: BrokerProcess, request: ShareFetchRequest
) -> Callable[[ShareFetchResponse], None]:
    """A member of a share group acquires records."""
    group_id, member_id = request.group_id or "", request.member_id or ""
    if request.share_session_epoch <= 0:
        _returns(broker, Returned(None, group_id, member_id, 0, 0, False))
    from_ms = broker.clocks.now_ms()

    def note(response: ShareFetchResponse) -> None:
        for topic in response.responses:
            for part in topic.partitions:
                part.records = b"".join(bytes(buffer) for buffer in part.records or ())
                key = SharePartitionKey(group_id, topic.topic_id, part.partition_index)
                if part.records:
                    for one in passed(Place.SERVED, broker.id, key[1:], part.records):
                        broker.world.observer.batch_passed(one)
                _show_delivered(broker, key, member_id, part.acquired_records, from_ms)

    return note


def _show_delivered(
    broker: BrokerProcess, key: SharePartitionKey, member_id: str, records: Any, from_ms: int
) -> None:
    share = broker.shares.partitions.find(key)
    if share is None:
        return
    broker.look_at_replica(share.hosted)  # the step that answers is not over
    for one in records:
        delivered = Delivered(
            key,
            share,
            member_id,
            one.first_offset,
            one.last_offset,
            one.delivery_count,
            share.settings.delivery_count_limit,
            from_ms,
            broker.clocks.now_ms(),
            share.settings.record_lock_duration_ms,
            is_deposed(broker, share.hosted, key.partition),
        )
        broker.world.observer.share_delivered(broker.id, delivered)


def _share_acknowledged(
    broker: BrokerProcess, request: ShareAcknowledgeRequest
) -> Callable[[Any], None]:
    """A member of a share group says what became of records, or that it needs more time."""
    group_id, member_id = request.group_id or "", request.member_id or ""
    from_ms = broker.clocks.now_ms()
    renewals: dict[tuple[Uuid, int], list[tuple[int, int]]] = {}
    for topic in request.topics:
        for part in topic.partitions:
            place = topic.topic_id, part.partition_index
            for one in part.acknowledgement_batches:
                bounds = one.first_offset, one.last_offset
                if AcknowledgeType.RENEW in one.acknowledge_types:
                    renewals.setdefault(place, []).append(bounds)
                    continue
                is_settled = AcknowledgeType.RELEASE not in one.acknowledge_types
                key = SharePartitionKey(group_id, *place)
                _returns(broker, Returned(key, group_id, member_id, *bounds, is_settled))

    def note(response: ShareAcknowledgeResponse) -> None:
        for topic in response.responses:
            for part in topic.partitions:
                place = topic.topic_id, part.partition_index
                share = broker.shares.partitions.find(SharePartitionKey(group_id, *place))
                for bounds in () if part.error_code else renewals.get(place, ()):
                    renewed = Renewed(share, member_id, *bounds, from_ms)
                    broker.world.observer.share_renewed(broker.id, renewed)

    return note


def _returns(broker: BrokerProcess, returned: Returned) -> None:
    broker.world.observer.share_returned(returned)


OBSERVED: Final[Mapping[type[Message], Callable[[Any, Any], Callable[[Any], None] | None]]] = {
    ConsumerGroupHeartbeatRequest: _heartbeat_requested,
    EndTxnRequest: _end_requested,
    FetchRequest: _records_requested,
    InitProducerIdRequest: _id_requested,
    JoinGroupRequest: _join_requested,
    OffsetFetchRequest: _offsets_requested,
    ShareAcknowledgeRequest: _share_acknowledged,
    ShareFetchRequest: _share_fetch_requested,
    StreamsGroupHeartbeatRequest: _tasks_requested,
    SyncGroupRequest: _assignment_requested,
}
"""By the class of the request; others are not shown."""
