"""S56: an observer goes on asking the leader it knows (KAFKA-19354)."""

from __future__ import annotations

from fencepost.machines.quorum import QuorumMachine, inputs
from fencepost.machines.quorum.roles import Follower
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


class StaysWithItsLeader(QuorumMachine):
    """Asks an address where nobody is, for ever."""

    def _asks_around(self, follower: Follower) -> bool:
        return False

    def _leave_silent_leader(self) -> None:
        self._set_timer(inputs.FETCH, self._now_ms + self._config.fetch_timeout_ms)


ABLATION = Ablation(
    "an observer of a leader that is gone never finds another",
    Rules(machine=StaysWithItsLeader),
    scenarios=("S56",),
    is_found_by_search=False,
)
