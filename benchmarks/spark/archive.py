"""An archive of several GB, its compaction and its replay, on Spark standalone clusters.

    python benchmarks/spark/archive.py [--gb 1] [--partitions 4] [--workers 1 2] [--dir DIR]

One broker of ours with one topic of 1 kB records; per number of workers (one core each) a new
cluster and a new archive. Says what `fencepost archive` says, with the load of the machine.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa

from fencepost.batch.columns import encode_columns
from fencepost.client.admin import Admin
from fencepost.client.batch_producer import BatchProducer
from fencepost.client.cluster import Cluster as Client
from fencepost.testing import Cluster
from fencepost.testing.spark_standalone import SparkStandalone

ROWS = 10_000
VALUE_BYTES = 1_000


def produce(servers: str, partitions: int, total_bytes: int) -> int:
    """Records of half random hexadecimal text; how many."""
    count = 0
    with Client(servers) as client, BatchProducer(client) as producer:
        Admin(client).create_topic("big", partitions, configs={"retention.ms": "-1"})
        Admin(client).wait_for_topic("big")
        now_ms = int(time.time() * 1000)
        while count * VALUE_BYTES < total_bytes:
            noise = os.urandom(ROWS * VALUE_BYTES // 2).hex().encode()
            values = [noise[at : at + VALUE_BYTES] for at in range(0, len(noise), VALUE_BYTES)]
            rows = pa.RecordBatch.from_pydict(
                {
                    "key": pa.array([b"%d" % (count + n) for n in range(ROWS)]),
                    "value": pa.array(values),
                }
            )
            partition = count // ROWS % partitions
            for batch in encode_columns(rows, partition, timestamp_ms=now_ms + count // 1000):
                producer.send_batch("big", partition, batch.data)
            count += ROWS
    return count


def run(words: list[str], spark: SparkStandalone, servers: str) -> dict[str, object]:
    """A command of `fencepost archive`; what it says as JSON, with the load before it."""
    load = os.getloadavg()[0]
    settings = [text for item in spark.settings.items() for text in ("--conf", "=".join(item))]
    command = [sys.executable, "-m", "fencepost.cli.main", "archive", *words, "--json"]
    command += ["--master", spark.master_url, *settings]
    if words[0] != "compact":
        command += ["-b", servers]
    started = time.monotonic()
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    told: dict[str, object] = json.loads(done.stdout)
    told |= {"with_start_s": round(time.monotonic() - started, 1), "load": round(load, 1)}
    return told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gb", type=float, default=1)
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--dir", type=Path)
    arguments = parser.parse_args()
    base = Path(tempfile.mkdtemp(prefix="archive-bench-", dir=arguments.dir))
    try:
        with Cluster(faults=False) as cluster:
            servers = cluster.bootstrap_servers
            count = produce(servers, arguments.partitions, int(arguments.gb * 1e9))
            print(f"{count:,} records of {VALUE_BYTES} bytes in {arguments.partitions} partitions")
            for workers in arguments.workers:
                place = str(base / f"{workers}-workers")
                with SparkStandalone(workers, cores=1, memory_mb=2048) as spark:
                    for words in (
                        ["run", place, "big"],
                        ["compact", place, "--discard"],
                        ["replay", place, "--to", f"again-{workers}"],
                    ):
                        print(f"{workers} workers, {words[0]}:", run(words, spark, servers))
                        sys.stdout.flush()
                shutil.rmtree(place)
    finally:
        shutil.rmtree(base, ignore_errors=True)


if __name__ == "__main__":
    main()
