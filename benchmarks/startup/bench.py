"""From process start to the first acknowledged record, and memory idle and after one gigabyte.

    python benchmarks/startup/bench.py [--rounds R] [--megabytes N]

The clock starts before the broker's process does and stops when a raw Produce request (acks=all,
to a topic made on the way) is answered. Each round uses a fresh directory.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from confluent_kafka import Producer

from benchmarks import peers
from fencepost.batch.records import build_batch
from fencepost.client.admin import Admin
from fencepost.client.cluster import Cluster as ClientCluster


def first_record(bootstrap: str) -> None:
    """Create a topic and have one record acknowledged, retrying until the broker is up."""
    from fencepost.client.producer import Producer as OurProducer

    with ClientCluster(bootstrap) as cluster:
        Admin(cluster).create_topic("first", partitions=1, replication_factor=1)
        with OurProducer(cluster) as producer:
            producer.send_batch("first", 0, build_batch([(b"k", b"v")], timestamp_ms=0))
            producer.flush()


def fill(bootstrap: str, megabytes: int) -> None:
    """Produce so many megabytes of 1 KB records with librdkafka."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "acks": "all"})
    value = bytes(1000)
    for _ in range(megabytes * 1000):
        while True:
            try:
                producer.produce("fill", value, partition=0)
                break
            except BufferError:
                producer.poll(0.01)
    assert producer.flush(120) == 0


def measure(name: str, megabytes: int) -> dict[str, float]:
    started = time.perf_counter()
    with getattr(peers, name)() as peer:
        listening = time.perf_counter() - started
        first_record(peer.bootstrap)
        first = time.perf_counter() - started
        time.sleep(1.0)
        idle = peer.rss_mb()
        fill(peer.bootstrap, megabytes)
        return {"listening": listening, "first": first, "idle": idle, "filled": peer.rss_mb()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--megabytes", type=int, default=1000)
    options = parser.parse_args()
    names = [name for name in peers.available() if name != "mock"]
    results: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    for number in range(options.rounds):
        print(f"round {number + 1} of {options.rounds}", file=sys.stderr)
        for name in names:
            results[name].append(measure(name, options.megabytes))
    rows = []
    for name, rounds in results.items():
        row = {key: statistics.median(one[key] for one in rounds) for key in rounds[0]}
        rows.append(
            [name, f"{row['listening']:.2f}", f"{row['first']:.2f}"]
            + [f"{row['idle']:.0f}", f"{row['filled']:.0f}"]
        )
    headings = ["broker", "listening s", "first ack s", "idle MB", f"after {options.megabytes} MB"]
    print(peers.table(headings, rows))


if __name__ == "__main__":
    main()
