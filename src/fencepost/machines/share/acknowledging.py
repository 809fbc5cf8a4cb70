"""What acknowledgements, the end of a session, and locks that run out make of acquired records.

All batches of one acknowledgement are looked at first and change nothing: one that is refused
refuses all of them. In this order (groups of KIP-932, as Kafka 4.4 answers):

| case | answer |
|--|--|
| wholly in front of the start offset | nothing to do |
| nothing is in flight, or an offset is not acquired by the member, or in transition | 121 |
| the first or the last offset is past what was acquired | 42 |
| renewal that the group's configs do not allow | 121 |
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

from fencepost.machines.share.in_flight import RUNS_PER_PIECE, Run
from fencepost.machines.share.inputs import Acknowledge, AcknowledgedBatch, OffsetRange
from fencepost.machines.share.part import ShareState, WriteUnderWay
from fencepost.machines.share.pieces import PieceOf, Pieces
from fencepost.machines.share.records import AcknowledgeType, DeadLetterCause, RecordState
from fencepost.wire.errors import ErrorCode

NOT_FOUND: Final = "Batch record not found. The request batch offsets are not found in the cache."
FIRST_PAST_END: Final = (
    "Batch record not found. The first offset in request is past acquired records."
)
LAST_PAST_END: Final = (
    "Batch record not found. The last offset in request is past acquired records."
)
NOT_ACQUIRED: Final = "The offset cannot be acknowledged. The offset is not acquired."
OTHERS_BATCH: Final = "Member is not the owner of batch record"
OTHERS_OFFSET: Final = "Member is not the owner of offset"
RENEWAL_OFF: Final = "Renewing acquisition locks is not enabled for the group."

Change = tuple[OffsetRange, AcknowledgeType]
Written = tuple[Run, DeadLetterCause]


def acknowledge(state: ShareState, said: Acknowledge, now_ms: int) -> Pieces:
    """Take the acknowledgement, or refuse all of it."""
    taken: list[AcknowledgedBatch] = []
    end = -1
    for number, batch in enumerate(said.batches, 1):
        if not number % RUNS_PER_PIECE:
            yield None
        if batch.last < state.in_flight.start_offset:
            continue
        refusal = yield from _refusal(state, said.member_id, batch, end)
        if refusal is not None:
            state.reply(said.token, *refusal)
            return
        taken.append(batch)
        end = max(end, batch.last)
    yield from _carry_out(state, said, taken, now_ms)


def _refusal(
    state: ShareState, member_id: str, batch: AcknowledgedBatch, end: int
) -> PieceOf[tuple[ErrorCode, str] | None]:
    """Why the batch cannot be taken, with Kafka's text; None if it can. `end` is the last offset of
    those before."""
    in_flight = state.in_flight
    if not len(in_flight):
        return ErrorCode.INVALID_RECORD_STATE, NOT_FOUND
    if batch.first > in_flight.end_offset:
        return ErrorCode.INVALID_REQUEST, FIRST_PAST_END
    if batch.last > in_flight.end_offset:
        return ErrorCode.INVALID_REQUEST, LAST_PAST_END
    first = max(batch.first, in_flight.start_offset)
    if first <= end:
        return ErrorCode.INVALID_RECORD_STATE, NOT_ACQUIRED
    for number, run in enumerate(in_flight.covering(first, batch.last), 1):
        if not number % RUNS_PER_PIECE:
            yield None
        if run.state is not RecordState.ACQUIRED or run.before is not None:
            return ErrorCode.INVALID_RECORD_STATE, NOT_ACQUIRED
        if run.member_id != member_id:
            text = OTHERS_BATCH if run.size == run.batch_records else OTHERS_OFFSET
            return ErrorCode.INVALID_RECORD_STATE, text
    if not state.limits.renew_acknowledge_enable and AcknowledgeType.RENEW in batch.types:
        return ErrorCode.INVALID_RECORD_STATE, RENEWAL_OFF
    return None


def _by_type(batch: AcknowledgedBatch, start_offset: int) -> Iterator[Change]:
    """Ranges of one type each, from the start offset on."""
    first = max(batch.first, start_offset)
    if len(batch.types) == 1:
        yield OffsetRange(first, batch.last), AcknowledgeType(batch.types[0])
        return
    types = batch.types[first - batch.first :]
    begin = 0
    for place in range(1, len(types) + 1):
        if place == len(types) or types[place] != types[begin]:
            yield OffsetRange(first + begin, first + place - 1), AcknowledgeType(types[begin])
            begin = place


def _carry_out(
    state: ShareState, said: Acknowledge, taken: Sequence[AcknowledgedBatch], now_ms: int
) -> Pieces:
    in_flight = state.in_flight
    start_offset = in_flight.start_offset
    written: list[Written] = []
    changes = (change for batch in taken for change in _by_type(batch, start_offset))
    looked_at = 0
    while piece := list(islice(changes, RUNS_PER_PIECE)):
        in_flight.cut_all([offsets for offsets, _ in piece])
        for (first, last), kind in piece:
            for run in in_flight.covering(first, last):
                looked_at += 1
                if not looked_at % RUNS_PER_PIECE:
                    yield None
                if kind is AcknowledgeType.RENEW:
                    run.deadline_ms = now_ms + state.limits.record_lock_duration_ms
                    continue
                run.before = run.state
                run.state = _state_after(state, run, kind)
                written.append((run, _cause(kind)))
    if written:
        yield from state.write(written, WriteUnderWay([], [], said.token, has_two_phases=True))
    else:
        state.reply(said.token, ErrorCode.NONE)


def _cause(kind: AcknowledgeType) -> DeadLetterCause:
    """Why records with that acknowledgement are given up, if they are."""
    is_rejected = kind is AcknowledgeType.REJECT
    return DeadLetterCause.REJECTED if is_rejected else DeadLetterCause.DELIVERY_COUNT


def _state_after(state: ShareState, run: Run, kind: AcknowledgeType) -> RecordState:
    """The state that an acknowledgement, other than a renewal, leads to."""
    if kind is AcknowledgeType.ACCEPT:
        return RecordState.ACKNOWLEDGED
    if kind is AcknowledgeType.RELEASE:
        return state.after_release(run)
    if kind is AcknowledgeType.REJECT:
        return state.give_up(run)
    return RecordState.ARCHIVED


def release(state: ShareState, member_id: str, token: object) -> Pieces:
    """The member's session has ended: give back what it holds."""
    written: list[Written] = []
    for number, run in enumerate(state.in_flight.runs, 1):
        if not number % RUNS_PER_PIECE:
            yield None
        is_held = run.state is RecordState.ACQUIRED and run.before is None
        if is_held and run.member_id == member_id:
            run.before = run.state
            run.state = state.after_release(run)
            written.append((run, DeadLetterCause.DELIVERY_COUNT))
    if written:
        yield from state.write(written, WriteUnderWay([], [], token, has_two_phases=True))
    else:
        state.reply(token, ErrorCode.NONE)


