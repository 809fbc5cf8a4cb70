"""A runtime over a partition on a simulated disk, with the real driver and partition machine.

Nothing is committed until `commit`, nothing that waits for its turn happens until `run`, and no
time passes but by `advance`. A second replica may be in sync (`followers=1`): then what is appended
is committed when it has fetched that.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable
from typing import Any

from fencepost.batch.record_batch import RecordBatch
from fencepost.log.config import LogConfig
from fencepost.log.load_params import LoadLogParams
from fencepost.log.partition_log import PartitionLog
from fencepost.machines.coordinator import Decision
from fencepost.machines.partition import (
    BecomeFollower,
    BecomeLeader,
    FollowerFetched,
    Partition,
    PartitionConfig,
)
from fencepost.runtime.cooperative import Scheduler
from fencepost.runtime.coordinator import (
    Coordinator,
    CoordinatorKind,
    CoordinatorRuntime,
    LedPartition,
)
from fencepost.runtime.ports import MachinePorts
from fencepost.sim.disk import SimDisk
from fencepost.wire.errors import ErrorCode

from .toy import Toy, ToyCodec

INDEX = 3
KEY = f"__toy-{INDEX}"
WALL_MS = 1_700_000_000_000


class _Timer:
    def __init__(self, deadline_ms: int, callback: Callable[[], None]) -> None:
        self.deadline_ms = deadline_ms
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class _Timers:
    def __init__(self, ports: WorldPorts) -> None:
        self._ports = ports
        self.armed: list[_Timer] = []
        self.armed_count = 0

    def at(self, deadline_ms: int, callback: Callable[[], None]) -> _Timer:
        timer = _Timer(deadline_ms, callback)
        self.armed.append(timer)
        self.armed_count += 1
        return timer

    def after(self, delay_ms: int, callback: Callable[[], None]) -> _Timer:
        return self.at(self._ports.now_ms() + delay_ms, callback)

    def next_due(self, until_ms: int) -> _Timer | None:
        self.armed = [timer for timer in self.armed if timer.callback is not None]
        due = [timer for timer in self.armed if timer.deadline_ms <= until_ms]
        return min(due, key=lambda timer: timer.deadline_ms, default=None)


class WorldPorts(MachinePorts):
    """Ports with two clocks, and flushes by hand."""

    def __init__(self) -> None:
        super().__init__(self, lambda key, reason: None)
        self.now = 1_000
        self.timers: Any = _Timers(self)

    def now_ms(self) -> int:
        return self.now

    def wall_ms(self) -> int:
        return WALL_MS + self.now

    def request_flush(self, key: Hashable) -> None:
        pass

    def forget_flush(self, key: Hashable) -> None:
        pass

    def send(self, key: Hashable, to: Any, message: Any) -> None:
        pass


class CoordinatorWorld:
    """See the module docstring. Replies are (error, reply) by token, a token being a number."""

    def __init__(self, *, followers: int = 0, max_message_bytes: int = 4_096, **kind: Any) -> None:
        self.ports = WorldPorts()
        self.disk = SimDisk()
        config = LogConfig.from_props(
            {"cleanup.policy": "compact", "max.message.bytes": max_message_bytes}
        )
        params = LoadLogParams(wall_ms=WALL_MS)
        self.log = PartitionLog.open(self.disk, f"d/{KEY}", "__toy", INDEX, config, params)
        self.replicas = tuple(range(1, 2 + followers))
        self.partition_epoch = 0
        needed = PartitionConfig(min_insync_replicas=1 + followers)
        self.machine = Partition(1, self.log, config=needed)
        self.ports.host(KEY, self.machine, self.log, self._stepped)
        self.partition = LedPartition(self.ports.driver, KEY, self.machine, self.log)
        self.turns: deque[Callable[[], None]] = deque()
        self.scheduler = Scheduler(self, lambda: 0.0, 0.0, 0.0)  # a piece in each turn
        self.replies: dict[int, tuple[ErrorCode, Any]] = {}
        self.order: list[int] = []
        self.sent: list[tuple[Any, int]] = []
        self.notes: list[str] = []
        self.machines: list[Toy] = []
        self.last_token = 0
        kind.setdefault("write_timeout_ms", 5_000)
        self.kind: CoordinatorKind[Toy] = CoordinatorKind(
            self._make_machine,
            ToyCodec(),
            on_send=lambda message, epoch: self.sent.append((message, epoch)),
            on_note=self.notes.append,
            **kind,
        )
        self.runtime = CoordinatorRuntime(self.kind, self.ports, self.scheduler.lane())

    def _make_machine(self) -> Toy:
        self.machines.append(Toy())
        return self.machines[-1]

    # What the scheduler needs of an event loop

    def call_soon(self, callback: Callable[[], None], /) -> None:
        self.turns.append(callback)

    call_soon_threadsafe = call_soon

    def _stepped(self, machine: Partition) -> None:
        self.runtime.high_watermark_moved(INDEX)

    # What the cluster does

    def lead(self, leader_epoch: int, *, load: bool = True) -> None:
        """This node leads; the runtime hears of it, unless that comes later."""
        self.partition_epoch += 1
        self.ports.driver.feed(KEY, self._order(leader_epoch, self.replicas))
        if load:
            self.load(leader_epoch)

    def load(self, leader_epoch: int) -> None:
        self.runtime.load(INDEX, self.partition, leader_epoch)

    def follow(self, leader_epoch: int, *, unload: bool = True) -> None:
        """Another leads."""
        self.partition_epoch += 1
        order = BecomeFollower(2, leader_epoch, self.partition_epoch, self.replicas, self.replicas)
        self.ports.driver.feed(KEY, order)
        if unload:
            self.runtime.unload(INDEX, leader_epoch)

    def set_in_sync(self, *in_sync: int) -> None:
        """The in-sync set is another; alone (1) is too few where there are followers."""
        self.partition_epoch += 1
        order = self._order(self.machine.leader_epoch, in_sync)
        self.ports.driver.feed(KEY, order)

    def _order(self, leader_epoch: int, in_sync: tuple[int, ...]) -> BecomeLeader:
        eligible = dict.fromkeys(self.replicas, 1)
        return BecomeLeader(leader_epoch, self.partition_epoch, self.replicas, in_sync, eligible)

    def start(self, leader_epoch: int = 1) -> Toy:
        """Lead, and be loaded; the machine."""
        self.lead(leader_epoch)
        self.commit()
        self.run()
        return self.toy

    # What time does

    def run(self, turns: int = -1) -> None:
        """Take all turns, or so many."""
        while self.turns and turns != 0:
            self.turns.popleft()()
            turns -= 1

    def commit(self) -> None:
        """All that is in the log is on the leader's disk, and the followers have it too."""
        self.log.flush()
        self.ports.driver.persisted(KEY, self.log.end_offset)
        for replica in self.replicas[1:]:
            epoch = self.machine.leader_epoch
            fetched = FollowerFetched(replica, self.log.end_offset, epoch, 1)
            self.ports.driver.feed(KEY, fetched)

    def advance(self, by_ms: int) -> None:
        """Let time pass, firing timers in the order of their deadlines."""
        until_ms = self.ports.now + by_ms
        while (timer := self.ports.timers.next_due(until_ms)) is not None:
            self.ports.now = max(self.ports.now, timer.deadline_ms)
            callback, timer.callback = timer.callback, None
            callback()
        self.ports.now = until_ms

    def within_a_step(self, work: Callable[[], None]) -> None:
        """Do `work` while the driver steps the partition: appends only queue up there."""
        hosted, machine = self.ports.driver._hosted[KEY], self.machine

        class Nosy:
            def step(self, *said: Any) -> Any:
                hosted.machine = machine
                work()
                return machine.step(*said)

        hosted.machine = Nosy()
        self.set_in_sync(*self.replicas)

    # What clients do; each returns its token

    def ask(self, decide: Callable[[Toy, Any], Decision[Any]]) -> int:
        self.last_token += 1
        token = self.last_token

        def on_reply(error: ErrorCode, reply: Any) -> None:
            self.order.append(token)
            assert token not in self.replies, f"{token} is answered twice"
            self.replies[token] = error, reply

        self.runtime.submit(INDEX, decide, on_reply)
        return token

    def set(self, name: str, text: str | None, **said: Any) -> int:
        return self.ask(lambda toy, token: toy.decide_set(token, (name, text), **said))

    def get(self, name: str) -> int:
        return self.ask(lambda toy, token: toy.decide_get(token, name))

    def wait(self, name: str) -> int:
        return self.ask(lambda toy, token: toy.decide_wait(token, name))

    # What there is

    @property
    def coordinator(self) -> Coordinator[Toy]:
        coordinator = self.runtime.get(INDEX)
        assert coordinator is not None
        return coordinator

    @property
    def toy(self) -> Toy:
        return self.coordinator.machine

    def write(self, batch: bytearray) -> None:
        """Put a batch into the log behind the runtime's back, as an earlier leader did."""
        self.log.append_as_leader(RecordBatch.parse(batch), 0, WALL_MS)

    def records(self) -> list[tuple[str, str | None]]:
        """Every record of the log that is not a marker, in its order."""
        from fencepost.batch.records import read_batch

        found = []
        for header, batch in self.log.read_all_batches(self.log.start_offset, self.log.end_offset):
            for record in [] if header.is_control else read_batch(batch, 0, header):
                found.append(ToyCodec.decode(bytes(record.key or b""), record.value))
        return [one for one in found if one is not None]

    def reloaded(self) -> Toy:
        """A machine that is loaded from the log as it is now."""
        from fencepost.runtime.coordinator.coordinator import _inline, _read_at_once
        from fencepost.runtime.coordinator.loader import load_pieces

        toy = Toy()
        for _ in load_pieces(
            self.log, self.log.start_offset, toy, ToyCodec(), _read_at_once, _inline
        ):
            pass
        return toy
