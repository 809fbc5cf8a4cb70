"""How the fetchers of a simulated broker reach their leaders: over the world's network.

Fetches do not wait at simulated leaders. What a waiting leader would have held back, an answer with
nothing in it, is held back here for `WAIT_MS`; a leader that keeps a session has waited itself.
"""

from __future__ import annotations

from typing import Any, Final

from fencepost.machines.fetcher import FetcherConfig, LeaderAnswered, LeaderFailed, LeaderRequest
from fencepost.machines.probes import probe
from fencepost.runtime.fetchers import FollowerFetchers, OnOutcome
from fencepost.sim.brokers.process import BrokerProcess
from fencepost.wire.api.fetch import FetchResponse

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

        def done(response: Any, is_refused: bool) -> None:
            if response is None:
                probe("sim.follower.unanswered")
                on_outcome(LeaderFailed(asked.number, "no answer"))
            elif isinstance(response, FetchResponse) and _says_nothing(response):
                broker.timers.after(
                    WAIT_MS, lambda: on_outcome(LeaderAnswered(asked.number, response))
                )
            else:
                on_outcome(LeaderAnswered(asked.number, response))

        broker.world.network.request(broker, leader_id, asked.request, done)


def followers_of(broker: BrokerProcess) -> FollowerFetchers:
    """The fetchers of a broker in one of its incarnations."""
    fetch_bytes = broker.world.options.replica_fetch_bytes
    config = FetcherConfig(
        fetch_max_bytes=fetch_bytes,
        response_max_bytes=fetch_bytes,
        wait_max_ms=WAIT_MS,
        backoff_ms=BACKOFF_MS,
    )
    return FollowerFetchers(
        broker.id, broker.ports, SimLeaders(broker), config, lambda: broker.broker_epoch
    )


def _says_nothing(response: FetchResponse) -> bool:
    """Whether a leader would have waited with this answer."""
    return not response.session_id and not any(
        part.records or part.error_code or part.diverging_epoch.end_offset >= 0
        for topic in response.responses
        for part in topic.partitions
    )
