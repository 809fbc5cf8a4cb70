"""A look at the records of some partitions, within a budget of bytes and of seconds.

Each partition has a cursor; the leaders are asked for what the cursors need, all at once, and the
records that are found are merged by their timestamps. Answers are gone through in another thread,
so that a filter over megabytes holds up no other page. What a look does not get to, the next one
goes on with: each cursor knows the exact offsets that it went over.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Final

import msgspec

from fencepost.client.errors import ClientError, OffsetOutOfRange
from fencepost.client.fetch_core import FetchCore, Fetched, FetchLimits, FetchPosition
from fencepost.client.metadata import TopicPartition
from fencepost.client.offsets import EARLIEST, listing_offsets
from fencepost.client.retry import Deadline
from fencepost.client.transaction_admin import describing_producers
from fencepost.console.records.cursors import Cursor, LookEnded, Make
from fencepost.console.records.rows import RecordRow
from fencepost.console.session import Session

ANSWER_BYTES_MAX: Final = 8 << 20
MOVED_MAX: Final = 3
"""How often a look goes on where records were deleted, or the log was cut, while it read."""
LEVELS: Final = ("read_committed", "read_uncommitted")


class Budget:
    """Bytes that may be fetched and seconds that a look may take."""

    def __init__(self, bytes_max: int, seconds: float) -> None:
        self.bytes_left = bytes_max
        self._ends_at = time.monotonic() + seconds
        self.is_exhausted = False
        """Set where a filter has taken all the steps that it may."""

    def is_late(self) -> bool:
        """Whether going on has to wait for the next look."""
        return self.is_exhausted or time.monotonic() >= self._ends_at

    @property
    def is_spent(self) -> bool:
        return self.bytes_left <= 0 or self.is_late()

    @property
    def left_ms(self) -> float:
        return max(0.0, 1000 * (self._ends_at - time.monotonic()))


class Scan:
    """A look over `cursors`, for `limit` rows; `is_newest_first` is how cursors go, too."""

    def __init__(
        self,
        session: Session,
        cursors: Sequence[Cursor],
        make: Make,
        limit: int,
        is_newest_first: bool,
        budget: Budget,
    ) -> None:
        self._session = session
        self._cursors = {cursor.partition: cursor for cursor in cursors}
        self._make = make
        self._limit = limit
        self._sign = -1 if is_newest_first else 1
        self.budget = budget
        self._core = FetchCore(session.cluster)
        self.rows: list[RecordRow] = []
        self._moved = 0

    async def run(self) -> list[RecordRow]:
        """The rows, in their order. Raises ClientError."""
        while True:
            self._merge(is_last=False)
            if len(self.rows) >= self._limit:
                break
            needed = [one for one in self._cursors.values() if not one.ready and not one.is_done]
            if not needed:
                break
            if self.budget.is_spent:
                self._merge(is_last=True)
                break
            await self._read(needed)
        self.rows = await settle(self._session, self._topic, self.rows)
        return self.rows

    @property
    def _topic(self) -> str:
        return next(iter(self._cursors)).topic if self._cursors else ""

    @property
    def is_complete(self) -> bool:
        """Whether all that was asked for was looked at."""
        return all(one.is_done and not one.ready for one in self._cursors.values())

    def _merge(self, *, is_last: bool) -> None:
        """Take rows by their time. One whose partition may have an earlier one waits for that,
        unless the look is over."""
        while len(self.rows) < self._limit:
            waiting = [one for one in self._cursors.values() if one.ready]
            is_open = any(not one.ready and not one.is_done for one in self._cursors.values())
            if not waiting or (is_open and not is_last):
                return
            first = min(waiting, key=lambda one: self._order(one.ready[0]))
            self.rows.append(first.ready.popleft())

    def _order(self, row: RecordRow) -> tuple[int, int, int]:
        return self._sign * row.timestamp_ms, row.partition, self._sign * row.offset

    async def _read(self, needed: list[Cursor]) -> None:
        alone = [one for one in needed if one.is_alone]
        if alone:
            needed = alone[:1]
        for level in LEVELS:
            asked = [one for one in needed if one.lists_aborted == (level == "read_committed")]
            if not asked:
                continue
            try:
                answers = await self._fetch(asked, level)
            except OffsetOutOfRange:
                self._moved += 1
                if self._moved > MOVED_MAX:
                    raise
                await self._find_starts(asked)
                continue
            for answer in answers:
                cursor = self._cursors[answer.partition]
                self.budget.bytes_left -= len(answer.records)
                is_late = self.budget.is_late
                try:
                    await asyncio.to_thread(cursor.take, answer, self._make, self._limit, is_late)
                except LookEnded:
                    self.budget.is_exhausted = True

    async def _fetch(self, asked: list[Cursor], level: str) -> list[Fetched]:
        """One fetch from each leader."""
        bytes_left = max(1, min(self.budget.bytes_left, ANSWER_BYTES_MAX))
        limits = FetchLimits(bytes_left, min(bytes_left, max(one.fetch_bytes for one in asked)))
        return await self._session.run(
            self._core.fetching(
                {one.partition: FetchPosition(one.position) for one in asked},
                max_wait_ms=0,
                limits=limits,
                isolation_level=level,
                deadline=Deadline(self.budget.left_ms + 1000),
            )
        )

    async def _find_starts(self, asked: list[Cursor]) -> None:
        """Records were deleted while they were read: go on where the logs begin now."""
        wanted = {one.partition: EARLIEST for one in asked}
        found = await self._session.run(listing_offsets(self._session.cluster, wanted))
        for one in asked:
            one.move_start(found[one.partition].offset)


async def settle(session: Session, topic: str, rows: list[RecordRow]) -> list[RecordRow]:
    """The rows, those of undecided transactions with what the leaders know of their producers:
    open, or ended by a marker farther on. They stay undecided where leaders are too old to tell."""
    undecided = {row.partition for row in rows if row.state == "undecided"}
    if not undecided:
        return rows
    try:
        described = await session.run(
            describing_producers(
                session.cluster, [TopicPartition(topic, one) for one in sorted(undecided)]
            )
        )
    except ClientError:
        return rows
    began = {
        (place.partition, one.producer_id): one.start_offset
        for place, producers in described.items()
        for one in producers
        if one.is_open
    }

    def decided(row: RecordRow) -> RecordRow:
        if row.state != "undecided":
            return row
        start = began.get((row.partition, row.producer_id))
        is_open = start is not None and start <= row.offset
        return msgspec.structs.replace(row, state="open" if is_open else "ended")

    return [decided(row) for row in rows]
