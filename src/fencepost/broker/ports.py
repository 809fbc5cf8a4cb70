"""The driver's ports over asyncio, files and one flusher thread: what machines decide, done.

Theory of operation
-------------------
A machine is hosted together with its log (`host`). Appends go to that log's page cache, flushes to
the `Flusher`, timers to `Timers`; a reply's token is a function of one argument, called with the
value. After every step the machine's watcher is called, which is how the rest of the broker learns
that a high watermark or a role moved.

Messages to other nodes have nowhere to go: the node is alone in its cluster, and a quorum of one
voter or a partition with one replica never sends any. One that is sent all the same is dropped,
which the protocol allows, and reported, because it means that something believes in other nodes.

Exceptions: OSError from a log belongs to the driver, which tells the machine. Anything that a reply
or watcher raises is logged with its traceback and goes no further, so that one request's trouble
does not stop the machine that answered it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any

from fencepost.batch.header import read_header
from fencepost.broker.clock import Clock
from fencepost.broker.flusher import Flusher
from fencepost.broker.timers import Timer, Timers
from fencepost.log.partition_log import PartitionLog
from fencepost.machines.driver import Driver
from fencepost.machines.effects import Append, Machine, Truncate
from fencepost.machines.partition import CONTROLLER

log = logging.getLogger(__name__)

Watcher = Callable[[Any], None]


@dataclass(slots=True)
class _Host:
    """What belongs to one hosted machine."""

    log: PartitionLog
    watch: Watcher
    write_state: Callable[[Any], None] | None
    always_flush: bool
    timers: dict[str, Timer] = field(default_factory=dict)


class AsyncPorts:
    """`machines.driver.Ports` in a broker process."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        flush_before_ack: bool = True,
        on_disk_failed: Callable[[Hashable, str], None],
    ) -> None:
        self.loop = loop
        self.clock = Clock()
        self.timers = Timers(loop, self.clock.now_ms)
        self.driver = Driver(self)
        self.flusher = Flusher(
            loop, self.driver.persisted, on_disk_failed, before_ack=flush_before_ack
        )
        self.to_controller: Callable[[Hashable, Any], None] = _drop
        """Takes what partition machines ask of the controller."""
        self._hosts: dict[Hashable, _Host] = {}
        self._step_ms = 0
        self._on_disk_failed = on_disk_failed

    # -- hosting ---------------------------------------------------------------------------

    def host(
        self,
        key: Hashable,
        machine: Machine,
        partition_log: PartitionLog,
        watch: Watcher,
        write_state: Callable[[Any], None] | None = None,
        *,
        always_flush: bool = False,
    ) -> None:
        """Host `machine` on `partition_log`; `watch(machine)` is called after each step.

        `always_flush`: appends count only when fsynced, whatever `log.flush.before.ack` says.
        """
        self._hosts[key] = _Host(partition_log, watch, write_state, always_flush)
        self.driver.add(key, machine)

    def unhost(self, key: Hashable) -> None:
        """Forget the machine, its timers and what was still to be flushed for it."""
        self.driver.remove(key)
        self.flusher.forget(key)
        host = self._hosts.pop(key, None)
        if host is not None:
            for timer in host.timers.values():
                timer.cancel()

    def close(self) -> None:
        """Stop timers and the flusher thread; what is being flushed is finished first."""
        self.timers.close()
        self.flusher.close()

    # -- machines.driver.Ports -------------------------------------------------------------

    def now_ms(self) -> int:
        """Milliseconds since the Unix epoch, on the node's clock."""
        self._step_ms = self.clock.now_ms()
        return self._step_ms

    def append(self, key: Hashable, work: Append) -> int:
        """Append to the page cache; the new end offset. OSError.

        At the time of the step that decided it: answers carry that time (LogAppendTime).
        """
        partition_log = self._hosts[key].log
        now_ms = self._step_ms
        for batch in work.batches:
            if work.as_leader:
                assert not isinstance(batch, bytes), "a leader stamps batches in place"
                partition_log.append_as_leader(batch, read_header(batch), work.leader_epoch, now_ms)
            else:
                partition_log.append_as_follower(batch, now_ms)
        return partition_log.end_offset

    def request_flush(self, key: Hashable) -> None:
        """Have the flusher make the log durable and tell the driver."""
        host = self._hosts[key]
        self.flusher.request(key, host.log, always=host.always_flush)

    def truncate(self, key: Hashable, work: Truncate) -> None:
        """Cut the log, durably. OSError."""
        partition_log = self._hosts[key].log
        if work.start_over:
            partition_log.truncate_fully_and_start_at(work.end_offset)
        else:
            partition_log.truncate_to(work.end_offset)

    def write_state(self, key: Hashable, state: Any) -> None:
        """Replace the machine's durable state. OSError."""
        write = self._hosts[key].write_state
        assert write is not None, f"machine {key!r} has no durable state"
        write(state)

    def send(self, key: Hashable, to: Any, message: Any) -> None:
        """To the controller, which is in this process; there are no other nodes to send to."""
        if to == CONTROLLER:
            self.to_controller(key, message)
            return
        log.error("%s sent %s to node %s, which does not exist", key, type(message).__name__, to)

    def reply(self, token: Any, value: Any) -> None:
        """Call the token with the value."""
        if token is None:
            return
        try:
            token(value)
        except Exception:
            log.exception("a reply failed")

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
        self._on_disk_failed(key, reason)


def _drop(key: Hashable, message: Any) -> None:
    """There is no controller yet; the machine will ask again."""
