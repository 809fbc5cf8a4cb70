"""`NodeProcess`: one Fencepost node in a process of its own.

It is what `fencepost serve` runs, started by a `Launcher`. The child writes a ready file once it
accepts connections, its log goes to a file, and the end of that is part of every error. It ends
with the process that started it even if that forgets to end it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from fencepost.testing.launcher import LaunchedNode, Launcher, LauncherError

START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 30.0
POLL_S = 0.005
LOG_TAIL_BYTES = 8192


class ClusterError(RuntimeError):
    """A node did not start or stop; the message has the end of its log."""


class NodeProcess:
    """A node whose files are in `directory`: `server.properties`, `log.txt`, `ready`."""

    def __init__(self, name: str, directory: Path, launcher: Launcher) -> None:
        self.name = name
        self.directory = directory
        self._launcher = launcher
        self.config_path = directory / "server.properties"
        self.log_path = directory / "log.txt"
        self._ready_path = directory / "ready"
        self.environment: dict[str, str] = {}
        """Variables of the environment for its next start, beside those of this process."""
        self.is_paused = False
        """Whether it was paused, and not resumed since."""
        self._log_began = 0  # where the log since the last start begins in its file
        self._process: LaunchedNode | None = None

    # -- start and end --------------------------------------------------------------------------

    def start(self) -> None:
        """Start the process; `wait_until_ready` waits for it. ClusterError if it runs."""
        if self.running:
            raise ClusterError(f"{self.name} is running already")
        self._ready_path.unlink(missing_ok=True)
        self.is_paused = False
        self._log_began = self.log_path.stat().st_size if self.log_path.exists() else 0
        try:
            self._process = self._launcher.launch(
                self.config_path, self._ready_path, self.log_path, self.environment
            )
        except LauncherError as error:
            raise ClusterError(f"{self.name} was not started: {error}") from error

    def wait_until_ready(
        self,
        timeout_s: float = START_TIMEOUT_S,
        is_wanted: Callable[[], bool] = lambda: True,
    ) -> None:
        """Wait until the node accepts connections, or is not wanted any more.

        ClusterError if it ends, or takes longer.
        """
        deadline = time.monotonic() + timeout_s
        while not self.is_ready and is_wanted():
            code = self.exit_code
            if code is not None:
                raise ClusterError(f"{self.name} ended with exit code {code}\n{self.log_tail}")
            if time.monotonic() > deadline:
                raise ClusterError(f"{self.name} was not ready in {timeout_s} s\n{self.log_tail}")
            time.sleep(POLL_S)

    def terminate(self) -> None:
        """SIGTERM, without waiting; a node that is gone already stays so."""
        self._signal(signal.SIGTERM)

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> int:
        """SIGTERM, and wait; the exit code. ClusterError if it does not end."""
        self.terminate()
        return self.wait(timeout_s)

    def kill(self) -> int:
        """SIGKILL: what was not on the disk is lost. The exit code, -9."""
        self._signal(signal.SIGKILL)
        return self.wait()

    def kill_without_waiting(self) -> None:
        """SIGKILL; returns before the process has ended."""
        self._signal(signal.SIGKILL)

    def pause(self) -> None:
        """SIGSTOP: the node is there and does nothing."""
        self._signal(signal.SIGSTOP)
        self.is_paused = True

    def resume(self) -> None:
        """SIGCONT."""
        self._signal(signal.SIGCONT)
        self.is_paused = False

    def wait(self, timeout_s: float = STOP_TIMEOUT_S) -> int:
        """Wait for the end; the exit code. One that does not end in time is killed."""
        process = self._process
        if process is None:
            raise ClusterError(f"{self.name} was not started")
        code = process.wait(timeout_s)
        if code is not None:
            return code
        self._signal(signal.SIGKILL)
        process.wait(timeout_s)
        raise ClusterError(f"{self.name} did not end in {timeout_s} s\n{self.log_tail}")

    # -- looking ---------------------------------------------------------------------------

    @property
    def running(self) -> bool:
        """Whether the process is alive, paused or not."""
        return self._process is not None and self._process.exit_code is None

    @property
    def exit_code(self) -> int | None:
        """How it ended; None while it runs or if it was never started."""
        return None if self._process is None else self._process.exit_code

    @property
    def is_ready(self) -> bool:
        """Whether it has said that it accepts connections since it was last started."""
        return self._ready_path.exists()

    @property
    def addresses(self) -> list[str]:
        """HOST:PORT of its listeners, as it has said when it was ready."""
        return self._ready_path.read_text().split()

    @property
    def pid(self) -> int:
        """The process id. ClusterError when it does not run."""
        if self._process is None or not self.running:
            raise ClusterError(f"{self.name} is not running")
        return self._process.pid

    @property
    def log_text(self) -> str:
        """Its log so far, of all its starts."""
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    @property
    def log_tail(self) -> str:
        """The end of its log since it was last started."""
        if not self.log_path.exists():
            return ""
        with self.log_path.open("rb") as file:
            file.seek(max(self._log_began, self.log_path.stat().st_size - LOG_TAIL_BYTES))
            return file.read().decode(errors="replace")

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.exit_code is None:
            with contextlib.suppress(ProcessLookupError):  # it has ended, and we are told so soon
                os.kill(self._process.pid, number)
