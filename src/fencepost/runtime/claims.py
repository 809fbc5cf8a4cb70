"""Who is about to write where in a transaction, and what the transaction's coordinator says of it.

Apart from what asks coordinators (`runtime.verification`), which a broker without transactions
need not load.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from msgspec import Struct

from fencepost.wire.errors import ErrorCode

TopicPartition = tuple[str, int]
Outcome = Mapping[TopicPartition, ErrorCode]
"""What the coordinator says of each partition of a claim."""
OnOutcome = Callable[[Outcome], None]


class Claim(Struct, frozen=True):
    """Who is about to write where; see `runtime.verification`."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    adds: bool
    partitions: tuple[TopicPartition, ...] = ()
    """None where nothing has to be asked: it waits for what came before."""


class AsksCoordinators(Protocol):
    """What is needed of a `runtime.verification.Verifier`."""

    def is_asking(self, claim: Claim) -> bool:
        """Whether an earlier claim of the same producer waits for its answer."""
        ...

    def ask(self, claim: Claim, on_outcome: OnOutcome) -> None:
        """Ask the coordinator."""
        ...
