"""The rules of transactions by name: what the simulator can take away, one at a time.

Like `machines/group/rules.py`, for `TransactionCoordinator`: each rule is a function of the facts
that it is given and of nothing else. Production uses `RULES`; an ablation is a subclass that
overrides some of these methods and nothing besides.
"""

from __future__ import annotations

from typing import Final

from fencepost.machines.transaction.epochs import (
    BUMPS_FROM,
    Claim,
    Identity,
    NeedsProducerId,
    ended,
    fenced,
)
from fencepost.machines.transaction.model import Transaction
from fencepost.wire.records.transaction import TransactionState


class TransactionRules:
    """Production's rules; see the module docstring. Stateless: one instance serves all."""

    __slots__ = ()

    def may_add(self, claim: Claim) -> bool:
        """Whether a request with that id and epoch may add partitions: the present producer's."""
        return claim is Claim.CURRENT

    def may_end(self, claim: Claim) -> bool:
        """Whether a request with that id and epoch may end what is ongoing: only the present
        producer's, and not a delayed one for the transaction before (KIP-890)."""
        return claim is Claim.CURRENT

    def has_ended_so(self, was_committed: bool, committed: bool) -> bool:
        """Whether a request to end what is over is answered NONE: if it was ended in that way."""
        return was_committed is committed

    def must_wait(self, transaction: Transaction) -> bool:
        """Whether what would begin or end a transaction waits until the last one is over: until
        then its partitions do not know how it ended."""
        return transaction.is_ending

    def may_time_out(self, transaction: Transaction) -> bool:
        """Whether a transaction may last too long, so that the coordinator aborts it: not when its
        end is decided, however long the markers take."""
        return transaction.state is TransactionState.ONGOING

    def fence(
        self, identity: Identity, server_version: int, fresh: int | None
    ) -> Identity | NeedsProducerId:
        """The producer of a transaction that the coordinator aborts by itself: one epoch on, by
        the fence or by the end, not by both (KAFKA-19367)."""
        return fenced(identity) if server_version < BUMPS_FROM else ended(identity, fresh)

    def is_over(self, transaction: Transaction) -> bool:
        """Whether an end is complete: when every partition has its marker."""
        return not transaction.partitions

    def is_resent(self, transaction: Transaction) -> bool:
        """Whether a new coordinator has markers to send: of every end that is decided and not
        complete, since it cannot know which were written."""
        return transaction.is_ending


RULES: Final = TransactionRules()
"""What production coordinators go by."""

RULE_NAMES: Final = tuple(name for name in vars(TransactionRules) if not name.startswith("_"))
"""The names of all rules, in the order of the class."""
