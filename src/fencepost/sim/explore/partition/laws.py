"""What must hold in every state of a partition, and what of the past is needed to tell.

Numbers as in docs/SIMULATOR.md. I05 and I06 are seen in a broker's step (`steps.py`), the product's
own assertions too.

| law | here                                                                                      |
|-----|-------------------------------------------------------------------------------------------|
| I03 | two logs that have a batch of one offset and epoch are the same up to it                  |
| I07 | no replica cuts off what any leader has shown                                             |
| I08 | who leads is in sync, who is in sync has a replica and is not fenced, or eligible besides |
| I09 | a leader's maximal in-sync set has every replica that the controller has in sync          |
| I11 | each replica in sync, or eligible, by the controller has everything that was shown        |
| I12 | who begins to lead has everything that was shown                                          |
| I13 | what is acknowledged has been shown                                                       |
| I14 | an epoch has one leader                                                                   |
| I17 | what is shown is on the disks of all that are in sync, and of enough of them              |

The past is part of a state, so it holds no more than is needed: what was shown (to consumers, below
a leader's high watermark), and who led which epoch.
"""

from __future__ import annotations

from typing import NamedTuple

from fencepost.machines.image import NO_LEADER, PartitionImage
from fencepost.sim.explore.laws import LawBook
from fencepost.sim.explore.partition.steps import Outcome, Steps, View


class Past(NamedTuple):
    """Entries that were shown, from offset 0 on; (epoch, leader)."""

    shown: tuple[int, ...] = ()
    leaders: tuple[tuple[int, int], ...] = ()


class Laws(LawBook):
    """Judges transitions; `unwatched` are laws not to look at, for tests of the others."""

    def __init__(self, steps: Steps, unwatched: frozenset[str] = frozenset()) -> None:
        super().__init__(steps.entry, unwatched)
        self._steps = steps

    # -- a broker's step -----------------------------------------------------------------------

    def judge(
        self, past: int, before: int, cells: tuple[int, ...], outcome: Outcome, image: int
    ) -> int:
        """The past after a broker's step from `before`; `image` is the controller's. Violation."""
        if outcome.violation is not None:
            self.fail(*outcome.violation.split(": ", 1))
        if not outcome.matters:
            return past
        steps = self._steps
        views = [steps.views[cell] for cell in cells]
        old, new = steps.views[before], steps.views[outcome.cell]
        then: Past = self.pasts.values[past]
        shown, leaders = then
        partition = steps.metadata.partition(image)
        if old.log != new.log:
            self.compare_logs(new, views)
            self._look_at_cut(shown, old, new, outcome)
        if new.is_leader:
            if not old.is_leader or old.epoch != new.epoch:
                leaders = self._leaders_after(then, new)
            shown = self._shown_after(shown, new, views, partition)
            self._look_at_maximal(new, partition)
        self._look_at_acked(shown, new, outcome)
        self._look_at_candidates(shown, views, partition)
        return self.pasts.of(Past(shown, leaders))

    def _look_at_cut(self, shown: tuple[int, ...], old: View, new: View, outcome: Outcome) -> None:
        if outcome.has_died:
            return
        for offset, entry in enumerate(shown):
            had = offset < len(old.log) and old.log[offset] == entry
            if had and (offset >= len(new.log) or new.log[offset] != entry):
                self.fail("I07", f"{new.node_id} cuts off offset {offset}, which was shown")

    def _leaders_after(self, then: Past, new: View) -> tuple[tuple[int, int], ...]:
        for epoch, leader in then.leaders:
            if epoch == new.epoch and leader != new.node_id:
                self.fail("I14", f"{leader} and {new.node_id} lead epoch {epoch}")
        is_newest = all(epoch <= new.epoch for epoch, _ in then.leaders)
        if is_newest and new.log[: len(then.shown)] != then.shown:
            self.fail("I12", f"leader {new.node_id} of epoch {new.epoch} lacks what was shown")
        return tuple(sorted({*then.leaders, (new.epoch, new.node_id)}))

    def _shown_after(
        self, shown: tuple[int, ...], new: View, views: list[View], partition: PartitionImage
    ) -> tuple[int, ...]:
        visible = new.log[: new.high_watermark]
        known = min(len(visible), len(shown))
        if visible[:known] != shown[:known]:
            self.fail("I20", f"{new.node_id} shows something else than was shown")
        for offset in range(known, len(visible)):
            number = visible[offset]
            holders = {v.node_id for v in views if number in v.log[: v.durable]}
            if len(holders) < min(self._steps.bounds.min_isr, len(views)):
                self.fail("I17", f"offset {offset} is shown, and on the disks of {sorted(holders)}")
            if new.epoch == partition.leader_epoch and not set(partition.isr) <= holders:
                isr = sorted(partition.isr)
                self.fail(
                    "I17", f"offset {offset} is shown with {isr} in sync, and on {sorted(holders)}"
                )
            for view in views:
                if view.is_leader and view.epoch > new.epoch and number not in view.log:
                    self.fail("I12", f"leader {view.node_id} lacks offset {offset}, shown now")
        return shown + visible[known:]

    def _look_at_maximal(self, view: View, partition: PartitionImage) -> None:
        is_newest = view.is_leader and view.epoch == partition.leader_epoch
        if is_newest and not set(partition.isr) <= view.maximal_isr:
            self.fail(
                "I09",
                f"{view.node_id} goes by {sorted(view.maximal_isr)}, with"
                f" {sorted(partition.isr)} in sync by the controller",
            )

    def _look_at_acked(self, shown: tuple[int, ...], new: View, outcome: Outcome) -> None:
        if not outcome.acked:
            return
        data = {self._steps.entry(number).data[-2:-1] for number in shown}
        for number in outcome.acked:
            if b"%d" % number not in data:
                self.fail("I13", f"{new.node_id} acknowledges batch {number}, not yet shown")

    # -- the controller's decisions ------------------------------------------------------------

    def judge_image(self, past: int, cells: tuple[int, ...], image: int) -> None:
        """Look at what the controller has just decided. Violation."""
        steps = self._steps
        partition = steps.metadata.partition(image)
        brokers = steps.metadata[image].brokers
        isr, eligible = set(partition.isr), set(partition.eligible_leader_replicas)
        if partition.leader != NO_LEADER and partition.leader not in isr:
            self.fail("I08", f"{partition.leader} leads and is not in sync")
        if not isr | eligible <= set(partition.replicas) or isr & eligible:
            self.fail("I08", f"in sync {sorted(isr)}, eligible {sorted(eligible)}")
        fenced = sorted(id_ for id_ in isr if brokers[id_].fenced)
        if fenced and (steps.bounds.elr or len(isr) > 1):
            self.fail("I08", f"{fenced} are fenced and in sync")
        views = [steps.views[cell] for cell in cells]
        for view in views:
            self._look_at_maximal(view, partition)
        then: Past = self.pasts.values[past]
        self._look_at_candidates(then.shown, views, partition)

    def _look_at_candidates(
        self, shown: tuple[int, ...], views: list[View], partition: PartitionImage
    ) -> None:
        candidates = {*partition.isr, *partition.eligible_leader_replicas}
        for view in views:
            if view.node_id in candidates and view.log[: len(shown)] != shown:
                self.fail("I11", f"{view.node_id} may be elected and lacks what was shown")
