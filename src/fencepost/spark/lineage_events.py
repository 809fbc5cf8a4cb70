"""Events of OpenLineage about runs that read and write topics.

A topic is a dataset as OpenLineage names those of Kafka: namespace `kafka://HOST:PORT` (the first
bootstrap server), name the topic. How many rows were read or written is in OpenLineage's own
facets; which offsets were read is in one of ours, `fencepost_offsets` (OFFSETS_SCHEMA).
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import attr
from openlineage.client import OpenLineageClient
from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState
from openlineage.client.facet_v2 import (
    InputDatasetFacet,
    error_message_run,
    input_statistics_input_dataset,
    job_type_job,
    output_statistics_output_dataset,
    processing_engine_run,
)

log = logging.getLogger("fencepost.spark.lineage")

PRODUCER: Final = "urn:fencepost:spark"
OFFSETS_SCHEMA_ID: Final = "urn:fencepost:openlineage:1-0-0:OffsetsInputDatasetFacet"
OFFSETS_SCHEMA: Final[Mapping[str, Any]] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "$id": OFFSETS_SCHEMA_ID,
    "type": "object",
    "required": ["_producer", "_schemaURL", "partitions"],
    "properties": {
        "_producer": {"type": "string", "format": "uri"},
        "_schemaURL": {"type": "string", "format": "uri"},
        "partitions": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["partition", "endOffset"],
                "properties": {
                    "partition": {"type": "integer", "minimum": 0},
                    "startOffset": {"type": "integer"},
                    "endOffset": {"type": "integer"},
                },
            },
        },
    },
}
"""Offsets of a topic that a run read: from startOffset (left out where it is not known) up to, not
with, endOffset."""
WAITING_MAX: Final = 1000
MESSAGE_CHARACTERS_MAX: Final = 10_000


class Range(NamedTuple):
    """Offsets from `start` (None: not known) up to, not with, `end`."""

    start: int | None
    end: int


@attr.define
class OffsetsFacet(InputDatasetFacet):
    """The facet `fencepost_offsets`."""

    partitions: list[dict[str, int | None]] = attr.field(factory=list)

    @staticmethod
    def _get_schema() -> str:
        return OFFSETS_SCHEMA_ID


@dataclass(slots=True)
class TopicRead:
    """What a run read of a topic; `rows` is None where it is not known."""

    ranges: dict[int, Range] = field(default_factory=dict)
    rows: int | None = None


@dataclass(frozen=True)
class RunIdentity:
    """Which run of which job an event is about; `is_stream` if the job has no end of its own."""

    run_id: str
    namespace: str
    job: str
    servers: str
    spark_version: str
    is_stream: bool

    @property
    def topics_namespace(self) -> str:
        """Namespace of the topics."""
        first = self.servers.split(",")[0].strip()
        return f"kafka://{first.rpartition('://')[2]}"


def event(
    run: RunIdentity,
    state: RunState,
    reads: Mapping[str, TopicRead],
    writes: Mapping[str, int | None],
    error: str | None = None,
) -> RunEvent:
    """An event of now. `writes` has rows by topic, None where that is not known."""
    facets: dict[str, Any] = {
        "processing_engine": processing_engine_run.ProcessingEngineRunFacet(
            version=run.spark_version, name="spark", producer=PRODUCER
        )
    }
    if error is not None:
        facets["errorMessage"] = error_message_run.ErrorMessageRunFacet(
            message=error[:MESSAGE_CHARACTERS_MAX], programmingLanguage="PYTHON", producer=PRODUCER
        )
    kind = job_type_job.JobTypeJobFacet(
        processingType="STREAMING" if run.is_stream else "BATCH",
        integration="FENCEPOST",
        jobType="QUERY",
        producer=PRODUCER,
    )
    return RunEvent(
        eventTime=datetime.now(UTC).isoformat(),
        eventType=state,
        producer=PRODUCER,
        run=Run(run.run_id, facets),
        job=Job(run.namespace, run.job, {"jobType": kind}),
        inputs=[_input(run, topic, one) for topic, one in sorted(reads.items())],
        outputs=[_output(run, topic, rows) for topic, rows in sorted(writes.items())],
    )


def _input(run: RunIdentity, topic: str, read: TopicRead) -> InputDataset:
    facets: dict[str, InputDatasetFacet] = {}
    if read.rows is not None:
        facets["inputStatistics"] = input_statistics_input_dataset.InputStatisticsInputDatasetFacet(
            rowCount=read.rows, producer=PRODUCER
        )
    if read.ranges:
        facets["fencepost_offsets"] = OffsetsFacet(
            producer=PRODUCER,
            partitions=[
                {"partition": partition, "startOffset": one.start, "endOffset": one.end}
                for partition, one in sorted(read.ranges.items())
            ],
        )
    return InputDataset(run.topics_namespace, topic, facets)


def _output(run: RunIdentity, topic: str, rows: int | None) -> OutputDataset:
    if rows is None:
        return OutputDataset(run.topics_namespace, topic)
    found = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(
        rowCount=rows, producer=PRODUCER
    )
    return OutputDataset(run.topics_namespace, topic, {"outputStatistics": found})


class Sender:
    """Sends events in a thread, in order: a receiver that does not answer holds up no query.

    At most WAITING_MAX events wait. Of more, events of batches are dropped first, then the oldest,
    so the newest starts and ends of runs are kept. `dropped` counts these, `failed` those that the
    client could not send. Each kind of trouble is logged when it begins, and with its count when it
    ends.
    """

    def __init__(self, client: OpenLineageClient | None = None) -> None:
        """Without a client, one that is configured as OpenLineage's own: OPENLINEAGE_URL,
        OPENLINEAGE_CONFIG, openlineage.yml; without any of them it writes to its log."""
        self._client = OpenLineageClient() if client is None else client
        self._waiting: deque[RunEvent] = deque()
        self._changed = threading.Condition()
        self._is_closing = False
        self.dropped = 0
        self.failed = 0
        self._dropped_before = 0
        self._failed_before = 0
        self._thread = threading.Thread(target=self._run, name="fencepost-lineage", daemon=True)
        self._thread.start()

    def send(self, one: RunEvent) -> None:
        """Send it soon."""
        with self._changed:
            if len(self._waiting) >= WAITING_MAX:
                self._drop_for(one)
            else:
                self._waiting.append(one)
            self._changed.notify()

    def _drop_for(self, one: RunEvent) -> None:
        """Drop this event, or another one in its place."""
        if self.dropped == self._dropped_before:
            log.warning("%d events wait for their receiver: more are dropped", WAITING_MAX)
        self.dropped += 1
        if _is_of_batch(one):
            return
        of_batches = (n for n, other in enumerate(self._waiting) if _is_of_batch(other))
        del self._waiting[next(of_batches, 0)]
        self._waiting.append(one)

    def close(self, timeout_s: float | None = None) -> bool:
        """Send what waits, and end the thread; whether it has, within `timeout_s`."""
        with self._changed:
            self._is_closing = True
            self._changed.notify()
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while (one := self._next()) is not None:
            try:
                self._client.emit(one)
            except Exception as error:  # noqa: BLE001 - of any transport, and no query's business
                if self.failed == self._failed_before:
                    log.warning("an event of run %s was not sent: %r", one.run.runId, error)
                self.failed += 1
            else:
                self._tell_failed()
        self._tell_failed()

    def _next(self) -> RunEvent | None:
        """The event that waits longest; None when the sender closes."""
        with self._changed:
            if not self._waiting and self.dropped > self._dropped_before:
                log.warning("%d events were dropped", self.dropped - self._dropped_before)
                self._dropped_before = self.dropped
            while not self._waiting and not self._is_closing:
                self._changed.wait()
            return self._waiting.popleft() if self._waiting else None

    def _tell_failed(self) -> None:
        if self.failed > self._failed_before + 1:
            log.warning("%d events were not sent", self.failed - self._failed_before)
        self._failed_before = self.failed


def _is_of_batch(one: RunEvent) -> bool:
    return one.eventType == RunState.RUNNING


def merged(earlier: TopicRead | None, later: TopicRead) -> TopicRead:
    """What was read of a topic in two batches, one after the other."""
    if earlier is None:
        return TopicRead(dict(later.ranges), later.rows)
    ranges = dict(earlier.ranges)
    for partition, one in later.ranges.items():
        before = ranges.get(partition)
        ranges[partition] = one if before is None else Range(before.start, one.end)
    rows = None if None in (earlier.rows, later.rows) else (earlier.rows or 0) + (later.rows or 0)
    return TopicRead(ranges, rows)


def without_rows(topics: Iterable[str]) -> dict[str, int | None]:
    """Topics of which it is not known how much was written."""
    return dict.fromkeys(topics)
