"""What a simulated broker has for transactions: the product's own parts, over the world's network.

They are put together as `broker/node` does it: the coordinators of transactional ids; the sender of
their markers to leaders (`MarkerSender`); the writer of markers into the partitions that this
broker leads (`MarkerWriter`); the verifier, which asks coordinators before the first batch of a
transaction is written (`Verifier`); and `TransactionalCommits`, which takes offsets that are
committed in transactions.
"""

from __future__ import annotations

from typing import Final

from fencepost.machines.coordinator import Decision
from fencepost.machines.transaction.config import TransactionConfig
from fencepost.machines.transaction.coordinator import TransactionCoordinator
from fencepost.machines.transaction.memory import TransactionMemory
from fencepost.machines.transaction.model import IDLE
from fencepost.machines.transaction.records import (
    FLEXIBLE_FROM,
    TransactionCodec,
    TransactionRecord,
)
from fencepost.runtime.coordinator import Coordinator, CoordinatorKind
from fencepost.runtime.markers import MarkerWriter
from fencepost.runtime.requests.add_partitions_to_txn import BATCHED_FROM, add_partitions
from fencepost.runtime.transaction_markers import MarkerSender
from fencepost.runtime.transactional_commits import TransactionalCommits
from fencepost.runtime.transactional_writes import TransactionalWrites
from fencepost.runtime.transactions import TRANSACTION_VERSION, TransactionCoordinators
from fencepost.runtime.verification import Verifier
from fencepost.sim.brokers.peers import OnAnswer, Peers
from fencepost.sim.brokers.process import BrokerProcess
from fencepost.wire.api.add_partitions_to_txn import AddPartitionsToTxnRequest

WRITE_TIMEOUT_MS: Final = 5_000
MARKER_TIMEOUT_MS: Final = 2_000
RETRY_BACKOFF_MS: Final = 20
RETRY_MAX_MS: Final = 100
CONFIG: Final = TransactionConfig(timeout_check_ms=1_000)
"""Transactions that last too long are looked for more often than by default."""


class BrokerTransactions:
    """See the module docstring; good for one incarnation of its broker."""

    def __init__(self, broker: BrokerProcess) -> None:
        self._broker = broker
        ports = broker.ports
        self._lane = ports.scheduler.lane()
        self.markers = MarkerWriter(
            ports,
            ports.scheduler.lane(),
            broker.replicas,
            broker.groups,
            lambda: broker.image,
            MARKER_TIMEOUT_MS,
        )
        here = Peers(broker, lambda request, then: self.markers.write(request, then))
        self.coordinators = TransactionCoordinators(
            broker.id,
            ports,
            broker.metadata,
            _kind(broker),
            broker.producer_ids,
            MarkerSender(broker.id, broker.timers, here, lambda: broker.image),
        )
        broker.replicas.watchers.append(self.coordinators)
        verifier = Verifier(
            broker.id,
            ports,
            lambda: broker.image,
            Peers(broker, self._verify_here, (BATCHED_FROM, None)),
            RETRY_BACKOFF_MS,
            RETRY_MAX_MS,
        )
        self.writes = TransactionalWrites(ports.driver, verifier, lambda: True)
        self.commits = TransactionalCommits(ports, broker.groups, self.writes, lambda: broker.image)

    def age(self, transactional_id: str, epoch: int) -> None:
        """Have the coordinator here write that a transactional id has that epoch, as after so many
        transactions; its producer must ask for its id again. Nothing happens if there is no such
        coordinator, or a transaction, or if the epoch is over."""
        coordinator = self.coordinators.coordinator_of(transactional_id)
        if not isinstance(coordinator, Coordinator):
            return

        def decide(machine: TransactionCoordinator) -> Decision[TransactionRecord]:
            present = machine.transactions.get(transactional_id)
            if present is None or present.state not in IDLE or present.identity.epoch >= epoch:
                return Decision()
            aged = present._replace(identity=present.identity._replace(epoch=epoch))
            jumps: set[tuple[str, int]] = self._broker.world.observer.oracle.transactions.jumps
            jumps.add((transactional_id, epoch))
            return Decision(records=[TransactionRecord(transactional_id, aged, FLEXIBLE_FROM)])

        coordinator.tell(decide)

    def _verify_here(self, request: AddPartitionsToTxnRequest, then: OnAnswer) -> None:
        version, image = AddPartitionsToTxnRequest.max_version, self._broker.image
        self._lane.begin(add_partitions(self.coordinators, image, request, version, then))


def _kind(broker: BrokerProcess) -> CoordinatorKind[TransactionCoordinator]:
    """How the coordinators are run in one incarnation of a broker."""
    memory = TransactionMemory()
    rules = broker.world.rules

    def level() -> int:
        return broker.image.features.get(TRANSACTION_VERSION, 0)

    return CoordinatorKind(
        lambda: TransactionCoordinator(CONFIG, memory, level, rules.transactions),
        TransactionCodec(),
        write_timeout_ms=WRITE_TIMEOUT_MS,
        rules=rules.coordinator,
    )
