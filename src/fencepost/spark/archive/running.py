"""Where pieces of work run: in Spark's tasks, or one after the other in this process.

Compaction, verification and replay give out pieces by file; each is a function of one picklable
argument. Executors need the archive's directory under the same path as the driver.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, TypeVar

T = TypeVar("T")
R = TypeVar("R")


class Run(Protocol):
    """Applies a function to every piece; results in the order of pieces."""

    def __call__(self, work: Callable[[T], R], pieces: Sequence[T], /) -> list[R]: ...


def here(work: Callable[[T], R], pieces: Sequence[T], /) -> list[R]:
    """In this process."""
    return [work(piece) for piece in pieces]


def in_tasks(spark: Any) -> Run:
    """A Spark task for each piece; tries again as Spark does."""

    def run(work: Callable[[T], R], pieces: Sequence[T], /) -> list[R]:
        if not pieces:
            return []

        def each(given: Iterable[T]) -> list[R]:
            return [work(piece) for piece in given]

        context = spark.sparkContext
        found: list[R] = context.parallelize(pieces, len(pieces)).mapPartitions(each).collect()
        return found

    return run
