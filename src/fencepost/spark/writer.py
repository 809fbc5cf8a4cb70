"""Writing: `df.write.format("fencepost")` and `df.writeStream.format("fencepost")`.

Columns, as for Spark's Kafka sink: `value` (string or binary, required), `key`, `headers`, `topic`
and `partition`; others are left alone. The option `topic` beats the column. Rows go to the
partition they name, else by the hash of their key as with Kafka's own clients, else a batch of rows
at a time to one partition after the other.

Tasks turn Arrow batches into record batches and send them idempotently with acks=all; a task
succeeds when every batch is acknowledged. Delivery is at least once by default: what a failed
attempt had written stays, and Spark writes it again. With `deliveryGuarantee=exactly-once` tasks
write in transactions that they leave open, and the driver ends them (`exactly_once`).
"""

from __future__ import annotations

import logging
import random
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
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
)

from fencepost.batch.columns import encode_columns, partition_columns
from fencepost.client.batch_producer import BatchProducer
from fencepost.client.cluster import Cluster
from fencepost.spark.connections import cluster_for, drop
from fencepost.spark.errors import NULL_TOPIC, SinkError
from fencepost.spark.exactly_once import Grant, SinkDriver, TaskResult
from fencepost.spark.options import SinkOptions
from fencepost.spark.sinks import finish_unnamed
from fencepost.spark.task_transaction import Attempt, TaskTransaction, is_decided

log = logging.getLogger("fencepost.spark")

# A batch header and the request around it, below the limit of what brokers take in one request.
REQUEST_OVERHEAD_BYTES = 16 * 1024


@dataclass
class WrittenMessage(WriterCommitMessage):
    """What a task wrote: records by topic, and the transaction that they are in, if any."""

    records: dict[str, int] = field(default_factory=dict)
    result: TaskResult | None = None


def check_schema(schema: StructType, topic: str | None) -> None:
    """Raise SinkError unless rows of `schema` can be written."""
    columns = {one.name: one.dataType for one in schema.fields}
    if "value" not in columns:
        raise SinkError(f"a column 'value' is required; there are {', '.join(columns) or 'none'}")
    if topic is None and "topic" not in columns:
        raise SinkError("the option 'topic' or a column 'topic' is required")
    for name in ("key", "value"):
        _require(columns, name, (StringType, BinaryType), "string or binary")
    _require(columns, "topic", (StringType,), "string")
    _require(columns, "partition", (IntegerType,), "int")
    headers = columns.get("headers")
    if headers is not None and not _are_headers(headers):
        raise SinkError(
            "column 'headers' must be array<struct<key:string,value:binary>>, "
            f"not {headers.simpleString()}"
        )


def _require(
    columns: dict[str, DataType], name: str, kinds: tuple[type[DataType], ...], text: str
) -> None:
    if name in columns and not isinstance(columns[name], kinds):
        raise SinkError(f"column {name!r} must be {text}, not {columns[name].simpleString()}")


def _are_headers(kind: DataType) -> bool:
    if not isinstance(kind, ArrayType) or not isinstance(kind.elementType, StructType):
        return False
    fields = [(one.name, type(one.dataType)) for one in kind.elementType.fields]
    return fields == [("key", StringType), ("value", BinaryType)]


def write_rows(options: SinkOptions, batches: Iterator[pa.RecordBatch]) -> WrittenMessage:
    """A task's work: send all rows, return when all are acknowledged."""
    cluster = cluster_for(options.client)
    try:
        with BatchProducer(cluster) as producer:
            task = _Task(options, cluster, producer)
            for batch in batches:
                if batch.num_rows:
                    task.write(batch)
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
) -> WrittenMessage:
    """A task's work, exactly once: send all rows in a transaction and leave it open."""
    transaction = TaskTransaction(cluster or cluster_for(options.client), grant, attempt)
    if is_decided(grant, attempt):
        for _ in batches:
            pass  # written before; Spark wants them taken
        return WrittenMessage({}, transaction.leave_open(()))
    task: _Task | None = None
    try:
        for batch in batches:
            if batch.num_rows:
                task = task or _Task(options, transaction.cluster, transaction.producer())
                task.write(batch)
        records = task.records if task is not None else {}
        return WrittenMessage(records, transaction.leave_open(tuple(sorted(records))))
    except Exception:
        transaction.abort()
        if cluster is None:
            drop(options.client)
        raise


