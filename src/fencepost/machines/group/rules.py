"""The rules of groups by name: what the simulator can take away, one at a time.

Like `machines/quorum/rules.py`, for `GroupCoordinator`: each rule is a function of the facts that
it is told and of nothing else. Production uses `RULES`; an ablation is a subclass that overrides
some of these methods and nothing besides.
"""

from __future__ import annotations

from typing import Final


class GroupRules:
    """Production's rules; see the module docstring. Stateless: one instance serves all groups."""

    __slots__ = ()

    def may_sync(self, generation: int, current: int) -> bool:
        """Whether a member that names `generation` may hear, or hand in, what `current` is
        assigned: only if it is of that generation, so that a generation has one assignment."""
        return generation == current

    def may_commit(self, generation: int, current: int) -> bool:
        """Whether offsets of a member of `generation` are taken: others may own its partitions in
        a later one, and have committed more."""
        return generation == current


RULES: Final = GroupRules()
"""What production coordinators go by."""

RULE_NAMES: Final = tuple(name for name in vars(GroupRules) if not name.startswith("_"))
"""The names of all rules, in the order of the class."""
