"""`SharePersister`: how share partition leaders and group coordinators reach share coordinators.

The state of a share partition is kept by the share coordinator of its key (KIP-932), on this broker
or on another one. Each method asks for one share partition; `done` is called once, on the event
loop, perhaps before the method returns. Where no coordinator answers in time, `done` gets the error
that the last try ended with.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

from fencepost.machines.share.state_batch import ReadState, SharePartitionKey, StateBatch
from fencepost.wire.errors import ErrorCode

OnRead = Callable[[ReadState], None]
OnDone = Callable[[ErrorCode, str | None], None]
OnSummary = Callable[[ErrorCode, str | None, int, int, int], None]
"""Takes the error, its message, the start offset, the leader epoch, the delivery complete count."""


@runtime_checkable
class SharePersister(Protocol):
    """See the module docstring."""

    def read(self, key: SharePartitionKey, leader_epoch: int, done: OnRead) -> None:
        """What is stored (ReadShareGroupState); the coordinator stores the leader epoch."""
        ...

    def write(
        self,
        key: SharePartitionKey,
        *,
        state_epoch: int,
        leader_epoch: int,
        start_offset: int,
        delivery_complete_count: int,
        batches: tuple[StateBatch, ...],
        done: OnDone,
    ) -> None:
        """Have the batches merged into what is stored (WriteShareGroupState)."""
        ...

    def initialize(
        self, key: SharePartitionKey, *, state_epoch: int, start_offset: int, done: OnDone
    ) -> None:
        """Begin the state at the offset, in place of any before (InitializeShareGroupState)."""
        ...

    def delete(self, key: SharePartitionKey, done: OnDone) -> None:
        """Forget the state (DeleteShareGroupState); none is a success, too."""
        ...

    def summary(self, key: SharePartitionKey, leader_epoch: int, done: OnSummary) -> None:
        """The offsets without the batches (ReadShareGroupStateSummary)."""
        ...
