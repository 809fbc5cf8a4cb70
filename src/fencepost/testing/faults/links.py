"""Who is cut off from whom.

An end of a link is a node (by its id), a client (by its client id) or anybody (None). A cut has a
direction: what its first end sends does not reach the second one. As with a cable that was pulled,
nothing is said to either: bytes wait, connections stay, and everything arrives when the cut is
healed, unless who waits has given up meanwhile.
"""

from __future__ import annotations

import re
from typing import Final

End = int | str | None
CUTS_MAX: Final = 1_000
_NODE: Final = re.compile(r"fencepost-node-([0-9]{1,9})")


def sender_of(client_id: str | None) -> End:
    """Who sends requests under this client id: a node of ours, or a client."""
    found = _NODE.fullmatch(client_id or "")
    return int(found[1]) if found else client_id


class Links:
    """The cuts in force."""

    def __init__(self) -> None:
        self._cuts: set[tuple[End, End]] = set()

    def cut(self, sender: End, receiver: End) -> None:
        """What `sender` sends does not reach `receiver`. ValueError beyond `CUTS_MAX`."""
        if len(self._cuts) >= CUTS_MAX:
            raise ValueError(f"there are {CUTS_MAX} cuts; heal some")
        self._cuts.add((sender, receiver))

    def heal(self, a: End, b: End) -> None:
        """Heal what is cut between the two, both ways; None is anybody."""
        self._cuts = {cut for cut in self._cuts if not (_between(cut, a, b) or _between(cut, b, a))}

    def is_cut(self, sender: End, receiver: End) -> bool:
        """Whether what one sends does not reach the other."""
        return any(
            (a is None or a == sender) and (b is None or b == receiver) for a, b in self._cuts
        )

    @property
    def cuts(self) -> list[tuple[End, End]]:
        """Who does not reach whom."""
        return sorted(self._cuts, key=str)


def _between(cut: tuple[End, End], a: End, b: End) -> bool:
    return (a is None or cut[0] == a) and (b is None or cut[1] == b)
