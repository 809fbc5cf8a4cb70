"""A directory with segments of before Kafka 0.11, served by Fencepost and by Apache Kafka.

The same files go to both, who recover them, since there is no mark of a clean end; clients of today
read them, find records by time, and write on.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.batch.header import iter_headers
from fencepost.batch.legacy import build_message_set
from fencepost.batch.records import Record, read_records
from fencepost.client.admin import Admin
from fencepost.client.cluster import Cluster as Client
from fencepost.client.connection import Connection
from fencepost.client.metadata import TopicPartition
from fencepost.client.offsets import EARLIEST, LATEST, list_offsets
from fencepost.client.producer import Producer
from fencepost.testing import Cluster
from fencepost.wire.api.fetch import FetchPartition, FetchRequest, FetchTopic

from ..waiting import DEADLINE_MS, DEADLINE_S
from . import apache

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(240)]

TOPIC = "numbers"
WHERE = TopicPartition(TOPIC, 0)
NOW_MS = 1_700_000_000_000
CODECS = ["none", "gzip", "snappy", "lz4"]
SET_RECORDS = 5


def old_records(first: int) -> list[Record]:
    return [
        Record(at, NOW_MS + at, 0, b"k" if at % 2 else None, b"%d" % at)
        for at in range(first, first + SET_RECORDS)
    ]


def old_segments() -> dict[int, bytes]:
    """A segment of v0 and one of v1, by base offset: message sets with each codec."""
    segments, offset = {}, 0
    for magic in (0, 1):
        base, blob = offset, b""
        for codec in CODECS:
            blob += build_message_set(old_records(offset), magic=magic, compression=codec)
            offset += SET_RECORDS
        segments[base] = blob
    return segments


END = 2 * len(CODECS) * SET_RECORDS
FIRST_V1 = END // 2


@pytest.fixture(scope="module")
def old_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Data of a stopped cluster, the topic's log replaced by one that an old broker wrote."""
    place = tmp_path_factory.mktemp("old")
    with Cluster(faults=False, data_dir=place / "data") as cluster:
        with Client(cluster.bootstrap_servers) as client:
            Admin(client).create_topic(TOPIC, 1, configs={"retention.ms": "-1"})
        assert cluster.stop() == 0
    (place / "data" / ".kafka_cleanshutdown").unlink()
    log = place / "data" / f"{TOPIC}-0"
    for path in log.iterdir():
        if path.name != "partition.metadata":
            path.unlink()
    for base, blob in old_segments().items():
        path = log / f"{base:020}.log"
        path.write_bytes(blob)
        # For Kafka the time of a file stands in for those its messages do not have, and the first
        # segment that is new enough is the only one it looks into.
        os.utime(path, (NOW_MS // 1000 - 1, NOW_MS // 1000 - 1))
    return place


@pytest.fixture(scope="module", params=["fencepost", "apache"])
def servers(
    request: pytest.FixtureRequest,
    kafka_jars: object,
    old_directory: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[str]:
    place = tmp_path_factory.mktemp(request.param)
    shutil.copytree(old_directory, place, dirs_exist_ok=True)
    with contextlib.ExitStack() as stack:
        if request.param == "fencepost":
            cluster = stack.enter_context(Cluster(data_dir=place / "data"))
        else:
            cluster = stack.enter_context(apache.apache_broker(place))
        yield cluster.bootstrap_servers


def fetch_all(servers: str, start: int = 0, end: int = END) -> bytes:
    host, _, port = servers.rpartition(":")
    blob, offset = b"", start
    with Connection(host, int(port), timeout_ms=DEADLINE_MS) as connection:
        while offset < end:
            partition = FetchPartition(
                partition=0, fetch_offset=offset, partition_max_bytes=300, current_leader_epoch=-1
            )
            request = FetchRequest(
                max_wait_ms=500, min_bytes=1, max_bytes=300, session_epoch=-1,
                topics=[FetchTopic(topic=TOPIC, partitions=[partition])],
            )  # fmt: skip
            answer = connection.request(request, 11).responses[0].partitions[0]
            assert answer.error_code == 0
            found = bytes(answer.records)
            *_, (at, header) = iter_headers(found)
            blob += found[: at + header.size_bytes]
            offset = header.next_offset
    return blob


def test_the_bytes_come_as_they_are(servers):
    whole = b"".join(old_segments().values())
    assert fetch_all(servers) == whole
    for start in (3, 7, FIRST_V1 - 1, FIRST_V1, END - 1):
        found = read_records(fetch_all(servers, start), start_offset=start)
        assert [record.offset for record in found] == list(range(start, END))


def test_times_are_looked_up(servers):
    with Client(servers) as client:
        for wanted_ms, offset in (
            (NOW_MS, FIRST_V1),  # v0 has no times
            (NOW_MS + FIRST_V1 + 3, FIRST_V1 + 3),
            (NOW_MS + END - 2, END - 2),
        ):
            found = list_offsets(client, {WHERE: wanted_ms})[WHERE]
            assert (found.offset, found.timestamp_ms) == (offset, max(wanted_ms, NOW_MS + offset))
        assert list_offsets(client, {WHERE: NOW_MS + END})[WHERE].offset == -1
        assert list_offsets(client, {WHERE: EARLIEST})[WHERE].offset == 0


def test_clients_of_today_read_them(servers):
    values = [str(at) for at in range(END)]
    assert apache.consume(servers, TOPIC, END, "--from-beginning") == values
    from confluent_kafka import Consumer, TopicPartition as Place

    consumer = Consumer({"bootstrap.servers": servers, "group.id": "g", "check.crcs": True})
    consumer.assign([Place(TOPIC, 0, 0)])
    try:
        messages = [consumer.poll(DEADLINE_S) for _ in values]
    finally:
        consumer.close()
    assert [message.value().decode() for message in messages] == values
    assert [message.offset() for message in messages] == list(range(END))


def test_kafka_python_reads_them(servers):
    pytest.importorskip("xxhash")  # which it wants for the lz4 of v0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        from kafka import KafkaConsumer, TopicPartition as Place
    consumer = KafkaConsumer(bootstrap_servers=servers, consumer_timeout_ms=int(DEADLINE_S * 1000))
    place = Place(TOPIC, 0)
    consumer.assign([place])
    consumer.seek(place, 0)
    found = [next(consumer) for _ in range(END)]
    consumer.close()
    assert [int(record.value) for record in found] == list(range(END))


def test_the_log_goes_on_in_todays_format(servers):
    with Client(servers) as client, Producer(client) as producer:
        producer.send(TOPIC, b"new")
        producer.flush()
        assert list_offsets(client, {WHERE: LATEST})[WHERE].offset == END + 1
    newest = fetch_all(servers, END, END + 1)
    ((_, header),) = iter_headers(newest)
    assert header.magic == 2
    assert [record.value for record in read_records(newest)] == [b"new"]
