"""Writing: `df.write.format("fencepost")` and `df.writeStream.format("fencepost")`.

Columns, as for Spark's Kafka sink: `value` (string or binary, required), `key`, `headers`, `topic`
and `partition`, and with `keepTimestamps=true` also `timestamp`; others are left alone. The option
`topic` beats the column. Rows go to the partition they name, else by the hash of their key as with
Kafka's own clients, else a batch at a time to one partition after the other.

Tasks turn Arrow batches into record batches (`write_task`) and send them idempotently with
acks=all; a task succeeds when every batch is acknowledged. Delivery is at least once by default:
what a failed attempt had written stays, and Spark writes it again. With
`deliveryGuarantee=exactly-once` tasks write in transactions that they leave open, and the driver
ends them (`exactly_once`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    StringType,
    StructType,
    TimestampType,
)

from fencepost.arrow.connections import cluster_for, drop, producer_for
from fencepost.client.cluster import Cluster
from fencepost.spark.collector import freeze_loaded
from fencepost.spark.errors import OptionError, SinkError, cluster_errors
from fencepost.spark.exactly_once import SinkDriver
from fencepost.spark.grants import Grant, TaskResult
from fencepost.spark.options import ExactlyOnce, SinkOptions
from fencepost.spark.query_checkpoint import planned_since_ms
from fencepost.spark.sink_names import (
    name_of_checkpoint,
    name_of_key,
    name_of_query,
    name_of_write,
)
from fencepost.spark.sinks import finish_unnamed
from fencepost.spark.task_transaction import Attempt, TaskTransaction, is_decided
from fencepost.spark.write_task import OnSent, WriteTask

log = logging.getLogger("fencepost.spark")

OPENED_MAX = 1_000
# Sinks of which this process has begun a batch: that one may have been begun before, by a run that
# was killed; those after it are new.
_opened: set[str] = set()


@dataclass
class WrittenMessage(WriterCommitMessage):
    """What a task wrote: records by topic, and the transaction that they are in, if any."""

    records: dict[str, int] = field(default_factory=dict)
    result: TaskResult | None = None


def check_schema(schema: StructType, topic: str | None, *, keep_timestamps: bool = False) -> None:
    """Raise SinkError unless rows of `schema` can be written."""
    columns = {one.name: one.dataType for one in schema.fields}
    if "value" not in columns:
        there = ", ".join(columns) or "none"
        raise SinkError(f"a column 'value' is required; there are {there}", column="value")
    if topic is None and "topic" not in columns:
        raise SinkError("the option 'topic' or a column 'topic' is required", column="topic")
    for name in ("key", "value"):
        _require(columns, name, (StringType, BinaryType), "string or binary")
    _require(columns, "topic", (StringType,), "string")
    _require(columns, "partition", (IntegerType,), "int")
    if keep_timestamps:
        if "timestamp" not in columns:
            raise SinkError("keepTimestamps=true needs a column 'timestamp'", column="timestamp")
        _require(columns, "timestamp", (TimestampType,), "timestamp")
    headers = columns.get("headers")
    if headers is not None and not _are_headers(headers):
        raise SinkError(
            "column 'headers' must be array<struct<key:string,value:binary>>, "
            f"not {headers.simpleString()}",
            column="headers",
            type=headers.simpleString(),
        )


def _require(
    columns: dict[str, DataType], name: str, kinds: tuple[type[DataType], ...], text: str
) -> None:
    if name in columns and not isinstance(columns[name], kinds):
        found = columns[name].simpleString()
        raise SinkError(f"column {name!r} must be {text}, not {found}", column=name, type=found)


def _are_headers(kind: DataType) -> bool:
    if not isinstance(kind, ArrayType) or not isinstance(kind.elementType, StructType):
        return False
    fields = [(one.name, type(one.dataType)) for one in kind.elementType.fields]
    return fields == [("key", StringType), ("value", BinaryType)]


def write_rows(options: SinkOptions, batches: Iterator[pa.RecordBatch]) -> WrittenMessage:
    """A task's work: send all rows, return when all are acknowledged."""
    producer = producer_for(options.client)
    try:
        task = WriteTask(options, producer.cluster, producer)
        for batch in batches:
            task.write(batch)
        task.finish()
        producer.flush()
    except BaseException:
        drop(options.client)
        raise
    return WrittenMessage(task.records)


def write_in_transaction(
    options: SinkOptions,
    grant: Grant,
    attempt: Attempt,
    batches: Iterator[pa.RecordBatch],
    cluster: Cluster | None = None,
    on_sent: OnSent | None = None,
) -> WrittenMessage:
    """A task's work, exactly once: send all rows in a transaction and leave it open."""
    transaction = TaskTransaction(cluster or cluster_for(options.client), grant, attempt)
    if is_decided(grant, attempt):
        for _ in batches:
            pass  # written before; Spark wants them taken
        return WrittenMessage({}, transaction.leave_open(()))
    task: WriteTask | None = None
    try:
        for batch in batches:
            if batch.num_rows:
                task = task or WriteTask(
                    options, transaction.cluster, transaction.producer(), on_sent
                )
                task.write(batch)
        if task is not None:
            task.finish()
        records = task.records if task is not None else {}
        return WrittenMessage(records, transaction.leave_open(tuple(sorted(records))))
    except Exception:
        transaction.abort()
        if cluster is None:
            drop(options.client)
        raise


