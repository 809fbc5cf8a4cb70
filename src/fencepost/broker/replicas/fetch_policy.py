"""`BrokerFetchPolicy`: what a broker's configuration and its throttles say about fetches."""

from __future__ import annotations

from collections.abc import Callable

from fencepost.broker.config.broker_config import BrokerConfig
from fencepost.broker.replicas.read_replicas import rack_selector
from fencepost.broker.replicas.throttles import LeaderThrottle
from fencepost.machines.image import ClusterImage
from fencepost.runtime.replicas import HostedPartition


class BrokerFetchPolicy:
    """A `FetchPolicy`."""

    def __init__(
        self,
        config: BrokerConfig,
        image: Callable[[], ClusterImage],
        throttle: LeaderThrottle,
        now_ms: Callable[[], int],
    ) -> None:
        self.max_bytes: int = config.get("fetch.max.bytes")
        self._has_selector = bool(config.get("replica.selector.class"))
        self._node_id = config.node_id
        self._image = image
        self._throttle = throttle
        self._now_ms = now_ms

    def choose_replica(
        self, listener_name: str, rack: str, /
    ) -> Callable[[HostedPartition, int], int] | None:
        """See `FetchPolicy`."""
        if not rack or not self._has_selector:
            return None
        return rack_selector(self._image(), self._node_id, listener_name, rack, self._now_ms())

    def is_held_back(self, replica_id: int, /) -> Callable[[HostedPartition], bool] | None:
        """See `FetchPolicy`."""
        throttle = self._throttle
        if not throttle.is_limited:
            return None
        return lambda hosted: throttle.holds_back(hosted, replica_id)

    def sent_to_follower(self, hosted: HostedPartition, size_bytes: int, /) -> None:
        """See `FetchPolicy`."""
        self._throttle.record(hosted, size_bytes)
