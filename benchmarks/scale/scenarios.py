"""What happens to a large cluster, and what it costs: the rows of docs/SCALE.md."""

from __future__ import annotations

import os
import statistics
from typing import Final, NamedTuple

from benchmarks.scale.broker import measured_costs
from benchmarks.scale.cluster import Cluster, Course

SETTLE_MS: Final = 3_000.0
WATCH_MS: Final = 1_000.0
QUIET_MS: Final = 1_000.0
"""With no new leader for so long, there will be none."""
RACKS: Final = 5


class Size(NamedTuple):
    """How large the cluster is. `heavy` partitions are led by broker 1, alone."""

    brokers: int
    partitions: int
    heavy: int


class Made(NamedTuple):
    """What creating it cost."""

    records: int
    size_bytes: int
    controller_ms: float
    follow_ms: float
    image_mb: float


class Idle(NamedTuple):
    """A second in which nothing happens."""

    fetchers: int
    rounds: float
    broker_ms: float
    controller_ms: float
    bytes_each: float


class Happened(NamedTuple):
    """What came of one event."""

    name: str
    course: Course
    busiest_ms: float
    """CPU of the broker that had most to do."""


def resident_mb() -> float:
    """What this process has in memory."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


class Play:
    """One cluster, to which things happen one after the other."""

    def __init__(self, size: Size) -> None:
        self.size = size
        self.costs = measured_costs()
        self.cluster = Cluster(size.brokers, RACKS, self.costs)

    def make(self) -> Made:
        """The topics; their image is in this process twice: the controller's, everybody else's."""
        before_mb = resident_mb()
        done = self.cluster.metadata.create(self.size.partitions, self.size.heavy)
        image_mb = (resident_mb() - before_mb) / 2
        self.cluster.tell_all()
        return Made(
            sum(one.records for one in done),
            sum(one.size_bytes for one in done),
            sum(one.controller_ms for one in done),
            sum(one.follow_ms for one in done),
            image_mb,
        )

    def settle(self) -> None:
        """Let fetch sessions come to be, and partitions be quiet in them."""
        self.cluster.beat()
        self.cluster.world.run(self.cluster.world.now_ms + SETTLE_MS)

    def idle(self) -> Idle:
        """Watch for a while in which nothing happens."""
        cluster = self.cluster
        cluster.begin()
        cluster.world.run(cluster.world.now_ms + WATCH_MS)
        seconds = WATCH_MS / 1000
        brokers = [one for one in cluster.brokers.values() if one.core.is_alive]
        return Idle(
            sum(len(one.fetchers) for one in brokers),
            sum(one.rounds for one in brokers) / seconds,
            statistics.mean(one.core.busy_ms for one in brokers) / seconds,
            cluster.core.busy_ms / seconds,
            statistics.mean(one.asked_bytes + one.answered_bytes for one in brokers) / seconds,
        )

    def kill(self, name: str, ids: list[int]) -> Happened:
        """Brokers die."""
        course = self.cluster.begin()
        self.cluster.kill(ids)
        return self._after(name, course)

    def fail_over(self) -> tuple[float, Happened]:
        """The active controller dies: CPU to be the next; then another broker dies."""
        took_ms = self.cluster.fail_over()
        self.cluster.beat()
        self.cluster.world.run(self.cluster.world.now_ms + WATCH_MS)
        alive = [id_ for id_, one in self.cluster.brokers.items() if one.core.is_alive]
        return took_ms, self.kill("a broker dies under the new controller", alive[:1])

    def _after(self, name: str, course: Course) -> Happened:
        """Wait until all is decided, and for as long again as nothing more comes of it."""
        world = self.cluster.world
        before = -1
        while before != (before := len(course.acknowledging_ms) + len(course.serving_ms)):
            world.run(world.now_ms + QUIET_MS)
        busiest_ms = max(one.core.busy_ms for one in self.cluster.brokers.values())
        self.cluster.course = Course(world.now_ms)
        return Happened(name, course, busiest_ms)

    def leaderless(self) -> int:
        """How many partitions have no leader."""
        return sum(
            partition.leader < 0 for _, _, partition in self.cluster.metadata.image.partitions()
        )


def controller_alone(size: Size) -> tuple[Made, Course, tuple[float, int, float]]:
    """Metadata alone: creating, a broker fenced, and a snapshot written and loaded."""
    cluster = Cluster(size.brokers, RACKS, measured_costs())
    before_mb = resident_mb()
    done = cluster.metadata.create(size.partitions, size.heavy)
    made = Made(
        sum(one.records for one in done),
        sum(one.size_bytes for one in done),
        sum(one.controller_ms for one in done),
        sum(one.follow_ms for one in done),
        (resident_mb() - before_mb) / 2,
    )
    course = Course(0.0)
    epoch = cluster.metadata.image.brokers[1].epoch
    fenced = cluster.metadata.commit(lambda c: c.decide_fence_refusing(1, epoch, 1))
    course.records, course.size_bytes = fenced.records, fenced.size_bytes
    course.controller_ms, course.follow_ms = fenced.controller_ms, fenced.follow_ms
    return made, course, cluster.metadata.snapshot()
