"""Broker epochs, which no API tells: read from the metadata log, at the controller that leads.

A controller answers a Fetch of `__cluster_metadata` without a node id as it answers a voter's, and
FetchSnapshot where the log begins with a snapshot (KIP-595, KIP-630). It takes a connection to the
listener of controllers, which need not be open to clients.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from fencepost.batch.records import read_records
from fencepost.client.config import ClientConfig
from fencepost.client.connection import Connection
from fencepost.client.errors import BrokerError, ClientError
from fencepost.client.fetch_core import blob_end
from fencepost.client.quorum import LOOKING_TIMEOUT_MS, TOPIC, QuorumDescription
from fencepost.wire.api import fetch, fetch_snapshot
from fencepost.wire.records.metadata import decode_record
from fencepost.wire.records.metadata_nodes import RegisterBrokerRecord, UnregisterBrokerRecord
from fencepost.wire.types import Buffer, Uuid

TOPIC_ID: Final = Uuid((1).to_bytes(16, "big"))
PIECE_BYTES: Final = 1 << 20
_IDS: Final = (RegisterBrokerRecord.record_id, UnregisterBrokerRecord.record_id)


def broker_epochs(config: ClientConfig, quorum: QuorumDescription) -> dict[int, int]:
    """The broker epoch of every registered broker, by broker id. ClientError where the leader of
    the quorum is not reached, or does not answer."""
    listeners = quorum.listeners.get(quorum.leader_id)
    if not listeners:
        raise ClientError("the quorum does not say where its leader is reached")
    quick = replace(config, connect_timeout_ms=LOOKING_TIMEOUT_MS)
    found: dict[int, int] = {}
    with Connection.configured(quick, listeners[0].host, listeners[0].port) as leader:
        for records in _log(leader, quorum):
            _take(records, found)
    return found


def _log(leader: Connection, quorum: QuorumDescription) -> Iterator[Buffer]:
    """The metadata log, up to where it was committed when it was described."""
    offset, epoch = 0, 0
    while offset < quorum.high_watermark:
        partition = fetch.FetchPartition(
            partition=0,
            current_leader_epoch=quorum.leader_epoch,
            fetch_offset=offset,
            last_fetched_epoch=epoch,
            partition_max_bytes=PIECE_BYTES,
        )
        topic = fetch.FetchTopic(topic=TOPIC, topic_id=TOPIC_ID, partitions=[partition])
        request = fetch.FetchRequest(max_wait_ms=0, max_bytes=PIECE_BYTES, topics=[topic])
        response = leader.request(request)
        _check(response.error_code, leader)
        part = response.responses[0].partitions[0]
        _check(part.error_code, leader)
        if part.snapshot_id.end_offset >= 0:
            snapshot_id = part.snapshot_id
            yield snapshot_of(
                leader, quorum.leader_epoch, snapshot_id.end_offset, snapshot_id.epoch
            )
            offset, epoch = snapshot_id.end_offset, snapshot_id.epoch
            continue
        records = part.records or b""
        end = blob_end(records)
        if end.next_offset <= offset:
            raise ClientError(f"the metadata log has nothing at offset {offset}")
        yield records
        offset, epoch = end.next_offset, end.last_epoch


def snapshot_of(leader: Connection, leader_epoch: int, end_offset: int, epoch: int) -> bytearray:
    """The whole snapshot of that id. BrokerError, SNAPSHOT_NOT_FOUND among others."""
    data = bytearray()
    while True:
        partition = fetch_snapshot.PartitionSnapshotRequest(
            partition=0,
            current_leader_epoch=leader_epoch,
            snapshot_id=fetch_snapshot.SnapshotId(end_offset=end_offset, epoch=epoch),
            position=len(data),
        )
        topic = fetch_snapshot.TopicSnapshotRequest(name=TOPIC, partitions=[partition])
        request = fetch_snapshot.FetchSnapshotRequest(max_bytes=PIECE_BYTES, topics=[topic])
        response = leader.request(request)
        _check(response.error_code, leader)
        part = response.topics[0].partitions[0]
        _check(part.error_code, leader)
        piece = part.unaligned_records or b""
        data += piece
        if len(data) >= part.size or not piece:
            return data


def _take(records: Buffer, found: dict[int, int]) -> None:
    """Put registrations in, and take those out that ended."""
    for record in read_records(records):
        value = record.value
        if value is None or len(value) < 3 or value[1] not in _IDS:  # ids are below 128
            continue
        decoded = decode_record(value)
        if isinstance(decoded, RegisterBrokerRecord):
            found[decoded.broker_id] = decoded.broker_epoch
        elif isinstance(decoded, UnregisterBrokerRecord):
            found.pop(decoded.broker_id, None)


def _check(code: int, leader: Connection) -> None:
    if code:
        raise BrokerError.of(code, "the metadata log cannot be read", host=leader.address)
