"""A log that grows: batches of a leader, of a follower, and blocks of them.

Where a batch goes, when a new segment is begun, and what is noted of a batch that was written. An
append that fails leaves the log as it was, in memory and in the file; if even that cannot be made
sure, the log has failed for good. How it is cut, compacted, made durable and closed is
`partition_log`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from fencepost.batch.header import (
    LENGTH_OVERHEAD_BYTES,
    BatchHeader,
    check_crc,
    stamp,
    stamp_log_append_time,
)
from fencepost.batch.record_batch import BatchBlock, RecordBatch, is_block
from fencepost.log.descriptors import is_shortage
from fencepost.log.disk import Buffer
from fencepost.log.errors import CorruptFileError, UnexpectedOffsetError, crc_mismatch
from fencepost.log.offset_index import RELATIVE_MAX
from fencepost.log.readable_log import ReadableLog
from fencepost.log.replay import note_batch
from fencepost.log.rolling import ANY_MS, NO_MS
from fencepost.log.segment import Segment


class AppendResult(NamedTuple):
    """Where a batch went; `log_append_time_ms` is -1 unless the leader's clock stamped it."""

    first_offset: int
    last_offset: int
    log_append_time_ms: int
    log_start_offset: int


class AppendableLog(ReadableLog):
    """See the module docstring."""

    _is_changed: bool
    """Whether closing has something to seal: the log has changed, or was not closed in order."""

    def append_as_leader(self, batch: RecordBatch, leader_epoch: int, wall_ms: int) -> AppendResult:
        """Append a batch, whose data is given offsets, epoch and maybe timestamp in place.

        Whether the producer may send it has been checked (`producers.check`). Raises
        LogFailedError, OSError: the log is then as before.
        """
        first_offset = self._end_offset
        header, data = batch
        header = self._stamp(header, data, first_offset, leader_epoch, wall_ms)
        last_offset = first_offset + header.last_offset_delta
        size = header.batch_length + LENGTH_OVERHEAD_BYTES
        self._append(data, size, header, first_offset, last_offset, leader_epoch, wall_ms)
        append_time_ms = wall_ms if self._log_append_time else -1
        return AppendResult(first_offset, last_offset, append_time_ms, self._start_offset)

    def append_all_as_leader(
        self, batches: Sequence[RecordBatch], leader_epoch: int, wall_ms: int
    ) -> None:
        """Append batches as `append_as_leader` does, with one write if no segment ends meanwhile.

        Of a block it was seen before that there is room for it (`has_room_for`). Raises
        LogFailedError, OSError: the log then ends in front of one of them.
        """
        if is_block(batches) and not self._log_append_time:
            self._append_block(batches, leader_epoch)
            return
        if len(batches) == 1 or not self.has_room_for(batches, wall_ms):
            for batch in batches:
                self.append_as_leader(batch, leader_epoch, wall_ms)
            return
        first_offset = next_offset = self._end_offset
        headers: list[BatchHeader] = []
        for header, data in batches:
            headers.append(self._stamp(header, data, next_offset, leader_epoch, wall_ms))
            next_offset += header.last_offset_delta + 1
        segment = self._row.active
        self._write(segment, b"".join([batch.data for batch in batches]))
        for header, batch in zip(headers, batches, strict=True):
            self._note(segment, batch.data, header, first_offset, leader_epoch)
            first_offset += header.last_offset_delta + 1

    def _append_block(self, block: BatchBlock, leader_epoch: int) -> None:
        """All of a block, for which there is room in the active segment."""
        self.check_usable()
        first_offset, segment = self._end_offset, self._row.active
        base_offsets = block.stamp(first_offset, leader_epoch)
        self._write(segment, block.data)
        segment.note_block(block, first_offset, self._index_interval_bytes)
        self._end_offset = first_offset + block.offsets
        if leader_epoch >= 0 and self.epochs.latest_epoch() != leader_epoch:
            self.epochs.assign(leader_epoch, first_offset)
        for (_, header), base_offset in zip(block.producers, base_offsets, strict=True):
            self.producers.update(header, base_offset)
        self.producers.end_offset = self._end_offset

    def has_room_for(self, batches: Sequence[RecordBatch], wall_ms: int) -> bool:
        """Whether all of them can go to the active segment, and its files are open. OSError.

        It may say no where there is just enough room.
        """
        segment = self._row.active
        if self._health.failure is not None or self._health.is_closed or not segment.is_ready:
            return False
        newest_ms = wall_ms
        if is_block(batches):
            size_bytes, offsets = batches.size_bytes, batches.offsets
            if not self._log_append_time:
                newest_ms = batches.max_timestamp
        else:
            size_bytes = sum([len(batch.data) for batch in batches])
            offsets = sum([batch.header.last_offset_delta for batch in batches]) + len(batches)
            if not self._log_append_time:
                newest_ms = max([batch.header.max_timestamp for batch in batches])
        last_offset = self._end_offset + offsets - 1
        return self._roll_rule.has_room(
            segment, size_bytes, last_offset, newest_ms, wall_ms, len(batches)
        )

    def newest_collected_ms(self, wall_ms: int) -> int:
        """The newest timestamp that a batch may have which is kept to be appended with others.

        As long as nothing else is appended, no batch of so many begins a segment then, whatever
        their timestamps and in whatever order. NO_MS if each is to be appended by itself: the
        active segment is empty or nearly full, or its files are not open. OSError.
        """
        segment, health = self._row.active, self._health
        if health.failure is not None or health.is_closed or not segment.is_ready:
            return NO_MS
        newest_ms = self._roll_rule.newest_collected_ms(segment, self._end_offset, wall_ms)
        if self._log_append_time:
            return ANY_MS if wall_ms <= newest_ms else NO_MS
        return newest_ms

    def _stamp(
        self, header: BatchHeader, data: Buffer, offset: int, leader_epoch: int, wall_ms: int
    ) -> BatchHeader:
        """Give a batch its place in the log; its header, of which the base offset is as it was."""
        assert not isinstance(data, bytes), "a leader stamps batches in place"
        size = header.batch_length + LENGTH_OVERHEAD_BYTES
        assert len(data) == size, f"a batch of {size} bytes in {len(data)}"
        stamp(data, 0, base_offset=offset, leader_epoch=leader_epoch)
        if not self._log_append_time:
            return header
        stamp_log_append_time(data, 0, wall_ms)
        return header._replace(max_timestamp=wall_ms)

    def append_as_follower(self, batch: RecordBatch, wall_ms: int) -> AppendResult:
        """Append a batch as the leader has stamped it.

        Raises UnexpectedOffsetError if it does not continue the log, CorruptFileError for a CRC
        mismatch, LogFailedError, OSError: the log is then as before.
        """
        header, data = batch
        first_offset = header.base_offset
        if first_offset < self._end_offset:
            raise UnexpectedOffsetError(
                f"{self.directory}: a batch at {first_offset}, expected one at"
                f" {self._end_offset} or behind"
            )
        if not check_crc(data, 0, header):
            where = f"{self.directory}, from the leader"
            raise CorruptFileError(where, crc_mismatch(header))
        size, last_offset = header.size_bytes, header.last_offset
        epoch = header.partition_leader_epoch
        self._append(data, size, header, first_offset, last_offset, epoch, wall_ms)
        return AppendResult(first_offset, last_offset, -1, self._start_offset)

    def _append(
        self,
        batch: Buffer,
        size: int,
        header: BatchHeader,
        first_offset: int,
        last_offset: int,
        leader_epoch: int,
        wall_ms: int,
    ) -> None:
        timestamp_ms = header.max_timestamp
        segment = self._segment_for(size, first_offset, last_offset, timestamp_ms, wall_ms)
        self._write(segment, batch)
        self._note(segment, batch, header, first_offset, leader_epoch)

    def _write(self, segment: Segment, data: Buffer) -> None:
        """Write at the end of a segment; what fails leaves it as it was. OSError."""
        file = segment.file
        self._is_changed = True
        try:
            file.write_at(data, segment.size_bytes)
        except OSError as error:
            try:
                file.truncate(segment.size_bytes)
            except OSError:
                self.fail(f"an append failed and could not be undone: {error}")
            raise

    def _note(
        self,
        segment: Segment,
        batch: Buffer,
        header: BatchHeader,
        first_offset: int,
        leader_epoch: int,
    ) -> None:
        """A batch has been written there: the log ends behind it."""
        last_offset = first_offset + header.last_offset_delta
        size_bytes = header.batch_length + LENGTH_OVERHEAD_BYTES
        interval_bytes = self._index_interval_bytes
        segment.note_append(size_bytes, last_offset, header.max_timestamp, interval_bytes)
        self._end_offset = last_offset + 1
        if leader_epoch >= 0 and self.epochs.latest_epoch() != leader_epoch:
            self.epochs.assign(leader_epoch, first_offset)
        if header.producer_id < 0:
            self.producers.end_offset = last_offset + 1
        else:
            aborted = note_batch(self.producers, header, first_offset, batch)
            if aborted is not None:
                segment.txn_index.append(aborted)

    def has_files_for(self, header: BatchHeader, wall_ms: int) -> bool:
        """Whether appending the batch as leader needs no file but those that are open. OSError."""
        segment = self._row.active
        timestamp_ms = wall_ms if self._log_append_time else header.max_timestamp
        last_offset = self._end_offset + header.last_offset_delta
        return segment.is_ready and not self._roll_rule.must_roll(
            segment, header.size_bytes, last_offset, timestamp_ms, wall_ms
        )

    def prepare_append(self, header: BatchHeader, wall_ms: int) -> None:
        """Have everything open that appending the batch as leader needs, rolling if it must.

        So the append itself need not wait for a file descriptor. LogFailedError, OSError.
        """
        first_offset = self._end_offset
        last_offset = first_offset + header.last_offset_delta
        timestamp_ms = wall_ms if self._log_append_time else header.max_timestamp
        size = header.size_bytes
        _ = self._segment_for(size, first_offset, last_offset, timestamp_ms, wall_ms).file

    def _segment_for(
        self, size: int, first_offset: int, last_offset: int, timestamp_ms: int, wall_ms: int
    ) -> Segment:
        """The segment that a batch goes to, with all that is looked at before. OSError."""
        health = self._health
        if health.failure is not None or health.is_closed:
            health.check()
        segment = self._row.active
        if self._roll_rule.must_roll(segment, size, last_offset, timestamp_ms, wall_ms):
            # Segments follow without a gap in their names, or recovery would take it for a loss;
            # only offsets that leap beyond what an index can say begin with themselves.
            base_offset = self._end_offset
            if last_offset - base_offset > RELATIVE_MAX:
                base_offset = first_offset
            segment = self._roll(base_offset, wall_ms)
            self._is_changed = True
        if segment.max_timestamp is None:
            segment.settle_timestamp()
        return segment

    def roll(self, wall_ms: int) -> None:
        """Close the active segment and begin a new one, unless it is empty. OSError."""
        self.check_usable()
        if self._row.active.size_bytes:
            self._roll(self._end_offset, wall_ms)

    def _roll(self, base_offset: int, wall_ms: int) -> Segment:
        try:
            # Unless these are durable it could survive a crash without those in front of it.
            self._durability.settle_names()
        except OSError as error:
            if not is_shortage(error):
                self.fail(f"a directory could not be synced: {error}")
            raise
        row = self._row
        kept = len(row.unsynced)
        new = row.roll(base_offset, self.producers.encode(), wall_ms, self._roll_rule.reserve_bytes)
        try:
            row.settle_unsynced(kept)
        except OSError as error:
            self.fail(f"an index or a snapshot could not be synced: {error}")
            raise
        return new
