"""The rules of partitions by name: what the simulator can take away, one at a time.

Like `machines/quorum/rules.py`, for a leader and its in-sync set: each rule is a function of the
facts that it is told and of nothing else. Production uses `RULES`; an ablation is a subclass that
overrides some of these methods and nothing besides.
"""

from __future__ import annotations

from typing import Final


class PartitionRules:
    """Production's rules; see the module docstring. Stateless: one instance serves all."""

    __slots__ = ()

    def needed_to_join(self, high_watermark: int, epoch_start_offset: int) -> int:
        """Which offset a follower must have reached to be in sync.

        Reaching the high watermark is not enough: it may lag behind this epoch's start, below
        which a replica can lack what was acknowledged in an earlier epoch (KAFKA-7128).
        """
        return max(high_watermark, epoch_start_offset)

    def is_former_incarnation(self, broker_epoch: int, newest: int) -> bool:
        """Whether a fetch with `broker_epoch` is of a broker that has started anew since.

        `newest` is the highest epoch that the broker has fetched with or is registered under. What
        the older incarnation had may be gone with its disk (KIP-903, KAFKA-15221).
        """
        return broker_epoch < newest

    def vouches(self, fetched: int, registered: int) -> int:
        """Under which broker epoch a follower enters the in-sync set: the one that it has fetched
        with, which the controller compares with the one registered by then (KIP-903)."""
        return fetched

    def counted_isr(self, isr: frozenset[int], proposed: frozenset[int]) -> frozenset[int]:
        """Who holds the high watermark back: whoever the controller may have in sync by now, while
        a change is on its way (KIP-497)."""
        return isr | proposed


RULES: Final = PartitionRules()
"""What production leaders go by."""

RULE_NAMES: Final = tuple(name for name in vars(PartitionRules) if not name.startswith("_"))
"""The names of all rules, in the order of the class."""
