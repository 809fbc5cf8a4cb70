"""Our batches in other clients, theirs in ours: kafka-python, aiokafka and librdkafka.

librdkafka has a broker for tests inside itself; we speak to it with our own frames over a socket,
so what its producer wrote can be fetched raw and what we build can be read by its consumer.
"""

from __future__ import annotations

import contextlib
import socket
import time
import warnings
from collections.abc import Iterator
from typing import Any

import aiokafka.record.default_records as aiokafka_records
import pytest
from aiokafka.record.memory_records import MemoryRecords as AiokafkaMemoryRecords
from confluent_kafka import Consumer, Producer, TopicPartition

from fencepost.batch.compression import CODECS
from fencepost.batch.header import iter_headers, read_header
from fencepost.batch.produced import ProduceRules, prepare_produced
from fencepost.batch.records import Record, read_records
from fencepost.wire.api import FetchRequest, FetchResponse, ProduceRequest, ProduceResponse
from fencepost.wire.api.fetch import FetchPartition, FetchTopic
from fencepost.wire.api.produce import PartitionProduceData, TopicProduceData
from fencepost.wire.frame import decode_response, encode_request

from ..waiting import DEADLINE_S
from .samples import CODEC_NAMES, NOW_MS, build

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka.record.default_records as kafka_python_records
    from kafka.record.memory_records import MemoryRecords as KafkaPythonMemoryRecords

# aiokafka and kafka-python know no header without a key, and librdkafka none with an empty one.
RECORDS = [
    Record(0, NOW_MS, 0, b"key", b"value", ()),
    Record(1, NOW_MS + 5, 0, None, b"v" * 300, (("trace", b"1"), ("trace", b""))),
    Record(2, NOW_MS + 70_000, 0, b"", None, (("schlüssel", b"\xff\x00"), ("none", None))),
    *(Record(n, NOW_MS + n, 0, b"k%d" % n, b"text " * n, ()) for n in range(3, 40)),
]


def foreign_rows(batches: Any) -> list[tuple[Any, ...]]:
    return [
        (row.offset, row.timestamp, row.timestamp_type, row.key, row.value, tuple(row.headers))
        for batch in iter(batches.next_batch, None)
        for row in batch
    ]


@pytest.mark.parametrize("codec", CODEC_NAMES)
@pytest.mark.parametrize("reader", [KafkaPythonMemoryRecords, AiokafkaMemoryRecords])
def test_python_clients_read_ours(codec, reader):
    blob = build(RECORDS, codec) + build(RECORDS, codec, base_offset=40)
    rows = foreign_rows(reader(bytes(blob)))
    assert rows[:40] == RECORDS
    assert [row[0] for row in rows] == list(range(80))


@pytest.mark.parametrize("codec", CODEC_NAMES)
@pytest.mark.parametrize("client", [kafka_python_records, aiokafka_records])
def test_ours_reads_what_python_clients_build(codec, client):
    builder = client.DefaultRecordBatchBuilder(
        magic=2,
        compression_type=CODECS[codec],
        is_transactional=0,
        producer_id=17,
        producer_epoch=2,
        base_sequence=5,
        batch_size=1 << 20,
    )
    for record in RECORDS:
        builder.append(
            record.offset, record.timestamp_ms, record.key, record.value, list(record.headers)
        )
    batch = bytes(builder.build())
    assert list(read_records(batch)) == RECORDS
    header = prepare_produced(batch, ProduceRules(1 << 20)).header
    assert header.compression == CODECS[codec]
    assert (header.producer_id, header.base_sequence, header.last_sequence) == (17, 5, 44)
    if codec == "none":
        ours = build(RECORDS, producer_id=17, producer_epoch=2, base_sequence=5)
        assert batch[16:] == ours[16:]  # in front of that is what a leader stamps


