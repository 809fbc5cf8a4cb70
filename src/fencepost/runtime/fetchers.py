"""The replicas that follow are fetched for: hosts fetchers, and stands between them and partitions.

Theory of operation
-------------------
`looked_at` is called after every step of a partition's machine. What it follows, and under which
leader epoch, is known from the machine; so is when it has taken what its fetcher told it and its
log is durable. A partition belongs to one of `num.replica.fetchers` machines for its leader, by
its name and number; each asks its leader over a connection of its own (`Leaders`).

Between the answer to a fetch and the next one everything is done by two machines that never meet:
the fetcher tells the partition's machine (`Fetched`, `Diverged`, `FetchedOutOfRange`), which counts
what it has taken (`answers_taken`); `Progressed` names that number, so that a report which crossed
a newer order is not taken for its fulfilment.

A fetcher that breaks down, which is a mistake of ours, is made again after a while: a broker that
follows nobody any more, and says so nowhere, would be worse than one that tries again.

A broker process runs this class, and so does the simulator: no asyncio here.
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import Callable, Hashable, Iterator
from typing import Any, Final, NamedTuple, Protocol

from msgspec import Struct

from fencepost.machines.fetcher import (
    Fetcher,
    FetcherConfig,
    FetchPosition,
    Follow,
    FollowedPartition,
    LeaderAnswered,
    LeaderFailed,
    LeaderRequest,
    NoticeKind,
    Progressed,
    Unfollow,
)
from fencepost.machines.fetcher.rules import RULES, FetcherRules
from fencepost.machines.partition import Diverged, Fetched, FetchedOutOfRange
from fencepost.runtime.halted import HaltCause, HaltedReplica
from fencepost.runtime.ports import MachinePorts
from fencepost.runtime.replicas import HostedPartition
from fencepost.runtime.throttles import ReplicationThrottle

log = logging.getLogger(__name__)

_LEVELS: Final = {
    NoticeKind.UNREACHABLE: logging.WARNING,
    NoticeKind.RECOVERED: logging.INFO,
    NoticeKind.REFUSED: logging.WARNING,
    NoticeKind.CORRUPT: logging.ERROR,
    NoticeKind.DIVERGED: logging.INFO,
    NoticeKind.UNCLEAN: logging.ERROR,
    NoticeKind.STARTS_OVER: logging.WARNING,
    NoticeKind.STOPPED: logging.INFO,
}

OnOutcome = Callable[[LeaderAnswered | LeaderFailed], None]


class Leaders(Protocol):
    """The way to other brokers."""

    def ask(
        self, leader_id: int, fetcher: int, asked: LeaderRequest, on_outcome: OnOutcome
    ) -> None:
        """Ask; `on_outcome` is called once, never before this returns.

        `fetcher` is the number of the fetcher, which has a connection of its own.
        """
        ...


class FetcherKey(NamedTuple):
    """What the driver knows a fetcher by. `life` tells one from those that broke down before it."""

    leader_id: int
    number: int
    life: int


class _Following(Struct, eq=False):
    """A partition that a fetcher fetches for, and the destination of what the fetcher tells it."""

    host: FollowerFetchers
    hosted: HostedPartition
    partition: FollowedPartition
    leader_epoch: int
    key: FetcherKey
    reported: Progressed | None = None

    def take(self, order: Any) -> None:
        """Feed the partition's machine; a fetcher that it has left since gives it nothing."""
        self.host.deliver(self, order)


