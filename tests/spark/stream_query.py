"""A query over a fake cluster: what Spark does with a stream's reader, and what it keeps."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from fencepost.arrow.options import SourceOptions
from fencepost.arrow.planning import OffsetRange
from fencepost.arrow.stream_planner import Json, StreamPlanner
from fencepost.arrow.survey import Survey
from fencepost.client.metadata import TopicPartition

from ..client.fake_cluster import FakeCluster
from ..client.records import batch

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


def fill(fake: FakeCluster, count: int, partition: int = 0, topic: str = "t") -> None:
    """Append `count` batches of one record."""
    for _ in range(count):
        fake.partition(topic, partition).append(batch(b"x"))


class Query:
    """What Spark does with a reader, and what it keeps in its checkpoint."""

    def __init__(self, options: SourceOptions) -> None:
        self.options = options
        self.time = 0.0
        self.sleeps = 0
        self.committed: Json | None = None
        self.batches: list[list[OffsetRange]] = []
        self.restart()

    def restart(self, **changes: Any) -> None:
        """A new process: only the checkpoint survives."""
        self.options = replace(self.options, **changes)
        self.planner = StreamPlanner(
            self.options, Survey(self.options), clock=lambda: self.time, sleep=self._sleep
        )

    def _sleep(self, seconds: float) -> None:
        self.sleeps += 1
        self.time += seconds

    def trigger(self, *, limited: bool = True, crash: bool = False) -> bool:
        """One trigger; whether a batch was run. With `crash` its end is stored, but not run."""
        start = self.committed if self.committed is not None else self.planner.initial()
        end = through_json(self.planner.next_end(through_json(start), limited=limited))
        if self.committed is not None and json.dumps(end) == json.dumps(self.committed):
            return False
        self.planned = end
        if crash:
            return True
        self.run()
        return True

    def run(self) -> None:
        """Run the batch whose end is stored."""
        start = self.committed if self.committed is not None else self.planner.initial()
        self.batches.append(self.planner.ranges(through_json(start), through_json(self.planned)))
        self.committed = self.planned

    @property
    def read(self) -> list[tuple[int, int, int]]:
        """Partition, start and end of everything read so far."""
        return [(r.partition.partition, r.start, r.end) for ranges in self.batches for r in ranges]


def through_json(offset: Json) -> Json:
    """The offset as Spark hands it back."""
    return json.loads(json.dumps(offset))


def fill_as_read(fake: FakeCluster) -> None:
    """Append the ten records that a query has read which is `started`."""
    fill(fake, 8)
    fake.partition("t").elect(1)
    fill(fake, 2)


def started(fake: FakeCluster, options: Any, **given: str) -> Query:
    """A query that has read ten records of partition 0, the last two of them in epoch 1."""
    fill_as_read(fake)
    query = Query(options(startingOffsets="earliest", **given))
    query.trigger()
    assert query.read == [(0, 0, 10)]
    return query
