"""I16: every incarnation of a broker has a higher broker epoch, and serves once it is unfenced.

It trusts its metadata with files when it has read its own registration, it is unfenced when it has
loaded its logs, and it takes requests when it has been unfenced, each in this very incarnation.
"""

from __future__ import annotations

from fencepost.machines.image import BrokerImage
from fencepost.sim.checks import Check
from fencepost.sim.oracle import Oracle, Violation
from fencepost.sim.partition_oracle import BrokerBegun, Stage
from fencepost.wire.types import Uuid


class BrokerEpochs(Check):
    """Keeps the newest epoch of each broker, over its removal as well, and how far each is."""

    kind = "I16"

    def __init__(self) -> None:
        self._known: dict[int, tuple[int, Uuid]] = {}
        self._is_ready: dict[tuple[int, Uuid], bool] = {}
        """Of the incarnations of brokers whose stages are told."""
        self._unfenced: set[tuple[int, Uuid]] = set()

    def broker_changed(self, oracle: Oracle, broker_id: int, broker: BrokerImage | None) -> None:
        if broker is None:
            return
        epoch, incarnation_id = self._known.get(broker_id, (-1, None))
        if broker.epoch < epoch or (
            broker.epoch == epoch and broker.incarnation_id != incarnation_id
        ):
            raise Violation(
                self.kind,
                f"{broker_id} is registered as {broker.incarnation_id} with epoch {broker.epoch},"
                f" and {epoch} was {incarnation_id}",
            )
        self._known[broker_id] = broker.epoch, broker.incarnation_id
        if not broker.fenced:
            incarnation = broker_id, broker.incarnation_id
            if not self._is_ready.get(incarnation, True):
                raise Violation(self.kind, f"{broker_id} is unfenced before it has loaded its logs")
            self._unfenced.add(incarnation)

    def broker_begun(self, oracle: Oracle, begun: BrokerBegun, metadata_offset: int) -> None:
        incarnation = begun.broker_id, begun.incarnation_id
        if begun.stage is Stage.STARTS:
            self._is_ready[incarnation] = False
        elif begun.stage is Stage.IS_READY:
            self._is_ready[incarnation] = True
        elif begun.stage is Stage.LOADS and metadata_offset < begun.broker_epoch:
            raise Violation(
                self.kind,
                f"{begun.broker_id} makes replicas of metadata as of {metadata_offset}, and is"
                f" registered at {begun.broker_epoch}",
            )
        elif begun.stage is Stage.SERVES and incarnation not in self._unfenced:
            raise Violation(self.kind, f"{begun.broker_id} serves, and was never unfenced")


CHECK = BrokerEpochs
