"""A read-process-write chain in a process of its own, to be killed: read, write, commit together.

    python -m tests.replication.exactly_once_chain CLIENT SERVERS GROUP NAME SOURCE TARGET

Every record of SOURCE is written to TARGET, in transactions that take along the group's offsets.
NAME is the transactional id; with "static-" before it, it is the group instance id, too. What goes
wrong ends the process, unless the client can go on: the test starts it again.
"""

from __future__ import annotations

import asyncio
import faulthandler
import logging
import sys

SESSION_TIMEOUT_MS = 6_000
TRANSACTION_TIMEOUT_MS = 10_000
CALL_TIMEOUT_S = 15.0
TURN_TIMEOUT_S = 20.0
"""A turn that takes longer ends the process, with its stack in the log: see `confluent`."""
RECORDS_PER_TURN = 40


def instance_id(name: str) -> str | None:
    """The group instance id of a chain of this name, if it is a static member (KIP-345)."""
    return name if name.startswith("static-") else None


def ours(servers: str, group: str, name: str, source: str, target: str) -> None:
    """With fencepost.client, which goes on where it stood when a transaction has to be aborted."""
    from fencepost.client.cluster import Cluster
    from fencepost.client.consumer import Consumer
    from fencepost.client.errors import AbortableTransactionError
    from fencepost.client.metadata import CommittedOffset
    from fencepost.client.producer import Producer

    reading = Cluster(
        servers,
        group_id=group,
        group_instance_id=instance_id(name),
        session_timeout_ms=SESSION_TIMEOUT_MS,
        max_poll_interval_ms=SESSION_TIMEOUT_MS,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
        max_partition_fetch_bytes=4_000,
    )
    writing = Cluster(
        servers,
        transactional_id=name,
        transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
        allow_auto_create_topics=False,
    )
    producer = Producer(writing)
    producer.init_transactions()
    consumer = Consumer(reading, [source])
    while True:
        faulthandler.dump_traceback_later(TURN_TIMEOUT_S * 2, exit=True)
        found = consumer.poll()
        if not found:
            continue
        try:
            with producer.transaction():
                offsets = {}
                for fetched in found:
                    for record in fetched.read_records():
                        producer.send(target, record.value, partition=fetched.partition.partition)
                    offsets[fetched.partition] = CommittedOffset(
                        fetched.next_offset, fetched.last_epoch
                    )
                producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata())
        except AbortableTransactionError:
            logging.exception("aborted")
            for fetched in found:
                consumer.seek(fetched.partition, fetched.start_offset)


def ours_asyncio(servers: str, group: str, name: str, source: str, target: str) -> None:
    """With fencepost.client.aio, in the same way."""

    async def run() -> None:
        from fencepost.client.aio import AsyncCluster, AsyncConsumer, AsyncProducer
        from fencepost.client.errors import AbortableTransactionError

        reading = AsyncCluster(
            servers,
            group_id=group,
            group_instance_id=instance_id(name),
            session_timeout_ms=SESSION_TIMEOUT_MS,
            max_poll_interval_ms=SESSION_TIMEOUT_MS,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            max_partition_fetch_bytes=4_000,
        )
        writing = AsyncCluster(
            servers, transactional_id=name, transaction_timeout_ms=TRANSACTION_TIMEOUT_MS
        )
        async with (
            reading,
            writing,
            AsyncProducer(writing) as producer,
            AsyncConsumer(reading, [source]) as consumer,
        ):
            while True:
                faulthandler.dump_traceback_later(TURN_TIMEOUT_S * 2, exit=True)
                found = await consumer.getmany(timeout_ms=500, max_records=RECORDS_PER_TURN)
                if not found:
                    continue
                try:
                    async with producer.transaction():
                        for part, records in found.items():
                            for record in records:
                                await producer.send(target, record.value, partition=part.partition)
                        await producer.send_offsets_to_transaction(
                            {part: records[-1].offset + 1 for part, records in found.items()},
                            consumer.consumer_group_metadata(),
                        )
                except AbortableTransactionError:
                    logging.exception("aborted")
                    for part, records in found.items():
                        consumer.seek(part, records[0].offset)

    asyncio.run(run())


