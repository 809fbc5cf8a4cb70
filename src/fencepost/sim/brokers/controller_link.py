"""A broker's way to the active controller: whom its metadata names as leader, and again if need be.

The answer is given once. A request that nobody has answered within its time is given up; what it
asked for may then have been done or not.
"""

from __future__ import annotations

from typing import Any, Final

from fencepost.runtime.asks_controller import OnReply
from fencepost.sim.brokers.process import BrokerProcess
from fencepost.wire.errors import ErrorCode
from fencepost.wire.message import Message

RETRY_MS: Final = 100
NOBODY: Final = -1


class ControllerLink:
    """`runtime.asks_controller.AsksController`; good for one incarnation of its broker."""

    is_local = False

    def __init__(self, broker: BrokerProcess) -> None:
        self._broker = broker
        self._connected_to = NOBODY

    def stay_with(self, controller_id: int) -> None:
        """Ask this one, whoever leads by the metadata, until it does not answer as a controller."""
        self._connected_to = controller_id

    def ask(
        self, request: Message, on_reply: OnReply, *, timeout_ms: int = 5_000, purpose: str = ""
    ) -> None:
        """Ask; `on_reply` hears (NONE, the response) or (why there is none, None)."""
        self._try(request, on_reply, self._broker.clocks.now_ms() + timeout_ms)

    def _try(self, request: Message, on_reply: OnReply, deadline_ms: int) -> None:
        broker = self._broker
        if broker.clocks.now_ms() >= deadline_ms:
            on_reply(ErrorCode.REQUEST_TIMED_OUT, None)
            return
        controller_id = self._connected_to
        if controller_id == NOBODY:
            controller_id = broker.machine.leader_id
        if controller_id < 0:
            self._again(request, on_reply, deadline_ms)
            return

        def answered(response: Any, is_refused: bool) -> None:
            if response is None or response.error_code == ErrorCode.NOT_CONTROLLER:
                self._connected_to = NOBODY
                self._again(request, on_reply, deadline_ms)
            else:
                on_reply(ErrorCode.NONE, response)

        broker.world.network.request(broker, controller_id, request, answered)

    def _again(self, request: Message, on_reply: OnReply, deadline_ms: int) -> None:
        self._broker.timers.after(RETRY_MS, lambda: self._try(request, on_reply, deadline_ms))
