"""Spark's part in the exactly-once sink as plain objects, and processes that die at any request.

A `Fuse` counts the requests of everything that shares it and kills at one of them, before it is
sent or after it was carried out and before it is answered. What is killed sends nothing any more,
so no clean-up runs that a kill would not let run.
"""

from __future__ import annotations

import contextlib
import pickle
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from fencepost.client.admin import Admin
from fencepost.client.cluster import Cluster
from fencepost.client.config import ClientConfig
from fencepost.client.connection import Connection
from fencepost.client.conversation import Where
from fencepost.client.fetcher import Fetcher
from fencepost.client.metadata import TopicPartition
from fencepost.client.offsets import LATEST, list_offsets
from fencepost.client.open_transactions import OpenTransaction
from fencepost.client.protocol.versions import FinalizedFeatures
from fencepost.spark import exactly_once
from fencepost.spark.exactly_once import SinkDriver
from fencepost.spark.grants import Grant, TaskResult
from fencepost.spark.options import ExactlyOnce, SinkOptions
from fencepost.spark.task_transaction import Attempt
from fencepost.spark.writer import write_in_transaction

from ..waiting import eventually

QUERY = "7d3e9c1a-query"


class KilledError(BaseException):
    """The process is gone."""


@dataclass
class Fuse:
    """Kills at request number `at` (from 0), of those called `named` if that is given, or never;
    `after`: when it was carried out."""

    at: int | None = None
    after: bool = False
    count: int = 0
    is_blown: bool = False
    seen: list[str] = field(default_factory=list)
    at_gate: Callable[[int], None] | None = None
    named: str = ""

    def before(self, name: str) -> bool:
        """Whether to kill when the request has been carried out."""
        if self.is_blown:
            raise KilledError
        number, self.count = self.count, self.count + 1
        self.seen.append(name)
        if self.at_gate is not None:
            self.at_gate(number)
        if self.named:
            number = self.seen.count(self.named) - 1
        if number != self.at or self.named not in ("", name):
            return False
        self.is_blown = True
        if not self.after:
            raise KilledError
        return True


class FusedConnection(Connection):
    fuse: Fuse | None = None

    def send(self, message: Any, version: Any = None, **options: Any) -> Any:
        if self.fuse is None:
            return super().send(message, version, **options)
        is_last = self.fuse.before(type(message).__name__.removesuffix("Request"))
        token = super().send(message, version, **options)
        if is_last:
            self.receive(token)
            raise KilledError
        return token


class OldFeatures(FinalizedFeatures):
    def level(self, name: str) -> int:
        return 0


class FusedCluster(Cluster):
    def __init__(self, config: ClientConfig, fuse: Fuse, *, is_tv2: bool) -> None:
        super().__init__(config=config)
        self.fuse = fuse
        if not is_tv2:
            self.finalized_features = OldFeatures()

    def _connect(self, where: Where) -> Connection:
        known = self.open_connection(where)
        if known is not None:
            return known
        made = FusedConnection.configured(self.config, where.host, where.port)
        made.fuse = self.fuse
        return self.keep_connection(where, made)