class _Task:
    def __init__(self, options: SinkOptions, cluster: Cluster, producer: BatchProducer) -> None:
        self.options = options
        self.cluster = cluster
        self.producer = producer
        self.records: dict[str, int] = {}
        self._turns: dict[str, int] = {}  # the partition that rows without a key go to next

    def write(self, rows: pa.RecordBatch) -> None:
        """Send the rows, topic by topic."""
        if self.options.topic is not None:
            self._write_topic(self.options.topic, rows)
            return
        topics = rows.column("topic")
        if topics.null_count:
            raise SinkError(
                "a row has a null topic; set the option 'topic' or fill the column 'topic'",
                NULL_TOPIC,
            )
        for topic in pc.unique(topics).to_pylist():
            chosen = rows.filter(pc.equal(topics, topic))
            self._write_topic(topic, chosen)

    def _write_topic(self, topic: str, rows: pa.RecordBatch) -> None:
        client = self.options.client
        batch_bytes = min(client.batch_size, client.max_request_size - REQUEST_OVERHEAD_BYTES)
        columns = [name for name in ("key", "value", "headers") if name in rows.schema.names]
        encoded = encode_columns(
            rows.select(columns),
            self._partitions(topic, rows),
            timestamp_ms=time.time_ns() // 1_000_000,
            max_batch_bytes=max(batch_bytes, REQUEST_OVERHEAD_BYTES),
            compression=client.compression_type,
            level=client.compression_level,
        )
        for batch in encoded:
            self.producer.send_batch(topic, batch.partition, batch.data)
        self.records[topic] = self.records.get(topic, 0) + rows.num_rows

    def _partitions(self, topic: str, rows: pa.RecordBatch) -> Any:
        """The partition of every row, or one for all of them."""
        count = len(self.cluster.topic(topic).partitions)
        names = rows.schema.names
        turn = self._turns.get(topic, random.randrange(count))
        self._turns[topic] = (turn + 1) % count
        client = self.options.client
        by_key = "key" in names and not client.ignore_keys and not client.round_robin
        by_key = by_key and not _all_null(rows.column("key"))
        if "partition" not in names and not by_key and not client.round_robin:
            return turn
        chosen = np.full(rows.num_rows, turn, np.int32)
        if client.round_robin:
            chosen = ((np.arange(rows.num_rows) + turn) % count).astype(np.int32)
            self._turns[topic] = (turn + rows.num_rows) % count
        if by_key:
            hashed = partition_columns(rows.column("key"), count)
            chosen = pc.fill_null(hashed, turn).to_numpy(zero_copy_only=False).astype(np.int32)
        if "partition" not in names:
            return chosen
        named = rows.column("partition")
        numbers = pc.fill_null(named, 0).to_numpy(zero_copy_only=False)
        if ((numbers < 0) | (numbers >= count)).any():
            wrong = int(numbers[(numbers < 0) | (numbers >= count)][0])
            raise SinkError(f"a row names partition {wrong}; topic {topic} has {count}")
        is_named = named.is_valid().to_numpy(zero_copy_only=False)
        return np.where(is_named, numbers, chosen).astype(np.int32)


def _all_null(array: pa.Array) -> bool:
    return bool(array.null_count == len(array))


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
            if self.options.exactly_once.name is None:
                finish_unnamed(cluster_for(self.options.client))
            self.grant = self._driver(self._sink_name()).open()
        return self.__dict__

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """A task's rows."""
        if self.grant is None:
            return write_rows(self.options, iterator)
        attempt = Attempt.running(streaming=self.is_streaming)
        return write_in_transaction(self.options, self.grant, attempt, iterator)

    def _commit(self, messages: list[WriterCommitMessage | None], batch: int) -> None:
        written = _written(messages)
        results = [one.result for one in written if one.result is not None]
        if results:
            self._driver(results[0].mandate.sink).commit(results, batch)
        log.debug("%d records were written by %d tasks", _total(written), len(messages))

    def _abort(self, messages: list[WriterCommitMessage | None]) -> None:
        written = _written(messages)
        results = [one.result for one in written if one.result is not None]
        if self.options.exactly_once is None:
            log.warning(
                "the write failed; %d records of tasks that had succeeded stay in the log and "
                "will be there twice if it is tried again",
                _total(written),
            )
        elif results:
            self._driver(results[0].mandate.sink).abort(results)

    def _driver(self, sink: str) -> SinkDriver:
        wanted = self.options.exactly_once
        assert wanted is not None
        return SinkDriver(cluster_for(self.options.client), sink, wanted.timeout_ms)

    def _sink_name(self) -> str:
        wanted = self.options.exactly_once
        assert wanted is not None
        if wanted.name is not None:
            return wanted.name
        if self.is_streaming:
            raise SinkError(
                "exactly-once needs a name that stays: the option transactionalIdPrefix, or "
                "checkpointLocation as an option of the query"
            )
        name = f"fencepost-spark-{uuid.uuid4().hex}"
        log.info("this write has transactionalIdPrefix %s", name)
        return name


class BatchWriter(_Writer, DataSourceArrowWriter):
    """Writes a DataFrame."""

    is_streaming = False

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """At least once, everything is acknowledged already."""
        self._commit(messages, batch=0)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Take back what is in transactions; other records cannot be."""
        self._abort(messages)


class StreamWriter(_Writer, DataSourceStreamArrowWriter):
    """Writes micro-batches."""

    is_streaming = True

    def commit(
        self,
        messages: list[WriterCommitMessage | None],
        batchId: int,  # noqa: N803
    ) -> None:
        """At least once, everything is acknowledged already."""
        self._commit(messages, batch=batchId)

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
