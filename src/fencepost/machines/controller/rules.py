"""The rules of the active controller by name: what the simulator can take away, one at a time.

Like `machines/quorum/rules.py`, for `Controller` and for `runtime/controller_host.py`, which runs
it: each rule is a function of the facts that it is told and of nothing else. Production uses
`RULES`; an ablation is a subclass that overrides some of these methods and nothing besides.
"""

from __future__ import annotations

from typing import Final

from fencepost.machines.image import ClusterImage


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
        """Whether a broker that registers anew still has all that it had in its last incarnation.

        `broker_epoch` is that incarnation's, `previous_broker_epoch` is what its log directories
        say they were closed under, -1 if they do not agree or were not closed at all. A broker that
        may lack records must not lead without loss (S12, KIP-966).
        """
        return previous_broker_epoch == broker_epoch

    def reverts_failed_writes(self) -> bool:
        """Whether a controller whose records could not be committed is made anew (KAFKA-13100)."""
        return True

    def image_for_next_epoch(self, image: ClusterImage) -> ClusterImage | None:
        """What a controller that stops being active leaves for the next time it leads.

        Nothing: it then begins from what is committed, and some of `image` may never be
        (KAFKA-13100).
        """
        return None


RULES: Final = ControllerRules()
"""What production controllers go by."""

RULE_NAMES: Final = tuple(name for name in vars(ControllerRules) if not name.startswith("_"))
"""The names of all rules, in the order of the class."""
