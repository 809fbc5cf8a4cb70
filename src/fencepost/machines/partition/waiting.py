"""Produce requests that wait: acks=1 for the leader's own disk, acks=all for the high watermark.

Answers are released in the order of offsets, as what they wait for passes them; a retry of a batch
that is still on its way waits for the original's offset, so it may stand in front of younger ones.
Only acks=all has deadlines, as in Kafka: with acks=1 there is no other replica to wait for. For the
same reason a deadline does not count once the followers have the batch, or there are none: what is
left is the leader's own fsync, for which Kafka does not wait. Deadlines differ from the order of
offsets, so they are looked through only when the one timer fires. That timer is armed when a
request waits, left armed when none does any more, and re-armed at most once per firing: a stream of
produce requests costs no timer work but the first.

There is no bound here: a connection may have only so many requests in flight.
"""

from __future__ import annotations

import heapq
from typing import Any, Final

from fencepost.machines.outbox import StepOutbox
from fencepost.machines.partition.inputs import ProduceResult
from fencepost.wire.errors import ErrorCode

TIMER = "produce"
NO_DEADLINE_MS: Final = 1 << 63


class WaitingProduces:
    """The requests that wait for an offset; what becomes of them goes to the outbox."""

    __slots__ = ("_armed_ms", "_heap", "_order", "_outbox")

    def __init__(self, outbox: StepOutbox) -> None:
        self._outbox = outbox
        # (last offset, order of arrival, deadline, token, answer, batches)
        self._heap: list[tuple[int, int, int, Any, ProduceResult, int]] = []
        self._order = 0
        self._armed_ms = NO_DEADLINE_MS

    def __len__(self) -> int:
        """Batches that wait."""
        return sum([entry[5] for entry in self._heap])

    def add(
        self,
        last_offset: int,
        deadline_ms: int,
        token: Any,
        result: ProduceResult,
        batches: int = 1,
    ) -> None:
        """Answer `token` with `result` once `release` is called with more than `last_offset`.

        The request has so many batches, which are acknowledged together.
        """
        self._order += 1
        heapq.heappush(self._heap, (last_offset, self._order, deadline_ms, token, result, batches))
        if deadline_ms < self._armed_ms:
            self._armed_ms = deadline_ms
            self._outbox.set_timer(TIMER, deadline_ms)

    def release(self, end_offset: int) -> None:
        """Answer the requests that wait for an offset below `end_offset`."""
        heap = self._heap
        while heap and heap[0][0] < end_offset:
            entry = heapq.heappop(heap)
            self._outbox.reply(entry[3], entry[4])

    def expire(self, now_ms: int, followers_end: int) -> None:
        """The timer fired: refuse what followers should have by now.

        What is below `followers_end` waits for the leader's disk alone, from now on without a
        deadline.
        """
        staying = [entry for entry in self._heap if entry[2] > now_ms]
        if len(staying) < len(self._heap):
            expired = []
            for entry in self._heap:
                if entry[2] <= now_ms:
                    if entry[0] < followers_end:
                        staying.append((*entry[:2], NO_DEADLINE_MS, *entry[3:]))
                    else:
                        expired.append(entry)
            heapq.heapify(staying)
            self._heap = staying
            self._refuse(expired, ErrorCode.REQUEST_TIMED_OUT)
        self._armed_ms = min((entry[2] for entry in staying), default=NO_DEADLINE_MS)
        if self._armed_ms < NO_DEADLINE_MS:
            self._outbox.set_timer(TIMER, self._armed_ms)

    def refuse_all(self, error: ErrorCode) -> None:
        """No batch that waits can be acknowledged any more."""
        waiting, self._heap = self._heap, []
        self._refuse(waiting, error)

    def _refuse(
        self, entries: list[tuple[int, int, int, Any, ProduceResult, int]], error: ErrorCode
    ) -> None:
        result = ProduceResult(error)
        for entry in sorted(entries, key=_arrival):
            self._outbox.reply(entry[3], result)


def _arrival(entry: tuple[int, int, int, Any, ProduceResult, int]) -> int:
    return entry[1]
