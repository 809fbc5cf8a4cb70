"""What a long run has covered: seeds, simulated time, faults, rare paths, and what was found."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field

from fencepost.sim.probe_names import probe_names
from fencepost.sim.run import Outcome
from fencepost.views.simulation import FoundViolation, SimulatedSeeds

_HOUR_US = 3_600_000_000


@dataclass(slots=True)
class Ledger:
    """Adds up outcomes. Times of the simulated world and of this one are kept apart."""

    seeds: int = 0
    events: int = 0
    simulated_us: int = 0
    on_wire: int = 0
    dynamic: int = 0
    with_brokers: int = 0
    committed: int = 0
    epochs: int = 0
    acked: int = 0
    refused: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    probes: Counter[str] = field(default_factory=Counter)
    violations: list[FoundViolation] = field(default_factory=list)
    began: float = field(default_factory=time.monotonic)
    jobs: int = 1
    cpu_seconds: float = 0.0

    def add(self, outcome: Outcome) -> None:
        """Take in a seed."""
        self.seeds += 1
        self.events += outcome.events
        self.cpu_seconds += outcome.cpu_seconds
        self.simulated_us += outcome.simulated_us
        self.committed += outcome.committed
        self.epochs += outcome.elections
        self.acked += outcome.acked
        self.refused += outcome.refused
        self.faults.update(outcome.faults)
        self.probes.update(outcome.probes)
        if outcome.options is not None:
            self.on_wire += outcome.options.on_wire
            self.dynamic += outcome.options.is_dynamic
            self.with_brokers += outcome.options.brokers > 0
        if outcome.violation is not None:
            found = outcome.violation
            self.violations.append(FoundViolation(outcome.seed, found.kind, found.text))

    def add_unfinished(self, seed: int, text: str) -> None:
        """Take note of a seed whose process died: what came of it is unknown."""
        self.violations.append(FoundViolation(seed, "process", text))

    @property
    def seconds(self) -> float:
        """How long this has taken."""
        return time.monotonic() - self.began

    def events_per_second(self) -> float:
        """Of processor time, which is what a core that does nothing else would do."""
        return self.events / max(self.cpu_seconds, 1e-9)

    def hours_per_core_hour(self) -> float:
        """Simulated time per time of a core."""
        return self.simulated_us / 1_000_000 / max(self.cpu_seconds, 1e-9)

    def view(self, first_seed: int = 1, ablation: str | None = None) -> SimulatedSeeds:
        """All of it, as it is shown; `ablation` is the old bug that the seeds ran with."""
        return SimulatedSeeds(
            seeds=self.seeds,
            simulated_hours=round(self.simulated_us / _HOUR_US, 3),
            seconds=round(self.seconds, 1),
            cpu_seconds=round(self.cpu_seconds, 1),
            jobs=self.jobs,
            events=self.events,
            events_per_second_per_core=round(self.events_per_second()),
            simulated_hours_per_core_hour=round(self.hours_per_core_hour()),
            seeds_on_wire=self.on_wire,
            seeds_with_dynamic_voters=self.dynamic,
            seeds_with_brokers=self.with_brokers,
            batches_committed=self.committed,
            epochs=self.epochs,
            requests_done=self.acked,
            requests_refused=self.refused,
            faults=dict(sorted(self.faults.items())),
            probes=dict(sorted(self.probes.items())),
            probes_never_hit=[name for name in probe_names() if not self.probes[name]],
            violations=list(self.violations),
            first_seed=first_seed,
            ablation=ablation,
        )
