"""Many seeds, in one process or several, in the order in which they are done."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterable, Iterator

from fencepost.sim.run import Outcome, Plan, run_seed

CHUNK = 4
"""Seeds that a process takes at a time."""


def run_seeds(seeds: Iterable[int], plan: Plan, jobs: int = 1) -> Iterator[Outcome]:
    """The outcome of each seed. With several jobs a plan is looked up anew in each process.

    Stopping to ask for more stops the processes.
    """
    if jobs <= 1:
        for seed in seeds:
            yield run_seed(seed, plan)
        return
    context = multiprocessing.get_context("fork")
    with context.Pool(jobs, _take_plan, (plan,)) as pool:
        yield from pool.imap_unordered(_run, seeds, CHUNK)


_plan: Plan | None = None


def _take_plan(plan: Plan) -> None:
    global _plan
    _plan = plan


def _run(seed: int) -> Outcome:
    assert _plan is not None, "the process has its plan"
    return run_seed(seed, _plan)
