"""The throttles of replication, of this broker as a leader and as a follower (KIP-73).

Whose bytes count is said by the topics' configs, how many there may be by the broker's; both may
change while it runs. A leader gives empty answers to replicas that are held back; a follower leaves
partitions out of its fetches in which it is not in sync, while `is_exceeded`, and records what it
appends of throttled ones.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Final

from fencepost.log.config import LogConfig
from fencepost.machines.fetch import ByteRate, is_throttled
from fencepost.runtime.replicas import HostedPartition

LEADERS: Final[Callable[[LogConfig], tuple[str, ...]]] = attrgetter(
    "leader_replication_throttled_replicas"
)
FOLLOWERS: Final[Callable[[LogConfig], tuple[str, ...]]] = attrgetter(
    "follower_replication_throttled_replicas"
)


class ReplicationThrottle:
    """One of the two throttles; `replicas_of` is `LEADERS` or `FOLLOWERS`."""

    def __init__(
        self,
        broker_id: int,
        replicas_of: Callable[[LogConfig], tuple[str, ...]],
        rate: ByteRate,
        now_ms: Callable[[], int],
    ) -> None:
        self._broker_id = broker_id
        self._replicas_of = replicas_of
        self._rate = rate
        self._now_ms = now_ms

    @property
    def is_limited(self) -> bool:
        """Whether there is a limit at all."""
        return self._rate.is_limited

    def limit(self, bytes_per_second: int) -> None:
        """Another rate is in force."""
        self._rate.limit = bytes_per_second

    def is_throttled(self, hosted: HostedPartition) -> bool:
        """Whether the bytes of the partition's replica here count."""
        return is_throttled(self._replicas_of(hosted.log.config), hosted.index, self._broker_id)

    def is_exceeded(self) -> bool:
        """Whether the throttled replicas that are not in sync have to wait."""
        return self._rate.is_exceeded(self._now_ms())

    def record(self, hosted: HostedPartition, size_bytes: int) -> None:
        """So many bytes of the partition were replicated; only those of throttled ones count."""
        if size_bytes and self.is_limited and self.is_throttled(hosted):
            self._rate.record(size_bytes, self._now_ms())

    def holds_back(self, hosted: HostedPartition, replica_id: int) -> bool:
        """Whether a leader gives a follower nothing for now."""
        return (
            replica_id not in hosted.machine.isr
            and self.is_throttled(hosted)
            and self.is_exceeded()
        )
