"""What a task does to write: rows of Arrow batches into record batches, sent as full as can be.

Spark hands over some ten thousand rows at a time. With keys they spread over all partitions, and a
record batch and a place in a request cost the same however few rows are in it. So rows wait here
until they fill a batch for every partition they may go to, at most PENDING_BYTES_MAX of them. A row
larger than `batch.size` goes alone in a batch, up to `max.request.size`. Rows
without a key stay together until a batch is full, as with Kafka's own producer; the next batch goes
to the next partition.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fencepost.batch.columns import EncodedBatch, encode_columns, partition_columns
from fencepost.batch.errors import RowTooLargeError
from fencepost.batch.header import HEADER_BYTES
from fencepost.batch.record_size import shown_bytes
from fencepost.client.batch_producer import BatchProducer
from fencepost.client.cluster import Cluster
from fencepost.client.produce_queue import Delivery
from fencepost.spark.conditions import NULL_TOPIC
from fencepost.spark.errors import SinkError
from fencepost.spark.options import SinkOptions

# So much less than `max.request.size` a batch takes at most: Kafka's bound of a record of that size
# is that much more than the record, so whatever is too large is found when it is to go alone.
BOUND_MARGIN_BYTES = 24
BATCH_BYTES_MIN = HEADER_BYTES + 1

# Rows that wait, of all topics. More of them make larger batches only where partitions are many.
PENDING_BYTES_MAX = 8 * 1024 * 1024
# Fewer batches than this are not encoded by themselves: numpy and Arrow are dear per call.
BATCHES_MIN = 4
# Rows that are enough so many times over go without a rest: it would be copied for one batch more.
TIMES_MANY = 4
# Of what is there, rows encoded in one go: every call costs, and what it makes has to be in memory.
SEND_BYTES = 4 * 1024 * 1024
# Keys do not spread evenly: filling up to the brim would leave most partitions a second, small
# batch.
FILL = 0.9

_COLUMNS = ("key", "value", "headers", "partition")
NO_TIMESTAMP = -1
"""What Kafka calls it when a record has none."""


class Sent(NamedTuple):
    """A batch of rows on its way: so many of those that go to the partition, in their order."""

    partition: int
    records: int
    delivery: Delivery


OnSent = Callable[[pa.RecordBatch, Any, Sequence[Sent]], None]
"""Is told of rows with their column `offset`, of the partition of each, and of the batches made of
them. Partitions are None where batches have the rows in their order, whatever their partitions."""


@dataclass(slots=True)
class _Pending:
    """Rows of one topic that wait to be enough."""

    rows: list[pa.RecordBatch] = field(default_factory=list)
    size_bytes: int = 0


class WriteTask:
    """Sends one task's rows; call `finish` behind the last of them.

    Raises SinkError for rows that cannot be written, and what the producer raises.
    """

    def __init__(
        self,
        options: SinkOptions,
        cluster: Cluster,
        producer: BatchProducer,
        on_sent: OnSent | None = None,
    ) -> None:
        self.options = options
        self.on_sent = on_sent
        self._columns = set(_COLUMNS)
        if options.keep_timestamps:
            self._columns.add("timestamp")
        if on_sent is not None:
            self._columns.add("offset")
        self.cluster = cluster
        self.producer = producer
        self.records: dict[str, int] = {}
        """Rows sent so far, by topic."""
        client = options.client
        self._record_bytes = min(client.max_request_size, client.buffer_memory)
        self._batch_bytes = max(
            min(client.batch_size, self._record_bytes - BOUND_MARGIN_BYTES), BATCH_BYTES_MIN
        )
        self._pending: dict[str, _Pending] = {}
        self._turns: dict[str, int] = {}  # the partition that rows without a key go to next

    def write(self, rows: pa.RecordBatch) -> None:
        """Take the rows, topic by topic."""
        if not rows.num_rows:
            return
        if self.options.topic is not None:
            self._add(self.options.topic, rows)
            return
        topics = rows.column("topic")
        if topics.null_count:
            raise SinkError(
                "a row has a null topic; set the option 'topic' or fill the column 'topic'",
                NULL_TOPIC,
            )
        for topic in pc.unique(topics).to_pylist():
            self._add(topic, rows.filter(pc.equal(topics, topic)))

    def finish(self) -> None:
        """Queue what still waits; the producer's `flush` then delivers it."""
        waiting, self._pending = self._pending, {}
        for topic, pending in waiting.items():
            if pending.rows:
                self._send(topic, pa.concat_batches(pending.rows))

    # -- waiting ---------------------------------------------------------------------------------

    def _add(self, topic: str, rows: pa.RecordBatch) -> None:
        rows = rows.select([name for name in rows.schema.names if name in self._columns])
        enough_bytes = self._enough_bytes(topic, rows)
        pending = self._pending.setdefault(topic, _Pending())
        size_bytes, begin = rows.nbytes, 0
        if pending.size_bytes + size_bytes >= enough_bytes:
            if pending.rows:  # only what fills them up is copied
                missing_bytes = max(0, enough_bytes - pending.size_bytes)
                begin = min(rows.num_rows, rows.num_rows * missing_bytes // max(1, size_bytes))
                self._send(topic, pa.concat_batches([*pending.rows, rows.slice(0, begin)]))
            begin = self._send_full(topic, rows, begin, enough_bytes)
            pending = self._pending[topic] = _Pending()
        if begin < rows.num_rows:
            rest = rows.slice(begin)
            pending.rows.append(rest)
            pending.size_bytes += rest.nbytes
        if sum(one.size_bytes for one in self._pending.values()) > PENDING_BYTES_MAX:
            self.finish()

    def _enough_bytes(self, topic: str, rows: pa.RecordBatch) -> int:
        """How many bytes of rows are worth being sent."""
        partitions = len(self.cluster.topic(topic).partitions)
        batches = max(partitions if self._by_row(rows) else 1, BATCHES_MIN)
        return min(int(batches * self._batch_bytes * FILL), PENDING_BYTES_MAX)

    def _send_full(self, topic: str, rows: pa.RecordBatch, begin: int, enough_bytes: int) -> int:
        """Send of the rows from `begin` on what is enough once or several times; where they end."""
        row_bytes = max(1, rows.nbytes // rows.num_rows)
        enough_rows = max(1, enough_bytes // row_bytes)
        times = (rows.num_rows - begin) // enough_rows
        end = rows.num_rows if times >= TIMES_MANY else begin + times * enough_rows
        step = max(enough_rows, SEND_BYTES // row_bytes)
        for first in range(begin, end, step):
            self._send(topic, rows.slice(first, min(step, end - first)))
        return end

    # -- sending ---------------------------------------------------------------------------------

    def _send(self, topic: str, rows: pa.RecordBatch) -> None:
        client = self.options.client
        count = len(self.cluster.topic(topic).partitions)
        turn = self._turns.setdefault(topic, random.randrange(count))
        by_row = self._by_row(rows)
        partitions = self._partitions(topic, rows, turn, count) if by_row else None
        now_ms = time.time_ns() // 1_000_000
        where = turn if partitions is None else partitions
        try:
            encoded = encode_columns(
                rows,
                where,
                timestamp_ms=NO_TIMESTAMP if self.options.keep_timestamps else now_ms,
                max_batch_bytes=self._batch_bytes,
                max_record_bytes=self._record_bytes,
                compression=client.compression_type,
                level=client.compression_level,
            )
        except RowTooLargeError as error:
            raise self._too_large(topic, rows, where, error) from error
        if client.round_robin:
            self._turns[topic] = (turn + rows.num_rows) % count
        elif by_row:
            self._turns[topic] = (turn + 1) % count
        else:
            encoded = [_moved(one, (turn + index) % count) for index, one in enumerate(encoded)]
            self._turns[topic] = (turn + len(encoded)) % count
        deliveries = self.producer.send_batches(
            topic, ((batch.partition, batch.data) for batch in encoded)
        )
        if self.on_sent is not None:
            each = zip(encoded, deliveries, strict=True)
            sent = [Sent(one.partition, one.records_count, delivery) for one, delivery in each]
            self.on_sent(rows, partitions, sent)
        self.records[topic] = self.records.get(topic, 0) + rows.num_rows

    def _too_large(
        self, topic: str, rows: pa.RecordBatch, where: Any, error: RowTooLargeError
    ) -> SinkError:
        """The error of a record that is larger than the producer may send."""
        key = rows.column("key")[error.row].as_py() if "key" in rows.schema.names else None
        if isinstance(key, str):
            key = key.encode()
        partition = where if isinstance(where, int) else int(where[error.row])
        client = self.options.client
        limit = (
            "kafka.max.request.size"
            if client.max_request_size <= client.buffer_memory
            else "kafka.buffer.memory"
        )
        shown = "null" if key is None else shown_bytes(key)
        return SinkError(
            f"a record for topic {topic}, partition {partition}, with key {shown} takes "
            f"{error.size_bytes} bytes, more than {limit}={self._record_bytes}",
            column="value",
            topic=topic,
            partition=partition,
            key=shown,
            sizeBytes=error.size_bytes,
        )

    def _by_row(self, rows: pa.RecordBatch) -> bool:
        """Whether rows say where they go, each for itself."""
        return "partition" in rows.schema.names or self._by_key(rows) or self._round_robin

    def _by_key(self, rows: pa.RecordBatch) -> bool:
        if "key" not in rows.schema.names or self.options.client.ignore_keys or self._round_robin:
            return False
        keys = rows.column("key")
        return bool(keys.null_count < len(keys))

    @property
    def _round_robin(self) -> bool:
        return self.options.client.round_robin

    def _partitions(self, topic: str, rows: pa.RecordBatch, turn: int, count: int) -> Any:
        """The partition of every row; `turn` for those that say nothing."""
        chosen = np.full(rows.num_rows, turn, np.int32)
        if self._round_robin:
            chosen = ((np.arange(rows.num_rows) + turn) % count).astype(np.int32)
        if self._by_key(rows):
            hashed = partition_columns(rows.column("key"), count)
            chosen = pc.fill_null(hashed, turn).to_numpy(zero_copy_only=False).astype(np.int32)
        if "partition" not in rows.schema.names:
            return chosen
        named = rows.column("partition")
        numbers = pc.fill_null(named, 0).to_numpy(zero_copy_only=False)
        if ((numbers < 0) | (numbers >= count)).any():
            wrong = int(numbers[(numbers < 0) | (numbers >= count)][0])
            raise SinkError(
                f"a row names partition {wrong}; topic {topic} has {count}",
                column="partition",
                topic=topic,
                partition=wrong,
                partitions=count,
            )
        is_named = named.is_valid().to_numpy(zero_copy_only=False)
        return np.where(is_named, numbers, chosen).astype(np.int32)


def _moved(batch: EncodedBatch, partition: int) -> EncodedBatch:
    """The batch for another partition: nothing in it says for which it is."""
    return batch._replace(partition=partition)
