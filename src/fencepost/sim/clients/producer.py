"""A producer: one batch at a time, sent again until it is known what has become of it.

An idempotent one (KIP-98) asks for acks=all and never gives a batch up; its sequence numbers rise
by one per record and partition. Any other may give up, and then its batch may be written or not. A
record's value names its producer and its number, so that no two batches of a world have one
checksum. Records have timestamps: brokers forget, when they start, a producer whose last record is
a day old. Where topics are compacted, an idempotent producer may be slow: without an answer it
waits for so long that its batch may have been superseded, compacted and copied before it sends it
again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from fencepost.batch.header import read_header
from fencepost.batch.records import build_batch
from fencepost.log.producers import SEQUENCE_MAX
from fencepost.sim.clients.client import Client
from fencepost.sim.clients.keys import Keys
from fencepost.sim.clock import EPOCH_MS
from fencepost.sim.oracle import Violation
from fencepost.sim.partition_oracle import FIRST_SEQUENCES, PartitionKey
from fencepost.sim.surroundings import Surroundings
from fencepost.wire.api.init_producer_id import InitProducerIdRequest
from fencepost.wire.api.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from fencepost.wire.errors import ErrorCode

RETRY_MS = 300
TIMEOUT_MS = 4_000
TRIES = 5
"""How often a producer that is not idempotent sends a batch."""
SLOW_ONE_IN: Final = 2
SLOW_RETRY_MS: Final = 20_000

_RETRIABLE: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)


@dataclass(slots=True)
class Unfinished:
    """A batch on its way. `known_offset`: how far the partition was acknowledged before it."""

    key: PartitionKey
    topic: str
    batch: bytes
    acks: int
    known_offset: int
    at_us: int
    tries: int = 0
    asked: int = -1
    """The broker that was asked last."""


class Producer(Client):
    """See the module docstring."""

    def __init__(
        self, world: Surroundings, client_id: int, *, acks: int, is_idempotent: bool
    ) -> None:
        super().__init__(world, client_id)
        self.acks = acks
        self.is_idempotent = is_idempotent
        self.producer_id = -1
        self.acked = 0
        self.refused = 0
        self.unfinished: Unfinished | None = None
        self._number = 0
        self._sequences: dict[PartitionKey, int] = {}
        self._first_sequence = FIRST_SEQUENCES[self.lane.pick(2)]
        self._is_asking = False
        self._keys = Keys(world, client_id)
        slowness = world.tape.lane(f"client.{client_id}.slowness")
        self._is_slow = (
            world.options.compacts
            and is_idempotent
            and slowness.pick(SLOW_ONE_IN) == SLOW_ONE_IN - 1
        )

    @property
    def is_idle(self) -> bool:
        return self.unfinished is None

    def begin(self) -> None:
        self.later(2 * self.world.options.produce_every_ms, self._turn)

    def _turn(self) -> None:
        self.begin()
        if self.unfinished is not None or self.is_closing:
            return
        if self.is_idempotent and self.producer_id < 0:
            brokers = list(self.world.brokers)
            self.ask_for_id(brokers[self.lane.pick(len(brokers))])
            return
        keys = self.partitions()
        if keys:
            key, count = keys[self.lane.pick(len(keys))], 1 + self.lane.pick(3)
            self.produce(key, count, keys=self._keys.draw_records(count))

    def ask_for_id(self, broker_id: int) -> None:
        """Ask a broker for a producer id."""
        if self._is_asking:
            return
        self._is_asking = True
        request = InitProducerIdRequest(transactional_id=None, producer_id=-1, producer_epoch=-1)
        self.ask(broker_id, request, self._note_id)

    def _note_id(self, response: Any) -> None:
        self._is_asking = False
        if response is not None and not response.error_code:
            self.producer_id = response.producer_id

    # -- one batch ---------------------------------------------------------------------------

    def produce(
        self,
        key: PartitionKey,
        count: int = 1,
        sequence: int | None = None,
        keys: Sequence[tuple[bytes, bool]] = (),
    ) -> None:
        """Produce a batch of `count` records to a partition, with a sequence if that is not to be
        the one that follows, or a record for each of `keys`, without a value if it is deleted; the
        topic must be known."""
        topic = self.name_of(key)
        if topic is None:
            return
        self._number += 1
        if sequence is None:
            sequence = self._sequences.get(key, self._first_sequence)
        stamps: dict[str, int] = {}
        if self.is_idempotent:
            stamps = {
                "producer_id": self.producer_id,
                "producer_epoch": 0,
                "base_sequence": sequence,
            }
        value = f"{self.id}/{self._number}".encode()
        items: list[tuple[bytes | None, bytes | None]]
        items = [(None, value + b"/%d" % number) for number in range(count)]
        if keys:
            count = len(keys)
            items = [
                (one, None if is_deleted else value + b"/%d" % number)
                for number, (one, is_deleted) in enumerate(keys)
            ]
        known = self.world.observer.oracle.partitions.acknowledged_offset(key)
        now_ms = EPOCH_MS + self.world.now_ms
        batch = bytes(build_batch(items, timestamp_ms=now_ms, **stamps))
        self._sequences[key] = (sequence + count) & SEQUENCE_MAX
        acks = -1 if self.is_idempotent else self.acks
        self.unfinished = Unfinished(key, topic, batch, acks, known, self.world.now_us)
        self._send(self.unfinished)

    def _send(self, one: Unfinished) -> None:
        if one is not self.unfinished:
            return
        if one.key in self.world.observer.oracle.partitions.deleted:
            self._forget(one, "the topic is deleted")  # perhaps it was appended, perhaps not
            return
        leader = self.leader_of(one.key)
        if leader is None:
            self.later(RETRY_MS, lambda: self._send(one))
            return
        one.tries += 1
        one.asked = leader
        data = PartitionProduceData(index=one.key[1], records=bytearray(one.batch))
        request = ProduceRequest(
            acks=one.acks,
            timeout_ms=TIMEOUT_MS,
            topic_data=[
                TopicProduceData(name=one.topic, topic_id=one.key[0], partition_data=[data])
            ],
        )
        self.ask(leader, request, lambda response: self._answered(one, response))

    def _answered(self, one: Unfinished, response: Any) -> None:
        if response is not None:
            answer = response.responses[0].partition_responses[0]
            error = ErrorCode(answer.error_code)
            self.world.trace.note(f"produced {int(error)} {answer.base_offset}")
            if error is ErrorCode.NONE:
                self.acked += 1
                self._note_acknowledged(one, answer.base_offset)
                self._forget(one, f"NONE at {answer.base_offset}")
                return
            self.refused += 1
            is_gap = error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
            if error not in _RETRIABLE and not (is_gap and self.is_deposed(one.asked, one.key)):
                raise Violation(
                    "I36" if self.is_idempotent else "unforeseen",
                    f"producer {self.producer_id} of client {self.id} is answered {error.name}",
                )
        if not self.is_idempotent and one.tries >= TRIES:
            self._forget(one, "given up")
        elif response is None and self._is_slow and not self.is_closing:
            self.later(SLOW_RETRY_MS, lambda: self._send(one))
        else:
            self.later(RETRY_MS, lambda: self._send(one))

    def _note_acknowledged(self, one: Unfinished, base_offset: int) -> None:
        if one.acks == -1 and one.key not in self.world.observer.oracle.partitions.deleted:
            crc = read_header(one.batch).crc
            self.world.observer.acknowledged(one.key, base_offset, crc, one.known_offset)

    def _forget(self, one: Unfinished, said: str) -> None:
        assert one is self.unfinished, "a batch at a time"
        self.unfinished = None
        self.on_outcome(said)
