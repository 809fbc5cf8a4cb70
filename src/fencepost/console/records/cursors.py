"""How far a look at a partition has come: what to fetch next, and the records found so far.

A forward cursor reads from its first offset up. A backward one reads windows, each from its first
offset up to where the window above it began: Kafka reads logs in one direction only. A window
begins with as many offsets as there are records wanted, and the next is four times as wide if it
held too few, so that the newest records of a compacted log, whose offsets are mostly gone, are
found in a few steps. One whose bytes are too many is narrowed.

Neither reads beyond the end of the log that it was given, so no answer is ever waited for.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from fencepost.batch.errors import BatchError
from fencepost.batch.header import MAGIC, BatchHeader, require_crc
from fencepost.batch.records import Record, read_batch, read_payload, read_rows_in_parts
from fencepost.client.fetch_core import Fetched
from fencepost.client.metadata import TopicPartition
from fencepost.client.transaction_states import State, StatedBatch, batch_states
from fencepost.console.records.rows import RecordRow

ROWS_AT_ONCE: Final = 5_000
"""Records of a batch that are objects at the same time: a few bytes can be millions of records."""
WINDOW_BYTES_MAX: Final = 4 << 20
FETCH_BYTES_MIN: Final = 64 << 10
FETCH_BYTES_MAX: Final = 1 << 20
GROWTH: Final = 4
NARROWING: Final = 8


class LookEnded(Exception):
    """A record costs more than is left to a look: the next one goes on with it."""


class Found(NamedTuple):
    """A record, the header of its batch, and what became of its transaction."""

    partition: int
    record: Record
    header: BatchHeader
    state: State


class Tally:
    """What a look at a partition went over: bytes fetched, records, records of Kafka's own (markers
    of transactions), and batches that are not sound, by what is wrong."""

    def __init__(self) -> None:
        self.bytes = 0
        self.records = 0
        self.control = 0
        self.damage: list[str] = []


Make = Callable[[Found], RecordRow | None]
"""What is to be shown of a record, None for one that is not wanted. Records are not kept: a few
bytes can be gigabytes of them, but not of rows."""
Spent = Callable[[], bool]
"""Whether a look has to end; asked now and then."""


class Cursor:
    """What both kinds have. `start` and `end` are the offsets that it may read from, and up to."""

    def __init__(
        self, partition: TopicPartition, start: int, end: int, only_committed: bool = False
    ) -> None:
        self.partition = partition
        self.start = start
        self.end = max(start, end)
        self.only_committed = only_committed
        self.ready: deque[RecordRow] = deque()
        """Records that are wanted, in the order of the look, and not taken yet."""
        self.tally = Tally()
        self.stable_offset: int | None = None
        self.high_watermark: int | None = None
        self.lists_aborted = True
        """Whether to read under read_committed, which tells aborted transactions."""
        self.is_alone = False
        """Whether to be asked for alone: its last answer was empty, perhaps for others' sake."""

    @property
    def is_done(self) -> bool:
        """Whether there is nothing more to fetch."""
        raise AssertionError("of the two kinds below")

    @property
    def position(self) -> int:
        """The offset to fetch at."""
        raise AssertionError("of the two kinds below")

    @property
    def scanned(self) -> tuple[int, int]:
        """The offsets that were looked at: from the first one up to the second."""
        raise AssertionError("of the two kinds below")

    @property
    def fetch_bytes(self) -> int:
        """How many bytes to ask for: few at first, since few records may do."""
        return min(FETCH_BYTES_MAX, max(2 * FETCH_BYTES_MIN, GROWTH * self.tally.bytes))

    def take(self, fetched: Fetched, make: Make, limit: int, is_spent: Spent) -> None:
        """Go through an answer, until `limit` records are ready or the look is to end. Raises
        LookEnded as `make` does."""
        self.tally.bytes += len(fetched.records)
        if fetched.last_stable_offset >= 0:  # brokers tell it under read_committed
            self.stable_offset = fetched.last_stable_offset
        self.high_watermark = fetched.high_watermark
        if len(fetched.records):
            self.is_alone = False
            self._read(fetched, make, limit, is_spent)
            self._pass_stable_offset()
        elif self.lists_aborted and fetched.last_stable_offset <= self.position:
            self._pass_stable_offset()
        elif self.is_alone:
            self._end_here()  # the offsets up to the end are gone
        else:
            self.is_alone = True

    def _pass_stable_offset(self) -> None:
        """From the last stable offset on there is nothing under read_committed."""
        if self.stable_offset is None or self.position < self.stable_offset or self.is_done:
            return
        self.lists_aborted = False
        if self.only_committed:
            self._end_here()

    def move_start(self, log_start: int) -> None:
        """Records below `log_start` were deleted meanwhile."""
        raise AssertionError("of the two kinds below")

    def _read(self, fetched: Fetched, make: Make, limit: int, is_spent: Spent) -> None:
        raise AssertionError("of the two kinds below")

    def _end_here(self) -> None:
        raise AssertionError("of the two kinds below")

    def _records(
        self, fetched: Fetched, start: int, end: int, is_spent: Spent
    ) -> Iterator[Found | None]:
        """The records from `start` up to `end`, and a last None where the look has to end before.
        Batches that are not sound are told of."""
        for one in self._batches(fetched, start, end):
            header = one.header
            if is_spent():
                yield None
                return
            if header.is_control:
                self.tally.control += max(0, header.records_count)
                continue
            if self.only_committed and one.state != "committed" and header.is_transactional:
                continue
            try:
                for number, record in enumerate(_read_batch(fetched.records, one)):
                    if number % 256 == 255 and is_spent():
                        yield None
                        return
                    if start <= record.offset < end:
                        yield Found(self.partition.partition, record, header, one.state)
            except BatchError as error:
                self.tally.damage.append(str(error))

    def _batches(self, fetched: Fetched, start: int, end: int) -> Iterator[StatedBatch]:
        try:
            for one in batch_states(fetched, lists_aborted=self.lists_aborted):
                if one.header.last_offset >= start and (
                    one.header.base_offset < end or one.header.magic < MAGIC
                ):
                    yield one
        except BatchError as error:
            self.tally.damage.append(str(error))


