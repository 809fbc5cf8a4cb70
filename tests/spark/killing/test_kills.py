"""Jobs that write exactly once with Spark itself, killed at every step of planning, reading,
writing and committing: the JVM, the Python process of the step, or the broker, by SIGKILL."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.client.admin import Admin
from fencepost.client.cluster import Cluster
from fencepost.client.config import ClientConfig
from fencepost.client.fetcher import Fetcher
from fencepost.client.metadata import TopicPartition
from fencepost.client.offsets import LATEST, list_offsets
from fencepost.testing import Cluster as Served

from ...waiting import eventually
from ..test_session import make_topic, produce

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(7200)]
HERE = Path(__file__).parent
WAIT_S = 240
RUNS_MAX = 4
"""Of the query, until it has put a kill right: what dies may need Spark to look twice."""
ROWS = 40
"""Records to copy for each kill."""

STEPS = ("plan", "plan:done", "split", "split:done", "read", "read:begun", "read:done",
         "open", "open:done", "write", "write:done", "commit", "decide", "decide:done",
         "end", "end:done", "commit:done")  # fmt: skip
WRITING = STEPS[STEPS.index("open") :]
"""Those that a batch write has."""
WRITES = 2
"""Of a batch by the function of foreachBatch: the first or the second is killed."""
VICTIMS = ("driver", "process", "broker")
ROUNDS = int(os.environ.get("FENCEPOST_KILL_ROUNDS", "1"))
"""How often each of them is killed at each of the steps: 51 kills of queries, 51 of foreachBatch
and 30 of batch writes; four times as many with 4 rounds."""


class Copying:
    """The job in a process of its own, which is started again when it is gone."""

    def __init__(self, job: str, served: Served, folder: Path) -> None:
        self.served = served
        self.table = folder / "checkpoint-table"
        self.arguments = [
            *(job, served.bootstrap_servers, "from", "to", str(folder / "checkpoint")),
        ]
        self.armed = folder / "kill"
        self.process: subprocess.Popen[str] | None = None
        self.jvm = 0

    def close(self) -> None:
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            for pipe in (self.process.stdin, self.process.stdout):
                with contextlib.suppress(OSError):  # what was not sent is no matter any more
                    assert pipe is not None
                    pipe.close()
        self.process = None

    def _start(self) -> subprocess.Popen[str]:
        if self.process is None:
            python_path = os.pathsep.join(filter(None, (str(HERE), os.environ.get("PYTHONPATH"))))
            self.process = subprocess.Popen(
                [sys.executable, str(HERE / "copying.py"), *self.arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                start_new_session=True,
                env={
                    **os.environ,
                    "PYTHONPATH": python_path,
                    "FENCEPOST_TEST_KILL": str(self.armed),
                },
            )
            assert self.process.stdout is not None
            self.jvm = int(self.process.stdout.readline())
        return self.process

    def arm(self, step: str, victim: str, passes: int = 0) -> None:
        """Have `victim` killed when the job comes to the step, not the first `passes` times."""
        self._start()
        for suffix in (".taken", ".killed"):
            self.armed.with_suffix(suffix).unlink(missing_ok=True)
        pid = self.jvm if victim == "driver" else None
        order = {"step": step, "victim": victim, "pid": pid, "passes": passes}
        draft = self.armed.with_suffix(".draft")
        draft.write_text(json.dumps(order))
        draft.rename(self.armed)

    @property
    def was_taken(self) -> bool:
        return self.armed.with_suffix(".taken").exists()

    def _wait_for_the_step(self) -> None:
        until = time.monotonic() + WAIT_S
        while not self.was_taken:
            assert time.monotonic() < until, f"not reached: {self.armed.read_text()}"
            time.sleep(0.01)

    def run(self, numbers: range, victim: str = "") -> str:
        """One run of the job: what it says, or nothing if its process or JVM is gone. A broker
        that is to be killed in it is killed, and comes back."""
        process = self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"{numbers.start} {numbers.stop}\n")
        process.stdin.flush()
        if victim == "broker":
            self._wait_for_the_step()
            self.served.kill()
            self.armed.with_suffix(".killed").touch()
            time.sleep(0.2)  # what was going on meets a broker that is gone
            self.served.start()
        answer = process.stdout.readline().strip()
        if not answer or (victim == "driver" and self.was_taken):
            self.close()  # Spark's Python process outlives its JVM
            return ""
        return answer


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with Served(faults=False, data_dir=tmp_path / "data") as cluster:
        yield cluster


def values(servers: str, topic: str) -> list[int]:
    """All numbers that readers of committed records see, sorted, once nothing is being ended."""
    config = ClientConfig(bootstrap_servers=servers, isolation_level="read_committed")
    with Cluster(config=config) as cluster:
        ending = ("PrepareCommit", "PrepareAbort")
        eventually(lambda: not list(Admin(cluster).list_transactions(states=ending)))
        wanted = [TopicPartition(topic, number) for number in cluster.topic(topic).partitions]
        ends = list_offsets(cluster, dict.fromkeys(wanted, LATEST))
        return sorted(
            int(record.value or b"")
            for one in wanted
            for fetched in Fetcher(cluster).read_range(one, 0, ends[one].offset)
            for record in fetched.read_records(ends[one].offset)
        )


def written(copying: Copying) -> dict[str, list[int]]:
    """By topic, and in the table."""
    import pyarrow.parquet as pq

    servers = copying.served.bootstrap_servers
    found = {topic: values(servers, topic) for topic in ("to", "to-dead")}
    if copying.table.exists():
        files = sorted(copying.table.rglob("*.parquet"))
        found["table"] = sorted(pq.read_table(files).column("number").to_pylist())
    return found


def expected(job: str, count: int) -> dict[str, list[int]]:
    whole = list(range(count))
    if job != "each-batch":
        return {"to": whole, "to-dead": []}
    return {"to": [one for one in whole if one % 5], "to-dead": whole[::5], "table": whole}


def killed_at_every_step(
    job: str, victim: str, steps: tuple[str, ...], served: Served, folder: Path
) -> int:
    """How many kills there were; what is written is looked at behind each."""
    servers = served.bootstrap_servers
    with Cluster(servers) as cluster:
        make_topic(cluster, "from", 3)
        make_topic(cluster, "to", 2)
        make_topic(cluster, "to-dead", 1)
    copying = Copying(job, served, folder)
    kills = 0
    try:
        for step in steps * ROUNDS:
            numbers = range(kills * ROWS, (kills + 1) * ROWS)
            with Cluster(servers) as cluster:
                produce(cluster, "from", numbers.start, numbers.stop)
            passes = kills % WRITES if job == "each-batch" and step in WRITING else 0
            copying.arm(step, victim, passes)
            answers = [copying.run(numbers, victim)]
            assert copying.was_taken, f"{step} was not reached: {answers}"
            while answers[-1] != "done" and len(answers) < RUNS_MAX:
                answers.append(copying.run(numbers))
            if job == "write":
                answers.append(copying.run(numbers))  # as a scheduler that did not hear of it
            kills += 1
            print(f"{kills}: {job}, {victim} at {step}, {passes}: {answers}", flush=True)
            assert answers[-1] == "done", (step, answers)
            assert written(copying) == expected(job, kills * ROWS), (step, answers)
    finally:
        copying.close()
    return kills


@pytest.mark.parametrize("victim", VICTIMS)
@pytest.mark.parametrize("job", ["query", "each-batch", "write"])
def test_rows_are_there_once_whatever_is_killed_at_any_step(
    served: Served, tmp_path: Path, job: str, victim: str
):
    steps = WRITING if job == "write" else STEPS
    assert killed_at_every_step(job, victim, steps, served, tmp_path) == len(steps) * ROUNDS
