"""States as small numbers, and each state as one integer, which is its name.

A state is a named tuple: the numbers of the nodes' states, then numbers of what else there is (the
network, the past), and last what is left of the budget, four bits for each thing that may happen.
No two states have one name.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Generic, TypeVar

from fencepost.sim.explore.steps import MOST_STATES

_CELL_BITS, _BITS, _BUDGET_BITS = MOST_STATES.bit_length() - 1, 30, 4

State = TypeVar("State", bound=tuple[Any, ...])


def budget_of(left: Iterable[int]) -> int:
    """What may still happen, as the last number of a state."""
    budget = 0
    for each in left:
        budget = budget << _BUDGET_BITS | each
    return budget


class Packing(Generic[State]):
    """Names for the states of one space, of `nodes` nodes."""

    def __init__(self, kind: type[State], nodes: int) -> None:
        self._kind = kind
        self._nodes = nodes
        self._others = len(kind._fields) - 2  # type: ignore[attr-defined]

    def pack(self, state: State) -> int:
        """A state as one integer."""
        cells, *others, packed = state
        for number in others:
            packed = packed << _BITS | number
        for cell in cells:
            packed = packed << _CELL_BITS | cell
        return int(packed)

    def unpack(self, packed: int) -> State:
        """The state that an integer is."""
        cells = []
        for _ in range(self._nodes):
            cells.append(packed & (1 << _CELL_BITS) - 1)
            packed >>= _CELL_BITS
        others = []
        for _ in range(self._others):
            others.append(packed & (1 << _BITS) - 1)
            packed >>= _BITS
        make: Any = self._kind
        state: State = make(tuple(reversed(cells)), *reversed(others), packed)
        return state
