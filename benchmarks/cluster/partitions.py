"""What partitions cost three brokers, by their number: made, with nothing to do, and written to.

Every broker has a replica of every partition. A round is half a second, in which each follower asks
each leader once. CPU is that of the three brokers together, from /proc.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from confluent_kafka import Producer
from tests.interop.quorum import Quorum
from tests.waiting import eventually

from benchmarks.cluster import brokers
from fencepost.client.admin import Admin
from fencepost.client.cluster import Cluster as Client
from fencepost.client.errors import ClientError

ROUND_S = 0.5
SETTLE_S = 10.0
SIZE_BYTES = 1_000
WRITER = {
    "acks": "all",
    "enable.idempotence": False,
    "log_level": 0,
    "linger.ms": 100,
    "queue.buffering.max.messages": 1_000_000,
}


class Cost(NamedTuple):
    """Of so many partitions, on one kind of cluster."""

    kind: str
    partitions: int
    made_s: float
    """Until all replicas are in sync, as far as the metadata say."""
    made_cpu_s: float
    """Until nothing more is done for it."""
    idle_ms: float
    """CPU of one broker in a round."""
    mb_per_s: float
    cpu_ms_per_mb: float
    resident_mb: float
    open_files: int
    moved_s: float
    """From the kill of a broker until clients see that others lead all that it led."""
    restarted_s: float
    """From its start until its replicas are in sync."""
    restart_cpu_s: float
    """Its own CPU in that time."""


PATIENCE: Final = 10
"""How many times as long as a test anything is waited for."""


def patiently(work: Callable[[], None]) -> None:
    """Do it, or wait for it, again while it takes too long for a test."""
    for _ in range(PATIENCE - 1):
        with contextlib.suppress(AssertionError):
            return work()
    return work()


def open_files(quorum: Quorum) -> int:
    """The most files that any broker has open now."""
    pids = [quorum.nodes[id_].process.pid for id_ in brokers.BROKERS]  # type: ignore[union-attr]
    return max(len(os.listdir(f"/proc/{pid}/fd")) for pid in pids)


def settle(quorum: Quorum) -> None:
    """Wait until the brokers have nothing to do: until they use little CPU."""
    deadline_s = time.monotonic() + 180
    before_s = brokers.cpu_s(quorum)
    while time.monotonic() < deadline_s:
        time.sleep(SETTLE_S)
        now_s = brokers.cpu_s(quorum)
        if now_s - before_s < 0.1 * SETTLE_S:
            return
        before_s = now_s


def write(quorum: Quorum, topic: str, partitions: int, total_mb: float) -> tuple[float, float]:
    """MB/s, and CPU ms per MB, of records that go to all partitions in turn."""
    producer = Producer({"bootstrap.servers": brokers.bootstrap(quorum), **WRITER})
    value = os.urandom(SIZE_BYTES)
    count = int(total_mb * 1e6 / SIZE_BYTES)
    failed = []

    def delivered(error: object, message: object) -> None:
        if error is not None:
            failed.append(error)

    before_s = brokers.cpu_s(quorum)
    began_s = time.perf_counter()
    for number in range(count):
        while True:
            try:
                producer.produce(topic, value, partition=number % partitions, on_delivery=delivered)
                break
            except BufferError:
                producer.poll(0.05)
    producer.flush()
    took_s = time.perf_counter() - began_s
    assert not failed, f"{len(failed)} of {count} records were not acknowledged: {failed[0]}"
    time.sleep(1.0)
    written_mb = count * SIZE_BYTES / 1e6
    cpu_ms = (brokers.cpu_s(quorum) - before_s) * 1000
    return written_mb / took_s, cpu_ms / written_mb


def kill_and_restart(quorum: Quorum, topic: str) -> tuple[float, float, float]:
    """See `Cost`: moved_s, restarted_s, restart_cpu_s."""
    victim = brokers.BROKERS[0]
    node = quorum.nodes[victim]
    began_s = time.monotonic()
    node.kill()

    def is_led_by_others() -> bool:
        try:
            with Client(brokers.bootstrap(quorum)) as client:
                found = Admin(client).describe_topic(topic).partitions.values()
        except ClientError:
            return False
        return all(one.leader_id not in (victim, -1) for one in found)

    eventually(is_led_by_others, "others lead what a dead broker led")
    moved_s = time.monotonic() - began_s
    began_s = time.monotonic()
    node.start(wait=False)
    patiently(lambda: brokers.wait_until_in_sync(quorum, topic))
    assert node.process is not None
    return moved_s, time.monotonic() - began_s, brokers.cpu_of(node.process.pid)


def measure(kind: str, partitions: int, home: Path, seconds: float, total_mb: float) -> Cost:
    """One cluster of its own for each number."""
    with brokers.cluster_of(kind, home / str(partitions)) as quorum:
        before_s, began_s = brokers.cpu_s(quorum), time.monotonic()
        with contextlib.suppress(AssertionError):
            brokers.create(quorum, "many", partitions)
        patiently(lambda: brokers.wait_until_in_sync(quorum, "many"))
        made_s = time.monotonic() - began_s
        settle(quorum)
        made_cpu_s = brokers.cpu_s(quorum) - before_s
        idle_s = brokers.cpu_s(quorum)
        time.sleep(seconds)
        idle_s = (brokers.cpu_s(quorum) - idle_s) / len(brokers.BROKERS)
        write(quorum, "many", partitions, max(1.0, partitions * SIZE_BYTES / 1e6))
        mb_per_s, cpu_ms_per_mb = write(quorum, "many", partitions, total_mb)
        resident_mb, files = brokers.resident_mb(quorum), open_files(quorum)
        return Cost(
            kind,
            partitions,
            made_s,
            made_cpu_s,
            idle_s / (seconds / ROUND_S) * 1000,
            mb_per_s,
            cpu_ms_per_mb,
            resident_mb,
            files,
            *kill_and_restart(quorum, "many"),
        )
