"""Batches that come together: answered and stored as if each had come alone."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

import fencepost.batch
from fencepost.batch.control import build_end_txn_marker
from fencepost.batch.header import SEQUENCE_MAX
from fencepost.batch.record_batch import RecordBatch
from fencepost.log.rolling import ANY_MS, NO_MS
from fencepost.machines.partition import (
    NO_TICKET,
    TICKET_NOT_NEEDED,
    AlterPartitionAnswered,
    PartitionConfig,
    Produce,
    ProduceResult,
    WriteMarker,
)
from fencepost.machines.partition.appending import Appending
from fencepost.runtime import combined_appends
from fencepost.runtime.combined_appends import CombinedAppends
from fencepost.wire.errors import ErrorCode

from ..machines.fakes import batch
from ..machines.test_partition_produce import KEY, Leader
from ..machines.test_partition_transactions import PRODUCER, TxnLeader


class Room:
    """What is asked of a log before something is appended."""

    def __init__(self) -> None:
        self.has_room = True
        self.newest_ms = ANY_MS
        self.asked: list[int] = []

    def newest_collected_ms(self, wall_ms: int) -> int:
        assert wall_ms > 0, "the time of day"
        return self.newest_ms

    def has_room_for(self, batches: list[RecordBatch], wall_ms: int) -> bool:
        self.asked.append(len(batches))
        return self.has_room


class Appends:
    """A leader of t-0 whose batches are collected until the turn ends."""

    def __init__(self, leader: Leader | None = None) -> None:
        self.leader = leader or Leader()
        self.world = self.leader.world
        self.log = Room()
        self.hosted: Any = SimpleHosted(self.leader.machine, self.log)
        self.turn: list[Callable[[], None]] = []
        self.answers: dict[int, ProduceResult] = {}
        self.order: list[int] = []
        self.failed: list[int] = []
        self.has_files = True
        self.reader = 0
        self.appends = CombinedAppends(
            self.world.driver,
            self.world,
            self.turn.append,
            lambda hosted, header, wall_ms: self.has_files,
        )
        self.world.reply = lambda token, value: token(value)  # type: ignore[method-assign]

    def add(
        self,
        name: int,
        acks: int = 1,
        producer: tuple[int, int, int] = (-1, -1, -1),
        count: int = 1,
        value: bytes = b"v",
        timeout_ms: int = 10_000,
        ticket: int | None = None,
    ) -> bytearray:
        """One with a ticket, or NO_TICKET, is of a transaction."""
        data = batch(count, value=value, producer=producer, transactional=ticket is not None)
        parsed = RecordBatch.parse(data)

        def told(result: ProduceResult) -> None:
            assert name not in self.answers, "answered twice"
            self.answers[name] = result
            self.order.append(name)

        deadline_ms = self.world.now + timeout_ms
        produce = Produce(parsed, acks, told, deadline_ms, ticket or NO_TICKET)
        self.appends.add(self.hosted, produce, lambda: self.failed.append(name))
        return data

    def end_turn(self) -> None:
        self.reader += 1
        self.appends.read_done(self.reader)
        turn, self.turn[:] = list(self.turn), []
        for callback in turn:
            callback()

    @property
    def stored(self) -> list[bytes]:
        return [data for _, data in self.leader.log.batches]


class SimpleHosted(SimpleNamespace):
    """As much of a HostedPartition as is looked at."""

    def __init__(self, machine: object, log: object) -> None:
        super().__init__(key=KEY, machine=machine, log=log)

    __hash__ = object.__hash__
    __eq__ = object.__eq__


def test_what_comes_in_a_turn_is_one_step_and_one_append() -> None:
    world = Appends()
    steps = world.world.steps
    for name in range(3):
        world.add(name, count=2)
        world.appends.read_done(name)
    assert len(world.turn) == 1 and not world.stored
    world.end_turn()
    assert (world.world.steps, world.log.asked) == (steps + 1, [3])
    assert not world.answers
    world.leader.flush()
    assert [world.answers[name].base_offset for name in range(3)] == [0, 2, 4]


def test_what_was_received_may_be_overwritten_before_the_turn_ends() -> None:
    world = Appends()
    data = world.add(0)
    expected = bytes(data)[61:]
    data[:] = bytes(len(data))
    world.end_turn()
    assert world.stored[0][61:] == expected


def test_the_append_of_a_lone_client_does_not_wait() -> None:
    world = Appends()
    world.add(0, acks=0)
    world.appends.read_done(7)
    assert not world.order, "another may come in the same turn"
    world.end_turn()
    for name in (1, 2):
        world.add(name, acks=0)
        world.appends.read_done(7)
        world.end_turn()
    world.add(3, acks=0)
    world.appends.read_done(7)
    world.add(4, acks=0)
    world.appends.read_done(7)
    assert world.order == [0, 1, 2, 3, 4] and len(world.turn) == 0


def test_a_large_batch_is_not_copied_and_comes_behind_what_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(combined_appends, "COPIED_BYTES_MAX", 200)
    world = Appends()
    world.add(0, acks=0)
    world.add(1, acks=0, value=b"v" * 200)
    assert world.order == [0, 1]
    world.end_turn()
    assert world.order == [0, 1]


def test_what_is_collected_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(combined_appends, "COLLECTED_BYTES_MAX", 250)
    monkeypatch.setattr(combined_appends, "GROUP_BATCHES_MAX", 2)
    world = Appends()
    for name in range(5):
        world.add(name, acks=0)
        assert len(world.stored) >= name - 2
    world.end_turn()
    assert world.order == list(range(5))


def test_without_room_in_the_segment_each_has_its_files_opened() -> None:
    world = Appends()
    world.log.has_room = world.has_files = False
    world.add(0)
    world.add(1)
    world.end_turn()
    assert world.answers[0].error_code is ErrorCode.KAFKA_STORAGE_ERROR
    assert "file descriptor" in str(world.answers[1].error_message)
    assert not world.stored


def test_what_may_begin_a_segment_is_appended_alone_and_in_its_order() -> None:
    world = Appends()
    world.log.newest_ms = NO_MS
    world.add(0, acks=0)
    assert world.order == [0]
    time_ms = RecordBatch.parse(world.add(1, acks=0)).header.max_timestamp
    world.log.newest_ms = time_ms
    world.add(2, acks=0)
    world.add(3, acks=0)
    assert world.order == [0, 1], "collected"
    world.log.newest_ms = time_ms - 1
    world.add(4, acks=0)
    assert world.order == [0, 1], "what there is room for is known since the group was begun"
    world.end_turn()
    world.add(5, acks=0)
    assert world.order == [0, 1, 2, 3, 4, 5]
    assert world.log.asked == [3]


def test_a_partition_that_went_meanwhile_takes_nothing() -> None:
    world = Appends()
    world.add(0)
    world.world.driver.remove(KEY)
    world.world.driver.add(KEY, Leader().machine)  # another topic of that name
    world.end_turn()
    assert world.answers == {0: ProduceResult(ErrorCode.NOT_LEADER_OR_FOLLOWER)}


def test_requests_fail_when_the_machine_breaks_down(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    world = Appends()
    monkeypatch.setattr(Appending, "_take", lambda *_: 1 / 0)
    world.add(0)
    world.add(1)
    world.end_turn()
    assert world.failed == [0, 1]
    assert "appending to t-0 failed" in caplog.text


def test_each_producer_of_a_group_is_judged_by_its_own_batches() -> None:
    world = Appends()
    world.add(0, producer=(7, 0, 0))
    world.end_turn()
    world.add(1, producer=(8, 0, 0))
    world.add(2, producer=(7, 0, 5))
    world.end_turn()
    world.leader.flush()
    assert world.log.asked == [2], "they were a group"
    assert world.answers[1].error_code is ErrorCode.NONE
    assert world.answers[2].error_code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_batches_of_an_open_transaction_are_a_group() -> None:
    world = Appends()
    world.add(0, producer=(7, 0, 0), ticket=TICKET_NOT_NEEDED)
    world.end_turn()
    for name, sequence in ((1, 1), (2, 2), (3, 3)):
        world.add(name, producer=(7, 0, sequence), ticket=NO_TICKET)
    world.add(4, producer=(8, 0, 0))
    world.end_turn()
    world.leader.flush()
    assert world.log.asked == [4]
    assert {one.error_code for one in world.answers.values()} == {ErrorCode.NONE}


def test_who_goes_on_counting_does_not_enter_or_leave_a_transaction_by_it() -> None:
    world = Appends()
    world.add(0, producer=(7, 0, 0), ticket=TICKET_NOT_NEEDED)
    world.add(1, producer=(8, 0, 0))
    world.end_turn()
    world.add(2, producer=(7, 0, 1), ticket=NO_TICKET)
    world.add(3, producer=(7, 0, 2))
    world.add(4, producer=(8, 0, 1))
    world.add(5, producer=(8, 0, 2), ticket=NO_TICKET)
    world.end_turn()
    world.leader.flush()
    refused = {name for name, one in world.answers.items() if one.error_code}
    assert refused == {3, 5}
    assert world.answers[3].error_code is ErrorCode.INVALID_TXN_STATE
    assert world.answers[5].error_code is ErrorCode.INVALID_TXN_STATE


def test_the_first_batch_of_a_transaction_is_not_collected() -> None:
    leader = TxnLeader()
    ticket = leader.ticket()
    world = Appends(leader)
    world.add(0, acks=0)
    world.add(1, acks=0, producer=(PRODUCER, 0, 0), ticket=ticket)
    assert world.order == [0, 1]
    assert leader.machine.is_in_transaction(PRODUCER, 0)
    world.add(2, acks=0, producer=(PRODUCER, 0, 1), ticket=NO_TICKET)
    assert world.order == [0, 1], "it is collected, and needs no ticket"
    world.end_turn()
    assert world.answers[2].error_code is ErrorCode.NONE


def test_a_failed_write_is_answered_to_all() -> None:
    world = Appends()
    world.leader.log.refuses = "no space left"
    for name, acks in enumerate((0, 1, -1)):
        world.add(name, acks)
    world.end_turn()
    storage_error = ErrorCode.KAFKA_STORAGE_ERROR
    assert {one.error_code for one in world.answers.values()} == {storage_error}
    assert len(world.answers) == 3


PRODUCERS = st.one_of(
    st.just((-1, -1, -1)),
    st.tuples(
        st.sampled_from([7, 8]),
        st.integers(0, 1),
        st.sampled_from([0, 0, 1, 2, 3, 4, SEQUENCE_MAX]),
    ),
)
TICKETS = [None, NO_TICKET, TICKET_NOT_NEEDED]
COMMANDS = st.lists(
    st.one_of(
        st.tuples(
            st.just("produce"),
            st.sampled_from([-1, 0, 1, 2]),
            PRODUCERS,
            st.integers(1, 2),
            st.none(),
        ),
        st.tuples(
            st.just("produce"), st.just(1), PRODUCERS, st.integers(1, 2), st.sampled_from(TICKETS)
        ),
        st.tuples(st.sampled_from(["end turn", "flush", "fetched", "shrink", "expire", "mark"])),
    ),
    max_size=25,
)


def end_marker(producer_id: int) -> WriteMarker:
    data = build_end_txn_marker(
        committed=True,
        coordinator_epoch=0,
        producer_id=producer_id,
        producer_epoch=0,
        timestamp_ms=1,
    )
    return WriteMarker(RecordBatch.parse(bytearray(data)), 0, 0, lambda result: None, 0)


@settings(max_examples=100, deadline=None)
@given(COMMANDS)
def test_batches_together_are_answered_as_one_by_one(commands: list[tuple[Any, ...]]) -> None:
    config = PartitionConfig(min_insync_replicas=2)
    together, alone = (Appends(Leader((1, 2), config=config)) for _ in range(2))
    for name, command in enumerate(commands):
        for world in (together, alone):
            if command[0] == "produce":
                _, acks, producer, count, ticket = command
                if producer[0] < 0:
                    ticket = None
                world.add(name, acks, producer, count, ticket=ticket)
                if world is alone:
                    world.appends.settle()
                continue
            world.appends.settle()
            if command[0] == "flush":
                world.leader.flush()
            elif command[0] == "fetched":
                world.leader.fetched(2, world.leader.log.end_offset, 1)
            elif command[0] == "shrink":
                world.leader.world.advance(40_000)
                answer = AlterPartitionAnswered(0, 1, 2, (1,))
                world.leader.feed(answer)
            elif command[0] == "expire":
                world.leader.world.advance(10_000)
            elif command[0] == "mark":
                world.leader.feed(end_marker(7))
        if command[0] != "produce":
            assert together.answers == alone.answers
    for world in (together, alone):
        world.appends.settle()
        world.leader.flush()
    assert together.answers == alone.answers
    assert together.stored == alone.stored
    assert together.leader.machine.high_watermark == alone.leader.machine.high_watermark


@pytest.mark.parametrize(
    ("bound", "in_kernel"),
    [("GROUP_BATCHES_MAX", "BLOCK_BATCHES_MAX"), ("COPIED_BYTES_MAX", "KEPT_BYTES_MAX")],
)
def test_the_kernel_has_the_same_bounds(bound: str, in_kernel: str) -> None:
    """Compiled code has constants of its own: what it puts together is to be no other than this."""
    source = Path(fencepost.batch.__file__).with_name("_produce_runs.pxi").read_text()
    (found,) = re.findall(rf"^ +{in_kernel} = (\d+)\b", source, re.MULTILINE)
    assert int(found) == getattr(combined_appends, bound)
