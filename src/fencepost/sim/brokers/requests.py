"""What a simulated broker serves: the handlers of `runtime.requests`, in a world.

Whatever decides a request here decides it in a broker. A request is a message that has arrived, in
the version that its sender chose; the observer is shown some of them, and their answers
(`observed_requests`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from fencepost.batch.compression import DECOMPRESSED_BYTES_MAX
from fencepost.batch.errors import BatchError
from fencepost.batch.produced import prepare_produced
from fencepost.batch.record_batch import RecordBatch
from fencepost.machines.driver import Driver
from fencepost.machines.partition import NO_TICKET, Produce, ProduceResult
from fencepost.runtime.clock import Clocks
from fencepost.runtime.cooperative import Pieces
from fencepost.runtime.groups import GroupCoordinators
from fencepost.runtime.markers import MarkerWriter
from fencepost.runtime.producer_ids import ProducerIds
from fencepost.runtime.replicas import ReplicaManager
from fencepost.runtime.requests.access import Access, PartitionAccess
from fencepost.runtime.requests.add_offsets_to_txn import add_offsets_to_txn
from fencepost.runtime.requests.add_partitions_to_txn import add_partitions_to_txn
from fencepost.runtime.requests.delete_records import delete_records
from fencepost.runtime.requests.end_txn import end_txn
from fencepost.runtime.requests.heartbeat import heartbeat
from fencepost.runtime.requests.init_producer_id import init_producer_id
from fencepost.runtime.requests.join_group import join_group
from fencepost.runtime.requests.leave_group import leave_group
from fencepost.runtime.requests.list_offsets import list_offsets
from fencepost.runtime.requests.offset_commit import offset_commit
from fencepost.runtime.requests.offset_fetch import offset_fetch
from fencepost.runtime.requests.offset_for_leader_epoch import offset_for_leader_epoch
from fencepost.runtime.requests.parts import (
    ClusterMetadata,
    InternalTopicCreation,
    LogReads,
    bind_parts,
)
from fencepost.runtime.requests.sync_group import sync_group
from fencepost.runtime.requests.txn_offset_commit import txn_offset_commit
from fencepost.runtime.requests.write_txn_markers import write_txn_markers
from fencepost.runtime.transactional_commits import TransactionalCommits
from fencepost.runtime.transactional_writes import Asking, Permission, Write, for_producer
from fencepost.runtime.transactions import TransactionCoordinators
from fencepost.sim.brokers.arrived_request import ArrivedRequest, Reply
from fencepost.sim.brokers.fetches import fetch
from fencepost.sim.brokers.observed_requests import OBSERVED
from fencepost.sim.brokers.process import BrokerProcess
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

T = TypeVar("T")

HANDLERS: Final[dict[type[Message], Callable[..., Any]]] = {
    AddOffsetsToTxnRequest: add_offsets_to_txn,
    AddPartitionsToTxnRequest: add_partitions_to_txn,
    DeleteRecordsRequest: delete_records,
    EndTxnRequest: end_txn,
    HeartbeatRequest: heartbeat,
    InitProducerIdRequest: init_producer_id,
    JoinGroupRequest: join_group,
    LeaveGroupRequest: leave_group,
    ListOffsetsRequest: list_offsets,
    OffsetCommitRequest: offset_commit,
    OffsetFetchRequest: offset_fetch,
    OffsetForLeaderEpochRequest: offset_for_leader_epoch,
    SyncGroupRequest: sync_group,
    TxnOffsetCommitRequest: txn_offset_commit,
    WriteTxnMarkersRequest: write_txn_markers,
}
"""What is decided in `runtime.requests`."""


class BrokerRequests:
    """See the module; good for one incarnation of its broker."""

    def __init__(self, broker: BrokerProcess) -> None:
        self._broker = broker
        self._lane = broker.ports.scheduler.lane()
        access = Access()
        parts = {
            Clocks: broker.clocks,
            ClusterMetadata: broker.metadata,
            Driver: broker.ports.driver,
            GroupCoordinators: broker.groups,
            InternalTopicCreation: _NoTopicCreation(),
            LogReads: _ReadsAtOnce(),
            MarkerWriter: broker.transactions.markers,
            PartitionAccess: PartitionAccess(Access(), broker.replicas),
            ProducerIds: broker.producer_ids,
            Access: access,
            PartitionAccess: PartitionAccess(access, broker.replicas),
            ReplicaManager: broker.replicas,
            TransactionCoordinators: broker.transactions.coordinators,
            TransactionalCommits: broker.transactions.commits,
        }
        self._handlers = {kind: bind_parts(one, parts) for kind, one in HANDLERS.items()}

    def serve(self, request: Message, reply: Reply, api_version: int) -> None:
        """Answer a request, now or later. KeyError for one that brokers do not serve here."""
        if isinstance(request, ProduceRequest):
            _produce(self._broker, request, reply, api_version)
        elif isinstance(request, FetchRequest):
            fetch(self._broker, request, reply)
        else:
            self._decide(request, reply, api_version)

    def _decide(self, request: Message, reply: Reply, api_version: int) -> None:
        kind = type(request)
        observe = OBSERVED.get(kind)
        note = None if observe is None else observe(self._broker, request)

        def post(response: Message) -> None:
            if note is not None:
                note(response)
            reply(response)

        context = ArrivedRequest(kind.__name__, api_version, post)
        # A copy: a request belongs to its handler, and a message may arrive twice.
        answer = self._handlers[kind](context, deepcopy(request))
        if isinstance(answer, Generator):
            self._lane.begin(context.answering(answer))
        elif answer is not None:
            context.reply(answer)


class _NoTopicCreation:
    """`InternalTopicCreation`: the clients of a world create the topics that they need."""

    def create(self, names: Iterable[str], /) -> None:
        """Leave it to a client."""


class _ReadsAtOnce:
    """`LogReads`: a disk of a world does not keep its reader waiting."""

    def read(self, work: Callable[[], T], /) -> Pieces[T]:
        """What `work` returns."""
        yield from ()
        return work()

    def decompress(self, work: Callable[[int], T], /) -> Pieces[T]:
        """What `work` returns, with as much output as a batch may have."""
        yield from ()
        return work(DECOMPRESSED_BYTES_MAX)


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
    held: list[_Held] = []

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
        _write_in_transaction(broker, request.transactional_id or "", held, api_version)
    answered()


def _take(
    broker: BrokerProcess,
    request: ProduceRequest,
    topic: TopicProduceData,
    data: PartitionProduceData,
    answer: PartitionProduceResponse,
    answered: Callable[[], None],
) -> _Held | None:
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

    return _Held(hosted, ready, answer, append, answered)


ABORTABLE_FROM: Final = 11
ADDS_FROM: Final = 12
"""The versions of Produce from which on TRANSACTION_ABORTABLE is known, and partitions added."""


class _Held(NamedTuple):
    """A batch that waits until its transaction's coordinator agrees, and how it goes on then."""

    hosted: HostedPartition
    batch: RecordBatch
    answer: PartitionProduceResponse
    append: Callable[[int], None]
    """Append it, with that ticket."""
    refused: Callable[[], None]
    """It is not appended; the answer says why."""


