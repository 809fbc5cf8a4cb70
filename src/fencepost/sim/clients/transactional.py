"""A client with a transactional id, which does what it is made to do, a request at a time.

The decisions are the product's own (`client/protocol/transaction_manager`): what an answer means,
and what is to be sent next. A batch is sent again until it is known what has become of it, or it is
given up, and then its transaction can only be aborted.

The observer hears of each transaction what is sent in it, and what the producer has heard of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from fencepost.batch.header import read_header
from fencepost.batch.records import build_batch
from fencepost.client.errors import BrokerError, ConnectionFailed, ProducerFenced
from fencepost.client.metadata import CommittedOffset, TopicPartition
from fencepost.client.produce_queue import Identity
from fencepost.client.protocol.transaction_errors import Kind, Reaction
from fencepost.client.protocol.transaction_manager import (
    FIRST_TV2,
    TRANSACTION,
    Ask,
    State,
    TransactionManager,
)
from fencepost.client.protocol.transaction_requests import ConsumerGroupMetadata
from fencepost.machines.group.partitioner import partition_for
from fencepost.runtime.internal_topics import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from fencepost.runtime.transactions import TRANSACTION_VERSION
from fencepost.sim.clients.client import Client
from fencepost.sim.clock import EPOCH_MS
from fencepost.sim.group_oracle import OffsetKey, OffsetWrite
from fencepost.sim.oracle import Violation
from fencepost.sim.partition_oracle import PartitionKey
from fencepost.sim.surroundings import Surroundings
from fencepost.sim.transaction_oracle import Transaction
from fencepost.wire.api.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from fencepost.wire.errors import ErrorCode, is_retriable

RETRY_MS: Final = 300
SOON_MS: Final = 20
TIMEOUT_MS: Final = 4_000
TRIES: Final = 8
"""How often a batch is sent before its transaction is given up."""

_HOPELESS: Final = frozenset({ErrorCode.INVALID_TXN_STATE, ErrorCode.INVALID_PRODUCER_ID_MAPPING})
"""What a producer hears whose transaction the coordinator has aborted, or of whose id another has
the next epochs; besides that it is fenced."""


@dataclass(slots=True)
class Batch:
    """A batch that is not decided. `known_offset` as in `producer.Unfinished`."""

    key: PartitionKey
    partition: TopicPartition
    data: bytes
    identity: Identity
    known_offset: int
    tries: int = 0


class TransactionalClient(Client):
    """See the module docstring."""

    def __init__(
        self,
        world: Surroundings,
        client_id: int,
        transactional_id: str,
        *,
        knows_kip_890: bool,
        timeout_ms: int,
    ) -> None:
        """A transaction may take `timeout_ms`. Without KIP-890 it speaks version 1, whatever the
        cluster's level."""
        super().__init__(world, client_id)
        self.transactional_id = transactional_id
        self.knows_kip_890 = knows_kip_890
        self.committed = 0
        self.aborted = 0
        self._timeout_ms = timeout_ms
        self._number = 0
        self._offset = client_id * 1_000_000
        self.restart()

    def restart(self) -> None:
        """Crash, and start again under the same transactional id."""
        self.manager = TransactionManager(self.transactional_id, self._timeout_ms)
        self.transaction: Transaction | None = None
        self._life = object()
        self._batch: Batch | None = None
        self._offsets: list[OffsetWrite] = []
        self._sequences: dict[TopicPartition, int] = {}
        self._of: Identity | None = None
        self._waits = False

    @property
    def is_idle(self) -> bool:
        """Whether it has ended its transaction, or another producer has its transactional id."""
        return self.manager.state in (State.READY, State.FATAL_ERROR) and not self._waits

    @property
    def unfinished(self) -> str:
        """What it waits for, while it does."""
        return f"the end of {self.transaction and self.transaction.name} {self.manager.state.name}"

    # -- what the application does ---------------------------------------------------------------

    def initialize(self) -> None:
        """Get a producer id, and fence the producer that has the transactional id."""
        self.manager.transaction_version = self._level()
        self.manager.initialize()
        self._go()

    def begin_transaction(self) -> None:
        """Begin a transaction."""
        self.manager.begin()
        identity = self.manager.identity
        assert identity is not None, "it is initialized"
        if identity != self._of:
            self._of, self._sequences = identity, {}
        self._number += 1
        self.transaction = Transaction(
            f"{self.id}/{self._number}",
            self.transactional_id,
            identity.producer_id,
            identity.epoch,
            self.manager.is_tv2,
        )
        self.world.observer.oracle.transactions.begun(self.transaction)

    def produce(self, key: PartitionKey, count: int = 1, keys: Sequence[bytes] = ()) -> None:
        """Produce a batch of `count` records in the transaction, or one record for each of `keys`;
        its topic must be known."""
        name = self.name_of(key)
        if name is None:
            return
        transaction, identity = self.transaction, self.manager.identity
        assert transaction is not None and identity is not None, "it has begun"
        partition = TopicPartition(name, key[1])
        self.manager.add_partition(partition)
        sequence = self._sequences.get(partition, 0)
        of_records: Sequence[bytes | None] = keys or [None] * count
        self._sequences[partition] = sequence + len(of_records)
        values = [
            (of_record, f"{transaction.name}/{at}".encode())
            for at, of_record in enumerate(of_records, sequence)
        ]
        data = bytes(
            build_batch(
                values,
                timestamp_ms=EPOCH_MS + self.world.now_ms,
                producer_id=identity.producer_id,
                producer_epoch=identity.epoch,
                base_sequence=sequence,
                transactional=True,
            )
        )
        known = self.world.observer.oracle.partitions.acknowledged_offset(key)
        self._batch = Batch(key, partition, data, identity, known)
        self.world.observer.oracle.transactions.sends(transaction, key, read_header(data).crc)
        self._go()

    def commit_offset(self, key: PartitionKey, group_id: str) -> None:
        """Commit the next offset of a group for a partition in the transaction."""
        name = self.name_of(key)
        if name is None:
            return
        assert self.transaction is not None, "it has begun"
        self._offset += 1
        write = OffsetWrite(OffsetKey(group_id, name, key[1]), self._offset)
        self._offsets.append(write)
        self.world.observer.oracle.transactions.sends_offset(self.transaction, write)
        self.manager.add_offsets(
            {TopicPartition(name, key[1]): CommittedOffset(self._offset)},
            ConsumerGroupMetadata(group_id),
        )
        self._go()

    def end(self, *, commit: bool) -> None:
        """Commit, or abort."""
        if self.transaction is not None:
            self.transaction.wanted.add(commit)
        self.manager.end(commit=commit)
        self._go()

    def take_open(self, other: TransactionalClient) -> None:
        """The other one has crashed, and has left its transaction open, for this one to end."""
        left, transaction = other.manager, other.transaction
        assert left.identity is not None and left.is_started, "it has begun a transaction"
        other.restart()
        self.transactional_id = other.transactional_id
        self.restart()
        self.manager.adopt(left.identity, is_tv2=left.is_tv2, is_open=True)
        self.manager.transaction_version = self._level()
        self.transaction = transaction

    # -- one request after the other -------------------------------------------------------------

    def _go(self) -> None:
        """Send what is to be sent next; until there is nothing, or it has to wait."""
        self.manager.transaction_version = self._level()
        ask = self.manager.next_request()
        self._waits = True
        if ask is not None:
            self._send(ask)
        elif self._batch is not None and self.manager.may_produce(self._batch.partition):
            self._send_batch(self._batch)
        else:
            self._settled()

    def _later(self, delay_ms: int, act: Callable[[], None]) -> None:
        """Do something later, unless it has crashed by then."""
        life = self._life
        self.later(delay_ms, lambda: act() if self._life is life else None)

    def _level(self) -> int:
        image = self.image()
        level = 0 if image is None else image.features.get(TRANSACTION_VERSION, 0)
        return level if self.knows_kip_890 else min(level, FIRST_TV2 - 1)

    def _coordinator(self, kind: int, key: str) -> int | None:
        """The broker to ask about an id or a group; None if no coordinator of it is known."""
        image = self.image()
        name = TRANSACTIONS_TOPIC if kind == TRANSACTION else OFFSETS_TOPIC
        topic = None if image is None else image.topics_by_name.get(name)
        if topic is None:
            return None
        return self.leader_of((topic.topic_id, partition_for(key, len(topic.partitions))))

    def _send(self, ask: Ask) -> None:
        broker_id = self._coordinator(ask.coordinator, ask.key)
        life = self._life
        if broker_id is None:
            self._later(RETRY_MS, self._go)
            return

        def answered(response: Any) -> None:
            if self._life is life:
                self._answered(ask, response)

        self.ask(broker_id, ask.message, answered, (ask.lowest, ask.highest))

    def _answered(self, ask: Ask, response: Any) -> None:
        if response is None:
            reaction = self.manager.on_failure(ask, ConnectionFailed("no answer"))
        else:
            reaction = self.manager.on_response(ask, response)
        self.world.trace.note(f"{ask.kind.value} of {self.id}: {reaction.name}")
        if reaction is Reaction.DONE:
            self._note_offsets(ask)
            self._go()
        elif reaction is Reaction.SOON:
            self._later(SOON_MS, self._go)
        elif reaction in (Reaction.AGAIN, Reaction.FIND_COORDINATOR):
            self._later(RETRY_MS, self._go)
        else:
            self._settled()

    def _note_offsets(self, ask: Ask) -> None:
        if ask.kind is Kind.OFFSET_COMMIT and self.transaction is not None:
            self.transaction.offsets.update(dict.fromkeys(self._offsets))
            self._offsets = []

    def _settled(self) -> None:
        """There is nothing to be sent: what it was made to do is done, or cannot be."""
        self._waits = False
        manager, transaction = self.manager, self.transaction
        if manager.state is State.READY:
            if transaction is not None and transaction.wanted:
                # The last end that was asked for is the one that was carried out.
                transaction.told = self._last_end(transaction)
                self.committed += transaction.told
                self.aborted += not transaction.told
                self.transaction = None
            self.on_outcome("NONE")
        elif manager.error is not None:
            self._batch = None
            self._refuse_the_unforeseen()
            self.on_outcome(_name_of(manager.error))
        else:
            self.on_outcome("NONE")

    def _last_end(self, transaction: Transaction) -> bool:
        return False not in transaction.wanted

    def _refuse_the_unforeseen(self) -> None:
        error = self.manager.error
        if self.manager.state is not State.FATAL_ERROR or isinstance(error, ProducerFenced):
            return
        cause = getattr(error, "cause", None)
        code = getattr(cause, "code", None)
        if code not in _HOPELESS:
            raise Violation("unforeseen", f"client {self.id}: {error} ({code})")

    # -- a batch ---------------------------------------------------------------------------------

    def _send_batch(self, one: Batch) -> None:
        if one is not self._batch:
            return
        leader = self.leader_of(one.key)
        life = self._life
        if one.key in self.world.observer.oracle.partitions.deleted or one.tries >= TRIES:
            self._give_up(one, ErrorCode.REQUEST_TIMED_OUT)
            return
        if leader is None:
            one.tries += 1
            self._later(RETRY_MS, lambda: self._send_batch(one))
            return
        one.tries += 1
        data = PartitionProduceData(index=one.key[1], records=bytearray(one.data))
        topic = TopicProduceData(
            name=one.partition.topic, topic_id=one.key[0], partition_data=[data]
        )
        request = ProduceRequest(
            transactional_id=self.transactional_id,
            acks=-1,
            timeout_ms=TIMEOUT_MS,
            topic_data=[topic],
        )

        def answered(response: Any) -> None:
            if self._life is life and one is self._batch:
                self._batch_answered(one, response)

        self.ask(leader, request, answered, self.manager.produce_versions())

    def _batch_answered(self, one: Batch, response: Any) -> None:
        error = None
        if response is not None:
            answer = response.responses[0].partition_responses[0]
            error = ErrorCode(answer.error_code)
            self.world.trace.note(f"produced {int(error)} {answer.base_offset} by {self.id}")
        if error is ErrorCode.NONE:
            self._acknowledge(one, answer.base_offset)
        elif error is None or is_retriable(error):
            self.on_outcome("no answer" if error is None else error.name)
            delay_ms = SOON_MS if error is ErrorCode.CONCURRENT_TRANSACTIONS else RETRY_MS
            one.tries -= error is ErrorCode.CONCURRENT_TRANSACTIONS
            self._later(delay_ms, lambda: self._send_batch(one))
        else:
            self._give_up(one, error)

    def _acknowledge(self, one: Batch, base_offset: int) -> None:
        self._batch = None
        crc = read_header(one.data).crc
        if one.key not in self.world.observer.oracle.partitions.deleted:
            assert self.transaction is not None, "it is part of one"
            self.transaction.acknowledged[one.key, crc] = None
            self.world.observer.acknowledged(one.key, base_offset, crc, one.known_offset)
        self._go()

    def give_up(self) -> None:
        """Wait no more for the answer to a batch: its transaction can only be aborted."""
        if self._batch is not None:
            self._give_up(self._batch, ErrorCode.REQUEST_TIMED_OUT)

    def _give_up(self, one: Batch, error: ErrorCode) -> None:
        """The transaction can only be aborted."""
        self._batch = None
        if self.transaction is not None:
            self.transaction.gave_up = True
        self.manager.on_produce_failure(BrokerError.of(int(error), "Produce was refused"))
        self._settled()


def _name_of(error: Exception) -> str:
    code = getattr(getattr(error, "cause", None), "code", None)
    return type(error).__name__ + ("" if code is None else f" {ErrorCode(code).name}")
