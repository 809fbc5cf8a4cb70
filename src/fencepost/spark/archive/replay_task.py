"""A task of a replay: a range of one partition's records, in a transaction that it leaves open."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark import TaskContext

from fencepost.arrow.archive.layout import ArchiveError, DataFile
from fencepost.arrow.archive.reading import records_in_order
from fencepost.spark.archive.offset_map import runs_of
from fencepost.spark.grants import Grant, TaskResult
from fencepost.spark.options import SinkOptions
from fencepost.spark.task_transaction import Attempt
from fencepost.spark.write_task import Sent
from fencepost.spark.writer import write_in_transaction

SENT_COLUMNS = ("key", "value", "headers", "timestamp")


@dataclass(frozen=True, slots=True)
class Piece:
    """A range of offsets of one partition, from `start` up to `end`."""

    tag: str
    topic_id: str
    partition: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Work:
    """What a task is given."""

    number: int
    piece: Piece
    files: tuple[DataFile, ...]
    grant: Grant
    replay: str
    step: int


@dataclass(frozen=True, slots=True)
class Replayed:
    """What it leaves for the driver; `runs` as by `runs_of`."""

    result: TaskResult
    rows: int
    data_bytes: int
    runs: dict[str, Any]


class _Places:
    """Notes where every row goes, and what has become of it."""

    def __init__(self) -> None:
        self.data_bytes = 0
        self._old: list[Any] = []
        self._sent: list[Sent] = []

    def __call__(self, rows: pa.RecordBatch, partitions: Any, sent: Sequence[Sent]) -> None:
        offsets = rows.column("offset").to_numpy()
        if partitions is not None:
            # Batches are by partition, each with its rows in their order.
            offsets = offsets[np.argsort(np.asarray(partitions), kind="stable")]
        if sum(one.records for one in sent) != len(offsets):
            raise ArchiveError(f"{len(offsets)} rows became {sent} in batches")
        self.data_bytes += rows.nbytes
        self._old.append(offsets)
        self._sent += sent

    def runs(self) -> dict[str, Any]:
        """When all are acknowledged. ArchiveError where a broker did not tell the offset."""
        if any(first < 0 for one in self._sent for first, _ in one.delivery.offsets()):
            raise ArchiveError("a broker did not say at which offset it has a batch; again")
        none = np.empty(0, np.int64)
        new = [
            first + np.arange(count)
            for one in self._sent
            for first, count in one.delivery.offsets()
        ]
        where = [np.full(one.records, one.partition, np.int64) for one in self._sent]
        return runs_of(*(np.concatenate([none, *some]) for some in (self._old, where, new)))


def replay_piece(options: SinkOptions, topic: str, keep_partitions: bool, work: Work) -> Replayed:
    """A task's work. ArchiveError, ClientError: the transaction is aborted then."""
    piece = work.piece
    places = _Places()
    message = write_in_transaction(
        options, work.grant, _attempt(work), _rows(work, keep_partitions), on_sent=places
    )
    assert message.result is not None
    runs = places.runs()
    rows = sum(message.records.values())
    counted = int((runs["last_offset"] - runs["first_offset"] + 1).sum())
    if rows != counted or set(message.records) - {topic}:
        raise ArchiveError(f"{rows} rows of {piece} were sent, {counted} have offsets")
    return Replayed(message.result, rows, places.data_bytes, runs)


def _rows(work: Work, keep_partitions: bool) -> Iterator[pa.RecordBatch]:
    """The piece's records as the sink takes them; the old offset goes along."""
    piece = work.piece
    columns = [*SENT_COLUMNS, "offset", *(["partition"] if keep_partitions else [])]
    for batch in records_in_order(work.files, piece.start, piece.end):
        yield batch.select(columns)


def _attempt(work: Work) -> Attempt:
    context = TaskContext.get()
    if context is None:
        return Attempt(work.replay, work.step, work.number, 0, True)
    first = context.attemptNumber() == 0
    return Attempt(work.replay, work.step, work.number, context.taskAttemptId(), first)
