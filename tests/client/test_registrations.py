"""Broker epochs out of the metadata log and its snapshots."""

from __future__ import annotations

from typing import Any, cast

import pytest

from fencepost.batch.records import build_batch
from fencepost.client.config import ClientConfig
from fencepost.client.connection import Connection
from fencepost.client.errors import ClientError
from fencepost.client.quorum import QuorumAdmin, QuorumDescription
from fencepost.client.registrations import _log, _take, broker_epochs, snapshot_of
from fencepost.testing import Cluster
from fencepost.wire.api import fetch, fetch_snapshot
from fencepost.wire.message import Message
from fencepost.wire.records.metadata import encode_record
from fencepost.wire.records.metadata_nodes import RegisterBrokerRecord, UnregisterBrokerRecord

from ..waiting import eventually


def registered(broker_id: int, broker_epoch: int) -> Message:
    return RegisterBrokerRecord(broker_id=broker_id, broker_epoch=broker_epoch)


def unregistered(broker_id: int) -> Message:
    return UnregisterBrokerRecord(broker_id=broker_id, broker_epoch=0)


def written(offset: int, *records: Message) -> bytes:
    values = [(None, encode_record(record)) for record in records]
    return bytes(build_batch(values, timestamp_ms=1, base_offset=offset, leader_epoch=3))


class Leader:
    """Answers one Fetch after the other with what `log` has, and its snapshot in pieces."""

    address = "leader:1"

    def __init__(self, log: list[fetch.PartitionData], snapshot: bytes = b"") -> None:
        self._log = log
        self._snapshot = snapshot
        self.asked: list[tuple[int, int]] = []

    def request(self, request: Any) -> Any:
        part = request.topics[0].partitions[0]
        if isinstance(request, fetch.FetchRequest):
            self.asked.append((part.fetch_offset, part.last_fetched_epoch))
            found = fetch.FetchableTopicResponse(partitions=[self._log.pop(0)])
            return fetch.FetchResponse(responses=[found])
        piece = fetch_snapshot.PartitionSnapshotResponse(
            size=len(self._snapshot),
            position=part.position,
            unaligned_records=self._snapshot[part.position :][:50],
        )
        topic = fetch_snapshot.TopicSnapshotResponse(partitions=[piece])
        return fetch_snapshot.FetchSnapshotResponse(topics=[topic])

    def epochs(self, high_watermark: int) -> dict[int, int]:
        quorum = QuorumDescription(1, 3, high_watermark, [], [], {})
        found: dict[int, int] = {}
        for records in _log(cast(Connection, self), quorum):
            _take(records, found)
        return found


def test_the_log_is_read_on_behind_its_snapshot():
    snapshot_id = fetch.SnapshotId(end_offset=9, epoch=2)
    leader = Leader(
        [
            fetch.PartitionData(snapshot_id=snapshot_id),
            fetch.PartitionData(records=written(9, unregistered(1), registered(2, 10))),
            fetch.PartitionData(records=written(11, registered(4, 11))),
        ],
        written(0, registered(1, 4), registered(2, 5), registered(3, 6)),
    )
    assert leader.epochs(high_watermark=12) == {2: 10, 3: 6, 4: 11}
    assert leader.asked == [(0, 0), (9, 2), (11, 3)]


def test_a_leader_that_has_nothing_at_an_offset_is_not_asked_for_ever():
    leader = Leader([fetch.PartitionData(records=b"")])
    with pytest.raises(ClientError, match="nothing at offset 0"):
        leader.epochs(high_watermark=1)


def test_epochs_are_those_of_the_log_and_of_its_snapshot():
    """Of a node that writes a snapshot after every few bytes."""
    often = {"metadata.log.max.record.bytes.between.snapshots": 1}
    with Cluster(brokers=2, faults=False, config=often) as cluster:
        config = ClientConfig(bootstrap_servers=cluster.bootstrap_servers)
        with QuorumAdmin(config) as admin:
            quorum = admin.describe()
        by_log = broker_epochs(config, quorum)
        assert set(by_log) == {1, 2}
        assert len(set(by_log.values())) == 2
        assert cluster.directory is not None
        (listener,) = quorum.listeners[quorum.leader_id]

        def by_snapshot() -> dict[int, int]:
            """Of the newest that there is now."""
            names = sorted(path.stem for path in cluster.directory.rglob("0*.checkpoint"))
            end_offset, _, epoch = names[-1].partition("-")
            found: dict[int, int] = {}
            with Connection.configured(config, listener.host, listener.port) as leader:
                data = snapshot_of(leader, quorum.leader_epoch, int(end_offset), int(epoch))
            _take(data, found)
            return found

        eventually(lambda: by_snapshot() == by_log, "a snapshot with both registrations")