def expire_locks(state: ShareState, now_ms: int) -> Pieces:
    """The timer has fired: locks that have run out are lost, and the next one is waited for."""
    state.disarm()
    written: list[Written] = []
    next_ms: int | None = None
    for number, run in enumerate(state.in_flight.runs, 1):
        if not number % RUNS_PER_PIECE:
            yield None
        if run.state is not RecordState.ACQUIRED or run.before is not None:
            continue
        if run.deadline_ms <= now_ms:
            run.state = state.after_release(run)
            run.member_id = ""
            written.append((run, DeadLetterCause.DELIVERY_COUNT))
        elif next_ms is None or run.deadline_ms < next_ms:
            next_ms = run.deadline_ms
    if next_ms is not None:
        state.arm(next_ms)
    if written:
        for run, _ in written:
            state.in_flight.note_available(run)
        write = WriteUnderWay([], [], None, has_two_phases=False)
        yield from state.write(written, write)
        yield from state.settle(write.ranges)


def have_written(state: ShareState, write: WriteUnderWay, is_stored: bool) -> Pieces:
    """A write has ended: its changes hold, or what has two phases returns to what it was."""
    in_flight = state.in_flight
    holds = is_stored or not write.has_two_phases
    looked_at = 0
    if write.has_two_phases:
        for first, last in write.ranges:
            for run in in_flight.covering(first, last):
                looked_at += 1
                if not looked_at % RUNS_PER_PIECE:
                    yield None
                _end_transition(state, run, is_stored)
    if holds:
        state.send_letters(write.letters)
    if write.has_two_phases:
        yield from state.settle(write.ranges)


def _end_transition(state: ShareState, run: Run, is_stored: bool) -> None:
    before, run.before = run.before, None
    if before is None:
        return
    if is_stored:
        run.member_id = ""
        state.in_flight.note_available(run)
    else:
        run.state = before
        state.arm(run.deadline_ms)
