"""A broker's requests to the active controller, which is the leader that its metadata names.

A request is sent again until it is answered, and `on_reply` is called once. A request that no
controller has answered within its time is given up; the controller may have done what it asks for
or not.
"""

from __future__ import annotations

from typing import Any, Final

from fencepost.runtime.asks_controller import OnReply
from fencepost.sim.brokers.process import BrokerProcess
from fencepost.wire.errors import ErrorCode
from fencepost.wire.message import Message

RETRY_MS: Final = 100
NO_CONTROLLER: Final = -1


class ControllerLink:
    """`runtime.asks_controller.AsksController`; good for one incarnation of its broker."""

    is_local = False

    def __init__(self, broker: BrokerProcess) -> None:
        self._broker = broker
        self._connected_to = NO_CONTROLLER

    def stay_with(self, controller_id: int) -> None:
        """Ask this controller until it does not answer, or answers NOT_CONTROLLER.

        Until then the leader that the broker's metadata names is not asked.
        """
        self._connected_to = controller_id

    def ask(
        self, request: Message, on_reply: OnReply, *, timeout_ms: int = 5_000, purpose: str = ""
    ) -> None:
        """Send it; `on_reply` gets (NONE, the response) or (why there is none, None)."""
        self._try(request, on_reply, self._broker.clocks.now_ms() + timeout_ms)

    def _try(self, request: Message, on_reply: OnReply, deadline_ms: int) -> None:
        broker = self._broker
        if broker.clocks.now_ms() >= deadline_ms:
            on_reply(ErrorCode.REQUEST_TIMED_OUT, None)
            return
        controller_id = self._connected_to
        if controller_id == NO_CONTROLLER:
            controller_id = broker.machine.leader_id
        if controller_id < 0:
            self._again(request, on_reply, deadline_ms)
            return

        def answered(response: Any, is_refused: bool) -> None:
            if response is None or response.error_code == ErrorCode.NOT_CONTROLLER:
                self._connected_to = NO_CONTROLLER
                self._again(request, on_reply, deadline_ms)
            else:
                on_reply(ErrorCode.NONE, response)

        broker.world.network.request(broker, controller_id, request, answered)

    def _again(self, request: Message, on_reply: OnReply, deadline_ms: int) -> None:
        self._broker.timers.after(RETRY_MS, lambda: self._try(request, on_reply, deadline_ms))
