"""Broker epochs out of the metadata log and its snapshots."""

from __future__ import annotations

from fencepost.client.config import ClientConfig
from fencepost.client.connection import Connection
from fencepost.client.quorum import QuorumAdmin
from fencepost.client.registrations import _take, broker_epochs, snapshot_of
from fencepost.testing import Cluster

from ..waiting import eventually


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
