"""`fencepost archive` in processes of its own: killed drivers, a cluster of two workers."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fencepost.arrow.archive.layout import CHECKPOINT, COMPACTION, REPLAYS, STAGING, STATE, Layout
from fencepost.client.cluster import Cluster
from fencepost.spark.archive.checking import verify
from fencepost.testing.sessions import stop_session
from fencepost.testing.spark_standalone import SparkStandalone

from ...waiting import eventually
from ..on_both_workers import ON_BOTH, workers_of_applications
from ..test_session import make_topic
from .test_session import fill

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.long,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(not Path("/proc").is_dir(), reason="finds processes in /proc"),
]
RUN = "from fencepost.cli.main import main; import sys; sys.exit(main(sys.argv[1:]))"
COUNT = 3_000


@pytest.fixture
def cluster(served: str) -> Iterator[Cluster]:
    with Cluster(served) as opened:
        yield opened


@contextlib.contextmanager
def archive(served: str, *words: str) -> Iterator[subprocess.Popen[str]]:
    """A command and whatever it starts, which is gone afterwards."""
    servers = () if words[0] in ("compact", "offsets") else ("-b", served)
    process = subprocess.Popen(
        [sys.executable, "-c", RUN, "archive", *words, *servers],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        stop_session(process.pid)
        process.communicate()


def done(served: str, *words: str) -> str:
    with archive(served, *words) as process:
        out, _ = process.communicate(timeout=1800)
        assert process.returncode == 0, out
        return out


def killed_when(served: str, condition: Callable[[], Any], *words: str) -> None:
    """Kill the command's driver, with its JVM and workers, as soon as something is so."""
    with archive(served, *words) as process:
        for _ in range(20):  # Spark takes its time to begin on a busy machine
            with contextlib.suppress(AssertionError):
                eventually(lambda: condition() or process.poll() is not None)
                break
        stop_session(process.pid)


def batch_of(layout: Layout) -> int:
    with contextlib.suppress(OSError, ValueError):
        return int(json.loads(layout.local(STATE).read_text())["batch"])
    return -1


@pytest.mark.skipif(
    not os.environ.get("FENCEPOST_KILL_ROUNDS"), reason="FENCEPOST_KILL_ROUNDS is not set"
)
def test_drivers_that_are_killed_archive_and_replay_once(
    cluster: Cluster, served: str, topic: str, tmp_path: Path
):
    make_topic(cluster, topic)
    fill(cluster, topic, COUNT)
    layout = Layout(tmp_path / "a")
    run = ["run", str(layout.directory), topic, "--batch-records", "600", "--quiet"]
    conditions: list[Callable[[], Any]] = [
        lambda: list(layout.local(STAGING).glob("*")),
        lambda: list(layout.local(STAGING).glob("*/topic=*/date=*/*.parquet")),
        lambda: batch_of(layout) >= 1,
        lambda: (layout.local(CHECKPOINT) / "offsets" / "3").exists(),
    ]
    for condition in conditions:
        killed_when(served, condition, *run)
    done(served, *run)
    found = verify(layout)
    assert found.all_problems == []
    assert sum(one.records for one in found.partitions) == COUNT
    compacting = ["compact", str(layout.directory), "--quiet"]
    killed_when(served, lambda: list(layout.local(COMPACTION).rglob("*.parquet")), *compacting)
    assert verify(layout).all_problems == []
    done(served, *compacting)
    assert verify(layout).all_problems == []
    again = f"{topic}-again"
    place = layout.local(REPLAYS) / again
    replay = ["replay", str(layout.directory), "--to", again, "--step-records", "250", "--quiet"]
    for condition in (
        lambda: list(place.glob("*.staged")),
        lambda: list(place.glob("offsets-*.parquet"))[1:],
    ):
        killed_when(served, condition, *replay)
    done(served, *replay)
    committed = ["-X", "isolation.level=read_committed"]
    second = Layout(tmp_path / "b")
    done(served, "run", str(second.directory), again, "--quiet", *committed)
    assert contents(second) == contents(layout)


def test_a_run_that_goes_on_ends_when_it_is_interrupted(
    cluster: Cluster, served: str, topic: str, tmp_path: Path
):
    """By Ctrl-C, which all processes of a terminal get."""
    make_topic(cluster, topic)
    fill(cluster, topic, COUNT)
    layout = Layout(tmp_path / "a")
    words = ["run", str(layout.directory), topic, "--every", "1 second", "--quiet"]
    with archive(served, *words) as process:
        for _ in range(20):  # Spark takes its time to begin on a busy machine
            with contextlib.suppress(AssertionError):
                eventually(lambda: batch_of(layout) >= 0 or process.poll() is not None)
                break
        os.killpg(process.pid, signal.SIGINT)
        out, _ = process.communicate(timeout=600)
    assert process.returncode == 130, out
    assert "archived 3,000 records" in out
    assert "Traceback" not in out
    found = verify(layout)
    assert found.all_problems == []
    assert sum(one.records for one in found.partitions) == COUNT


def contents(layout: Layout) -> list[tuple[Any, ...]]:
    """All records but for their offsets, per partition in their order."""
    import pyarrow.parquet as pq

    files, _ = layout.listing()
    rows = [
        row for one in files for row in pq.ParquetFile(layout.local(one.path)).read().to_pylist()
    ]
    rows.sort(key=lambda row: (row["partition"], row["offset"]))
    names = ("partition", "key", "value", "headers", "timestamp", "timestampType")
    return [tuple(str(row[name]) for name in names) for row in rows]


def test_two_workers_archive_compact_verify_and_replay(
    cluster: Cluster, served: str, topic: str, tmp_path: Path
):
    make_topic(cluster, topic)
    fill(cluster, topic, COUNT)
    place = str(tmp_path / "a")
    with SparkStandalone(workers=2) as spark:
        words = ["--master", spark.master_url]
        for name, value in (spark.settings | ON_BOTH).items():
            words += ["--conf", f"{name}={value}"]
        told = done(served, "run", place, topic, "--batch-records", "1000", *words)
        assert "archived 3,000 records" in told
        spark.kill_worker(0)
        spark.add_worker()
        done(served, "compact", place, *words)
        told = done(served, "verify", place, "--against-topic", *words)
        assert told.count(" same") == 3
        done(served, "replay", place, "--to", f"{topic}-again", *words)
        assert workers_of_applications(spark) == [{0, 1}, {1, 2}, {1, 2}, {1, 2}]
    assert verify(Layout(tmp_path / "a")).all_problems == []
