"""The transaction coordinators of this node, as its configuration wants them.

What they do is `runtime.transactions`. Here are their settings, threads for large batches, the way
of markers to leaders, and a log that clients cannot fill. The topic is created when the first
client asks for a coordinator (`find_coordinator`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from fencepost.broker.cluster.broker_channel import BrokerChannel
from fencepost.broker.config.broker_config import BrokerConfig
from fencepost.broker.loop.ports import AsyncPorts
from fencepost.broker.net.log_limit import LimitedLog
from fencepost.broker.storage.coordinator_kinds import CoordinatorKinds
from fencepost.machines.transaction.config import TransactionConfig
from fencepost.machines.transaction.coordinator import TransactionCoordinator
from fencepost.machines.transaction.memory import TransactionMemory
from fencepost.machines.transaction.records import TransactionCodec
from fencepost.runtime.metadata.host import MetadataHost
from fencepost.runtime.producer_ids import ProducerIds
from fencepost.runtime.transaction_markers import MarkerSender, OnMarkers
from fencepost.runtime.transactions import TRANSACTION_VERSION, TransactionCoordinators
from fencepost.wire.api.write_txn_markers import WriteTxnMarkersRequest

log = logging.getLogger(__name__)

WRITE_TIMEOUT_MS = 30_000
"""How long a request waits for the in-sync replicas; then COORDINATOR_NOT_AVAILABLE."""
PURPOSE = "markers"

WriteHere = Callable[[WriteTxnMarkersRequest, OnMarkers], None]


class TransactionHost(TransactionCoordinators):
    """See the module."""

    def __init__(
        self,
        config: BrokerConfig,
        ports: AsyncPorts,
        metadata: MetadataHost,
        kinds: CoordinatorKinds,
        producer_ids: ProducerIds,
        channel: BrokerChannel,
        write_here: WriteHere,
    ) -> None:
        """`write_here` writes markers into partitions that this node leads."""
        self.memory = memory = TransactionMemory(config.get("fencepost.transactions.max.bytes"))
        settings = transaction_config(config)

        def level() -> int:
            return metadata.image.features.get(TRANSACTION_VERSION, 0)

        kind = kinds.make(
            lambda: TransactionCoordinator(settings, memory, level),
            TransactionCodec(),
            LimitedLog(log, "transactions"),
            write_timeout_ms=WRITE_TIMEOUT_MS,
        )
        leaders = _Leaders(channel, write_here)
        markers = MarkerSender(
            config.node_id,
            ports.timers,
            leaders,
            lambda: metadata.image,
            LimitedLog(log, "markers").warning,
        )
        super().__init__(config.node_id, ports, metadata, kind, producer_ids, markers)


class _Leaders:
    """`runtime.transaction_markers.MarkerLeaders` of a broker process."""

    def __init__(self, channel: BrokerChannel, write_here: WriteHere) -> None:
        self._channel = channel
        self._write_here = write_here

    def write_here(self, request: WriteTxnMarkersRequest, on_response: OnMarkers) -> None:
        """Have this node write markers."""
        self._write_here(request, on_response)

    def ask(
        self,
        node_id: int,
        request: WriteTxnMarkersRequest,
        on_response: OnMarkers,
        on_failure: Callable[[str], None],
    ) -> None:
        """Ask another broker."""
        self._channel.ask(node_id, request, on_response, on_failure, purpose=PURPOSE)


def transaction_config(config: BrokerConfig) -> TransactionConfig:
    """What the broker's configuration says about transactions."""
    get = config.get
    return TransactionConfig(
        max_timeout_ms=get("transaction.max.timeout.ms"),
        timeout_check_ms=get("transaction.abort.timed.out.transaction.cleanup.interval.ms"),
        expiration_ms=get("transactional.id.expiration.ms"),
        expiration_check_ms=get("transaction.remove.expired.transaction.cleanup.interval.ms"),
        two_phase_commit=get("transaction.two.phase.commit.enable"),
    )
