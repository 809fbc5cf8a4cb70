"""A share partition with a log and a share coordinator, in memory: for tests of the machine.

The coordinator merges as Kafka's does: at each offset the higher delivery count wins, then the
higher state, and the start offset never goes back. Its answers are given when the test says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fencepost.machines.effects import Reply, SetTimer, TimerFired
from fencepost.machines.share.inputs import (
    LOCKS_TIMER,
    Acknowledge,
    AcknowledgedBatch,
    Acquire,
    Acquired,
    DeadLettersDone,
    Fenced,
    LetterRange,
    LogStartMoved,
    OffsetRange,
    Release,
    SendDeadLetters,
    ShareEffect,
    ShareInput,
    ShareLimits,
    StateWritten,
    WriteShareState,
)
from fencepost.machines.share.partition import SharePartition
from fencepost.machines.share.records import RecordState
from fencepost.machines.share.state_batch import StateBatch
from fencepost.wire.errors import ErrorCode


class StoredState:
    """What a share coordinator has of one share partition."""

    def __init__(self, start_offset: int = 0) -> None:
        self.start_offset = start_offset
        self.offsets: dict[int, tuple[int, int]] = {}
        """(delivery count, state) by offset."""

    def merge(self, start_offset: int, batches: Sequence[StateBatch]) -> None:
        """Take a write."""
        self.start_offset = max(self.start_offset, start_offset)
        for first, last, state, count in batches:
            for offset in range(first, last + 1):
                before = self.offsets.get(offset, (-1, -1))
                self.offsets[offset] = max(before, (count, state))
        self.offsets = {k: v for k, v in self.offsets.items() if k >= self.start_offset}

    @property
    def batches(self) -> list[StateBatch]:
        """One for each offset: what a leader restores does not depend on how they are joined."""
        return [
            StateBatch(offset, offset, state, count)
            for offset, (count, state) in sorted(self.offsets.items())
        ]


class ShareWorld:
    """See the module docstring."""

    def __init__(
        self, limits: ShareLimits | None = None, batches: Sequence[tuple[int, int]] = ()
    ) -> None:
        self.limits = limits or ShareLimits()
        self.log = [OffsetRange(*one) for one in batches]
        self.log_start = 0
        self.stored = StoredState()
        self.now_ms = 0
        self.machine = SharePartition.restore(0, (), self.limits)
        self.writes: list[WriteShareState] = []
        self.letters: list[LetterRange] = []
        self.replies: list[tuple[Any, ErrorCode]] = []
        self.timer_ms: int | None = None
        self.acquired: tuple[tuple[int, int, int], ...] = ()
        self.fenced: list[ErrorCode] = []
        self.take(self.machine.begin())

    def take(self, effects: Sequence[ShareEffect]) -> None:
        """Note what the machine asks for."""
        for effect in effects:
            match effect:
                case WriteShareState():
                    self.writes.append(effect)
                case SendDeadLetters(letters=letters):
                    self.letters += letters
                case Reply(token=token, value=result):
                    self.replies.append((token, result.error))
                case SetTimer(name=name, deadline_ms=deadline_ms):
                    assert name == LOCKS_TIMER
                    self.timer_ms = deadline_ms
                case Acquired(records=records):
                    self.acquired = records
                case Fenced(error=error):
                    self.fenced.append(error)

    def step(self, input_: ShareInput | TimerFired) -> None:
        """One input."""
        self.take(self.machine.step(input_, self.now_ms))

    def acquire(
        self,
        member_id: str = "a",
        max_records: int = 500,
        *,
        batch_size: int = 500,
        exact: bool = False,
        aborted: Sequence[tuple[int, int]] = (),
        read_batches: int = 100,
    ) -> list[tuple[int, int, int]]:
        """Read the log where the machine wants it, and acquire."""
        offset = max(self.machine.next_fetch_offset, self.log_start)
        found = [batch for batch in self.log if batch.last >= offset][:read_batches]
        if not found:
            return []
        ranges = [OffsetRange(*one) for one in aborted]
        self.step(Acquire(member_id, found, max_records, batch_size, exact, ranges))
        return list(self.acquired)

    def acknowledge(
        self, first: int, last: int, *types: int, member_id: str = "a", token: Any = "ack"
    ) -> None:
        """One batch."""
        batches = [AcknowledgedBatch(first, last, types)]
        self.step(Acknowledge(member_id, batches, token))

    def release(self, member_id: str = "a") -> None:
        """The member's session ends."""
        self.step(Release(member_id, "released"))

    def answer(self, error: ErrorCode = ErrorCode.NONE, place: int = 0) -> None:
        """The coordinator takes one of the writes, or refuses it."""
        write = self.writes.pop(place)
        if error is ErrorCode.NONE:
            self.stored.merge(write.start_offset, write.batches)
        self.step(StateWritten(write.ticket, error))

    def pass_time(self, ms: int) -> None:
        """The clock goes on, and the timer fires if it is due."""
        self.now_ms += ms
        while self.timer_ms is not None and self.timer_ms <= self.now_ms:
            self.timer_ms = None
            self.step(TimerFired(LOCKS_TIMER))

    def finish_letters(self) -> None:
        """All letters are written."""
        letters, self.letters = self.letters, []
        for one in letters:
            self.step(DeadLettersDone(one))

    def move_log_start(self, offset: int) -> None:
        """Records in front of it are deleted."""
        self.log_start = max(self.log_start, offset)
        self.step(LogStartMoved(offset))

    def crash(self) -> None:
        """Another leader begins with what is stored."""
        self.writes, self.letters, self.replies, self.timer_ms = [], [], [], None
        stored = self.stored
        self.machine = SharePartition.restore(stored.start_offset, stored.batches, self.limits)
        self.take(self.machine.begin())
        if self.log_start > self.machine.start_offset:
            self.step(LogStartMoved(self.log_start))

    @property
    def states(self) -> list[tuple[int, int, str, int]]:
        """(first, last, state, delivery count) of all runs."""
        return [
            (run.first, run.last, run.state.name, run.delivery_count) for run in self.machine.runs
        ]

    def state_of(self, offset: int) -> RecordState | None:
        """The state of an offset in flight."""
        for run in self.machine.runs:
            if run.first <= offset <= run.last:
                return run.state
        return None
