"""The transaction coordinators of a node: one for each partition of `__transaction_state` it leads.

A transactional id belongs to the partition that it hashes to, and to the broker that leads it
(`runtime.coordinator.topic`). What a coordinator does is `machines.transaction`, how it is run is
`runtime.coordinator`. Here it gets what it cannot have by itself: producer ids, which the
controller allocates, and a sender of its markers (`runtime.transaction_markers`). A broker and a
simulated broker run this class.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final

from msgspec.structs import replace

from fencepost.machines.transaction.coordinator import TransactionCoordinator
from fencepost.machines.transaction.ending import EndTxn
from fencepost.machines.transaction.epochs import NEEDS_PRODUCER_ID
from fencepost.machines.transaction.initialization import InitProducerId
from fencepost.machines.transaction.model import TopicPartition, Transaction
from fencepost.machines.transaction.requests import AddPartitions
from fencepost.machines.transaction.sends import AbortTimedOut, CompleteWith, SendMarkers
from fencepost.machines.transaction.shard import Decision
from fencepost.runtime.coordinator import Coordinator, CoordinatorKind, OnReply
from fencepost.runtime.coordinator.topic import TopicCoordinators
from fencepost.runtime.internal_topics import TRANSACTIONS_TOPIC
from fencepost.runtime.metadata.host import MetadataHost
from fencepost.runtime.ports import MachinePorts
from fencepost.runtime.producer_ids import ProducerIds
from fencepost.runtime.replicas import HostedPartition
from fencepost.runtime.transaction_markers import MarkerSender
from fencepost.wire.errors import ErrorCode

log = logging.getLogger(__name__)

TRANSACTION_VERSION: Final = "transaction.version"
"""The feature whose level says which records are written, and how the coordinator aborts."""

PRODUCER_ID_RETRY_MS: Final = 1_000
"""After so long a producer id is asked for again, to complete a transaction that waits for one."""

DecideWithId = Callable[[TransactionCoordinator, int | None, Any], Decision]
"""Decides about a request, given the coordinator, a fresh producer id or None, and the token."""


class TransactionCoordinators(TopicCoordinators[TransactionCoordinator]):
    """See the module."""

    def __init__(
        self,
        node_id: int,
        ports: MachinePorts,
        metadata: MetadataHost,
        kind: CoordinatorKind[TransactionCoordinator],
        producer_ids: ProducerIds,
        markers: MarkerSender,
    ) -> None:
        """`kind` is how they are run; what they do with their sends is added here."""
        kind = replace(kind, on_loaded=self._loaded, on_send=self._send)
        super().__init__(TRANSACTIONS_TOPIC, node_id, ports, metadata, kind)
        self._producer_ids = producer_ids
        self.markers = markers
        markers.on_written = self._written
        metadata.on_image(lambda image, delta: markers.image_changed(delta))

    def close(self) -> None:
        """Unload all coordinators; requests that wait are answered with NOT_COORDINATOR."""
        self.markers.close()
        super().close()

    # -- for handlers ----------------------------------------------------------------------

    def init_producer_id(self, request: InitProducerId, on_reply: OnReply) -> None:
        """`on_reply` gets (NONE, `Granted`), or (why there is no coordinator, None)."""

        def decide(machine: TransactionCoordinator, fresh: int | None, token: Any) -> Decision:
            return machine.decide_init(request, fresh, token, self._ports.wall_ms())

        self._submit_with_id(request.transactional_id, decide, on_reply)

    def end(self, request: EndTxn, on_reply: OnReply) -> None:
        """`on_reply` gets (NONE, `Ended`), or (why there is no coordinator, None)."""

        def decide(machine: TransactionCoordinator, fresh: int | None, token: Any) -> Decision:
            return machine.decide_end(request, fresh, token, self._ports.wall_ms())

        self._submit_with_id(request.transactional_id, decide, on_reply)

    def add(self, request: AddPartitions, on_reply: OnReply) -> None:
        """`on_reply` gets (NONE, an `ErrorCode`), or (why there is no coordinator, None)."""

        def decide(machine: TransactionCoordinator, token: Any) -> Decision:
            return machine.decide_add(request, token, self._ports.wall_ms())

        self.submit(request.transactional_id, decide, on_reply)

    def verify(self, request: AddPartitions, on_reply: OnReply) -> None:
        """`on_reply` gets (NONE, an `ErrorCode` for each partition), or (why not, None)."""

        def decide(machine: TransactionCoordinator, token: Any) -> Decision:
            return machine.decide_verify(request, token)

        self.submit(request.transactional_id, decide, on_reply)

    def _submit_with_id(
        self,
        transactional_id: str,
        decide: DecideWithId,
        on_reply: OnReply,
        fresh: int | None = None,
    ) -> None:
        """Have it decided; again with a fresh producer id, if it needs one."""

        def on_producer_id(error: ErrorCode, producer_id: int) -> None:
            if error is ErrorCode.NONE:
                self._submit_with_id(transactional_id, decide, on_reply, producer_id)
            else:
                on_reply(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, None)

        def on_answer(error: ErrorCode, reply: Any) -> None:
            if reply is NEEDS_PRODUCER_ID:
                self._producer_ids.next_id(on_producer_id)
            else:
                on_reply(error, reply)

        self.submit(
            transactional_id, lambda machine, token: decide(machine, fresh, token), on_answer
        )

    # -- leadership ------------------------------------------------------------------------

    def became_leader(self, hosted: HostedPartition, leader_epoch: int) -> None:
        """This node leads the partition, from now on or in a new epoch."""
        before = self.runtime.get(hosted.index)
        super().became_leader(hosted, leader_epoch)
        if hosted.topic == self.topic and self.runtime.get(hosted.index) is not before:
            self.markers.forget(hosted.index)

    def lost_leadership(self, hosted: HostedPartition, leader_epoch: int | None) -> None:
        """Another node leads the partition in that epoch; None if it is not here any more."""
        super().lost_leadership(hosted, leader_epoch)
        if hosted.topic == self.topic and self.runtime.get(hosted.index) is None:
            self.markers.forget(hosted.index)

    def _loaded(self, coordinator: Coordinator[TransactionCoordinator]) -> None:
        count = len(coordinator.machine.transactions)
        if count:
            log.info(
                "%s: loaded %d transactional ids in %d ms",
                coordinator.partition,
                count,
                coordinator.load_ms,
            )

    # -- what coordinators send --------------------------------------------------------------

    def _send(self, message: Any, leader_epoch: int) -> None:
        if isinstance(message, SendMarkers):
            index = self.partition_of(message.transactions[0].transactional_id)
            if index is not None:
                self.markers.begin(index, leader_epoch, *message.transactions)
        elif isinstance(message, AbortTimedOut):
            self._abort(message)
        else:
            assert isinstance(message, CompleteWith), message
            self._complete(message)

    def _abort(self, late: AbortTimedOut) -> None:
        def decide(machine: TransactionCoordinator, fresh: int | None, token: Any) -> Decision:
            return machine.decide_abort(late, fresh, token, self._ports.wall_ms())

        def on_reply(error: ErrorCode, reply: Any) -> None:
            if error is not ErrorCode.NONE:  # it is looked at again after the interval
                log.debug("%r is not aborted: %s", late.transactional_id, error.name)

        self._submit_with_id(late.transactional_id, decide, on_reply)

    def _complete(self, waiting: CompleteWith) -> None:
        def on_producer_id(error: ErrorCode, producer_id: int) -> None:
            if error is ErrorCode.NONE:
                self._tell_written(waiting.sent, waiting.written, producer_id)
            else:
                self._ports.timers.after(PRODUCER_ID_RETRY_MS, lambda: self._complete(waiting))

        self._producer_ids.next_id(on_producer_id)

    def _written(self, sent: Transaction, partitions: frozenset[TopicPartition]) -> None:
        self._tell_written(sent, partitions, None)

    def _tell_written(
        self, sent: Transaction, partitions: frozenset[TopicPartition], fresh: int | None
    ) -> None:
        coordinator = self.coordinator_of(sent.transactional_id)
        if isinstance(coordinator, Coordinator):
            coordinator.tell(
                lambda machine: machine.decide_marked(
                    sent, partitions, fresh, self._ports.wall_ms()
                )
            )
