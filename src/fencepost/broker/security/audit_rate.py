"""How many audit events of one kind are written: what is left out is counted, not forgotten.

Events are of one kind if the same principal is allowed, or refused, the same API on the same
resource. In each minute the first of a kind are taken, and the number of the others is told at its
end. So a client that asks a thousand times a second fills no disk, and shows none the less. What is
only counted any more can be counted in its kind's `Tally`, without an event.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from fencepost.runtime.requests.audit import Tally

WINDOW_MS: Final = 60_000
KINDS_MAX: Final = 10_000
"""In one window; what is of no known kind after that counts as one, so that names that a stranger
makes up cost no memory."""
KINDS_OF_ONE_MAX: Final = 1_000
"""The same of one principal: a client that makes up names does not hide what others do."""


class Kind(NamedTuple):
    """What events have in common that are counted together."""

    principal: str
    resource_type: str
    resource_name: str
    api: str
    allowed: bool


OTHERS: Final = Kind("", "", "", "", False)
"""Stands for all kinds beyond `KINDS_MAX`."""


class AuditRate:
    """Says which events are taken. Times are ms since 1970; a clock that is set back begins a new
    window."""

    __slots__ = ("_counts", "_kinds_of", "_limit", "_window")

    def __init__(self, events_per_minute: int) -> None:
        """0: all events are taken."""
        self._limit = events_per_minute
        self._window = -1
        self._counts: dict[Kind, Tally] = {}
        self._kinds_of: dict[str, int] = {}

    def takes(self, kind: Kind, now_ms: int) -> bool:
        """Whether an event of the kind is taken. Ask `ended` first."""
        if not self._limit:
            return True
        self._window = now_ms // WINDOW_MS
        counts = self._counts
        tally = counts.get(kind)
        if tally is None:
            tally = counts.setdefault(self._counted_as(kind), Tally())
        tally.count += 1
        return tally.count <= self._limit

    def tally(self, kind: Kind) -> Tally | None:
        """Where further events of the kind are counted until the window ends; None if some will be
        taken, or others are counted with them."""
        found = self._counts.get(kind)
        return None if found is None or found.count < self._limit else found

    def _counted_as(self, kind: Kind) -> Kind:
        """The kind, if there is room for another of its principal; or what stands for it."""
        if len(self._counts) >= KINDS_MAX:
            return OTHERS
        known = self._kinds_of.get(kind.principal, 0)
        if known >= KINDS_OF_ONE_MAX:
            return OTHERS._replace(principal=kind.principal)
        self._kinds_of[kind.principal] = known + 1
        return kind

    def ended(self, now_ms: int) -> dict[Kind, int] | None:
        """What was counted in a window that is over, once; None if there is none."""
        if now_ms // WINDOW_MS == self._window or not self._counts:
            return None
        return self.taken_back()

    def taken_back(self) -> dict[Kind, int]:
        """What was counted in the window so far; counting starts over."""
        tallies, self._counts = self._counts, {}
        self._kinds_of.clear()
        for one in tallies.values():
            one.is_over = True
        return {kind: one.count for kind, one in tallies.items()}

    def left_out(self, counts: dict[Kind, int]) -> dict[Kind, int]:
        """How many events of each kind were not taken; without kinds of which all were."""
        return {kind: count - self._limit for kind, count in counts.items() if count > self._limit}
