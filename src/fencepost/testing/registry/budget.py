"""How much work a comparison of two schemas may take."""

from __future__ import annotations

from typing import Final

STEPS_MAX: Final = 50_000
"""Pairs of parts that one comparison looks at; the largest schemas of real topics take hundreds."""


class TooCostlyError(Exception):
    """The schemas cannot be compared within STEPS_MAX."""


class Budget:
    """Counts down from STEPS_MAX."""

    def __init__(self, steps: int = STEPS_MAX) -> None:
        self._left = steps

    def take(self) -> None:
        """One more pair of parts. TooCostlyError when there were too many."""
        self._left -= 1
        if self._left < 0:
            raise TooCostlyError
