"""The blocking face of `protocol.transaction_manager`: its requests, sent and answered.

`BatchProducer` has the methods that applications call; what they have in common is here.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import Final

from fencepost.client.cluster import Cluster
from fencepost.client.errors import ClientError, DeadlineExceeded
from fencepost.client.metadata import CommittedOffset, TopicPartition
from fencepost.client.open_transactions import OpenTransaction
from fencepost.client.protocol.prepared import PreparedTxnState
from fencepost.client.protocol.transaction_errors import Reaction
from fencepost.client.protocol.transaction_manager import Ask, State, TransactionManager
from fencepost.client.protocol.transaction_requests import ConsumerGroupMetadata
from fencepost.client.retry import Backoff

log = logging.getLogger("fencepost.client")

SOON_S: Final = 0.02
"""Pause while the last transaction is being completed, as in Kafka's Java producer."""
FEATURE: Final = "transaction.version"


class TransactionDriver:
    """Carries a `TransactionManager`'s requests to coordinators. One thread."""

    def __init__(self, cluster: Cluster, transactional_id: str, timeout_ms: int) -> None:
        self.manager = TransactionManager(
            transactional_id, timeout_ms, two_phase_commit=cluster.config.two_phase_commit
        )
        self._cluster = cluster
        self._backoff = cluster.backoff()
        self._retry_at = 0.0
        self._last: ClientError | None = None

    @property
    def may_abort(self) -> bool:
        """Whether there is a transaction that `abort` would end."""
        return self.manager.is_open

    def require_open(self) -> None:
        """Raise unless there is a transaction to abort."""
        if not self.manager.is_open:
            self.manager.end(commit=False)

    def begin(self) -> None:
        """Begin a transaction."""
        self.manager.begin()

    def send_offsets(
        self,
        offsets: Mapping[TopicPartition, CommittedOffset | int],
        group_metadata: ConsumerGroupMetadata | str,
    ) -> None:
        """Make offsets part of the transaction."""
        self.manager.add_offsets(*offsets_of_group(offsets, group_metadata))
        self.run("send_offsets_to_transaction")

    def prepare(self) -> PreparedTxnState:
        """Every batch is decided: have the rest delivered, and prepare."""
        self.run("prepare_transaction")
        return self.manager.prepare()

    def end(self, *, commit: bool) -> None:
        """Commit or abort; every batch is decided."""
        self.manager.end(commit=commit)
        self.run("commit_transaction" if commit else "abort_transaction")

    def leave_open(self) -> OpenTransaction | None:
        """The transaction, for somebody else to end; None without one at the coordinator."""
        self.manager.check()
        identity = self.manager.identity
        if identity is None or not self.manager.is_started:
            return None
        return OpenTransaction(self.manager.transactional_id, *identity, self.manager.is_tv2)

    def run(self, what: str) -> None:
        """Send requests until there is none left. Raises TransactionError, DeadlineExceeded."""
        deadline = self._cluster.deadline()
        while self.step():
            pause_s = self.retry_in_s()
            if pause_s * 1000 >= deadline.remaining_ms():
                raise DeadlineExceeded(
                    f"{what} did not succeed within {deadline.timeout_ms:.0f} ms", self._last
                )
            time.sleep(pause_s)
        self.manager.check()

    def retry_in_s(self) -> float:
        """Seconds until a request that was refused is sent again."""
        return max(0.0, self._retry_at - time.monotonic())

    def step(self) -> bool:
        """Send what is to be sent and not being paused for, until something is refused for now;
        whether more is to be done."""
        manager = self.manager
        while time.monotonic() >= self._retry_at:
            manager.transaction_version = self._cluster.finalized_features.level(FEATURE)
            ask = manager.next_request()
            if ask is None:
                return False
            pause_s = pause_after(self._send(ask), self._backoff)
            if pause_s is None:
                break
            self._retry_at = time.monotonic() + pause_s
        return manager.state is not State.FATAL_ERROR and manager.next_request() is not None

    def _send(self, ask: Ask) -> Reaction:
        cluster = self._cluster
        try:
            node = cluster.find_coordinator(ask.key, ask.coordinator)
            connection = cluster.connection(node)
            version = connection.version_for(
                type(ask.message), lowest=ask.lowest, highest=ask.highest
            )
            response = connection.request(ask.message, version)
        except ClientError as error:
            self._last = error
            cluster.note_failure(error)
            reaction = self.manager.on_failure(ask, error)
        else:  # the first connection told the level
            self.manager.transaction_version = cluster.finalized_features.level(FEATURE)
            reaction = self.manager.on_response(ask, response)
            self._last = None
        if reaction is Reaction.FIND_COORDINATOR:
            cluster.forget_coordinator(ask.key, ask.coordinator)
        if reaction is not Reaction.DONE:
            log.debug("%s of %s: %s", ask.kind.value, self.manager.transactional_id, reaction.name)
        return reaction


def pause_after(reaction: Reaction, backoff: Backoff) -> float | None:
    """Seconds to wait before the next request; None when there is none to be sent."""
    if reaction is Reaction.DONE:
        backoff.reset()
        return 0.0
    if reaction is Reaction.SOON:
        return SOON_S
    if reaction in (Reaction.AGAIN, Reaction.FIND_COORDINATOR):
        return backoff.next_ms() / 1000
    return None


def offsets_of_group(
    offsets: Mapping[TopicPartition, CommittedOffset | int],
    group_metadata: ConsumerGroupMetadata | str,
) -> tuple[dict[TopicPartition, CommittedOffset], ConsumerGroupMetadata]:
    """Offsets and group as applications give them. ClientError for an offset below 0."""
    if isinstance(group_metadata, str):
        group_metadata = ConsumerGroupMetadata(group_metadata)
    found = {
        TopicPartition(*partition): CommittedOffset(one) if isinstance(one, int) else one
        for partition, one in offsets.items()
    }
    for partition, one in found.items():
        if one.offset < 0:
            raise ClientError(
                f"offset {one.offset} cannot be committed",
                topic=partition.topic,
                partition=partition.partition,
            )
    return found, group_metadata


def aborted_by_user() -> ClientError:
    """Why records of a transaction that is aborted are not delivered."""
    return ClientError("the transaction was aborted")
