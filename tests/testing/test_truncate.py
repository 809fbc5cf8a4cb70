"""Records that are taken back: what clients of Kafka see after an unclean election."""

from __future__ import annotations

import pytest

from fencepost.batch.records import read_records
from fencepost.client.admin import Admin
from fencepost.client.cluster import Cluster as Client
from fencepost.client.metadata import TopicPartition
from fencepost.client.offsets import LATEST, list_offsets, offsets_for_leader_epochs
from fencepost.client.producer import Producer
from fencepost.testing import Cluster, ClusterError
from fencepost.testing.truncation import cut_log
from fencepost.wire.api.fetch import FetchPartition, FetchRequest, FetchTopic
from fencepost.wire.errors import ErrorCode

from ..waiting import eventually

pytestmark = pytest.mark.slow


def write(cluster: Cluster, topic: str, *records: bytes) -> None:
    """Records in batches of their own, acknowledged when this returns."""
    with Client(cluster.bootstrap_servers) as client, Producer(client) as producer:
        for record in records:
            producer.send(topic, record)
            producer.flush()


def fetch(cluster: Cluster, node_id: int, topic: str, offset: int, **more):
    """What a consumer is told that fetches from there."""
    partition = FetchPartition(
        partition=0, fetch_offset=offset, partition_max_bytes=1 << 20, **more
    )
    topics = [FetchTopic(topic=topic, partitions=[partition])]
    with cluster.connect(node_id) as client:
        answer = client.request(FetchRequest(topics=topics, max_bytes=1 << 20), 12)
    return answer.responses[0].partitions[0]


def records(cluster: Cluster, node_id: int, topic: str) -> list[bytes]:
    """Everything in the topic's only partition."""
    part = fetch(cluster, node_id, topic, 0)
    return [record.value for record in read_records(part.records)]


def create(cluster: Cluster, topic: str, *replicas: int) -> None:
    """A topic of one partition on these brokers, all of them in sync."""
    with Client(cluster.bootstrap_servers) as client:
        Admin(client).create_topic(topic, assignments={0: replicas})
        Admin(client).wait_for_topic(topic)
    eventually(lambda: len(cluster._partition(topic, 0).isr_nodes) == len(replicas))


def check_divergence(cluster: Cluster, topic: str, to: int, end: int) -> None:
    """What a client sees that had read up to `end` under the epoch before."""
    before = cluster._partition(topic, 0)
    done = cluster.truncate(topic, 0, to)
    assert (done.topic, done.partition, done.offset) == (topic, 0, to)
    assert done.previous_leader_epoch == before.leader_epoch < done.leader_epoch
    assert cluster._partition(topic, 0).leader_id == done.leader
    said = fetch(cluster, done.leader, topic, to, current_leader_epoch=before.leader_epoch)
    assert said.error_code == ErrorCode.FENCED_LEADER_EPOCH
    known = {"last_fetched_epoch": before.leader_epoch, "current_leader_epoch": done.leader_epoch}
    said = fetch(cluster, done.leader, topic, end)
    assert said.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    for more in (0, end - to + 1):
        write(cluster, topic, *[b"new"] * more)
        said = fetch(cluster, done.leader, topic, end, **known)
        told = said.diverging_epoch
        assert (said.error_code, told.epoch, told.end_offset) == (0, before.leader_epoch, to)
    with Client(cluster.bootstrap_servers) as client:
        key = TopicPartition(topic, 0)
        asked = offsets_for_leader_epochs(client, {key: before.leader_epoch})
        assert asked[key].end_offset == to
        assert list_offsets(client, {key: LATEST})[key].offset == end + 1


def test_clients_of_one_broker_see_that_the_log_diverged(lone: Cluster):
    create(lone, "cut", 1)
    create(lone, "kept", 1)
    write(lone, "cut", b"a", b"b", b"c", b"d", b"e")
    write(lone, "kept", b"kept")
    check_divergence(lone, "cut", to=2, end=5)
    assert records(lone, 1, "cut")[:3] == [b"a", b"b", b"new"]
    assert records(lone, 1, "kept") == [b"kept"]


def test_a_follower_cuts_its_log_to_that_of_the_new_leader(three: Cluster):
    create(three, "cut", 1, 2, 3)
    write(three, "cut", b"a", b"b", b"c", b"d", b"e")
    check_divergence(three, "cut", to=3, end=5)
    eventually(lambda: len(three._partition("cut", 0).isr_nodes) == 3)
    leader = three._partition("cut", 0).leader_id
    assert leader != 1, "another replica was elected"
    three.kill(leader)
    eventually(lambda: three._partition("cut", 0).leader_id not in (-1, leader))
    heir = three._partition("cut", 0).leader_id
    wanted = [b"a", b"b", b"c", b"new", b"new", b"new"]
    eventually(lambda: records(three, heir, "cut") == wanted)  # when its high watermark is known


def test_what_does_not_reach_is_refused_before_anything_stops(lone: Cluster):
    create(lone, "short", 1)
    write(lone, "short", b"a")
    pid = lone.pid
    with pytest.raises(ValueError, match="ends at 1"):
        lone.truncate("short", 0, 2)
    with pytest.raises(ValueError, match="0 or more"):
        lone.truncate("short", 0, -1)
    with pytest.raises(ClusterError, match="no broker knows"):
        lone.truncate("nowhere", 0, 0)
    assert lone.pid == pid


def test_a_batch_goes_as_a_whole(lone: Cluster):
    create(lone, "batches", 1)
    write(lone, "batches", b"a")
    with Client(lone.bootstrap_servers) as client, Producer(client) as producer:
        for record in (b"b", b"c", b"d"):
            producer.send("batches", record)
        producer.flush()
    assert lone.truncate("batches", 0, 2).offset == 1
    assert lone.truncate("batches", 0, 0).offset == 0
    assert records(lone, 1, "batches") == []


def test_a_cut_lowers_what_is_written_down_about_the_log(lone: Cluster):
    create(lone, "points", 1)
    write(lone, "points", b"a", b"b", b"c")
    lone.stop()
    files = ("recovery-point-offset-checkpoint", "replication-offset-checkpoint")
    for file in files:
        assert b"points 0 3" in (lone.data_dir / file).read_bytes()
    assert cut_log(lone.data_dir, "points", 0, 1) == 1
    for file in files:
        assert b"points 0 1" in (lone.data_dir / file).read_bytes()
    with pytest.raises(FileNotFoundError):
        cut_log(lone.data_dir, "nowhere", 0, 1)
    with pytest.raises(ValueError, match="from 0 to 1"):
        cut_log(lone.data_dir, "points", 0, 2)
    assert (lone.data_dir / ".kafka_cleanshutdown").exists(), "the broker has stopped in order"
