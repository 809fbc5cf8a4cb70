"""What a quorum machine must be able to see of its log. `PartitionLog` shows all of it.

The machine looks and never touches: appends and truncations are effects. Reading batches for a
fetch is the shell's business; the machine only says between which offsets.
"""

from __future__ import annotations

from typing import Protocol


class EpochView(Protocol):
    """The leader epochs of the log; KIP-101."""

    def latest_epoch(self) -> int | None:
        """The epoch of the last batch, or None if the log is empty."""
        ...

    def epoch_at(self, offset: int) -> int | None:
        """The epoch of the record at `offset`, or None if the log does not know."""
        ...

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """The largest epoch not above `epoch` and where it ends; (-1, -1) if that is unknown."""
        ...


class LogView(Protocol):
    """The metadata log, as far as the machine needs to see it."""

    @property
    def start_offset(self) -> int:
        """The first offset that the log holds."""
        ...

    @property
    def end_offset(self) -> int:
        """The offset that the next record will get."""
        ...

    @property
    def recovery_point(self) -> int:
        """The offset below which everything is known to be on stable storage."""
        ...

    @property
    def epochs(self) -> EpochView:
        """The leader epochs of the log."""
        ...
