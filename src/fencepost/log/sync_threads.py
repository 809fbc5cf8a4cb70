"""Chooses what syncs files: threads in C or, without the compiled module, threads in Python.

A flush that has nothing to do but to sync open files (`FlushJob.hand_over`) needs no Python while
it runs. Done by threads in C it costs the thread that asked one wake-up of another, and being woken
once for all flushes that end together; a thread in Python would fight with it for the interpreter
lock before and after. `FENCEPOST_PURE=1` and an installation without the compiled module leave all
flushes to `FlushJob.run`, with the same outcome.
"""

from __future__ import annotations

from typing import Any, Literal, Protocol

from fencepost.extensions import load

COMPILED_INTERFACE = 1
TAKEN: int = -1
"""What `wait` says of a sync whose outcome was taken before."""

compiled: Any
"""The compiled module, or None."""

compiled, why_python = load("fencepost.log._sync_threads", COMPILED_INTERFACE)


class SyncThreads(Protocol):
    """Threads that sync descriptors, in lanes that do not wait for each other.

    Made with the number of threads that a lane may have. `wait` is for any thread; everything else
    is for one. In a process that was forked from the one that made it, `stop` is all it can do:
    RuntimeError.
    """

    def fileno(self) -> int:
        """A descriptor that is readable when there is something to take."""
        ...

    def submit(self, lane: int, number: int, descriptors: tuple[int, ...]) -> None:
        """Sync these, one after the other until one fails; they must stay open meanwhile.

        `number` must not be that of another which was not taken yet. OSError if no thread can be
        had for it, or all were stopped.
        """
        ...

    def wait(self, number: int) -> int:
        """Wait until that one is done: its errno, or 0; `TAKEN` if it was taken before."""
        ...

    def take(self) -> list[tuple[int, int, float]]:
        """What is done since the last time: number, errno (or 0), microseconds of each."""
        ...

    def stop(self) -> None:
        """Do what is left to do, and end all threads; what is done can still be taken."""
        ...


def new_sync_threads(threads_max: int) -> SyncThreads | None:
    """Threads in C, so many for each lane; None where flushes are Python's. OSError."""
    if compiled is None:
        return None
    threads: SyncThreads = compiled.SyncThreads(threads_max)
    return threads


def name() -> Literal["c", "python"]:
    """Which backend this process uses."""
    return "python" if compiled is None else "c"
