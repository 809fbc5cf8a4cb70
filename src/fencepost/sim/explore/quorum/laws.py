"""What must hold in every state, and what has to be remembered of the past to tell.

Numbers as in docs/SIMULATOR.md. I06, I07, I23 and I29 are seen in a node's step (`steps.py`), the
machine's own assertions too, and a node that gives up, for nothing here gives it reason to. I27 and
I28 speak of snapshots, which these spaces do not have.

The past holds what is committed, who led which epoch, and of votes those of the epoch that the
voter is in (in an older one it cannot vote again).
"""

from __future__ import annotations

from typing import NamedTuple

from fencepost.machines.quorum import Role
from fencepost.sim.explore.laws import LawBook
from fencepost.sim.explore.quorum.steps import Outcome, Steps, View


class Past(NamedTuple):
    """Entries that are committed; (epoch, leader); (voter, epoch, candidate); who may be down."""

    committed: tuple[int, ...] = ()
    leaders: tuple[tuple[int, int], ...] = ()
    votes: tuple[tuple[int, int, int], ...] = ()
    down: tuple[int, ...] = ()


class Laws(LawBook):
    """Judges transitions; `unwatched` are laws not to look at, for tests of the others."""

    def __init__(self, steps: Steps, unwatched: frozenset[str] = frozenset()) -> None:
        super().__init__(steps.entry, unwatched)
        self._steps = steps

    def judge(self, past: int, before: int, cells: tuple[int, ...], outcome: Outcome) -> int:
        """The past after a step from the node's state `before`, which led to `cells`. Violation."""
        if outcome.violation is not None:
            self.fail(*outcome.violation.split(": ", 1))
        if not outcome.matters:
            return past
        views = [self._steps.views[cell] for cell in cells]
        old, new = self._steps.views[before], self._steps.views[outcome.cell]
        then: Past = self.pasts.values[past]
        committed, leaders, votes, down = then
        votes = self._votes_after(votes, old, new, outcome.vote_told)
        if new.role is Role.LEADER and (old.role is not Role.LEADER or old.epoch != new.epoch):
            leaders = self._leaders_after(then, new)
        if new.high_watermark > 0:
            committed = self._committed_after(committed, new, views)
        if old.log != new.log:
            self.compare_logs(new, views)
        return self.pasts.of(Past(committed, leaders, votes, down))

    def _votes_after(
        self,
        votes: tuple[tuple[int, int, int], ...],
        old: View,
        new: View,
        vote_told: tuple[int, int] | None,
    ) -> tuple[tuple[int, int, int], ...]:
        """I22: one vote per voter and epoch, of those on disk and those that were told."""
        given = []
        if new.voted_id >= 0:
            given.append((new.epoch, new.voted_id))
        if vote_told is not None:
            given.append(vote_told)
        known = set(votes)
        for epoch, candidate in given:
            for voter, other_epoch, other in votes:
                if (voter, other_epoch) == (new.node_id, epoch) and other != candidate:
                    self.fail("I22", f"{voter} votes for {other} and {candidate} in {epoch}")
            known.add((new.node_id, epoch, candidate))
        kept = (v for v in known if v[0] != new.node_id or v[1] >= new.epoch)
        return tuple(sorted(kept))

    def _leaders_after(self, then: Past, new: View) -> tuple[tuple[int, int], ...]:
        """I21: one leader per epoch. I25: it has what is committed."""
        for epoch, leader in then.leaders:
            if epoch == new.epoch and leader != new.node_id:
                self.fail("I21", f"{leader} and {new.node_id} lead epoch {epoch}")
        is_newest = all(epoch <= new.epoch for epoch, _ in then.leaders)
        if is_newest and new.log[: len(then.committed)] != then.committed:
            self.fail("I25", f"leader {new.node_id} of epoch {new.epoch} lacks committed batches")
        return tuple(sorted({*then.leaders, (new.epoch, new.node_id)}))

    def _committed_after(
        self, committed: tuple[int, ...], new: View, views: list[View]
    ) -> tuple[int, ...]:
        """I24: one committed log. I26: a majority of voters has it on disk."""
        entry = self._steps.entry
        held = [n for n in new.log if entry(n).next_offset <= new.high_watermark]
        known = min(len(held), len(committed))
        if tuple(held[:known]) != committed[:known]:
            self.fail("I24", f"{new.node_id} has other committed batches than there were")
        for number in held[known:]:
            holders = [v.node_id for v in views if number in v.log[: v.durable]]
            holders = [id_ for id_ in holders if id_ in new.voters]
            offset = entry(number).base_offset
            if len(holders) <= len(new.voters) // 2:
                self.fail(
                    "I26", f"offset {offset} is committed among {list(new.voters)}, on {holders}"
                )
            for view in views:
                leads_later = view.role is Role.LEADER and view.epoch > new.epoch
                if leads_later and number not in view.log:
                    self.fail("I25", f"leader {view.node_id} lacks offset {offset}, committed now")
        return committed + tuple(held[known:])
