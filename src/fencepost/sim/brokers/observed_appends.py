"""What the observer is shown of producers' batches: each that its producer is about to hear of."""

from __future__ import annotations

from collections.abc import Callable

from fencepost.machines.partition import Produce, ProduceResult
from fencepost.runtime.combined_appends import CombinedAppends
from fencepost.runtime.replicas import HostedPartition
from fencepost.sim.brokers.process import BrokerProcess
from fencepost.wire.errors import ErrorCode


class ObservedAppends(CombinedAppends):
    """The appends of a simulated broker, which settles them after each request."""

    def __init__(self, broker: BrokerProcess) -> None:
        super().__init__(broker.ports.driver, broker.clocks, lambda callback: None, lambda *_: True)
        self._broker = broker

    def add(self, hosted: HostedPartition, produce: Produce, fail: Callable[[], None]) -> None:
        """The same; a batch that is appended is shown when the machine says so, which is before the
        answer: that may wait for other partitions, and this one may change leaders meanwhile."""

        def on_result(result: ProduceResult) -> None:
            if result.error_code is ErrorCode.NONE:
                self._broker.produced(hosted, result.base_offset, produce.acks)
            produce.token(result)

        super().add(hosted, produce._replace(token=on_result), fail)
