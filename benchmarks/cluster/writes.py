"""What writers with acks=all see of three replicas: latency of one record, throughput, failover.

The client is confluent-kafka for both kinds; failover is seen through our own beside it.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import NamedTuple

from confluent_kafka import Producer
from tests.interop.quorum import Quorum

from benchmarks.cluster import brokers
from fencepost.client.cluster import Cluster as Client
from fencepost.client.config import ClientConfig
from fencepost.client.producer import Producer as OurProducer

GIVE_UP_S = 60.0
WRITER = {"acks": "all", "enable.idempotence": False, "log_level": 0}
QUICK_TO_RETRY = {
    "retry.backoff.ms": 10,
    "retry.backoff.max.ms": 50,
    "reconnect.backoff.ms": 10,
    "reconnect.backoff.max.ms": 50,
    "topic.metadata.refresh.fast.interval.ms": 20,
    "linger.ms": 0,
}
ASKS_OFTEN = ClientConfig(
    retry_backoff_ms=10, retry_backoff_max_ms=10, connect_timeout_ms=1_000, request_timeout_ms=1_000
)


class Throughput(NamedTuple):
    """Of one load."""

    mb_per_s: float
    cpu_s_per_mb: float
    """Of the three brokers together, for each MB that was written once."""


def latencies_ms(quorum: Quorum, topic: str, count: int, size_bytes: int = 100) -> list[float]:
    """One record at a time to a partition that has all replicas in sync."""
    servers = {"bootstrap.servers": brokers.bootstrap(quorum)}
    producer = Producer({**servers, **WRITER, "linger.ms": 0})
    value = os.urandom(size_bytes)
    found = []
    for _ in range(count):
        began = time.perf_counter()
        producer.produce(topic, value, partition=0)
        producer.flush()
        found.append((time.perf_counter() - began) * 1000)
    return found


def throughput(quorum: Quorum, topic: str, size_bytes: int, total_mb: float) -> Throughput:
    """As much as a writer gets through, over all partitions of the topic."""
    servers = {"bootstrap.servers": brokers.bootstrap(quorum)}
    producer = Producer({**servers, **WRITER, "linger.ms": 5, "batch.size": 262_144})
    value = os.urandom(size_bytes)
    count = int(total_mb * 1e6 / size_bytes)
    before_s = brokers.cpu_s(quorum)
    began = time.perf_counter()
    for _ in range(count):
        while True:
            try:
                producer.produce(topic, value)
                break
            except BufferError:
                producer.poll(0.01)
    producer.flush()
    took_s = time.perf_counter() - began
    written_mb = count * size_bytes / 1e6
    brokers.settle(1.0)  # followers sync what they have fetched last
    return Throughput(written_mb / took_s, (brokers.cpu_s(quorum) - before_s) / written_mb)


class Failover(NamedTuple):
    """Milliseconds from the end of a leader to the next write that is acknowledged."""

    confluent_ms: float
    """librdkafka asks at once, and then looks for a leader that it misses once a second."""
    fencepost_ms: float
    """Of `fencepost.client`, which asks again every 10 ms: what the cluster itself takes."""


def failover(quorum: Quorum, topic: str, *, silently: bool) -> Failover:
    """Of the leader of partition 0, with a writer of each client that has written before.

    Killed, its port refuses connections; `silently` it is stopped (SIGSTOP), as a machine without
    power, and only the session timeout tells. It is brought back before this returns.
    """
    leader = quorum.nodes[brokers.leader_of(quorum, topic)]
    servers = {"bootstrap.servers": brokers.bootstrap(quorum)}
    producer = Producer({**servers, **WRITER, **QUICK_TO_RETRY, "socket.timeout.ms": 1_000})
    producer.produce(topic, b"before", partition=0)
    assert producer.flush(GIVE_UP_S) == 0
    assert leader.process is not None
    ours: list[float] = []
    acknowledged: list[float] = []
    has_written, is_gone = threading.Event(), threading.Event()

    def write_with_ours() -> None:
        with Client(brokers.bootstrap(quorum), ASKS_OFTEN) as client, OurProducer(client) as writer:
            writer.send(topic, b"before", partition=0)
            writer.flush()
            has_written.set()
            is_gone.wait(GIVE_UP_S)
            writer.send(topic, b"after", partition=0)
            writer.flush(GIVE_UP_S * 1000)
            ours.append(time.monotonic())

    thread = threading.Thread(target=write_with_ours)
    thread.start()
    assert has_written.wait(GIVE_UP_S)
    os.kill(leader.process.pid, signal.SIGSTOP if silently else signal.SIGKILL)
    killed = time.monotonic()
    is_gone.set()

    def delivered(error: object, message: object) -> None:
        assert error is None, error
        acknowledged.append(time.monotonic())

    producer.produce(topic, b"after", partition=0, on_delivery=delivered)
    assert producer.flush(GIVE_UP_S) == 0
    thread.join()
    leader.kill()
    leader.start()
    brokers.wait_until_in_sync(quorum, topic)
    return Failover((acknowledged[0] - killed) * 1000, (ours[0] - killed) * 1000)
