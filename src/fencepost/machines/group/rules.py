"""The rules of groups by name: what the simulator can take away, one at a time.

Like `machines/quorum/rules.py`, for `GroupCoordinator`: each rule is a function of the facts that
it is given and of nothing else. Production uses `RULES`; an ablation is a subclass that overrides
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

    def counts(self, written_at: int, committed_at: int) -> bool:
        """Whether an offset of a transaction that is committed now takes the place of the one that
        was committed outside of it: only if it stands behind it in the log (KAFKA-15784)."""
        return written_at > committed_at

    def is_visible(self, is_decided: bool) -> bool:
        """Whether an offset counts that is written in a transaction: not before its marker."""
        return is_decided

    def may_expire(self, is_undecided: bool) -> bool:
        """Whether an offset whose retention has passed is removed: not while an open transaction
        has committed a new one, which the tombstone would take with it (KAFKA-19163)."""
        return not is_undecided


RULES: Final = GroupRules()
"""What production coordinators go by."""

RULE_NAMES: Final = tuple(name for name in vars(GroupRules) if not name.startswith("_"))
"""The names of all rules, in the order of the class."""
