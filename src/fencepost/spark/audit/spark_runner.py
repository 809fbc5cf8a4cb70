"""Runs an audit's tasks on Spark's executors, and says how far they are.

Tasks are put together into groups of about the same number of bytes, several for each core, so that
executors that are added have something to do. Each group is a Spark task; only the answers (what
was found, and digests) come back.
"""

from __future__ import annotations

import pickle
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple, TypeVar

from fencepost.spark.audit.model import AuditError, Task

A = TypeVar("A")

GROUP_BYTES_MAX: Final = 256 << 20
GROUPS_PER_CORE: Final = 4
TASK_WEIGHT_BYTES: Final = 1 << 20
"""What a task costs besides reading, in bytes."""
_EVERY_S: Final = 0.5


class Progress(NamedTuple):
    """How far the tasks of one step are, in groups that are done, and about how many bytes they
    were; `is_over` when the step has ended."""

    title: str
    groups_done: int
    groups: int
    bytes_done: int
    bytes_total: int
    seconds: float
    is_over: bool


class SparkRunner:
    """A `Runner` over a session; `progress` is called from a thread while tasks run."""

    def __init__(self, spark: Any, progress: Callable[[Progress], None] | None = None) -> None:
        self._spark = spark
        self._progress = progress

    def run(self, tasks: Sequence[Task[A]], title: str) -> list[A]:
        """See `Runner`."""
        from pyspark.errors import PySparkException

        groups = group(tasks, self._parallelism())
        weights = [sum(tasks[number].weight_bytes for number in one) for one in groups]
        work = [pickle.dumps([(number, tasks[number]) for number in one]) for one in groups]
        frame = self._spark.range(0, len(work), 1, len(work)).mapInArrow(
            _worker(work), "number int, answer binary"
        )
        try:
            with self._watched(title, weights):
                rows = frame.collect()
        except PySparkException as error:
            raise AuditError(f"Spark gave up {title}: {_first_lines(str(error))}") from error
        answers = {row.number: pickle.loads(row.answer) for row in rows}
        return [answers[number] for number in range(len(tasks))]

    def _context(self) -> Any:
        """The session's context; None of a Spark Connect client, which has none."""
        try:
            return self._spark.sparkContext
        except Exception:  # noqa: BLE001 - which error it is differs by release
            return None

    def _parallelism(self) -> int:
        context = self._context()
        return 8 if context is None else max(context.defaultParallelism, 1)

    @contextmanager
    def _watched(self, title: str, weights: Sequence[int]) -> Iterator[None]:
        """Tells of progress until the block ends."""
        context = self._context()
        if self._progress is None or context is None:
            yield
            return
        name = f"fencepost audit {id(weights)}"
        context.setJobGroup(name, f"fencepost audit: {title}")
        ended = threading.Event()
        watcher = threading.Thread(
            target=self._watch, args=(context.statusTracker(), name, title, weights, ended)
        )
        watcher.start()
        try:
            yield
        finally:
            ended.set()
            watcher.join()
            context.setLocalProperty("spark.jobGroup.id", None)

    def _watch(
        self,
        tracker: Any,
        name: str,
        title: str,
        weights: Sequence[int],
        ended: threading.Event,
    ) -> None:
        begun = time.monotonic()
        total, groups = sum(weights), len(weights)

        def tell(done: int, *, is_over: bool = False) -> None:
            assert self._progress is not None
            seconds = time.monotonic() - begun
            bytes_done = sum(weights[:done])
            self._progress(Progress(title, done, groups, bytes_done, total, seconds, is_over))

        while not ended.wait(_EVERY_S):
            done = 0
            for job in tracker.getJobIdsForGroup(name):
                found = tracker.getJobInfo(job)
                for stage in () if found is None else found.stageIds:
                    info = tracker.getStageInfo(stage)
                    done += 0 if info is None else info.numCompletedTasks
            tell(min(done, groups))
        tell(groups, is_over=True)


def group(tasks: Sequence[Task[Any]], cores: int) -> list[list[int]]:
    """The tasks by their numbers, in groups of about the same weight, heavy tasks first."""
    weights = [task.weight_bytes + TASK_WEIGHT_BYTES for task in tasks]
    most = min(max(sum(weights) // (cores * GROUPS_PER_CORE), 1), GROUP_BYTES_MAX)
    groups: list[list[int]] = []
    filled = most
    for number in sorted(range(len(tasks)), key=lambda one: -weights[one]):
        if filled + weights[number] > most and (filled >= most or filled):
            groups.append([])
            filled = 0
        groups[-1].append(number)
        filled += weights[number]
    return groups


def _worker(work: list[bytes]) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """What runs in executors: does the groups whose numbers it is given."""

    def do(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        for batch in batches:
            for chosen in batch.column(0).to_pylist():
                for number, task in pickle.loads(work[chosen]):
                    answer = pickle.dumps(task.run())
                    yield pa.RecordBatch.from_arrays(
                        [pa.array([number], pa.int32()), pa.array([answer], pa.binary())],
                        names=["number", "answer"],
                    )

    return do


def _first_lines(text: str) -> str:
    """What an error says in front of its stack trace."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    python = [line for line in lines if "Error" in line and not line.startswith("at ")]
    return " ".join(dict.fromkeys([*lines[:1], *python[-1:]]))[:500]
