"""Where the time of a scheduled run goes that finds nothing new: one process, from start to end.

    python -m benchmarks.spark.idle --rounds 3

Each run is a process of its own, as a scheduler starts it: Python, the session with its JVM, the
query with `availableNow`, its end. `fencepost`, Spark's own `kafka`, and `rate-micro-batch`, a
source of Spark's without any Kafka or Python, whose times are Spark's alone. With `--rounds` the
medians are printed, and what is Spark's of each is what the last one takes.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.spark.session import topic
from fencepost.client.cluster import Cluster
from fencepost.client.producer import Producer
from fencepost.testing import Cluster as Broker

RUN = """
import sys, time
begun = time.perf_counter()
took = {}
def done(what):
    global begun
    now = time.perf_counter()
    took[what] = now - begun
    begun = now
from benchmarks.spark.session import connector_jars, session
done("import")
kind, servers, topic, place = sys.argv[1:]
spark = session(connector_jars() if kind == "kafka" else [])
done("session")
source = spark.readStream.format(kind)
if kind == "rate-micro-batch":
    frame = source.option("rowsPerBatch", "1").load()
else:
    source = source.option("kafka.bootstrap.servers", servers).option("subscribe", topic)
    frame = source.option("startingOffsets", "earliest").load()
done("load")
query = (
    frame.writeStream.format("noop").option("checkpointLocation", place)
    .trigger(availableNow=True).start()
)
query.awaitTermination()
done("query")
spark.stop()
done("stop")
import json
print(json.dumps(took))
"""


def run(kind: str, servers: str, name: str, place: Path) -> dict[str, float]:
    """Seconds of each stage of one run, and of the whole process."""
    begun = time.perf_counter()
    command = [sys.executable, "-c", RUN, kind, servers, name, str(place)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    stages: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return {**stages, "whole": time.perf_counter() - begun}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    with Broker(faults=False) as broker, topic(broker.bootstrap_servers, 4) as name:
        servers = broker.bootstrap_servers
        with Cluster(servers) as cluster, Producer(cluster) as producer:
            producer.send(name, b"x")
        with tempfile.TemporaryDirectory() as place:
            for kind in ("fencepost", "kafka", "rate-micro-batch"):
                run(kind, servers, name, Path(place, kind))  # reads what is there
                runs = [
                    run(kind, servers, name, Path(place, kind)) for _ in range(arguments.rounds)
                ]
                medians = {what: statistics.median(one[what] for one in runs) for what in runs[0]}
                stages = ", ".join(f"{what} {seconds:.2f}" for what, seconds in medians.items())
                print(f"{kind:17} seconds: {stages}", flush=True)


if __name__ == "__main__":
    main()
