"""Where a replica's log starts, and the DeleteRecords requests that move it (KIP-107)."""

from __future__ import annotations

from fencepost.machines.effects import DropPrefix, Persist
from fencepost.machines.outbox import StepOutbox
from fencepost.machines.partition.deletions import WaitingDeletions
from fencepost.machines.partition.inputs import AdvanceLogStart, DeleteRecordsResult
from fencepost.machines.partition.isr import LeaderState
from fencepost.machines.partition.part import PartitionPart
from fencepost.machines.partition.queries import ANY_LEADER_EPOCH, PartitionQueries
from fencepost.wire.errors import ErrorCode


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
