"""A leader is killed and comes back, and one is elected that lacks records, on real brokers."""

from __future__ import annotations

import pytest

from fencepost.cli.demo import failures
from fencepost.client.admin import Admin
from fencepost.client.cluster import Cluster as Client
from fencepost.client.metadata import TopicPartition
from fencepost.client.offsets import LATEST, list_offsets
from fencepost.client.producer import Producer
from fencepost.testing import Cluster


@pytest.mark.slow
def test_a_killed_leader_is_followed_and_a_cut_takes_the_last_records(tmp_path):
    with Cluster(3, data_dir=tmp_path, faults=False) as cluster:
        assert {path.name for path in tmp_path.iterdir()} >= {"broker-1", "broker-2", "broker-3"}
        with Client(cluster.bootstrap_servers) as client:
            Admin(client).create_topic("t", partitions=1, replication_factor=3)
            with Producer(client) as producer:
                for number in range(20):
                    producer.send("t", b"%d" % number)
                    producer.flush()
        killed = failures.kill_leader(cluster, "t", 0)
        assert killed.leader not in (killed.killed, -1)
        assert killed.epoch > killed.previous_epoch
        assert f"killed broker {killed.killed}, which led partition 0" in str(killed)
        failures.bring_back(cluster, "t", killed.killed)
        assert cluster.running
        cut = failures.elect_uncleanly(cluster, "t", 0, end=20, lost=5)
        assert cut.offset == 15
        assert cut.leader_epoch > killed.epoch
        with Client(cluster.bootstrap_servers) as client:
            place = TopicPartition("t", 0)
            assert list_offsets(client, {place: LATEST})[place].offset == 15
