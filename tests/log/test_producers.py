"""Idempotence: every row of the table, the window, the wrap, and a model that forgets nothing."""

from __future__ import annotations

import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from fencepost.batch.crc import crc32c
from fencepost.batch.header import BatchHeader
from fencepost.log.errors import CorruptFileError
from fencepost.log.producers import (
    BATCHES_KEPT,
    PRODUCER_ID_EXPIRATION_MS,
    ProducerStates,
    decode_snapshot,
)
from fencepost.wire.errors import ErrorCode
from fencepost.wire.records.producer_snapshot import (
    CRC_AT,
    CRC_COVERS_FROM,
    ProducerEntry,
    ProducerSnapshot,
)

MAX = (1 << 31) - 1


def header(
    producer_id: int = 1,
    epoch: int = 0,
    sequence: int = 0,
    count: int = 1,
    timestamp_ms: int = 1000,
    *,
    transactional: bool = False,
    control: bool = False,
) -> BatchHeader:
    attributes = (0x10 if transactional else 0) | (0x20 if control else 0)
    return BatchHeader(
        0, 49, 0, 2, 0, attributes, count - 1, timestamp_ms, timestamp_ms,
        producer_id, epoch, sequence, count,
    )  # fmt: skip


def verdict_of(states: ProducerStates, batch: BatchHeader) -> ErrorCode:
    return states.check(batch).error_code


def after(*batches: BatchHeader) -> ProducerStates:
    """The states of a log of these batches."""
    states = ProducerStates()
    offset = 0
    for batch in batches:
        states.update(batch, offset)
        offset += batch.last_offset_delta + 1
    return states


def test_no_producer_id_is_accepted_and_not_remembered():
    states = after(header(producer_id=-1, epoch=-1, sequence=-1, count=3))
    assert len(states) == 0
    assert states.end_offset == 3
    assert states.check(header(producer_id=-1, epoch=-1, sequence=-1)).is_ok


@pytest.mark.parametrize("sequence", [0, 1, 77, MAX])
def test_an_unknown_producer_is_accepted_with_any_sequence(sequence):
    assert ProducerStates().check(header(sequence=sequence)).is_ok


