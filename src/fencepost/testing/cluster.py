"""`Cluster`: a real broker in a child process, on a free loopback port, with its own directory.

It is what `fencepost serve` runs, started with this interpreter, so a test talks to the thing that
users run: real sockets, real files, a process that can be killed. `kill` is SIGKILL, `stop` is
SIGTERM, and `restart` starts again on the same port and data.

The child writes a ready file once it accepts clients; its log goes to a file next to the data and
is part of every error. It ends with the test process even if that forgets to end it.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any

START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 20.0
POLL_S = 0.005
LOG_TAIL_BYTES = 8192


class ClusterError(RuntimeError):
    """The broker did not start or stop; the message has the end of its log."""


class Cluster:
    """A one-node cluster for tests; a context manager, started on entry.

    Keyword arguments are broker configs with underscores for dots: `Cluster(num_partitions=3)`.
    `config` takes them under their own names. `data_dir` keeps the data there; without it the data
    is in a temporary directory that goes with the cluster. One default is not the broker's: groups
    form at once (`group.initial.rebalance.delay.ms=0`), because nobody starts a fleet in a test.
    """

    def __init__(
        self,
        brokers: int = 1,
        *,
        data_dir: Path | str | None = None,
        config: dict[str, Any] | None = None,
        **options: Any,
    ) -> None:
        if brokers != 1:
            raise ValueError(
                f"brokers={brokers} is not allowed: 1; several nodes are a"
                " fencepost.testing.quorum_cluster.QuorumCluster"
            )
        self._config: dict[str, Any] = {"group.initial.rebalance.delay.ms": 0}
        self._config.update({key.replace("_", "."): value for key, value in options.items()})
        self._config.update(config or {})
        self._directory = Path(tempfile.mkdtemp(prefix="fencepost-"))
        self.data_dir = Path(data_dir) if data_dir is not None else self._directory / "data"
        self._process: subprocess.Popen[bytes] | None = None
        self._port = 0
        self.bootstrap_servers = ""
        """HOST:PORT of the broker; stays the same over `restart`."""

    def __enter__(self) -> Cluster:
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

    # -- life ------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the broker and wait until it accepts clients. ClusterError."""
        if self.running:
            raise ClusterError("the broker is running already")
        ready = self._directory / "ready"
        ready.unlink(missing_ok=True)
        command = [sys.executable, "-m", "fencepost.cli.main", "serve"]
        command += ["--data-dir", str(self.data_dir), "--ready-file", str(ready)]
        command += ["--stop-with-parent"]
        settings = {"listeners": f"PLAINTEXT://127.0.0.1:{self._port}", **self._config}
        for key, value in settings.items():
            command += ["-o", f"{key}={_text(value)}"]
        with self.log_path.open("ab") as output:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )
        self._wait_until_ready(ready)

    def stop(self) -> int:
        """SIGTERM, and wait; the exit code."""
        return self._end(signal.SIGTERM)

    def kill(self) -> int:
        """SIGKILL: what was not on the disk is lost. The exit code, -9."""
        return self._end(signal.SIGKILL)

    def restart(self) -> None:
        """Stop the broker if it runs, and start it on the same port with the same data."""
        if self.running:
            self.stop()
        self.start()

    def close(self) -> None:
        """End the broker and remove what is temporary."""
        try:
            if self.running:
                self.stop()
        finally:
            if self.running:
                self.kill()
            shutil.rmtree(self._directory, ignore_errors=True)

    # -- looking inside --------------------------------------------------------------------

    @property
    def running(self) -> bool:
        """Whether the broker's process is alive."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The broker's process id; ClusterError when it does not run."""
        if self._process is None or not self.running:
            raise ClusterError("the broker is not running")
        return self._process.pid

    @property
    def log_path(self) -> Path:
        """Where the broker's log goes."""
        return self._directory / "broker.log"

    @property
    def log_text(self) -> str:
        """The broker's log so far."""
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    # -- inside ----------------------------------------------------------------------------

    def _wait_until_ready(self, ready: Path) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        while not ready.exists():
            assert self._process is not None
            code = self._process.poll()
            if code is not None:
                raise ClusterError(f"the broker ended with exit code {code}\n{self._log_tail()}")
            if time.monotonic() > deadline:
                self.kill()
                raise ClusterError(
                    f"the broker was not ready in {START_TIMEOUT_S} s\n{self._log_tail()}"
                )
            time.sleep(POLL_S)
        addresses = ready.read_text().split()
        self.bootstrap_servers = ",".join(addresses)
        self._port = int(addresses[0].rpartition(":")[2])

    def _end(self, how: signal.Signals) -> int:
        process = self._process
        if process is None:
            raise ClusterError("the broker was not started")
        if process.poll() is None:
            os.kill(process.pid, how)
        try:
            return process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise ClusterError(
                f"the broker did not end on {how.name} in {STOP_TIMEOUT_S} s\n{self._log_tail()}"
            ) from None

    def _log_tail(self) -> str:
        return self.log_text[-LOG_TAIL_BYTES:]


def _text(value: object) -> str:
    """A config value as text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return ",".join(str(item) for item in value)
    return str(value)
