"""Which epochs a node believes: the last million only as fast as elections can come to them.

An epoch that was heard of is never forgotten, and the quorum needs a higher one for its next
leader. So a single message with the highest number there is would end all elections, for good. The
last `EPOCHS_KEPT_BACK` are therefore believed one per half election timeout of our own clock, so
that a flood of messages needs days to use them up. What was not used adds up, for a node that has
slept through some, to `EPOCH_STEP_MAX`. Kafka has no such rule.
"""

from __future__ import annotations

from msgspec import Struct

from fencepost.machines.quorum.rules import QuorumRules
from fencepost.machines.quorum.state import EPOCH_MAX

EPOCHS_KEPT_BACK = 1 << 20
"""How many of the highest epochs are believed only slowly."""

EPOCH_STEP_MAX = 1_000
"""How far ahead of a node an epoch among those may be, after however long, to be believed."""

_FREE = EPOCH_MAX - EPOCHS_KEPT_BACK


class EpochAllowance(Struct):
    """`election_ms` is the least time between two elections; the time of those that were believed
    reaches to `used_until_ms`."""

    election_ms: int
    used_until_ms: int = 0

    def start(self, now_ms: int) -> None:
        """One epoch may be believed at once."""
        self.used_until_ms = now_ms - self.election_ms

    def is_out_of_range(self, epoch: int, known: int, now_ms: int, rules: QuorumRules) -> bool:
        """Whether `epoch` cannot come from an election, for a node that is in epoch `known`."""
        unused = (now_ms - self.used_until_ms) // self.election_ms
        allowance = min(max(unused, 0), EPOCH_STEP_MAX)
        return rules.epoch_out_of_range(epoch, max(known, _FREE), allowance)

    def take(self, epoch: int, known: int, now_ms: int) -> None:
        """A higher epoch is taken over: of those that are kept back, as many are used."""
        used = epoch - max(known, _FREE)
        if used > 0:
            since = max(self.used_until_ms, now_ms - EPOCH_STEP_MAX * self.election_ms)
            self.used_until_ms = since + used * self.election_ms
