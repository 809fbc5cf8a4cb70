"""The driver's ports as far as they need no event loop: hosting, disk work, replies, watchers.

Theory of operation
-------------------
A machine is hosted together with its log (`host`). Appends go to that log's page cache; a reply's
token is a function of one argument, called with the value. After every step the machine's watcher
is called, which is how the rest of the node learns that a high watermark or a role moved.

A subclass adds clocks, timers, threads and the network: a broker process with asyncio
(`broker.loop.ports`), the simulator with a queue and a seed. Both carry out with this class what
machines ask of the disk, so that the simulator tries the code that the broker runs.

Exceptions: OSError from a log belongs to the driver, which tells the machine. Anything that a reply
or watcher raises is logged with its traceback and goes no further, so that one request's trouble
does not stop the machine that answered it.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from typing import Any, Protocol

from msgspec import Struct, field

from fencepost.log.errors import CorruptFileError
from fencepost.log.partition_log import PartitionLog
from fencepost.machines.driver import Driver
from fencepost.machines.effects import (
    Append,
    DropPrefix,
    InstallSnapshot,
    Machine,
    RepairBatch,
    StoreSnapshot,
    Truncate,
)
from fencepost.runtime.clock import Clocks
from fencepost.runtime.cooperative import Scheduler

log = logging.getLogger(__name__)

Watcher = Callable[[Any], None]


class ArmedTimer(Protocol):
    """A timer that may be called off."""

    def cancel(self) -> None:
        """Never fire; harmless when it has fired."""
        ...


class TimerQueue(Protocol):
    """Deadlines on the node's monotonic clock."""

    def at(self, deadline_ms: int, callback: Callable[[], None]) -> ArmedTimer:
        """Run `callback` once the clock has reached `deadline_ms`."""
        ...

    def after(self, delay_ms: int, callback: Callable[[], None]) -> ArmedTimer:
        """Run `callback` `delay_ms` from now."""
        ...


class TakesInputs(Protocol):
    """The destination of a `Tell`: it feeds a machine, or drops what comes too late for it."""

    def take(self, input_: Any) -> None:
        """Have the driver feed the input to the machine."""
        ...


class SnapshotPort(Protocol):
    """What carries out a quorum machine's work on snapshots."""

    def store(self, work: StoreSnapshot) -> None:
        """Write a piece of the partial file. OSError."""
        ...

    def install(self, work: InstallSnapshot) -> None:
        """Check it, put it in place of the log, then tell the machine. OSError."""
        ...

    def drop_prefix(self, work: DropPrefix) -> None:
        """Let the log start there. OSError."""
        ...


class Hosted(Struct):
    """What belongs to one hosted machine."""

    log_or_none: PartitionLog | None
    watch: Watcher
    write_state: Callable[[Any], None] | None
    always_flush: bool
    snapshots: SnapshotPort | None = None
    timers: dict[str, ArmedTimer] = field(default_factory=dict)

    @property
    def log(self) -> PartitionLog:
        """Its log; it must have one."""
        assert self.log_or_none is not None, "a machine without a log has no work for the disk"
        return self.log_or_none


