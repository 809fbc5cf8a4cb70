"""Which of the records that were read a member acquires, and how many of them.

Rules, in order (KIP-932, KIP-1206):

1. What is available in front of the first batch read is not in the log any more (compaction, or the
   log's start has advanced): archived, and not written, since the next leader finds the same.
2. Records of aborted transactions are archived likewise, where the group reads committed data.
3. Records that are in flight and available come first. Those that were delivered often may be what
   makes consumers fail (poison): from a count of `isolation_threshold` on they come alone, and in
   smaller and smaller pieces, a single record on its last delivery.
4. Then records behind the end, as many as the limit of locks leaves room for.
5. `max_records` is a hard limit, or it is passed up to the end of the record batch that reaches it.
   New records are acquired in pieces of about `batch_size`, which end where record batches end; in
   one piece where the hard limit cuts them.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

from fencepost.machines.share.in_flight import RUNS_PER_PIECE, Run
from fencepost.machines.share.inputs import Acquire, Acquired, OffsetRange
from fencepost.machines.share.part import ShareState
from fencepost.machines.share.pieces import finish
from fencepost.machines.share.records import RecordState

AVAILABLE, ACQUIRED, ARCHIVED = RecordState.AVAILABLE, RecordState.ACQUIRED, RecordState.ARCHIVED


def isolation_threshold(delivery_count_limit: int) -> int:
    """From this delivery count on records are delivered in smaller pieces, alone."""
    return max(2, (delivery_count_limit + 1) // 2)


def isolated_size(run: Run, delivery_count_limit: int) -> int | None:
    """How many records of the run may be delivered together, and with no others; None: any."""
    threshold = isolation_threshold(delivery_count_limit)
    if run.delivery_count < threshold:
        return None
    if run.delivery_count == delivery_count_limit - 1:
        return 1
    return max(1, run.batch_records >> (run.delivery_count - threshold + 1))


def can_acquire(state: ShareState) -> bool:
    """Whether there is an available record in flight, or room for records behind the end."""
    in_flight = state.in_flight
    has_room = in_flight.records < state.limits.max_record_locks
    return has_room or in_flight.next_fetch_offset() <= in_flight.end_offset


class Acquiring:
    """One `Acquire`, decided and carried out by `run`."""

    def __init__(self, state: ShareState, wanted: Acquire, now_ms: int) -> None:
        self._state = state
        self._in_flight = state.in_flight
        self._wanted = wanted
        self._deadline_ms = now_ms + state.limits.record_lock_duration_ms
        self._left = wanted.max_records
        self._records: list[tuple[int, int, int]] = []
        self._archived: list[OffsetRange] = []
        self._lasts = [batch.last for batch in wanted.batches]
        self._aborted = sorted(wanted.aborted)

    def run(self) -> None:
        """Acquire, and leave the effects in the state."""
        state, in_flight, wanted = self._state, self._in_flight, self._wanted
        if wanted.batches and wanted.max_records > 0:
            first = max(in_flight.next_fetch_offset(), wanted.batches[0].first)
            last = wanted.batches[-1].last
            self._archive_missing(first - 1)
            first = max(first, in_flight.start_offset)
            is_alone = self._acquire_in_flight(first, min(last, in_flight.end_offset))
            if not is_alone and self._left > 0:
                self._acquire_new(last)
        if self._archived:
            finish(state.settle(sorted(self._archived)))
        if self._records:
            state.arm(self._deadline_ms)
        state.effects.append(Acquired(tuple(self._records)))

    def _archive_missing(self, last: int) -> None:
        """Rule 1, for offsets up to `last`."""
        in_flight = self._in_flight
        for run in in_flight.covering(in_flight.next_fetch_offset(), last):
            if run.is_available:
                for part in in_flight.cut(
                    max(run.first, in_flight.start_offset), min(run.last, last)
                ):
                    self._archive(part)
        if last > in_flight.end_offset and last >= in_flight.start_offset:
            self._append(in_flight.end_offset + 1, last, ARCHIVED)

    def _acquire_in_flight(self, first: int, last: int) -> bool:
        """Rules 2 and 3; whether what was acquired is to be delivered alone."""
        limit = self._state.limits.delivery_count_limit
        for run in self._in_flight.covering(first, last):
            if self._left <= 0:
                break
            if not run.is_available:
                continue
            if len(self._records) >= RUNS_PER_PIECE:  # the member will be back for the others
                return True
            size = isolated_size(run, limit)
            if size is not None and self._records:
                return True
            for part in self._kept(max(run.first, first), min(run.last, last)):
                most = part.last if size is None else min(part.last, part.first + size - 1)
                self._take(part.first, min(most, self._end_of(part.first, self._left)))
                if size is not None:
                    return True
                if self._left <= 0:
                    break
        return False

    def _kept(self, first: int, last: int) -> Iterator[OffsetRange]:
        """The parts of a range of available records that were not aborted; rule 2 for others."""
        for part, is_aborted in self._split(first, last):
            if not is_aborted:
                yield part
                continue
            for run in self._in_flight.cut(*part):
                self._archive(run)

    def _acquire_new(self, last: int) -> None:
        """Rules 2, 4 and 5."""
        in_flight, wanted = self._in_flight, self._wanted
        first = in_flight.end_offset + 1
        room = self._state.limits.max_record_locks - in_flight.records
        most = min(self._left, room)
        if first > last or most <= 0:
            return
        end = self._end_of(first, most)
        is_cut = wanted.is_record_limit and end < last
        last = min(last, end)
        batch_size = last - first + 1 if is_cut else max(wanted.batch_size, 1)
        for part, is_aborted in self._split(first, last):
            if is_aborted:
                self._append(part.first, part.last, ARCHIVED)
                continue
            for piece in self._pieces(part, batch_size):
                run = self._append(piece.first, piece.last, ACQUIRED)
                run.delivery_count = 1
                self._lock(run)

    def _end_of(self, first: int, count: int) -> int:
        """Where `count` records from `first` on end; in whole batches, if the limit is soft."""
        last = first + count - 1
        if self._wanted.is_record_limit:
            return last
        place = bisect_left(self._lasts, last)
        return self._lasts[place] if place < len(self._lasts) else last

    def _pieces(self, part: OffsetRange, batch_size: int) -> Iterator[OffsetRange]:
        """The range in pieces of at least `batch_size` that end where record batches do."""
        first = part.first
        while first + batch_size <= part.last:
            place = bisect_left(self._lasts, first + batch_size - 1)
            if place >= len(self._lasts) or self._lasts[place] >= part.last:
                break
            yield OffsetRange(first, self._lasts[place])
            first = self._lasts[place] + 1
        yield OffsetRange(first, part.last)

    def _split(self, first: int, last: int) -> Iterator[tuple[OffsetRange, bool]]:
        """The range in parts, each with whether it belongs to an aborted transaction."""
        return split_by(self._aborted, first, last)

    def _take(self, first: int, last: int) -> None:
        for run in self._in_flight.cut(first, last):
            run.state = ACQUIRED
            run.delivery_count += 1
            self._lock(run)

    def _lock(self, run: Run) -> None:
        run.member_id = self._wanted.member_id
        run.deadline_ms = self._deadline_ms
        self._records.append((run.first, run.last, run.delivery_count))
        self._left -= run.size

    def _archive(self, run: Run) -> None:
        run.state = ARCHIVED
        self._archived.append(OffsetRange(run.first, run.last))

    def _append(self, first: int, last: int, state: RecordState) -> Run:
        run = Run(first, last, state)
        self._in_flight.append(run)
        if state is ARCHIVED:
            self._archived.append(OffsetRange(first, last))
        return run


def split_by(
    ranges: Sequence[OffsetRange], first: int, last: int
) -> Iterator[tuple[OffsetRange, bool]]:
    """`first` to `last` in parts, each with whether it is within one of the sorted `ranges`."""
    place = max(bisect_right(ranges, OffsetRange(first, first)) - 1, 0)
    for one in ranges[place:]:
        if one.first > last or first > last:
            break
        if one.last < first:
            continue
        if one.first > first:
            yield OffsetRange(first, one.first - 1), False
            first = one.first
        end = min(one.last, last)
        yield OffsetRange(first, end), True
        first = end + 1
    if first <= last:
        yield OffsetRange(first, last), False
