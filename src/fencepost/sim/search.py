"""Searching for a bug that was put back: how many seeds does it take?"""

from __future__ import annotations

from fencepost.sim.ablations.ablation import Ablation
from fencepost.sim.options import Options
from fencepost.sim.pool import WorkerDiedError, run_seeds
from fencepost.sim.run import Plan
from fencepost.views.simulation import SearchedAblation


def search(ablation: Ablation, most: int, jobs: int = 1) -> SearchedAblation:
    """Run seeds from 1 on until one fails. `seeds` None: none of `most` did, or a process died."""
    plan = Plan(base=ablation.base(Options(faults=ablation.faults)), rules=ablation.rules)
    try:
        for count, outcome in enumerate(run_seeds(range(1, most + 1), plan, jobs), 1):
            if outcome.violation is not None:
                found = outcome.violation
                says = f"found after {count} seeds, {found}"
                return SearchedAblation(count, outcome.seed, found.kind, says)
    except WorkerDiedError as error:
        return SearchedAblation(None, None, None, f"NOT found: {error}")
    return SearchedAblation(None, None, None, f"NOT found in {most} seeds")
