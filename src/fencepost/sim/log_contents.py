"""What is in one log on one disk, as the observer of the simulation knows it: batches, and how far
they are durable. The logs of the quorum and of partitions are kept alike.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar


class Batch(Protocol):
    """A batch of a log: where it stands, its leader epoch, and the checksum of its content."""

    @property
    def base_offset(self) -> int:
        """Its first offset."""
        ...

    @property
    def next_offset(self) -> int:
        """The offset behind its last."""
        ...

    @property
    def epoch(self) -> int:
        """The leader epoch that it was appended in."""
        ...

    @property
    def crc(self) -> int:
        """The checksum of what producers have said; offsets and epochs are not in it."""
        ...


B = TypeVar("B", bound=Batch)


def position(batches: list[B], offset: int) -> int:
    """The index of the first batch that ends behind `offset`."""
    low, high = 0, len(batches)
    while low < high:
        middle = (low + high) // 2
        if batches[middle].next_offset <= offset:
            low = middle + 1
        else:
            high = middle
    return low


@dataclass(slots=True)
class LogContents(Generic[B]):
    """One log. It begins at `start_offset`; a crash takes nothing below `durable_offset`.

    `on_their_way` is how many batches the file may have that `entries` does not have yet: those of
    an append that has not returned.
    """

    entries: list[B] = field(default_factory=list)
    start_offset: int = 0
    durable_offset: int = 0
    on_their_way: int = 0

    @property
    def end_offset(self) -> int:
        """Where the log ends, what is not durable included."""
        return self.entries[-1].next_offset if self.entries else self.start_offset

    def position(self, offset: int) -> int:
        """The index of the first entry that ends behind `offset`."""
        return position(self.entries, offset)

    def between(self, begin: int, end: int) -> list[B]:
        """What stands from `begin` to `end`."""
        return self.entries[self.position(begin) : self.position(end)]

    def opened(self, found: list[B], start_offset: int) -> None:
        """A node has recovered the log and found this; all of it is durable."""
        self.entries, self.start_offset = found, start_offset
        self.durable_offset = self.end_offset
        self.on_their_way = 0

    def flushed(self, end_offset: int) -> None:
        """Everything below `end_offset` is durable."""
        self.durable_offset = max(self.durable_offset, end_offset)

    def cut_begins(self, end_offset: int) -> None:
        """The log is being cut; a crash from now on may leave it cut, or as it was."""
        self.durable_offset = min(self.durable_offset, end_offset)

    def cut(self, end_offset: int) -> None:
        """The log was cut to end at `end_offset`."""
        del self.entries[self.position(end_offset) :]
        self.durable_offset = min(self.durable_offset, end_offset)

    def started_over(self, offset: int) -> None:
        """The log was emptied and begins at `offset`."""
        self.entries.clear()
        self.start_offset = self.durable_offset = offset

    def dropped_prefix(self, start_offset: int) -> None:
        """The log begins at `start_offset` from now on; batches before it may go."""
        while self.entries and self.entries[0].next_offset <= start_offset:
            del self.entries[0]
        self.start_offset = max(self.start_offset, start_offset)
