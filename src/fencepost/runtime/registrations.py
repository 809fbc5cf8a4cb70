"""Hosts the machines by which a node registers, and takes what they ask to the active controller.

Theory of operation
-------------------
The machines of `machines.broker` have no log; `MachinePorts` hosts them like any other. What they
send is a `ControllerRequest`: the ports hand it to `submit`, which asks over a channel that finds
the active controller, and feeds the answer. Every image that this node applies goes to all of them
(`image_applied`), and so does a change of the active controller (`note_leader`).

What an operator should know is logged when it changes, not each time it is so.

A broker process runs this class, and so can a simulator: no asyncio here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable
from typing import Any, Final

from fencepost.machines.broker import (
    BrokerLifecycle,
    BrokerState,
    ControllerAnswered,
    ControllerChanged,
    ControllerRegistration,
    ControllerRequest,
    DirectoryAssignments,
    MetadataApplied,
    Outcome,
    ReplicasPlaced,
)
from fencepost.machines.image import ClusterImage
from fencepost.runtime.asks_controller import AsksController
from fencepost.runtime.ports import MachinePorts
from fencepost.wire.errors import ErrorCode

log = logging.getLogger(__name__)

LIFECYCLE_KEY: Final = "broker-lifecycle"
ASSIGNMENTS_KEY: Final = "directory-assignments"
CONTROLLER_REGISTRATION_KEY: Final = "controller-registration"

REGISTRATION_KEYS: Final = frozenset({LIFECYCLE_KEY, ASSIGNMENTS_KEY, CONTROLLER_REGISTRATION_KEY})


class Registrations:
    """See the module docstring."""

    def __init__(self, ports: MachinePorts, channel: AsksController) -> None:
        self._ports = ports
        self._channel = channel
        self._hosted: list[Hashable] = []
        self._controller_id = -1

    def host_broker(self, machine: BrokerLifecycle, assignments: DirectoryAssignments) -> None:
        """Host what a broker has to say of itself."""
        report = _LifecycleReport(machine)

        def watch(stepped: BrokerLifecycle) -> None:
            before = report.broker_epoch
            report.look(stepped)
            if report.broker_epoch != before:  # what waits for a broker epoch may be told now
                self._ports.driver.feed(ASSIGNMENTS_KEY, ReplicasPlaced(()))

        self._host(LIFECYCLE_KEY, machine, watch)
        self._host(ASSIGNMENTS_KEY, assignments, _ErrorReport().look)

    def host_controller(self, machine: ControllerRegistration) -> None:
        """Host what a controller has to say of itself."""
        self._host(CONTROLLER_REGISTRATION_KEY, machine, _ErrorReport().look)

    def _host(self, key: Hashable, machine: Any, watch: Callable[[Any], None]) -> None:
        self._ports.host(key, machine, None, watch)
        self._hosted.append(key)

    def submit(self, key: Hashable, asked: ControllerRequest) -> None:
        """Ask the active controller what the machine wants; the answer is fed to it."""

        def on_reply(error: ErrorCode, response: Any) -> None:
            self._ports.driver.feed(key, ControllerAnswered(asked.number, error, response))

        self._channel.ask(asked.request, on_reply, timeout_ms=asked.timeout_ms)

    def image_applied(self, image: ClusterImage) -> None:
        """This node has applied the metadata log up to `image`."""
        for key in self._hosted:
            self._ports.driver.feed(key, MetadataApplied(image))

    def note_leader(self, leader_id: int) -> None:
        """Note the quorum's leader, -1 for none: after every step of its machine."""
        if leader_id != self._controller_id:
            self._controller_id = leader_id
            for key in self._hosted:
                self._ports.driver.feed(key, ControllerChanged(leader_id))

    def close(self) -> None:
        """Ask nothing any more."""
        for key in self._hosted:
            self._ports.unhost(key)
        self._hosted.clear()


_STOPPING: Final = (BrokerState.PENDING_CONTROLLED_SHUTDOWN, BrokerState.SHUTTING_DOWN)
NOBODY_LEADS: Final = (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_CONTROLLER)
"""The errors of requests while no controller is active, or none can be reached."""


class _ErrorReport:
    """Says an error once, and not again as long as it is the same."""

    def __init__(self) -> None:
        self._said = Outcome(ErrorCode.NONE)

    def look(self, machine: Any) -> None:
        """After a step of the machine."""
        error: Outcome = machine.last_error
        if error != self._said and error.error != ErrorCode.NONE:
            log.log(self._level_of(machine, error), "%s", error.reason)
        self._said = error

    def _level_of(self, machine: Any, error: Outcome) -> int:
        return logging.WARNING


class _LifecycleReport(_ErrorReport):
    """Says what has become of a broker."""

    def __init__(self, machine: BrokerLifecycle) -> None:
        super().__init__()
        self._state = machine.state
        self._is_fenced = machine.is_fenced
        self.broker_epoch = machine.broker_epoch
        """As of the last look."""

    def _level_of(self, machine: BrokerLifecycle, error: Outcome) -> int:
        """When a whole cluster stops, the last brokers find no controller, and that is in order."""
        is_stopping = machine.state in _STOPPING and error.error in NOBODY_LEADS
        return logging.INFO if is_stopping else logging.WARNING

    def look(self, machine: BrokerLifecycle) -> None:
        """After a step of the machine."""
        super().look(machine)
        if machine.broker_epoch != self.broker_epoch:
            log.info("registered with broker epoch %d", machine.broker_epoch)
        if machine.state is not self._state:
            log.info("broker state: %s", machine.state.value)
        if machine.is_fenced and not self._is_fenced and machine.state is BrokerState.RUNNING:
            log.warning("the controller has fenced this broker")
        elif self._is_fenced and not machine.is_fenced:
            log.info("the controller has unfenced this broker")
        self._state, self._is_fenced = machine.state, machine.is_fenced
        self.broker_epoch = machine.broker_epoch
