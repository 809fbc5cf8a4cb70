"""From a seed that fails to the few choices that make it fail.

A failing run's tape is replayed with less and less on it, and whatever still fails in the same way
(the same kind of violation) is kept. In turn, as long as anything gets smaller:

1. whole kinds of faults are switched off, their lanes emptied;
2. the times of the phases are cut;
3. no clients, and fewer nodes;
4. in each lane, pieces of the tape are set to zero, large pieces first (ddmin): zero is benign, and
   unlike dropping does not shift what stands behind;
5. single choices are lowered towards zero.

The result is a tape that can be written to a file and replayed, and read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from fencepost.sim.options import Options
from fencepost.sim.recording import Recording
from fencepost.sim.run import Outcome, Plan, replay, run_seed
from fencepost.views.simulation import ShrunkSeed

Lanes = dict[str, list[int]]
Progress = Callable[[str], None]
QUIET_LANES = ("versions", "schedule", "network", "workload")
_LOWER_STEPS = 6


@dataclass(slots=True)
class Shrunk:
    """A failing tape that is as small as it got: `choices` are those that are not zero."""

    seed: int
    kind: str
    text: str
    options: Options
    tape: Lanes
    replays: int
    events_before: int
    events: int
    ablation: str | None = None

    @property
    def choices(self) -> int:
        """How many choices are not the benign one."""
        return sum(1 for values in self.tape.values() for value in values if value)

    @property
    def recording(self) -> Recording:
        """What `sim replay FILE` reads."""
        return Recording(self.seed, self.kind, self.text, self.options, self.tape, self.ablation)

    def view(self, story: list[str]) -> ShrunkSeed:
        """It as it is shown, with the lines that tell its events."""
        return ShrunkSeed(
            seed=self.seed,
            kind=self.kind,
            text=self.text,
            events_before=self.events_before,
            events=self.events,
            choices=self.choices,
            replays=self.replays,
            voters=self.options.voters,
            faults=list(self.options.faults or ()),
            story=story,
        )


class Shrinker:
    """One shrinking; `shrink` does it all. `most` bounds how many times the world is replayed."""

    def __init__(
        self, seed: int, plan: Plan, progress: Progress = lambda line: None, most: int = 2_000
    ) -> None:
        self._seed = seed
        self._plan = plan
        self._progress = progress
        self._most = most
        self._replays = 0
        first = run_seed(seed, replace(plan, keeps_tape=True))
        if first.violation is None or first.options is None or first.tape is None:
            raise ValueError(f"seed {seed} does not fail")
        self._kind = first.violation.kind
        self._options = first.options
        self._tape: Lanes = first.tape
        self._best: Outcome = first
        self._events_before = first.events

    def shrink(self) -> Shrunk:
        """Make it smaller until nothing helps any more, or the replays are used up."""
        for name in [lane for lane in self._tape if lane.startswith(("options", "has."))]:
            del self._tape[name]  # what was drawn there is among the options now
        size = -1
        while size != self._size() and self._replays < self._most:
            size = self._size()
            self._drop_faults()
            self._cut_times()
            self._drop_brokers()
            self._drop_nodes()
            self._zero_pieces()
            self._lower()
        assert self._best.violation is not None, "only what fails is kept"
        return Shrunk(
            self._seed,
            self._kind,
            self._best.violation.text,
            self._options,
            self._tape,
            self._replays,
            self._events_before,
            self._best.events,
            self._plan.ablation,
        )

    def _size(self) -> int:
        choices = sum(1 for values in self._tape.values() for value in values if value)
        return choices + self._best.events + len(self._tape)

    def _try(self, tape: Lanes, options: Options) -> bool:
        """Keep these if they fail in the same way."""
        if self._replays >= self._most:
            return False
        self._replays += 1
        plan = replace(self._plan, base=options, draws_options=False, keeps_tape=True)
        outcome = replay(self._seed, tape, plan)
        if outcome.violation is None or outcome.violation.kind != self._kind:
            return False
        self._tape, self._options, self._best = outcome.tape or {}, options, outcome
        self._progress(
            f"{self._replays} replays: {outcome.events} events,"
            f" {sum(1 for v in self._tape.values() for c in v if c)} choices,"
            f" faults {', '.join(options.faults or ()) or 'none'}"
        )
        return True

    def _drop_faults(self) -> None:
        faults = self._options.faults or ()
        for name in faults:
            left = tuple(other for other in (self._options.faults or ()) if other != name)
            tape = {lane: v for lane, v in self._tape.items() if lane != f"fault.{name}"}
            self._try(tape, replace(self._options, faults=left))

    def _cut_times(self) -> None:
        for name in ("safety_ms", "warm_up_ms"):
            value = getattr(self._options, name)
            while value > 1_000 and self._try(
                self._tape, replace(self._options, **{name: value // 2})
            ):
                value //= 2

    def _drop_nodes(self) -> None:
        options = self._options
        if options.write_every_ms:
            tape = {lane: v for lane, v in self._tape.items() if lane != "workload"}
            self._try(tape, replace(options, write_every_ms=0))
            options = self._options
        if not options.write_every_ms and options.has_controller:
            self._try(self._tape, replace(options, has_controller=False))
            options = self._options
        if options.observers:
            self._try(self._tape, replace(options, observers=0))
        for voters in range(1, self._options.voters):
            if self._try(self._tape, replace(self._options, voters=voters)):
                return
        if self._options.on_wire:
            self._try(self._tape, replace(self._options, on_wire=False))

    def _drop_brokers(self) -> None:
        """Brokers and their clients, all of them or as many as can be spared."""
        if not self._options.brokers or self._try(self._tape, replace(self._options, brokers=0)):
            return
        for name in ("consumers", "producers", "topics"):
            for count in range(getattr(self._options, name)):
                fewer: dict[str, Any] = {name: count}
                if self._try(self._tape, replace(self._options, **fewer)):
                    break
        for brokers in range(1, self._options.brokers):
            replicas = min(brokers, self._options.replicas)
            min_isr = min(replicas, self._options.min_isr)
            options = replace(self._options, brokers=brokers, replicas=replicas, min_isr=min_isr)
            if self._try(self._tape, options):
                return

    def _lane_order(self) -> list[str]:
        """Lanes whose zeros change least first."""
        return sorted(self._tape, key=lambda name: (name not in QUIET_LANES, name))

    def _zero_pieces(self) -> None:
        """All lanes whole first, then all in halves, and so on."""
        pieces = 1
        while pieces <= max(map(len, self._tape.values()), default=0):
            for name in self._lane_order():
                size = -(-len(self._tape.get(name, ())) // pieces)
                if size and (size > 1 or pieces == 1 or self._is_fine(name, pieces)):
                    self._zero_lane(name, size)
            pieces *= 2

    def _is_fine(self, name: str, pieces: int) -> bool:
        """Whether single choices of this lane come up for the first time."""
        return pieces < 2 * len(self._tape.get(name, ()))

    def _zero_lane(self, name: str, size: int) -> None:
        """Zero pieces of this size, where that leaves the failure as it is."""
        at = 0
        while at < len(self._tape.get(name, ())) and self._replays < self._most:
            values = self._tape[name]
            piece = values[at : at + size]
            if any(piece):
                changed = [*values[:at], *([0] * len(piece)), *values[at + size :]]
                self._try({**self._tape, name: changed}, self._options)
            at += size

    def _lower(self) -> None:
        for name in self._lane_order():
            for at in range(len(self._tape.get(name, ()))):
                for _ in range(_LOWER_STEPS):
                    values = self._tape.get(name, [])
                    if at >= len(values) or not values[at]:
                        break
                    changed = [*values]
                    changed[at] //= 2
                    if not self._try({**self._tape, name: changed}, self._options):
                        break
