"""The rules of coordinators by name: what the simulator can take away, one at a time.

Like `machines/quorum/rules.py`, for what hosts the coordinators of groups and transactions over a
log: each rule is a function of the facts that it is given and of nothing else. Production uses
`RULES`; an ablation is a subclass that overrides some of these methods and nothing besides.
"""

from __future__ import annotations

from typing import Final


class CoordinatorRules:
    """Production's rules; see the module docstring. Stateless: one instance serves all."""

    __slots__ = ()

    def answers_up_to(self, appended: int, committed: int) -> int:
        """Up to which offset the answers go out that rest on what is in the log: what is not
        committed the next coordinator may not have."""
        return committed

    def goes_on(self, led: int, leads: int) -> bool:
        """Whether a coordinator of epoch `led` goes on in epoch `leads` with what it knows.

        Only in the very next one: in those between another node may have led and written.
        """
        return leads == led + 1

    def has_ended(self, led: int, lost: int) -> bool:
        """Whether a coordinator of epoch `led` is over when leadership is lost in epoch `lost`,
        and not one that has begun since."""
        return lost > led


RULES: Final = CoordinatorRules()
"""What production coordinators go by."""

RULE_NAMES: Final = tuple(name for name in vars(CoordinatorRules) if not name.startswith("_"))
"""The names of all rules, in the order of the class."""
