"""A broker that may have few files open (EMFILE): fewer than partitions, or than clients want."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition

from fencepost.testing import Cluster

from ...waiting import DEADLINE_S, eventually
from ..listener_fixtures import Client, connect
from .test_bad_disks import SLICE, batch, create, produce, read_all

pytestmark = pytest.mark.slow

FILES = 96


def frugal_python(directory: Path, files: int) -> str:
    """An interpreter that may have so many files open; the tests' own process keeps its limit."""
    script = directory / "python"
    script.write_text(f'#!/bin/sh\nulimit -n {files}\nexec "{sys.executable}" "$@"\n')
    script.chmod(0o755)
    return str(script)


@pytest.fixture
def make_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable]:
    """Makes a broker that may have so many files open, and has small segments."""
    with contextlib.ExitStack() as stack:

        def make(files: int = FILES, **configs: object) -> Cluster:
            monkeypatch.setattr(sys, "executable", frugal_python(tmp_path, files))
            cluster = Cluster(faults=False, log_segment_bytes=1 << 20, **SLICE, **configs)
            stack.callback(cluster.close)
            cluster.start()
            return cluster

        yield make


def open_files(cluster: Cluster) -> int:
    return len(os.listdir(f"/proc/{cluster.pid}/fd"))


def crowd(cluster: Cluster, stack: contextlib.ExitStack, count: int) -> list[socket.socket]:
    """So many connections, held open; those that were refused are disconnected."""
    host, _, port = cluster.bootstrap_servers.rpartition(":")
    return [
        stack.enter_context(socket.create_connection((host, int(port)), timeout=DEADLINE_S))
        for _ in range(count)
    ]


def work(client: Client, values: list[bytes]) -> None:
    """Several segments of records and a new topic, then all is read back."""
    for _ in range(6):
        value = b"%d" % len(values) * 200_000
        assert produce(client, batch(value)).error_code == 0
        values.append(value)
    create(client, f"topic-{len(values)}")
    assert read_all(client) == values


@pytest.mark.long
@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="open files are counted in /proc")
def test_connections_cannot_take_the_files_that_logs_need(make_cluster):
    cluster = make_cluster()
    with contextlib.ExitStack() as stack:
        client = stack.enter_context(connect(cluster))
        create(client)
        values: list[bytes] = []
        work(client, values)
        with contextlib.ExitStack() as others:
            held = crowd(cluster, others, 2 * FILES)
            assert held[-1].recv(1) == b"", "disconnected"
            assert open_files(cluster) < FILES
            work(client, values)
            work(client, values)
            assert f"which is what {FILES} open files (ulimit -n) allow" in cluster.log_text
        eventually(lambda: open_files(cluster) < FILES // 2, "connections are let go of")
        with connect(cluster) as late:
            work(late, values)
        assert "Traceback" not in cluster.log_text
        assert "offline" not in cluster.log_text
        assert cluster.stop() == 0


def fill(cluster: Cluster, partitions: int, rounds: int, value_bytes: int) -> dict[int, list]:
    """Write to all partitions at once, some times; what was acknowledged of each, with offsets."""
    acknowledged: dict[int, list] = {}
    refused: list[object] = []

    def note(error: object, message: Message) -> None:
        if error is not None:
            refused.append(error)
        found = acknowledged.setdefault(message.partition(), [])
        found.append((message.offset(), message.value()))

    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "linger.ms": 5,
            "message.timeout.ms": 60_000,
        }
    )
    for round_ in range(rounds):
        for partition in range(partitions):
            value = b"%d of %d " % (round_, partition)
            producer.produce("many", value.ljust(value_bytes, b"x"), partition=partition,
                             on_delivery=note)  # fmt: skip
        assert producer.flush(DEADLINE_S) == 0
    assert refused == []
    assert sum(map(len, acknowledged.values())) == partitions * rounds
    return acknowledged


def read_back(cluster: Cluster, wanted: dict[int, list]) -> dict[int, list]:
    """What is in these partitions, with offsets."""
    found: dict[int, list] = {}
    settings = {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "reader"}
    with contextlib.closing(Consumer(settings)) as consumer:
        consumer.assign([TopicPartition("many", partition, 0) for partition in wanted])

        def all_is_read() -> bool:
            for message in consumer.consume(500, 0.2):
                assert message.error() is None
                records = found.setdefault(message.partition(), [])
                records.append((message.offset(), message.value()))
            return sum(map(len, found.values())) == sum(map(len, wanted.values()))

        eventually(all_is_read, "everything is read")
    return found


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="open files are counted in /proc")
@pytest.mark.parametrize(
    ("files", "partitions", "value_bytes"), [(256, 400, 20), (1024, 400, 20), (64, 60, 400_000)]
)
def test_a_broker_serves_more_partitions_than_it_may_have_files(
    make_cluster, files, partitions, value_bytes
):
    """Idle files are closed, segments roll, the stop is in order, and nothing is missing."""
    cluster = make_cluster(files)
    with connect(cluster) as client:
        create(client, "many", partitions)
    written = fill(cluster, partitions, 4, value_bytes)
    assert open_files(cluster) < files
    assert read_back(cluster, written) == written
    assert cluster.stop() == 0
    cluster.start()
    assert read_back(cluster, written) == written
    assert "was not closed cleanly" not in cluster.log_text
    cluster.kill()
    cluster.start()
    assert "was not closed cleanly" in cluster.log_text
    assert read_back(cluster, written) == written
    assert cluster.stop() == 0
    # With 64 of them a start whose threads are held up may wait for one, and then goes on.
    fine = "waiting for a file descriptor" if files == 64 else "nothing of that kind"
    said = "\n".join(line for line in cluster.log_text.splitlines() if fine not in line)
    for wrong in ("offline", "Traceback", "descriptor"):
        assert wrong not in said


def test_too_few_files_for_a_node_are_refused_in_one_line(tmp_path: Path):
    command = [frugal_python(tmp_path, 8), "-m", "fencepost.cli.main", "serve"]
    done = subprocess.run(
        [*command, "--data-dir", str(tmp_path / "data"), "--listen", "127.0.0.1:0"],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert "8 open files are allowed (ulimit -n), and this node needs" in line
    assert not (tmp_path / "data").exists()


def test_a_stop_that_leaves_something_undone_says_so_by_its_exit_code(make_cluster):
    cluster = make_cluster()
    with connect(cluster) as client:
        create(client)
        assert produce(client, batch(b"value")).error_code == 0
    (cluster.data_dir / ".kafka_cleanshutdown.tmp").mkdir()
    assert cluster.stop() == 1
    assert "stopped uncleanly: the next start checks the logs" in cluster.log_text
    (cluster.data_dir / ".kafka_cleanshutdown.tmp").rmdir()
    cluster.start()
    with connect(cluster) as client:
        assert read_all(client) == [b"value"]
    assert cluster.stop() == 0
