"""A live tail: records as they come, in events that a browser can keep up with.

An event has EVENT_ROWS rows at most, and there are at most EVENTS_PER_S; records beyond that are
counted and not shown. At most BYTES_PER_S are fetched: a tail whose topic takes more falls behind,
and after BEHIND_S seconds goes on at the end of the log, which it says, too. A tail has connections
of its own, so that its waiting holds up no page, and they end with it. One fetch is in flight at
each leader: a record is shown when its leader has it, however long the others have nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Mapping
from dataclasses import replace
from typing import Final

from fencepost.client.aio.cluster import AsyncCluster
from fencepost.client.config import ClientConfig
from fencepost.client.errors import ClientError, OffsetOutOfRange
from fencepost.client.fetch_core import FetchCore, Fetched, FetchPosition
from fencepost.client.metadata import TopicPartition
from fencepost.client.pending_fetches import PendingFetches
from fencepost.console.records.cursors import ForwardCursor, Found, LookEnded
from fencepost.console.records.query import OFFSET_MAX, LookQuery, finding_ranges
from fencepost.console.records.row_maker import RowMaker
from fencepost.console.records.rows import RecordRow
from fencepost.views.view import View

EVENT_ROWS: Final = 200
EVENTS_PER_S: Final = 20
BYTES_PER_S: Final = 5_000_000
FETCH_BYTES_MAX: Final = 1 << 20
BEHIND_S: Final = 10.0
WAIT_MS: Final = 500
GIVES_UP_MS: Final = 5_000
"""After so long with nothing but failures the tail says what they are, and tries again."""
QUIET_S: Final = 10.0
"""After so long without a record there is an event without rows: it shows that the tail lives."""
TRY_AGAIN_S: Final = 1.0


class TailEvent(View, frozen=True):
    """What came since the event before. `positions` are the next offsets by partition;
    `not_shown` counts records that the filter let through and `rows` had no room for, `skipped`
    offsets that were passed over because the tail had fallen behind."""

    rows: list[RecordRow]
    not_shown: int
    skipped: int
    positions: Mapping[int, int]
    problem: str | None = None


class Tail:
    """Records of a topic from `positions` on, by partition. `is_live`: it began at the end, so it
    may skip what it cannot keep up with."""

    def __init__(
        self,
        config: ClientConfig,
        query: LookQuery,
        positions: Mapping[int, int],
        make: RowMaker,
        is_live: bool,
    ) -> None:
        level = "read_committed" if query.only_committed else "read_uncommitted"
        own = replace(
            config,
            api_timeout_ms=GIVES_UP_MS,
            fetch_max_wait_ms=WAIT_MS,
            fetch_max_bytes=FETCH_BYTES_MAX,
            max_partition_fetch_bytes=FETCH_BYTES_MAX,
            isolation_level=level,
        )
        self._cluster = AsyncCluster(config=own)
        self._fetches = PendingFetches(FetchCore(self._cluster))
        self._query = query
        self._positions = dict(positions)
        self._ends: dict[int, int] = {}
        """Where partitions end, by their leaders' last answers."""
        self._make = make
        self._was_caught_up = is_live
        self._behind_since: float | None = None
        self._tokens = float(BYTES_PER_S)
        self._filled_at = time.monotonic()
        self._clear()

    def _clear(self) -> None:
        self._rows: list[RecordRow] = []
        self._not_shown = 0
        self._skipped = 0
        self._problem: str | None = None
        self._make.renew_steps()

    async def events(self) -> AsyncGenerator[TailEvent, None]:
        """Events until the caller has enough; closes the tail's connections then."""
        said_at = time.monotonic()
        try:
            while True:
                await self._earn_bytes()
                await self._look()
                now = time.monotonic()
                is_quiet = not (self._rows or self._not_shown or self._skipped or self._problem)
                if is_quiet and now - said_at < QUIET_S:
                    continue
                pause_s = said_at + 1 / EVENTS_PER_S - now
                if pause_s > 0:
                    await asyncio.sleep(pause_s)
                said_at = time.monotonic()
                yield TailEvent(
                    self._rows,
                    self._not_shown,
                    self._skipped,
                    dict(self._positions),
                    self._problem,
                )
                self._clear()
        finally:
            await self._cluster.close()

    async def _earn_bytes(self) -> None:
        """Wait until bytes may be fetched."""
        while True:
            now = time.monotonic()
            self._tokens = min(BYTES_PER_S, self._tokens + BYTES_PER_S * (now - self._filled_at))
            self._filled_at = now
            if self._tokens > 0:
                return
            await asyncio.sleep(min(1.0, -self._tokens / BYTES_PER_S + 0.01))

    async def _look(self) -> None:
        """Take what leaders have answered with; wait for the first of them if none has."""
        try:
            answers = await self._cluster.run(self._fetches.receiving(self._wanted, WAIT_MS))
        except OffsetOutOfRange as error:
            await self._find_positions(error)
            return
        except ClientError as error:
            self._problem = str(error)
            await asyncio.sleep(TRY_AGAIN_S)
            return
        for answer in answers:
            self._tokens -= len(answer.records)
            if len(answer.records):
                await asyncio.to_thread(self._take, answer)
        self._catch_up(answers)

    def _wanted(self) -> dict[TopicPartition, FetchPosition]:
        topic = self._query.topic
        return {
            TopicPartition(topic, one): FetchPosition(offset)
            for one, offset in self._positions.items()
        }

    def _take(self, answer: Fetched) -> None:
        """Go through an answer, in a thread."""
        number = answer.partition.partition
        begin = self._positions[number]
        only = self._query.only_committed
        cursor = ForwardCursor(answer.partition, begin, OFFSET_MAX, only)
        cursor.lists_aborted = only
        try:
            cursor.take(answer, self._keep, EVENT_ROWS, lambda: False)
        except LookEnded:
            self._problem = "the filter costs too much to keep up with"
        # Under read_committed a cursor is done at the last stable offset, a tail goes on there.
        self._positions[number] = min(cursor.position, answer.next_offset)
        if cursor.tally.damage:
            self._problem = cursor.tally.damage[0]

    def _keep(self, found: Found) -> None:
        """Keep the row of a record that is wanted, while the event has room for it."""
        if self._make.wants(found):
            if len(self._rows) < EVENT_ROWS:
                self._rows.append(self._make.row(found))
            else:
                self._not_shown += 1

    def _catch_up(self, answers: list[Fetched]) -> None:
        """Go on at the end of the log when the tail has been behind for too long."""
        self._ends |= {one.partition.partition: one.high_watermark for one in answers}
        behind = {one: end for one, end in self._ends.items() if self._positions[one] < end}
        if self._query.only_committed or not behind:
            self._was_caught_up |= self._ends.keys() >= self._positions.keys()
            self._behind_since = None
            return
        now = time.monotonic()
        if self._behind_since is None:
            self._behind_since = now
        if self._was_caught_up and now - self._behind_since > BEHIND_S:
            for one, end in behind.items():
                self._skipped += end - self._positions[one]
                self._positions[one] = end
            self._behind_since = None

    async def _find_positions(self, error: ClientError) -> None:
        """Records were deleted, or the log was cut: go on within what there is."""
        self._problem = str(error)
        try:
            found = await self._cluster.run(
                finding_ranges(self._cluster, self._query, list(self._positions))
            )
        except ClientError as other:
            self._problem = str(other)
            await asyncio.sleep(TRY_AGAIN_S)
            return
        self._ends.clear()
        for one, log in found.items():
            kept = min(max(self._positions[one], log.log_start), log.log_end)
            self._skipped += max(0, kept - self._positions[one])
            self._positions[one] = kept
