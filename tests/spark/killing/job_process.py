"""A job in a process of its own, which is started again when it is gone."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from ...quick_java import quick_jvm
from .machines import FROM_OUTSIDE, Machines

HERE = Path(__file__).parent
WAIT_S = 240


class JobProcess:
    """Runs a job of `copying`, again and again, and has something killed in a run. Checkpoints and
    what the job writes to files are in `folder`."""

    def __init__(self, job: str, machines: Machines, folder: Path) -> None:
        self.job = job
        self.machines = machines
        self.folder = folder
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
            python_path = os.pathsep.join(
                filter(None, (str(HERE), str(HERE.parents[2]), os.environ.get("PYTHONPATH")))
            )
            environ = {"PYTHONPATH": python_path, "FENCEPOST_TEST_KILL": str(self.armed)}
            settings = self.machines.spark_settings
            settings |= {f"spark.executorEnv.{name}": value for name, value in environ.items()}
            servers = self.machines.served.bootstrap_servers
            checkpoint = str(self.folder / "checkpoint")
            self.process = subprocess.Popen(
                [
                    *(sys.executable, str(HERE / "copying.py"), json.dumps(settings)),
                    *(self.job, servers, "from", "to", checkpoint),
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                start_new_session=True,
                env={"JAVA_TOOL_OPTIONS": quick_jvm(), **os.environ, **environ},
            )
            assert self.process.stdout is not None
            self.jvm = int(self.process.stdout.readline())
        return self.process

    def arm(self, step: str, victim: str, passes: int = 0) -> None:
        """Have `victim` killed when the job comes to the step, not the first `passes` times."""
        self._start()
        for suffix in (".taken", ".at", ".killed"):
            self.armed.with_suffix(suffix).unlink(missing_ok=True)
        pid = self.jvm if victim == "driver" else None
        order = {"step": step, "pid": pid, "passes": passes, "by_test": victim in FROM_OUTSIDE}
        draft = self.armed.with_suffix(".draft")
        draft.write_text(json.dumps(order))
        draft.rename(self.armed)

    @property
    def was_taken(self) -> bool:
        return self.armed.with_suffix(".taken").exists()

    def _wait_for_the_step(self) -> int:
        """The process that is there."""
        at = self.armed.with_suffix(".at")
        until = time.monotonic() + WAIT_S
        while not at.exists():
            assert time.monotonic() < until, f"not reached: {self.armed.read_text()}"
            time.sleep(0.01)
        return int(at.read_text())

    def run(self, numbers: range, victim: str = "") -> str:
        """One run of the job: what it says, or nothing if its process or JVM is gone. What the test
        is to kill in it is killed, and comes back."""
        process = self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"{numbers.start} {numbers.stop}\n")
        process.stdin.flush()
        if victim in FROM_OUTSIDE:
            bring_back = self.machines.kill(victim, self._wait_for_the_step())
            self.armed.with_suffix(".killed").touch()
            bring_back()
        answer = process.stdout.readline().strip()
        if not answer or (victim == "driver" and self.was_taken):
            self.close()  # Spark's Python process outlives its JVM
            return ""
        return answer
