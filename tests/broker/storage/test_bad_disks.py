"""Disks that fill up, processes that are killed, and files that are not what they were.

What was acknowledged is there afterwards, what was not is an error and no acknowledgement, and a
directory that cannot be trusted is refused with one line that names the file.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from fencepost.batch.records import build_batch, read_records
from fencepost.testing import Cluster
from fencepost.testing.cluster import ClusterError
from fencepost.wire.api import (
    CreateTopicsRequest,
    FetchRequest,
    InitProducerIdRequest,
    ProduceRequest,
)
from fencepost.wire.api.create_topics import CreatableTopic
from fencepost.wire.api.fetch import FetchPartition, FetchTopic
from fencepost.wire.api.produce import PartitionProduceData, TopicProduceData
from fencepost.wire.errors import ErrorCode

from ...waiting import DEADLINE_S, eventually
from ..listener_fixtures import Client, connect

pytestmark = pytest.mark.slow

TOPIC = "kept"
SLICE = {"offsets_topic_num_partitions": 1}


def create(client: Client, name: str = TOPIC, partitions: int = 1) -> None:
    asked = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
    (made,) = client.ask(CreateTopicsRequest(topics=[asked], timeout_ms=60_000), 7).topics
    assert made.error_code == 0


def batch(*values: bytes, **kinds: int) -> bytes:
    now_ms = int(time.time() * 1000)
    return bytes(build_batch([(None, value) for value in values], timestamp_ms=now_ms, **kinds))


def produce(client: Client, records: bytes, topic: str = TOPIC):
    data = PartitionProduceData(index=0, records=records)
    named = TopicProduceData(name=topic, partition_data=[data])
    request = ProduceRequest(acks=-1, timeout_ms=60_000, topic_data=[named])
    return client.ask(request, 9).responses[0].partition_responses[0]


def read_all(client: Client, topic: str = TOPIC) -> list[bytes]:
    found: list[bytes] = []
    offset = 0
    while True:
        partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 22)
        request = FetchRequest(
            max_wait_ms=0,
            max_bytes=1 << 24,
            topics=[FetchTopic(topic=topic, partitions=[partition])],
        )
        part = client.ask(request, 12).responses[0].partitions[0]
        assert part.error_code == 0
        records = list(read_records(part.records, start_offset=offset))
        if not records:
            assert offset == part.high_watermark
            return found
        assert [r.offset for r in records] == list(range(offset, offset + len(records)))
        found += [r.value for r in records]
        offset += len(records)


# -- a disk that is full ---------------------------------------------------------------------------


@contextlib.contextmanager
def small_disk(size: str) -> Iterator[Path]:
    """A file system of so many bytes, for root; the test is skipped for others."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small file system needs root")
    directory = Path(tempfile.mkdtemp(prefix="fencepost-small-disk-"))
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(directory)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        directory.rmdir()
        pytest.skip("no small file system can be mounted here")
    try:
        yield directory
    finally:
        subprocess.run(["umount", "-l", str(directory)], check=True)
        directory.rmdir()


def test_a_full_disk_is_an_error_and_no_acknowledgement_and_what_was_acknowledged_stays():
    with small_disk("8m") as disk, Cluster(data_dir=disk / "data", **SLICE) as cluster:
        acknowledged: list[bytes] = []
        refused = None
        with connect(cluster) as client:
            create(client)
            for number in range(100):
                value = b"%08d" % number * 25_000
                with contextlib.suppress(EOFError, ConnectionError):
                    refused = produce(client, batch(value)).error_code
                if refused != 0:
                    break
                acknowledged.append(value)
        assert refused == ErrorCode.KAFKA_STORAGE_ERROR
        eventually(lambda: not cluster.running, "a node without a disk ends")
        assert "offline" in cluster.log_text
        assert "No space left on device; free some space on its file system" in cluster.log_text
        assert "Traceback" not in cluster.log_text
        assert not (disk / "data" / ".kafka_cleanshutdown").exists()
        subprocess.run(["mount", "-o", "remount,size=64m", str(disk)], check=True)
        cluster.start()
        with connect(cluster) as client:
            found = read_all(client)
            assert found[: len(acknowledged)] == acknowledged
            assert len(found) <= len(acknowledged) + 1
            assert produce(client, batch(b"again")).error_code == 0
            assert read_all(client)[-1] == b"again"


# -- a process that is killed ----------------------------------------------------------------------


