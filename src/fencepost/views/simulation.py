"""What runs of the simulator come to, as `fencepost sim` shows it."""

from __future__ import annotations

from typing import Any

from fencepost.views.view import View


class FoundViolation(View, frozen=True):
    """What did not hold in a seed; of `kind` process when the process that ran it died."""

    seed: int
    kind: str
    text: str


class SimulatedSeeds(View, frozen=True):
    """What a run of seeds covered. Hours are of the simulated world, seconds of this one."""

    seeds: int
    simulated_hours: float
    seconds: float
    cpu_seconds: float
    jobs: int
    events: int
    events_per_second_per_core: int
    simulated_hours_per_core_hour: int
    seeds_on_wire: int
    seeds_with_dynamic_voters: int
    seeds_with_brokers: int
    batches_committed: int
    epochs: int
    requests_done: int
    requests_refused: int
    faults: dict[str, int]
    probes: dict[str, int]
    probes_never_hit: list[str]
    violations: list[FoundViolation]
    first_seed: int
    ablation: str | None

    @property
    def sentence(self) -> str:
        """How much it was, and how fast."""
        return (
            f"{self.seeds} seeds, {self.simulated_hours:.1f} simulated hours,"
            f" {self.events} events ({self.events_per_second_per_core}/s per core,"
            f" {self.simulated_hours_per_core_hour} simulated hours per core-hour),"
            f" {len(self.violations)} violations"
        )

    @property
    def verdict(self) -> str:
        """Whether the bug that was put back was found; of a run with `ablation`."""
        found = f"found after {self.seeds} seeds" if self.violations else "NOT found"
        return f"ablation {self.ablation}: {found}"


class SearchedAblation(View, frozen=True):
    """How many seeds it took to find a bug that was put back; None: it was not found."""

    seeds: int | None
    seed: int | None
    kind: str | None
    says: str


class ReplayedSeed(View, frozen=True):
    """What came of one seed, or of a recording; the same fingerprint means the same events."""

    seed: int
    violation: str | None
    events: int
    simulated_seconds: float
    fingerprint: str

    @property
    def lines(self) -> list[str]:
        return [f"{name}: {getattr(self, name)}" for name in self.__struct_fields__]


class ShrunkSeed(View, frozen=True):
    """The few events that a violation takes, and the story of them."""

    seed: int
    kind: str
    text: str
    events_before: int
    events: int
    choices: int
    replays: int
    voters: int
    faults: list[str]
    story: list[str]

    @property
    def sentence(self) -> str:
        return (
            f"seed {self.seed}, {self.kind}: from {self.events_before} events to"
            f" {self.events}, {self.choices} choices left, {self.replays} replays,"
            f" {self.voters} voters, faults: {', '.join(self.faults)}"
        )


class Exploration(View, frozen=True):
    """What a search of all histories within `bounds` has seen, and the story of a violation.

    `depth` is the length of the longest shortest path, `waiting` how many states were not looked at
    yet, `beyond` how many transitions led out of the bounds and were not taken.
    """

    bounds: dict[str, Any]
    states: int
    transitions: int
    depth: int
    waiting: int
    seconds: float
    covered: bool
    violation: str | None
    node_states: int
    steps_taken: int
    beyond: int
    states_per_second: int
    story: list[str]

    @property
    def progress(self) -> str:
        """How far a search has come that still runs."""
        return (
            f"{self.states:,} states, {self.waiting:,} waiting, depth {self.depth},"
            f" {self.transitions:,} transitions, {self.states_per_second:,} states/s"
        )

    @property
    def lines(self) -> list[str]:
        """The story, what was seen, and without a violation whether that is everything."""
        seen = (
            f"{self.states:,} states, {self.transitions:,} transitions, depth {self.depth},"
            f" {self.seconds:.0f} s, {self.states_per_second:,} states/s; the machines took"
            f" {self.steps_taken:,} steps between {self.node_states:,} states of nodes"
        )
        if self.violation is not None:
            return [*self.story, seen]
        if self.covered:
            beyond = f"({self.beyond:,} transitions led beyond)"
            return [seen, f"covered: every state within the bounds {beyond}"]
        left = f"{self.waiting:,} states not looked at"
        return [seen, f"NOT covered: the budget ended with {left}"]


class SimulatorParts(View, frozen=True):
    """What the simulator has, by name, each in a line."""

    faults: dict[str, str]
    checks: dict[str, str]
    ablations: dict[str, str]
    commands: dict[str, str]

    @property
    def lines(self) -> list[str]:
        lines = []
        for title in self.__struct_fields__:
            entries: dict[str, str] = getattr(self, title)
            width = max(map(len, entries), default=0)
            lines.append(f"{title}:")
            lines += [f"  {name.ljust(width)}  {says}" for name, says in entries.items()]
        return lines
