"""The requests of a transactional producer, as `transaction_manager` fills them in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from fencepost.client.leaders import by_topic
from fencepost.client.metadata import CommittedOffset, TopicPartition
from fencepost.client.produce_queue import NO_IDENTITY, Identity
from fencepost.wire.api.add_offsets_to_txn import AddOffsetsToTxnRequest
from fencepost.wire.api.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from fencepost.wire.api.end_txn import EndTxnRequest
from fencepost.wire.api.init_producer_id import InitProducerIdRequest
from fencepost.wire.api.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from fencepost.wire.types import Uuid


class ConsumerGroupMetadata(NamedTuple):
    """Whose offsets a transaction commits (KIP-447): with member and generation the coordinator
    refuses them once the group has rebalanced without this member."""

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


def init_request(
    transactional_id: str,
    timeout_ms: int,
    identity: Identity | None,
    *,
    two_phase_commit: bool = False,
    keep_prepared: bool = False,
) -> InitProducerIdRequest:
    """A first identity, or with `identity` the next epoch of it (KIP-360); for transactions of
    two-phase commits, and without aborting one that is prepared (KIP-939)."""
    producer_id, epoch = identity or NO_IDENTITY
    return InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=timeout_ms,
        producer_id=producer_id,
        producer_epoch=epoch,
        enable_2pc=two_phase_commit,
        keep_prepared_txn=keep_prepared,
    )


def add_partitions_request(
    transactional_id: str, identity: Identity, partitions: Iterable[TopicPartition]
) -> AddPartitionsToTxnRequest:
    """Partitions become part of the transaction (TV1)."""
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=identity.producer_id,
        v3_and_below_producer_epoch=identity.epoch,
        v3_and_below_topics=[
            AddPartitionsToTxnTopic(name=name, partitions=[number for number, _ in numbers])
            for name, numbers in by_topic(dict.fromkeys(partitions)).items()
        ],
    )


def add_offsets_request(
    transactional_id: str, identity: Identity, group_id: str
) -> AddOffsetsToTxnRequest:
    """The offsets of a group become part of the transaction (TV1)."""
    return AddOffsetsToTxnRequest(
        transactional_id=transactional_id,
        producer_id=identity.producer_id,
        producer_epoch=identity.epoch,
        group_id=group_id,
    )


def offset_commit_request(
    transactional_id: str,
    identity: Identity,
    group: ConsumerGroupMetadata,
    offsets: Mapping[TopicPartition, CommittedOffset],
    topic_ids: Mapping[str, Uuid],
) -> TxnOffsetCommitRequest:
    """Offsets that count if the transaction is committed; with ids where they are given."""
    return TxnOffsetCommitRequest(
        transactional_id=transactional_id,
        group_id=group.group_id,
        producer_id=identity.producer_id,
        producer_epoch=identity.epoch,
        generation_id_or_member_epoch=group.generation_id,
        member_id=group.member_id,
        group_instance_id=group.group_instance_id,
        topics=[
            TxnOffsetCommitRequestTopic(
                name=name,
                topic_id=topic_ids.get(name, Uuid.ZERO),
                partitions=[
                    TxnOffsetCommitRequestPartition(
                        partition_index=number,
                        committed_offset=one.offset,
                        committed_leader_epoch=one.leader_epoch,
                        committed_metadata=one.metadata,
                    )
                    for number, one in partitions
                ],
            )
            for name, partitions in by_topic(offsets).items()
        ],
    )


def end_request(transactional_id: str, identity: Identity, *, commit: bool) -> EndTxnRequest:
    """The transaction is committed, or aborted."""
    return EndTxnRequest(
        transactional_id=transactional_id,
        producer_id=identity.producer_id,
        producer_epoch=identity.epoch,
        committed=commit,
    )
