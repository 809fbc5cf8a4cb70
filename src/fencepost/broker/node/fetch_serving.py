"""What a broker answers fetches with, of consumers and of followers.

Loaded and made when the first fetch comes, or a scrape that counts those that wait.
"""

from __future__ import annotations

import secrets

from fencepost.broker.node.core import NodeCore
from fencepost.broker.replicas.fetch_policy import BrokerFetchPolicy
from fencepost.broker.replicas.throttles import LeaderThrottle
from fencepost.runtime.delayed_fetches import FetchHost
from fencepost.runtime.replicas import ReplicaManager


class FetchServing:
    """See the module. From now on it hears of what moves in `replicas`."""

    def __init__(self, core: NodeCore, replicas: ReplicaManager) -> None:
        get = core.config.get
        self.host = FetchHost(
            core.ports.timers,
            core.now_ms,
            secrets.randbelow,
            get("max.incremental.fetch.session.cache.slots"),
            get("fencepost.fetch.session.cache.max.bytes"),
        )
        self.host.on_seen = core.driver.feed
        throttle = LeaderThrottle(core.settings, core.now_ms)
        self.policy = BrokerFetchPolicy(core.config, lambda: core.image, throttle, core.now_ms)
        replicas.on_moved = self.host.moved
        replicas.on_brokers_changed = self.host.look_again
        if core.authorizer is not None:
            core.authorizer.on_changed = self.host.look_again
