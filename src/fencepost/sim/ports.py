"""The driver's ports of one incarnation of a node: the product's own, over a world's time.

What is done to the disk is `MachinePorts`, the very code of a broker; here are timers on the node's
clock, flushes that take a while, and the way to the network. On the way, the observer is told.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any

from fencepost.machines.effects import (
    Append,
    DropPrefix,
    InstallSnapshot,
    Machine,
    Truncate,
)
from fencepost.machines.quorum import AppendOutcome
from fencepost.runtime.cooperative import Scheduler
from fencepost.runtime.ports import MachinePorts
from fencepost.sim.surroundings import Process
from fencepost.wire.errors import ErrorCode

if TYPE_CHECKING:
    from fencepost.sim.queue import Event


class NodeTimer:
    """An armed timer. It fires when the monotonic clock has reached its deadline, not before."""

    __slots__ = ("_callback", "_node", "deadline_ms", "event")

    def __init__(self, node: Process, deadline_ms: int, callback: Callable[[], None]) -> None:
        self._node = node
        self._callback = callback
        self.deadline_ms = deadline_ms
        self.event: Event
        self.arm()

    def arm(self) -> None:
        """Wait for the deadline as the clock runs now."""
        node = self._node
        at_us = node.clocks.monotonic.world_us_of(self.deadline_ms, node.world.now_us)
        self.event = node.world.schedule(at_us, "timer", self._fire, node, about=self)

    def rearm(self) -> None:
        """The clock was changed: wait again."""
        self.event.cancel()
        self.arm()

    def cancel(self) -> None:
        """Never fire."""
        self.event.cancel()
        self._node.timers.armed.pop(self, None)

    def _fire(self) -> None:
        if self._node.clocks.now_ms() < self.deadline_ms:
            self.arm()
            return
        self._node.timers.armed.pop(self, None)
        self._callback()


class NodeTimers:
    """All armed timers of one incarnation of a node; `TimerQueue` of the product."""

    def __init__(self, node: Process) -> None:
        self._node = node
        self.armed: dict[NodeTimer, None] = {}

    def at(self, deadline_ms: int, callback: Callable[[], None]) -> NodeTimer:
        """Run `callback` once the node's clock has reached `deadline_ms`."""
        timer = NodeTimer(self._node, deadline_ms, callback)
        self.armed[timer] = None
        return timer

    def after(self, delay_ms: int, callback: Callable[[], None]) -> NodeTimer:
        """Run `callback` `delay_ms` of the node's clock from now."""
        return self.at(self._node.clocks.now_ms() + delay_ms, callback)

    def clock_changed(self) -> None:
        """Wait for every deadline as the clock runs now."""
        for timer in list(self.armed):
            timer.rearm()


class NodeTurns:
    """The turns of a node's event loop: events that are due at once, behind those that are."""

    def __init__(self, node: Process) -> None:
        self._node = node

    def call_soon(self, callback: Callable[[], None]) -> None:
        """Call back at the same time, behind all events that are due then."""
        self._node.world.schedule_in(0, "turn", callback, self._node)

    call_soon_threadsafe = call_soon


