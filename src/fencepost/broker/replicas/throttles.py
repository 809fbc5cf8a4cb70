"""The throttles of replication with a broker's configs behind them (KIP-73)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from fencepost.broker.config.settings import Settings
from fencepost.log.config import LogConfig
from fencepost.machines.fetch import ByteRate
from fencepost.runtime.throttles import FOLLOWERS, LEADERS, ReplicationThrottle

LEADER_KEY: Final = "leader.replication.throttled.rate"
FOLLOWER_KEY: Final = "follower.replication.throttled.rate"


class LeaderThrottle(ReplicationThrottle):
    """Of what this broker's leaders send to followers."""

    def __init__(self, settings: Settings, now_ms: Callable[[], int]) -> None:
        _configure(self, settings, now_ms, LEADERS, LEADER_KEY)


class FollowerThrottle(ReplicationThrottle):
    """Of what this broker's followers fetch."""

    def __init__(self, settings: Settings, now_ms: Callable[[], int]) -> None:
        _configure(self, settings, now_ms, FOLLOWERS, FOLLOWER_KEY)


def _configure(
    throttle: ReplicationThrottle,
    settings: Settings,
    now_ms: Callable[[], int],
    replicas_of: Callable[[LogConfig], tuple[str, ...]],
    key: str,
) -> None:
    get = settings.get
    window_ms = 1_000 * get("replication.quota.window.size.seconds")
    rate = ByteRate(get(key), get("replication.quota.window.num"), window_ms)
    ReplicationThrottle.__init__(throttle, settings.startup.node_id, replicas_of, rate, now_ms)
    settings.watch((key,), lambda: throttle.limit(get(key)))