class MachinePorts(ABC):
    """See the module docstring. A subclass adds `send`, `request_flush` and what is abstract."""

    timers: TimerQueue
    scheduler: Scheduler

    def __init__(self, clocks: Clocks, on_failed: Callable[[Hashable, str], None]) -> None:
        self.clocks = clocks
        self.driver = Driver(self)
        self._hosts: dict[Hashable, Hosted] = {}
        self._on_failed = on_failed

    # -- left to the subclass ----------------------------------------------------------------

    @abstractmethod
    def request_flush(self, key: Hashable) -> None:
        """Make the log durable soon, then tell the driver."""

    @abstractmethod
    def forget_flush(self, key: Hashable) -> None:
        """The machine is gone: nothing is flushed for it any more."""

    @abstractmethod
    def send(self, key: Hashable, to: Any, message: Any) -> None:
        """Send to another node, or to the controller."""

    def run_in_background(
        self, work: Callable[[], None], done: Callable[[Exception | None], None]
    ) -> None:
        """Run what takes long, and then `done` with what it raised, on the node's own thread.

        Here at once; a subclass that has threads uses one.
        """
        try:
            work()
        except Exception as error:  # noqa: BLE001 - `done` gets it
            done(error)
        else:
            done(None)

    # -- hosting -----------------------------------------------------------------------------

    def host(
        self,
        key: Hashable,
        machine: Machine,
        partition_log: PartitionLog | None,
        watch: Watcher,
        write_state: Callable[[Any], None] | None = None,
        *,
        always_flush: bool = False,
        snapshots: SnapshotPort | None = None,
    ) -> None:
        """Host `machine` on `partition_log`; `watch(machine)` is called after each step.

        None is for a machine that asks nothing of a disk.

        `always_flush`: appends count only when fsynced, whatever `log.flush.before.ack` says.
        `snapshots` does the snapshot work of a machine that has any.
        """
        self._hosts[key] = Hosted(partition_log, watch, write_state, always_flush, snapshots)
        self.driver.add(key, machine)

    def unhost(self, key: Hashable) -> None:
        """Forget the machine, its timers and what was still to be flushed for it."""
        self.driver.remove(key)
        self.forget_flush(key)
        host = self._hosts.pop(key, None)
        if host is not None:
            for timer in host.timers.values():
                timer.cancel()

    def replace_log(self, key: Hashable, partition_log: PartitionLog) -> None:
        """The machine's log is another one from now on; see `Partition.replace_log`."""
        self.forget_flush(key)
        self._hosts[key].log_or_none = partition_log

    # -- machines.driver.Ports ---------------------------------------------------------------

    def now_ms(self) -> int:
        """Milliseconds of the node's monotonic clock."""
        return self.clocks.now_ms()

    def wall_ms(self) -> int:
        """Milliseconds since the Unix epoch, on the node's wall clock."""
        return self.clocks.wall_ms()

    def append(self, key: Hashable, work: Append, wall_ms: int) -> int:
        """Append to the page cache; the new end offset. OSError."""
        partition_log = self._hosts[key].log
        if work.as_leader:
            partition_log.append_all_as_leader(work.batches, work.leader_epoch, wall_ms)
        else:
            for batch in work.batches:
                partition_log.append_as_follower(batch, wall_ms)
        return partition_log.end_offset

    def truncate(self, key: Hashable, work: Truncate) -> int:
        """Cut the log, durably; where it ends now. OSError."""
        partition_log = self._hosts[key].log
        before = partition_log.end_offset
        if work.start_over:
            partition_log.truncate_fully_and_start_at(work.end_offset)
        else:
            partition_log.truncate_to(work.end_offset)
        if partition_log.end_offset != before:
            name = f"{partition_log.topic}-{partition_log.partition}"
            log.info("%s: truncated from %d to %d", name, before, partition_log.end_offset)
        return partition_log.end_offset

    def write_state(self, key: Hashable, state: Any) -> None:
        """Replace the machine's durable state. OSError."""
        write = self._hosts[key].write_state
        assert write is not None, f"machine {key!r} has no durable state"
        write(state)

    def store_snapshot(self, key: Hashable, work: StoreSnapshot) -> None:
        """Write a piece of the partial snapshot. OSError."""
        self._snapshots(key).store(work)

    def install_snapshot(self, key: Hashable, work: InstallSnapshot) -> None:
        """Put the partial snapshot in place of the log, and tell the machine. OSError."""
        self._snapshots(key).install(work)

    def drop_prefix(self, key: Hashable, work: DropPrefix) -> None:
        """Let the log start at the offset. OSError."""
        host = self._hosts[key]
        if host.snapshots is None:
            host.log.advance_start_offset(work.start_offset)
        else:
            host.snapshots.drop_prefix(work)

    def repair_batch(self, key: Hashable, work: RepairBatch) -> None:
        """Put a good copy of a batch in the place of a damaged one, durably. OSError."""
        try:
            self._hosts[key].log.repair_batch(work.offset, work.batch)
        except (CorruptFileError, ValueError) as error:  # reading it meets it again
            log.error("cannot repair the batch at offset %d of %s: %s", work.offset, key, error)

    def _snapshots(self, key: Hashable) -> SnapshotPort:
        snapshots = self._hosts[key].snapshots
        assert snapshots is not None, f"machine {key!r} has no snapshots"
        return snapshots

    def reply(self, token: Any, value: Any) -> None:
        """Call the token with the value."""
        if token is None:
            return
        try:
            token(value)
        except Exception:
            log.exception("sending a reply failed")

    def tell(self, machine: TakesInputs, input_: Any) -> None:
        """Hand the input over."""
        machine.take(input_)

    def set_timer(self, key: Hashable, name: str, deadline_ms: int | None) -> None:
        """Arm or disarm the machine's timer of that name."""
        host = self._hosts.get(key)
        if host is None:  # unhosted by an earlier effect of the same step
            return
        timers = host.timers
        armed = timers.pop(name, None)
        if armed is not None:
            armed.cancel()
        if deadline_ms is not None:
            timers[name] = self.timers.at(deadline_ms, lambda: self.driver.timer_fired(key, name))

    def stepped(self, key: Hashable, machine: Machine) -> None:
        """Let the machine's watcher look at what moved."""
        host = self._hosts.get(key)
        if host is None:
            return
        try:
            host.watch(machine)
        except Exception:
            log.exception("watching %s failed", key)

    def failed(self, key: Hashable, reason: str) -> None:
        """The machine gave up: its log goes offline."""
        self._on_failed(key, reason)
