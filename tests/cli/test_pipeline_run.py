"""The project that `fencepost pipeline init` writes runs, and goes on where it stopped."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path
from typing import Any, Final

import pytest

from fencepost.cli.main import main

TIMEOUT_S = 800


SPARKS_OWN: Final = "org.apache.spark.scheduler.DAGScheduler.submitMissingTasks"
"""On the stack when Spark, with none of our code, cannot serialize a stage that it submits, as was
seen once on a busy machine; the next run goes on where that one stopped."""


def run_project(place: Path, servers: str) -> None:
    """One run, as its README says, or a second one if Spark has failed by itself."""
    said = run_once(place, servers)
    if said is not None and SPARKS_OWN in said:
        said = run_once(place, servers)
    lines = [] if said is None else said.splitlines()
    told = [line for line in lines if not line.lstrip().startswith("at ")]
    assert said is None, "\n".join(told)[-4000:]


def run_once(place: Path, servers: str) -> str | None:
    """What a run that fails says, else None; nothing of it is left running."""
    from fencepost.cli.demo.pipeline import environment
    from fencepost.testing.sessions import stop_session

    chosen = environment(place, servers, "")
    del chosen["SPARK_CONF_DIR"], chosen["PYSPARK_PYTHON"]  # that is what `run` is for
    with subprocess.Popen(
        [str(place / "run")],
        cwd=place,
        env=chosen,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            out, _ = process.communicate(timeout=TIMEOUT_S)
        finally:
            stop_session(process.pid)
    return out if process.returncode else None


def rows(place: Path, table: str) -> list[dict[str, Any]]:
    """A table, read without Spark."""
    import pyarrow.parquet as pq

    files = sorted((place / "data" / "tables" / table).rglob("*.parquet"))
    assert files, f"there is no table {table}"
    return pq.read_table(files).to_pylist()


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(2 * TIMEOUT_S)
def test_a_project_runs_and_goes_on_where_it_stopped(
    served: str, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    from fencepost.client.admin import Admin
    from fencepost.client.cluster import Cluster
    from fencepost.client.producer import Producer
    from fencepost.spark.java import find_java
    from fencepost.spark.sinks import known_sinks

    java = find_java()
    assert java is not None
    monkeypatch.setenv("JAVA_HOME", str(java.home))
    place = tmp_path / "flow"
    assert main(["pipeline", "init", str(place), "--topic", topic, "-b", served]) == 0
    minute_ms = int(time.time() // 60 - 20) * 60_000
    with Cluster(served) as cluster:
        Admin(cluster).create_topic(f"{topic}-sums", 2)
        Admin(cluster).wait_for_topic(f"{topic}-sums")
        for run in range(2):
            with Producer(cluster) as producer:
                for number in range(10):
                    event = json.dumps({"name": "ab"[number % 2], "amount": number})
                    at_ms = minute_ms + run * 300_000 + number * 1000
                    producer.send(topic, event.encode(), timestamp_ms=at_ms)
                producer.send(topic, b"no event", timestamp_ms=minute_ms)
            run_project(place, served)
    raw = rows(place, "raw")
    assert len({(row["partition"], row["offset"]) for row in raw}) == len(raw) == 22
    assert len(rows(place, "cleaned")) == 20
    assert [row["event"] for row in rows(place, "rejected")] == 2 * ["no event"]
    totals = {row["name"]: (row["events"], row["amount"]) for row in rows(place, "totals")}
    assert totals == {"a": (10, 40.0), "b": (10, 50.0)}
    expected = [("a", 5, 20.0), ("b", 5, 25.0)]
    assert published(served, f"{topic}-sums") == expected
    # As a kill leaves it between the sink's commit and Spark's note of that.
    (commits,) = (place / "data" / "storage").glob("**/sums/**/commits")
    last = max(int(path.name) for path in commits.iterdir() if path.name.isdecimal())
    for name in (str(last), f".{last}.crc"):
        (commits / name).unlink(missing_ok=True)
    run_project(place, served)
    assert published(served, f"{topic}-sums") == expected
    with Cluster(served) as cluster:
        (sink,) = (
            one
            for one in known_sinks(cluster)
            if one.decision is not None and one.decision.topics == (f"{topic}-sums",)
        )
    assert f"-{topic}-sums-" in sink.name


def published(servers: str, topic: str) -> list[tuple[str, int, float]]:
    """The sums in the topic: of the first run's minute, which is over in the second."""
    from fencepost.client.cluster import Cluster
    from fencepost.client.config import ClientConfig
    from fencepost.client.fetcher import Fetcher
    from fencepost.client.metadata import TopicPartition
    from fencepost.client.offsets import LATEST, list_offsets

    sums = []
    config = ClientConfig(bootstrap_servers=servers, isolation_level="read_committed")
    with Cluster(config=config) as cluster:
        ends = list_offsets(cluster, {TopicPartition(topic, n): LATEST for n in range(2)})
        for where, end in ends.items():
            for fetched in Fetcher(cluster).read_range(where, 0, end.offset):
                for record in fetched.read_records(end.offset):
                    value = json.loads(record.value or b"{}")
                    assert (record.key or b"").decode() == value["name"]
                    sums.append((value["name"], value["events"], value["amount"]))
    return sorted(sums)
