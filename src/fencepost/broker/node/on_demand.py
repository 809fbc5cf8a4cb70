"""`OnDemand`: a part of a node that is made when it is first asked for.

What makes it loads its modules, too, so that a start does without whatever not every node needs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class OnDemand(Generic[T]):
    """See the module."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self.made: T | None = None
        """The part, if anybody has asked for it."""

    def get(self) -> T:
        """The part, made now if that has not been yet."""
        if self.made is None:
            self.made = self._make()
        return self.made
