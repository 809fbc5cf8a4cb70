"""What a micro-batch costs, and an idle query: ours, Spark's own source, and one of memory.

    python benchmarks/spark/stream.py [--batches N] [--rounds R] [--idle SECONDS]

Ten rows a micro-batch from one partition into Spark's noop sink, as fast as they go: `trigger` is
all that Spark counts as the batch, `add` the part that runs its task, `offsets` the questions to
the source; the rest is Spark's own log of offsets and commits. The rest of the table is a query
with nothing to read: how much CPU it takes from Spark's processes and from the broker.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks import peers
from benchmarks.spark.session import connector_jars, fill, jvm_pid, session, topic
from benchmarks.spark.usage import Usage, measure

ROWS = 10
Times = dict[str, list[float]]


def query(spark: Any, name: str, options: dict[str, str], place: str, **trigger: Any) -> Any:
    rows = spark.readStream.format(name).options(**options).load()
    sink = rows.writeStream.format("noop").option("checkpointLocation", place)
    return (sink.trigger(**trigger) if trigger else sink).start()


def batches(spark: Any, name: str, options: dict[str, str], count: int) -> Times:
    """Milliseconds of every micro-batch but the first, which has more to set up."""
    limited = {**options, "maxOffsetsPerTrigger": str(ROWS), "startingOffsets": "earliest"}
    with tempfile.TemporaryDirectory() as place:
        running = query(spark, name, limited, place)
        while sum(bool(one["numInputRows"]) for one in running.recentProgress) < count:
            if not running.isActive:
                raise SystemExit(f"{name}: {running.exception()}")
            time.sleep(0.05)
        told = [one["durationMs"] for one in running.recentProgress if one["numInputRows"]]
        running.stop()
    parts = {
        "trigger": ("triggerExecution",),
        "add": ("addBatch",),
        "offsets": ("latestOffset", "getBatch"),
    }
    return {
        part: [sum(float(one.get(name, 0)) for name in names) for one in told[1:]]
        for part, names in parts.items()
    }


def idle(spark: Any, peer: peers.Peer, name: str, options: dict[str, str], seconds: float) -> Usage:
    """What a query with nothing to read costs."""
    with tempfile.TemporaryDirectory() as place:
        running = query(spark, name, {**options, "startingOffsets": "latest"}, place)
        while running.lastProgress is None:
            time.sleep(0.05)
        used = measure(jvm_pid(spark), peer.cpu_s, lambda: time.sleep(seconds))
        running.stop()
    return used


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batches", type=int, default=30, help="micro-batches a round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--idle", type=float, default=10, help="seconds")
    options = parser.parse_args()
    jars = connector_jars()
    with contextlib.ExitStack() as stack:
        peer = stack.enter_context(peers.fencepost())
        spark = session(jars)
        stack.callback(spark.stop)
        name = stack.enter_context(topic(peer.bootstrap, 1))
        fill(peer.bootstrap, name, 1, (options.batches + 5) * ROWS, 100)
        kafka = {"kafka.bootstrap.servers": peer.bootstrap, "subscribe": name}
        most = str((options.batches + 5) * ROWS)
        sources = {"ceiling": {"rows": most, "size": "100", "step": str(ROWS)}, "fencepost": kafka}
        sources |= {"kafka": kafka} if jars else {}
        taken: dict[str, Times] = {one: {} for one in sources}
        for number in range(options.rounds + 1):
            print(f"round {number} of {options.rounds}", file=sys.stderr)
            for one, given in sources.items():
                for part, times in batches(spark, one, given, options.batches).items():
                    if number:
                        taken[one].setdefault(part, []).extend(times)
        idles = {
            one: idle(spark, peer, one, given, options.idle)
            for one, given in sources.items()
            if one != "ceiling"
        }
        print(f"\n{ROWS} rows a micro-batch, local[2], load {os.getloadavg()[0]:.1f}")
        print(table(taken, idles, options.idle), flush=True)


def table(taken: dict[str, Times], idles: dict[str, Usage], seconds: float) -> str:
    lines = []
    for name, parts in taken.items():
        used = idles.get(name)
        costs = (used.spark_cpu_s, used.broker_cpu_s) if used else ()
        lines.append(
            [
                name,
                *(
                    f"{statistics.median(parts[part]):.0f}"
                    for part in ("trigger", "add", "offsets")
                ),
                *(f"{cost / seconds:.3f}" for cost in costs or (float("nan"),) * 2),
            ]
        )
    titles = ["", "ms trigger", "ms add", "ms offsets", "idle CPU", "idle broker CPU"]
    return peers.table(titles, lines)


if __name__ == "__main__":
    main()