class FollowerFetchers:
    """See the module docstring. `count` is `num.replica.fetchers`; `throttle` may hold back
    replicas that are not in sync."""

    def __init__(
        self,
        broker_id: int,
        ports: MachinePorts,
        leaders: Leaders,
        config: FetcherConfig,
        broker_epoch: Callable[[], int],
        count: int = 1,
        throttle: ReplicationThrottle | None = None,
    ) -> None:
        self._broker_id = broker_id
        self._ports = ports
        self._leaders = leaders
        self._config = config
        self._broker_epoch = broker_epoch
        self._count = count
        self._throttle = throttle
        self.rules: FetcherRules = RULES
        """What fetchers go by that are made from now on."""
        self._life = 0
        self._is_closed = False
        self._fetchers: dict[tuple[int, int], FetcherKey] = {}
        self._following: dict[str, _Following] = {}
        self.unclean_truncations = 0
        """How often a log was cut because the leader's ended before it."""

    # -- what partitions do --------------------------------------------------------------------

    def looked_at(self, hosted: HostedPartition) -> None:
        """The partition's machine has made a step."""
        machine = hosted.machine
        known = self._following.get(hosted.key)
        if not machine.is_following or self._is_closed:
            if known is not None:
                self._unfollow(known)
            return
        if known is not None and known.leader_epoch != machine.leader_epoch:
            self._unfollow(known)
            known = None
        if machine.durable_offset < machine.log_end_offset:
            return  # the flush that is under way will say when
        position = FetchPosition(*machine.fetch_position(), machine.log_start_offset)
        if known is None:
            self._follow(hosted, position)
            return
        done = Progressed(known.partition, position, machine.answers_taken)
        if done != known.reported:
            known.reported = done
            self._ports.driver.feed(known.key, done)

    def gone(self, hosted: HostedPartition) -> None:
        """The partition is hosted here no longer."""
        known = self._following.get(hosted.key)
        if known is not None and known.hosted is hosted:
            self._unfollow(known)

    def _follow(self, hosted: HostedPartition, position: FetchPosition) -> None:
        machine = hosted.machine
        partition = FollowedPartition(hosted.topic, hosted.topic_id, hosted.index)
        key = self._fetcher(machine.leader_id, self._number_of(partition))
        following = self._following[hosted.key] = _Following(
            self, hosted, partition, machine.leader_epoch, key
        )
        follow = Follow(partition, following, machine.leader_epoch, position, hosted.answers_told)
        self._ports.driver.feed(key, follow)

    def deliver(self, following: _Following, order: Fetched | Diverged | FetchedOutOfRange) -> None:
        """A fetcher tells the machine of a partition what to make of its leader's answer.

        What comes from a fetcher that the partition has left is dropped and not counted: the
        fetcher of today was told how many orders there were before it.
        """
        hosted = following.hosted
        if self._following.get(hosted.key) is not following:
            return
        hosted.answers_told += 1
        if type(order) is Fetched:
            size_bytes = sum(len(batch.data) for batch in order.batches)
            hosted.traffic.replication_bytes_in += size_bytes
            if self._throttle is not None:
                self._throttle.record(hosted, size_bytes)
        self._ports.driver.feed(hosted.key, order)

    def _unfollow(self, following: _Following) -> None:
        del self._following[following.hosted.key]
        self._ports.driver.feed(following.key, Unfollow(following.partition))

    # -- fetchers ------------------------------------------------------------------------------

    def _number_of(self, partition: FollowedPartition) -> int:
        return (zlib.crc32(partition.topic.encode()) + partition.partition) % self._count

    def _fetcher(self, leader_id: int, number: int) -> FetcherKey:
        """The fetcher for a leader; it is made when it is needed first."""
        key = self._fetchers.get((leader_id, number))
        if key is None:
            self._life += 1
            key = self._fetchers[leader_id, number] = FetcherKey(leader_id, number, self._life)
            machine = Fetcher(
                self._broker_id,
                leader_id,
                self._config,
                self._broker_epoch,
                self._is_held_back,
                self.rules,
            )
            self._ports.host(key, machine, None, lambda stepped: self._say(leader_id, stepped))
        return key

    def _is_held_back(self, partition: FollowedPartition) -> bool:
        throttle = self._throttle
        if throttle is None or not throttle.is_exceeded():
            return False
        following = self._following.get(f"{partition.topic}-{partition.partition}")
        return following is not None and throttle.is_throttled(following.hosted)

    def submit(self, key: Hashable, leader_id: int, asked: LeaderRequest) -> None:
        """The port of the driver: a fetcher's request to its leader."""
        assert isinstance(key, FetcherKey), "only fetchers ask leaders"
        self._leaders.ask(
            leader_id,
            key.number,
            asked,
            lambda outcome: self._ports.driver.feed(key, outcome),
        )

    def broken(self, key: FetcherKey, reason: str) -> None:
        """A fetcher's machine broke down: another one goes on in its place, after a while."""
        log.error("the fetcher for broker %d failed: %s", key.leader_id, reason)
        if self._fetchers.get(key[:2]) == key:
            self._ports.timers.after(self._config.backoff_ms, lambda: self._replace(key))

    def _replace(self, key: FetcherKey) -> None:
        if self._fetchers.get(key[:2]) == key:
            self._drop([key])

    def resize(self, count: int) -> None:
        """From now on there are so many fetchers for each leader."""
        if count != self._count:
            self._count = count
            self._drop(list(self._fetchers.values()))

    def _drop(self, keys: list[FetcherKey]) -> None:
        """Do without these fetchers, and give what they fetched for to others."""
        for key in keys:
            del self._fetchers[key[:2]]
            self._ports.unhost(key)
        left = [one for one in self._following.values() if one.key in keys]
        for following in left:
            del self._following[following.hosted.key]
        for following in left:
            self.looked_at(following.hosted)

    def close(self) -> None:
        """Fetch nothing any more."""
        self._is_closed = True
        for key in self._fetchers.values():
            self._ports.unhost(key)
        self._fetchers.clear()
        self._following.clear()

    def _say(self, leader_id: int, fetcher: Fetcher) -> None:
        """Log what there is to say, and count what is to be counted."""
        if not fetcher.notices:
            return
        notices, fetcher.notices = fetcher.notices, []
        for kind, partition, text in notices:
            self.unclean_truncations += kind is NoticeKind.UNCLEAN
            what = "" if partition is None else f"{partition.topic}-{partition.partition}: "
            why = f": {text}" if text else ""
            log.log(_LEVELS[kind], "leader %d: %s%s%s", leader_id, what, kind.value, why)

    # -- for metrics ---------------------------------------------------------------------------

    @property
    def max_lag(self) -> int:
        """How many records the follower lacks that is furthest behind, as far as is known."""
        return max((one.max_lag for one in self._machines()), default=0)

    def lag_of(self, hosted: HostedPartition) -> tuple[FetcherKey, int] | None:
        """Who fetches for a partition, and how many records it lacks; None if that is unknown."""
        following = self._following.get(hosted.key)
        if following is None:
            return None
        fetcher = self._ports.driver.machine(following.key)
        if not isinstance(fetcher, Fetcher):
            return None
        followed = fetcher.partitions.get(following.partition)
        return None if followed is None or followed.lag is None else (following.key, followed.lag)

    @property
    def stopped(self) -> int:
        """For how many partitions nothing is fetched before there is another leader epoch."""
        return sum(one.stopped for one in self._machines())

    def halted(self) -> Iterator[HaltedReplica]:
        """The replicas that do not catch up because nothing comes of their fetches."""
        for key in self._fetchers.values():
            fetcher = self._ports.driver.machine(key)
            if not isinstance(fetcher, Fetcher):
                continue
            for partition, is_stopped, why in fetcher.halted():
                name = f"{partition.topic}-{partition.partition}"
                who = f"from its leader, broker {key.leader_id}"
                if is_stopped:
                    text = f"nothing more is fetched {who}, in this leader epoch: {why}"
                    yield HaltedReplica(name, HaltCause.FETCHING_STOPPED, text)
                else:
                    text = f"fetching {who}, fails: {why}"
                    yield HaltedReplica(name, HaltCause.FETCHING_FAILS, text)

    def _machines(self) -> list[Fetcher]:
        found = [self._ports.driver.machine(key) for key in self._fetchers.values()]
        return [one for one in found if isinstance(one, Fetcher)]
