"""How the fetchers of a simulated broker reach their leaders: over the world's network."""

from __future__ import annotations

from typing import Any, Final

from fencepost.machines.fetcher import FetcherConfig, LeaderAnswered, LeaderFailed, LeaderRequest
from fencepost.machines.probes import probe
from fencepost.runtime.fetchers import FollowerFetchers, OnOutcome
from fencepost.sim.brokers.process import BrokerProcess
from fencepost.wire.api.fetch import FetchRequest

WAIT_MS: Final = 100
"""How long a follower waits that has everything."""
BACKOFF_MS: Final = 200


class SimLeaders:
    """`Leaders` of one broker in one of its incarnations."""

    def __init__(self, broker: BrokerProcess) -> None:
        self._broker = broker

    def ask(
        self, leader_id: int, fetcher: int, asked: LeaderRequest, on_outcome: OnOutcome
    ) -> None:
        """Send it; `on_outcome` hears of the answer, or that there will be none."""
        broker = self._broker
        is_fetch = isinstance(asked.request, FetchRequest)
        if is_fetch and asked.lowest > broker.world.options.replica_fetch_version:
            failed = LeaderFailed(asked.number, "an older release", is_unsupported=True)
            broker.timers.after(0, lambda: on_outcome(failed))
            return

        def done(response: Any, is_refused: bool) -> None:
            if response is None:
                probe("sim.follower.unanswered")
                on_outcome(LeaderFailed(asked.number, "no answer"))
            else:
                on_outcome(LeaderAnswered(asked.number, response))

        between = (asked.lowest, asked.highest)
        broker.world.network.request(broker, leader_id, asked.request, done, between)


def followers_of(broker: BrokerProcess) -> FollowerFetchers:
    """The fetchers of a broker in one of its incarnations."""
    fetch_bytes = broker.world.options.replica_fetch_bytes
    config = FetcherConfig(
        fetch_max_bytes=fetch_bytes,
        response_max_bytes=fetch_bytes,
        wait_max_ms=WAIT_MS,
        backoff_ms=BACKOFF_MS,
    )
    followers = FollowerFetchers(
        broker.id, broker.ports, SimLeaders(broker), config, lambda: broker.broker_epoch
    )
    followers.rules = broker.world.rules.fetcher
    return followers
