"""What several real brokers do for each other: nearest replicas, throttles, a leader that slept."""

from __future__ import annotations

import time

import pytest
from confluent_kafka import Consumer, Producer as Librdkafka, TopicPartition

from fencepost.client.admin import BROKER_RESOURCE, SET, TOPIC_RESOURCE, Admin, ConfigChange
from fencepost.client.cluster import Cluster as Client
from fencepost.client.producer import Producer
from fencepost.testing import Cluster

from ..waiting import DEADLINE_S, eventually

pytestmark = [pytest.mark.long, pytest.mark.clients]

SESSION = {"broker.session.timeout.ms": 60_000, "offsets.topic.num.partitions": 1}


def create(cluster: Cluster, topic: str, *replicas: int) -> None:
    with Client(cluster.bootstrap_servers) as client:
        Admin(client).create_topic(topic, assignments={0: replicas})
        Admin(client).wait_for_topic(topic)


def write(cluster: Cluster, topic: str, *values: bytes) -> None:
    """Acknowledged by everybody in sync when this returns."""
    with Client(cluster.bootstrap_servers) as client, Producer(client) as producer:
        for value in values:
            producer.send(topic, value, partition=0)
        producer.flush()


def in_sync(cluster: Cluster, topic: str) -> set[int]:
    with Client(cluster.bootstrap_servers) as client:
        return set(Admin(client).describe_topic(topic).partitions[0].isr)


def size_at(cluster: Cluster, broker_id: int, topic: str) -> int:
    """The bytes of the partition in a broker's files."""
    directory = cluster.data_dir_of(broker_id) / f"{topic}-0"
    return sum(path.stat().st_size for path in directory.glob("*.log"))


def test_a_consumer_reads_from_the_replica_in_its_rack():
    """KIP-392, with librdkafka: while the leader does not answer its fetches any more."""
    config = {
        "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
        "replica.fetch.wait.max.ms": 100,
        **SESSION,
    }
    cluster = Cluster(2, config=config)
    for id_ in (1, 2):
        cluster.configure({"broker.rack": f"rack-{id_}"}, id_)
    with cluster:
        create(cluster, "near", 1, 2)
        eventually(lambda: in_sync(cluster, "near") == {1, 2})
        write(cluster, "near", b"a")
        consumer = Consumer(
            {
                "bootstrap.servers": cluster.bootstrap_servers,
                "group.id": "unused",
                "client.id": "near",
                "client.rack": "rack-2",
                "fetch.wait.max.ms": 100,
            }
        )
        consumer.assign([TopicPartition("near", 0, 0)])
        seen: list[bytes] = []

        def has(count: int) -> bool:
            message = consumer.poll(0.1)
            if message is not None and not message.error():
                seen.append(message.value())
            return len(seen) >= count

        try:
            with cluster.delay("Fetch", 1, client_id="near", node=2) as at_the_follower:
                eventually(lambda: has(1), "the first record")
                eventually(lambda: has(2) or at_the_follower.hits, "it goes to the follower")
            with cluster.hold("Fetch", client_id="near", node=1):
                write(cluster, "near", b"b", b"c")
                eventually(lambda: has(3), "what the follower has")
        finally:
            consumer.close()
        assert seen == [b"a", b"b", b"c"]


def test_a_throttled_leader_sends_no_more_than_its_rate():
    """KIP-73: to a follower that is not in sync, until the throttle is removed."""
    rate, chunk = 200_000, 20_000
    config = {"replica.fetch.max.bytes": chunk, "replica.fetch.response.max.bytes": chunk}
    with Cluster(2, config=config | SESSION) as cluster:
        create(cluster, "late", 1, 2)
        eventually(lambda: in_sync(cluster, "late") == {1, 2})
        cluster.kill(2)
        eventually(lambda: in_sync(cluster, "late") == {1})
        write(cluster, "late", *[bytes(10_000)] * 400)
        whole = size_at(cluster, 1, "late")
        with Client(cluster.bootstrap_servers) as client:
            admin = Admin(client)
            named = ConfigChange("leader.replication.throttled.replicas", "0:1", SET)
            admin.alter_configs(TOPIC_RESOURCE, "late", [named])
            limit = ConfigChange("leader.replication.throttled.rate", str(rate), SET)
            admin.alter_configs(BROKER_RESOURCE, "1", [limit])
            began_s = time.monotonic()
            cluster.start(2)
            eventually(lambda: size_at(cluster, 2, "late") >= whole // 5, "a fifth has come")
            took_s = time.monotonic() - began_s
            # The first second may be filled at once, and one answer may exceed the rate.
            assert whole // 5 <= rate * (took_s + 1) + chunk
            assert in_sync(cluster, "late") == {1}
            admin.alter_configs(BROKER_RESOURCE, "1", [limit._replace(value=str(1 << 40))])
        eventually(lambda: in_sync(cluster, "late") == {1, 2}, "nothing holds it back")
        assert size_at(cluster, 2, "late") == whole


def test_a_leader_that_was_paused_drops_no_follower_when_it_wakes():
    """It did not run for longer than the lag that it allows: no follower could fetch from it.

    Followers lack records when it falls asleep, and are heard again only when it has looked.
    """
    lag_ms = 5_000
    with Cluster(3, config={"replica.lag.time.max.ms": lag_ms, **SESSION}) as cluster:
        create(cluster, "slept", 1, 2, 3)
        eventually(lambda: in_sync(cluster, "slept") == {1, 2, 3})
        write(cluster, "slept", b"before")
        asked = cluster.delay("AlterPartition", 1)
        with (
            cluster.hold("Fetch", client_id="broker-2-fetcher-0", node=1) as second,
            cluster.hold("Fetch", client_id="broker-3-fetcher-0", node=1) as third,
        ):
            producer = Librdkafka({"bootstrap.servers": cluster.bootstrap_servers, "acks": 1})
            for fault in (second, third, None):  # no follower has the last one
                producer.produce("slept", b"more", partition=0)
                assert producer.flush(DEADLINE_S) == 0
                if fault is not None:
                    fault.wait(timeout_s=DEADLINE_S)
            cluster.pause(1)
            until_s = time.monotonic() + 1.5 * lag_ms / 1000
            eventually(lambda: time.monotonic() > until_s)
            cluster.resume(1)
            eventually(lambda: cluster._partition_at(1, "slept", 0), "it is awake")
        until_s = time.monotonic() + lag_ms / 1000
        while time.monotonic() < until_s:
            write(cluster, "slept", b"after")
        assert asked.hits == 0, "no other in-sync set was asked for"
        assert in_sync(cluster, "slept") == {1, 2, 3}
