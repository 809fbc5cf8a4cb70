"""Transactions by three clients of their own lineages: what is committed is read, once."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable

import aiokafka
import confluent_kafka
import kafka
import pytest
from confluent_kafka import Consumer, KafkaException, Producer

from ..waiting import DEADLINE_S, eventually

pytestmark = [pytest.mark.clients]

TRANSACTIONS = 4
RECORDS = 5
COMMITTED = sorted(f"{n}-{k}".encode() for n in range(0, TRANSACTIONS, 2) for k in range(RECORDS))
"""Every second transaction is aborted."""


def new_id() -> str:
    return f"x-{uuid.uuid4().hex[:10]}"


def with_confluent(bootstrap: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": new_id()})
    producer.init_transactions(DEADLINE_S)
    for n in range(TRANSACTIONS):
        producer.begin_transaction()
        for k in range(RECORDS):
            producer.produce(topic, f"{n}-{k}".encode(), partition=k % 2)
        assert producer.flush(DEADLINE_S) == 0
        if n % 2:
            producer.abort_transaction(DEADLINE_S)
        else:
            producer.commit_transaction(DEADLINE_S)


def with_kafka_python(bootstrap: str, topic: str) -> None:
    producer = kafka.KafkaProducer(bootstrap_servers=bootstrap, transactional_id=new_id())
    producer.init_transactions()
    for n in range(TRANSACTIONS):
        producer.begin_transaction()
        for k in range(RECORDS):
            producer.send(topic, f"{n}-{k}".encode(), partition=k % 2)
        producer.flush(DEADLINE_S)
        if n % 2:
            producer.abort_transaction()
        else:
            producer.commit_transaction()
    producer.close()


def with_aiokafka(bootstrap: str, topic: str) -> None:
    async def go() -> None:
        producer = aiokafka.AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=new_id())
        await producer.start()
        for n in range(TRANSACTIONS):
            await producer.begin_transaction()
            for k in range(RECORDS):
                await producer.send_and_wait(topic, f"{n}-{k}".encode(), partition=k % 2)
            if n % 2:
                await producer.abort_transaction()
            else:
                await producer.commit_transaction()
        await producer.stop()

    asyncio.run(go())


def committed_in(bootstrap: str, topic: str, count: int) -> list[bytes]:
    """What readers of committed records see, up to `count` records and the end."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": new_id(),
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    ends = {confluent_kafka.TopicPartition(topic, index): False for index in (0, 1)}
    consumer.assign([confluent_kafka.TopicPartition(topic, index, 0) for index in (0, 1)])
    got: list[bytes] = []

    def all_read() -> bool:
        for message in consumer.consume(100, 0.1):
            error = message.error()
            if error is None:
                got.append(message.value())
            else:
                assert error.code() == confluent_kafka.KafkaError._PARTITION_EOF, error
                ends[confluent_kafka.TopicPartition(topic, message.partition())] = True
        return len(got) >= count and all(ends.values())

    eventually(all_read, "the end of both partitions")
    consumer.close()
    return sorted(got)


@pytest.mark.parametrize("write", [with_confluent, with_kafka_python, with_aiokafka])
def test_what_is_committed_is_read_and_what_is_aborted_is_not(
    bootstrap: str, make_topic: Callable[..., str], write: Callable[[str, str], None]
) -> None:
    topic = make_topic(2)
    write(bootstrap, topic)
    assert committed_in(bootstrap, topic, len(COMMITTED)) == COMMITTED


def test_offsets_and_records_of_a_transaction_appear_together(
    bootstrap: str, make_topic: Callable[..., str]
) -> None:
    source, sink, group = make_topic(1), make_topic(2), new_id()
    with_confluent(bootstrap, make_topic(2))  # others do something meanwhile
    plain = Producer({"bootstrap.servers": bootstrap})
    for n in range(RECORDS):
        plain.produce(source, b"%d" % n)
    assert plain.flush(DEADLINE_S) == 0
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": new_id()})
    producer.init_transactions(DEADLINE_S)
    for committed in (False, True):
        consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )
        consumer.subscribe([source])
        producer.begin_transaction()
        read = 0
        while read < RECORDS:
            message = consumer.poll(DEADLINE_S)
            assert message is not None and message.error() is None
            producer.produce(sink, message.value(), partition=read % 2)
            read += 1
        metadata = consumer.consumer_group_metadata()
        positions = consumer.position(consumer.assignment())
        producer.send_offsets_to_transaction(positions, metadata, DEADLINE_S)
        if committed:
            producer.commit_transaction(DEADLINE_S)
        else:
            producer.abort_transaction(DEADLINE_S)
        (stored,) = consumer.committed(consumer.assignment(), DEADLINE_S)
        assert stored.offset == (RECORDS if committed else confluent_kafka.OFFSET_INVALID)
        consumer.close()
    assert committed_in(bootstrap, sink, RECORDS) == [b"%d" % n for n in range(RECORDS)]


def test_a_second_producer_of_an_id_fences_the_first(
    bootstrap: str, make_topic: Callable[..., str]
) -> None:
    topic, settings = make_topic(2), {"bootstrap.servers": bootstrap, "transactional.id": new_id()}
    first, second = Producer(settings), Producer(settings)
    first.init_transactions(DEADLINE_S)
    first.begin_transaction()
    first.produce(topic, b"first", partition=0)
    assert first.flush(DEADLINE_S) == 0
    second.init_transactions(DEADLINE_S)
    with pytest.raises(KafkaException) as raised:
        first.commit_transaction(DEADLINE_S)
    assert raised.value.args[0].code() == confluent_kafka.KafkaError._FENCED
    second.begin_transaction()
    second.produce(topic, b"second", partition=0)
    second.commit_transaction(DEADLINE_S)
    assert committed_in(bootstrap, topic, 1) == [b"second"]
