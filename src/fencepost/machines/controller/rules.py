"""The rules of the active controller by name: what the simulator can take away, one at a time.

Like `machines/quorum/rules.py`, for `Controller` and for `runtime/controller_host.py`, which runs
it: each rule is a function of the facts that it is given and of nothing else. Production uses
`RULES`; an ablation is a subclass that overrides some of these methods and nothing besides.
"""

from __future__ import annotations

from typing import Final


class ControllerRules:
    """Production's rules; see the module docstring. Stateless: one instance serves all nodes."""

    __slots__ = ()

    def has_read_enough(self, broker_epoch: int, metadata_offset: int, last_offset: int) -> bool:
        """Whether a fenced broker that has read up to `metadata_offset` may be unfenced.

        It has to know of its own registration, which stands at `broker_epoch`, no more: one that
        had to reach the last offset of the log might never do so while others write (KAFKA-13959).
        """
        return metadata_offset >= broker_epoch

    def was_closed_in_order(self, broker_epoch: int, previous_broker_epoch: int) -> bool:
        """Whether a broker that registers again still has all that it had in its last incarnation.

        `broker_epoch` is that incarnation's, `previous_broker_epoch` is what its log directories
        say they were closed under, -1 if they do not agree or were not closed at all. A broker that
        may lack records must not lead without loss (S12, KIP-966).
        """
        return previous_broker_epoch == broker_epoch

    def is_ahead(self, asked: tuple[int, int], ours: tuple[int, int]) -> bool:
        """Whether a leader knows newer epochs of its partition (leader, partition) than we do.

        Then it is this controller that is out of date (KAFKA-14154).
        """
        return asked[0] > ours[0] or asked[1] > ours[1]

    def may_end_move(
        self, adding: frozenset[int], before: frozenset[int], after: frozenset[int], min_isr: int
    ) -> bool:
        """Whether a partition may leave the brokers that go: all that come are in sync, and the
        move does not leave fewer than `min_isr` so (S28).

        `before` and `after` are the replicas in sync with and without those that go. If fewer than
        `min_isr` would be left, those that go stay until others are back in sync.
        """
        is_enough = len(after) >= min_isr or after == before
        return bool(after) and adding <= after and is_enough


RULES: Final = ControllerRules()
"""What production controllers go by."""

RULE_NAMES: Final = tuple(name for name in vars(ControllerRules) if not name.startswith("_"))
"""The names of all rules, in the order of the class."""