class MockBroker:
    """librdkafka's broker for tests, spoken to in our own frames."""

    def __init__(self, address: tuple[str, int], keeper: Producer) -> None:
        self._keeper = keeper
        self.bootstrap = "{}:{}".format(*address)
        self._socket = socket.create_connection(address, timeout=60)

    def close(self) -> None:
        self._socket.close()

    def _ask(self, request: Any, version: int, response: Any) -> Any:
        self._socket.sendall(encode_request(request, version, 1, "tests"))
        size = int.from_bytes(self._read(4), "big")
        return decode_response(response, version, self._read(size))[1]

    def _read(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            piece = self._socket.recv(size - len(data))
            assert piece, "the mock broker disconnected"
            data += piece
        return bytes(data)

    def fetch(self, topic: str, offset: int) -> bytes:
        partition = FetchPartition(
            partition=0, fetch_offset=offset, partition_max_bytes=1 << 24, current_leader_epoch=-1
        )
        request = FetchRequest(
            max_wait_ms=100,
            min_bytes=1,
            max_bytes=1 << 24,
            session_epoch=-1,
            topics=[FetchTopic(topic=topic, partitions=[partition])],
        )
        answer = self._ask(request, 11, FetchResponse).responses[0].partitions[0]
        assert answer.error_code == 0
        return bytes(answer.records or b"")

    def produce(self, topic: str, batch: bytes) -> int:
        self._keeper.list_topics(topic, timeout=60)  # asking for it makes it
        request = ProduceRequest(
            acks=-1,
            timeout_ms=60_000,
            topic_data=[
                TopicProduceData(
                    name=topic, partition_data=[PartitionProduceData(index=0, records=batch)]
                )
            ],
        )
        answer = self._ask(request, 7, ProduceResponse).responses[0].partition_responses[0]
        assert answer.error_code == 0
        return int(answer.base_offset)


@pytest.fixture(scope="module")
def mock_broker() -> Iterator[MockBroker]:
    keeper = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "mock", "log_level": 0})
    (broker,) = keeper.list_topics(timeout=60).brokers.values()
    with contextlib.closing(MockBroker((broker.host, broker.port), keeper)) as mock:
        yield mock
    keeper.flush(1)


@pytest.mark.parametrize("codec", CODEC_NAMES)
def test_ours_reads_what_librdkafka_produces(codec, mock_broker, backend_name):
    topic = f"theirs-{codec}-{backend_name}"
    producer = Producer(
        {
            "bootstrap.servers": mock_broker.bootstrap,
            "compression.type": codec,
            "linger.ms": 100,
            "enable.idempotence": True,
        }
    )
    for record in RECORDS:
        producer.produce(
            topic,
            key=record.key,
            value=record.value,
            headers=list(record.headers),
            timestamp=record.timestamp_ms,
            partition=0,
        )
    assert producer.flush(10) == 0
    blob, records = b"", list[Record]()
    while len(records) < len(RECORDS):
        piece = mock_broker.fetch(topic, len(records))
        records += read_records(piece, start_offset=len(records))
        blob += piece
    assert records == RECORDS
    headers = [header for _, header in iter_headers(blob)]
    assert any(header.compression == CODECS[codec] for header in headers)
    for pos, header in iter_headers(blob):
        batch = blob[pos : pos + header.size_bytes]
        assert prepare_produced(batch, ProduceRules(1 << 20)).header.producer_id > 0


@pytest.mark.parametrize("codec", CODEC_NAMES)
def test_librdkafka_reads_ours(codec, mock_broker, backend_name):
    topic = f"ours-{codec}-{backend_name}"
    assert mock_broker.produce(topic, bytes(build(RECORDS, codec))) == 0
    assert mock_broker.produce(topic, bytes(build(RECORDS[:1], codec))) == len(RECORDS)
    consumer = Consumer(
        {"bootstrap.servers": mock_broker.bootstrap, "group.id": "g", "check.crcs": True}
    )
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        found: list[Record] = []
        deadline = time.monotonic() + DEADLINE_S
        while len(found) <= len(RECORDS) and time.monotonic() < deadline:
            message = consumer.poll(1)
            if message is None:
                continue
            assert message.error() is None, message.error()
            found.append(
                Record(
                    message.offset(),
                    message.timestamp()[1],
                    message.timestamp()[0] - 1,
                    message.key(),
                    message.value(),
                    tuple(message.headers() or ()),
                )
            )
    finally:
        consumer.close()
    assert found == [*RECORDS, RECORDS[0]._replace(offset=len(RECORDS))]


def test_the_mock_broker_stamps_what_a_leader_stamps(mock_broker, backend_name):
    topic = f"stamped-{backend_name}"
    batch = bytes(build(RECORDS[:2]))
    mock_broker.produce(topic, batch)
    mock_broker.produce(topic, batch)
    second = mock_broker.fetch(topic, 2)
    assert second[16:] == batch[16:]
    assert read_header(second).base_offset == 2
