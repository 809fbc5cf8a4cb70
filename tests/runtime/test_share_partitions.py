"""A share partition whose records each have a state of their own does not hold up the others."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from fencepost.machines.group.settings import ShareSettings
from fencepost.machines.share.inputs import (
    AcknowledgedBatch,
    AcknowledgeResult,
    Acquire,
    OffsetRange,
)
from fencepost.machines.share.state_batch import (
    STATE_BATCHES_MAX,
    ReadState,
    SharePartitionKey,
    StateBatch,
)
from fencepost.runtime.cooperative import Pieces, Scheduler
from fencepost.runtime.share_partitions import SharePartitions
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Uuid

RECORDS = 10_000
TURNS = 20
"""Others have so many while that many records are looked at."""
KEY = SharePartitionKey("g", Uuid(b"t" * 16), 0)
ACCEPT, RELEASE = 1, 2


class Loop:
    """Turns of an event loop, one callback each."""

    def __init__(self) -> None:
        self.callbacks: deque[Callable[[], None]] = deque()

    def call_soon(self, callback: Callable[[], None], /) -> None:
        self.callbacks.append(callback)

    call_soon_threadsafe = call_soon

    def turn(self) -> bool:
        if not self.callbacks:
            return False
        self.callbacks.popleft()()
        return True


class Persister:
    """Writes that are answered when the test says so."""

    def __init__(self) -> None:
        self.writes: list[tuple[tuple[StateBatch, ...], Any]] = []

    def read(self, key: SharePartitionKey, leader_epoch: int, done: Any) -> None:
        done(ReadState(ErrorCode.NONE, None, 1, 0, ()))

    def write(self, key: SharePartitionKey, *, batches: Any, done: Any, **others: Any) -> None:
        self.writes.append((batches, done))


class Node:
    """A node with one share partition, of which "a" has acquired one large batch."""

    def __init__(self, records: int = RECORDS) -> None:
        self.loop, self.persister = Loop(), Persister()
        scheduler = Scheduler(self.loop, lambda: 0.0, 0.0, 0.0)  # a turn is one piece
        self.lane, self.other_lane = scheduler.lane(), scheduler.lane()
        self.answers: list[AcknowledgeResult] = []
        clocks = SimpleNamespace(now_ms=lambda: 0, wall_ms=lambda: 0)
        timer = SimpleNamespace(cancel=lambda: None)
        timers = SimpleNamespace(at=lambda deadline_ms, callback: timer)
        anything: Any = SimpleNamespace()
        self.partitions = SharePartitions(
            timers,  # type: ignore[arg-type]
            clocks,  # type: ignore[arg-type]
            self.lane,
            anything,
            anything,
            self.persister,  # type: ignore[arg-type]
            lambda group_id: ShareSettings(),
            None,
        )
        machine = SimpleNamespace(
            leader_epoch=0, log_start_offset=0, high_watermark=records, last_stable_offset=records
        )
        hosted: Any = SimpleNamespace(machine=machine, key="t-0", log=None)
        self.share = self.partitions.find_or_begin(KEY, hosted)
        assert self.share.acquire(self.wanted(records)) == ((0, records - 1, 1),)

    def wanted(self, records: int) -> Acquire:
        return Acquire("a", [OffsetRange(0, records - 1)], 500, 500)

    def acknowledge(self, records: int) -> None:
        types = [(ACCEPT, RELEASE)[number % 2] for number in range(records)]
        batch = AcknowledgedBatch(0, records - 1, types)
        self.partitions.acknowledge(KEY, "a", [batch], self.answers.append)

    def turns_of_a_bystander(self, until: Callable[[], bool]) -> int:
        """How many turns other work has before something is done."""
        turns = [0]

        def bystander() -> Pieces[None]:
            while not until():
                turns[0] += 1
                yield None

        self.other_lane.begin(bystander())
        while not until():
            assert self.loop.turn(), "nothing is under way"
        return turns[0]


def test_others_have_their_turn_while_many_records_are_acknowledged() -> None:
    node = Node()
    node.acknowledge(RECORDS)
    assert not node.persister.writes, "it is under way"
    assert node.turns_of_a_bystander(lambda: bool(node.persister.writes)) >= TURNS
    ((batches, done),) = node.persister.writes
    assert len(batches) == RECORDS
    done(ErrorCode.NONE, None)
    assert not node.answers
    assert node.turns_of_a_bystander(lambda: bool(node.answers)) >= TURNS
    assert node.answers == [AcknowledgeResult(ErrorCode.NONE)]
    assert node.share.machine is not None and node.share.machine.start_offset == 1


def test_nothing_is_acquired_in_the_middle_of_an_input_and_the_next_one_waits() -> None:
    node = Node()
    woken = []

    class Waiter:
        def wake(self, share: Any) -> None:
            woken.append(share.has_records)

        def fail(self, share: Any, error: ErrorCode) -> None: ...

    node.share.waiters[Waiter()] = None
    node.acknowledge(RECORDS)
    assert not node.share.has_records and not node.share.may_go
    assert node.share.acquire(node.wanted(RECORDS)) == ()
    node.acknowledge(RECORDS)
    while node.loop.turn():
        pass
    (_, done) = node.persister.writes.pop()
    assert not node.persister.writes, "the records of the second were on their way already"
    assert [answer.error for answer in node.answers] == [ErrorCode.INVALID_RECORD_STATE]
    done(ErrorCode.NONE, None)
    while node.loop.turn():
        pass
    assert node.answers[1:] == [AcknowledgeResult(ErrorCode.NONE)]
    assert woken and woken[-1]
    assert node.share.acquire(node.wanted(RECORDS))[0] == (1, 1, 2)


def test_more_batches_than_the_share_coordinator_takes_are_not_sent() -> None:
    records = STATE_BATCHES_MAX + 2
    node = Node(records)
    node.acknowledge(records)
    while node.loop.turn():
        pass
    assert not node.persister.writes
    assert [answer.error for answer in node.answers] == [ErrorCode.UNKNOWN_SERVER_ERROR]
    assert node.share.machine is not None and node.share.machine.start_offset == 0
    assert not node.share.has_records, "the member holds them still"
