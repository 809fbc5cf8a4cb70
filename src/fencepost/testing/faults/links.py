"""Who is cut off from whom, and which links are slow.

An end of a link is a node (by its id), a client (by its client id) or anybody (None). A cut has a
direction: what its first end sends does not reach the second one. As with a cable that was pulled,
nothing is said to either: bytes wait, connections stay, and everything arrives when the cut is
healed, unless who waits has given up meanwhile.

A slow link takes its time with every frame: it arrives so much later, and no more than so many
bytes pass in a second, on each connection by itself.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Final, NamedTuple

End = int | str | None
CUTS_MAX: Final = 1_000
SLOW_MAX: Final = 1_000
_NODE: Final = re.compile(r"fencepost-node-([0-9]{1,9})|broker-([0-9]{1,9})-fetcher-[0-9]{1,9}")
"""The client ids of a node: of its fetchers, and of everything else that it sends."""


def sender_of(client_id: str | None) -> End:
    """Who sends requests under this client id: a node, or a client."""
    found = _NODE.fullmatch(client_id or "")
    return int(found[1] or found[2]) if found else client_id


class Pace(NamedTuple):
    """How slow a link is."""

    delay_ms: int = 0
    bytes_per_s: int | None = None
    """What passes in a second; None is any amount."""


class Links:
    """The cuts in force, and the slow links."""

    def __init__(self) -> None:
        self._cuts: set[tuple[End, End]] = set()
        self._slow: dict[tuple[End, End], Pace] = {}

    def cut(self, sender: End, receiver: End) -> None:
        """What `sender` sends does not reach `receiver`. ValueError beyond `CUTS_MAX`."""
        if len(self._cuts) >= CUTS_MAX:
            raise ValueError(f"there are {CUTS_MAX} cuts; heal some")
        self._cuts.add((sender, receiver))

    def slow(self, sender: End, receiver: End, pace: Pace) -> None:
        """What `sender` sends reaches `receiver` at this pace. ValueError beyond `SLOW_MAX`."""
        if len(self._slow) >= SLOW_MAX and (sender, receiver) not in self._slow:
            raise ValueError(f"{SLOW_MAX} links are slow; heal some")
        self._slow[sender, receiver] = pace

    def heal(self, a: End, b: End) -> None:
        """Heal what is cut or slow between the two, both ways; None is anybody."""
        self._cuts = {cut for cut in self._cuts if not (_between(cut, a, b) or _between(cut, b, a))}
        self._slow = {
            link: pace
            for link, pace in self._slow.items()
            if not (_between(link, a, b) or _between(link, b, a))
        }

    def pace(self, sender: End, receiver: End) -> Pace | None:
        """How slow the way from one to the other is; None if it is not."""
        if not self._slow:
            return None
        paces = [
            pace
            for (a, b), pace in self._slow.items()
            if (a is None or a == sender) and (b is None or b == receiver)
        ]
        if not paces:
            return None
        rates = [pace.bytes_per_s for pace in paces if pace.bytes_per_s is not None]
        return Pace(max(pace.delay_ms for pace in paces), min(rates, default=None))

    def is_cut(self, sender: End, receiver: End) -> bool:
        """Whether what one sends does not reach the other."""
        return any(
            (a is None or a == sender) and (b is None or b == receiver) for a, b in self._cuts
        )

    @property
    def cuts(self) -> list[tuple[End, End]]:
        """Who does not reach whom."""
        return sorted(self._cuts, key=str)

    @property
    def slow_links(self) -> dict[tuple[End, End], Pace]:
        """The slow ways, from the first end to the second."""
        return dict(self._slow)


class SlowWay:
    """One direction of a connection: when the next frame may go on over a slow link.

    A frame is through when its delay is over and, one behind the other, its bytes have passed.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, go_on: Callable[[], None]) -> None:
        """`go_on` is called when a frame that had to wait is through."""
        self._loop, self._go_on = loop, go_on
        self._free_at_s = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def now_s(self) -> float:
        """The clock that `came_s` is of."""
        return self._loop.time()

    def may_pass(self, pace: Pace | None, size_bytes: int, came_s: float) -> bool:
        """Whether a frame that came then is through; if so, it counts as passed on."""
        self.cancel()
        if pace is None:
            return True
        takes_s = 0.0 if pace.bytes_per_s is None else size_bytes / pace.bytes_per_s
        at_s = max(came_s + pace.delay_ms / 1000, self._free_at_s) + takes_s
        if at_s > self._loop.time():
            self._timer = self._loop.call_at(at_s, self._go_on)
            return False
        self._free_at_s = at_s
        return True

    def cancel(self) -> None:
        """No frame waits any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _between(cut: tuple[End, End], a: End, b: End) -> bool:
    return (a is None or cut[0] == a) and (b is None or cut[1] == b)