class SimPorts(MachinePorts):
    """See the module docstring."""

    timers: NodeTimers

    def __init__(self, node: Process) -> None:
        super().__init__(node.clocks, node.machine_failed)
        self._node = node
        self.timers = node.timers
        self.scheduler = Scheduler(NodeTurns(node), lambda: 0.0, turn_s=0.0, first_turn_s=0.0)
        self._flushing: set[Hashable] = set()
        self._flush_again: set[Hashable] = set()

    # -- the network ---------------------------------------------------------------------------

    def send(self, key: Hashable, to: Any, message: Any) -> None:
        """Put a request on its way."""
        self._node.world.network.request(self._node, to, message)

    def reply(self, token: Any, value: Any) -> None:
        """Call the token; what it raises is the simulator's own mistake, or a find."""
        if isinstance(value, AppendOutcome) and value.error is ErrorCode.NONE:
            self._node.told_committed(value.base_offset)
        if token is not None:
            token(value)

    def timer(self, key: Hashable, name: str) -> NodeTimer | None:
        """The machine's armed timer of that name."""
        host = self._hosts.get(key)
        armed = None if host is None else host.timers.get(name)
        return armed if isinstance(armed, NodeTimer) and armed in self.timers.armed else None

    def timer_names(self, key: Hashable) -> list[str]:
        """The names of the machine's armed timers."""
        host = self._hosts.get(key)
        return [name for name in (host.timers if host else ()) if self.timer(key, name)]

    # -- the disk ------------------------------------------------------------------------------

    append_to_log = MachinePorts.append
    cut_log = MachinePorts.truncate
    drop_log_prefix = MachinePorts.drop_prefix
    watch_step = MachinePorts.stepped

    def append(self, key: Hashable, work: Append, wall_ms: int) -> int:
        """As the product does it; the observer notes what went in."""
        observer = self._node.world.observer
        disk = observer.oracle.disks[self._node.id]
        disk.on_their_way = len(work.batches)
        end_offset = super().append(key, work, wall_ms)
        for batch in work.batches:
            observer.metadata_appended(self._node.id, batch.data)
        disk.on_their_way = 0
        return end_offset

    def truncate(self, key: Hashable, work: Truncate) -> int:
        """As the product does it; the observer looks first."""
        observer = self._node.world.observer
        if work.start_over:
            end_offset = super().truncate(key, work)
            self._node.sync_done()
            return end_offset
        observer.cutting(self._node.id, work.end_offset)
        observer.oracle.cut_begins(self._node.id, work.end_offset)
        end_offset = super().truncate(key, work)
        observer.oracle.cut(self._node.id, work.end_offset)
        self._node.sync_done()
        return end_offset

    def write_state(self, key: Hashable, state: Any) -> None:
        """As the product does it; the observer hears when it is durable."""
        super().write_state(key, state)
        self._node.world.observer.state_written(self._node.id, state)
        self._node.sync_done()

    def install_snapshot(self, key: Hashable, work: InstallSnapshot) -> None:
        """As the product does it; the observer looks before, and when the log is replaced."""
        self._node.world.observer.snapshot_loaded(self._node.id, work.snapshot_id.end_offset)
        super().install_snapshot(key, work)
        self._node.sync_done()

    def drop_prefix(self, key: Hashable, work: DropPrefix) -> None:
        """As the product does it; the observer notes where the log begins."""
        super().drop_prefix(key, work)
        self._node.sync_done()
        self._node.world.observer.oracle.dropped_prefix(self._node.id, work.start_offset)
        self._node.look_at_snapshots()

    def run_in_background(
        self, work: Callable[[], None], done: Callable[[Exception | None], None]
    ) -> None:
        """As a thread does it that is quick or slow; the observer looks at what was written.

        The work is done now; the node gets the result later, or at once in a world by hand.
        """
        node = self._node
        node.look()  # it is of what is committed by now
        failed: list[Exception | None] = []
        super().run_in_background(work, failed.append)

        def tell() -> None:
            done(failed[0])
            node.look_at_snapshots()

        if node.world.options.by_hand:
            tell()
        else:
            node.world.schedule_in(node.background_us(), "background", tell, node)

    def stepped(self, key: Hashable, machine: Machine) -> None:
        """The product's watchers first, then the observer."""
        super().stepped(key, machine)
        self._node.look()

    def request_flush(self, key: Hashable) -> None:
        """Flush soon; what is appended while a flush runs is for the next one."""
        if key in self._flushing:
            self._flush_again.add(key)
            return
        self._flushing.add(key)
        node = self._node
        node.world.schedule_in(
            node.flush_delay_us(), "flush", lambda: self._flush(key), node, about=key
        )

    def forget_flush(self, key: Hashable) -> None:
        """Drop the flush that was asked for: its machine is gone, or has another log."""
        self._flush_again.discard(key)
        self._flushing.discard(key)

    def note_flushed(self, key: Hashable, end_offset: int) -> None:
        """The log is durable up to there: the observer notes it."""
        self._node.world.observer.oracle.flushed(self._node.id, end_offset)

    def _flush(self, key: Hashable) -> None:
        """Begin to flush what is there now, and finish when the disk is done."""
        host = self._hosts.get(key)
        if host is None:
            return
        try:
            job = host.log.begin_flush()
        except OSError as error:
            self.driver.disk_failed(key, str(error))
            return
        node = self._node
        delay_us = node.sync_us()
        if delay_us == 0:
            self._flushed(key, job)
        else:
            node.world.schedule_in(
                delay_us, "flushed", lambda: self._flushed(key, job), node, about=key
            )

    def _flushed(self, key: Hashable, job: Any) -> None:
        host = self._hosts.get(key)
        if host is None:
            return
        try:
            job.run()
            host.log.finish_flush(job)
        except OSError as error:
            self._node.disk_refused(str(error))
            self.driver.disk_failed(key, str(error))
            return
        self._flushing.discard(key)
        self.note_flushed(key, job.end_offset)
        if key in self._flush_again:
            self._flush_again.discard(key)
            self.request_flush(key)
        self.driver.persisted(key, job.end_offset)
