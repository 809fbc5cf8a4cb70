"""Random histories of a share partition keep the promises of its module docstring.

Three members fetch, acknowledge, lose their locks and leave; the share coordinator answers late or
with errors; the log loses its beginning; the leader crashes at any step and is restored from what
was stored. After every step the invariants hold, and in the end every record is delivered or given
up.
"""

from __future__ import annotations

from typing import Any

from hypothesis import settings, strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from fencepost.machines.share.inputs import ShareLimits
from fencepost.machines.share.records import TERMINAL, RecordState
from fencepost.wire.errors import ErrorCode
from tests.machines.share_world import ShareWorld

MEMBERS = ("a", "b", "c")
LOG = ((0, 4), (5, 5), (6, 9), (12, 15), (16, 19), (22, 30))
"""Record batches; 10, 11, 20 and 21 were compacted away."""
IN_LOG = frozenset(offset for first, last in LOG for offset in range(first, last + 1))
MAY_BE_ABORTED = frozenset(range(6, 10))
LOCK_MS = 1_000


class History(RuleBasedStateMachine):
    """The world, and what a member may rely on."""

    @initialize(
        has_letters=st.booleans(),
        max_locks=st.sampled_from([4, 12, 100]),
        limit=st.sampled_from([2, 3, 5]),
    )
    def begin(self, has_letters: bool, max_locks: int, limit: int) -> None:
        self.limit = limit
        limits = ShareLimits(LOCK_MS, limit, max_locks, has_dead_letters=has_letters)
        self.world = ShareWorld(limits, LOG)
        self.accepted: set[int] = set()
        """Offsets that a member was told are acknowledged."""
        self.settled: set[int] = set()
        """Offsets that a member wanted settled, or has been given as often as the limit allows."""
        self.locked: dict[int, tuple[str, int]] = {}
        """Offsets that a member holds for sure, and until when."""
        self.tokens: dict[object, list[int]] = {}
        self.asked = 0

    def hear(self) -> None:
        """Take the replies that have come."""
        replies, self.world.replies = self.world.replies, []
        for token, error in replies:
            offsets = self.tokens.pop(token, [])
            if error is ErrorCode.NONE:
                self.accepted.update(offsets)

    @rule(
        member=st.sampled_from(MEMBERS),
        count=st.integers(1, 12),
        exact=st.booleans(),
        batch_size=st.sampled_from([1, 3, 500]),
        read=st.integers(1, 6),
        aborted=st.sampled_from([(), ((6, 9),)]),
    )
    def fetch(
        self, member: str, count: int, exact: bool, batch_size: int, read: int, aborted: Any
    ) -> None:
        world = self.world
        if not world.machine.can_acquire:
            return
        got = world.acquire(
            member, count, batch_size=batch_size, exact=exact, aborted=aborted, read_batches=read
        )
        for first, last, delivered in got:
            assert 1 <= delivered <= self.limit
            for offset in range(first, last + 1):
                assert offset not in self.accepted, f"{offset} was acknowledged"
                assert offset >= world.log_start
                holder, until_ms = self.locked.get(offset, ("", -1))
                assert until_ms <= world.now_ms, f"{offset} is held by {holder}"
                self.locked[offset] = member, world.now_ms + LOCK_MS
                if delivered == self.limit:
                    self.settled.add(offset)
        if exact:
            assert sum(last - first + 1 for first, last, _ in got) <= count
        self.hear()

    @rule(
        member=st.sampled_from(MEMBERS), types=st.lists(st.integers(0, 4), min_size=1, max_size=4)
    )
    def acknowledge(self, member: str, types: list[int]) -> None:
        world = self.world
        held = [
            offset
            for run in world.machine.runs
            if run.state is RecordState.ACQUIRED and not run.before and run.member_id == member
            for offset in range(run.first, run.last + 1)
        ]
        if not held:
            return
        first = held[0]
        count = 1
        while count < len(types) and count < len(held) and held[count] == first + count:
            count += 1
        self.asked += 1
        self.tokens[self.asked] = [first + i for i in range(count) if types[i] == 1]
        self.settled.update(first + i for i in range(count) if types[i] in (0, 1, 3))
        for offset in range(first, first + count):
            self.locked.pop(offset, None)
        world.acknowledge(
            first, first + count - 1, *types[:count], member_id=member, token=self.asked
        )
        self.hear()

    @rule(member=st.sampled_from(MEMBERS), first=st.integers(0, 30), size=st.integers(1, 6))
    def acknowledge_anything(self, member: str, first: int, size: int) -> None:
        """What the member need not hold: then nothing changes."""
        world = self.world
        holds = (
            all(
                run.state is RecordState.ACQUIRED and not run.before and run.member_id == member
                for run in world.machine.runs
                if run.last >= first and run.first <= first + size - 1
            )
            and first + size - 1 <= world.machine.end_offset
        )
        before = world.states
        self.asked += 1
        self.tokens[self.asked] = list(range(max(first, world.machine.start_offset), first + size))
        world.acknowledge(first, first + size - 1, 1, member_id=member, token=self.asked)
        if holds:
            self.settled.update(range(first, first + size))
            for offset in range(first, first + size):
                self.locked.pop(offset, None)
        else:
            assert world.states == before
        self.hear()

    @precondition(lambda self: self.world.writes)
    @rule(place=st.integers(0, 5), error=st.sampled_from([0, 0, 0, 7, 15]))
    def answer(self, place: int, error: int) -> None:
        self.world.answer(ErrorCode(error), min(place, len(self.world.writes) - 1))
        self.hear()

    @precondition(lambda self: self.world.letters)
    @rule()
    def write_letters(self) -> None:
        self.world.finish_letters()

    @rule(ms=st.sampled_from([10, LOCK_MS // 2, LOCK_MS]))
    def wait(self, ms: int) -> None:
        self.world.pass_time(ms)

    @rule(member=st.sampled_from(MEMBERS))
    def leave(self, member: str) -> None:
        self.world.release(member)
        self.locked = {k: v for k, v in self.locked.items() if v[0] != member}
        self.hear()

    @rule(offset=st.integers(0, 25))
    def delete_records(self, offset: int) -> None:
        self.world.move_log_start(offset)

    @rule()
    def crash(self) -> None:
        self.world.crash()
        self.tokens.clear()
        self.locked.clear()

    # -- what holds after every step ---------------------------------------------------------

    @invariant()
    def runs_cover_what_is_in_flight_once(self) -> None:
        machine = self.world.machine
        expected = machine.start_offset
        for run in machine.runs:
            assert run.first == expected and run.last >= run.first
            expected = run.last + 1
        assert expected == machine.end_offset + 1

    @invariant()
    def locks_are_watched(self) -> None:
        world = self.world
        deadlines = [
            run.deadline_ms
            for run in world.machine.runs
            if run.state is RecordState.ACQUIRED and run.before is None
        ]
        if deadlines:
            assert world.timer_ms is not None and world.timer_ms <= min(deadlines)

    @invariant()
    def nothing_is_lost_that_no_member_has_settled(self) -> None:
        """What is complete was settled by its member, delivered to the limit, or is not there."""
        world = self.world
        complete = set(range(world.log_start, world.machine.start_offset))
        for run in world.machine.runs:
            if run.state in TERMINAL:
                complete.update(range(run.first, run.last + 1))
        assert complete & IN_LOG <= self.settled | MAY_BE_ABORTED

    @invariant()
    def the_start_passes_nothing_in_transition(self) -> None:
        first = self.world.machine.start_offset
        for offsets in self.tokens.values():
            assert all(offset >= first or offset < self.world.log_start for offset in offsets)

    @invariant()
    def nothing_acknowledged_is_available(self) -> None:
        for run in self.world.machine.runs:
            if run.state not in TERMINAL:
                assert self.accepted.isdisjoint(range(run.first, run.last + 1))

    @invariant()
    def the_next_offset_is_the_first_available(self) -> None:
        machine = self.world.machine
        available = [run.first for run in machine.runs if run.is_available]
        assert machine.next_fetch_offset == (available or [machine.end_offset + 1])[0]

    def teardown(self) -> None:
        """All is answered, and one member accepts what it gets: the log is consumed."""
        if not hasattr(self, "world"):
            return
        world = self.world
        for _ in range(500):
            while world.writes:
                world.answer()
            world.finish_letters()
            while world.writes:
                world.answer()
            self.hear()
            world.pass_time(LOCK_MS)
            while world.writes:
                world.answer()
            for first, last, _ in world.acquire("a", 100) if world.machine.can_acquire else ():
                assert self.accepted.isdisjoint(range(first, last + 1))
                world.acknowledge(first, last, 1)
        assert world.machine.start_offset == 31 and not world.machine.runs


def test_random_histories_keep_what_a_share_partition_promises() -> None:
    run_state_machine_as_test(
        History, settings=settings(max_examples=150, stateful_step_count=60, deadline=None)
    )
