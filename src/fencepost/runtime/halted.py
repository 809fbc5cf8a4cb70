"""Replicas of this broker that stand still, and why: what the log, `/ready` and metrics report.

Theory of operation
-------------------
A replica stands still when it neither leads nor catches up, and no timer of ours changes that. Each
state that may last has a cause here:

| cause                | state                                                        | who knows |
|----------------------|--------------------------------------------------------------|-----------|
| directory_offline    | its log directory failed, or its log may be in one that did  | replicas  |
| only_copy_missing    | its log directory is gone, and it may be the only whole copy | replicas  |
| log_in_two_dirs      | two directories have a log of it                             | replicas  |
| no_leader            | none of its replicas may lead                                | replicas  |
| fetching_stopped     | its leader's answer ended fetching in this leader epoch      | fetchers  |
| fetching_fails       | each fetch since a while was refused, failed or was corrupt  | fetchers  |
| directory_unassigned | the controller does not note which directory it is in: it    | lifecycle |
|                      | may not lead, and a move to another directory waits          |           |

The first three are reported at once: an operator has to act. The others are often over with the
next metadata or the next answer, so they count once they have lasted `LASTING_MS`. `look` is to be
called every `LOOK_EVERY_MS`; it logs a WARNING for every replica that stands still from then on, a
line for all of one reason, and another line when a reason is over.

A log that cannot be opened takes its directory offline; so does a machine that breaks down.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from typing import Final

from msgspec import Struct

log = logging.getLogger(__name__)

LASTING_MS: Final = 30_000
LOOK_EVERY_MS: Final = 10_000
NAMED_MAX: Final = 5
"""So many replicas are named in one line; of the rest there is the number."""


class HaltCause(Enum):
    """See the table; the value is the label `cause` of a metric."""

    DIRECTORY_OFFLINE = "directory_offline"
    ONLY_COPY_MISSING = "only_copy_missing"
    LOG_IN_TWO_DIRS = "log_in_two_dirs"
    NO_LEADER = "no_leader"
    FETCHING_STOPPED = "fetching_stopped"
    FETCHING_FAILS = "fetching_fails"
    DIRECTORY_UNASSIGNED = "directory_unassigned"


class HaltedReplica(Struct, frozen=True):
    """One replica that stands still. `why` says the reason and the way out."""

    name: str
    cause: HaltCause
    why: str


class ReplicaUnavailable(Exception):
    """There is no log for a replica. `why` says the reason and the way out."""

    def __init__(self, cause: HaltCause, why: str) -> None:
        super().__init__(why)
        self.cause = cause
        self.why = why


HaltSource = Callable[[], Iterable[HaltedReplica]]


class HaltedReplicas:
    """All that stand still, as the parts of the broker know of them.

    `at_once` is called by `now` each time, `lasting` by `look` alone: it may have to look at every
    replica.
    """

    def __init__(
        self, at_once: HaltSource, lasting: Iterable[HaltSource], now_ms: Callable[[], int]
    ) -> None:
        self._at_once = at_once
        self._lasting = tuple(lasting)
        self._now_ms = now_ms
        self._since_ms: dict[tuple[str, HaltCause], int] = {}
        self._lasted: list[HaltedReplica] = []
        self._reported: dict[tuple[HaltCause, str], set[str]] = {}

    def now(self) -> list[HaltedReplica]:
        """Those that stand still; of what may be over by itself, as of the last look."""
        return [*self._at_once(), *self._lasted]

    def look(self) -> None:
        """See what stands still, and log what does so newly, or does so no longer."""
        now_ms = self._now_ms()
        found = [one for source in self._lasting for one in source()]
        since_ms = {
            (one.name, one.cause): self._since_ms.get((one.name, one.cause), now_ms)
            for one in found
        }
        self._since_ms = since_ms
        self._lasted = [
            one for one in found if now_ms - since_ms[one.name, one.cause] >= LASTING_MS
        ]
        self._report(self.now(), {one.name for one in found})

    def _report(self, halted: list[HaltedReplica], not_over: set[str]) -> None:
        groups = by_reason(halted)
        for (cause, why), names in groups.items():
            if new := sorted(set(names) - self._reported.get((cause, why), set())):
                log.warning("%s: %s", counted(new), why)
        before = {name for names in self._reported.values() for name in names}
        over = before - not_over - {one.name for one in halted}
        if over:
            log.info("%s: not halted any more", counted(sorted(over)))
        self._reported = {reason: set(names) for reason, names in groups.items()}


def by_reason(halted: Iterable[HaltedReplica]) -> dict[tuple[HaltCause, str], list[str]]:
    """The names of replicas by the reason that they stand still for."""
    groups: dict[tuple[HaltCause, str], list[str]] = {}
    for one in halted:
        groups.setdefault((one.cause, one.why), []).append(one.name)
    return groups


def counted(names: list[str]) -> str:
    """How many replicas, and the first of their names."""
    named = ", ".join(names[:NAMED_MAX])
    more = f" and {len(names) - NAMED_MAX} more" if len(names) > NAMED_MAX else ""
    return f"{len(names)} halted replica{'s' if len(names) > 1 else ''} ({named}{more})"


def in_lines(halted: Iterable[HaltedReplica]) -> Iterator[str]:
    """A line for every reason."""
    for (_, why), names in by_reason(halted).items():
        yield f"{counted(sorted(names))}: {why}"
