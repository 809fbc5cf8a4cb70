"""`Launcher`: starts the nodes of a cluster as copies of one process that has loaded everything.

Most of what a node's start takes is loading Python modules, and several nodes on one machine would
all do it. So a helper process does it once and is forked for each node: a node is there sooner, a
restart too, and the nodes share the memory of the code. A forked node is a process like any other;
it runs what `fencepost serve` runs, in a session of its own: a Ctrl-C at the terminal is for the
parent.

Parent and helper talk in lines of JSON: what to start, which process was started, which has ended
and how. When the parent is gone, its end of the pipe is closed and the helper ends; nodes see that
(as with `--stop-with-parent`) and stop.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import queue
import selectors
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Final

END_TIMEOUT_S: Final = 30.0
START_TIMEOUT_S: Final = 60.0
UNKNOWN_CODE: Final = -int(signal.SIGKILL)
"""How a node is said to have ended when the helper that would know is gone."""


class LauncherError(RuntimeError):
    """The helper process has ended."""


class LaunchedNode:
    """A process that the helper has started."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.exit_code: int | None = None
        """How it ended, -N by signal N; None while it runs."""
        self._ended = threading.Event()

    def note_end(self, exit_code: int) -> None:
        """For the launcher: it has ended."""
        self.exit_code = exit_code
        self._ended.set()

    def wait(self, timeout_s: float | None = None) -> int | None:
        """Wait for its end; None if it has not come by then."""
        self._ended.wait(timeout_s)
        return self.exit_code


class Launcher:
    """See the module docstring. The helper is started by the first `launch`."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._reader: threading.Thread | None = None
        self._started: queue.SimpleQueue[LaunchedNode | None] = queue.SimpleQueue()
        self._nodes: dict[int, LaunchedNode] = {}
        self._lock = threading.Lock()

    def prepare(self) -> None:
        """Start the helper, so that it loads while the caller does something else."""
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "fencepost.testing.launcher"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                start_new_session=True,
            )
            self._reader = threading.Thread(target=self._read, daemon=True)
            self._reader.start()

    def launch(
        self,
        config_path: Path,
        ready_path: Path,
        log_path: Path,
        environment: Mapping[str, str] | None = None,
    ) -> LaunchedNode:
        """Start a node with this configuration; its output goes to `log_path`.

        `environment` are variables for this node alone, set before it does anything of its own.
        LauncherError if the helper is gone.
        """
        with self._lock:
            self.prepare()
            process = self._process
            assert process is not None and process.stdin is not None
            paths = {"config": config_path, "ready": ready_path, "log": log_path}
            said: dict[str, Any] = {name: str(path) for name, path in paths.items()}
            line = json.dumps(said | {"environment": dict(environment or {})})
            try:
                process.stdin.write(line.encode() + b"\n")
                process.stdin.flush()
                node = self._started.get(timeout=START_TIMEOUT_S)
            except (OSError, queue.Empty):
                node = None
            if node is None:
                raise LauncherError("the process that starts nodes has ended")
            return node

    def close(self) -> None:
        """End the helper; nodes that still run stop when they notice."""
        if self._process is None or self._reader is None:
            return
        assert self._process.stdin is not None and self._process.stdout is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        self._process.wait(END_TIMEOUT_S)
        self._reader.join()
        self._process.stdout.close()
        self._process = self._reader = None

    def _read(self) -> None:
        assert self._process is not None and self._process.stdout is not None
        for line in self._process.stdout:
            said = json.loads(line)
            if "exit_code" in said:
                self._nodes.pop(said["pid"]).note_end(said["exit_code"])
            else:
                node = self._nodes[said["pid"]] = LaunchedNode(said["pid"])
                self._started.put(node)
        for node in self._nodes.values():
            node.note_end(UNKNOWN_CODE)
        self._started.put(None)


def main() -> None:
    """The helper process: load, then fork for every line, until there are no more."""
    _load()
    gc.collect()
    gc.freeze()  # what is shared with the copies stays shared: the collector does not touch it
    wakeup, on_signal = os.pipe()
    os.set_blocking(on_signal, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(on_signal, warn_on_full_buffer=False)
    selector = selectors.DefaultSelector()
    selector.register(sys.stdin.buffer, selectors.EVENT_READ)
    selector.register(wakeup, selectors.EVENT_READ)
    requests = b""
    while True:
        for key, _ in selector.select():
            if key.fd == wakeup:
                os.read(wakeup, 512)
                _report_ends()
                continue
            data = os.read(key.fd, 1 << 16)
            if not data:
                return
            *lines, requests = (requests + data).split(b"\n")
            for line in lines:
                _fork(json.loads(line))


def _load() -> None:
    """Load what a node needs."""
    import_module("fencepost.broker.node.main")
    import_module("fencepost.broker.apis").load_all()


def _fork(wanted: dict[str, Any]) -> None:
    parent = os.getpid()  # which may be gone before the copy looks
    pid = os.fork()
    if pid:
        _say({"pid": pid})
        return
    code = 1
    try:
        os.environ.update(wanted["environment"])
        code = _serve(Path(wanted["config"]), Path(wanted["ready"]), wanted["log"], parent)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _serve(config_path: Path, ready_path: Path, log_path: str, parent: int) -> int:
    """What the copy does: become a node, as `fencepost serve` would."""
    from fencepost.broker.config.broker_config import BrokerConfig, ConfigError
    from fencepost.broker.node.main import run

    os.setsid()
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    nothing = os.open(os.devnull, os.O_RDONLY)
    output = os.open(log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for old, new in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(old, new)
    os.closerange(3, output + 1)
    try:
        config = BrokerConfig.load(config_path, {})
    except ConfigError as error:
        print(error, file=sys.stderr)
        return 2
    gc.disable()  # until the node is there, which begins by turning it on again
    return run(config, ready_file=ready_path, stop_with_parent=parent)


def _report_ends() -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not pid:
            return
        _say({"pid": pid, "exit_code": os.waitstatus_to_exitcode(status)})


def _say(what: dict[str, int]) -> None:
    try:
        sys.stdout.buffer.write(json.dumps(what).encode() + b"\n")
        sys.stdout.buffer.flush()
    except BrokenPipeError:  # the parent is gone
        os._exit(0)


if __name__ == "__main__":
    main()
