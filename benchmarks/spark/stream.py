"""What a micro-batch costs, and a query without any: ours, Spark's own source, and one of memory.

    python benchmarks/spark/stream.py [--batches N] [--rounds R] [--arrivals N] [--idle SECONDS]
                                      [--minutes M]

Ten rows a micro-batch from one partition into Spark's noop sink, in one session on one broker:

* `trigger` is all that Spark counts as a batch, `add` the part of it that runs its task, `offsets`
  the questions to the source; the rest is Spark's own log of offsets and commits. `CPU` is that of
  Spark's processes for the whole run over its batches, start and end included.
* `nothing new` is a run with `availableNow` from a checkpoint that is up to date, start to end.
* `arrival` is the time from the acknowledgement of ten records that an idle query waits for until
  their batch is finished.
* `idle` is what a query with nothing to read takes of Spark's processes and of the broker, as a
  part of a core.

Medians; rounds end when the minutes are used up, after one that counts.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import statistics
import sys
import tempfile
import time
from datetime import datetime
from pathlib import Path
from typing import Any

from pyspark.errors import StreamingQueryException

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks import peers
from benchmarks.spark.session import connector_jars, fill, jvm_pid, session, topic
from benchmarks.spark.usage import Usage, measure

ROWS = 10
PATIENCE_S = 300
ATTEMPTS = 5
PARTS = {
    "ms trigger": ("triggerExecution",),
    "ms add": ("addBatch",),
    "ms offsets": ("latestOffset", "getBatch"),
}
COLUMNS = [*PARTS, "ms CPU", "ms nothing new", "ms arrival", "idle CPU", "idle broker CPU"]
Times = dict[str, list[float]]


def query(spark: Any, name: str, options: dict[str, str], place: str, **trigger: Any) -> Any:
    rows = spark.readStream.format(name).options(**options).load()
    sink = rows.writeStream.format("noop").option("checkpointLocation", place)
    return (sink.trigger(**trigger) if trigger else sink).start()


def read_all(spark: Any, name: str, options: dict[str, str], place: str) -> list[Any]:
    """Read what there is; the progress of every micro-batch with rows."""
    limited = {**options, "maxOffsetsPerTrigger": str(ROWS), "startingOffsets": "earliest"}
    for attempt in range(ATTEMPTS):
        running = query(spark, name, limited, place, availableNow=True)
        try:
            if running.awaitTermination(PATIENCE_S):
                return with_rows(running)
        except StreamingQueryException as error:
            # Spark does not wait long for a source's process: on a busy machine, not long enough.
            if "Python worker failed" not in str(error) or attempt + 1 == ATTEMPTS:
                raise
            print(f"{name}: its process did not start in time, once more", file=sys.stderr)
        else:
            running.stop()
            break
    raise SystemExit(f"{name}: not finished after {PATIENCE_S} s")


def batches(spark: Any, name: str, options: dict[str, str]) -> Times:
    """Of every micro-batch of a run but the first, which has more to set up; of the whole run; and
    of a second one that finds nothing."""
    told: list[Any] = []
    with tempfile.TemporaryDirectory() as place:
        used = measure(
            jvm_pid(spark), lambda: 0, lambda: told.extend(read_all(spark, name, options, place))
        )
        started = time.perf_counter()
        again = read_all(spark, name, options, place)
        nothing_s = time.perf_counter() - started
    assert not again, again
    durations = [one["durationMs"] for one in told[1:]]
    times = {
        column: [sum(float(one.get(part, 0)) for part in parts) for one in durations]
        for column, parts in PARTS.items()
    }
    times["ms CPU"] = [used.spark_cpu_s / len(told) * 1000]
    times["ms nothing new"] = [nothing_s * 1000]
    return times


def idle(spark: Any, peer: peers.Peer, seconds: float) -> Times:
    """What a query with nothing to read costs."""
    used: Usage = measure(jvm_pid(spark), peer.cpu_s, lambda: time.sleep(seconds))
    return {
        "idle CPU": [used.spark_cpu_s / seconds],
        "idle broker CPU": [used.broker_cpu_s / seconds],
    }


def arrivals(running: Any, servers: str, name: str, count: int) -> Times:
    """Milliseconds from records to the end of their batch, for a query that waits."""
    times = []
    for _ in range(count):
        seen = len(with_rows(running))
        time.sleep(random.uniform(0.5, 1.5))
        fill(servers, name, 1, ROWS, 100)
        acknowledged = time.time()
        until = time.monotonic() + PATIENCE_S
        while len(told := with_rows(running)) == seen:
            if time.monotonic() > until or not running.isActive:
                raise SystemExit(f"no batch of what arrived: {running.exception()}")
            time.sleep(0.1)
        began = datetime.fromisoformat(told[-1]["timestamp"]).timestamp()
        times.append((began - acknowledged) * 1000 + told[-1]["durationMs"]["triggerExecution"])
    return {"ms arrival": times}


def with_rows(running: Any) -> list[Any]:
    return [one for one in running.recentProgress if one["numInputRows"]]


def wait(spark: Any, peer: peers.Peer, source: str, name: str, count: int, idle_s: float) -> Times:
    """A query that waits on the topic: idle first, then for what arrives."""
    kafka = {"kafka.bootstrap.servers": peer.bootstrap, "subscribe": name}
    with tempfile.TemporaryDirectory() as place:
        running = query(spark, source, {**kafka, "startingOffsets": "latest"}, place)
        while running.lastProgress is None:
            time.sleep(0.1)
        times = idle(spark, peer, idle_s)
        times |= arrivals(running, peer.bootstrap, name, count)
        running.stop()
    return times


def add(taken: Times, times: Times) -> None:
    for column, values in times.items():
        taken.setdefault(column, []).extend(values)


def table(taken: dict[str, Times]) -> str:
    lines = []
    for name, times in taken.items():
        found = [
            statistics.median(times[column]) if column in times else None for column in COLUMNS
        ]
        digits = [3 if "idle" in column else 0 for column in COLUMNS]
        texts = ["" if one is None else f"{one:.{of}f}" for one, of in zip(found, digits)]
        lines.append([name, *texts])
    return peers.table(["", *COLUMNS], lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batches", type=int, default=20, help="micro-batches a round, up to 100")
    parser.add_argument("--rounds", type=int, default=3, help="that count, at most")
    parser.add_argument(
        "--arrivals", type=int, default=10, help="micro-batches that are waited for"
    )
    parser.add_argument("--idle", type=float, default=10, help="seconds")
    parser.add_argument("--minutes", type=float, default=6, help="after which no round begins")
    options = parser.parse_args()
    jars = connector_jars()
    with contextlib.ExitStack() as stack:
        peer = stack.enter_context(peers.fencepost())
        spark = session(jars)
        stack.callback(spark.stop)
        name = stack.enter_context(topic(peer.bootstrap, 1))
        fill(peer.bootstrap, name, 1, options.batches * ROWS, 100)
        kafka = {"kafka.bootstrap.servers": peer.bootstrap, "subscribe": name}
        memory = {"rows": str(options.batches * ROWS), "size": "100", "step": str(ROWS)}
        sources = {"ceiling": memory, "fencepost": kafka} | ({"kafka": kafka} if jars else {})
        taken: dict[str, Times] = {one: {} for one in sources}
        until = time.monotonic() + 60 * options.minutes
        for number in range(options.rounds + 1):  # the first warms up
            if number > 1 and time.monotonic() > until:
                break
            for one, given in sources.items():
                print(f"micro-batches: {one}, round {number} of {options.rounds}", file=sys.stderr)
                times = batches(spark, one, given)
                print(f"  {times}", file=sys.stderr)
                if number:
                    add(taken[one], times)
        for one in list(sources)[1:]:
            print(f"waiting: {one}", file=sys.stderr)
            add(taken[one], wait(spark, peer, one, name, options.arrivals, options.idle))
        print(f"\n{ROWS} rows a micro-batch, local[2], load {os.getloadavg()[0]:.1f}")
        print(table(taken), flush=True)


if __name__ == "__main__":
    main()
