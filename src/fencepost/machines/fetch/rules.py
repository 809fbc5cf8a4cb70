"""The rules of fetch sessions by name: what the simulator can take away, one at a time.

Like `machines/quorum/rules.py`: each rule is a function of the facts that it is told and of nothing
else. Production uses `RULES`; an ablation is a subclass that overrides some of these methods and
nothing besides.
"""

from __future__ import annotations

from typing import Final


class FetchRules:
    """Production's rules; see the module docstring. Stateless: one instance serves all."""

    __slots__ = ()

    def is_next(self, asked: int, expected: int) -> bool:
        """Whether an incremental request of epoch `asked` is the one behind the last answer.

        Any other was repeated, overtaken or lost: it says what a follower had once, and must not be
        taken for a sign of life, or for where the follower is (S30, KIP-227).
        """
        return asked == expected


RULES: Final = FetchRules()
"""What production sessions go by."""

RULE_NAMES: Final = tuple(name for name in vars(FetchRules) if not name.startswith("_"))
"""The names of all rules, in the order of the class."""
