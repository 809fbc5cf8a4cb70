"""The driver's ports over asyncio, files and flusher threads: what machines decide, done.

Theory of operation
-------------------
What needs no event loop is `MachinePorts`; here are timers, the flusher and where
messages go: those for the controller to `to_controller`, those for other nodes to `to_node`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from fencepost.broker.loop.flusher import Flusher
from fencepost.broker.loop.timers import Timers
from fencepost.machines.broker import ControllerRequest
from fencepost.machines.effects import CONTROLLER
from fencepost.runtime.clock import Clocks, SystemClocks
from fencepost.runtime.cooperative import Scheduler
from fencepost.runtime.ports import MachinePorts

log = logging.getLogger(__name__)


class AsyncPorts(MachinePorts):
    """`machines.driver.Ports` in a broker process."""

    timers: Timers

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        flush_before_ack: bool = True,
        on_disk_failed: Callable[[Hashable, str], None],
        on_machine_failed: Callable[[Hashable, str], None],
        clocks: Clocks | None = None,
    ) -> None:
        super().__init__(clocks or SystemClocks(), on_machine_failed)
        self.loop = loop
        self.timers = Timers(loop, self.now_ms)
        self.scheduler = Scheduler(loop)
        self.flusher = Flusher(
            loop, self.driver.persisted, on_disk_failed, self.now_ms, before_ack=flush_before_ack
        )
        self.ask_controller: Callable[[Hashable, ControllerRequest], None] = _drop
        """Takes what the machines of `machines.broker` ask of the controller."""
        self.to_controller: Callable[[Hashable, Any], None] = _drop
        """Takes what partition machines ask of the controller."""
        self.to_node: Callable[[Hashable, Any, Any], None] = _drop_to_node
        """Takes what machines ask of other nodes: key, node id and message."""
        self.ways: dict[type, Callable[[Hashable, Any, Any], None]] = {}
        """Takes, instead, messages of these classes, such as what fetchers ask of leaders."""

        self._background = ThreadPoolExecutor(1, thread_name_prefix="background")

    def close(self) -> None:
        """Stop timers and threads; what is being flushed or written is finished first."""
        self.timers.close()
        self.flusher.close()
        self._background.shutdown()

    # -- MachinePorts ------------------------------------------------------------------------

    def request_flush(self, key: Hashable) -> None:
        """Have the flusher make the log durable and tell the driver."""
        host = self._hosts[key]
        self.flusher.request(key, host.log, always=host.always_flush)

    def forget_flush(self, key: Hashable) -> None:
        """Have the flusher say no more about it."""
        self.flusher.forget(key)

    def run_in_background(
        self, work: Callable[[], None], done: Callable[[Exception | None], None]
    ) -> None:
        """Run `work` in a thread, and `done` in the loop."""

        def run() -> None:
            MachinePorts.run_in_background(self, work, finish)

        def finish(error: Exception | None) -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: the result is not needed
                self.loop.call_soon_threadsafe(done, error)

        self._background.submit(run)

    def send(self, key: Hashable, to: Any, message: Any) -> None:
        """To the controller, or to a node by its id."""
        if type(message) is ControllerRequest:
            self.ask_controller(key, message)
        elif (way := self.ways.get(type(message))) is not None:
            way(key, to, message)
        elif to == CONTROLLER:
            self.to_controller(key, message)
        else:
            self.to_node(key, to, message)


def _drop(key: Hashable, message: Any) -> None:
    """There is no controller yet; the machine will ask again."""


def _drop_to_node(key: Hashable, to: Any, message: Any) -> None:
    """A lone node has no others; losing a message is allowed, sending one is a mistake."""
    log.error("%s sent %s to node %s, which does not exist", key, type(message).__name__, to)
