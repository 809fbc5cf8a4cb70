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

from collections.abc import Iterator
from typing import Final

from fencepost.machines.share.in_flight import Run
from fencepost.machines.share.inputs import Acknowledge, AcknowledgedBatch, OffsetRange
from fencepost.machines.share.part import ShareState, WriteUnderWay
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


def acknowledge(state: ShareState, said: Acknowledge, now_ms: int) -> None:
    """Take the acknowledgement, or refuse all of it."""
    changes: list[Change] = []
    end = -1
    for batch in said.batches:
        if batch.last < state.in_flight.start_offset:
            continue
        refusal = _refusal(state, said.member_id, batch, end)
        if refusal is not None:
            state.reply(said.token, *refusal)
            return
        changes += _by_type(batch, state.in_flight.start_offset)
        end = max(end, batch.last)
    _carry_out(state, said, changes, now_ms)


def _refusal(
    state: ShareState, member_id: str, batch: AcknowledgedBatch, end: int
) -> tuple[ErrorCode, str] | None:
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
    for run in in_flight.covering(first, batch.last):
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


def _carry_out(state: ShareState, said: Acknowledge, changes: list[Change], now_ms: int) -> None:
    in_flight, written = state.in_flight, []
    in_flight.cut_all([offsets for offsets, _ in changes])
    for (first, last), kind in changes:
        for run in in_flight.covering(first, last):
            if kind is AcknowledgeType.RENEW:
                run.deadline_ms = now_ms + state.limits.record_lock_duration_ms
                continue
            run.before = run.state
            run.state = _state_after(state, run, kind)
            cause = (
                DeadLetterCause.REJECTED
                if kind is AcknowledgeType.REJECT
                else DeadLetterCause.DELIVERY_COUNT
            )
            written.append((run, cause))
    if written:
        state.write(written, WriteUnderWay([], [], said.token, has_two_phases=True))
    else:
        state.reply(said.token, ErrorCode.NONE)


def _state_after(state: ShareState, run: Run, kind: AcknowledgeType) -> RecordState:
    """The state that an acknowledgement, other than a renewal, leads to."""
    if kind is AcknowledgeType.ACCEPT:
        return RecordState.ACKNOWLEDGED
    if kind is AcknowledgeType.RELEASE:
        return state.after_release(run)
    if kind is AcknowledgeType.REJECT:
        return state.give_up(run)
    return RecordState.ARCHIVED


def release(state: ShareState, member_id: str, token: object) -> None:
    """The member's session has ended: give back what it holds."""
    written = []
    for run in state.in_flight.runs:
        is_held = run.state is RecordState.ACQUIRED and run.before is None
        if is_held and run.member_id == member_id:
            run.before = run.state
            run.state = state.after_release(run)
            written.append((run, DeadLetterCause.DELIVERY_COUNT))
    if written:
        state.write(written, WriteUnderWay([], [], token, has_two_phases=True))
    else:
        state.reply(token, ErrorCode.NONE)


def expire_locks(state: ShareState, now_ms: int) -> None:
    """The timer has fired: locks that have run out are lost, and the next one is waited for."""
    state.disarm()
    written: list[tuple[Run, DeadLetterCause]] = []
    next_ms: int | None = None
    for run in state.in_flight.runs:
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
        ranges = [OffsetRange(run.first, run.last) for run, _ in written]
        state.write(written, WriteUnderWay([], [], None, has_two_phases=False))
        state.settle(ranges)


def have_written(state: ShareState, write: WriteUnderWay, is_stored: bool) -> None:
    """A write has ended: its changes hold, or what has two phases returns to what it was."""
    in_flight = state.in_flight
    holds = is_stored or not write.has_two_phases
    if write.has_two_phases:
        for first, last in write.ranges:
            for run in in_flight.covering(first, last):
                _end_transition(state, run, is_stored)
    if holds:
        state.send_letters(write.letters)
    if write.has_two_phases:
        state.settle(write.ranges)


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