def test_twenty_kills_lose_nothing_that_was_acknowledged_and_double_nothing():
    """librdkafka's idempotent producer goes on through every kill."""
    with Cluster(faults=False, **SLICE) as cluster:
        with connect(cluster) as client:
            create(client)
        acknowledged: set[int] = set()
        failed: list[str] = []
        stop = threading.Event()

        def delivered(error, message):
            if error is not None:
                failed.append(str(error))
            else:
                acknowledged.add(int(message.value()))

        def send():
            producer = Producer(
                {
                    "bootstrap.servers": cluster.bootstrap_servers,
                    "enable.idempotence": True,
                    "linger.ms": 1,
                    "reconnect.backoff.max.ms": 100,
                    "retry.backoff.ms": 20,
                    "log_level": 0,
                }
            )
            number = 0
            while not stop.is_set():
                producer.produce(TOPIC, b"%d" % number, on_delivery=delivered)
                number += 1
                producer.poll(0.001)
            assert producer.flush(DEADLINE_S) == 0

        sender = threading.Thread(target=send)
        sender.start()
        try:
            for _ in range(20):
                before = len(acknowledged)
                eventually(lambda b=before: len(acknowledged) > b, "the producer gets on")
                cluster.kill()
                cluster.start()
        finally:
            stop.set()
            sender.join(2 * DEADLINE_S)
        with connect(cluster) as client:
            found = [int(value) for value in read_all(client)]
        assert failed == []
        assert found == sorted(set(found)), "in order, and none twice"
        assert acknowledged <= set(found)
        assert "Traceback" not in cluster.log_text


def test_a_producer_id_is_never_given_twice_over_kills():
    given: list[int] = []
    with Cluster(faults=False, **SLICE) as cluster:
        for _ in range(3):
            with connect(cluster) as client:
                for _ in range(3):
                    given.append(
                        client.ask(InitProducerIdRequest(transactional_id=None), 4).producer_id
                    )
            cluster.kill()
            cluster.start()
    assert len(set(given)) == len(given) == 9


# -- files that are not what they were -------------------------------------------------------------


@pytest.fixture
def cluster():
    with Cluster(faults=False, **SLICE) as started:
        with connect(started) as client:
            create(client)
            for number in range(50):
                assert produce(client, batch(b"%d" % number)).error_code == 0
        yield started


EXPECTED = [b"%d" % number for number in range(50)]


def check(cluster: Cluster, extra: bytes = b"after") -> None:
    """All is there, and more can be written."""
    with connect(cluster) as client:
        assert read_all(client) == EXPECTED
        assert produce(client, batch(extra)).error_code == 0
        assert read_all(client) == [*EXPECTED, extra]
    assert "Traceback" not in cluster.log_text


def test_garbage_in_the_data_directory_is_left_alone(cluster):
    cluster.stop()
    data = cluster.data_dir
    (data / "notes.txt").write_text("hello")
    (data / "sub").mkdir()
    (data / "sub" / "file").write_bytes(b"\0" * 100)
    (data / "-5").mkdir()
    (data / "nopartition").mkdir()
    (data / "topic-x").mkdir()
    (data / "topic-99999999999").mkdir()
    (data / f"{TOPIC}-0" / "readme").write_text("?")
    (data / f"{TOPIC}-0" / "abc.log").write_bytes(b"\1" * 50)
    (data / f"{TOPIC}-0" / "00000000000000000007.log.deleted").write_bytes(b"\1" * 50)
    (data / "stranger-0").mkdir()
    (data / "stranger-0" / "00000000000000000000.log").write_bytes(b"\1" * 50)
    cluster.start()
    check(cluster)
    assert (data / "notes.txt").read_text() == "hello"
    assert (data / "sub" / "file").exists()
    assert any(name.name.startswith("stranger-0.") for name in data.iterdir()), "set aside"


@pytest.mark.parametrize(
    "clean",
    [pytest.param(True, id="stopped", marks=pytest.mark.long), pytest.param(False, id="killed")],
)
@pytest.mark.parametrize("damage", ["empty", "cut", "garbage", "gone"])
@pytest.mark.parametrize(
    "name",
    [
        "recovery-point-offset-checkpoint",
        "log-start-offset-checkpoint",
        "replication-offset-checkpoint",
        f"{TOPIC}-0/leader-epoch-checkpoint",
        f"{TOPIC}-0/00000000000000000000.index",
        f"{TOPIC}-0/00000000000000000000.timeindex",
    ],
)
def test_files_that_can_be_made_anew_are(cluster, name, damage, clean):
    cluster.stop() if clean else cluster.kill()
    spoil(cluster.data_dir / name, damage)
    cluster.start()
    check(cluster)