class ForwardCursor(Cursor):
    """From `start` up."""

    def __init__(
        self, partition: TopicPartition, start: int, end: int, only_committed: bool = False
    ) -> None:
        super().__init__(partition, start, end, only_committed)
        self._position = start

    @property
    def is_done(self) -> bool:
        return self._position >= self.end

    @property
    def position(self) -> int:
        return self._position

    @property
    def scanned(self) -> tuple[int, int]:
        reached = self.ready[0].offset if self.ready else min(self._position, self.end)
        return self.start, max(self.start, reached)

    def move_start(self, log_start: int) -> None:
        self._position = max(self._position, min(log_start, self.end))

    def _read(self, fetched: Fetched, make: Make, limit: int, is_spent: Spent) -> None:
        for found in self._records(fetched, self._position, self.end, is_spent):
            if found is None or len(self.ready) >= limit:
                return
            row = make(found)
            self.tally.records += 1
            self._position = found.record.offset + 1
            if row is not None:
                self.ready.append(row)
        self._position = max(self._position, fetched.next_offset)

    def _end_here(self) -> None:
        self._position = self.end


class BackwardCursor(Cursor):
    """From `end` down, in windows that are read upwards. `width` is of the first, in offsets."""

    def __init__(
        self,
        partition: TopicPartition,
        start: int,
        end: int,
        width: int,
        only_committed: bool = False,
    ) -> None:
        super().__init__(partition, start, end, only_committed)
        self._top = self.end
        self._width = max(1, width)
        self._bytes_per_offset: float | None = None
        self._open_window()

    def _open_window(self) -> None:
        self._window_start = max(self.start, self._top - self._width)
        self._position = self._window_start
        self._window_bytes = 0
        self._window: deque[RecordRow] = deque()
        self._is_whole = True
        self.lists_aborted = self.stable_offset is None or self._position < self.stable_offset

    @property
    def is_done(self) -> bool:
        return self._top <= self.start

    @property
    def position(self) -> int:
        return self._position

    @property
    def scanned(self) -> tuple[int, int]:
        reached = self.ready[0].offset + 1 if self.ready else max(self._top, self.start)
        return min(reached, self.end), self.end

    @property
    def fetch_bytes(self) -> int:
        if self._bytes_per_offset is None:
            return 2 * FETCH_BYTES_MIN
        wanted = int(2 * self._bytes_per_offset * (self._top - self._position))
        return min(FETCH_BYTES_MAX, max(FETCH_BYTES_MIN, wanted))

    def move_start(self, log_start: int) -> None:
        self.start = max(self.start, min(log_start, self.end))
        self._top = max(self._top, self.start)
        self._open_window()

    def _read(self, fetched: Fetched, make: Make, limit: int, is_spent: Spent) -> None:
        self._window_bytes += len(fetched.records)
        for found in self._records(fetched, self._position, self._top, is_spent):
            if found is None:
                return  # a window that is not read to its end is read again by the next look
            self.tally.records += 1
            row = make(found)
            if row is not None:
                self._window.append(row)
                if len(self._window) > limit:
                    self._window.popleft()
                    self._is_whole = False
        self._position = max(self._position, fetched.next_offset)
        if self._position >= self._top:
            self._close_window()
        elif self._window_bytes > WINDOW_BYTES_MAX:
            self._narrow()

    def _end_here(self) -> None:
        self._close_window()

    def _close_window(self) -> None:
        """All records of the window are known: the next one is below it."""
        offsets = max(1, self._top - self._window_start)
        self._bytes_per_offset = self._window_bytes / offsets
        self.ready.extend(reversed(self._window))
        self._top = self._window_start if self._is_whole else self._window[0].offset
        widest = int(WINDOW_BYTES_MAX / 2 / max(self._bytes_per_offset, 1e-9))
        self._width = max(1, min(self._width * GROWTH, widest))
        self._open_window()

    def _narrow(self) -> None:
        """The window has too many bytes: keep its upper part, go on where reading has come."""
        self._width = max(1, (self._top - self._window_start) // NARROWING)
        begin = max(self.start, self._top - self._width)
        if begin > self._position:
            self._open_window()
            return
        self._window_start = begin
        while self._window and self._window[0].offset < begin:
            self._window.popleft()
            self._is_whole = True  # of what is left none was dropped before
        self._window_bytes = 0


def _read_batch(records: memoryview, one: StatedBatch) -> Iterator[Record]:
    require_crc(records, one.position, one.header)
    if one.header.magic < MAGIC:
        yield from read_batch(records, one.position, one.header)
        return
    payload = read_payload(records, one.position, one.header)
    for rows in read_rows_in_parts(payload, one.header, ROWS_AT_ONCE):
        yield from map(Record._make, rows)
