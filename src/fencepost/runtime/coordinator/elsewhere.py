"""`WorkElsewhere`: work of one coordinator that other threads do, by name.

A decision may begin work whose result another decision needs (an assignor over thousands of
members, patterns over all topics). It is computed from an immutable spec, on a thread that `run`
finds, and the result comes back to the node's thread.

Under a name one work is done at a time. What is begun while another of that name is being done
waits for it, and takes the place of what has waited so far: the result that comes back is always
that of the last one begun. So there are at most two specs per name, however often a group changes.

A thread cannot be stopped. When work is dropped, or its coordinator is closed, the thread computes
to the end and the result is ignored.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final

from fencepost.machines.coordinator import Work, WorkName, WorkResult

log = logging.getLogger(__name__)

RunElsewhere = Callable[[Callable[[], None], Callable[[], None]], None]
"""`run(compute, done)`: calls `compute()`, which raises nothing, on any thread, and then `done()`
on the node's own. It may do both before it returns."""

OnResult = Callable[[Work[Any], WorkResult], None]


def run_at_once(compute: Callable[[], None], done: Callable[[], None]) -> None:
    """Compute here."""
    compute()
    done()


_DROPPED: Final = None
"""In the place of work that is being done and whose result is not wanted."""


class WorkElsewhere:
    """See the module docstring. Everything but the computing happens on the node's thread."""

    def __init__(self, run: RunElsewhere, on_result: OnResult) -> None:
        self._run = run
        self._on_result = on_result
        self._running: dict[WorkName, Work[Any] | None] = {}
        self._next: dict[WorkName, Work[Any]] = {}

    def __len__(self) -> int:
        """How many works are being done or wait, those included whose result is not wanted."""
        return len(self._running) + len(self._next)

    def begin(self, work: Work[Any]) -> None:
        """Have it computed, now or behind what is being computed under its name."""
        if work.name in self._running:
            self._running[work.name] = _DROPPED
            self._next[work.name] = work
        else:
            self._start(work)

    def drop(self, name: WorkName) -> None:
        """No result of that name is wanted any more."""
        self._next.pop(name, None)
        if name in self._running:
            self._running[name] = _DROPPED

    def drop_all(self) -> None:
        """No result is wanted any more: the coordinator is closed."""
        for name in list(self._running):
            self.drop(name)

    def _start(self, work: Work[Any]) -> None:
        self._running[work.name] = work
        results: list[WorkResult] = []

        def compute() -> None:
            try:
                results.append(WorkResult(work.run(work.spec)))
            except Exception as error:
                log.exception("work elsewhere failed: %s", " ".join(work.name))
                results.append(WorkResult(error=error))

        self._run(compute, lambda: self._done(work, results[0]))

    def _done(self, work: Work[Any], result: WorkResult) -> None:
        is_wanted = self._running.pop(work.name) is work
        following = self._next.pop(work.name, None)
        if following is not None:
            self._start(following)
        elif is_wanted:
            self._on_result(work, result)
