"""Topics into data frames: fencepost.arrow beside other clients for Python, in interleaved rounds.

    python benchmarks/arrow/bench.py [--megabytes 200] [--rounds 3] [--codec zstd] [--broker apache]

A topic of four partitions is written once for each size of record. Every contender reads all of it
in a process of its own, from the first request to a frame with key, value, partition, offset and
timestamp, and says what CPU (all threads, user and system) and time that took; imports and the
connection's first use are outside. CPU comes first, because a machine that does other things too
gives it almost alike, which wall-clock time is not. The broker's CPU is not counted. `value` is of
a read of values alone, `sum` hands a scan's batches on to Arrow's compute and keeps none.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks import peers

PARTITIONS = 4
TIMEOUT_S = 900
COLUMNS = ["key", "value", "partition", "offset", "timestamp"]


def write(bootstrap: str, topic: str, records: int, size_bytes: int, codec: str) -> None:
    """Records with keys, and values half of which compresses."""
    import random

    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(60)
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "linger.ms": 50,
            "batch.size": 256_000,
            "compression.type": codec,
            "queue.buffering.max.kbytes": 1_000_000,
        }
    )
    dice = random.Random(1)
    half = size_bytes // 2
    values = [dice.randbytes(half) + bytes(size_bytes - half) for _ in range(1000)]
    for number in range(records):
        while True:
            with contextlib.suppress(BufferError):
                producer.produce(
                    topic, values[number % 1000], key=f"key-{number}", partition=number % PARTITIONS
                )
                break
            producer.poll(0.05)
    assert producer.flush(300) == 0


def arrow(bootstrap: str, topic: str, **arguments: Any) -> int:
    import fencepost.arrow

    arguments = {"columns": COLUMNS, **arguments}
    return int(fencepost.arrow.read(bootstrap, topics=topic, **arguments).num_rows)


def arrow_value(bootstrap: str, topic: str) -> int:
    return arrow(bootstrap, topic, columns=["value"])


def arrow_threads(bootstrap: str, topic: str) -> int:
    return arrow(bootstrap, topic, threads=2)


def arrow_pandas(bootstrap: str, topic: str) -> int:
    import fencepost.arrow

    scan = fencepost.arrow.scan(bootstrap, topics=topic, columns=COLUMNS)
    return len(scan.reader().read_pandas())


def arrow_polars(bootstrap: str, topic: str) -> int:
    import polars as pl

    import fencepost.arrow

    return len(pl.DataFrame(fencepost.arrow.scan(bootstrap, topics=topic, columns=COLUMNS)))


def arrow_sum(bootstrap: str, topic: str) -> int:
    import pyarrow.compute as pc

    import fencepost.arrow

    rows = size = 0
    for batch in fencepost.arrow.scan(bootstrap, topics=topic, columns=["value"]):
        rows += batch.num_rows
        size += pc.sum(pc.binary_length(batch.column(0))).as_py()
    assert size
    return rows


def confluent_rows(bootstrap: str, topic: str) -> dict[str, list[Any]]:
    """Columns of all records; batches as large as the library gives them."""
    from confluent_kafka import Consumer, KafkaError, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "bench",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "fetch.message.max.bytes": 8_000_000,
            "queued.min.messages": 1_000_000,
        }
    )
    consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    columns: dict[str, list[Any]] = {name: [] for name in COLUMNS}
    keys, values, partitions, offsets, times = columns.values()
    ended = 0
    while ended < PARTITIONS:
        for message in consumer.consume(10_000, 5.0):
            error = message.error()
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF
                ended += 1
                continue
            keys.append(message.key())
            values.append(message.value())
            partitions.append(message.partition())
            offsets.append(message.offset())
            times.append(message.timestamp()[1])
    consumer.close()
    return columns


def confluent_pandas(bootstrap: str, topic: str) -> int:
    import pandas as pd

    frame = pd.DataFrame(confluent_rows(bootstrap, topic))
    frame["timestamp"] = pd.to_datetime(frame["timestamp"], unit="ms", utc=True)
    return len(frame)


def confluent_polars(bootstrap: str, topic: str) -> int:
    import polars as pl

    frame = pl.DataFrame(confluent_rows(bootstrap, topic))
    return len(frame.with_columns(pl.from_epoch("timestamp", time_unit="ms")))


def kafka_python_pandas(bootstrap: str, topic: str) -> int:
    import pandas as pd
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap,
        enable_auto_commit=False,
        max_partition_fetch_bytes=8_000_000,
        max_poll_records=10_000,
    )
    where = [TopicPartition(topic, number) for number in range(PARTITIONS)]
    consumer.assign(where)
    consumer.seek_to_beginning()
    left = sum(consumer.end_offsets(where).values())
    columns: dict[str, list[Any]] = {name: [] for name in COLUMNS}
    keys, values, partitions, offsets, times = columns.values()
    while left:
        for records in consumer.poll(5000).values():
            left -= len(records)
            for record in records:
                keys.append(record.key)
                values.append(record.value)
                partitions.append(record.partition)
                offsets.append(record.offset)
                times.append(record.timestamp)
    consumer.close()
    frame = pd.DataFrame(columns)
    frame["timestamp"] = pd.to_datetime(frame["timestamp"], unit="ms", utc=True)
    return len(frame)


CONTENDERS: dict[str, Callable[[str, str], int]] = {
    "fencepost.arrow, table": arrow,
    "fencepost.arrow, table, 2 threads": arrow_threads,
    "fencepost.arrow, pandas": arrow_pandas,
    "fencepost.arrow, Polars": arrow_polars,
    "fencepost.arrow, value": arrow_value,
    "fencepost.arrow, sum": arrow_sum,
    "confluent-kafka, pandas": confluent_pandas,
    "confluent-kafka, Polars": confluent_polars,
    "kafka-python, pandas": kafka_python_pandas,
}


def run_one(name: str, bootstrap: str, topic: str, warm_up: str) -> None:
    """In the child: read a small topic first, then the large one; print what it took."""
    read = CONTENDERS[name]
    read(bootstrap, warm_up)
    before = resource.getrusage(resource.RUSAGE_SELF)
    started = time.perf_counter()
    rows = read(bootstrap, topic)
    took_s = time.perf_counter() - started
    after = resource.getrusage(resource.RUSAGE_SELF)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(json.dumps({"rows": rows, "cpu_s": cpu_s, "wall_s": took_s, "rss_kb": after.ru_maxrss}))


def measure(name: str, bootstrap: str, topic: str, warm_up: str) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, __file__, "--one", name, bootstrap, topic, warm_up],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=TIMEOUT_S,
    )
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def compare(bootstrap: str, size_bytes: int, records: int, arguments: Any) -> list[list[str]]:
    """Rows of the table: of all rounds the least CPU, and medians of time and memory."""
    topic, warm_up = f"bench-{size_bytes}", f"warm-{size_bytes}"
    write(bootstrap, warm_up, 1000, size_bytes, arguments.codec)
    write(bootstrap, topic, records, size_bytes, arguments.codec)
    names = [name for name in CONTENDERS if not arguments.only or arguments.only in name]
    taken: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    for _ in range(arguments.rounds):
        for name in names:
            found = measure(name, bootstrap, topic, warm_up)
            assert found["rows"] == records, (name, found)
            taken[name].append(found)
    rows = []
    for name, all_found in taken.items():
        cpu_s = min(one["cpu_s"] for one in all_found)
        wall_s = statistics.median(one["wall_s"] for one in all_found)
        peak_mb = statistics.median(one["rss_kb"] for one in all_found) / 1000
        rows.append(
            [
                f"{size_bytes} B",
                name,
                f"{cpu_s / records * 1e6:.2f}",
                f"{records / cpu_s / 1e6:.2f}",
                f"{records * size_bytes / cpu_s / 1e6:,.0f}",
                f"{records / wall_s / 1e6:.2f}",
                f"{peak_mb:,.0f}",
            ]
        )
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=200, help="of values, for each size")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sizes", default="100,1000", help="bytes of a value")
    parser.add_argument("--codec", default="none")
    parser.add_argument("--broker", choices=["fencepost", "apache"], default="fencepost")
    parser.add_argument("--only", help="contenders whose name has this")
    parser.add_argument("--one", nargs=4, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        run_one(*arguments.one)
        return 0
    rows = []
    with getattr(peers, arguments.broker)() as peer:
        for size in map(int, arguments.sizes.split(",")):
            rows += compare(
                peer.bootstrap, size, arguments.megabytes * 1_000_000 // size, arguments
            )
        load = Path("/proc/loadavg").read_text().split()[0]
    headings = ["value", "reader", "CPU µs/record", "M records/s per core", "MB/s per core",
                "M records/s", "peak MB"]  # fmt: skip
    print(f"{peer.name}, {arguments.codec}, load {load} at the end")
    print(peers.table(headings, rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
