"""The way of leaders' questions to coordinators of transactions: here, or on another broker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from fencepost.broker.cluster.broker_channel import BrokerChannel
from fencepost.client.protocol.versions import VersionRange
from fencepost.runtime.verification import OnResponse
from fencepost.wire.api.add_partitions_to_txn import AddPartitionsToTxnRequest

PURPOSE: Final = "add-partitions-to-txn"
BATCHED: Final = VersionRange(4, 5)
"""The versions that brokers ask with."""

AskHere = Callable[[AddPartitionsToTxnRequest, OnResponse], None]


class TransactionLink:
    """What `runtime.verification` asks through."""

    def __init__(self, channel: BrokerChannel, here: AskHere, timeout_ms: int) -> None:
        """`here` asks the coordinators of this node, as a request of version 5."""
        self._channel = channel
        self.ask_here = here
        self._timeout_ms = timeout_ms

    def ask(
        self,
        node_id: int,
        request: AddPartitionsToTxnRequest,
        on_response: OnResponse,
        on_failure: Callable[[str], None],
    ) -> None:
        """Ask another broker; one of the two is called, never before this returns."""
        self._channel.ask(
            node_id,
            request,
            on_response,
            on_failure,
            purpose=PURPOSE,
            timeout_ms=self._timeout_ms,
            versions=BATCHED,
        )
