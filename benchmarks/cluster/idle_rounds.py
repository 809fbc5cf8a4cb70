"""What followers cost while nothing is written: CPU of a fetch round, by number of partitions.

Two measurements. `machine_us`: the fetcher's own part of a round, in this process: the empty answer
decoded, the machine stepped, the next request encoded. `processes`: one broker leads a topic of so
many partitions that another follows, in processes of their own; CPU seconds of both are taken from
/proc over a while, those without the topic are taken off, and the rest is divided by the rounds.
"""

from __future__ import annotations

import os
import time
from typing import NamedTuple

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
TOPIC_ID = Uuid(b"benchmark-idle-t")


class Round(NamedTuple):
    """Milliseconds of CPU that a round costs at either end."""

    partitions: int
    follower_ms: float
    leader_ms: float


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
    """Seconds of CPU that a process has used."""
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _cpu_of(cluster: QuorumCluster, seconds: float) -> tuple[float, float]:
    """CPU seconds of the leader and of the follower while so much time passes."""
    pids = [cluster.brokers[id_].pid for id_ in sorted(cluster.brokers)]
    before = [cpu_s(pid) for pid in pids]
    time.sleep(seconds)
    leader, follower = (cpu_s(pid) - was for pid, was in zip(pids, before, strict=True))
    return leader, follower


def processes(counts: list[int], seconds: float) -> list[Round]:
    """A round's CPU at both ends for each number of partitions."""
    found = []
    for partitions in counts:
        with QuorumCluster(1, 2) as cluster:
            cluster.start()
            leader, follower = sorted(cluster.brokers)
            time.sleep(SETTLE_S)
            idle = _cpu_of(cluster, seconds)
            with Cluster(cluster.bootstrap_servers) as client:
                assignments = {number: [leader, follower] for number in range(partitions)}
                Admin(client).create_topic("idle", assignments=assignments)
            time.sleep(SETTLE_S + partitions / 200)
            busy = _cpu_of(cluster, seconds)
            rounds = seconds * 1_000 / WAIT_MS
            found.append(
                Round(
                    partitions,
                    (busy[1] - idle[1]) / rounds * 1_000,
                    (busy[0] - idle[0]) / rounds * 1_000,
                )
            )
    return found
