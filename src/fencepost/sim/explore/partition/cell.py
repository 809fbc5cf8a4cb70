"""One broker of a search: the product's runtime over a log of lists.

What runs is `runtime.replicas`, `runtime.fetchers` and `runtime.alter_partition` with the machines
that they host. Fetches are answered at once and without sessions: one that waits is one that
arrives later.

Time stands still at 0, with timeouts and back-offs of 0: what may happen some time may happen
next. A follower that has asked for the log's end at time 0 is caught up at time 0. When the
leader's timer for followers fires, a moment has passed there, and each follower that is not at the
end lags; what was "now" until then is "long ago" afterwards, however long. So clocks never tell two
states apart.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Final

from msgspec.structs import replace

from fencepost.log.config import LogConfig
from fencepost.machines.canonical import canonical
from fencepost.machines.driver import Driver
from fencepost.machines.effects import Append, Truncate
from fencepost.machines.fetcher import Fetcher, FetcherConfig, LeaderRequest
from fencepost.machines.fetcher.machine import GATHER_MS, TIMER as ROUND_TIMER
from fencepost.machines.image import ClusterImage, diff
from fencepost.machines.partition import Partition, PartitionConfig, Produce
from fencepost.machines.partition.in_sync import ALTER_PARTITION_TIMER, ISR_TIMER
from fencepost.runtime.alter_partition import AlterPartitions
from fencepost.runtime.cooperative import InOrder, Scheduler
from fencepost.runtime.fetchers import FetcherKey, FollowerFetchers
from fencepost.runtime.replicas import (
    HostedPartition,
    ReplicaManager,
    TopicConfig,
    TopicConfigs,
)
from fencepost.sim.explore.copying import clone
from fencepost.sim.explore.logs import CellLog, directory
from fencepost.sim.explore.partition.bounds import Bounds
from fencepost.sim.explore.partition.metadata import INDEX, TOPIC
from fencepost.sim.rules import Rules
from fencepost.wire.errors import ErrorCode
from fencepost.wire.message import Message

CONTROLLER_ID: Final = 0
KEY: Final = f"{TOPIC}-{INDEX}"
NEVER_EXPIRES_MS: Final = 1 << 40
_FETCHER: Final = FetcherConfig(min_bytes=0, wait_max_ms=0, backoff_ms=0, timeout_ms=0)
_LOG_CONFIG: Final = LogConfig.from_props({})


class NoProducers:
    """What a log knows of idempotent producers here."""

    def first_unstable_offset(self, high_watermark: int) -> None:
        """No transaction is open."""

    def forget_decided(self, high_watermark: int) -> None:
        """None is decided."""


class ReplicaLog(CellLog):
    """A replica's log of entries."""

    producers: Final = NoProducers()


class Disk:
    """Where a broker's one log is, and what opens it: `ReplicaStorage` and `LogRecoveryPool`."""

    is_online = True
    may_need_recovery = False
    name: Final = KEY

    def __init__(self, broker_id: int) -> None:
        self.log = ReplicaLog()
        self.high_watermark = 0
        """As it was written down last."""
        self.data_dirs = (self,)
        self.metadata_dir = self.data_dir = self
        self.directory_id = directory(broker_id)

    def fail(self, reason: object) -> None:
        """Disks do not fail here."""
        raise AssertionError(f"the disk works: {reason}")

    note_shortage = delete_partition = fail

    def high_watermark_of(self, log: Any) -> int:
        """As it was written down last."""
        return self.high_watermark

    def begin(self, *_: Any, **__: Any) -> Disk:
        """Its opening is the disk itself."""
        return self

    def waiting_for(self, key: Any) -> None:
        """Nothing."""

    def finish(self, key: Any, opening: Any) -> Any:
        """The log."""
        return self.log

    def close(self) -> None:
        """Open nothing more."""


