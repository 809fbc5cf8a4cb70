"""How long a node takes to load the cluster's image from a snapshot, and what the image weighs.

    python benchmarks/quorum/image_load.py [--partitions N] [--per-topic N] [--rounds R]

A snapshot of a made-up cluster (12 brokers, 3 replicas each) is written once, as a running node
writes it. Every round starts a new process that opens the metadata log as `serve` does: the file is
checked end to end, read again and made into an image. The time of the process's own start is left
out. Memory is what the process has grown by, and what the allocator of Python objects says of the
image alone. The numbers are this project's own; nothing is asserted.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks import peers
from fencepost.log.config import LogConfig
from fencepost.log.disk import OsDisk
from fencepost.log.load_params import LoadLogParams
from fencepost.log.partition_log import PartitionLog
from fencepost.log.snapshots import SnapshotHeader, SnapshotId, SnapshotStore
from fencepost.log.snapshots.opening import open_snapshots
from fencepost.machines.image import ClusterImage, apply_records
from fencepost.machines.image.records import image_values
from fencepost.runtime.metadata.replay import load_snapshot
from fencepost.wire.message import Message
from fencepost.wire.records import metadata as records
from fencepost.wire.types import Uuid

BROKERS = 12
REPLICAS = 3
SNAPSHOT_ID = SnapshotId(1_000_000, 5)


def made_up(partitions: int, per_topic: int) -> Iterator[Message]:
    """Records of a cluster with so many partitions."""
    draw = random.Random(4711)
    directories = [Uuid(draw.randbytes(16)) for _ in range(BROKERS)]
    yield records.FeatureLevelRecord(name="metadata.version", feature_level=30)
    for broker_id in range(BROKERS):
        endpoint = records.BrokerEndpoint(
            name="PLAINTEXT", host=f"broker-{broker_id}", port=9092, security_protocol=0
        )
        yield records.RegisterBrokerRecord(
            broker_id=broker_id,
            incarnation_id=Uuid(draw.randbytes(16)),
            broker_epoch=broker_id + 1,
            end_points=[endpoint],
            features=[],
            fenced=False,
            log_dirs=[directories[broker_id]],
        )
    for number in range(partitions // per_topic):
        topic_id = Uuid(draw.randbytes(16))
        yield records.TopicRecord(name=f"topic-{number}", topic_id=topic_id)
        for partition_id in range(per_topic):
            replicas = draw.sample(range(BROKERS), REPLICAS)
            yield records.PartitionRecord(
                partition_id=partition_id,
                topic_id=topic_id,
                replicas=replicas,
                isr=replicas,
                leader=replicas[0],
                leader_epoch=draw.randrange(1000),
                partition_epoch=draw.randrange(1000),
                directories=[directories[replica] for replica in replicas],
            )


def write_snapshot(directory: Path, partitions: int, per_topic: int) -> dict[str, float]:
    """Write the snapshot; seconds that took, and the megabytes of the file."""
    image = apply_records(ClusterImage(), made_up(partitions, per_topic), 0, SNAPSHOT_ID.epoch)
    store = SnapshotStore(OsDisk(), str(directory))
    started = time.perf_counter()
    writer = store.begin(SNAPSHOT_ID, SnapshotHeader(0), 0)
    writer.extend(image_values(image))
    writer.finish()
    store.publish(writer)
    seconds = time.perf_counter() - started
    return {"write_s": seconds, "file_mb": writer.size_bytes / 1e6}


def resident_mb() -> float:
    """What this process holds of the machine's memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 1e6


def load(directory: Path, *, traced: bool) -> dict[str, float]:
    """Open the log in `directory` and make the image, in this process."""
    gc.collect()
    before_mb = resident_mb()
    if traced:
        tracemalloc.start()
    started = time.perf_counter()
    config, params = LogConfig.from_props({}), LoadLogParams(wall_ms=0)
    log = PartitionLog.open(OsDisk(), str(directory), "__cluster_metadata", 0, config, params)
    store = open_snapshots(log)
    file = store.open(SNAPSHOT_ID)
    _, image = load_snapshot(file, store.path(SNAPSHOT_ID))
    file.close()
    seconds = time.perf_counter() - started
    gc.collect()
    measured = {
        "load_s": seconds,
        "grown_mb": resident_mb() - before_mb,
        "partitions": sum(len(topic.partitions) for topic in image.topics_by_id.values()),
    }
    if traced:
        measured["objects_mb"] = tracemalloc.get_traced_memory()[0] / 1e6
    log.close(clean=False)
    return measured


def load_elsewhere(directory: Path, *arguments: str) -> dict[str, float]:
    """`load` in a process of its own."""
    command = [sys.executable, __file__, "--load", str(directory), *arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return dict(json.loads(done.stdout))


def measure(partitions: int, per_topic: int, rounds: int) -> dict[str, float]:
    """All figures: seconds and megabytes by name, the median where there are rounds."""
    with tempfile.TemporaryDirectory() as home:
        directory = Path(home) / "__cluster_metadata-0"
        directory.mkdir()
        written = write_snapshot(directory, partitions, per_topic)
        runs = [load_elsewhere(directory) for _ in range(rounds)]
        traced = load_elsewhere(directory, "--traced")
    loaded = runs[0]["partitions"]
    return {
        **written,
        "partitions": loaded,
        "load_s": statistics.median(run["load_s"] for run in runs),
        "load_worst_s": max(run["load_s"] for run in runs),
        "grown_mb_per_10k": statistics.median(run["grown_mb"] for run in runs) / loaded * 10_000,
        "objects_mb_per_10k": traced["objects_mb"] / loaded * 10_000,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--partitions", type=int, default=100_000)
    parser.add_argument("--per-topic", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--load", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--traced", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.load is not None:
        print(json.dumps(load(options.load, traced=options.traced)))
        return
    found = measure(options.partitions, options.per_topic, options.rounds)
    print(
        peers.table(
            ["partitions", "file MB", "written s", "loaded s (median)", "worst s"]
            + ["MB grown per 10,000", "MB of objects per 10,000"],
            [
                [f"{found['partitions']:.0f}", f"{found['file_mb']:.1f}"]
                + [f"{found['write_s']:.2f}", f"{found['load_s']:.2f}"]
                + [f"{found['load_worst_s']:.2f}", f"{found['grown_mb_per_10k']:.1f}"]
                + [f"{found['objects_mb_per_10k']:.1f}"]
            ],
        )
    )


if __name__ == "__main__":
    main()
