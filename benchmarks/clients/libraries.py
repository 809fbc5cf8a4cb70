"""CPU that clients written for Python take per record, on one broker of ours, in one table.

    python benchmarks/clients/libraries.py [--records N] [--rounds R] [--client NAME]

Every measurement is a process of its own, which warms up and then reads its own CPU time before
and after, all threads included; the rounds of all clients are interleaved and the table has
medians. Produced are records with a key of 16 bytes to four partitions, acks=all, idempotence off,
batches of 100,000 bytes at the most; consumed are the same, with key, value and offset of each
record looked at.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import statistics
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks import peers

PARTITIONS = 4
BATCH_BYTES = 100_000
KEYS = [b"customer-%07d" % number for number in range(10_000)]
CODECS = ("none", "lz4")
SIZES_BYTES = (100, 1000)

Produce = Callable[[str, str, list[bytes], int, str], None]
Consume = Callable[[str, str, int], None]


def values_of(size_bytes: int) -> list[bytes]:
    """Lines of text that differ, and that lz4 halves or better, as logs and JSON do."""
    line = '{"order": %d, "state": "shipped", "total_cents": %d, "note": "left at the door"} '
    made = []
    for number in range(1_000):
        text = "".join(line % (number + at, number * 7919 % 100_003) for at in range(13))
        made.append(text.encode()[:size_bytes])
    return made


def rows(values: list[bytes], records: int) -> Iterator[tuple[bytes, bytes]]:
    """As many keys and values."""
    return itertools.islice(zip(itertools.cycle(KEYS), itertools.cycle(values)), records)


def confluent_produce(
    bootstrap: str, topic: str, values: list[bytes], records: int, codec: str
) -> None:
    """Without delivery reports, librdkafka's fastest way."""
    from confluent_kafka import Producer

    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "linger.ms": 5,
            "acks": "all",
            "batch.size": BATCH_BYTES,
            "compression.type": codec,
            "partitioner": "murmur2_random",
        }
    )
    for key, value in rows(values, records):
        while True:
            try:
                producer.produce(topic, value, key)
                break
            except BufferError:
                producer.poll(0.01)
    assert producer.flush(120) == 0


def confluent_consume(bootstrap: str, topic: str, records: int) -> None:
    """Up to ten thousand messages a call."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": uuid.uuid4().hex,
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    got = 0
    while got < records:
        for message in consumer.consume(10_000, 5.0):
            look_at(message.key(), message.value(), message.offset())
            got += 1
    consumer.close()


def kafka_python_produce(
    bootstrap: str, topic: str, values: list[bytes], records: int, codec: str
) -> None:
    """Its sender is a thread."""
    from kafka import KafkaProducer

    producer = KafkaProducer(
        bootstrap_servers=bootstrap,
        acks="all",
        enable_idempotence=False,
        linger_ms=5,
        batch_size=BATCH_BYTES,
        compression_type=None if codec == "none" else codec,
    )
    for key, value in rows(values, records):
        producer.send(topic, value, key)
    producer.flush(120)
    producer.close()


def kafka_python_consume(bootstrap: str, topic: str, records: int) -> None:
    """What a poll returns, partition by partition."""
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap, auto_offset_reset="earliest", max_poll_records=10_000
    )
    consumer.assign([TopicPartition(topic, number) for number in range(PARTITIONS)])
    got = 0
    while got < records:
        for found in consumer.poll(5_000).values():
            for record in found:
                look_at(record.key, record.value, record.offset)
            got += len(found)
    consumer.close()


def aiokafka_produce(
    bootstrap: str, topic: str, values: list[bytes], records: int, codec: str
) -> None:
    """A future for each record; none of them is awaited."""
    from aiokafka import AIOKafkaProducer

    async def run() -> None:
        async with AIOKafkaProducer(
            bootstrap_servers=bootstrap,
            acks="all",
            linger_ms=5,
            max_batch_size=BATCH_BYTES,
            compression_type=None if codec == "none" else codec,
        ) as producer:
            for key, value in rows(values, records):
                await producer.send(topic, value, key)
            await producer.flush()

    asyncio.run(run())


def aiokafka_consume(bootstrap: str, topic: str, records: int) -> None:
    """`getmany`, up to ten thousand records a call."""
    from aiokafka import AIOKafkaConsumer, TopicPartition

    async def run() -> None:
        async with AIOKafkaConsumer(
            bootstrap_servers=bootstrap, auto_offset_reset="earliest"
        ) as consumer:
            consumer.assign([TopicPartition(topic, number) for number in range(PARTITIONS)])
            await drain(consumer, records)

    asyncio.run(run())


async def drain(consumer: Any, records: int) -> None:
    """Of aiokafka's consumer or ours, whose methods have the same names."""
    got = 0
    while got < records:
        for found in (await consumer.getmany(timeout_ms=5_000, max_records=10_000)).values():
            for record in found:
                look_at(record.key, record.value, record.offset)
            got += len(found)


def settings(codec: str = "none") -> dict[str, Any]:
    """Of both faces of `fencepost.client`."""
    return {
        "enable_idempotence": False,
        "linger_ms": 5,
        "batch_size": BATCH_BYTES,
        "compression_type": codec,
        "group_id": uuid.uuid4().hex,
        "auto_offset_reset": "earliest",
    }


def fencepost_produce(
    bootstrap: str, topic: str, values: list[bytes], records: int, codec: str
) -> None:
    """The blocking face, which has no thread."""
    from fencepost.client.cluster import Cluster
    from fencepost.client.producer import Producer

    with Cluster(bootstrap, **settings(codec)) as cluster, Producer(cluster) as producer:
        for key, value in rows(values, records):
            producer.send(topic, value, key)


