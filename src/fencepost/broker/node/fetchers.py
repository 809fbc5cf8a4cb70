"""The fetchers of a broker, for the replicas that follow, and their way to the brokers that lead.

Loaded and made when the first of them is needed, see `broker.node.late_parts`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial
from typing import Final

from fencepost.broker.node.core import NodeCore
from fencepost.broker.replicas.fetch_channel import FetchChannel
from fencepost.broker.replicas.throttles import FollowerThrottle
from fencepost.machines.fetcher import FetcherConfig, LeaderRequest
from fencepost.runtime.fetchers import FetcherKey, FollowerFetchers

COUNT_KEY: Final = "num.replica.fetchers"


class Fetchers:
    """See the module."""

    def __init__(self, core: NodeCore, broker_epoch: Callable[[], int]) -> None:
        get = core.config.get
        self._channel = FetchChannel(
            core.loop,
            core.config.node_id,
            core.config.inter_broker_listener,
            lambda: core.image,
            max_response_bytes=get("socket.request.max.bytes"),
            backoff_ms=get("replica.fetch.backoff.ms"),
            security=partial(core.peer_security, core.config.inter_broker_listener),
        )
        self.of_partitions = FollowerFetchers(
            core.config.node_id,
            core.ports,
            self._channel,
            FetcherConfig(
                fetch_max_bytes=get("replica.fetch.max.bytes"),
                response_max_bytes=get("replica.fetch.response.max.bytes"),
                min_bytes=get("replica.fetch.min.bytes"),
                wait_max_ms=get("replica.fetch.wait.max.ms"),
                backoff_ms=get("replica.fetch.backoff.ms"),
                timeout_ms=get("replica.socket.timeout.ms"),
            ),
            broker_epoch,
            core.settings.get(COUNT_KEY),
            FollowerThrottle(core.settings, core.now_ms),
        )
        core.ports.ways[LeaderRequest] = self.of_partitions.submit
        core.settings.watch(
            [COUNT_KEY], lambda: self.of_partitions.resize(core.settings.get(COUNT_KEY))
        )

    def broken(self, key: Hashable, reason: str) -> bool:
        """A machine broke down: whether it was a fetcher's, in whose place another one goes on."""
        if not isinstance(key, FetcherKey):
            return False
        self.of_partitions.broken(key, reason)
        return True

    def close(self) -> None:
        """Fetch nothing any more, and disconnect."""
        self.of_partitions.close()
        self._channel.close()
