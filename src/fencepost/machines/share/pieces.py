"""Work on a share partition in pieces: each of a hundred thousand records may have its own state.

A generator of this kind yields between two pieces. The machine is then in the middle of an input:
it takes no other before the generator has ended.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeAlias, TypeVar

T = TypeVar("T")

PieceOf: TypeAlias = Generator[None, None, T]
Pieces: TypeAlias = PieceOf[None]


def finish(work: PieceOf[T]) -> T:
    """Do all of it now; its result."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: T = end.value
            return result