def _write_in_transaction(
    broker: BrokerProcess, transactional_id: str, held: Sequence[_Held], api_version: int
) -> None:
    """Append the batches of one request as soon as the transaction's coordinator agrees."""
    header = held[0].batch.header
    asking = (
        Asking.ADDS
        if api_version >= ADDS_FROM
        else Asking.KNOWS_ABORTABLE
        if api_version >= ABORTABLE_FROM
        else Asking.VERIFIES
    )

    def told(permissions: Sequence[Permission]) -> None:
        for one, permission in zip(held, permissions, strict=True):
            now = broker.replicas.get(one.hosted.topic, one.hosted.index)
            if permission.error_code is not ErrorCode.NONE:
                error = for_producer(permission.error_code, asking)
            elif isinstance(now, ErrorCode):
                error = now
            elif now is not one.hosted:
                error = ErrorCode.NOT_LEADER_OR_FOLLOWER
            else:
                one.append(permission.ticket)
                continue
            one.answer.error_code = int(error)
            one.refused()

    broker.transactions.writes.begin(
        transactional_id,
        header.producer_id,
        header.producer_epoch,
        asking,
        [
            Write(
                one.hosted.key, (one.hosted.topic, one.hosted.index), one.batch.header.base_sequence
            )
            for one in held
        ],
        told,
    )