def fencepost_consume(bootstrap: str, topic: str, records: int) -> None:
    """A member of a group of its own."""
    from fencepost.client.cluster import Cluster
    from fencepost.client.consumer import Consumer

    with Cluster(bootstrap, **settings()) as cluster, Consumer(cluster, [topic]) as consumer:
        got = 0
        while got < records:
            for fetched in consumer.poll():
                for record in fetched.read_records():
                    look_at(record.key, record.value, record.offset)
                    got += 1


def on_a_loop(
    bootstrap: str, codec: str, action: Callable[[Any], Coroutine[Any, Any, None]]
) -> None:
    """Run the asynchronous face of `fencepost.client`."""
    from fencepost.client.aio.cluster import AsyncCluster

    async def run() -> None:
        async with AsyncCluster(bootstrap, **settings(codec)) as cluster:
            await action(cluster)

    asyncio.run(run())


def fencepost_aio_produce(
    bootstrap: str, topic: str, values: list[bytes], records: int, codec: str
) -> None:
    """A future for each record; none of them is awaited."""
    from fencepost.client.aio.producer import AsyncProducer

    async def produce(cluster: Any) -> None:
        async with AsyncProducer(cluster) as producer:
            for key, value in rows(values, records):
                await producer.send(topic, value, key)

    on_a_loop(bootstrap, codec, produce)


def fencepost_aio_consume(bootstrap: str, topic: str, records: int) -> None:
    """`getmany`, up to ten thousand records a call."""
    from fencepost.client.aio.consumer import AsyncConsumer

    async def consume(cluster: Any) -> None:
        async with AsyncConsumer(cluster, [topic]) as consumer:
            await drain(consumer, records)

    on_a_loop(bootstrap, "none", consume)


def look_at(key: bytes | None, value: bytes | None, offset: int) -> None:
    """What an application does at least with a record."""


CLIENTS: dict[str, tuple[Produce, Consume]] = {
    "fencepost.client": (fencepost_produce, fencepost_consume),
    "fencepost.client.aio": (fencepost_aio_produce, fencepost_aio_consume),
    "confluent-kafka": (confluent_produce, confluent_consume),
    "kafka-python": (kafka_python_produce, kafka_python_consume),
    "aiokafka": (aiokafka_produce, aiokafka_consume),
}


def measure_here(name: str, way: str, bootstrap: str, topic: str, how: dict[str, Any]) -> None:
    """Do it twice, a tenth first, and print CPU and elapsed seconds of the second time."""
    produce, consume = CLIENTS[name]
    values, records, codec = values_of(how["size_bytes"]), how["records"], how["codec"]
    for share in (records // 10, records):
        cpu, started = time.process_time(), time.perf_counter()
        if way == "produce":
            produce(bootstrap, topic, values, share, codec)
        else:
            consume(bootstrap, topic, share)
    print(json.dumps([time.process_time() - cpu, time.perf_counter() - started]))


def measure(name: str, way: str, bootstrap: str, topic: str, **how: Any) -> tuple[float, float]:
    """CPU and elapsed seconds of a process that produces or consumes so many records."""
    arguments = ["--one", json.dumps([name, way, bootstrap, topic, how])]
    result = subprocess.run(
        [sys.executable, __file__, *arguments], stdout=subprocess.PIPE, text=True, check=True
    )
    cpu_s, elapsed_s = json.loads(result.stdout.splitlines()[-1])
    return cpu_s, elapsed_s


def new_topic(bootstrap: str) -> str:
    from confluent_kafka.admin import AdminClient, NewTopic

    topic = f"bench-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(20)
    return topic


def main() -> None:
    """Measure everybody and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=200_000, help="a measurement's")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--client", choices=CLIENTS, action="append", help="only these")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        measure_here(*json.loads(options.one))
        return
    clients = options.client or list(CLIENTS)
    cpu_us: dict[tuple[str, str, int, str], list[float]] = {}
    began = os.getloadavg()
    with peers.fencepost() as broker:
        for number, size_bytes, codec in itertools.product(
            range(options.rounds), SIZES_BYTES, CODECS
        ):
            print(f"round {number + 1}: {size_bytes} B, {codec}", file=sys.stderr)
            how = {"records": options.records, "size_bytes": size_bytes, "codec": codec}
            for name in clients:
                topic = new_topic(broker.bootstrap)
                for way in ("produce", "consume"):
                    cpu_s, _ = measure(name, way, broker.bootstrap, topic, **how)
                    key = (name, way, size_bytes, codec)
                    cpu_us.setdefault(key, []).append(cpu_s / options.records * 1e6)
    ways = list(itertools.product(("produce", "consume"), SIZES_BYTES, CODECS))
    headings = ["client, µs"]
    headings += [
        f"{way} {size_bytes} B" + (f" {codec}" if codec != "none" else "")
        for way, size_bytes, codec in ways
    ]
    lines = [
        [name, *(f"{statistics.median(cpu_us[name, *one]):.2f}" for one in ways)]
        for name in clients
    ]
    print(
        f"\nCPU of the client per record, medians of {options.rounds} rounds of "
        f"{options.records:,} records; load {began[0]:.1f} before, "
        f"{os.getloadavg()[0]:.1f} after\n"
    )
    print(peers.table(headings, lines), flush=True)


if __name__ == "__main__":
    main()
