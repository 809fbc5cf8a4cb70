"""Exactly once with Spark itself: writes and queries in a session, and queries whose JVM or Python
workers are killed by pid."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fencepost.client.admin import Admin
from fencepost.client.cluster import Cluster
from fencepost.client.metadata import TopicPartition
from fencepost.client.offsets import LATEST, list_offsets

from ..waiting import eventually
from .test_session import make_topic, produce, reading

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(3600)]
JOB = Path(__file__).with_name("exactly_once_job.py")


@pytest.fixture
def cluster(served: str) -> Iterator[Cluster]:
    with Cluster(served) as opened:
        yield opened


@pytest.fixture
def made(cluster: Cluster, topic: str) -> str:
    """A topic of three partitions."""
    make_topic(cluster, topic)
    return topic


def numbers(spark: Any, served: str, topic: str, isolation: str = "read_committed") -> list[int]:
    rows = reading(spark.read, served, topic, **{"kafka.isolation.level": isolation}).load()
    return sorted(
        row.number for row in rows.selectExpr("cast(string(value) as int) number").collect()
    )


def wait_for_markers(cluster: Cluster, prefix: str, left_max: int = 0) -> None:
    """Until no transaction of the prefix is open or being ended, or no more than so many."""
    states = ("Ongoing", "PrepareCommit", "PrepareAbort")

    def left() -> int:
        listed = Admin(cluster).list_transactions(states=states)
        return sum(one.transactional_id.startswith(prefix) for one in listed)

    eventually(lambda: left() <= left_max, f"transactions of {prefix} end")


def writing(frame: Any, served: str, topic: str, prefix: str) -> Any:
    return (
        frame.write.format("fencepost")
        .option("kafka.bootstrap.servers", served)
        .option("topic", topic)
        .option("deliveryGuarantee", "exactly-once")
        .option("transactionalIdPrefix", prefix)
        .mode("append")
    )


def test_a_batch_write_is_all_or_nothing(spark: Any, cluster: Cluster, served: str, made: str):
    rows = spark.range(500).repartitionByRange(4, "id").selectExpr("cast(id as string) value")
    writing(rows, served, made, f"w-{made}").save()
    wait_for_markers(cluster, f"w-{made}")
    assert numbers(spark, served, made) == list(range(500))
    # The last of four tasks fails, which begins when two have written: two run at a time.
    broken = rows.selectExpr("value", "if(value = '499', 9, 0) partition")
    with pytest.raises(Exception, match="a row names partition 9"):
        writing(broken, served, made, f"w-{made}").save()
    # The driver aborts what is open. A task that is killed when it has just sent its first rows may
    # leave a transaction: the next write aborts it.
    wait_for_markers(cluster, f"w-{made}", left_max=1)
    assert numbers(spark, served, made) == list(range(500))
    assert len(numbers(spark, served, made, "read_uncommitted")) > 500
    writing(spark.range(500, 600).selectExpr("string(id) value"), served, made, f"w-{made}").save()
    wait_for_markers(cluster, f"w-{made}")
    assert numbers(spark, served, made) == list(range(600))


def test_options_of_exactly_once(spark: Any, served: str, made: str):
    rows = spark.range(3).selectExpr("cast(id as string) value")
    with pytest.raises(Exception, match="must be at-least-once or exactly-once"):
        writing(rows, served, made, "x").option("deliveryGuarantee", "twice").save()
    with pytest.raises(Exception, match="letters, digits"):
        writing(rows, served, made, "no spaces").save()
    with pytest.raises(Exception, match=r"transactionalIdPrefix.*needs deliveryGuarantee"):
        writing(rows, served, made, "x").option("deliveryGuarantee", "at-least-once").save()


class Copying:
    """Runs of one query in processes of their own."""

    def __init__(self, served: str, source: str, target: str, folder: Path) -> None:
        self.arguments = [served, source, target, str(folder / "checkpoint")]

    @contextlib.contextmanager
    def run(self) -> Iterator[tuple[subprocess.Popen[str], int]]:
        """A run and the pid of its JVM; whatever it started is gone afterwards."""
        process = subprocess.Popen(
            [sys.executable, str(JOB), *self.arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        try:
            assert process.stdout is not None
            yield process, int(process.stdout.readline())
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            assert process.stdout is not None
            process.stdout.close()


def python_workers(jvm: int) -> list[int]:
    """Processes below the JVM: daemons and their workers."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError):
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                parents.setdefault(parent, []).append(int(entry.name))
    found, waiting = [], [jvm]
    while waiting:
        children = parents.get(waiting.pop(), [])
        found += children
        waiting += children
    return found


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="finds processes in /proc")
@pytest.mark.long
@pytest.mark.parametrize("kills", [6 if os.environ.get("FENCEPOST_KILL_ROUNDS") else 2])
def test_a_query_that_is_killed_copies_exactly_once(
    spark: Any, cluster: Cluster, served: str, made: str, tmp_path: Path, kills: int
):
    count = 3_000
    produce(cluster, made, 0, count)
    target = f"{made}-out"
    make_topic(cluster, target, 2)
    copying = Copying(served, made, target, tmp_path)
    draw = random.Random(kills)

    def written() -> int:
        ends = list_offsets(cluster, {TopicPartition(target, n): LATEST for n in (0, 1)})
        return sum(end.offset for end in ends.values())

    def wait_for_more(records: int, process: subprocess.Popen[str]) -> None:
        wanted = written() + records
        for _ in range(8):  # Spark takes its time to begin on a busy machine
            with contextlib.suppress(AssertionError):
                eventually(lambda: written() >= wanted or process.poll() is not None)
                return

    for number in range(kills):
        with copying.run() as (process, jvm):
            wait_for_more(draw.randrange(1, 2 * count // kills), process)
            workers = python_workers(jvm)
            if number % 2 and workers:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(draw.choice(workers), signal.SIGKILL)
                # Spark tries a task again; without the process of a commit the query ends.
                wait_for_more(50, process)
            with contextlib.suppress(ProcessLookupError):
                os.kill(jvm, signal.SIGKILL)
    with copying.run() as (process, _):
        assert process.stdout is not None
        assert process.stdout.read().strip() == "done"
    wait_for_markers(cluster, "fencepost-spark-")
    assert numbers(spark, served, target) == list(range(count))