def test_the_next_sequence_is_accepted_and_others_are_out_of_order():
    states = after(header(sequence=0, count=10))
    assert verdict_of(states, header(sequence=10)) == ErrorCode.NONE
    for sequence in (9, 11, 5, 1, MAX):
        assert (
            verdict_of(states, header(sequence=sequence)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        )


def test_a_duplicate_gets_the_original_offsets():
    states = ProducerStates()
    states.update(header(sequence=0, count=3, timestamp_ms=5), 100)
    states.update(header(sequence=3, count=4, timestamp_ms=6), 200)
    verdict = states.check(header(sequence=0, count=3))
    assert verdict.is_duplicate
    assert not verdict.is_ok
    assert (verdict.first_offset, verdict.last_offset, verdict.timestamp_ms) == (100, 102, 5)
    # the same first sequence with another length is no duplicate
    assert verdict_of(states, header(sequence=0, count=2)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_the_window_is_five_batches():
    batches = [header(sequence=at) for at in range(BATCHES_KEPT + 1)]
    states = after(*batches)
    assert verdict_of(states, batches[0]) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert all(states.check(batch).is_duplicate for batch in batches[1:])
    assert [states.check(batch).first_offset for batch in batches[1:]] == [1, 2, 3, 4, 5]


def test_epochs_fence():
    states = after(header(epoch=3, sequence=0, count=5))
    assert verdict_of(states, header(epoch=2, sequence=5)) == ErrorCode.INVALID_PRODUCER_EPOCH
    # an older epoch is fenced even where it repeats itself
    assert verdict_of(states, header(epoch=2, sequence=0, count=5)) == (
        ErrorCode.INVALID_PRODUCER_EPOCH
    )
    assert verdict_of(states, header(epoch=4, sequence=5)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert verdict_of(states, header(epoch=4, sequence=0)) == ErrorCode.NONE
    states.update(header(epoch=4, sequence=0), 5)
    assert verdict_of(states, header(epoch=3, sequence=5)) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert states.check(header(epoch=4, sequence=0)).first_offset == 5


def test_sequences_wrap_to_zero():
    states = after(header(sequence=MAX - 1, count=1))
    assert verdict_of(states, header(sequence=MAX)) == ErrorCode.NONE
    assert verdict_of(states, header(sequence=0)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    states.update(header(sequence=MAX), 1)
    assert verdict_of(states, header(sequence=0)) == ErrorCode.NONE
    # a batch that wraps within
    states.update(header(sequence=0, count=MAX - 1), 2)
    wrapping = header(sequence=MAX - 1, count=5)
    assert states.check(wrapping).is_ok
    states.update(wrapping, 1 << 31)
    assert states.get(1).last_sequence == 2
    assert verdict_of(states, header(sequence=3)) == ErrorCode.NONE
    assert states.check(wrapping).is_duplicate
    assert states.check(wrapping).first_offset == 1 << 31


def test_transactions_are_followed():
    states = ProducerStates()
    states.update(header(producer_id=1, transactional=True, count=2), 10)
    states.update(header(producer_id=2, transactional=True, count=2), 12)
    states.update(header(producer_id=1, sequence=2, transactional=True), 14)
    assert states.first_undecided_offset() == 10
    assert states.get(1).current_txn_first_offset == 10
    marker = header(producer_id=1, sequence=-1, control=True)._replace(base_offset=15)
    assert states.complete_transaction(marker, 7) == 10
    assert states.first_undecided_offset() == 12
    assert states.get(1).coordinator_epoch == 7
    assert states.end_offset == 16
    # a marker without a transaction, of an unknown producer, with a newer epoch
    lone = header(producer_id=9, epoch=4, sequence=-1, control=True)._replace(base_offset=16)
    assert states.complete_transaction(lone, 8) == -1
    assert states.get(9).producer_epoch == 4
    assert verdict_of(states, header(producer_id=9, epoch=4, sequence=0)) == ErrorCode.NONE
    assert verdict_of(states, header(producer_id=9, epoch=4, sequence=1)) == (
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    )


def test_a_marker_in_a_newer_epoch_resets_the_sequences():
    states = after(header(transactional=True, count=3))
    marker = header(epoch=1, sequence=-1, control=True)._replace(base_offset=3)
    assert states.complete_transaction(marker, 7) == 0
    assert verdict_of(states, header(epoch=1, sequence=3)) == (
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    )
    assert verdict_of(states, header(epoch=1, sequence=0)) == ErrorCode.NONE


def test_a_marker_counts_as_a_sign_of_life():
    """KAFKA-9144: it may come a day behind the data."""
    states = after(header(timestamp_ms=1000, transactional=True))
    marker = header(sequence=-1, control=True, timestamp_ms=9000)._replace(base_offset=1)
    states.complete_transaction(marker, 7)
    assert states.remove_expired(1000 + PRODUCER_ID_EXPIRATION_MS) == 0
    assert states.remove_expired(9000 + PRODUCER_ID_EXPIRATION_MS) == 1


def test_an_empty_log_has_no_transaction_whose_marker_may_be_lost():
    states = after(header(transactional=True))
    states.complete_transaction(header(sequence=-1, control=True)._replace(base_offset=1), 7)
    assert states.first_unstable_offset(high_watermark=1) == 0
    states.clear(0)
    assert states.first_unstable_offset(high_watermark=0) is None


def test_silent_producers_expire_unless_in_a_transaction():
    states = ProducerStates()
    states.update(header(producer_id=1, timestamp_ms=1000), 0)
    states.update(header(producer_id=2, timestamp_ms=2000), 1)
    states.update(header(producer_id=3, timestamp_ms=1000, transactional=True), 0)
    assert states.remove_expired(1000 + PRODUCER_ID_EXPIRATION_MS - 1) == 0
    assert states.remove_expired(1000 + PRODUCER_ID_EXPIRATION_MS) == 1
    assert states.get(1) is None
    assert states.get(2) is not None
    assert states.get(3) is not None
    assert states.remove_expired(10_000, 5_000) == 1


def test_the_snapshot_is_kafkas():
    states = ProducerStates()
    states.update(header(producer_id=0x0102030405060708, epoch=9, sequence=5, count=3), 100)
    data = states.encode()
    assert data[:2] == b"\0\1"
    assert data[6:10] == b"\0\0\0\1"
    assert data[10:].hex() == (
        "0102030405060708"  # producer id
        "0009"  # epoch
        "00000007"  # last sequence
        "0000000000000066"  # last offset
        "00000002"  # offset delta
        "00000000000003e8"  # timestamp
        "ffffffff"  # coordinator epoch
        "ffffffffffffffff"  # no transaction
    )
    assert len(data) == 56
    assert ProducerStates().encode()[6:] == b"\0\0\0\0"


def test_the_snapshot_is_what_its_message_class_says():
    """`ProducerSnapshot` declares the bytes that `ProducerStates.encode` packs by hand."""
    states = after(
        header(producer_id=7, epoch=3, sequence=5, count=4, timestamp_ms=123),
        header(producer_id=(1 << 62), sequence=MAX, timestamp_ms=-1, transactional=True),
    )
    marker = header(producer_id=9, epoch=1, sequence=-1, timestamp_ms=99, control=True)
    states.complete_transaction(marker, coordinator_epoch=11)
    data = states.encode()
    snapshot, end = ProducerSnapshot.read(data, CRC_AT, 1)
    assert end == len(data)
    assert data[:CRC_AT] == b"\x00\x01"
    assert snapshot.crc == crc32c(data[CRC_COVERS_FROM:])
    assert snapshot.producer_entries == [
        ProducerEntry(
            producer_id=state.producer_id,
            epoch=state.producer_epoch,
            last_sequence=state.last_sequence,
            last_offset=state.last_offset,
            offset_delta=state.batches[-1].offset_delta if state.batches else 0,
            timestamp=state.last_timestamp_ms,
            coordinator_epoch=state.coordinator_epoch,
            current_txn_first_offset=state.current_txn_first_offset,
        )
        for state in states.active()
    ]
    assert [entry.coordinator_epoch for entry in snapshot.producer_entries] == [-1, -1, 11]
    assert [entry.current_txn_first_offset for entry in snapshot.producer_entries] == [-1, 4, -1]

    # And back: what the class writes is read as the same producers.
    written = b"\x00\x01" + snapshot.encode(1)
    assert [
        (found.producer_id, found.producer_epoch, found.batches)
        for found in decode_snapshot("file", written)
    ] == [(state.producer_id, state.producer_epoch, state.batches) for state in states.active()]


def test_a_snapshot_keeps_the_last_batch_only():
    batches = [header(sequence=at) for at in range(4)]
    states = ProducerStates()
    states.load(decode_snapshot("file", after(*batches).encode()), 4)
    assert states.end_offset == 4
    assert states.check(batches[3]).is_duplicate
    assert verdict_of(states, batches[2]) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert verdict_of(states, header(sequence=4)) == ErrorCode.NONE


@pytest.mark.parametrize("offset", [0, 33])
def test_a_snapshot_keeps_transactions(offset):
    states = ProducerStates()
    states.update(header(producer_id=5, transactional=True), offset)
    loaded = ProducerStates()
    loaded.load(decode_snapshot("file", states.encode()), offset + 1)
    assert loaded.first_undecided_offset() == offset


@pytest.mark.parametrize("offset", [0, 10])
def test_in_a_transaction_a_producer_writes_nothing_that_is_not_of_it(offset):
    states = ProducerStates()
    states.update(header(transactional=True), offset)
    assert states.has_open_transaction(1, 0)
    assert verdict_of(states, header(sequence=1, transactional=True)) == ErrorCode.NONE
    assert verdict_of(states, header(sequence=1)) == ErrorCode.INVALID_TXN_STATE


def test_the_earliest_transaction_of_a_snapshot_is_first_whatever_the_order_of_the_producers():
    states = ProducerStates()
    for producer_id, offset in ((5, 30), (6, 31), (7, 32)):
        states.update(header(producer_id=producer_id, transactional=True), offset)
    states.complete_transaction(
        header(producer_id=5, sequence=-1, control=True)._replace(base_offset=33), 0
    )
    again = header(producer_id=5, sequence=1, transactional=True)
    states.update(again, 34)
    loaded = ProducerStates()
    loaded.load(decode_snapshot("file", states.encode()), 35)
    for one in (states, loaded):
        assert one.first_undecided_offset() == 31
        assert one.first_unstable_offset(40) == 31
    assert states.first_unstable_offset(33) == 30, "its marker is not below the high watermark"
    assert loaded.oldest_transaction_ms() == again.max_timestamp
    assert ProducerStates().oldest_transaction_ms() is None


def test_every_cut_and_every_flipped_bit_of_a_snapshot_is_noticed():
    data = after(header(producer_id=1, count=3), header(producer_id=2)).encode()
    for size in range(len(data)):
        with pytest.raises(CorruptFileError):
            decode_snapshot("file", data[:size])
    with pytest.raises(CorruptFileError):
        decode_snapshot("file", data + b"\0")
    for bit in range(len(data) * 8):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(CorruptFileError):
            decode_snapshot("file", bytes(damaged))


class ProducerModel(RuleBasedStateMachine):
    """Every batch ever appended against what the states say of it."""

    def __init__(self) -> None:
        super().__init__()
        self.states = ProducerStates()
        self.appended: dict[int, list[tuple[BatchHeader, int]]] = {}
        self.epochs: dict[int, int] = {}
        self.kept: dict[int, int] = {}
        self.offset = 0

    producer_ids = st.integers(0, 2)

    def expected_sequence(self, producer_id: int) -> int:
        last = self.appended[producer_id][-1][0]
        return (last.last_sequence + 1) & MAX

    @rule(producer_id=producer_ids, count=st.integers(1, 4), first=st.sampled_from([0, 7, MAX - 3]))
    def append_next(self, producer_id: int, count: int, first: int) -> None:
        known = producer_id in self.appended
        sequence = self.expected_sequence(producer_id) if known else first
        batch = header(producer_id, self.epochs.get(producer_id, 0), sequence, count)
        assert self.states.check(batch).is_ok
        self.note(batch)

    @rule(producer_id=producer_ids, count=st.integers(1, 4))
    def append_in_a_new_epoch(self, producer_id: int, count: int) -> None:
        epoch = self.epochs.get(producer_id, 0) + 1
        batch = header(producer_id, epoch, 0, count)
        assert self.states.check(batch).is_ok
        self.epochs[producer_id] = epoch
        self.appended[producer_id] = []
        self.note(batch)

    def note(self, batch: BatchHeader) -> None:
        self.states.update(batch, self.offset)
        self.appended.setdefault(batch.producer_id, []).append((batch, self.offset))
        kept = self.kept.get(batch.producer_id, 0) if self.appended[batch.producer_id][1:] else 0
        self.kept[batch.producer_id] = min(kept + 1, BATCHES_KEPT)
        self.offset += batch.last_offset_delta + 1

    @precondition(lambda self: self.appended)
    @rule(data=st.data())
    def retry(self, data: st.DataObject) -> None:
        producer_id = data.draw(st.sampled_from(sorted(self.appended)))
        history = self.appended[producer_id]
        back = data.draw(st.integers(1, min(len(history), 8)))
        batch, offset = history[-back]
        verdict = self.states.check(batch)
        if back <= self.kept[producer_id]:
            assert verdict.is_duplicate
            assert verdict.first_offset == offset
            assert verdict.last_offset == offset + batch.last_offset_delta
        else:
            assert verdict.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    @precondition(lambda self: self.appended)
    @rule(data=st.data(), skip=st.integers(1, 100))
    def leave_a_gap(self, data: st.DataObject, skip: int) -> None:
        producer_id = data.draw(st.sampled_from(sorted(self.appended)))
        sequence = (self.expected_sequence(producer_id) + skip) & MAX
        batch = header(producer_id, self.epochs.get(producer_id, 0), sequence)
        assert verdict_of(self.states, batch) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    @precondition(lambda self: any(epoch > 0 for epoch in self.epochs.values()))
    @rule(data=st.data())
    def speak_from_the_past(self, data: st.DataObject) -> None:
        fenced = sorted(pid for pid, epoch in self.epochs.items() if epoch > 0)
        producer_id = data.draw(st.sampled_from(fenced))
        batch = header(producer_id, self.epochs[producer_id] - 1, data.draw(st.integers(0, 9)))
        assert verdict_of(self.states, batch) == ErrorCode.INVALID_PRODUCER_EPOCH

    @rule()
    def restart(self) -> None:
        loaded = ProducerStates()
        loaded.load(decode_snapshot("file", self.states.encode()), self.offset)
        self.states = loaded
        self.kept = dict.fromkeys(self.kept, 1)

    @invariant()
    def end_offset_is_the_logs(self) -> None:
        assert self.states.end_offset == self.offset


ProducerModel.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestProducerModel = ProducerModel.TestCase
