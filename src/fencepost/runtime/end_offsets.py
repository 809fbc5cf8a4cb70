"""`EndOffsets`: where partitions end, whichever broker leads them.

A share group's lag is counted to there (`runtime.requests.describe_share_group_offsets`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol, runtime_checkable

from fencepost.wire.errors import ErrorCode

TopicPartition = tuple[str, int]
Ends = Mapping[TopicPartition, tuple[ErrorCode, int]]
"""The high watermark of each partition, or why it is not known, and -1."""


@runtime_checkable
class EndOffsets(Protocol):
    """See the module docstring."""

    def ask(self, partitions: Iterable[TopicPartition], done: Callable[[Ends], None]) -> None:
        """Ask the leaders; `done` is called once, perhaps at once, with all of the partitions."""
        ...
