"""The rules of followers by name: what the simulator can take away, one at a time.

Like `machines/quorum/rules.py`, for what a follower asks of its leaders: each rule is a function of
the facts that it is told and of nothing else. Production uses `RULES`; an ablation is a subclass
that overrides some of these methods and nothing besides.
"""

from __future__ import annotations

from typing import Final


class FetcherRules:
    """Production's rules; see the module docstring. Stateless: one instance serves all."""

    __slots__ = ()

    def named_epochs(self, leader_epoch: int, last_epoch: int) -> tuple[int, int]:
        """What a fetch says of the leader's epoch and of the last record's: both.

        By the first the leader refuses who follows another epoch (KIP-320), by the second it finds
        where the follower's log parts from its own (KIP-595). -1 says nothing.
        """
        return leader_epoch, last_epoch

    def is_of_this_epoch(self, asked: int, current: int) -> bool:
        """Whether an answer that was `asked` for in one leader epoch is still one for us: the same
        leader may have lost leadership and got it back, with another log (KAFKA-18991)."""
        return asked == current


RULES: Final = FetcherRules()
"""What production followers go by."""

RULE_NAMES: Final = tuple(name for name in vars(FetcherRules) if not name.startswith("_"))
"""The names of all rules, in the order of the class."""
