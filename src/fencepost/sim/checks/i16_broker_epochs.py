"""I16: a broker that registers anew gets a higher broker epoch, and only then another."""

from __future__ import annotations

from fencepost.machines.image import BrokerImage
from fencepost.sim.checks import Check
from fencepost.sim.oracle import Oracle, Violation
from fencepost.wire.types import Uuid


class BrokerEpochs(Check):
    """Keeps the newest epoch of each broker, over its removal as well."""

    kind = "I16"

    def __init__(self) -> None:
        self._known: dict[int, tuple[int, Uuid]] = {}

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


CHECK = BrokerEpochs
