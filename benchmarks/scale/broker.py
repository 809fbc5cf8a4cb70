"""A broker of a large cluster: real fetchers and fetch sessions, over logs that get no records.

What follows is fetched for by the product's `Fetcher`s, one for each leader, whose requests go
through the codec to the leaders' `FetchHost`, with its sessions and quiet partitions, by way of the
handler of Fetch. In place of a partition's machine and log there is a `Replica`, which
knows who leads it and which followers have asked: 300,000 logs would take longer to make than all
else together. What the real ones cost when they become leader or follower is charged
(`machine_costs`).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Final

from benchmarks.scale.clockwork import Core, Event, Timers, World
from fencepost.log.config import LogConfig
from fencepost.log.load_params import LoadLogParams
from fencepost.log.partition_log import PartitionLog
from fencepost.machines.effects import Send, SetTimer, Tell, TimerFired
from fencepost.machines.fetcher import (
    Fetcher,
    FetcherConfig,
    FetchPosition,
    Follow,
    FollowedPartition,
    LeaderAnswered,
    LeaderFailed,
    LeaderRequest,
    Progressed,
    Unfollow,
)
from fencepost.machines.image import LocalChanges, PartitionImage
from fencepost.machines.partition import (
    BecomeFollower,
    BecomeLeader,
    FetchBounds,
    FollowerFetched,
    Partition,
    PartitionConfig,
)
from fencepost.runtime.delayed_fetches import FetchHost
from fencepost.runtime.replicas import HostedPartition
from fencepost.runtime.requests.access import Access, PartitionAccess
from fencepost.runtime.requests.context import Pieces
from fencepost.runtime.requests.fetch import fetch
from fencepost.runtime.requests.fetch_parts import FetchParts
from fencepost.runtime.traffic import TopicTraffic
from fencepost.sim.brokers.arrived_request import ArrivedRequest
from fencepost.sim.brokers.fetch_parts import AllIsCached, NoFetchPolicy
from fencepost.sim.disk import SimDisk
from fencepost.wire.api.fetch import FetchRequest, FetchResponse
from fencepost.wire.errors import ErrorCode
from fencepost.wire.message import Message
from fencepost.wire.types import Uuid

FETCH_VERSION: Final = 18
SESSIONS_MAX: Final = 10_000
LOG: Any = SimpleNamespace(config=SimpleNamespace(compression_type="producer"))
TRAFFIC: Final = TopicTraffic()


class AtOnce:
    """A lane that has nothing else to do."""

    def begin(self, work: Pieces) -> None:
        """Do all of it."""
        for _ in work:
            pass


class Replica:
    """One partition on one broker, its log empty: what `machines.fetch` asks of it."""

    __slots__ = (
        "broker",
        "followers",
        "hosted",
        "image",
        "silent",
    )
    has_ended = False
    high_watermark = log_end_offset = log_start_offset = 0

    def __init__(self, broker: Broker, topic: str, topic_id: Uuid, index: int) -> None:
        self.broker = broker
        self.hosted = HostedPartition(
            topic,
            index,
            topic_id,
            f"{topic}-{index}",
            LOG,
            self,
            None,
            traffic=TRAFFIC,  # type: ignore[arg-type]
        )
        self.image: PartitionImage | None = None
        self.followers: dict[int, Any] = {}
        self.silent: set[int] = set()
        """Who is in sync and has not asked in this leader epoch."""

    @property
    def leader_epoch(self) -> int:
        """The leader epoch here."""
        return -1 if self.image is None else self.image.leader_epoch

    @property
    def isr(self) -> tuple[int, ...]:
        """The in-sync set."""
        return () if self.image is None else self.image.isr

    def lead(self, image: PartitionImage) -> None:
        """This broker leads, from now on or still."""
        if image.leader_epoch != self.leader_epoch:
            self.followers.clear()
            self.silent = set(image.isr) - {self.broker.id}
        else:
            self.silent &= set(image.isr)
        self.image = image

    def follower_state(self, broker_id: int) -> Any:
        """See `PartitionQueries.follower_state`."""
        return self.followers.get(broker_id)

    def check_fetch(self, *, current_leader_epoch: int, **_: Any) -> FetchBounds | ErrorCode:
        """See `PartitionQueries.check_fetch`: the rows about epochs."""
        image = self.image
        if image is None or current_leader_epoch > image.leader_epoch:
            return ErrorCode.UNKNOWN_LEADER_EPOCH
        if current_leader_epoch < image.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if image.leader != self.broker.id:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return FetchBounds(0, 0, 0, 0, 0, image.leader_epoch)


class Broker:
    """See the module docstring. `send(to, size_bytes, deliver)` is the network."""

    def __init__(
        self,
        world: World,
        broker_id: int,
        epoch: int,
        costs: Costs,
        find: Callable[[int], Broker],
    ) -> None:
        self.world = world
        self.id = broker_id
        self.epoch = epoch
        self.core = Core(world)
        self.hosted: dict[tuple[Uuid, int], Replica] = {}
        self.fetchers: dict[int, Fetcher] = {}
        self.rounds = 0
        """Answers that its fetchers have had."""
        self.asked_bytes = self.answered_bytes = 0
        self.on_acknowledging: Callable[[Replica], None] = lambda replica: None
        self.on_serving: Callable[[Replica], None] = lambda replica: None
        self._costs = costs
        self._find = find
        self._following: dict[str, int] = {}
        self._by_key: dict[str, Replica] = {}
        self._armed: dict[int, Event] = {}
        self._asked: dict[int, int] = {}
        self._timers = Timers(world, self.core)
        sessions = iter(range(1, 1 << 30))
        self.fetches = FetchHost(
            self._timers, self._now_ms, lambda below: next(sessions), SESSIONS_MAX, 1 << 30
        )
        replicas: Any = SimpleNamespace(get=None, by_id=self._by_id)
        parts: Any = {
            "clocks": SimpleNamespace(now_ms=self._now_ms),
            "driver": SimpleNamespace(feed=self._fed),
            "metadata": None,  # for hints about leaders, which the followers know
        }
        self.fetch_parts = FetchParts(
            cached_reads=AllIsCached(),
            fetches=self.fetches,
            partitions=PartitionAccess(Access(), replicas),
            policy=NoFetchPolicy(),
            replicas=replicas,
            **parts,
        )

    def _now_ms(self) -> int:
        return int(self.world.now_ms)

    # -- metadata --------------------------------------------------------------------------------

    def apply(self, changes: LocalChanges) -> None:
        """Do what the difference between two images says of this broker."""
        for change in changes.to_lead:
            assert change.new is not None
            replica = self._replica(change.topic, change.topic_id, change.index)
            was_epoch = replica.leader_epoch
            self._unfollow(replica)
            replica.lead(change.new)
            self.core.charge(self._costs.lead_ms)
            if was_epoch != replica.leader_epoch:
                self.fetches.moved(replica.hosted)
                self.core.then(lambda one=replica: self.on_serving(one))  # type: ignore[misc]
                if not replica.silent:
                    self.core.then(lambda one=replica: self.on_acknowledging(one))  # type: ignore[misc]
        for change in changes.to_follow:
            assert change.new is not None
            replica = self._replica(change.topic, change.topic_id, change.index)
            is_new_epoch = replica.leader_epoch != change.new.leader_epoch
            replica.image = change.new
            self.core.charge(self._costs.follow_ms)
            if is_new_epoch:
                self._unfollow(replica)
                self._follow(replica)

    def _replica(self, topic: str, topic_id: Uuid, index: int) -> Replica:
        replica = self.hosted.get((topic_id, index))
        if replica is None:
            replica = self.hosted[topic_id, index] = Replica(self, topic, topic_id, index)
            self._by_key[replica.hosted.key] = replica
        return replica

    # -- following -------------------------------------------------------------------------------

    def _follow(self, replica: Replica) -> None:
        image = replica.image
        assert image is not None
        leader = image.leader
        if leader < 0:
            return
        fetcher = self.fetchers.get(leader)
        if fetcher is None:
            fetcher = self.fetchers[leader] = Fetcher(
                self.id, leader, FetcherConfig(), lambda: self.epoch
            )
        hosted = replica.hosted
        partition = FollowedPartition(hosted.topic, hosted.topic_id, hosted.index)
        self._following[hosted.key] = leader
        position = FetchPosition(0, -1, 0)
        self._step(leader, Follow(partition, partition, image.leader_epoch, position))

    def _unfollow(self, replica: Replica) -> None:
        hosted = replica.hosted
        leader = self._following.pop(hosted.key, None)
        if leader is not None:
            partition = FollowedPartition(hosted.topic, hosted.topic_id, hosted.index)
            self._step(leader, Unfollow(partition))

    def _step(self, leader: int, input_: Any) -> None:
        fetcher = self.fetchers[leader]
        for effect in fetcher.step(input_, self._now_ms(), 0):
            if type(effect) is Send:
                self._ask(leader, effect.message)
            elif type(effect) is SetTimer:
                self._set_timer(leader, effect)
            elif type(effect) is Tell:
                followed = fetcher.partitions.get(effect.machine)
                if followed is not None:  # its machine has taken it, at once
                    taken = followed.told_count
                    self._step(leader, Progressed(effect.machine, FetchPosition(0, -1, 0), taken))
        fetcher.notices.clear()

    def _set_timer(self, leader: int, effect: SetTimer) -> None:
        armed = self._armed.pop(leader, None)
        if armed is not None:
            armed.cancel()
        if effect.deadline_ms is not None:
            self._armed[leader] = self._timers.at(
                effect.deadline_ms, lambda: self._step(leader, TimerFired(effect.name))
            )

    def _ask(self, leader: int, asked: LeaderRequest) -> None:
        """Send a request; it arrives at the leader, or is refused there."""
        to, world = self._find(leader), self.world
        data = bytes(asked.request.encode(FETCH_VERSION))
        self.asked_bytes += len(data)
        self.core.charge(self._costs.socket_ms)
        self._asked[leader] = asked.number

        def arrive() -> None:
            to.core.charge(self._costs.socket_ms)
            request = FetchRequest.decode(data, FETCH_VERSION)
            context = ArrivedRequest("FetchRequest", FETCH_VERSION, reply, AtOnce(), self.id)
            context.decided(fetch(context, request, parts=to.fetch_parts))

        def reply(response: Message) -> None:
            answer = bytes(response.encode(FETCH_VERSION))
            to.answered_bytes += len(answer)
            to.core.charge(self._costs.socket_ms)
            to.core.then(
                lambda: self.core.soon(
                    lambda: self._answered(leader, asked.number, answer),
                    world.now_ms + self._costs.link_ms,
                )
            )

        def leave() -> None:
            at_ms = world.now_ms + self._costs.link_ms
            if to.core.is_alive:
                to.core.soon(arrive, at_ms)
            else:
                failed = LeaderFailed(asked.number, "refused")
                self.core.soon(lambda: self._step(leader, failed), at_ms + self._costs.link_ms)

        self.core.then(leave)

    def _answered(self, leader: int, number: int, answer: bytes) -> None:
        self.core.charge(self._costs.socket_ms)
        self.rounds += 1
        self._asked.pop(leader, None)
        response = FetchResponse.decode(answer, FETCH_VERSION)
        self._step(leader, LeaderAnswered(number, response))

    def lose(self, broker_id: int) -> None:
        """Another broker is dead: what was asked of it is refused."""
        fetcher = self.fetchers.get(broker_id)
        number = self._asked.pop(broker_id, None)
        if fetcher is not None and number is not None:
            self.core.soon(lambda: self._step(broker_id, LeaderFailed(number, "closed")))

    # -- leading: what the handler of Fetch asks for ---------------------------------------------

    def _by_id(self, topic_id: Uuid, index: int) -> HostedPartition | ErrorCode:
        replica = self.hosted.get((topic_id, index))
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if replica is None else replica.hosted

    def _fed(self, key: str, progress: FollowerFetched) -> None:
        """A follower holds all that there is."""
        replica = self._by_key[key]
        self.core.charge(self._costs.fetched_ms)
        replica.followers[progress.replica_id] = SimpleNamespace(
            offset=0, broker_epoch=progress.broker_epoch
        )
        if progress.replica_id in replica.silent:
            replica.silent.discard(progress.replica_id)
            if not replica.silent:
                self.core.then(lambda: self.on_acknowledging(replica))


class Costs:
    """CPU milliseconds of what is not run here, and the network's delay."""

    def __init__(
        self,
        link_ms: float = 0.25,
        sync_ms: float = 1.0,
        socket_ms: float = 0.2,
        lead_ms: float = 0.0,
        follow_ms: float = 0.0,
        fetched_ms: float = 0.0,
    ) -> None:
        self.link_ms = link_ms
        """From node to node, one way."""
        self.sync_ms = sync_ms
        self.socket_ms = socket_ms
        """To receive or to send one message: the event loop, the kernel, framing. From brokers as
        processes that all follow each other, with little to do and other load on the machine."""
        self.lead_ms = lead_ms
        self.follow_ms = follow_ms
        self.fetched_ms = fetched_ms
        """Of one partition: it becomes leader, it becomes follower, its follower has asked."""


