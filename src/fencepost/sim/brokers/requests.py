"""What a simulated broker answers to clients and to followers: the machines' answers, on the wire.

The broker's handlers do the same behind sockets (`broker/apis`); here a request is a message that
has arrived, and an answer is due at once or when a machine gives it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from fencepost.batch.errors import BatchError
from fencepost.batch.produced import prepare_produced
from fencepost.machines.partition import NO_TICKET, Produce, ProduceResult
from fencepost.sim.brokers.delete_requests import delete_records
from fencepost.sim.brokers.fetches import fetch
from fencepost.sim.brokers.group_requests import (
    heartbeat,
    join_group,
    leave_group,
    offset_commit,
    offset_fetch,
    sync_group,
)
from fencepost.sim.brokers.offset_requests import answer_epochs, answer_list_offsets
from fencepost.sim.brokers.process import BrokerProcess
from fencepost.sim.brokers.transaction_requests import (
    Held,
    add_offsets_to_txn,
    add_partitions_to_txn,
    end_txn,
    init_producer_id,
    txn_offset_commit,
    write_in_transaction,
    write_txn_markers,
)
from fencepost.wire.api.add_offsets_to_txn import AddOffsetsToTxnRequest
from fencepost.wire.api.add_partitions_to_txn import AddPartitionsToTxnRequest
from fencepost.wire.api.delete_records import DeleteRecordsRequest
from fencepost.wire.api.end_txn import EndTxnRequest
from fencepost.wire.api.fetch import FetchRequest
from fencepost.wire.api.heartbeat import HeartbeatRequest
from fencepost.wire.api.init_producer_id import InitProducerIdRequest
from fencepost.wire.api.join_group import JoinGroupRequest
from fencepost.wire.api.leave_group import LeaveGroupRequest
from fencepost.wire.api.list_offsets import ListOffsetsRequest
from fencepost.wire.api.offset_commit import OffsetCommitRequest
from fencepost.wire.api.offset_fetch import OffsetFetchRequest
from fencepost.wire.api.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from fencepost.wire.api.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from fencepost.wire.api.sync_group import SyncGroupRequest
from fencepost.wire.api.txn_offset_commit import TxnOffsetCommitRequest
from fencepost.wire.api.write_txn_markers import WriteTxnMarkersRequest
from fencepost.wire.errors import ErrorCode
from fencepost.wire.message import Message
from fencepost.wire.types import Uuid

if TYPE_CHECKING:
    from fencepost.runtime.replicas import HostedPartition

Reply = Callable[[Any], None]


def serve(broker: BrokerProcess, request: Message, reply: Reply, api_version: int) -> None:
    """Answer a request, now or later. KeyError for one that brokers do not serve here."""
    versioned = _SERVED_BY_VERSION.get(type(request))
    if versioned is not None:
        versioned(broker, request, reply, api_version)
    else:
        _SERVED[type(request)](broker, request, reply)


def _find(
    broker: BrokerProcess, topic_id: Uuid, name: str, index: int
) -> HostedPartition | ErrorCode:
    if topic_id != Uuid.ZERO:
        return broker.replicas.by_id(topic_id, index)
    return broker.replicas.get(name, index)


# -- Produce ---------------------------------------------------------------------------------------


def _produce(
    broker: BrokerProcess, request: ProduceRequest, reply: Reply, api_version: int
) -> None:
    response = ProduceResponse()
    waiting = [1]
    held: list[Held] = []

    def answered() -> None:
        waiting[0] -= 1
        if not waiting[0]:
            reply(response)

    for topic in request.topic_data:
        answers = TopicProduceResponse(name=topic.name, topic_id=topic.topic_id)
        response.responses.append(answers)
        for data in topic.partition_data:
            answer = PartitionProduceResponse(index=data.index, base_offset=-1)
            answers.partition_responses.append(answer)
            waiting[0] += 1
            one = _take(broker, request, topic, data, answer, answered)
            if one is None:
                answered()
            elif one.batch.header.is_transactional:
                held.append(one)
            else:
                one.append(NO_TICKET)
    if held:
        write_in_transaction(broker, request.transactional_id or "", held, api_version)
    answered()


def _take(
    broker: BrokerProcess,
    request: ProduceRequest,
    topic: TopicProduceData,
    data: PartitionProduceData,
    answer: PartitionProduceResponse,
    answered: Callable[[], None],
) -> Held | None:
    """A batch that is fit to be appended; None if the answer says why it is not."""
    hosted = _find(broker, topic.topic_id, topic.name, data.index)
    if isinstance(hosted, ErrorCode):
        answer.error_code = int(hosted)
        return None
    # A copy: the leader stamps it in place, and a request may arrive twice.
    batch = bytearray(data.records or b"")
    try:
        ready = prepare_produced(batch, hosted.log.config.produce_rules, broker.clocks.wall_ms())
    except BatchError as error:
        answer.error_code = int(error.code)
        return None

    def told(result: ProduceResult) -> None:
        answer.error_code = int(result.error_code)
        answer.base_offset = result.base_offset
        answer.log_start_offset = result.log_start_offset
        if result.error_code is ErrorCode.NONE:
            broker.produced(hosted, result.base_offset, request.acks)
        answered()

    deadline_ms = broker.clocks.now_ms() + request.timeout_ms

    def append(ticket: int) -> None:
        produce = Produce(ready, request.acks, told, deadline_ms, ticket)
        broker.ports.driver.feed(hosted.key, produce)

    return Held(hosted, ready, answer, append, answered)


_SERVED: Final[dict[type[Message], Callable[[Any, Any, Reply], None]]] = {
    FetchRequest: fetch,
    DeleteRecordsRequest: delete_records,
    OffsetCommitRequest: offset_commit,
    OffsetFetchRequest: offset_fetch,
    JoinGroupRequest: join_group,
    SyncGroupRequest: sync_group,
    HeartbeatRequest: heartbeat,
    LeaveGroupRequest: leave_group,
    ListOffsetsRequest: answer_list_offsets,
    OffsetForLeaderEpochRequest: answer_epochs,
}

_SERVED_BY_VERSION: Final[dict[type[Message], Callable[[Any, Any, Reply, int], None]]] = {
    ProduceRequest: _produce,
    InitProducerIdRequest: init_producer_id,
    AddPartitionsToTxnRequest: add_partitions_to_txn,
    AddOffsetsToTxnRequest: add_offsets_to_txn,
    TxnOffsetCommitRequest: txn_offset_commit,
    EndTxnRequest: end_txn,
    WriteTxnMarkersRequest: write_txn_markers,
}
"""Those whose version says something about transactions."""