def confluent(servers: str, group: str, name: str, source: str, target: str) -> None:
    """With confluent-kafka (librdkafka).

    librdkafka (seen with 2.16.0) may wait for ever in send_offsets_to_transaction when the group's
    coordinator is killed. AddOffsetsToTxn is answered, FindCoordinator still names the broker that
    is dead and not fenced yet, and its connection is refused. When that broker then leaves the
    metadata, its handle ends ("Decommissioning this broker" in the log with `debug` "broker"); the
    request waits for that very handle and is never sent, although the broker comes back
    and every request was answered (librdkafka's issue 5511). The call's own timeout is looked at
    nowhere on that way (issue 5456). With Apache Kafka's brokers, a coordinator killed before the
    call does the same; with librdkafka's mock brokers, one of them down, it does not end either.
    """
    from confluent_kafka import Consumer, Producer, TopicPartition

    common = {
        "bootstrap.servers": servers,
        "debug": "eos,cgrp,protocol",
    }  # for the log that a failed test shows
    static = {"group.instance.id": name} if instance_id(name) else {}
    consumer = Consumer(
        {
            **common,
            **static,
            "group.id": group,
            "session.timeout.ms": SESSION_TIMEOUT_MS,
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )
    producer = Producer(
        {
            **common,
            "transactional.id": name,
            "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
        }
    )
    producer.init_transactions(CALL_TIMEOUT_S)
    consumer.subscribe([source])
    while True:
        faulthandler.dump_traceback_later(TURN_TIMEOUT_S, exit=True)
        messages = consumer.consume(RECORDS_PER_TURN, 0.5)
        if any(message.error() is not None for message in messages):
            raise SystemExit(1)
        if not messages:
            continue
        producer.begin_transaction()
        offsets = {}
        for message in messages:
            partition = message.partition()
            producer.produce(target, message.value(), partition=partition)
            offsets[partition] = TopicPartition(source, partition, message.offset() + 1)
        group_metadata = consumer.consumer_group_metadata()
        producer.send_offsets_to_transaction(list(offsets.values()), group_metadata, CALL_TIMEOUT_S)
        producer.commit_transaction(CALL_TIMEOUT_S)


def aiokafka(servers: str, group: str, name: str, source: str, target: str) -> None:
    """With aiokafka; it names the group alone with its offsets (no KIP-447), so only one process
    may run the chain."""

    async def run() -> None:
        from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

        producer = AIOKafkaProducer(
            bootstrap_servers=servers,
            transactional_id=name,
            transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
        )
        await asyncio.wait_for(producer.start(), CALL_TIMEOUT_S)
        consumer = AIOKafkaConsumer(
            source,
            bootstrap_servers=servers,
            group_id=group,
            group_instance_id=instance_id(name),
            session_timeout_ms=SESSION_TIMEOUT_MS,
            heartbeat_interval_ms=SESSION_TIMEOUT_MS // 3,
            isolation_level="read_committed",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            max_poll_records=RECORDS_PER_TURN,
        )
        await asyncio.wait_for(consumer.start(), CALL_TIMEOUT_S)
        while True:
            faulthandler.dump_traceback_later(TURN_TIMEOUT_S, exit=True)
            found = await consumer.getmany(timeout_ms=500)
            if not found:
                continue
            async with producer.transaction():
                offsets = {}
                for partition, records in found.items():
                    for record in records:
                        await producer.send(target, record.value, partition=partition.partition)
                    offsets[TopicPartition(source, partition.partition)] = records[-1].offset + 1
                await producer.send_offsets_to_transaction(offsets, group)

    asyncio.run(run())


CLIENTS = {
    "ours": ours,
    "ours-asyncio": ours_asyncio,
    "confluent": confluent,
    "aiokafka": aiokafka,
}

if __name__ == "__main__":
    logging.basicConfig(format="%(asctime)s %(message)s", level=logging.INFO)
    logging.getLogger("fencepost.client").setLevel(logging.DEBUG)
    CLIENTS[sys.argv[1]](*sys.argv[2:])
