"""What a run costs: wall time, CPU time of Spark's processes and of the broker, worker memory.

On a machine that does other things besides, CPU time is the number to compare; wall time also has
the wait for a core.
"""

from __future__ import annotations

import contextlib
import statistics
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import psutil

SAMPLE_S = 0.1
WORK_S = 0.02
"""CPU time of a worker that has work; an idle one uses less."""


@dataclass(frozen=True)
class Usage:
    """One run."""

    wall_s: float
    spark_cpu_s: float
    """Of the JVM and of Python workers."""
    broker_cpu_s: float
    worker_mb: float
    """Most that any one Python worker that had work had resident; 0 where none had."""


def median(runs: Iterable[Usage]) -> Usage:
    """Number by number."""
    taken = list(runs)
    return Usage(
        statistics.median(one.wall_s for one in taken),
        statistics.median(one.spark_cpu_s for one in taken),
        statistics.median(one.broker_cpu_s for one in taken),
        statistics.median(one.worker_mb for one in taken),
    )


def measure(jvm_pid: int, broker_cpu_s: Callable[[], float], run: Callable[[], object]) -> Usage:
    """Run it and say what it cost."""
    with _Peak(jvm_pid) as peak:
        before = _tree_cpu_s(jvm_pid)
        broker_before = broker_cpu_s()
        started = time.perf_counter()
        run()
        wall_s = time.perf_counter() - started
        cpu_s = _tree_cpu_s(jvm_pid) - before
        broker_s = broker_cpu_s() - broker_before
    return Usage(wall_s, cpu_s, broker_s, peak.worker_mb)


def _tree(pid: int) -> list[psutil.Process]:
    root = psutil.Process(pid)
    return [root, *root.children(recursive=True)]


def _tree_cpu_s(pid: int) -> float:
    """CPU of a process and all below it, those that ended and were waited for included."""
    total = 0.0
    for process in _tree(pid):
        with contextlib.suppress(psutil.NoSuchProcess):
            total += sum(process.cpu_times()[:4])
    return total


class _Peak:
    """Samples the resident memory of the Python workers that compute, from a thread."""

    def __init__(self, jvm_pid: int) -> None:
        self.worker_mb = 0.0
        self._jvm_pid = jvm_pid
        self._cpu_s: dict[int, float] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)

    def __enter__(self) -> _Peak:
        # Spark keeps idle workers, also those of other sources, for a minute.
        self._cpu_s = {one.pid: _cpu_s(one) for one in self._workers()}
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stop.set()
        self._thread.join()

    def _workers(self) -> list[psutil.Process]:
        return _tree(self._jvm_pid)[1:]

    def _sample(self) -> None:
        while not self._stop.wait(SAMPLE_S):
            for process in self._workers():
                with contextlib.suppress(psutil.NoSuchProcess):
                    if _cpu_s(process) > self._cpu_s.get(process.pid, 0) + WORK_S:
                        self.worker_mb = max(self.worker_mb, process.memory_info().rss / 1e6)


def _cpu_s(process: psutil.Process) -> float:
    """Of the process alone."""
    try:
        return sum(process.cpu_times()[:2])
    except psutil.NoSuchProcess:
        return 0.0
