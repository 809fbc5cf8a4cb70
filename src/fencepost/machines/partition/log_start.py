"""Where a replica's log starts, and the DeleteRecords requests that move it (KIP-107).

A DeleteRecords request waits until every live replica has deleted, too.
A leader's own log starts at the new offset at once. Followers read it in the answer to their next
fetch, and name with the fetch after it where their logs start; the least of all those is the low
watermark. A replica whose broker is fenced does not count.

There are few of these requests, so they are looked through one by one; beyond `MAX_WAITING`, which
clients with deadlines of days may reach, a request times out at once.
"""

from __future__ import annotations

from typing import Any, Final

from fencepost.machines.effects import DropPrefix, Persist
from fencepost.machines.outbox import StepOutbox
from fencepost.machines.partition.inputs import AdvanceLogStart, DeleteRecordsResult
from fencepost.machines.partition.isr import LeaderState
from fencepost.machines.partition.part import PartitionPart
from fencepost.machines.partition.queries import ANY_LEADER_EPOCH, PartitionQueries
from fencepost.wire.errors import ErrorCode

DELETIONS_TIMER: Final = "delete-records"
MAX_WAITING: Final = 1_000


class WaitingDeletions:
    """The requests that wait for a low watermark; what becomes of them goes to the outbox."""

    __slots__ = ("_outbox", "_waiting")

    def __init__(self, outbox: StepOutbox) -> None:
        self._outbox = outbox
        self._waiting: list[tuple[int, int, Any]] = []  # (offset, deadline, token)

    def __bool__(self) -> bool:
        return bool(self._waiting)

    @property
    def is_full(self) -> bool:
        """Whether no more requests may wait."""
        return len(self._waiting) >= MAX_WAITING

    def add(self, offset: int, deadline_ms: int, token: Any) -> None:
        """Answer `token` once the low watermark has reached `offset`."""
        self._waiting.append((offset, deadline_ms, token))
        self._outbox.set_timer(DELETIONS_TIMER, min(entry[1] for entry in self._waiting))

    def release(self, low_watermark: int) -> None:
        """Answer the requests that wait for no more than `low_watermark`."""
        done = [entry for entry in self._waiting if entry[0] <= low_watermark]
        if done:
            self._waiting = [entry for entry in self._waiting if entry[0] > low_watermark]
            result = DeleteRecordsResult(ErrorCode.NONE, low_watermark)
            for _, _, token in done:
                self._outbox.reply(token, result)

    def expire(self, low_watermark: int, now_ms: int) -> None:
        """The timer fired: requests past their deadline time out, and say how far deletion got."""
        result = DeleteRecordsResult(ErrorCode.REQUEST_TIMED_OUT, low_watermark)
        for _, at_ms, token in self._waiting:
            if at_ms <= now_ms:
                self._outbox.reply(token, result)
        self._waiting = [entry for entry in self._waiting if entry[1] > now_ms]
        if self._waiting:
            self._outbox.set_timer(DELETIONS_TIMER, min(entry[1] for entry in self._waiting))

    def refuse_all(self, error: ErrorCode) -> None:
        """The replica does not lead any more, and cannot say how far deletion got."""
        waiting, self._waiting = self._waiting, []
        result = DeleteRecordsResult(error)
        for _, _, token in waiting:
            self._outbox.reply(token, result)


class LogStart(PartitionPart):
    """Advances the start of the log, and holds the requests that wait for the low watermark."""

    __slots__ = ("waiting",)

    def __init__(self, partition: PartitionQueries, outbox: StepOutbox) -> None:
        super().__init__(partition, outbox)
        self.waiting = WaitingDeletions(outbox)

    def step_advance(self, wanted: AdvanceLogStart, now_ms: int) -> None:
        """Retention, or a client's DeleteRecords, wants records before an offset deleted."""
        partition, outbox = self._partition, self._outbox
        offset, token, deadline_ms = wanted
        error = None
        if token is not None:
            error = partition.check_asker(ANY_LEADER_EPOCH, True)
            offset = partition.high_watermark if offset == -1 else offset
        elif partition.closed is not None:
            return
        if error is None and not 0 <= offset <= partition.high_watermark:
            error = ErrorCode.OFFSET_OUT_OF_RANGE
        if error is not None:
            if token is not None:
                outbox.reply(token, DeleteRecordsResult(error))
            return
        # Also where it starts there already: files may be left of what was deleted before.
        start_offset = max(offset, partition.log.start_offset)
        outbox.emit(Persist(DropPrefix(start_offset)))
        if token is None:
            return
        assert partition.leader_state is not None, "only leaders are asked"
        low_watermark = partition.leader_state.low_watermark(start_offset)
        if low_watermark >= offset:
            outbox.reply(token, DeleteRecordsResult(ErrorCode.NONE, low_watermark))
        elif deadline_ms <= now_ms or self.waiting.is_full:
            outbox.reply(token, DeleteRecordsResult(ErrorCode.REQUEST_TIMED_OUT, low_watermark))
        else:
            self.waiting.add(offset, deadline_ms, token)

    def release(self, leader: LeaderState) -> None:
        """Answer the requests whose records all live replicas have deleted."""
        if self.waiting:
            self.waiting.release(leader.low_watermark(self._partition.log.start_offset))

    def step_deadline(self, now_ms: int) -> None:
        """The timer of waiting requests fired."""
        leader = self._partition.leader_state
        if leader is not None:
            low_watermark = leader.low_watermark(self._partition.log.start_offset)
            self.waiting.expire(low_watermark, now_ms)
