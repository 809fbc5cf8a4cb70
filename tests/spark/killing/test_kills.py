"""A copying query with Spark itself, killed at every step of planning, reading, writing and
committing: the JVM, the Python process that takes the step, or the broker, by SIGKILL."""

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
VICTIMS = ("driver", "process", "broker")
ROUNDS = int(os.environ.get("FENCEPOST_KILL_ROUNDS", "1"))
"""How often each of them is killed at each of the steps: 51 kills, and 204 with 4 rounds."""


class Copying:
    """The query in a process of its own, which is started again when it is gone."""

    def __init__(self, served: Served, source: str, target: str, folder: Path) -> None:
        self.served = served
        self.arguments = [served.bootstrap_servers, source, target, str(folder / "checkpoint")]
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

    def arm(self, step: str, victim: str) -> None:
        """Have `victim` killed when the query comes to the step next."""
        self._start()
        for suffix in (".taken", ".killed"):
            self.armed.with_suffix(suffix).unlink(missing_ok=True)
        order = {"step": step, "victim": victim, "pid": self.jvm if victim == "driver" else None}
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

    def run(self, victim: str = "") -> str:
        """One run of the query: what it says, or nothing if its process or JVM is gone. A broker
        that is to be killed in it is killed, and comes back."""
        process = self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("run\n")
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


@pytest.mark.parametrize("victim", VICTIMS)
def test_a_query_copies_exactly_once_whatever_is_killed_at_any_step(
    served: Served, tmp_path: Path, victim: str
):
    servers = served.bootstrap_servers
    with Cluster(servers) as cluster:
        make_topic(cluster, "from", 3)
        make_topic(cluster, "to", 2)
    copying = Copying(served, "from", "to", tmp_path)
    kills = 0
    try:
        for step in STEPS * ROUNDS:
            with Cluster(servers) as cluster:
                produce(cluster, "from", kills * ROWS, (kills + 1) * ROWS)
            copying.arm(step, victim)
            answers = [copying.run(victim)]
            assert copying.was_taken, f"{step} was not reached: {answers}"
            while answers[-1] != "done" and len(answers) < RUNS_MAX:
                answers.append(copying.run())
            kills += 1
            print(f"{kills}: {victim} at {step}: {answers}", flush=True)
            assert answers[-1] == "done", (step, answers)
            assert values(servers, "to") == list(range(kills * ROWS)), (step, answers)
    finally:
        copying.close()
    assert kills == len(STEPS) * ROUNDS
