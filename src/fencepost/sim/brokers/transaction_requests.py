"""What a simulated broker answers about transactions, and to producers of one.

The broker's handlers (`broker/apis`) do the same behind sockets.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from fencepost.batch.record_batch import RecordBatch
from fencepost.machines.transaction.ending import Ended, EndTxn
from fencepost.machines.transaction.initialization import Granted, InitProducerId
from fencepost.machines.transaction.partitions import AddPartitions
from fencepost.runtime.internal_topics import OFFSETS_TOPIC
from fencepost.runtime.replicas import HostedPartition
from fencepost.runtime.transaction_requests import fenced_for
from fencepost.runtime.transactional_writes import Asking, Permission, Write, for_producer
from fencepost.sim.brokers.process import BrokerProcess
from fencepost.wire.api.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from fencepost.wire.api.add_partitions_to_txn import AddPartitionsToTxnRequest
from fencepost.wire.api.end_txn import EndTxnRequest, EndTxnResponse
from fencepost.wire.api.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from fencepost.wire.api.produce import PartitionProduceResponse
from fencepost.wire.api.txn_offset_commit import TxnOffsetCommitRequest
from fencepost.wire.api.write_txn_markers import WriteTxnMarkersRequest
from fencepost.wire.errors import ErrorCode

Reply = Callable[[Any], None]

BUMPS_FROM: Final = 5
"""The version of EndTxn that is version 2 of transactions."""
ABORTABLE_FROM: Final = 11
ADDS_FROM: Final = 12
"""The versions of Produce from which on TRANSACTION_ABORTABLE is known, and partitions added."""
FENCED_FROM: Final = 4
"""The version of InitProducerId from which on PRODUCER_FENCED is known."""


def init_producer_id(
    broker: BrokerProcess, request: InitProducerIdRequest, reply: Reply, api_version: int
) -> None:
    """A new id for an idempotent producer; for a transactional one what its coordinator says."""
    if request.transactional_id is None:
        broker.producer_ids.next_id(
            lambda error, producer_id: reply(
                _granted(Granted(error, producer_id, -1 if error else 0))
            )
        )
        return

    broker.world.observer.oracle.transactions.id_asked(request.transactional_id)

    def told(error: ErrorCode, granted: Granted | None) -> None:
        granted = granted or Granted(error)
        if granted.error is ErrorCode.PRODUCER_FENCED and api_version < FENCED_FROM:
            granted = Granted(ErrorCode.INVALID_PRODUCER_EPOCH)
        reply(_granted(granted))

    expected = (request.producer_id, request.producer_epoch)
    asked = InitProducerId(
        request.transactional_id,
        request.transaction_timeout_ms,
        expected if request.producer_id >= 0 else None,
    )
    broker.transactions.coordinators.init_producer_id(asked, told)


def _granted(granted: Granted) -> InitProducerIdResponse:
    return InitProducerIdResponse(
        error_code=int(granted.error),
        producer_id=granted.producer_id,
        producer_epoch=granted.epoch,
    )


def end_txn(broker: BrokerProcess, request: EndTxnRequest, reply: Reply, api_version: int) -> None:
    """A producer commits or aborts."""
    transactions = broker.world.observer.oracle.transactions
    what = request.producer_id, request.producer_epoch, request.committed
    transactions.end_asked(*what)

    def told(error: ErrorCode, ended: Ended | None) -> None:
        if ended is not None and ended.error is not ErrorCode.NONE:
            transactions.end_refused(*what)
        ended = ended or Ended(error)
        reply(
            EndTxnResponse(
                error_code=int(fenced_for(ended.error, api_version)),
                producer_id=ended.producer_id,
                producer_epoch=ended.epoch,
            )
        )

    asked = EndTxn(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        request.committed,
        2 if api_version >= BUMPS_FROM else 0,
    )
    broker.transactions.coordinators.end(asked, told)


def add_partitions_to_txn(
    broker: BrokerProcess, request: AddPartitionsToTxnRequest, reply: Reply, api_version: int
) -> None:
    """A producer adds partitions, or a leader adds them or asks about them."""
    broker.transactions.add_partitions(request, api_version, reply)


def add_offsets_to_txn(
    broker: BrokerProcess, request: AddOffsetsToTxnRequest, reply: Reply, api_version: int
) -> None:
    """A producer of version 1 adds the partition that a group's offsets are in."""
    index = broker.groups.partition_of(request.group_id)
    if index is None:
        unknown = ErrorCode.COORDINATOR_NOT_AVAILABLE
        reply(AddOffsetsToTxnResponse(error_code=int(unknown)))
        return

    def told(error: ErrorCode, added: ErrorCode | None) -> None:
        said = fenced_for(error if added is None else added, api_version)
        reply(AddOffsetsToTxnResponse(error_code=int(said)))

    wanted = AddPartitions(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        frozenset({(OFFSETS_TOPIC, index)}),
    )
    broker.transactions.coordinators.add(wanted, told)


def txn_offset_commit(
    broker: BrokerProcess, request: TxnOffsetCommitRequest, reply: Reply, api_version: int
) -> None:
    """Offsets that count when their transaction is committed."""
    broker.transactions.commits.commit(request, api_version, reply)


def write_txn_markers(
    broker: BrokerProcess, request: WriteTxnMarkersRequest, reply: Reply, api_version: int
) -> None:
    """A coordinator ends transactions in partitions that are led here."""
    broker.transactions.markers.write(request, reply)


# -- Produce ---------------------------------------------------------------------------------------


class Held(NamedTuple):
    """A batch that waits until its transaction's coordinator agrees, and how it goes on then."""

    hosted: HostedPartition
    batch: RecordBatch
    answer: PartitionProduceResponse
    append: Callable[[int], None]
    """Append it, with that ticket."""
    refused: Callable[[], None]
    """It is not appended; the answer says why."""


def write_in_transaction(
    broker: BrokerProcess, transactional_id: str, held: Sequence[Held], api_version: int
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