class _Writer:
    """What writers of batches and of streams have in common."""

    is_streaming: ClassVar[bool]

    def __init__(self, options: SinkOptions) -> None:
        self.options = options
        self.grant: Grant | None = None

    def __getstate__(self) -> dict[str, Any]:
        """What travels to tasks. Spark makes writers for planning and for committing alike, but
        ships only those of planning: so this is where a batch of the exactly-once sink begins."""
        if self.options.exactly_once is not None and self.grant is None:
            with cluster_errors():
                self.grant = self._open(self.options.exactly_once)
        return self.__dict__

    def _open(self, wanted: ExactlyOnce) -> Grant:
        if wanted.name is None and not self.is_streaming and wanted.write is None:
            finish_unnamed(cluster_for(self.options.client))
        driver = self._driver(self._sink_name(wanted))
        since_ms = None
        if self.is_streaming and wanted.checkpoint is not None and not wanted.writes_forgotten:
            is_first = driver.sink not in _opened
            since_ms = planned_since_ms(wanted.checkpoint) if is_first else None
        grant = driver.open(since_ms)
        if len(_opened) >= OPENED_MAX:
            _opened.clear()
        _opened.add(driver.sink)
        return grant

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """A task's rows."""
        freeze_loaded()
        with cluster_errors():
            if self.grant is None:
                return write_rows(self.options, iterator)
            attempt = Attempt.running(self.options, streaming=self.is_streaming)
            return write_in_transaction(self.options, self.grant, attempt, iterator)

    def _commit(self, messages: list[WriterCommitMessage | None]) -> None:
        written = _written(messages)
        results = [one.result for one in written if one.result is not None]
        if results:
            with cluster_errors():
                self._driver(results[0].mandate.sink).commit(results, results[0].batch)
        log.debug("%d records were written by %d tasks", _total(written), len(messages))

    def _abort(self, messages: list[WriterCommitMessage | None]) -> None:
        written = _written(messages)
        results = [one.result for one in written if one.result is not None]
        if self.options.exactly_once is None:
            log.warning(
                "the write failed; %d records of tasks that had succeeded stay in the log,"
                " and a retry writes them again",
                _total(written),
            )
        known = results[0] if results else self.grant
        if known is not None:
            with cluster_errors():
                self._driver(known.mandate.sink).abort(results, self.grant)

    def _driver(self, sink: str) -> SinkDriver:
        wanted = self.options.exactly_once
        assert wanted is not None
        return SinkDriver(cluster_for(self.options.client), sink, wanted.timeout_ms)

    def _sink_name(self, wanted: ExactlyOnce) -> str:
        topic = self.options.topic
        if wanted.name is not None:
            return wanted.name
        if wanted.write is not None:
            return name_of_key(wanted.write.app_id, topic)
        if not self.is_streaming:
            name = name_of_write(topic)
            log.info("this write has transactionalIdPrefix %s", name)
            return name
        if wanted.checkpoint is not None:
            cluster = cluster_for(self.options.client)
            return name_of_checkpoint(cluster, wanted.checkpoint, wanted.query_name, topic)
        if wanted.query_name:
            return name_of_query(wanted.query_name, topic)
        raise SinkError(
            "exactly-once needs a name that stays: the option transactionalIdPrefix, or "
            "checkpointLocation as an option of the query, or with "
            "spark.sql.streaming.checkpointLocation a queryName",
            option="transactionalIdPrefix",
        )


class BatchWriter(_Writer, DataSourceArrowWriter):
    """Writes a DataFrame."""

    is_streaming = False

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """At least once, everything is acknowledged already."""
        self._commit(messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Take back what is in transactions; other records cannot be."""
        self._abort(messages)


class StreamWriter(_Writer, DataSourceStreamArrowWriter):
    """Writes micro-batches."""

    is_streaming = True

    def __init__(self, options: SinkOptions) -> None:
        super().__init__(options)
        if options.exactly_once is not None and options.exactly_once.write is not None:
            raise OptionError(
                "txnAppId",
                options.exactly_once.write.app_id,
                "is for batch writes; a stream's batches are known by the query's id",
            )

    def commit(
        self,
        messages: list[WriterCommitMessage | None],
        batchId: int,  # noqa: N803
    ) -> None:
        """At least once, everything is acknowledged already."""
        self._commit(messages)

    def abort(
        self,
        messages: list[WriterCommitMessage | None],
        batchId: int,  # noqa: N803
    ) -> None:
        """Take back what is in transactions; other records cannot be."""
        self._abort(messages)


def _written(messages: list[WriterCommitMessage | None]) -> list[WrittenMessage]:
    return [message for message in messages if isinstance(message, WrittenMessage)]


def _total(messages: list[WrittenMessage]) -> int:
    return sum(sum(message.records.values()) for message in messages)
