"""`SparkStandalone`: a Spark standalone cluster on loopback, from the jars that PySpark brings.

    os.environ["PYSPARK_PYTHON"] = sys.executable
    with SparkStandalone(workers=2) as spark:
        SparkSession.builder.master(spark.master_url).getOrCreate()

Spark's workers run the Python that the application's environment names, else the first `python3`
of the PATH, which may lack PySpark.

The master and each worker are processes with free ports; a worker starts executors, whose JVMs
start Python workers. Each of the processes begins a session of its own, and ends with everything
below it, whatever happened (Linux: the members of a session are found in /proc). Executors get
their settings from the application; those that a cluster this small needs are in `settings`.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from fencepost.testing.node_process import ClusterError
from fencepost.testing.ports import LOOPBACK as HOST, free_ports
from fencepost.testing.sessions import is_running, session_members, stop_session

START_TIMEOUT_S: Final = 120.0
POLL_S: Final = 0.1
ASK_TIMEOUT_S: Final = 60.0
LOG_TAIL_BYTES: Final = 8192


def state_of_master(address: str) -> dict[str, Any]:
    """What a master says of itself at the address of its JSON. OSError, also while it starts: its
    port is open before its pages are there, which come one after the other, and until that of
    JSON has come, the one at "/" answers for it with HTML."""
    with urllib.request.urlopen(address, timeout=ASK_TIMEOUT_S) as answer:
        text = answer.read()
    try:
        found: dict[str, Any] = json.loads(text)
    except ValueError as error:
        raise ConnectionError(f"{address} does not answer with JSON yet") from error
    return found


class _Daemon:
    """One master or worker."""

    def __init__(self, name: str, log_path: Path, command: list[str], environ: dict[str, str]):
        self.name = name
        self.log_path = log_path
        self._is_killed = False
        with log_path.open("wb") as log:
            self._process = subprocess.Popen(
                command,
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """Its own process id."""
        return self._process.pid

    @property
    def members(self) -> list[int]:
        """Process ids: its own, and those of its executors and their Python workers."""
        return session_members(self._process.pid)

    def require_running(self) -> None:
        """ClusterError if it has ended by itself; the text has the end of its log."""
        if not self._is_killed and self._process.poll() is not None:
            tail = self.log_path.read_bytes()[-LOG_TAIL_BYTES:].decode(errors="replace")
            raise ClusterError(f"{self.name} ended with {self._process.returncode}\n{tail}")

    def kill(self) -> None:
        """SIGKILL for it and everything below it; returns when they are gone."""
        self._is_killed = True
        deadline = time.monotonic() + START_TIMEOUT_S
        while any(map(is_running, self.members)):
            stop_session(self._process.pid)
            if time.monotonic() > deadline:
                raise ClusterError(f"{self.name} does not end")
            time.sleep(POLL_S)
        self._process.wait()


class SparkStandalone:
    """See the module. `memory_mb`: what a worker offers to executors. With `own_hosts` each worker
    has a loopback address of its own, 127.0.0.1 and on (Linux): Spark never runs a speculative
    attempt on the host of the first. `spark_home`: the Spark that runs, instead of the one that
    PySpark brings. ClusterError when a process does not start, JavaNotFoundError."""

    def __init__(
        self,
        workers: int = 2,
        *,
        cores: int = 1,
        memory_mb: int = 1024,
        own_hosts: bool = False,
        spark_home: Path | None = None,
    ) -> None:
        self._count = workers
        self._own_hosts = own_hosts
        self._cores = cores
        self._memory_mb = memory_mb
        self._spark_home = spark_home
        self.directory = Path(tempfile.mkdtemp(prefix="fencepost-spark-"))
        self.master_url = ""
        self.workers: list[_Daemon] = []
        self._master: _Daemon | None = None
        self._ui_port = 0

    @property
    def settings(self) -> dict[str, str]:
        """What an application should set: addresses on loopback, executors that fit a worker."""
        return {
            "spark.driver.host": HOST,
            "spark.driver.bindAddress": HOST,
            "spark.ui.enabled": "false",
            "spark.executor.memory": f"{max(512, self._memory_mb - 512)}m",
            "spark.executor.cores": str(self._cores),
        }

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def start(self) -> None:
        """Start master and workers, and wait until the master knows them all."""
        port, self._ui_port = free_ports(2)
        self.master_url = f"spark://{HOST}:{port}"
        words = ["--host", HOST, "--port", str(port), "--webui-port", str(self._ui_port)]
        self._master = self._launch("master", "org.apache.spark.deploy.master.Master", words)
        self._wait_for_workers(0)
        for _ in range(self._count):
            self._launch_worker()
        self._wait_for_workers(self._count)

    def add_worker(self) -> None:
        """One more."""
        count = self._alive_count()
        self._launch_worker()
        self._wait_for_workers(count + 1)

    def kill_worker(self, number: int) -> None:
        """SIGKILL for a worker (from 0), its executors and their Python workers; returns when the
        master knows that it is gone. ClusterError."""
        count = self._alive_count()
        self.workers[number].kill()
        deadline = time.monotonic() + START_TIMEOUT_S
        while self._alive_count() >= count:
            if time.monotonic() > deadline:
                raise ClusterError(f"the master does not notice that worker {number} is gone")
            time.sleep(POLL_S)

    def state(self) -> dict[str, Any]:
        """What the master says of itself: `workers`, `activeapps` and so on. OSError, also while
        the master starts."""
        return state_of_master(f"http://{HOST}:{self._ui_port}/json/")

    @property
    def executor_processes(self) -> list[int]:
        """Process ids of the executors and of their Python workers."""
        return [pid for one in self.workers for pid in one.members if pid != one.pid]

    def close(self) -> None:
        """End everything and remove its files."""
        for daemon in (*self.workers, self._master):
            if daemon is not None:
                daemon.kill()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _launch_worker(self) -> None:
        number = len(self.workers)
        place = self.directory / f"worker-{number}"
        port, ui_port = free_ports(2)
        host = f"{HOST.rpartition('.')[0]}.{number + 1}" if self._own_hosts else HOST
        words = ["--host", host, "--port", str(port), "--webui-port", str(ui_port)]
        words += ["--cores", str(self._cores), "--memory", f"{self._memory_mb}m"]
        words += ["--work-dir", str(place), self.master_url]
        name, main = f"worker {number}", "org.apache.spark.deploy.worker.Worker"
        self.workers.append(self._launch(name, main, words, host))

    def _launch(self, name: str, main: str, words: list[str], host: str = HOST) -> _Daemon:
        import pyspark

        from fencepost.spark.java import ensure_java_home, find_java

        java = find_java() or ensure_java_home()
        home = self._spark_home or Path(pyspark.__file__).parent
        environ = {
            **os.environ,
            "JAVA_HOME": str(java.home),
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": host,
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_LOCAL_DIRS": str(self.directory / "local"),
        }
        command = [str(home / "bin" / "spark-class"), main, *words]
        return _Daemon(name, self.directory / f"{name.replace(' ', '-')}.log", command, environ)

    def _alive_count(self) -> int:
        return sum(one["state"] == "ALIVE" for one in self.state()["workers"])

    def _wait_for_workers(self, count: int) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        while True:
            for daemon in (*self.workers, self._master):
                if daemon is not None:
                    daemon.require_running()
            with contextlib.suppress(OSError):
                if self._alive_count() >= count:
                    return
            if time.monotonic() > deadline:
                raise ClusterError(f"{count} workers were not there in {START_TIMEOUT_S} s")
            time.sleep(POLL_S)
