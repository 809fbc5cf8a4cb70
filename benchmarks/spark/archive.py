"""An archive of several GB, its replay, and an audit of the broker, on Spark standalone clusters.

    python benchmarks/spark/archive.py [--gb 1] [--partitions 4] [--workers 1 2] [--dir DIR]
                                       [--batch-bytes N] [--steps run compact replay audit] [--s3]

One broker of ours with one topic of 1 kB records; per number of workers (one core each) a new
cluster and a new archive. Says what `fencepost archive` and `fencepost audit` say, with the load of
the machine. With `--s3` the archive is in an S3 server of this machine (SeaweedFS), and its
checkpoint is not.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa

from fencepost.batch.columns_encode import BATCH_BYTES, encode_columns
from fencepost.client.admin import Admin
from fencepost.client.batch_producer import BatchProducer
from fencepost.client.cluster import Cluster as Client
from fencepost.testing import Cluster
from fencepost.testing.spark_standalone import SparkStandalone

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from tests.spark.storage.seaweed import BUCKET, s3_server

ROWS = 10_000
VALUE_BYTES = 1_000
STEPS = ("run", "compact", "replay", "audit")


def produce(servers: str, partitions: int, total_bytes: int, batch_bytes: int) -> int:
    """Records of random hexadecimal text, in batches of at most so many bytes; how many."""
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
            stamp_ms = now_ms + count // 1000
            for batch in encode_columns(
                rows, partition, timestamp_ms=stamp_ms, max_batch_bytes=batch_bytes
            ):
                producer.send_batch("big", partition, batch.data)
            count += ROWS
    return count


def run(words: list[str], spark: SparkStandalone, servers: str) -> dict[str, object]:
    """A command of `fencepost`; what it says as JSON, with the load before it."""
    load = os.getloadavg()[0]
    settings = [text for item in spark.settings.items() for text in ("--conf", "=".join(item))]
    command = [sys.executable, "-m", "fencepost.cli.main", *words, "--json"]
    command += ["--master", spark.master_url, *settings]
    if words[1] in ("run", "replay"):
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
    parser.add_argument("--batch-bytes", type=int, default=BATCH_BYTES)
    parser.add_argument("--steps", nargs="+", choices=STEPS, default=STEPS)
    parser.add_argument("--s3", action="store_true")
    arguments = parser.parse_args()
    base = Path(tempfile.mkdtemp(prefix="archive-bench-", dir=arguments.dir))
    try:
        logs = base / "broker"
        with contextlib.ExitStack() as stack:
            cluster = stack.enter_context(Cluster(faults=False, data_dir=logs))
            server = stack.enter_context(s3_server(base / "s3")) if arguments.s3 else None
            store = [
                word
                for key, value in (server.options if server else {}).items()
                for word in ("--storage", f"{key}={value}")
            ]
            servers = cluster.bootstrap_servers
            total_bytes = int(arguments.gb * 1e9)
            count = produce(servers, arguments.partitions, total_bytes, arguments.batch_bytes)
            print(f"{count:,} records of {VALUE_BYTES} bytes in {arguments.partitions} partitions")
            for workers in arguments.workers:
                local = base / f"{workers}-workers"
                place = f"s3a://{BUCKET}/{workers}" if server else str(local)
                checkpoint = ["--checkpoint", str(local)] if server else []
                with SparkStandalone(workers, cores=1, memory_mb=2048) as spark:
                    commands = {
                        "run": ["archive", "run", place, "big", *checkpoint, *store],
                        "compact": ["archive", "compact", place, "--discard", *store],
                        "replay": ["archive", "replay", place, "--to", f"again-{workers}", *store],
                        "audit": ["audit", str(logs), "--topic", "big", "--deep"],
                    }
                    for step in arguments.steps:
                        told = run(commands[step], spark, servers)
                        print(f"{workers} workers, {step}: {told}", flush=True)
                shutil.rmtree(local, ignore_errors=True)
    finally:
        shutil.rmtree(base, ignore_errors=True)


if __name__ == "__main__":
    main()