@pytest.mark.parametrize("damage", ["empty", "cut", "garbage"])
@pytest.mark.parametrize("name", ["meta.properties", "__cluster_metadata-0/quorum-state"])
def test_files_that_cannot_be_made_anew_stop_the_start_with_a_line(cluster, name, damage):
    cluster.stop()
    path = cluster.data_dir / name
    good = path.read_bytes()
    spoil(path, damage)
    with pytest.raises(ClusterError) as caught:
        cluster.start()
    text = str(caught.value)
    assert "exit code 1" in text
    assert "Traceback" not in cluster.log_text
    assert path.name in text.splitlines()[-1] or path.name in text
    path.write_bytes(good)
    cluster.start()
    check(cluster)


@pytest.mark.parametrize("tail", [b"\0" * 5000, b"\xff" * 61, b"\0\0\0\0\0\0\0\x32\0\0\x10\0" * 9])
def test_a_torn_tail_is_cut(cluster, tail):
    cluster.kill()
    segment = cluster.data_dir / f"{TOPIC}-0" / "00000000000000000000.log"
    with segment.open("ab") as file:
        file.write(tail)
    cluster.start()
    check(cluster)


def test_a_flipped_bit_in_what_was_durable_is_never_served_as_data(cluster):
    """The batch is lost to readers with an error, or the start is refused; never wrong bytes."""
    cluster.stop()
    segment = cluster.data_dir / f"{TOPIC}-0" / "00000000000000000000.log"
    data = bytearray(segment.read_bytes())
    data[61 + 5] ^= 1
    segment.write_bytes(data)
    with contextlib.suppress(ClusterError):
        cluster.start()
    assert "Traceback" not in cluster.log_text
    if not cluster.running:
        return
    with connect(cluster) as client:
        partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 22)
        topic = FetchTopic(topic=TOPIC, partitions=[partition])
        request = FetchRequest(max_wait_ms=0, max_bytes=1 << 24, topics=[topic])
        part = client.ask(request, 12).responses[0].partitions[0]
        if part.error_code == 0:
            assert [r.value for r in read_records(part.records)] == EXPECTED
        else:
            assert part.error_code in (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.CORRUPT_MESSAGE)


def spoil(path: Path, damage: str) -> None:
    good = path.read_bytes() if path.exists() else b""
    if damage == "empty":
        path.write_bytes(b"")
    elif damage == "cut":
        path.write_bytes(good[: len(good) // 2])
    elif damage == "garbage":
        path.write_bytes(b"\xff\x00garbage\n" * 7)
    else:
        path.unlink(missing_ok=True)


# -- configurations --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("num.partitions=many\n", "num.partitions"),
        ("num.partitions=0\n", "num.partitions"),
        ("listeners=PLAINTEXT//127.0.0.1:0\n", "listeners"),
        ("listeners=OTHER://127.0.0.1:0\n", "OTHER"),
        ("listener.security.protocol.map=PLAINTEXT:PLAIN\n", "listener.security.protocol.map"),
        ("sasl.enabled.mechanisms=\n", "sasl.enabled.mechanisms"),
        ("socket.request.max.bytes=99999999999999999999\n", "socket.request.max.bytes"),
        ("log.dirs=\n", "log.dirs"),
        ("\x00\x01\x02\n", "no broker config of this name"),
        ("fencepost.nosuchkey=1\n", "fencepost.nosuchkey"),
    ],
)
def test_a_config_file_with_garbage_is_refused_with_a_line(tmp_path, text, names):
    import sys

    path = tmp_path / "server.properties"
    path.write_bytes(text.encode())
    command = [sys.executable, "-m", "fencepost.cli.main", "serve", "--config", str(path)]
    command += ["-o", f"log.dirs={tmp_path / 'data'}"] if "log.dirs" not in text else []
    command += ["-o", "listeners=PLAINTEXT://127.0.0.1:0"] if "listeners" not in text else []
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert names in done.stderr
    shutil.rmtree(tmp_path / "data", ignore_errors=True)


# -- what is in the way ----------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "is_directory", "says"),
    [
        ("meta.properties", True, "Is a directory"),
        ("__cluster_metadata-0", False, "Not a directory"),
        ("__cluster_metadata-0/quorum-state", True, "Is a directory"),
    ],
)
def test_what_is_in_the_way_is_named(tmp_path, name, is_directory, says):
    with Cluster(data_dir=tmp_path / "data"):
        pass
    path = tmp_path / "data" / name
    if path.is_dir():
        path.rename(tmp_path / "aside")
    else:
        path.unlink()
    path.mkdir() if is_directory else path.write_text("")
    command = [sys.executable, "-m", "fencepost.cli.main", "serve"]
    command += ["--data-dir", str(tmp_path / "data"), "--listen", "127.0.0.1:0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    assert done.returncode == 1
    assert f"cannot start: {path}: {says}\n" in done.stderr
