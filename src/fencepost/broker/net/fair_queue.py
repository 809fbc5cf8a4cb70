"""What waits to be done, for many who want it: each has its turn, and none fills the queue."""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Generic, TypeVar

T = TypeVar("T")


class FairQueue(Generic[T]):
    """Items, each of an owner. Owners have their turns one after the other, whatever the number of
    their items; an owner's items stay in order.

    No more than `most` wait: one item more costs the owner that has the most of them its latest.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._length = 0
        self._of: OrderedDict[str, deque[T]] = OrderedDict()

    def __len__(self) -> int:
        return self._length

    def add(self, owner: str, item: T) -> T | None:
        """Have the item wait; which one does not any more, if there are too many: it may be this
        one."""
        self._of.setdefault(owner, deque()).append(item)
        self._length += 1
        if self._length <= self._most:
            return None
        greedy = max(self._of, key=lambda one: (len(self._of[one]), one == owner))
        return self._took(greedy, self._of[greedy].pop())

    def pop(self) -> T:
        """The first item of the owner whose turn it is. IndexError if nothing waits."""
        if not self._of:
            raise IndexError("nothing waits")
        owner = next(iter(self._of))
        self._of.move_to_end(owner)
        return self._took(owner, self._of[owner].popleft())

    def _took(self, owner: str, item: T) -> T:
        self._length -= 1
        if not self._of[owner]:
            del self._of[owner]
        return item
