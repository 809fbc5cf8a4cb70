"""The records of a share partition that are in flight, as runs of offsets that share one state.

Theory of operation
-------------------
`start_offset` (SPSO) is the first offset whose delivery is not complete, `end_offset` (SPEO) the
last one that was acquired; in between the runs cover every offset once, in order and without a
hole. Nothing in flight means that the end is right in front of the start.

A run begins as what one fetch has acquired, and is cut where an acknowledgement, a fetch or the
start offset cuts it: so memory is for the borders between states, not for offsets, at most one run
for each offset that is in flight. Kafka keeps a batch and, once that is cut, every one of its
offsets; both see the same states. Runs whose delivery is complete are joined with their neighbours
and leave when the start offset passes them.

A run in transition (`before` is not None) is in the state that a write to the share coordinator is
to make durable. It takes part in nothing until that write has ended; if it fails, the run returns
to what it was before.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Sequence
from typing import Final

from fencepost.machines.share.pieces import PieceOf, Pieces
from fencepost.machines.share.records import TERMINAL, RecordState

RUNS_PER_PIECE: Final = 500
"""Runs that are looked at, cut or changed before other work comes first."""


class Run:
    """Offsets `first` to `last`, both inclusive, in one state."""

    __slots__ = (
        "batch_records",
        "before",
        "deadline_ms",
        "delivery_count",
        "first",
        "last",
        "member_id",
        "state",
    )

    def __init__(
        self,
        first: int,
        last: int,
        state: RecordState,
        delivery_count: int = 0,
        member_id: str = "",
        deadline_ms: int = 0,
        batch_records: int = 0,
        before: RecordState | None = None,
    ) -> None:
        self.first = first
        self.last = last
        self.state = state
        self.delivery_count = delivery_count
        self.member_id = member_id
        """The member that holds the lock, or held it before the transition; else empty."""
        self.deadline_ms = deadline_ms
        """When the lock runs out, by the monotonic clock."""
        self.batch_records = batch_records or last - first + 1
        """How many records were acquired together, of which this is what is left in one state."""
        self.before = before
        """The state to return to if the write under way fails; None when none is under way."""

    @property
    def size(self) -> int:
        """How many offsets it has."""
        return self.last - self.first + 1

    @property
    def is_available(self) -> bool:
        """Whether it may be acquired."""
        return self.state is RecordState.AVAILABLE and self.before is None

    @property
    def is_settled(self) -> bool:
        """Whether its delivery is complete, durably or not to be undone."""
        return self.state in TERMINAL and self.before is None

    def __repr__(self) -> str:
        moving = "" if self.before is None else f" from {self.before.name}"
        return f"<{self.first}-{self.last} {self.state.name}{moving} x{self.delivery_count}>"


class InFlight:
    """See the module docstring."""

    def __init__(self, start_offset: int) -> None:
        self.start_offset = start_offset
        self.end_offset = start_offset - 1
        self._runs: list[Run] = []
        self._firsts: list[int] = []
        self._available_from = start_offset
        """No run in front of this offset is available."""

    def __len__(self) -> int:
        """How many runs there are."""
        return len(self._runs)

    @property
    def records(self) -> int:
        """How many offsets are in flight."""
        return self.end_offset - self.start_offset + 1

    @property
    def runs(self) -> Iterator[Run]:
        """All runs in order. Nothing may be cut meanwhile."""
        return iter(self._runs)

    def after(self, changed: Collection[Run]) -> PieceOf[tuple[int, int]]:
        """Where the start offset will be when the transitions of these runs have succeeded, and how
        many offsets from there on are in a terminal state, on their way to one included."""
        start, is_passing, complete = self.start_offset, True, 0
        for begin in range(0, len(self._runs), RUNS_PER_PIECE):
            if begin:
                yield None
            for run in self._runs[begin : begin + RUNS_PER_PIECE]:
                is_terminal = run.state in TERMINAL
                if is_passing and is_terminal and (run.before is None or run in changed):
                    start = run.last + 1
                    continue
                is_passing = False
                if is_terminal:
                    complete += run.last - run.first + 1
        return start, complete

    def covering(self, first: int, last: int) -> list[Run]:
        """The runs that have an offset of the range."""
        if first > last:
            return []
        begin = max(bisect_right(self._firsts, first) - 1, 0)
        runs = self._runs[begin : bisect_right(self._firsts, last)]
        return runs[1:] if runs and runs[0].last < first else runs

    def cut(self, first: int, last: int) -> list[Run]:
        """The runs of the range, cut so that they have no other offset."""
        self._cut_at(first)
        self._cut_at(last + 1)
        return self.covering(first, last)

    def cut_all(self, ranges: Sequence[tuple[int, int]]) -> None:
        """Cut the runs where one of the ranges begins or ends; they are in order, and apart. One
        pass, however many there are."""
        if not ranges:
            return
        begin = max(bisect_right(self._firsts, ranges[0][0]) - 1, 0)
        end = bisect_right(self._firsts, ranges[-1][1])
        bounds = [bound for first, last in ranges for bound in (first, last + 1)]
        place, cut = 0, []
        for run in self._runs[begin:end]:
            cut.append(run)
            last = run.last
            while place < len(bounds) and bounds[place] <= last:
                if bounds[place] > cut[-1].first:
                    cut.append(_split(cut[-1], bounds[place]))
                place += 1
        self._runs[begin:end] = cut
        self._firsts[begin:end] = [run.first for run in cut]

    def append(self, run: Run) -> None:
        """Let the run follow at the end."""
        assert run.first == self.end_offset + 1 and run.last >= run.first, "runs have no holes"
        self._runs.append(run)
        self._firsts.append(run.first)
        self.end_offset = run.last
        self.note_available(run)

    def note_available(self, run: Run) -> None:
        """The run may be available from now on."""
        if run.first < self._available_from and run.is_available:
            self._available_from = run.first

    def next_fetch_offset(self) -> int:
        """Where there is something to acquire: the first available offset, else behind the end."""
        for run in self.covering(self._available_from, self.end_offset):
            if run.is_available:
                self._available_from = max(run.first, self._available_from)
                return self._available_from
        self._available_from = self.end_offset + 1
        return self._available_from

    def start_at(self, offset: int) -> bool:
        """Forget all offsets in front of `offset`, whatever their state; whether there is any."""
        if offset <= self.start_offset:
            return False
        self._cut_at(offset)
        count = bisect_left(self._firsts, offset)
        del self._runs[:count], self._firsts[:count]
        self.start_offset = offset
        self.end_offset = max(self.end_offset, offset - 1)
        self._available_from = max(self._available_from, offset)
        return True

    def pass_settled(self) -> bool:
        """Let the start offset pass the runs that are complete; whether it has advanced."""
        passed = 0
        for run in self._runs:
            if not run.is_settled:
                break
            passed += 1
        if not passed:
            return False
        return self.start_at(self._runs[passed - 1].last + 1)

    def join_settled(self, first: int, last: int) -> Pieces:
        """Join complete runs in the range, and beside it, with neighbours of the same kind."""
        place = max(bisect_right(self._firsts, first) - 2, 0)
        while place + 1 < len(self._runs) and self._firsts[place] <= last + 1:
            most = min(place + RUNS_PER_PIECE, len(self._runs))
            end = bisect_right(self._firsts, last + 1, place, most)
            joined = _joined(self._runs[place : end + 1])
            self._runs[place : end + 1] = joined
            self._firsts[place : end + 1] = [run.first for run in joined]
            place += len(joined) - 1
            if place + 1 < len(self._runs) and self._firsts[place] <= last + 1:
                yield None

    def _cut_at(self, offset: int) -> None:
        """Let no run have both `offset` and the offset in front of it."""
        place = bisect_right(self._firsts, offset) - 1
        if place < 0:
            return
        run = self._runs[place]
        if not run.first < offset <= run.last:
            return
        rest = _split(run, offset)
        self._runs.insert(place + 1, rest)
        self._firsts.insert(place + 1, offset)


def _joined(runs: Sequence[Run]) -> list[Run]:
    """The runs, complete neighbours of the same kind as one."""
    joined: list[Run] = []
    for run in runs:
        before = joined[-1] if joined else None
        if (
            before is not None
            and before.is_settled
            and run.is_settled
            and before.state is run.state
            and before.delivery_count == run.delivery_count
        ):
            before.last = run.last
        else:
            joined.append(run)
    return joined


def _split(run: Run, offset: int) -> Run:
    """Take the offsets from `offset` on out of the run, into another one."""
    rest = Run(
        offset,
        run.last,
        run.state,
        run.delivery_count,
        run.member_id,
        run.deadline_ms,
        run.batch_records,
        run.before,
    )
    run.last = offset - 1
    return rest
