"""What a test must leave as it found it: the state that all tests of a process share.

Loggers of ours and the root's, the environment, the working directory, signal handlers and the
garbage collector: a test that leaves one of them changed makes others fail, later and elsewhere.
One fixture here fails the test that did it, and puts back what was; another one fails the module
that leaves child processes behind, and ends them. A third one, for folders whose tests open many
files, fails the module that leaves some of them open.
"""

from __future__ import annotations

import collections
import contextlib
import gc
import logging
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import pytest

OURS = "fencepost"
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD, signal.SIGPIPE,
           signal.SIGUSR1, signal.SIGUSR2)  # fmt: skip
"""Not SIGALRM: that is how the time limit of tests works."""
SET_BY_PYTEST = b"PYTEST_CURRENT_TEST"
BURIAL_S = 10.0
"""How long a child that has been killed may still be there."""
CLOSING_S = 10.0
"""How long a thread may take to end what it does with a file."""
SHOWN_FILES = 5
KEPT = (b"multiprocessing.resource_tracker", b"multiprocessing.forkserver")
"""Helpers of Python's own, one for a whole process."""
_TASKS = Path("/proc/self/task")
_DESCRIPTORS = "/proc/self/fd"
_UNTOUCHED = (logging.NOTSET, (), True, False)
_of_the_session: set[int] = set()


def _handler(number: int) -> Any:
    """What handles the signal. Spark's session handles SIGINT for the rest of its process, and any
    event loop that does so afterwards leaves Python's own handler: the two count as one."""
    found = signal.getsignal(number)
    is_sparks = getattr(found, "__module__", "").startswith("pyspark.")
    return signal.default_int_handler if is_sparks else found


@dataclass(frozen=True)
class ProcessState:
    """The state at one moment."""

    loggers: dict[str, tuple[int, tuple[logging.Handler, ...], bool, bool]]
    """Level, handlers, whether it propagates and whether it is disabled, unless all untouched."""
    environment: dict[bytes, bytes]
    directory: str
    signals: dict[int, Any]
    collector: tuple[bool, tuple[int, int, int]]
    """Whether it runs, and its thresholds."""

    @classmethod
    def now(cls) -> ProcessState:
        """The state as it is."""
        # What is behind `os.environ`: to decode it all would take longer than most tests.
        environment: dict[bytes, bytes] = os.environ._data.copy()  # type: ignore[attr-defined]
        environment.pop(SET_BY_PYTEST, None)
        return cls(
            loggers=_loggers(),
            environment=environment,
            directory=os.getcwd(),
            signals={number: _handler(number) for number in SIGNALS},
            collector=(gc.isenabled(), gc.get_threshold()),
        )

    def changes_until(self, later: ProcessState) -> list[str]:
        """What is not as it was, in words."""
        told = []
        for one in fields(self):
            before, after = getattr(self, one.name), getattr(later, one.name)
            if isinstance(before, dict):
                for key in sorted(before.keys() | after.keys(), key=str):
                    was, is_ = before.get(key), after.get(key)
                    if was != is_:
                        told.append(f"{one.name}: {key or 'root'} was {was} and is {is_}")
            elif before != after:
                told.append(f"{one.name} was {before} and is {after}")
        return told

    def put_back(self, later: ProcessState) -> None:
        """Undo the changes, so that the next test does not fail for them."""
        for name in self.loggers.keys() | later.loggers.keys():
            logger = logging.getLogger(name)
            level, handlers, propagate, disabled = self.loggers.get(name, _UNTOUCHED)
            logger.setLevel(level)
            logger.handlers[:] = handlers
            logger.propagate, logger.disabled = propagate, disabled
        for key in later.environment.keys() - self.environment.keys():
            del os.environb[key]
        os.environb.update(self.environment)
        os.chdir(self.directory)
        for number, handler in self.signals.items():
            signal.signal(number, handler)
        gc.set_threshold(*self.collector[1])
        gc.enable() if self.collector[0] else gc.disable()


