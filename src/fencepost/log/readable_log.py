"""An open log as far as it is looked at: what it is, and what is in it.

Nothing here changes the log; `appendable_log` and `partition_log` do, which are built on this.
Readers meet damage: CorruptFileError is about the bytes that were asked for, and the rest of the
log can be read all the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

from fencepost.batch.header import BatchHeader
from fencepost.log.aborted import find_aborted, has_aborted
from fencepost.log.batch_repair import first_damaged, is_framed
from fencepost.log.config import LogConfig
from fencepost.log.disk import Buffer, Disk
from fencepost.log.durability import Durability
from fencepost.log.epochs import LeaderEpochCache
from fencepost.log.errors import OffsetOutOfRange
from fencepost.log.health import Health
from fencepost.log.loaded import LoadedLog, RecoveryReport
from fencepost.log.producers import ProducerStates
from fencepost.log.reading import (
    ReadResult,
    TimestampedOffset,
    batches_by_max_timestamp,
    batches_by_timestamp,
    find_max_timestamp,
    find_timestamp,
    iter_batches,
    measure_batches,
    read_batches,
)
from fencepost.log.rolling import RollRule
from fencepost.wire.records.txn_index import AbortedTxn
from fencepost.wire.types import Uuid

_EVERYWHERE: Final = (1 << 63) - 1


class ReadableLog:
    """See the module docstring."""

    def __init__(
        self,
        disk: Disk,
        directory: str,
        topic: str,
        partition: int,
        config: LogConfig,
        loaded: LoadedLog,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.directory = directory
        self.disk = disk
        self.topic_id: Uuid | None = loaded.topic_id
        self.epochs: LeaderEpochCache = loaded.epochs
        self.producers: ProducerStates = loaded.producers
        self.recovery: RecoveryReport = loaded.report
        """What opening the log found and did."""
        self._row = loaded.row
        self._loaded_gaps_below = loaded.gaps_below
        self._start_offset = loaded.start_offset
        self._end_offset = loaded.end_offset
        self._health = Health(directory)
        self._durability = Durability(disk, directory, self._health, loaded)
        self.config = config

    # ---- state

    @property
    def log_dir(self) -> str:
        """The log directory that its own directory is in."""
        return self.directory.rpartition("/")[0]

    @property
    def start_offset(self) -> int:
        """The first offset that may be read."""
        return self._start_offset

    @property
    def end_offset(self) -> int:
        """The offset of the next record."""
        return self._end_offset

    @property
    def recovery_point(self) -> int:
        """Everything below is durable."""
        return self._durability.recovery_point

    @property
    def flush_is_due(self) -> bool:
        """Whether `flush.messages` records or more are not durable yet."""
        return self._end_offset - self._durability.recovery_point >= self._config.flush_messages

    @property
    def size_bytes(self) -> int:
        """Bytes of all segment files."""
        return self._row.size_bytes

    @property
    def segment_count(self) -> int:
        """How many segments there are."""
        return len(self._row)

    @property
    def segment_base_offsets(self) -> list[int]:
        """Base offsets of all segments; the last is the active one's."""
        return [segment.base_offset for segment in self._row.segments]

    @property
    def failure(self) -> str | None:
        """Why the log has failed; None while it works."""
        return self._health.failure

    @property
    def config(self) -> LogConfig:
        """The topic's configs; may be set, and holds from the next append on."""
        return self._config

    @config.setter
    def config(self, config: LogConfig) -> None:
        self._config = config
        self._gaps_below = _EVERYWHERE if config.is_compacted else self._loaded_gaps_below
        self._roll_rule = RollRule(config, self.topic, self.partition)
        self._index_interval_bytes = config.index_interval_bytes
        self._log_append_time = config.is_log_append_time

    def fail(self, reason: str) -> None:
        """The disk has refused: from now on every call raises LogFailedError. Any thread."""
        self._health.fail(reason)

    def check_usable(self) -> None:
        """Raise LogFailedError if the log has failed or is closed."""
        self._health.check()

    # ---- reading

    def read(
        self, offset: int, max_bytes: int, upper_bound_offset: int, min_one_batch: bool = True
    ) -> ReadResult:
        """Whole batches from the one with `offset` on, none with a record at the bound or behind.

        At most `max_bytes`, except that `min_one_batch` gives the first batch whatever its size.
        Batches come from one segment, so there may be more than was returned. Raises
        OffsetOutOfRange, CorruptFileError, LogFailedError, OSError.
        """
        self._check_readable(offset)
        bound = min(upper_bound_offset, self._end_offset)
        if offset >= bound:
            return ReadResult([], 0, offset)
        segments = self._row.from_offset(offset)
        gaps_below = self._gaps_below
        return read_batches(segments, offset, max_bytes, bound, min_one_batch, gaps_below)

    def read_known(
        self, offset: int, max_bytes: int, upper_bound_offset: int
    ) -> bytes | bytearray | None:
        """The batches that `read` would give, if they are all that the segment has from there on,
        and can be had without looking anything up and without waiting; None otherwise, whatever
        the reason."""
        health, bound = self._health, min(upper_bound_offset, self._end_offset)
        if health.failure is not None or health.is_closed:
            return None
        if not self._start_offset <= offset < bound:
            return None
        segment = self._row.active
        if offset < segment.base_offset:
            segment = self._row.from_offset(offset)[0]
        return segment.read_known(offset, max_bytes, bound)

    def measure(self, offset: int, max_bytes: int, upper_bound_offset: int) -> int:
        """How many bytes of whole batches `read` would give, one segment after the other.

        Reads none of them. Raises as `read`.
        """
        self._check_readable(offset)
        bound = min(upper_bound_offset, self._end_offset)
        return measure_batches(self._row.from_offset(offset), offset, max_bytes, bound)

    def _check_readable(self, offset: int) -> None:
        self._health.check()
        if not self._start_offset <= offset <= self._end_offset:
            raise OffsetOutOfRange(offset, self._start_offset, self._end_offset)

    def batch_start(self, offset: int) -> int:
        """Where the batch begins that holds the record at `offset`: the log can be cut there.

        `offset` itself at the log's end, or where compaction has left nothing of it. Raises
        OffsetOutOfRange, CorruptFileError, LogFailedError, OSError.
        """
        self._check_readable(offset)
        segment = self._row.from_offset(offset)[0]
        base_offset = segment.base_offset_at(segment.position_of(offset))
        return offset if base_offset is None else min(offset, base_offset)

    def read_all_batches(
        self, from_offset: int, upto: int
    ) -> Iterator[tuple[BatchHeader, memoryview]]:
        """Every batch with a record from `from_offset` on that ends below `upto`, in order.

        Raises OffsetOutOfRange, CorruptFileError, LogFailedError, OSError.
        """
        self._check_readable(from_offset)
        segments = self._row.from_offset(from_offset)
        yield from iter_batches(segments, from_offset, upto, self._gaps_below)

    def first_damaged(self, from_offset: int) -> int | None:
        """Where the first batch from there on begins that is not sound; None if all are.

        For a log without gaps. Raises OffsetOutOfRange, LogFailedError, OSError.
        """
        self._check_readable(from_offset)
        return first_damaged(self._row.from_offset(from_offset), from_offset)

    def is_framed(self, offset: int) -> bool:
        """Whether a good copy of the damaged batch at `offset` would fit in its place.

        Raises OffsetOutOfRange, LogFailedError, OSError.
        """
        self._check_readable(offset)
        return is_framed(self._row.from_offset(offset)[0], offset)

    def last_stable_offset(self, high_watermark: int) -> int:
        """Where readers of committed data stop: below it every transaction is decided for good."""
        unstable = self.producers.first_unstable_offset(high_watermark)
        return high_watermark if unstable is None else min(unstable, high_watermark)

    def aborted_transactions(self, from_offset: int, upper_bound_offset: int) -> list[AbortedTxn]:
        """The aborted transactions with anything in `from_offset` to below the bound.

        In the order of their markers, which may lie behind the bound. All of them are known
        as far as the last stable offset. Raises CorruptFileError (the log), LogFailedError,
        OSError.
        """
        self.check_usable()
        return find_aborted(self.disk, self._row, from_offset, upper_bound_offset)

    def has_aborted_transactions(self, from_offset: int) -> bool:
        """Whether any may reach `from_offset` or beyond; cheap, and raises likewise."""
        self.check_usable()
        return has_aborted(self.disk, self._row, from_offset)

    def offset_for_timestamp(self, timestamp_ms: int) -> TimestampedOffset | None:
        """The first record whose timestamp is not below `timestamp_ms`; None if there is none.

        Raises CorruptFileError, BatchError (a batch that does not decompress), OSError.
        """
        self.check_usable()
        return find_timestamp(self._row.segments, timestamp_ms, self._start_offset)

    def batch_by_timestamp(self, timestamp_ms: int, skip: int) -> tuple[Buffer, BatchHeader] | None:
        """The batch in which `offset_for_timestamp` looks after so many others; None at the end.

        For `reading.find_in_batch` in a thread. Raises CorruptFileError, OSError.
        """
        self.check_usable()
        batches = batches_by_timestamp(self._row.segments, timestamp_ms, self._start_offset)
        return next(islice(batches, skip, None), None)

    def batch_by_max_timestamp(self, skip: int) -> tuple[Buffer, BatchHeader] | None:
        """The same for `max_timestamp`, which is the largest one of the batch."""
        self.check_usable()
        batches = batches_by_max_timestamp(self._row.segments, self._start_offset)
        return next(islice(batches, skip, None), None)

    def max_timestamp(self) -> TimestampedOffset | None:
        """The record with the largest timestamp, the first of several; None in an empty log.

        Raises as `offset_for_timestamp`.
        """
        self.check_usable()
        return find_max_timestamp(self._row.segments, self._start_offset)
