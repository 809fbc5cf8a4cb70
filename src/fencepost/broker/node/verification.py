"""What asks coordinators of transactions before a broker writes something in one (KIP-890).

Loaded and made when a coordinator has to be asked, see `broker.node.late_parts`.
"""

from __future__ import annotations

from collections.abc import Callable

from fencepost.broker.cluster.broker_channel import BrokerChannel
from fencepost.broker.cluster.transaction_link import TransactionLink
from fencepost.broker.metrics.verifications import Verifications
from fencepost.broker.node.core import NodeCore
from fencepost.runtime.verification import OnResponse, Verifier
from fencepost.wire.api.add_partitions_to_txn import AddPartitionsToTxnRequest


class Verification:
    """See the module. `verify_here` asks the coordinators of this node."""

    def __init__(
        self,
        core: NodeCore,
        channel: BrokerChannel,
        verify_here: Callable[[AddPartitionsToTxnRequest, OnResponse], None],
    ) -> None:
        get = core.config.get
        self.verifier = Verifier(
            core.config.node_id,
            core.ports,
            lambda: core.image,
            TransactionLink(channel, verify_here, get("request.timeout.ms")),
            get("add.partitions.to.txn.retry.backoff.ms"),
            get("add.partitions.to.txn.retry.backoff.max.ms"),
        )
        self.counts = Verifications()
        self.verifier.on_told = self.counts.told
