"""Clients that write and read all the time, each in a thread, and remember what they were told."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from abc import ABC, abstractmethod

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from fencepost.client.cluster import Cluster as Client
from fencepost.client.errors import ClientError
from fencepost.client.producer import Producer as OurProducer

from ..waiting import DEADLINE_S, eventually
from .history import Place, Record

PAUSE_S = 0.005
"""Between two records of a writer: enough of them, and time for everybody else."""
DELIVERY_TIMEOUT_MS = 120_000


class Worker(ABC):
    """A thread that goes on until it is asked to stop."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._guarded, name=name, daemon=True)
        self.error: Exception | None = None

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End, when everything has been delivered or given up."""
        self._stopping.set()
        self._thread.join(DELIVERY_TIMEOUT_MS / 1000 + DEADLINE_S)
        assert not self._thread.is_alive(), f"{self.name} does not end"
        if self.error is not None:
            raise AssertionError(f"{self.name} failed") from self.error

    def abandon(self) -> None:
        """End soon, without waiting; the test has failed."""
        self._stopping.set()

    def _guarded(self) -> None:
        try:
            self._run()
        except Exception as error:  # noqa: BLE001
            self.error = error

    @abstractmethod
    def _run(self) -> None:
        """Until `_stopping`."""


class Writer(Worker):
    """Sends numbered records to one partition after the other."""

    def __init__(self, name: str, bootstrap: str, topic: str, partitions: int) -> None:
        super().__init__(name)
        self.bootstrap, self.topic, self.partitions = bootstrap, topic, partitions
        self.sent: list[Record] = []
        self.acknowledged: dict[Record, Place] = {}

    def wait_for_more(self, count: int = 5) -> None:
        """Until so many more records are acknowledged."""
        wanted = len(self.acknowledged) + count
        eventually(
            lambda: self.error is not None or len(self.acknowledged) >= wanted,
            f"{self.name} has {len(self.acknowledged)} acknowledged",
        )

    def next_record(self) -> tuple[Record, int]:
        """The next record and its partition, noted as sent."""
        record = Record(self.name, len(self.sent))
        self.sent.append(record)
        return record, record.number % self.partitions


class Librdkafka(Writer):
    """confluent-kafka."""

    def _run(self) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "enable.idempotence": True,
                "linger.ms": 1,
                "delivery.timeout.ms": DELIVERY_TIMEOUT_MS,
                "reconnect.backoff.max.ms": 500,
                "socket.timeout.ms": 10_000,
            }
        )
        while not self._stopping.is_set():
            record, partition = self.next_record()
            producer.produce(
                self.topic, record.value, partition=partition, on_delivery=self._delivered
            )
            producer.poll(PAUSE_S)
        producer.flush(DELIVERY_TIMEOUT_MS / 1000)

    def _delivered(self, error, message) -> None:
        if error is None:
            place = Place(message.partition(), message.offset())
            self.acknowledged[Record.parse(message.value())] = place


class Aiokafka(Writer):
    """aiokafka."""

    def _run(self) -> None:
        asyncio.run(self._write())

    async def _write(self) -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=self.bootstrap, enable_idempotence=True, request_timeout_ms=10_000
        )
        await producer.start()
        pending: set[asyncio.Task[None]] = set()
        while not self._stopping.is_set():
            record, partition = self.next_record()
            future = await producer.send(self.topic, record.value, partition=partition)
            task = asyncio.ensure_future(self._note(record, future))
            pending.add(task)
            task.add_done_callback(pending.discard)
            await asyncio.sleep(PAUSE_S)
        with contextlib.suppress(KafkaError):
            await producer.stop()
        await asyncio.gather(*pending)

    async def _note(self, record: Record, future) -> None:
        with contextlib.suppress(KafkaError):  # not acknowledged: it may be there or not
            told = await future
            self.acknowledged[record] = Place(told.partition, told.offset)


class Ours(Writer):
    """fencepost.client."""

    def _run(self) -> None:
        with Client(self.bootstrap, api_timeout_ms=DELIVERY_TIMEOUT_MS) as client:
            producer = OurProducer(client)
            while not self._stopping.is_set():
                record, partition = self.next_record()
                delivery = producer.send(self.topic, record.value, partition=partition)
                try:
                    producer.flush()
                    self.acknowledged[record] = Place(partition, delivery.result())
                except ClientError:
                    producer = OurProducer(client)  # whether it is there is not known
                self._stopping.wait(PAUSE_S)


class Reader(Worker):
    """Reads all partitions from the beginning, and then what comes."""

    def __init__(self, name: str, bootstrap: str, topic: str, partitions: int) -> None:
        super().__init__(name)
        self.bootstrap, self.topic, self.partitions = bootstrap, topic, partitions
        self.seen: list[tuple[Place, Record]] = []


class LibrdkafkaReader(Reader):
    """confluent-kafka."""

    def _run(self) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": self.name,
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "reconnect.backoff.max.ms": 500,
            }
        )
        consumer.assign([TopicPartition(self.topic, index, 0) for index in range(self.partitions)])
        while not self._stopping.is_set():
            message = consumer.poll(0.1)
            if message is None:
                continue
            if message.error():
                if not message.error().retriable():
                    raise KafkaException(message.error())
                continue
            place = Place(message.partition(), message.offset())
            self.seen.append((place, Record.parse(message.value())))
        consumer.close()
