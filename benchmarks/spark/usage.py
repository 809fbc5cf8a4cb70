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
    with _Watch(jvm_pid) as watch:
        broker_before = broker_cpu_s()
        started = time.perf_counter()
        run()
        wall_s = time.perf_counter() - started
        broker_s = broker_cpu_s() - broker_before
    return Usage(wall_s, watch.cpu_s, broker_s, watch.worker_mb)


class _Watch:
    """Looks at Spark's processes again and again: the CPU time of one that ended in between is
    lost, as Spark kills workers without waiting for them."""

    def __init__(self, jvm_pid: int) -> None:
        self.worker_mb = 0.0
        self._jvm_pid = jvm_pid
        self._before: dict[psutil.Process, float] = {}
        self._latest: dict[psutil.Process, float] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._keep_looking, daemon=True)

    @property
    def cpu_s(self) -> float:
        """Of all of them since this began, as seen last."""
        return sum(cpu_s - self._before.get(one, 0) for one, cpu_s in self._latest.items())

    def __enter__(self) -> _Watch:
        self._look()
        self._before, self.worker_mb = dict(self._latest), 0.0
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stop.set()
        self._thread.join()
        self._look()

    def _keep_looking(self) -> None:
        while not self._stop.wait(SAMPLE_S):
            self._look()

    def _look(self) -> None:
        jvm = psutil.Process(self._jvm_pid)
        for process in [jvm, *jvm.children(recursive=True)]:
            with contextlib.suppress(psutil.NoSuchProcess):
                cpu_s = self._latest[process] = sum(process.cpu_times()[:2])
                # Spark keeps idle workers, also those of other sources.
                if process != jvm and cpu_s > self._before.get(process, 0) + WORK_S:
                    self.worker_mb = max(self.worker_mb, process.memory_info().rss / 1e6)
