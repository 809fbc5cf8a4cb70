"""What a simulated broker serves: the handlers of `runtime.requests`, in a world.

Whatever decides a request here decides it in a broker. A request is a message that has arrived, in
the version that its sender chose; the observer is shown some of them, and their answers
(`observed_requests`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import deepcopy
from typing import Any, Final, TypeVar

from fencepost.batch.compression import DECOMPRESSED_BYTES_MAX
from fencepost.machines.driver import Driver
from fencepost.machines.probes import probe
from fencepost.machines.session import ANONYMOUS
from fencepost.runtime.clock import Clocks, WorkClock
from fencepost.runtime.combined_appends import CombinedAppends
from fencepost.runtime.cooperative import Pieces
from fencepost.runtime.delayed_fetches import FetchHost
from fencepost.runtime.groups import GroupCoordinators
from fencepost.runtime.markers import MarkerWriter
from fencepost.runtime.producer_ids import ProducerIds
from fencepost.runtime.replicas import ReplicaManager
from fencepost.runtime.requests.access import Access, PartitionAccess
from fencepost.runtime.requests.add_offsets_to_txn import add_offsets_to_txn
from fencepost.runtime.requests.add_partitions_to_txn import add_partitions_to_txn
from fencepost.runtime.requests.consumer_group_heartbeat import consumer_group_heartbeat
from fencepost.runtime.requests.delete_records import delete_records
from fencepost.runtime.requests.end_txn import end_txn
from fencepost.runtime.requests.fetch import fetch
from fencepost.runtime.requests.fetch_parts import CachedReads, FetchPolicy
from fencepost.runtime.requests.heartbeat import heartbeat
from fencepost.runtime.requests.init_producer_id import init_producer_id
from fencepost.runtime.requests.join_group import join_group
from fencepost.runtime.requests.leave_group import leave_group
from fencepost.runtime.requests.list_offsets import list_offsets
from fencepost.runtime.requests.offset_commit import offset_commit
from fencepost.runtime.requests.offset_fetch import offset_fetch
from fencepost.runtime.requests.offset_for_leader_epoch import offset_for_leader_epoch
from fencepost.runtime.requests.parts import (
    BatchDecompression,
    ClusterMetadata,
    InternalTopicCreation,
    LogReads,
    StreamsTopicCreation,
    bind_parts,
)
from fencepost.runtime.requests.produce import produce
from fencepost.runtime.requests.share_acknowledge import share_acknowledge
from fencepost.runtime.requests.share_checks import ShareParts
from fencepost.runtime.requests.share_fetch import share_fetch
from fencepost.runtime.requests.share_group_heartbeat import share_group_heartbeat
from fencepost.runtime.requests.share_group_state import share_group_state
from fencepost.runtime.requests.streams_group_heartbeat import streams_group_heartbeat
from fencepost.runtime.requests.sync_group import sync_group
from fencepost.runtime.requests.txn_offset_commit import txn_offset_commit
from fencepost.runtime.requests.write_txn_markers import write_txn_markers
from fencepost.runtime.share_sessions import ShareSessionHost
from fencepost.runtime.share_states import APIS as SHARE_STATE_APIS, ShareStateCoordinators
from fencepost.runtime.transactional_commits import TransactionalCommits
from fencepost.runtime.transactional_writes import TransactionalWrites
from fencepost.runtime.transactions import TransactionCoordinators
from fencepost.sim.brokers.arrived_request import ArrivedRequest, Reply
from fencepost.sim.brokers.fetch_parts import AllIsCached, NoFetchPolicy
from fencepost.sim.brokers.guests import Guests, principal_of
from fencepost.sim.brokers.observed_appends import ObservedAppends
from fencepost.sim.brokers.observed_requests import OBSERVED
from fencepost.sim.brokers.process import BrokerProcess
from fencepost.wire.api.add_offsets_to_txn import AddOffsetsToTxnRequest
from fencepost.wire.api.add_partitions_to_txn import AddPartitionsToTxnRequest
from fencepost.wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from fencepost.wire.api.create_topics import CreatableTopic
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
from fencepost.wire.api.produce import ProduceRequest
from fencepost.wire.api.share_acknowledge import ShareAcknowledgeRequest
from fencepost.wire.api.share_fetch import ShareFetchRequest
from fencepost.wire.api.share_group_heartbeat import ShareGroupHeartbeatRequest
from fencepost.wire.api.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from fencepost.wire.api.sync_group import SyncGroupRequest
from fencepost.wire.api.txn_offset_commit import TxnOffsetCommitRequest
from fencepost.wire.api.write_txn_markers import WriteTxnMarkersRequest
from fencepost.wire.message import Message

T = TypeVar("T")

SHARE_FETCH_BYTES: Final = 1 << 20


def _share_fetch(
    context: ArrivedRequest, request: ShareFetchRequest, *, parts: ShareParts
) -> Pieces[Message | None]:
    """As `broker/apis` binds it: a session belongs to a connection."""
    return share_fetch(context, request, context.source_id, SHARE_FETCH_BYTES, parts=parts)


HANDLERS: Final[dict[type[Message], Callable[..., Any]]] = {
    AddOffsetsToTxnRequest: add_offsets_to_txn,
    AddPartitionsToTxnRequest: add_partitions_to_txn,
    ConsumerGroupHeartbeatRequest: consumer_group_heartbeat,
    DeleteRecordsRequest: delete_records,
    EndTxnRequest: end_txn,
    FetchRequest: fetch,
    HeartbeatRequest: heartbeat,
    InitProducerIdRequest: init_producer_id,
    JoinGroupRequest: join_group,
    LeaveGroupRequest: leave_group,
    ListOffsetsRequest: list_offsets,
    OffsetCommitRequest: offset_commit,
    OffsetFetchRequest: offset_fetch,
    OffsetForLeaderEpochRequest: offset_for_leader_epoch,
    ProduceRequest: produce,
    SyncGroupRequest: sync_group,
    TxnOffsetCommitRequest: txn_offset_commit,
    StreamsGroupHeartbeatRequest: streams_group_heartbeat,
    WriteTxnMarkersRequest: write_txn_markers,
    ShareAcknowledgeRequest: share_acknowledge,
    ShareFetchRequest: _share_fetch,
    ShareGroupHeartbeatRequest: share_group_heartbeat,
    **dict.fromkeys(SHARE_STATE_APIS, share_group_state),
}
"""What is decided in `runtime.requests`."""


class BrokerRequests:
    """See the module; good for one incarnation of its broker."""

    def __init__(self, broker: BrokerProcess) -> None:
        self._broker = broker
        self._lane = broker.ports.scheduler.lane()
        self._appends = ObservedAppends(broker)
        self._guests = Guests(broker)
        access = Access(broker.authorizer)
        parts = {
            Access: access,
            BatchDecompression: _DecompressesAtOnce(),
            CachedReads: AllIsCached(),
            Clocks: broker.clocks,
            ClusterMetadata: broker.metadata,
            CombinedAppends: self._appends,
            Driver: broker.ports.driver,
            FetchHost: broker.fetches,
            FetchPolicy: NoFetchPolicy(),
            GroupCoordinators: broker.groups,
            InternalTopicCreation: _NoTopicCreation(),
            LogReads: ReadsAtOnce(),
            MarkerWriter: broker.transactions.markers,
            PartitionAccess: PartitionAccess(access, broker.replicas),
            ProducerIds: broker.producer_ids,
            ReplicaManager: broker.replicas,
            TransactionCoordinators: broker.transactions.coordinators,
            TransactionalCommits: broker.transactions.commits,
            TransactionalWrites: broker.transactions.writes,
            ShareSessionHost: broker.shares.sessions,
            ShareStateCoordinators: broker.shares.states,
            StreamsTopicCreation: _StreamsTopicCreation(broker),
            WorkClock: _NoWork(),
        }
        self._handlers = {kind: bind_parts(one, parts) for kind, one in HANDLERS.items()}

    def serve(self, request: Message, reply: Reply, api_version: int, source_id: int) -> None:
        """Answer a request, now or later. KeyError for one that brokers do not serve here."""
        kind = type(request)
        observe = OBSERVED.get(kind)
        notes = [] if observe is None else [observe(self._broker, request)]
        principal = principal_of(self._broker.world.options, source_id)
        if principal is not ANONYMOUS:
            notes.append(self._guests.note(request, principal))

        def post(response: Message) -> None:
            for note in notes:
                if note is not None:
                    note(response)
            reply(response)

        context = ArrivedRequest(kind.__name__, api_version, post, self._lane, source_id, principal)
        answer = self._handlers[kind](context, _received(request))
        self._appends.settle()
        context.decided(answer)
        if kind is FetchRequest and not context.answered:
            probe("sim.fetch.waits")


def _received(request: Message) -> Message:
    """A copy: a request belongs to its handler, and a message may arrive twice. Batches are stamped
    where they were received."""
    copied = deepcopy(request)
    if isinstance(copied, ProduceRequest):
        for topic in copied.topic_data:
            for partition in topic.partition_data:
                partition.records = bytearray(partition.records or b"")
    return copied


class _NoTopicCreation:
    """`InternalTopicCreation`: the clients of a world create the topics that they need."""

    def create(self, names: Iterable[str], /) -> None:
        """Leave it to a client."""


class _StreamsTopicCreation:
    """`StreamsTopicCreation`: asks for a topic each time, and hears nothing of it."""

    def __init__(self, broker: BrokerProcess) -> None:
        self._broker = broker

    def create(self, topics: Iterable[CreatableTopic], errors_kept_ms: int, /) -> None:
        """Ask for these topics."""
        for topic in topics:
            workload = self._broker.world.workload
            workload.create_internal_topic(topic.name, topic.num_partitions)

    def errors_of(self, names: Iterable[str], /) -> dict[str, str]:
        """None is known."""
        return {}


class ReadsAtOnce:
    """`LogReads`: a disk of a world does not keep its reader waiting."""

    def read(self, work: Callable[[], T], /) -> Pieces[T]:
        """What `work` returns."""
        yield from ()
        return work()

    def decompress(self, work: Callable[[int], T], /) -> Pieces[T]:
        """What `work` returns, with as much output as a batch may have."""
        yield from ()
        return work(DECOMPRESSED_BYTES_MAX)


class _DecompressesAtOnce:
    """`BatchDecompression`: no other request waits meanwhile, and memory is not limited."""

    def reserve(self, size_bytes: int, /) -> bool:
        """There is room."""
        return True

    def release(self, size_bytes: int, /) -> None:
        """It was not limited."""

    def run(self, work: Callable[[int], T], /) -> Pieces[T]:
        """What `work` returns, with as much output as a batch may have."""
        yield from ()
        return work(DECOMPRESSED_BYTES_MAX)


class _NoWork:
    """`WorkClock`: handlers take no time, so that a seed is one history on every machine."""

    def work_s(self) -> float:
        """Always the same."""
        return 0.0
