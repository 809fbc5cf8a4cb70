"""What transactional producers do with `protocol.transaction_manager`, as conversations.

The blocking and the asyncio producer have a `TransactionDriver` each, and carry out what it says
over their clusters' connections: which request goes to which coordinator, when it is sent again,
and in which order records are delivered and the transaction is ended. Of their own they have how
to flush, and how to wait for answers; these they give as functions, in asyncio coroutines'.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from fencepost.client.cluster_view import ClusterView
from fencepost.client.conversation import Alone, Conversation, Pause, Tell
from fencepost.client.errors import ClientError, DeadlineExceeded, TransactionError
from fencepost.client.metadata import CommittedOffset, TopicPartition
from fencepost.client.open_transactions import OpenTransaction
from fencepost.client.produce_core import ProduceCore
from fencepost.client.protocol.prepared import PreparedTxnState
from fencepost.client.protocol.transaction_errors import Reaction
from fencepost.client.protocol.transaction_manager import Ask, State, TransactionManager
from fencepost.client.protocol.transaction_requests import ConsumerGroupMetadata
from fencepost.client.transaction_asks import exchange_for, pause_after, take_answer

FEATURE: Final = "transaction.version"

Face = Callable[[None], Any]
"""A function of the producer that has the driver; in asyncio a coroutine's."""


class TransactionDriver:
    """The transactions of one producer; see the module. Requests go one at a time, also when
    several tasks of an asyncio producer have conversations."""

    def __init__(self, view: ClusterView[Any], transactional_id: str, timeout_ms: int) -> None:
        self.manager = TransactionManager(
            transactional_id, timeout_ms, two_phase_commit=view.config.two_phase_commit
        )
        self._view = view
        self._backoff = view.backoff()
        self._retry_at = 0.0
        self._last: ClientError | None = None

    # -- what applications do ------------------------------------------------------------------

    def initialize(self, *, keep_prepared: bool = False) -> Conversation[None]:
        """Get a producer id, and fence earlier producers."""
        self.manager.initialize(keep_prepared=keep_prepared)
        yield from self.run("init_transactions")

    def begin(self, produce: ProduceCore | None = None) -> None:
        """Begin a transaction; what failed before is none of its concern."""
        self.manager.begin()
        if produce is not None:
            produce.first_failure = None

    def send_offsets(
        self,
        offsets: Mapping[TopicPartition, CommittedOffset | int],
        group_metadata: ConsumerGroupMetadata | str,
    ) -> Conversation[None]:
        """Make offsets part of the transaction."""
        found, group = offsets_of_group(offsets, group_metadata)
        self.manager.add_offsets(found, group, self._view.topic_ids(one.topic for one in found))
        yield from self.run("send_offsets_to_transaction")

    def prepare(self, flush: Face) -> Conversation[PreparedTxnState]:
        """Deliver everything, and prepare."""
        self.manager.require_two_phase_commit("prepare a transaction")
        yield from self._deliver(flush)
        yield from self.run("prepare_transaction")
        return self.manager.prepare()

    def commit(self, flush: Face) -> Conversation[None]:
        """Deliver everything, and commit."""
        yield from self._deliver(flush)
        yield from self.end(commit=True)

    def abort(self, produce: ProduceCore, wait: Face) -> Conversation[None]:
        """Give up what has not left, wait for what has, and abort."""
        self.require_open()
        while not produce.is_idle:
            produce.abandon(aborted_by_user())
            yield from Tell(wait, None)
        produce.first_failure = None
        yield from self.end(commit=False)

    def leave_open(self, flush: Face) -> Conversation[OpenTransaction | None]:
        """Deliver everything; the transaction, for another process to end, or None if the
        coordinator knows of none."""
        yield from self._deliver(flush)
        self.manager.check()
        identity = self.manager.identity
        if identity is None or not self.manager.is_started:
            return None
        return OpenTransaction(self.manager.transactional_id, *identity, self.manager.is_tv2)

    def end(self, *, commit: bool) -> Conversation[None]:
        """Commit or abort; every batch is decided."""
        yield from Alone(self, self._begin_to_end(commit))
        yield from self.run("commit_transaction" if commit else "abort_transaction")

    def require_open(self) -> None:
        """Raise unless there is a transaction to abort."""
        if not self.manager.is_open:
            self.manager.end(commit=False)

    def _deliver(self, flush: Face) -> Conversation[None]:
        self.manager.check()
        with contextlib.suppress(ClientError):  # the transaction knows of it
            yield from Tell(flush, None)

    def _begin_to_end(self, commit: bool) -> Conversation[None]:
        self.manager.end(commit=commit)
        return
        yield  # a conversation without a step: requests that are on their way come first

    # -- what producers do all the time --------------------------------------------------------

    def keep_up(self) -> Conversation[TransactionError | None]:
        """Have new partitions added to the transaction; why there is none that could be committed,
        and nothing is to be sent any more."""
        if self.manager.state is State.IN_TRANSACTION:
            yield from self.step()
        return self.manager.error

    def limited_pause_s(self, pause_s: float) -> float:
        """A pause that is over when a request that was refused is sent again."""
        retry_in_s = self._retry_in_s()
        return min(pause_s, retry_in_s) if retry_in_s else pause_s

    def run(self, what: str) -> Conversation[None]:
        """Send requests until there is none left. Raises TransactionError, DeadlineExceeded."""
        deadline = self._view.deadline()
        while (yield from self.step()):
            pause_ms = self._retry_in_s() * 1000
            if pause_ms >= deadline.remaining_ms():
                raise DeadlineExceeded(
                    f"{what} did not succeed within {deadline.timeout_ms:.0f} ms", self._last
                )
            yield from Pause(pause_ms)
        self.manager.check()

    def step(self) -> Conversation[bool]:
        """Send what is to be sent and not being paused for, until something is refused for now;
        whether more is to be done."""
        return (yield from Alone(self, self._step()))

    def _step(self) -> Conversation[bool]:
        manager = self.manager
        while time.monotonic() >= self._retry_at:
            manager.transaction_version = self._view.finalized_features.level(FEATURE)
            ask = manager.next_request()
            if ask is None:
                return False
            pause_s = pause_after([(yield from self._ask(ask))], self._backoff)
            if pause_s is None:
                break
            self._retry_at = time.monotonic() + pause_s
        return manager.state is not State.FATAL_ERROR and manager.next_request() is not None

    def _retry_in_s(self) -> float:
        return max(0.0, self._retry_at - time.monotonic())

    def _ask(self, ask: Ask) -> Conversation[Reaction]:
        view = self._view
        answer: Any
        try:
            answer = yield (yield from exchange_for(view, ask))
            self._last = None
            # The first connection told the level.
            self.manager.transaction_version = view.finalized_features.level(FEATURE)
        except ClientError as error:
            answer = self._last = error
        reaction = take_answer(view, self.manager, ask, answer)
        self._last = self._last or self.manager.refused
        return reaction


def offsets_of_group(
    offsets: Mapping[TopicPartition, CommittedOffset | int],
    group_metadata: ConsumerGroupMetadata | str,
) -> tuple[dict[TopicPartition, CommittedOffset], ConsumerGroupMetadata]:
    """Offsets and group as applications give them. ClientError for an offset below 0, TypeError
    for a list, as confluent-kafka takes."""
    if not isinstance(offsets, Mapping):
        kind = type(offsets).__name__
        raise TypeError(
            f"offsets are given by partition, as {{partition: offset}}; this is a {kind}"
        )
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