def _loggers() -> dict[str, tuple[int, tuple[logging.Handler, ...], bool, bool]]:
    found: dict[str, logging.Logger] = {"": logging.root}
    for name, one in logging.root.manager.loggerDict.items():
        if name.startswith(OURS) and isinstance(one, logging.Logger):
            found[name] = one
    return {
        name: (one.level, tuple(one.handlers), one.propagate, one.disabled)
        for name, one in found.items()
        if one.level or one.handlers or not one.propagate or one.disabled
    }


def children() -> dict[int, str]:
    """Command lines, by id, of processes this one has started and that still run.

    None where the system has no such list.
    """
    found = {}
    for thread in _TASKS.glob("*"):
        try:
            pids = [int(text) for text in (thread / "children").read_bytes().split()]
        except OSError:  # the thread has ended, or the system has no such file
            continue
        for pid in pids:
            command = _command(pid)
            if command and not any(kept in command for kept in KEPT):
                found[pid] = command.replace(b"\0", b" ").decode(errors="replace").strip()
    return found


@contextlib.contextmanager
def kept_for_the_session() -> Iterator[None]:
    """What is started within is the session's, though a fixture of the session may begin only when
    the second test of a module asks for it."""
    before = children()
    yield
    _of_the_session.update(children().keys() - before.keys())


def _command(pid: int) -> bytes:
    """The command line; nothing if the process has ended, waited for or not."""
    place = Path(f"/proc/{pid}")
    try:
        while not (command := (place / "cmdline").read_bytes()):
            # It is a zombie, or so young that it has no command line yet.
            if (place / "stat").read_bytes().rpartition(b")")[2].split()[0] in b"ZX":
                return b""
            time.sleep(0)
        return command
    except OSError:
        return b""


def _end(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    deadline = time.monotonic() + BURIAL_S
    while _command(pid) and time.monotonic() < deadline:
        time.sleep(0.01)


@pytest.fixture(autouse=True)
def nothing_is_left_changed() -> Iterator[None]:
    """Fails a test that leaves the process other than it was.

    Fixtures of modules and of the session come before it, and may change what they like as long as
    they last.
    """
    before = ProcessState.now()
    yield
    after = ProcessState.now()
    if changes := before.changes_until(after):
        before.put_back(after)
        pytest.fail("this test has left behind:\n" + "\n".join(changes), pytrace=False)


@pytest.fixture(autouse=True, scope="module")
def no_child_is_left_behind() -> Iterator[None]:
    """Fails a module, in its last test, whose processes outlive it.

    Not every single test: one test may have restarted a cluster that the module shares.
    """
    before = children()
    yield
    kept = before.keys() | _of_the_session
    left = {pid: command for pid, command in children().items() if pid not in kept}
    for pid in left:
        _end(pid)
    if left:
        told = [f"process {pid}: {command}" for pid, command in left.items()]
        pytest.fail("this module has left behind:\n" + "\n".join(told), pytrace=False)


def open_files(directory: str) -> collections.Counter[str]:
    """Open files of the process below a directory, deleted ones too, and how often each is open.

    Empty where the system has no such list.
    """
    found: collections.Counter[str] = collections.Counter()
    with contextlib.suppress(FileNotFoundError):
        for descriptor in os.listdir(_DESCRIPTORS):
            with contextlib.suppress(OSError):  # it has been closed since
                found[os.readlink(f"{_DESCRIPTORS}/{descriptor}")] += 1
    return collections.Counter(
        {path: count for path, count in found.items() if path.startswith(directory)}
    )


@pytest.fixture(autouse=True, scope="module")
def no_file_is_left_open(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Fails a module, in its last test, that leaves files of its tests open.

    A process runs thousands of tests, and has only so many file descriptors; select() takes none
    above 1,023.
    """
    directory = f"{tmp_path_factory.getbasetemp()}{os.sep}"
    before = open_files(directory)
    yield
    deadline = time.monotonic() + CLOSING_S
    while (left := open_files(directory) - before) and time.monotonic() < deadline:
        gc.collect()  # an object that closes its file when it goes may be in a cycle
        time.sleep(0.01)
    if left:
        told = [*sorted(left)[:SHOWN_FILES], *["..."][: len(left) > SHOWN_FILES]]
        pytest.fail("this module has left open:\n" + "\n".join(told), pytrace=False)
