"""The share partition: a partition of a topic as one share group reads it, at its leader (KIP-932).

Theory of operation
-------------------
The machine knows which offsets are delivered to whom, and what became of them. It is stepped with
what members and the node do (`inputs`) and answers with effects. It reads no log: `Acquire` brings
the bounds of the record batches that were read at `next_fetch_offset`. It is as durable as the
share coordinator makes it: what is written and merged there is what `restore` begins with, in the
next leader or after a crash.

Invariants, which the tests check after every step:

* an offset is acquired by one member at a time;
* the start offset passes no record that is not in a terminal state;
* no record is delivered more often than `delivery_count_limit`;
* a record that was acknowledged to a member as accepted is not delivered again, by a new leader
  neither; every other record ends in a terminal state or is available again.

Rooms: `in_flight` has the offsets, `acquiring` and `acknowledging` decide, `part` is what they
share. The states and who changes them:

| from | event | to |
|--|--|--|
| AVAILABLE | acquired | ACQUIRED, delivery count + 1, locked |
| ACQUIRED | accept | ACKNOWLEDGED |
| ACQUIRED | release, end of the session or of the lock | AVAILABLE; at the limit given up |
| ACQUIRED | reject | given up: ARCHIVED, or ARCHIVING with a dead letter queue |
| ACQUIRED | renew | ACQUIRED, locked again, nothing written |
| ACQUIRED | gap | ARCHIVED |
| AVAILABLE | not in the log any more, or aborted | ARCHIVED, not written |
| ARCHIVING | the letter is written, or cannot be | ARCHIVED |
| any | the log's start passes it | out of flight |
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from fencepost.machines.effects import TimerFired
from fencepost.machines.share import acknowledging
from fencepost.machines.share.acquiring import Acquiring, can_acquire
from fencepost.machines.share.in_flight import InFlight, Run
from fencepost.machines.share.inputs import (
    Acknowledge,
    Acquire,
    DeadLettersDone,
    Fenced,
    LetterRange,
    LogStartMoved,
    MayAcquire,
    OffsetRange,
    Release,
    ShareEffect,
    ShareInput,
    ShareLimits,
    StateWritten,
)
from fencepost.machines.share.part import FENCING, ShareState, WriteUnderWay, error_for_consumer
from fencepost.machines.share.pieces import PieceOf, Pieces, finish
from fencepost.machines.share.records import DeadLetterCause, RecordState
from fencepost.machines.share.state_batch import StateBatch


class InvalidStateError(Exception):
    """What is stored of a share partition cannot be: batches overlap or begin before the start,
    there is no such state, count or offset."""


OFFSET_MAX: Final = (1 << 63) - 1
"""No record has it: the offset behind the last record is one, too."""


class SharePartition:
    """See the module docstring."""

    def __init__(self, in_flight: InFlight, limits: ShareLimits) -> None:
        self._state = ShareState(in_flight, limits)

    @classmethod
    def restore(
        cls, start_offset: int, batches: Sequence[StateBatch], limits: ShareLimits
    ) -> SharePartition:
        """The share partition of that durable state. InvalidStateError.

        Offsets between batches were delivered and never acknowledged: they are available. `begin`
        is to be called once.
        """
        in_flight = InFlight(start_offset)
        for first, last, state, count in batches:
            is_range = in_flight.end_offset < first <= last < OFFSET_MAX
            if not is_range or count < 0 or not _is_stored_state(state):
                raise InvalidStateError(f"batch {first}-{last} {state} at {in_flight.end_offset}")
            if first > in_flight.end_offset + 1:
                in_flight.append(Run(in_flight.end_offset + 1, first - 1, RecordState.AVAILABLE))
            in_flight.append(Run(first, last, RecordState(state), count))
        return cls(in_flight, limits)

    def begin(self) -> list[ShareEffect]:
        """Pass what is complete, and go on with dead letters that a former leader has begun."""
        state = self._state
        letters = [
            LetterRange(run.first, run.last, run.delivery_count, self._cause_of(run))
            for run in state.in_flight.runs
            if run.state is RecordState.ARCHIVING
        ]
        state.send_letters(letters)
        whole = OffsetRange(state.in_flight.start_offset, state.in_flight.end_offset)
        finish(state.settle([whole]))
        effects, state.effects = state.effects, []
        return effects

    def _cause_of(self, run: Run) -> DeadLetterCause:
        """Why a former leader has given the records up, as far as their count tells."""
        is_at_limit = run.delivery_count >= self.limits.delivery_count_limit
        return DeadLetterCause.DELIVERY_COUNT if is_at_limit else DeadLetterCause.REJECTED

    # -- looking ---------------------------------------------------------------------------

    @property
    def limits(self) -> ShareLimits:
        """What the group's configs say; may be set, and counts from the next input on."""
        return self._state.limits

    @limits.setter
    def limits(self, limits: ShareLimits) -> None:
        self._state.limits = limits

    @property
    def start_offset(self) -> int:
        """The first offset whose delivery is not complete (SPSO)."""
        return self._state.in_flight.start_offset

    @property
    def end_offset(self) -> int:
        """The last offset that was acquired (SPEO); in front of the start if none is in flight."""
        return self._state.in_flight.end_offset

    @property
    def next_fetch_offset(self) -> int:
        """Where the log is to be read for the next `Acquire`."""
        return self._state.in_flight.next_fetch_offset()

    @property
    def can_acquire(self) -> bool:
        """Whether records would be acquired, if the log has some at `next_fetch_offset`."""
        return can_acquire(self._state)

    @property
    def in_flight_records(self) -> int:
        """How many offsets are in flight."""
        return self._state.in_flight.records

    @property
    def is_writing(self) -> bool:
        """Whether the share coordinator has a write to answer."""
        return bool(self._state.writes)

    @property
    def runs(self) -> list[Run]:
        """The offsets in flight, in order; to be read only."""
        return list(self._state.in_flight.runs)

    # -- inputs ----------------------------------------------------------------------------

    def step(self, input_: ShareInput | TimerFired, now_ms: int) -> list[ShareEffect]:
        """Take one input at `now_ms` and say what is to be done about it, in order."""
        return finish(self.in_pieces(input_, now_ms))

    def in_pieces(self, input_: ShareInput | TimerFired, now_ms: int) -> PieceOf[list[ShareEffect]]:
        """The same in pieces; one, unless thousands of records each have a state of their own.

        Between two pieces nothing may be asked of the machine.
        """
        state = self._state
        match input_:
            case Acquire():
                Acquiring(state, input_, now_ms).run()
            case Acknowledge():
                yield from acknowledging.acknowledge(state, input_, now_ms)
            case Release():
                yield from acknowledging.release(state, input_.member_id, input_.token)
            case StateWritten():
                yield from self._have_written(input_)
            case TimerFired():
                yield from acknowledging.expire_locks(state, now_ms)
            case LogStartMoved():
                if state.in_flight.start_at(input_.offset):
                    state.effects.append(MayAcquire())
            case DeadLettersDone():
                yield from self._archive(input_.letters)
        effects, state.effects = state.effects, []
        return effects

    def _have_written(self, written: StateWritten) -> Pieces:
        state = self._state
        write = state.writes.pop(written.ticket, None)
        if write is None:
            return
        yield from acknowledging.have_written(state, write, not written.error)
        error = error_for_consumer(written.error)
        state.reply(write.token, error)
        if written.error in FENCING:
            state.effects.append(Fenced(error))

    def _archive(self, letters: LetterRange) -> Pieces:
        """The letters of a range are done with: the records are archived, and that is written."""
        state, done = self._state, []
        first = max(letters.first, state.in_flight.start_offset)
        for run in state.in_flight.cut(first, letters.last) if first <= letters.last else ():
            if run.state is RecordState.ARCHIVING and run.before is None:
                run.state = RecordState.ARCHIVED
                done.append((run, letters.cause))
        if done:
            write = WriteUnderWay([], [], None, has_two_phases=False)
            yield from state.write(done, write)
            yield from state.settle(write.ranges)


def _is_stored_state(state: int) -> bool:
    """Whether it is a state that is ever written."""
    return state != RecordState.ACQUIRED and state in RecordState._value2member_map_
