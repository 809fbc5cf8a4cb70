"""How much work a comparison of two schemas may take."""

from __future__ import annotations

from typing import Final

STEPS_MAX: Final = 50_000
"""Pairs of parts that one comparison looks at; the largest schemas of real topics take hundreds."""


DETAILS: Final = 100
"""What lies flat in a part, such as names and values of an enumeration, counts as a part by so
many."""


class TooCostlyError(Exception):
    """The schemas cannot be compared within STEPS_MAX."""


class Budget:
    """Counts down from STEPS_MAX."""

    def __init__(self, steps: int = STEPS_MAX) -> None:
        self._left = steps * DETAILS

    def take(self) -> None:
        """One more pair of parts. TooCostlyError when there were too many."""
        self.take_details(DETAILS)

    def take_details(self, count: int) -> None:
        """So many more things within a pair of parts. TooCostlyError."""
        self._left -= count
        if self._left < 0:
            raise TooCostlyError
