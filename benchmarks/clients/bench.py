"""Produce and consume through librdkafka on each broker, in interleaved rounds of one run.

    python benchmarks/clients/bench.py [--records N] [--rounds R]

The same client code, settings and record sizes for every broker: acks=all, idempotence off (the
mock has none), linger 5 ms, batches of 1 MB at the most, one partition. On a broker that fsyncs
before it answers that includes the fsync; Apache Kafka acknowledges from the page cache.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import sys
import time
import uuid
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks import peers


def produce(
    peer: peers.Peer, topic: str, records: int, size_bytes: int, partition: int = 0
) -> float:
    """Seconds until all records are acknowledged."""
    producer = Producer(
        {
            "bootstrap.servers": peer.bootstrap,
            **peer.client,
            "linger.ms": 5,
            "acks": "all",
            "batch.size": 1_000_000,
            "queue.buffering.max.messages": 1_000_000,
            "queue.buffering.max.kbytes": 1_000_000,
        }
    )
    value = bytes(size_bytes)
    started = time.perf_counter()
    for _ in range(records):
        while True:
            try:
                producer.produce(topic, value, partition=partition)
                break
            except BufferError:
                producer.poll(0.01)
    assert producer.flush(120) == 0
    return time.perf_counter() - started


def consume(peer: peers.Peer, topic: str, records: int) -> float:
    """Seconds from the first fetch until all records have been read."""
    consumer = Consumer(
        {
            "bootstrap.servers": peer.bootstrap,
            **peer.client,
            "group.id": uuid.uuid4().hex,
            "enable.auto.commit": False,
            "fetch.message.max.bytes": 1_000_000,
            "queued.min.messages": 1_000_000,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    got = 0
    started = time.perf_counter()
    while got < records:
        messages = consumer.consume(10_000, 5.0)
        if not messages:
            raise SystemExit(f"{peer.name}: {got} of {records} records came")
        got += len(messages)
    took = time.perf_counter() - started
    consumer.close()
    return took


def one_round(peer: peers.Peer, records: int, size_bytes: int) -> dict[str, float]:
    topic = f"bench-{uuid.uuid4().hex[:8]}"
    if peer.pid is not None:  # the mock makes topics as they are named, and knows no admin
        admin = AdminClient({"bootstrap.servers": peer.bootstrap, **peer.client})
        admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(20)
    cpu = peer.cpu_s()
    wrote = produce(peer, topic, records, size_bytes)
    cpu_wrote = peer.cpu_s() - cpu
    # The mock keeps only the last few megabytes of a log, so there is nothing to compare.
    read = consume(peer, topic, records) if peer.pid is not None else float("nan")
    cpu_read = peer.cpu_s() - cpu - cpu_wrote
    return {"produce": wrote, "consume": read, "cpu_produce": cpu_wrote, "cpu_consume": cpu_read}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=400_000, help="records of 100 bytes a round")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with contextlib.ExitStack() as stack:
        running = [stack.enter_context(getattr(peers, name)()) for name in peers.available()]
        for size_bytes in (100, 1000):
            records = options.records if size_bytes == 100 else options.records // 4
            results: dict[str, list[dict[str, float]]] = {peer.name: [] for peer in running}
            for number in range(options.rounds + 1):
                print(f"{size_bytes} B, round {number} of {options.rounds}", file=sys.stderr)
                for peer in running:
                    result = one_round(peer, records, size_bytes)
                    if number:  # the first round warms everybody up
                        results[peer.name].append(result)
            print_table(results, records, size_bytes)


def print_table(results: dict[str, list[dict[str, float]]], records: int, size_bytes: int) -> None:
    medians = {
        name: {key: statistics.median(one[key] for one in rounds) for key in rounds[0]}
        for name, rounds in results.items()
    }
    ours = medians["fencepost"]
    rows = [
        [
            name,
            *(
                cell
                for way in ("produce", "consume")
                for cell in (
                    f"{records / row[way] / 1e3:,.0f}",
                    f"{records * size_bytes / row[way] / 1e6:,.0f}",
                    f"{row[way] / ours[way]:.2f}",
                    f"{row['cpu_' + way] / records * 1e9:,.0f}",
                )
            ),
        ]
        for name, row in medians.items()
    ]
    print(f"\n{size_bytes} B records, {records:,} a round, medians")
    headings = ["broker"]
    for way in ("produce", "consume"):
        headings += [f"{way} k/s", "MB/s", "ours is x", "broker ns/rec"]
    print(peers.table(headings, rows), flush=True)


if __name__ == "__main__":
    main()
