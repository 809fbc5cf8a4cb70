"""What every search looks at: a law that is broken, the past of a state, logs that must agree.

The past is part of a state: two states that look alike and differ in what was acknowledged are two.
So it holds no more than the laws of a model need.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from fencepost.sim.explore.flights import Numbers
from fencepost.sim.explore.known import AgreeingLogs
from fencepost.sim.explore.logs import Entry


class Violation(Exception):
    """A law is broken; the argument says which and how, and `action` what broke it."""

    action: Any = None


class HasLog(Protocol):
    """What a law sees of a node's log, by the numbers of its entries."""

    @property
    def node_id(self) -> int: ...

    @property
    def log(self) -> tuple[int, ...]: ...


class LawBook:
    """The laws of a search; those `unwatched` are not looked at, for tests of the others."""

    def __init__(self, entry: Callable[[int], Entry], unwatched: frozenset[str]) -> None:
        self._unwatched = unwatched
        self.pasts = Numbers()
        self._logs = AgreeingLogs(entry)

    def fail(self, law: str, words: str) -> None:
        """Raise Violation, if the law is looked at."""
        if law not in self._unwatched:
            raise Violation(f"{law}: {words}")

    def compare_logs(self, new: HasLog, others: Iterable[HasLog]) -> None:
        """I03: where two logs have a batch of one offset and epoch, they are the same up to it."""
        for other in others:
            if not self._logs.agree(new.log, other.log):
                self.fail("I03", f"logs of {new.node_id} and {other.node_id} differ")
