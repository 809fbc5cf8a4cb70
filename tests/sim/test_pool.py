"""Seeds in several processes: each outcome is told, and so is each process that dies."""

from __future__ import annotations

import json
import multiprocessing
import os
import pickle
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from fencepost.cli.main import main
from fencepost.sim import pool
from fencepost.sim.ablations import load_ablation
from fencepost.sim.options import Options
from fencepost.sim.oracle import Violation
from fencepost.sim.pool import WorkerDiedError, run_seeds
from fencepost.sim.run import Outcome, Plan, run_seed

SHORT = Options(voters=1, observers=0, faults=(), warm_up_ms=2_000, safety_ms=100)
QUIET = Plan(base=SHORT, draws_options=False)
DEADLY_SEED = 2


def kill_itself() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def leave() -> None:
    os._exit(7)


def leave_as_if_done() -> None:
    os._exit(0)


def interrupt_itself() -> None:
    os.kill(os.getpid(), signal.SIGINT)


@pytest.fixture
def deadly(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], None]], None]:
    """Has the process that runs DEADLY_SEED end as it is told to."""

    def make(end: Callable[[], None]) -> None:
        def run_or_end(seed: int, plan: Plan) -> Outcome:
            if seed == DEADLY_SEED:
                end()
            return run_seed(seed, plan)

        monkeypatch.setattr(pool, "run_seed", run_or_end)

    return make


def test_a_violation_is_what_it_was_in_another_process() -> None:
    again = pickle.loads(pickle.dumps(Violation("I21", "two leaders: 1 and 2")))
    assert (again.kind, again.text) == ("I21", "two leaders: 1 and 2")
    assert str(again) == "I21: two leaders: 1 and 2"


def test_every_seed_that_fails_in_another_process_is_told() -> None:
    ablation = load_ablation("commits-without-disk")
    options = Options(faults=(), warm_up_ms=4_000, safety_ms=100)
    plan = Plan(base=options, rules=ablation.rules, draws_options=False)
    alone = {one.seed: str(one.violation) for one in run_seeds(range(1, 5), plan)}
    assert len([text for text in alone.values() if text.startswith("I26: ")]) > 1
    together = {one.seed: str(one.violation) for one in run_seeds(range(1, 5), plan, jobs=2)}
    assert together == alone
    assert multiprocessing.active_children() == []


def test_a_violation_in_another_process_ends_a_search(capsys: pytest.CaptureFixture[str]) -> None:
    args = ["sim", "run", "--jobs", "2", "--ablation", "commits-without-disk"]
    assert main(args) == 0
    assert "ablation commits-without-disk: found after" in capsys.readouterr().out
    assert main(["sim", "ablations", "commits-without-disk", "--jobs", "2"]) == 0
    assert "commits-without-disk: found after" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("end", "says"),
    [
        (kill_itself, "seed 2: the process that ran it was ended by signal 9 (Killed)"),
        (leave, "seed 2: the process that ran it ended with exit code 7"),
        (leave_as_if_done, "seed 2: the process that ran it ended with exit code 0"),
    ],
    ids=["killed", "left", "left-as-if-done"],
)
def test_a_process_that_dies_ends_the_run_with_its_seed(
    deadly: Callable[[Callable[[], None]], None], end: Callable[[], None], says: str
) -> None:
    deadly(end)
    with pytest.raises(WorkerDiedError) as caught:
        list(run_seeds(range(1, 1 << 40), QUIET, jobs=2))
    assert (caught.value.seed, str(caught.value)) == (DEADLY_SEED, says)
    assert multiprocessing.active_children() == [], "no worker goes on"


def test_an_interrupt_is_for_the_process_that_started_the_others(
    deadly: Callable[[Callable[[], None]], None],
) -> None:
    """A terminal sends it to all of them."""
    deadly(interrupt_itself)
    assert sorted(one.seed for one in run_seeds(range(1, 5), QUIET, jobs=2)) == [1, 2, 3, 4]


def test_a_process_that_dies_before_it_begins_a_seed_is_told_with_it() -> None:
    """Its end of the pipe is closed with the seed unread, which is another error."""
    workers: list[pool._Worker] = []
    worker = pool._Worker(QUIET, workers, 1)
    try:
        assert worker.outcome().seed == 1
        pid = worker._process.pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOWAIT)
        worker.run(5)
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(WorkerDiedError, match=r"seed 5: .* signal 9"):
            worker.outcome()
    finally:
        worker.end()


def test_a_dead_process_is_an_exit_code_and_an_entry_of_the_ledger(
    deadly: Callable[[Callable[[], None]], None],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    deadly(kill_itself)
    ledger = tmp_path / "ledger.json"
    args = ["sim", "run", "--faults", "none", "--jobs", "2", "--ledger", str(ledger)]
    assert main(args) == 1
    assert "fencepost sim: seed 2: the process that ran it" in capsys.readouterr().err
    [violation] = json.loads(ledger.read_text())["violations"]
    assert (violation["seed"], violation["kind"]) == (DEADLY_SEED, "process")
    assert main([*args, "--ablation", "keeps-uncommitted-state"]) == 1, "nothing was found by that"
    assert "found after" not in capsys.readouterr().out
    assert main(["sim", "ablations", "keeps-uncommitted-state", "--seeds", "9", "--jobs", "2"]) == 1
    assert "NOT found: seed 2: the process that ran it" in capsys.readouterr().out


def test_who_asks_for_no_more_seeds_stops_the_processes() -> None:
    outcomes = run_seeds(range(1, 1 << 40), QUIET, jobs=2)
    assert next(iter(outcomes)).violation is None
    assert len(multiprocessing.active_children()) == 2
    outcomes.close()  # type: ignore[attr-defined]
    assert multiprocessing.active_children() == []
