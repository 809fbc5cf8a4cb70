"""Jobs that write exactly once with Spark itself, killed at every step of planning, reading,
writing and committing: the JVM, the Python process of the step, an executor, the broker, or the
coordinator of three brokers, by SIGKILL."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from fencepost.client.cluster import Cluster
from fencepost.testing import Cluster as Served
from fencepost.testing.spark_standalone import SparkStandalone

from ..test_session import make_topic, produce
from .job_process import JobProcess
from .machines import Machines
from .outputs import expected, written

pytestmark = [pytest.mark.spark, pytest.mark.slow]
RUNS_MAX = 4
"""Of the job, until it has put a kill right: what dies may need Spark to look twice."""
ROWS = 40
"""Records to copy for each kill."""

READING = ("plan", "plan:done", "split", "split:done", "read", "read:begun", "read:done")
SINK = ("open", "open:done", "write", "write:done", "commit", "decide", "decide:done",
        "end", "end:done", "commit:done")  # fmt: skip
TABLE = ("batch", "write", "write:done", "decide", "finish", "finish:done", "decide:done",
         "expire", "expire:done", "batch:done")  # fmt: skip
ARCHIVE = ("batch", "stage", "write", "write:done", "stage:done", "decide", "move", "move:begun",
           "move:done", "decide:done", "batch:done")  # fmt: skip
STEPS = {
    "query": READING + SINK,
    "each-batch": READING + SINK,
    "write": SINK,
    "tables": READING + TABLE,
    "archive": READING + ARCHIVE,
}
WRITES = 2
"""Of a batch by the function of foreachBatch: the first or the second is killed."""
VICTIMS = ("driver", "process", "executor", "broker", "coordinator")
MATRIX = [
    (job, victim)
    for job in STEPS
    for victim in VICTIMS
    if victim != "coordinator" or "open" in STEPS[job]  # tables and archives have none
]
ALWAYS = {("query", "process")}
"""What of the matrix `make test-long` has time for."""
ROUNDS = int(os.environ.get("FENCEPOST_KILL_ROUNDS", "0"))
"""How often each of them is killed at each of the steps; 0: once, and only those of `ALWAYS`."""
ONLY = os.environ.get("FENCEPOST_KILL_STEPS", "")
"""Some of the steps, with commas between them, to look at a case again."""

MakeMachines = Callable[[str], Machines]


@pytest.fixture
def machines_for(tmp_path: Path) -> Iterator[MakeMachines]:
    """Makes what a victim needs: three brokers for coordinators, a Spark cluster for executors."""
    with ExitStack() as stack:

        def make(victim: str) -> Machines:
            data, brokers, config = tmp_path / "data", 1, {}
            if victim == "coordinator":
                brokers, config = 3, {"default.replication.factor": 3, "min.insync.replicas": 2}
            served = Served(brokers, faults=False, data_dir=data, config=config)
            stack.enter_context(served)
            standalone = SparkStandalone(workers=2) if victim == "executor" else None
            return Machines(served, standalone and stack.enter_context(standalone))

        yield make


def passes_of(job: str, step: str, kills: int) -> int:
    """How often a run takes the step before the one that is killed."""
    if job == "each-batch" and step in SINK:
        return kills % WRITES
    if job == "tables" and step.removesuffix(":done") in ("decide", "finish"):
        return int(kills == 0)  # the first start makes an empty version
    # The start of an archive's query moves files, too, if an earlier run may have left some.
    is_move = job == "archive" and step.startswith("move")
    return int(is_move and (kills > 0 or step != "move:begun"))


def killed_at(
    job: str, victim: str, steps: tuple[str, ...], machines: Machines, folder: Path
) -> int:
    """How many kills there were; what is written is looked at behind each."""
    servers = machines.served.bootstrap_servers
    with Cluster(servers) as cluster:
        make_topic(cluster, "from", 3)
        make_topic(cluster, "to", 2)
        make_topic(cluster, "to-dead", 1)
    process = JobProcess(job, machines, folder)
    kills = 0
    try:
        for step in steps:
            numbers = range(kills * ROWS, (kills + 1) * ROWS)
            with Cluster(servers) as cluster:
                produce(cluster, "from", numbers.start, numbers.stop)
            passes = passes_of(job, step, kills)
            process.arm(step, victim, passes)
            answers = [process.run(numbers, victim)]
            assert process.was_taken, f"{step} was not reached: {answers}"
            while answers[-1] != "done" and len(answers) < RUNS_MAX:
                answers.append(process.run(numbers))
            if job == "write":
                answers.append(process.run(numbers))  # as a scheduler that did not hear of it
            kills += 1
            print(f"{kills}: {job}, {victim} at {step}, {passes}: {answers}", flush=True)
            assert answers[-1] == "done", (step, answers)
            assert written(job, servers, folder) == expected(job, kills * ROWS), (step, answers)
    finally:
        process.close()
    return kills


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("job", "step"), [("tables", "finish"), ("archive", "move:begun")])
def test_files_are_there_once_when_the_driver_is_killed_between_decision_and_end(
    machines_for: MakeMachines, tmp_path: Path, job: str, step: str
):
    assert killed_at(job, "process", (step,), machines_for("process"), tmp_path) == 1


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize(("job", "victim"), MATRIX)
def test_rows_are_there_once_whatever_is_killed_at_any_step(
    machines_for: MakeMachines, tmp_path: Path, job: str, victim: str
):
    if not ROUNDS and (job, victim) not in ALWAYS:
        pytest.skip("FENCEPOST_KILL_ROUNDS says how often; a round takes most of an hour")
    steps = tuple(step for step in STEPS[job] if not ONLY or step in ONLY.split(","))
    steps *= max(ROUNDS, 1)
    machines = machines_for(victim)
    assert killed_at(job, victim, steps, machines, tmp_path) == len(steps)
    if victim == "coordinator" and len(steps) > 1:
        assert len(set(machines.killed)) > 1  # those of the group and of the transactions
