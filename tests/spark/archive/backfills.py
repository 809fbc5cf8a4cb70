"""Fake topics with an archive beside them, and a model of what both together have."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fencepost.arrow.archive.state import read_state
from fencepost.batch.header import read_header
from fencepost.batch.records import read_records
from fencepost.client.metadata import TopicPartition

from ...client.fake_cluster import FakeCluster, FakePartition
from ...client.records import batch
from .worlds import NOW_MS, World, archive_written, write_as_tasks

Rows = dict[int, bytes]
"""Values by offsets."""


class Backfill(World):
    """The topic t of fake brokers and its archive. `truth` has, by partition, every record of the
    log as it is now, deleted ones among them; `archived` what the archive has read."""

    def __init__(self, fake: FakeCluster, directory: Path, seed: int, partitions: int = 2) -> None:
        self.fake = fake
        self.random = random.Random(seed)
        fake.create_topic("t", partitions)
        super().__init__(directory, "t", str(fake.topics["t"].topic_id))
        self.truth: list[Rows] = [{} for _ in range(partitions)]
        self.archived: list[Rows] = [{} for _ in range(partitions)]
        self.ranges: list[list[tuple[int, int]]] = [[] for _ in range(partitions)]
        self.epochs: dict[int, int] = {}
        self.number = 0

    @property
    def logs(self) -> list[FakePartition]:
        return self.fake.topics["t"].partitions

    # -- what happens ----------------------------------------------------------------------------

    def produce(self, partition: int, count: int) -> None:
        """Batches of one to three records, and gaps as markers leave them."""
        log = self.logs[partition]
        left = count
        while left > 0:
            size = min(left, self.random.randint(1, 3))
            values = [b"%d" % (self.number + at) for at in range(size)]
            self.number += size
            left -= size
            days = self.random.choice([0, 0, 0, 1])
            start = log.end_offset
            log.append(batch(*values, timestamp_ms=NOW_MS - days * 86_400_000 + start))
            self.truth[partition].update({start + at: value for at, value in enumerate(values)})

    def archive_run(self, *, skip_losses: bool = False) -> None:
        """What `fencepost archive run` does: from where it stopped to the ends; it stops at loss,
        unless told to go on behind it."""
        spans: dict[int, tuple[int, int]] = {}
        begins: dict[int, int] = {}
        for number, log in enumerate(self.logs):
            last = self.ranges[number][-1][1] if self.ranges[number] else log.start_offset
            if number in self.epochs and log.end_of_epoch(self.epochs[number])[1] < last:
                return  # rewritten: such an archive is not gone on with
            start = max(last, log.start_offset)
            if self.ranges[number] and start > last:
                if not skip_losses:
                    return
                begins[number] = start
            if not self.ranges[number]:
                begins[number] = start
            spans[number] = (start, log.end_offset)
        rows = [row for number, span in spans.items() for row in self._rows_of(number, *span)]
        known = {number: end for number, (_, end) in spans.items()}
        at = self.next_batch
        self.epochs = {number: self.logs[number].epoch for number in spans}
        self.plan(at, known, begins)
        write = write_as_tasks(self.layout.storage, "t", rows)
        assert archive_written(self.layout, at, write) is not None
        for number, (start, end) in spans.items():
            if start < end:
                self.archived[number].update(
                    {o: v for o, v in self.truth[number].items() if start <= o < end}
                )
                ranges = self.ranges[number]
                if ranges and ranges[-1][1] == start:
                    ranges[-1] = (ranges[-1][0], end)
                else:
                    ranges.append((start, end))
        state = read_state(self.layout)
        found = {n: list(r) for n, r in state.incarnations[-1].partitions.items() if r}
        assert found == {n: r for n, r in enumerate(self.ranges) if r}

    def plan(self, batch: int, ends: dict[int, int], begins: Any = None) -> None:
        super().plan(batch, ends, begins)
        path = self.checkpoint / "offsets" / str(batch)
        head = path.read_text().split("\n")
        line = json.loads(head[2])
        line["#fencepost"]["t"]["epochs"] = {str(n): e for n, e in self.epochs.items()}
        path.write_text("\n".join([*head[:2], json.dumps(line)]))

    def _rows_of(self, number: int, start: int, end: int) -> Iterator[dict[str, Any]]:
        for data in self.logs[number].batches:
            for one in read_records(data):
                if start <= one.offset < end:
                    yield {
                        "key": one.key,
                        "value": bytes(one.value or b""),
                        "headers": None,
                        "partition": number,
                        "offset": one.offset,
                        "timestamp": datetime.fromtimestamp(one.timestamp_ms / 1000, UTC),
                        "timestampType": 0,
                    }

    def delete(self, partition: int, share: float) -> None:
        """Retention, at a batch's beginning, as brokers do it by segments."""
        log = self.logs[partition]
        edges = [read_header(data).base_offset for data in log.batches] + [log.end_offset]
        log.delete_before(edges[int(share * (len(edges) - 1))])

    def elect_unclean(self, partition: int, share: float) -> None:
        """A leader that lacks the last records; others come behind."""
        log = self.logs[partition]
        edges = [read_header(data).base_offset for data in log.batches] + [log.end_offset]
        cut = edges[int(share * (len(edges) - 1))]
        log.elect(self.random.choice([1, 2]), cut_to=cut)
        self.truth[partition] = {o: v for o, v in self.truth[partition].items() if o < cut}

    def elect(self, partition: int) -> None:
        self.logs[partition].elect(self.random.choice([1, 2]))

    def add_partition(self) -> None:
        self.logs.append(FakePartition(1))
        self.truth.append({})
        self.archived.append({})
        self.ranges.append([])

    def step(self, *, unclean: bool = True) -> None:
        """Something, as the seed has it."""
        where = self.random.randrange(len(self.logs))
        what = self.random.choices(
            ["produce", "archive", "skip", "delete", "elect", "unclean", "add"],
            [8, 4, 1, 3, 1, 1 if unclean else 0, 0.3 if len(self.logs) < 4 else 0],
        )[0]
        if what == "produce":
            self.produce(where, self.random.randint(1, 8))
        elif what in ("archive", "skip"):
            self.archive_run(skip_losses=what == "skip")
        elif what == "delete":
            self.delete(where, self.random.random())
        elif what == "elect":
            self.elect(where)
        elif what == "unclean":
            self.elect_unclean(where, self.random.random())
        else:
            self.add_partition()

    # -- what there is ---------------------------------------------------------------------------

    def available(self, partition: int) -> Rows:
        """What a read must find: the log's records, and of deleted ones those that the archive has
        of the same history."""
        log, kept = self.logs[partition], self.archived[partition]
        return {
            offset: value
            for offset, value in self.truth[partition].items()
            if offset >= log.start_offset or kept.get(offset) == value
        }

    def holes(self, partition: int) -> list[int]:
        """Offsets that neither has, behind the first that one of them has."""
        log = self.logs[partition]
        there = {o for low, high in self.ranges[partition] for o in range(low, high)}
        if partition in self.epochs:
            end = log.end_of_epoch(self.epochs[partition])[1]
            there = {o for o in there if o < end}
        first = min([*there, log.start_offset])
        return [o for o in range(first, log.start_offset) if o not in there]


P = [TopicPartition("t", number) for number in range(5)]
