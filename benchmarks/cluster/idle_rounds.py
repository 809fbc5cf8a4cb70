"""What followers cost, by number of partitions: with nothing written, and with a little to each.

`machine_us` is the fetcher's own part of an idle round, in this process: the empty answer decoded,
the machine stepped, the next request encoded.

`processes` has one broker lead so many partitions that another follows, in processes of their own.
CPU is what the kernel has counted for all of their threads, in nanoseconds. An idle round is half a
second of it, in which the follower asks once; so it has in it whatever else brokers do now and
then. Then records of 100 bytes go to the partitions in turn, one at a time and so many per second,
however many partitions there are; what the brokers need beyond an idle while is divided by them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Producer

from fencepost.client.admin import Admin
from fencepost.client.cluster import Cluster
from fencepost.machines.effects import Send
from fencepost.machines.fetcher import (
    Fetcher,
    FetcherConfig,
    FetchPosition,
    Follow,
    FollowedPartition,
    LeaderAnswered,
    Progressed,
)
from fencepost.testing.quorum_cluster import QuorumCluster
from fencepost.wire.api.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from fencepost.wire.types import Uuid

VERSION = 18
WAIT_MS = 500
SETTLE_S = 5.0
SETTLED_S_MAX = 600.0
SETTLED_SHARE = 0.05
"""Of one core, what both brokers use at most when there is nothing left to do but rounds."""
REST_S = 35.0
"""After that nothing is left of what is done once: leaders look after new followers for half of
`replica.lag.time.max.ms`, and retention runs first `log.initial.task.delay.ms` after the start."""
PARTITIONS_PER_TOPIC = 1_000
SIZE_BYTES = 100
TOPIC_ID = Uuid(b"benchmark-idle-t")


class Round(NamedTuple):
    """Milliseconds of CPU in half a second, and what else there is to say of one cluster."""

    partitions: int
    leader_ms: float
    follower_ms: float
    bare_leader_ms: float
    """Without any partition."""
    bare_follower_ms: float
    leader_ms_per_record: float
    follower_ms_per_record: float
    leader_mb: float
    follower_mb: float
    load: float


def machine_us(partitions: int, rounds: int = 2_000) -> float:
    """Microseconds of CPU of the fetcher's part of an idle round."""
    fetcher = Fetcher(1, 2, FetcherConfig(), lambda: 7)
    sent = []

    def feed(input_: object) -> None:
        effects = fetcher.step(input_, 0, 0)
        sent.extend(effect.message for effect in effects if type(effect) is Send)

    followed = [FollowedPartition("idle", TOPIC_ID, number) for number in range(partitions)]
    for one in followed:
        feed(Follow(one, None, 1, FetchPosition(10, 1, 0)))
    while fetcher.partitions.values()[-1].lag is None:
        asked = [part for topic in sent[-1].request.topics for part in topic.partitions]
        parts = [PartitionData(partition_index=one.partition, high_watermark=10) for one in asked]
        topic = FetchableTopicResponse(topic_id=TOPIC_ID, partitions=parts)
        feed(LeaderAnswered(sent[-1].number, FetchResponse(session_id=9, responses=[topic])))
        for part in asked:
            feed(Progressed(followed[part.partition], FetchPosition(10, 1, 0), 1))
    empty = bytes(FetchResponse(session_id=9).encode(VERSION))
    began_s = time.process_time()
    for _ in range(rounds):
        feed(LeaderAnswered(sent[-1].number, FetchResponse.decode(empty, VERSION)))
        sent[-1].request.encode(VERSION)
    return (time.process_time() - began_s) / rounds * 1e6


def cpu_s(pid: int) -> float:
    """Seconds of CPU that the threads of a process have used that it has now."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


def resident_mb(pid: int) -> float:
    """Memory that a process has resident."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


class Pair:
    """A leader and its follower."""

    def __init__(self, cluster: QuorumCluster) -> None:
        self.leader, self.follower = sorted(cluster.brokers)
        self.pids = [cluster.brokers[id_].pid for id_ in (self.leader, self.follower)]
        self.bootstrap = cluster.bootstrap_servers

    def cpu_s(self) -> list[float]:
        """What both have used."""
        return [cpu_s(pid) for pid in self.pids]

    def share(self, seconds: float) -> list[float]:
        """Of one core, what each uses while so much time passes."""
        before, began_s = self.cpu_s(), time.monotonic()
        time.sleep(seconds)
        took_s = time.monotonic() - began_s
        return [(now - was) / took_s for now, was in zip(self.cpu_s(), before, strict=True)]

    def settle(self) -> None:
        """Wait until they have done what there was to do."""
        deadline_s = time.monotonic() + SETTLED_S_MAX
        while sum(self.share(SETTLE_S)) > SETTLED_SHARE:
            if time.monotonic() > deadline_s:
                print(f"  the brokers have not come to rest in {SETTLED_S_MAX:.0f} s")
                break
        time.sleep(REST_S)

    def create(self, partitions: int) -> list[tuple[str, int]]:
        """Make so many partitions, which one of them leads; their names."""
        made = []
        with Cluster(self.bootstrap) as client:
            for first in range(0, partitions, PARTITIONS_PER_TOPIC):
                count = min(PARTITIONS_PER_TOPIC, partitions - first)
                assignments = {number: [self.leader, self.follower] for number in range(count)}
                Admin(client).create_topic(f"idle-{first}", assignments=assignments)
                made += [(f"idle-{first}", number) for number in range(count)]
        return made

    def write(self, partitions: list[tuple[str, int]], count: int, per_s: float) -> list[float]:
        """Milliseconds of CPU of both, for each of so many records to the partitions in turn."""
        producer = Producer({"bootstrap.servers": self.bootstrap, "acks": "all", "linger.ms": 0})
        failed = []

        def delivered(error: object, message: object) -> None:
            if error is not None:
                failed.append(error)

        step = max(1, len(partitions) // count)
        for topic in {topic for topic, _ in partitions}:
            producer.list_topics(topic)
        before, began_s = self.share(SETTLE_S), time.monotonic()
        used_s = self.cpu_s()
        for number in range(count):
            time.sleep(max(0.0, began_s + number / per_s - time.monotonic()))
            topic, index = partitions[number * step % len(partitions)]
            producer.produce(topic, os.urandom(SIZE_BYTES), partition=index, on_delivery=delivered)
            producer.poll(0)
        producer.flush()
        time.sleep(1.0)  # followers sync what they have fetched last
        took_s = time.monotonic() - began_s
        assert not failed, f"{len(failed)} of {count} records were not acknowledged: {failed[0]}"
        return [
            (now - was - idle * took_s) / count * 1_000
            for now, was, idle in zip(self.cpu_s(), used_s, before, strict=True)
        ]


def processes(counts: list[int], seconds: float, records: int, per_s: float) -> Iterator[Round]:
    """What rounds and records cost both, for each number of partitions."""
    for partitions in counts:
        with QuorumCluster(1, 2) as cluster:
            cluster.start()
            pair = Pair(cluster)
            pair.settle()
            bare = pair.share(seconds)
            made = pair.create(partitions)
            pair.settle()
            idle = pair.share(seconds)
            busy = pair.write(made, records, per_s)
            round_ms = [share * WAIT_MS for share in (*idle, *bare)]
            resident = [resident_mb(pid) for pid in pair.pids]
            yield Round(partitions, *round_ms, *busy, *resident, os.getloadavg()[0])
