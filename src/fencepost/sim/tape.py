"""The choice tape: everything that a world leaves to chance is drawn here and written down.

A choice is a number in [0, n). 0 always is the benign one: no fault, no delay, first come first
served. So a tape that has ended goes on with zeros and the world calms down, and making choices
smaller makes a story simpler; that is what `shrink.py` lives on.

The tape has lanes, one per purpose ("network", "fault.kill", ...), each with its own row of
choices. Dropping a choice from one lane does not shift the meaning of another's, and a fault that
is switched off leaves the rest of the world's luck as it was.

In seed mode a lane draws from a generator of its own, seeded with the seed and the lane's name;
only `getrandbits` is used, whose results do not change between versions of Python. In replay mode
the recorded numbers come back; one that is too large for its question counts as the largest.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

_BITS = 32


class Lane:
    """The choices of one purpose, in the order in which they were made."""

    __slots__ = ("_at", "_bits", "_recorded", "name", "values")

    def __init__(self, name: str, seed: int, recorded: Sequence[int] | None) -> None:
        self.name = name
        self.values: list[int] = []
        self._bits = random.Random(f"{seed}/{name}").getrandbits
        self._recorded = recorded
        self._at = 0

    def pick(self, n: int) -> int:
        """A number in [0, n); n is at least 1."""
        if self._recorded is None:
            value = self._bits(_BITS) * n >> _BITS
        else:
            at = self._at
            self._at = at + 1
            value = min(self._recorded[at], n - 1) if at < len(self._recorded) else 0
        self.values.append(value)
        return value

    def chance(self, per_mille: int) -> bool:
        """True about `per_mille` times in a thousand; nothing is drawn where that is never."""
        return per_mille > 0 and self.pick(1000) >= 1000 - per_mille

    def between(self, low: int, high: int) -> int:
        """A number from `low` to `high`, both included; `low` is the benign one."""
        return low + self.pick(high - low + 1)


class Tape:
    """All lanes of one world."""

    def __init__(self, seed: int = 0, recorded: Mapping[str, Sequence[int]] | None = None) -> None:
        """Draw from `seed`; or, with `recorded`, replay what is there and zeros for the rest."""
        self.seed = seed
        self._recorded = recorded
        self._lanes: dict[str, Lane] = {}

    def lane(self, name: str) -> Lane:
        """The lane of that name, the same one at every call."""
        lane = self._lanes.get(name)
        if lane is None:
            recorded = None if self._recorded is None else self._recorded.get(name, ())
            lane = self._lanes[name] = Lane(name, self.seed, recorded)
        return lane

    def values(self) -> dict[str, list[int]]:
        """What was drawn so far: a recording, without the zeros that end its lanes."""
        taken: dict[str, list[int]] = {}
        for name in sorted(self._lanes):
            values = list(self._lanes[name].values)
            while values and values[-1] == 0:
                values.pop()
            if values:
                taken[name] = values
        return taken
