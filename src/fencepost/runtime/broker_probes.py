"""Brokers whose process has ended, found out in a fraction of their session timeout.

Theory of operation
-------------------
Kafka learns that a broker is gone when its session ends (`broker.session.timeout.ms`, 9 s). A
process that is killed can be told earlier: its sockets are closed with it, and its machine refuses
connections to its ports. The active controller fences a broker before its session ends if all of
this holds:

1. The broker is registered and not fenced, and this controller has no connection over which the
   broker's heartbeats come: it was closed, or the controller is new and has not heard of it yet.
2. All of the broker's registered listeners refuse connections. A listener that accepts, times out,
   cannot be resolved, or fails in any other way, says nothing.
3. They do so `REFUSALS_NEEDED` times in a row, `interval_ms` apart.
4. No heartbeat of the broker has come meanwhile.

A broker that is paused, slow or cut off refuses nothing, and keeps its session. One that starts
again binds its ports first, and is not fenced by this either: its registration does that. So only
a firewall that answers for a live broker, while the broker's own connection to the controller
breaks, could mislead this rule. That costs an election and no record, as being fenced never does;
and a broker that is heard of under the epoch in which it was fenced like this is not probed again
until it registers again.

Probing ends after the session timeout at the latest. What asks the network is a port (`Probe`); no
asyncio here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final

from fencepost.machines.image import BrokerImage
from fencepost.runtime.controller_host import ControllerHost
from fencepost.runtime.ports import ArmedTimer, MachinePorts
from fencepost.wire.errors import ErrorCode

log = logging.getLogger(__name__)

REFUSALS_NEEDED: Final = 2
LISTENERS_MAX: Final = 8
"""Listeners of one broker that are looked at; one with more is left to its session."""

Address = tuple[str, int]
Probe = Callable[[Sequence[Address], Callable[[bool], None]], None]
"""Connects to all addresses; tells, never at once, whether every one refused."""


class _Suspect:
    """A broker without a connection, and how often it has refused one in a row."""

    __slots__ = ("broker_epoch", "refusals", "since_ms", "timer")

    def __init__(self, broker_epoch: int, since_ms: int) -> None:
        self.broker_epoch = broker_epoch
        self.since_ms = since_ms
        self.refusals = 0
        self.timer: ArmedTimer | None = None


class BrokerProbes:
    """See the module docstring. `own_id` is this node's, whose broker ends with it.

    With an `interval_ms` of 0 nothing is ever probed. `session_ms` is the session timeout.
    """

    def __init__(
        self,
        ports: MachinePorts,
        host: ControllerHost,
        probe: Probe,
        *,
        own_id: int,
        interval_ms: int,
        session_ms: int,
    ) -> None:
        self._ports = ports
        self._host = host
        self._probe = probe
        self._own_id = own_id
        self._interval_ms = interval_ms
        self._session_ms = session_ms
        self._was_active = False
        self._connections: dict[int, object] = {}
        self._suspects: dict[int, _Suspect] = {}
        self._fenced: dict[int, int] = {}
        """The epochs in which brokers were fenced for refusing, to see who was not gone."""
        self._exempt: dict[int, int] = {}
        """The epochs in which brokers are not probed any more."""

    @property
    def suspects(self) -> list[int]:
        """The ids of brokers that are probed now."""
        return sorted(self._suspects)

    def look(self) -> None:
        """After every step of the quorum machine: a new active controller has had no heartbeats
        yet, so it probes every broker."""
        controller = self._host.controller
        is_active = controller is not None
        if is_active == self._was_active:
            return
        self._was_active = is_active
        self.close()
        if controller is not None:
            for broker_id in controller.image.brokers:
                self._suspect(broker_id)

    def heard(self, broker_id: int, broker_epoch: int, connection: object) -> None:
        """A heartbeat has come over this connection."""
        broker = self._registered(broker_id)
        if broker is None or broker.epoch != broker_epoch:
            return
        self._connections[broker_id] = connection
        self._drop(broker_id)
        if self._fenced.get(broker_id) == broker_epoch:
            del self._fenced[broker_id]
            self._exempt[broker_id] = broker_epoch
            log.warning(
                "broker %d was fenced because its listeners refused connections, but it is"
                " alive; not probing it until it registers again",
                broker_id,
            )

    def disconnected(self, connection: object) -> None:
        """A connection was closed, at either end."""
        found = [id_ for id_, known in self._connections.items() if known is connection]
        for broker_id in found:
            del self._connections[broker_id]
            self._suspect(broker_id)

    def close(self) -> None:
        """Stop probing."""
        for broker_id in list(self._suspects):
            self._drop(broker_id)
        self._connections.clear()

    # -- inside --------------------------------------------------------------------------------

    def _registered(self, broker_id: int) -> BrokerImage | None:
        controller = self._host.controller
        return None if controller is None else controller.image.brokers.get(broker_id)

    def _suspect(self, broker_id: int) -> None:
        """Begin to probe a broker, if it is one that could be fenced."""
        broker = self._registered(broker_id)
        if (
            self._interval_ms <= 0
            or broker is None
            or broker.fenced
            or broker_id == self._own_id
            or self._exempt.get(broker_id) == broker.epoch
            or not 0 < len(broker.listeners) <= LISTENERS_MAX
        ):
            return
        self._drop(broker_id)
        self._suspects[broker_id] = suspect = _Suspect(broker.epoch, self._ports.now_ms())
        self._ask(broker_id, suspect)

    def _drop(self, broker_id: int) -> None:
        suspect = self._suspects.pop(broker_id, None)
        if suspect is not None and suspect.timer is not None:
            suspect.timer.cancel()

    def _ask(self, broker_id: int, suspect: _Suspect) -> None:
        """Probe once, unless there is no reason any more."""
        suspect.timer = None
        broker = self._registered(broker_id)
        is_over = self._ports.now_ms() - suspect.since_ms >= self._session_ms
        if broker is None or broker.fenced or broker.epoch != suspect.broker_epoch or is_over:
            self._drop(broker_id)
            return
        addresses = list(dict.fromkeys((one.host, one.port) for one in broker.listeners))
        self._probe(addresses, lambda refused: self._answered(broker_id, suspect, refused))

    def _answered(self, broker_id: int, suspect: _Suspect, refused: bool) -> None:
        """The listeners have all refused, or not."""
        if self._suspects.get(broker_id) is not suspect:
            return  # it was heard of, or this controller is not active any more
        suspect.refusals = suspect.refusals + 1 if refused else 0
        if suspect.refusals >= REFUSALS_NEEDED:
            self._drop(broker_id)
            self._fence(broker_id, suspect)
            return
        suspect.timer = self._ports.timers.at(
            self._ports.now_ms() + self._interval_ms, lambda: self._ask(broker_id, suspect)
        )

    def _fence(self, broker_id: int, suspect: _Suspect) -> None:
        """It is gone: have it fenced, if the controller has not heard of it all the same."""
        epoch = suspect.broker_epoch

        def on_reply(error: ErrorCode, is_fenced: bool | None) -> None:
            if error is ErrorCode.NONE and is_fenced:
                log.warning("fencing broker %d: it refuses connections", broker_id)

        self._fenced[broker_id] = epoch
        self._host.submit(
            lambda controller: controller.decide_fence_refusing(broker_id, epoch, suspect.since_ms),
            on_reply,
        )
