"""A read that goes on: record batches of what is new, and positions to go on from.

`StreamPlanner`, which plans the micro-batches of Spark's queries, plans these too: before offsets
move on, and when a stream begins at a position, the position is compared with the log as it is now.

A position is what a checkpoint of Spark has as an offset (`offsets`): the next offset of every
partition, with the leader epoch in which it was reached and the topic's id. Any epoch in which the
end of a micro-batch was reached will do for offsets before that end, too: all of them existed then.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from typing import Final

import pyarrow as pa

from fencepost.arrow.backfill import survey_for
from fencepost.arrow.errors import OffsetError
from fencepost.arrow.offsets import Position, StreamOffset
from fencepost.arrow.options import SourceOptions
from fencepost.arrow.planning import OffsetRange
from fencepost.arrow.ranges import read_range
from fencepost.arrow.shape import Shape
from fencepost.arrow.stream_planner import HOLD_S, Json, StreamPlanner
from fencepost.client.cluster import Cluster

POSITION_CHARS_MAX: Final = 64 * 1024 * 1024


class _Stopped(Exception):
    """`stop` was called while the planner waited."""


class Stream:
    """Iterate for record batches until `stop`, or `poll` for one. A context manager.

    One thread at a time, but `stop` may be called from any, and from a signal's handler. After an
    error the stream is closed: `position` is behind the last batch given, and a new stream may go
    on from there. Reading raises what a `Scan` does, and OffsetError for a position that is none.
    """

    def __init__(self, options: SourceOptions, shape: Shape, position: str | None) -> None:
        self._options = options
        self._shape = shape
        self._cluster = Cluster(config=options.client)
        self._planner = StreamPlanner(
            options, survey_for(options, self._cluster), sleep=self._sleep
        )
        self._stopping = threading.Event()
        self._closed = False
        self._at: Json | None = None if position is None else _parsed(position)
        self._position: StreamOffset | None = None
        self._batches: Iterator[pa.RecordBatch] | None = None

    @property
    def schema(self) -> pa.Schema:
        """That of all batches."""
        return self._shape.schema

    @property
    def position(self) -> str:
        """Behind the last batch given, as JSON; asks the cluster if none was given yet."""
        if self._position is not None:
            return json.dumps(self._position.to_json())
        return json.dumps(self._started())

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        while not self._stopping.is_set():
            batch = self.poll(HOLD_S * 1000)
            if batch is not None:
                yield batch

    def poll(self, timeout_ms: float) -> pa.RecordBatch | None:
        """The next batch; None if nothing is new for `timeout_ms`, or the stream is stopped.

        The time limits the wait for new records, not a fetch that has begun.
        """
        if self._closed:
            raise ValueError("the stream is closed")
        until = time.monotonic() + timeout_ms / 1000
        try:
            while not self._stopping.is_set():
                batch = self._next(max(0.0, until - time.monotonic()))
                if batch is not None or time.monotonic() >= until:
                    return batch
        except _Stopped:
            return None
        except BaseException:
            self.close()
            raise
        return None

    def stop(self) -> None:
        """End iteration and polls; the position stays."""
        self._stopping.set()

    def close(self) -> None:
        """Stop, and close the connections."""
        self._stopping.set()
        self._closed = True
        self._batches = None
        self._cluster.close()

    def _sleep(self, seconds: float) -> None:
        if self._stopping.wait(seconds):
            raise _Stopped

    def _started(self) -> Json:
        if self._at is None:
            self._at = self._planner.initial()
        return self._at

    def _next(self, wait_s: float) -> pa.RecordBatch | None:
        """The next batch of this micro-batch or, if it has no more, of the next."""
        if self._batches is not None:
            batch = next(self._batches, None)
            if batch is not None:
                return batch
            self._batches = None
        start = self._started()
        self._planner.hold_s = min(HOLD_S, wait_s)
        end = self._planner.next_end(start, limited=True)
        if end == start:
            return None
        self._batches = self._read(start, end)
        return next(self._batches, None)

    def _read(self, start: Json, end: Json) -> Iterator[pa.RecordBatch]:
        """A micro-batch, with the position moved along."""
        ranges = self._planner.ranges(start, end)
        whole = StreamOffset.from_json(end)
        positions = dict(whole.positions)
        for wanted in ranges:
            positions[wanted.partition] = positions[wanted.partition]._replace(offset=wanted.start)
        for wanted in ranges:
            for batch, behind in self._range(wanted):
                positions[wanted.partition] = Position(behind, wanted.leader_epoch)
                self._position = StreamOffset(dict(positions), whole.topic_ids)
                yield batch
            positions[wanted.partition] = whole.positions[wanted.partition]
            self._position = StreamOffset(dict(positions), whole.topic_ids)
        self._position, self._at = whole, end

    def _range(self, wanted: OffsetRange) -> Iterator[tuple[pa.RecordBatch, int]]:
        """Batches of a range, and the offset behind each."""
        for decoded in read_range(self._cluster, self._options, self._shape.decoded, wanted):
            behind = decoded.column("offset")[-1].as_py() + 1
            for batch in self._shape.apply(wanted.partition, decoded):
                yield batch, behind


def _parsed(position: str) -> Json:
    if not isinstance(position, str):
        raise OffsetError(position, "it is no text")
    if len(position) > POSITION_CHARS_MAX:
        raise OffsetError(position, f"it has more than {POSITION_CHARS_MAX} characters")
    try:
        parsed = json.loads(position)
        StreamOffset.from_json(parsed)
    except (ValueError, RecursionError) as error:
        raise OffsetError(position, str(error)) from error
    told: Json = parsed
    return told
