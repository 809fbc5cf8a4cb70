"""What the parts of a share partition's machine share: the records in flight, and what leaves it.

Theory of operation of writes
-----------------------------
What changes for good is written to the share coordinator. Two kinds of change are written:

* of two phases (acknowledgements, the end of a session): the runs are in transition until the
  coordinator has answered; with success the change holds and the member is answered, with an error
  every run returns to what it was, or to what the lock's end has made of it meanwhile;
* changes that hold at once (a lock has run out, a dead letter is written): a write that fails
  undoes nothing. If the leader crashes before another write, the change is decided again.

A write has the start offset that its own changes lead to: they are stored together, or not at all.
Several writes may be under way, of ranges that do not overlap, or of one range with delivery counts
that tell which is later: the coordinator merges by them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from msgspec import Struct

from fencepost.machines.effects import Reply, SetTimer
from fencepost.machines.share.in_flight import RUNS_PER_PIECE, InFlight, Run
from fencepost.machines.share.inputs import (
    LOCKS_TIMER,
    AcknowledgeResult,
    LetterRange,
    MayAcquire,
    OffsetRange,
    SendDeadLetters,
    ShareEffect,
    ShareLimits,
    WriteShareState,
)
from fencepost.machines.share.pieces import Pieces
from fencepost.machines.share.records import DeadLetterCause, RecordState
from fencepost.machines.share.state_batch import StateBatch
from fencepost.wire.errors import ErrorCode

WRITE_ERRORS: Final = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.GROUP_ID_NOT_FOUND: ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.FENCED_LEADER_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_STATE_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
}
"""What a consumer is answered for the share coordinator's errors; for others the error is -1."""

FENCING: Final = frozenset((ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.FENCED_STATE_EPOCH))
"""Errors after which another leader, or a state that was begun again, has taken over."""


def error_for_consumer(error: ErrorCode) -> ErrorCode:
    """What a consumer is answered when the share coordinator answers `error`."""
    if error is ErrorCode.NONE:
        return error
    return WRITE_ERRORS.get(error, ErrorCode.UNKNOWN_SERVER_ERROR)


class WriteUnderWay(Struct):
    """A write to the share coordinator that is not answered."""

    ranges: list[OffsetRange]
    letters: list[LetterRange]
    token: Any
    """Answered with what became of the write; None for a change that holds at once."""
    has_two_phases: bool


class ShareState:
    """See the module docstring."""

    def __init__(self, in_flight: InFlight, limits: ShareLimits) -> None:
        self.in_flight = in_flight
        self.limits = limits
        self.writes: dict[int, WriteUnderWay] = {}
        self.effects: list[ShareEffect] = []
        self._last_ticket = 0
        self._armed_ms: int | None = None

    def reply(self, token: Any, error: ErrorCode, message: str | None = None) -> None:
        """Answer the request with that token, if one waits."""
        if token is not None:
            self.effects.append(Reply(token, AcknowledgeResult(error, message)))

    def give_up(self, run: Run) -> RecordState:
        """The state of records that are not to be delivered again."""
        has_letters = self.limits.has_dead_letters
        return RecordState.ARCHIVING if has_letters else RecordState.ARCHIVED

    def after_release(self, run: Run) -> RecordState:
        """The state of an acquired run when its member gives it back, or has lost the lock."""
        if run.delivery_count >= self.limits.delivery_count_limit:
            return self.give_up(run)
        return RecordState.AVAILABLE

    def write(self, changes: Iterable[tuple[Run, DeadLetterCause]], write: WriteUnderWay) -> Pieces:
        """Write the runs' states; for those to be given up, letters follow for that cause."""
        batches: list[StateBatch] = []
        changed: set[Run] = set()
        for number, (run, cause) in enumerate(changes, 1):
            if not number % RUNS_PER_PIECE:
                yield None
            changed.add(run)
            write.ranges.append(OffsetRange(run.first, run.last))
            if run.state is RecordState.ARCHIVING:
                letters = LetterRange(run.first, run.last, run.delivery_count, cause)
                write.letters.append(letters)
            batch = StateBatch(run.first, run.last, int(run.state), run.delivery_count)
            before = batches[-1] if batches else None
            if before and before.last_offset + 1 == batch.first_offset and before[2:] == batch[2:]:
                batches[-1] = before._replace(last_offset=batch.last_offset)
            else:
                batches.append(batch)
        self._last_ticket += 1
        self.writes[self._last_ticket] = write
        start_offset, complete_count = yield from self.in_flight.after(changed)
        self.effects.append(
            WriteShareState(self._last_ticket, start_offset, complete_count, tuple(batches))
        )

    def send_letters(self, letters: Iterable[LetterRange]) -> None:
        """Have letters written for what is still in flight of the ranges."""
        start = self.in_flight.start_offset
        left = [one._replace(first=max(one.first, start)) for one in letters if one.last >= start]
        if left:
            self.effects.append(SendDeadLetters(tuple(left)))

    def settle(self, ranges: Sequence[OffsetRange]) -> Pieces:
        """The ranges, in order, have changed: join what is complete, advance the start, wake
        fetches."""
        in_flight = self.in_flight
        for begin in range(0, len(ranges), RUNS_PER_PIECE):
            if begin:
                yield None
            last = ranges[min(begin + RUNS_PER_PIECE, len(ranges)) - 1].last
            yield from in_flight.join_settled(ranges[begin].first, last)
        in_flight.pass_settled()
        self.effects.append(MayAcquire())

    def arm(self, deadline_ms: int) -> None:
        """Look at the locks at that time at the latest."""
        if self._armed_ms is None or deadline_ms < self._armed_ms:
            self._armed_ms = deadline_ms
            self.effects.append(SetTimer(LOCKS_TIMER, deadline_ms))

    def disarm(self) -> None:
        """The timer has fired."""
        self._armed_ms = None
