"""`Peers`: how the parts of a simulated broker ask other brokers, and the broker itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fencepost.sim.brokers.process import BrokerProcess
from fencepost.sim.calls import ANY_VERSION, Versions
from fencepost.wire.message import Message

OnAnswer = Callable[[Any], None]


class Peers:
    """`MarkerLeaders`, `CoordinatorLink` and `ShareCoordinatorLink`; `here` asks this broker."""

    def __init__(
        self,
        broker: BrokerProcess,
        here: Callable[[Any, OnAnswer], None],
        between: Versions = ANY_VERSION,
    ) -> None:
        self._broker = broker
        self._between = between
        self.write_here = self.ask_here = here

    def ask(
        self,
        node_id: int,
        request: Message,
        on_response: OnAnswer,
        on_failure: Callable[[str], None],
    ) -> None:
        """Ask another broker."""

        def done(response: Any, is_refused: bool) -> None:
            if response is None:
                on_failure("no answer")
            else:
                on_response(response)

        network = self._broker.world.network
        network.request(self._broker, node_id, request, done, self._between)
