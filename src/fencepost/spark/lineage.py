"""Lineage: `LineageListener` for streaming queries, `LineageRun` for batch jobs.

    from fencepost.spark.lineage import LineageListener

    listener = LineageListener(servers, outputs={"copy": ["orders-copied"]})
    spark.streams.addListener(listener)

Each run of a query gets a START, a RUNNING for every batch that read something, and a COMPLETE or a
FAIL, as OpenLineage wants them (`lineage_events`). Needs the extra `lineage`.
"""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, Final, Self

from openlineage.client import OpenLineageClient
from openlineage.client.event_v2 import RunState
from pyspark.sql.streaming.listener import StreamingQueryListener
from pyspark.version import __version__ as spark_version

from fencepost.spark.lineage_events import (
    Range,
    RunIdentity,
    Sender,
    TopicRead,
    event,
    merged,
    without_rows,
)
from fencepost.spark.progress import Progress, read_progress

log = logging.getLogger("fencepost.spark.lineage")

NAMESPACE: Final = "default"
RUNS_MAX: Final = 1000


class LineageListener(StreamingQueryListener):
    """See the module. `servers` are the bootstrap servers of the cluster, for the names of topics;
    `outputs` are topics that queries write, by a query's name: Spark does not tell. `client` is a
    client of OpenLineage; without it the environment says where events go. `close` sends what
    waits."""

    def __init__(
        self,
        servers: str,
        *,
        namespace: str = NAMESPACE,
        outputs: Mapping[str, Iterable[str]] | None = None,
        client: OpenLineageClient | None = None,
    ) -> None:
        self._servers, self._namespace = servers, namespace
        self._outputs = {name: tuple(topics) for name, topics in (outputs or {}).items()}
        self._sender = Sender(client)
        self._runs: dict[str, tuple[RunIdentity, dict[str, TopicRead], dict[str, int | None]]] = {}

    # -- Spark's calls ---------------------------------------------------------------------------

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        """A run begins."""
        self._begin(str(event.runId), str(event.name or event.id))

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        """A batch is done."""
        try:
            document = json.loads(event.progress.json)
            progress = read_progress(document)
            run_id = str(document["runId"])
        except (KeyError, TypeError, ValueError) as error:
            log.warning("a progress report cannot be read: %r", error)
            return
        if run_id not in self._runs:  # begun before the listener was there
            self._begin(run_id, progress.query)
        run, reads, writes = self._runs[run_id]
        batch = topics_read(progress)
        rows = progress.rows_written
        if rows is not None and len(writes) == 1:
            (topic,) = writes
            writes[topic] = (writes[topic] or 0) + rows
        if not batch:
            return
        for topic, one in batch.items():
            reads[topic] = merged(reads.get(topic), one)
        written: dict[str, int | None] = dict.fromkeys(writes, rows if len(writes) == 1 else None)
        self._sender.send(_event(run, RunState.RUNNING, batch, written))

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """There was nothing to read."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """A run ends, with everything that it read."""
        found = self._runs.pop(str(event.runId), None)
        if found is None:
            return
        run, reads, writes = found
        error = None if event.exception is None else str(event.exception)
        state = RunState.COMPLETE if error is None else RunState.FAIL
        self._sender.send(_event(run, state, reads, writes, error))

    @property
    def dropped(self) -> int:
        """How many events were given up because too many waited."""
        return self._sender.dropped

    @property
    def failed(self) -> int:
        """How many events the client could not send."""
        return self._sender.failed

    def close(self, timeout_s: float | None = None) -> bool:
        """Send what waits; whether all was sent within `timeout_s` (None: as long as it takes)."""
        return self._sender.close(timeout_s)

    def _begin(self, run_id: str, job: str) -> None:
        run = RunIdentity(run_id, self._namespace, job, self._servers, spark_version, True)
        writes = without_rows(self._outputs.get(job, ()))
        self._runs[run_id] = run, {}, writes
        while len(self._runs) > RUNS_MAX:
            del self._runs[next(iter(self._runs))]
        self._sender.send(_event(run, RunState.START, {}, writes))


_event = event  # Spark names the argument of its calls like this function


def topics_read(progress: Progress) -> dict[str, TopicRead]:
    """What a batch read, by topic: those with new offsets. How many rows is known where a source
    has one topic."""
    found: dict[str, TopicRead] = {}
    for source, (end, _) in progress.sources.items():
        start = progress.starts.get(source)
        topics: dict[str, dict[int, Range]] = {}
        for where, position in end.positions.items():
            before = None if start is None else start.positions.get(where)
            first = None if before is None else before.offset
            if first != position.offset:
                topics.setdefault(where.topic, {})[where.partition] = Range(first, position.offset)
        all_topics = {where.topic for where in end.positions}
        for topic, ranges in topics.items():
            rows = progress.rows.get(source) if len(all_topics) == 1 else None
            found[topic] = merged(found.get(topic), TopicRead(ranges, rows))
    return found


class LineageRun:
    """A batch job: START when the block begins, COMPLETE or FAIL when it ends.

        with LineageRun("nightly", servers, reads=["orders"], writes=["sums"]) as run:
            count = copy()
            run.wrote("sums", count)

    `run_id` is its id, a UUID. Spark tells a program in Python neither which offsets a batch query
    read nor how many rows it wrote: what is known of it has to be said, by `read` and `wrote`.
    """

    def __init__(
        self,
        job: str,
        servers: str,
        *,
        reads: Iterable[str] = (),
        writes: Iterable[str] = (),
        namespace: str = NAMESPACE,
        client: OpenLineageClient | None = None,
    ) -> None:
        self.run_id: Final = str(uuid.uuid4())
        self._run = RunIdentity(self.run_id, namespace, job, servers, spark_version, False)
        self._reads = {topic: TopicRead() for topic in reads}
        self._writes = without_rows(writes)
        self._sender = Sender(client)

    def read(
        self,
        topic: str,
        rows: int | None = None,
        offsets: Mapping[int, tuple[int | None, int]] | None = None,
    ) -> None:
        """How many rows of a topic were read, and which offsets: by partition from where, and up
        to where."""
        ranges = {partition: Range(*one) for partition, one in (offsets or {}).items()}
        self._reads[topic] = TopicRead(ranges, rows)

    def wrote(self, topic: str, rows: int | None = None) -> None:
        """How many rows were written to a topic."""
        self._writes[topic] = rows

    def __enter__(self) -> Self:
        self._sender.send(_event(self._run, RunState.START, self._reads, self._writes))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        state = RunState.COMPLETE if error is None else RunState.FAIL
        told = None if error is None else f"{type(error).__name__}: {error}"
        self._sender.send(_event(self._run, state, self._reads, self._writes, told))
        self._sender.close()