class BrokerCell:
    """A broker: its disk, and while it is up what it runs, over the driver's ports.

    `sent` collects what the last step let out: (leader or `CONTROLLER_ID`, message), `acked` which
    batches it has acknowledged.
    """

    def __init__(self, broker_id: int, bounds: Bounds, rules: Rules) -> None:
        self.id = broker_id
        self.bounds = bounds
        self.rules = rules
        self.disk = Disk(broker_id)
        self.is_up = False
        self.accepts = False
        """Whether it knows to have been unfenced since it started, and serves."""
        self.image = ClusterImage()
        self.image_number = -1
        self.armed: dict[str, None] = {}
        """The timers of the partition's machine that are armed."""
        self.goes_on: Callable[[], None] | None = None
        """What is to be asked of the controller when a moment has passed."""
        self.controller_hears: Callable[[ErrorCode, Any], None] | None = None
        self.leaders_hear: dict[int, Callable[[Any], None]] = {}
        self.now = 0
        self.sent: list[tuple[int, Message]] = []
        self.acked: list[int] = []
        self.gave_up: str | None = None
        self.lowest_cut: int | None = None
        self.timers = self
        self.driver: Driver
        self.replicas: ReplicaManager
        self.followers: FollowerFetchers
        self.alter_partitions: AlterPartitions
        self._watchers: dict[Hashable, Callable[[Any], None]] = {}

    # -- life ----------------------------------------------------------------------------------

    def boot(self) -> None:
        """Start on what is on the disk."""
        ports: Any = self
        disk: Any = self.disk
        self.disk.log.durable = len(self.disk.log.entries)
        self.is_up, self.accepts, self.image = True, False, ClusterImage()
        self.driver = Driver(ports)
        work = InOrder(Scheduler(ports, _no_time, 0.0, 0.0).lane(), at_once=1_000)
        self.replicas = ReplicaManager(self.id, ports, disk, disk, work, self._configs)
        self.replicas.rules = self.rules.partition
        self.followers = FollowerFetchers(self.id, ports, ports, _FETCHER, self._broker_epoch)
        self.replicas.on_step = self.followers.looked_at
        self.alter_partitions = AlterPartitions(
            self.driver, ports, ports, self.replicas, self.id, self._broker_epoch
        )

    def lose_power(self, kept: int, knows_high_watermark: bool) -> None:
        """Of what was not flushed `kept` batches are left; so may the high watermark be."""
        self.disk.log.lose_power(kept)
        self.disk.high_watermark = self.machine.high_watermark if knows_high_watermark else 0
        self.is_up = self.accepts = False
        self.image, self.image_number, self.armed = ClusterImage(), -1, {}
        self.goes_on = self.controller_hears = None
        self.leaders_hear, self._watchers = {}, {}
        del self.driver, self.replicas, self.followers, self.alter_partitions

    def copy(self) -> BrokerCell:
        """The same broker, to be stepped on its own."""
        made: BrokerCell = clone(self, {})
        return made

    # -- what there is to see ------------------------------------------------------------------

    @property
    def hosted(self) -> HostedPartition:
        """The partition."""
        hosted = self.replicas.get(TOPIC, INDEX)
        assert isinstance(hosted, HostedPartition), "every broker here has a replica"
        return hosted

    @property
    def machine(self) -> Partition:
        """The partition's machine."""
        return self.hosted.machine

    @property
    def fetchers(self) -> dict[int, Fetcher]:
        """The fetchers by their leaders."""
        found: dict[int, Fetcher] = {}
        for (leader, _), key in sorted(self.followers._fetchers.items()):
            fetcher: Any = self.driver.machine(key)
            found[leader] = fetcher
        return found

    def key(self) -> Any:
        """What the broker's future depends on."""
        log = self.disk.log
        disk = (tuple(log.entries), log.durable, tuple(log.epochs), self.disk.high_watermark)
        if not self.is_up:
            return disk
        asks = self.alter_partitions
        following = self.followers._following.get(KEY)
        return (
            disk,
            self.image_number,
            self.accepts,
            self.gave_up,
            tuple(sorted(self.armed)),
            self.machine.canonical(),
            tuple((leader, fetcher.canonical()) for leader, fetcher in self.fetchers.items()),
            None if following is None else (following.leader_epoch, following.reported),
            canonical((asks._unsent, asks._in_flight, asks._is_held)),
            self.goes_on is not None,
        )

    def key_but_image(self) -> Any:
        """`key` without the number of the metadata; only while it is up."""
        disk, _, *others = self.key()
        return disk, others

    # -- steps ---------------------------------------------------------------------------------

    def take_over(self, image: ClusterImage, number: int) -> None:
        """The metadata have come so far."""
        delta = diff(self.image, image)
        self.image, self.image_number = image, number
        self.replicas.apply(image, delta)
        self.accepts = self.accepts or not image.brokers[self.id].fenced

    def flush(self) -> None:
        """What was appended is durable."""
        log = self.disk.log
        log.durable = len(log.entries)
        self.driver.persisted(KEY, log.end_offset)

    def produce(self, produce: Produce) -> None:
        """A client's batch arrives."""
        self.driver.feed(KEY, produce)

    def fire(self, name: str) -> None:
        """A timer of the partition's machine fires; see the module for what time does then."""
        self.armed.pop(name, None)
        self.now = 1 if name == ISR_TIMER else 0
        self.driver.timer_fired(KEY, name)

    def abandon(self, leader: int) -> None:
        """A fetcher has waited long enough for an answer, with something new to ask for."""
        self.now = GATHER_MS
        self.driver.timer_fired(self.followers._fetchers[leader, 0], ROUND_TIMER)
        self.now = 0

    def go_on(self) -> None:
        """The moment has passed after which the controller is asked again."""
        goes_on, self.goes_on = self.goes_on, None
        assert goes_on is not None, "it waits"
        goes_on()

    def own_events(self) -> list[tuple[Any, ...]]:
        """What may happen in the broker by itself, but for power cuts."""
        if not self.is_up:
            return []
        found: list[tuple[Any, ...]] = []
        log, machine = self.disk.log, self.machine
        if log.durable < len(log.entries):
            found.append(("flush",))
        if ISR_TIMER in self.armed:
            found.append(("timer", ISR_TIMER))
        asks, proposal = self.alter_partitions, machine.proposal
        is_asked = proposal in (asks._in_flight.get(KEY), asks._unsent.get(KEY))
        if ALTER_PARTITION_TIMER in self.armed and proposal is not None and not is_asked:
            found.append(("timer", ALTER_PARTITION_TIMER))
        if self.goes_on is not None:
            found.append(("go on",))
        for leader, fetcher in self.fetchers.items():
            if fetcher.has_newcomers:
                found.append(("abandon", leader))
        return found

    def settle(self) -> None:
        """A step is over: without flushes all is durable, and time stands at 0 again."""
        if not self.is_up:
            return
        while not self.bounds.flushes and self.disk.log.durable < len(self.disk.log.entries):
            self.flush()
        self._settle_leader()
        count = self.machine.answers_taken
        assert count == self.hosted.answers_told, "nothing is told between steps"
        self.machine.answers_taken = self.hosted.answers_told = 0
        following = self.followers._following.get(KEY)
        if following is not None and following.reported is not None:
            following.reported = replace(following.reported, taken=following.reported.taken - count)
        for fetcher in self.fetchers.values():
            fetcher.forget_time(count)
        self.now = 0

    def _settle_leader(self) -> None:
        """When a follower fetched last matters only while it has not been caught up since."""
        for follower in self.machine.followers.values():
            follower.forget_time(self.now)
        self.machine.in_sync.forget_time()

    # -- ports ---------------------------------------------------------------------------------

    def host(self, key: Hashable, machine: Any, log: Any, watch: Callable[[Any], None]) -> None:
        """Host a machine."""
        self._watchers[key] = watch
        self.driver.add(key, machine)

    def now_ms(self) -> int:
        """See the module."""
        return self.now

    def wall_ms(self) -> int:
        """Always 0: no decision of a search depends on the date."""
        return 0

    def append(self, key: Any, work: Append, wall_ms: int) -> int:
        """Add to the log."""
        self.disk.log.append(work)
        return self.disk.log.end_offset

    def request_flush(self, key: Any) -> None:
        """A flush may happen whenever there is something to flush."""

    def truncate(self, key: Any, work: Truncate) -> int:
        """Cut the log, durably."""
        assert not work.start_over, "no log begins behind 0 here"
        lowest = self.lowest_cut
        self.lowest_cut = work.end_offset if lowest is None else min(work.end_offset, lowest)
        self.disk.log.cut(work.end_offset)
        return self.disk.log.end_offset

    def send(self, key: Any, to: Any, message: Any) -> None:
        """To a leader or the controller."""
        if isinstance(key, FetcherKey):
            self.followers.submit(key, to, message)
        else:
            self.alter_partitions.submit(key, message)

    def reply(self, token: Any, value: Any) -> None:
        """To a client whose batch has a number."""
        if value.error_code is ErrorCode.NONE:
            self.acked.append(token)

    def tell(self, machine: Any, input_: Any) -> None:
        """From a fetcher to the partition."""
        machine.take(input_)

    def set_timer(self, key: Any, name: str, deadline_ms: int | None) -> None:
        """Which timers of the partition are armed; when a fetcher's are, its machine says."""
        if key != KEY:
            return
        self.armed.pop(name, None)
        if deadline_ms is not None:
            self.armed[name] = None

    def stepped(self, key: Any, machine: Any) -> None:
        """Let the runtime that hosts the machine look at it."""
        self._watchers[key](machine)

    def failed(self, key: Any, reason: str) -> None:
        """A machine has given up."""
        self.gave_up = self.gave_up or reason

    def ask(self, *asked: Any, timeout_ms: int = 0, purpose: str = "") -> None:
        """`AsksController` and `Leaders`: remember who wants to hear the answer."""
        if purpose:
            request, self.controller_hears = asked
            self.sent.append((CONTROLLER_ID, request))
            return
        leader_id, _, wanted, on_outcome = asked
        assert isinstance(wanted, LeaderRequest), "fetchers ask leaders"
        self.leaders_hear[leader_id] = on_outcome
        self.sent.append((leader_id, wanted.request))

    def after(self, delay_ms: int, callback: Callable[[], None]) -> None:
        """`TimerQueue`, for the one that asks the controller."""
        assert self.goes_on is None, "it waits once"
        self.goes_on = callback

    def _broker_epoch(self) -> int:
        return self.image.brokers[self.id].epoch

    def _configs(self, image: ClusterImage) -> TopicConfigs:
        machine = PartitionConfig(
            min_insync_replicas=self.bounds.min_isr,
            replica_lag_time_max_ms=0,
            alter_partition_retry_ms=0,
        )
        return _Configs(TopicConfig(_LOG_CONFIG, machine))


class _Configs:
    """The same for every topic."""

    def __init__(self, config: TopicConfig) -> None:
        self._config = config

    def __call__(self, topic: str) -> TopicConfig:
        return self._config


def _no_time() -> float:
    return 0.0