@dataclass
class World:
    """A topic, a query whose batches have known rows, and what its checkpoint says."""

    servers: str
    topic: str
    is_tv2: bool = True
    batches: int = 2
    tasks: int = 2
    next_batch: int = 0  # as the checkpoint's commit log has it
    attempts: int = 0
    sink: str = ""
    query: str = QUERY
    rows_of: bytes = b""
    """What begins all rows."""
    run: str = ""
    """The run of a query in whose foreachBatch all is written."""
    planned_since_ms: int | None = None
    wall_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000

    def __post_init__(self) -> None:
        self.sink = self.sink or f"sink-{self.topic}"
        self.config = ClientConfig(
            bootstrap_servers=self.servers,
            retry_backoff_ms=1,
            retry_backoff_max_ms=20,
            isolation_level="read_committed",
        )
        self.options = SinkOptions(self.config, self.topic, ExactlyOnce(self.sink, None))

    def cluster(self, fuse: Fuse | None = None) -> FusedCluster:
        return FusedCluster(self.config, fuse or Fuse(), is_tv2=self.is_tv2)

    def rows(self, batch: int, task: int) -> list[bytes]:
        return [b"%s%d/%d/%d" % (self.rows_of, batch, task, number) for number in range(3)]

    def expected(self, batches: int | None = None) -> list[bytes]:
        whole = range(self.batches if batches is None else batches)
        return sorted(row for b in whole for t in range(self.tasks) for row in self.rows(b, t))

    # -- what Spark does ---------------------------------------------------------------------------

    def new_process(self) -> None:
        """What a process kept in memory is gone."""
        exactly_once._given.clear()

    def open(self, cluster: Cluster) -> Grant:
        opened = self.driver(cluster).open(self.planned_since_ms)
        grant: Grant = pickle.loads(pickle.dumps(opened))
        return grant

    def driver(self, cluster: Cluster) -> SinkDriver:
        return SinkDriver(cluster, self.sink, wall_ms=self.wall_ms)

    def attempt(
        self, cluster: Cluster, grant: Grant, batch: int, task: int, *, first: bool = True
    ) -> TaskResult:
        """One attempt of a task, from its rows to its message."""
        self.attempts += 1
        tried = Attempt(self.query, batch, task, self.attempts, first, run=self.run)

        def batches() -> Iterator[pa.RecordBatch]:
            rows = self.rows(batch, task)
            yield pa.RecordBatch.from_pydict(
                {"key": pa.array(rows, pa.binary()), "value": pa.array(rows, pa.binary())}
            )

        message = write_in_transaction(self.options, grant, tried, batches(), cluster)
        assert message.result is not None
        result: TaskResult = pickle.loads(pickle.dumps(message.result))
        return result

    def written(self, cluster: Cluster, grant: Grant, batch: int) -> list[TaskResult]:
        return [self.attempt(cluster, grant, batch, task) for task in range(self.tasks)]

    def commit(self, cluster: Cluster, results: list[TaskResult], batch: int) -> None:
        self.driver(cluster).commit(results, batch)

    def live(self, fuse: Fuse | None = None) -> bool:
        """A run of the query from where its checkpoint is until all is done, or until it is
        killed; whether it came to the end."""
        self.new_process()
        cluster = self.cluster(fuse)
        try:
            while self.next_batch < self.batches:
                grant = self.open(cluster)
                results = self.written(cluster, grant, self.next_batch)
                self.commit(cluster, results, self.next_batch)
                self.next_batch += 1
        except KilledError:
            return False
        finally:
            cluster.close()
        return True

    def decided_only(self, at_first_end: Callable[[], None] | None = None) -> list[OpenTransaction]:
        """A batch whose driver died right after its decision; `at_first_end`: it does not, but
        that is called before it commits the first transaction of the tasks."""
        fuse = Fuse()
        ends = 0

        def stop(_: int) -> None:
            nonlocal ends
            ends += fuse.seen[-1] == "EndTxn"
            if ends == 2 and at_first_end is None:
                fuse.is_blown = True
                raise KilledError
            if ends == 2:
                ends += 1
                at_first_end()

        with self.cluster(fuse) as cluster:
            results = self.written(cluster, self.open(cluster), 0)
            fuse.at_gate = stop
            with contextlib.suppress(KilledError):
                self.commit(cluster, results, 0)
        assert fuse.is_blown is (at_first_end is None)
        return [one.transaction for one in results if one.transaction is not None]

    # -- what is there -----------------------------------------------------------------------------

    def committed(self) -> list[bytes]:
        """Every row that readers of committed data see, sorted."""
        with Cluster(config=self.config) as cluster:
            eventually(lambda: not self._listed(cluster, "PrepareCommit", "PrepareAbort"))
            partitions = [
                TopicPartition(self.topic, number)
                for number in cluster.topic(self.topic).partitions
            ]
            ends = list_offsets(cluster, dict.fromkeys(partitions, LATEST))
            return sorted(
                record.value or b""
                for partition in partitions
                for fetched in Fetcher(cluster).read_range(partition, 0, ends[partition].offset)
                for record in fetched.read_records(ends[partition].offset)
            )

    def still_open(self) -> list[str]:
        """Transactional ids of the sink that are in a transaction."""
        with Cluster(config=self.config) as cluster:
            return self._listed(cluster, "Ongoing")

    def _listed(self, cluster: Cluster, *states: str) -> list[str]:
        return [
            one.transactional_id
            for one in Admin(cluster).list_transactions(states=states)
            if one.transactional_id.startswith(self.sink)
        ]


class Gate:
    """Stops a thread at one of its requests until it is let through."""

    def __init__(self, at: int) -> None:
        self.at = at
        self.reached = threading.Event()
        self.opened = threading.Event()

    def __call__(self, number: int) -> None:
        if number == self.at:
            self.reached.set()
            self.opened.wait(60)