MEASURED: Final = 300


def measured_costs() -> Costs:
    """Costs with those of real partitions' machines in them, on logs in memory."""
    disk = SimDisk()
    disk.keeps_operations = False
    disk.mkdir("/d")
    config = LogConfig.from_props({})
    params = LoadLogParams(wall_ms=1, topic_id=Uuid(b"t" * 16))
    machines = []
    for at in range(MEASURED):
        log = PartitionLog.open(disk, f"/d/t-{at}", "t", at, config, params)
        machines.append(Partition(1, log, config=PartitionConfig()))
    eligible = {1: 1, 2: 2, 3: 3}

    def each_ms(input_: Any) -> float:
        began_s = time.process_time()
        for machine in machines:
            machine.step(input_, 1, 1)
        return (time.process_time() - began_s) * 1000 / MEASURED

    follow = BecomeFollower(2, 1, 1, (1, 2, 3), (1, 2, 3))
    follow_ms = each_ms(follow)
    lead_ms = each_ms(BecomeLeader(2, 2, (1, 2, 3), (1, 2, 3), eligible))
    fetched_ms = each_ms(FollowerFetched(2, 0, 2, 2, 0))
    return Costs(lead_ms=lead_ms, follow_ms=follow_ms, fetched_ms=fetched_ms)
