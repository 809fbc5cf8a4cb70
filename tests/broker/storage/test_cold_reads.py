"""What is not in the page cache: threads read it, and a disk that hangs holds up its own files."""

from __future__ import annotations

import errno
import gc
import threading
from concurrent.futures import Future
from pathlib import Path

import pytest

from fencepost.broker.storage import cold_reads
from fencepost.broker.storage.cold_reads import (
    CHUNK_BYTES,
    COLD_TRIES,
    RANGES_MAX,
    THREADS_PER_DIR,
    ColdReads,
    first_done,
)
from fencepost.log.descriptors import Descriptors
from fencepost.log.page_cache import NotCachedError, PageCache
from fencepost.machines.partition.queries import MAX_TIMESTAMP
from fencepost.wire.api import ApiVersionsRequest
from fencepost.wire.api.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from fencepost.wire.errors import ErrorCode

from ...log.page_cache_fixtures import make_cold
from ...reference_cycles import cycles
from ...waiting import DEADLINE_S, eventually
from ..conftest import RunningNode
from ..topic_requests import batch, fetch, fetch_request, make_topic, produce, values

LIMITS = ({}, {"partition_max_bytes": 1}, {"max_bytes": 25_000}, {"min_bytes": 70_000})


class World:
    """A node with the directories a and b, and a topic with one partition in each."""

    def __init__(self, path: Path) -> None:
        dirs = ",".join(str(path / name) for name in "ab")
        self.running = RunningNode(path, {"log.dirs": dirs})
        with self.running.connect() as client:
            self.topic = make_topic(client, partitions=2)
            for index in range(2):
                for _ in range(3):
                    records = batch(b"%d" % index * 20_000)
                    assert produce(client, self.topic, records, index=index).error_code == 0
            self.warm = fetch(client, self.topic, 0, 0)
        self.dirs = [self.place(index) for index in range(2)]

    def place(self, index: int) -> str:
        hosted = self.running.call(self.running.node.broker.replicas.get, self.topic.name, index)
        return Path(hosted.data_dir.path).name

    def make_cold(self, *indexes: int) -> None:
        for index in indexes:
            hosted = self.running.call(
                self.running.node.broker.replicas.get, self.topic.name, index
            )
            make_cold(Path(hosted.log.directory) / f"{0:020d}.log")


@pytest.fixture
def world(tmp_path):
    made = World(tmp_path)
    assert sorted(made.dirs) == ["a", "b"]
    yield made
    made.running.close()


def of_partition(topic, index, **kinds):
    """A fetch of one partition, whichever it is."""
    request = fetch_request(topic, 0, **kinds)
    request.topics[0].partitions[0].partition = index
    return request


def only(response):
    return response.responses[0].partitions[0]


def test_a_disk_that_hangs_holds_up_who_reads_from_it_and_nobody_else(world, disk):
    topic = world.topic
    disk.hung_dir = world.dirs[0]
    world.make_cold(1)
    connect = world.running.connect
    with connect() as stuck, connect() as other, connect() as both:
        stuck.send(of_partition(topic, 0), 12)
        stuck.send(ApiVersionsRequest(), 0)
        eventually(lambda: disk.asked, "the thread of the disk that hangs is asked")
        assert only(other.ask(of_partition(topic, 1), 12)).records == world.warm[1].records
        hung, read = fetch(both, topic, 0, 0)
        assert (hung.error_code, hung.high_watermark, bytes(hung.records)) == (0, 3, b"")
        assert read.records == world.warm[1].records
        assert len([path for path in disk.asked if disk.hung_dir in Path(path).parts]) == 1
        assert produce(other, topic, batch(b"x"), index=0).error_code == 0
        disk.go.set()
        _, answered = stuck.receive(1, 12)
        assert bytes(only(answered).records).startswith(bytes(world.warm[0].records))
        assert stuck.receive(18, 0)[1].error_code == 0


def test_what_was_cold_is_answered_as_if_it_were_not(world, disk):
    with world.running.connect() as client:
        for limits in LIMITS:
            for isolation in (0, 1):
                kinds = {"isolation_level": isolation, "max_wait_ms": 1, **limits}
                warm = only(client.ask(of_partition(world.topic, 0, **kinds), 12))
                world.make_cold(0)
                assert only(client.ask(of_partition(world.topic, 0, **kinds), 12)) == warm
        assert values(warm) == [b"0" * 20_000] * 3
        assert disk.asked, "it was cold"


def by_time(topic, index, timestamp_ms):
    """A question for the first record of a partition at that time or later, or at another."""
    partition = ListOffsetsPartition(
        partition_index=index, current_leader_epoch=-1, timestamp=timestamp_ms
    )
    named = ListOffsetsTopic(name=topic.name, partitions=[partition])
    return ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=[named])


@pytest.mark.parametrize("timestamp_ms", [0, MAX_TIMESTAMP])
def test_a_search_by_time_waits_for_its_own_disk_alone(world, disk, timestamp_ms):
    topic = world.topic
    questions = [by_time(topic, index, timestamp_ms) for index in range(2)]
    with world.running.connect() as stuck, world.running.connect() as other:
        warm, warm_too = (stuck.ask(question, 7) for question in questions)
        assert warm.topics[0].partitions[0].offset >= 0
        disk.hung_dir = world.dirs[0]
        stuck.send(questions[0], 7)
        eventually(lambda: disk.asked, "the thread of the disk that hangs is asked")
        assert other.ask(questions[1], 7) == warm_too
        disk.go.set()
        assert stuck.receive(2, 7)[1] == warm


def test_a_search_by_time_on_a_disk_that_refuses_fails(world, disk):
    bad = world.dirs.index("b")  # the metadata log is in a
    disk.error = errno.EIO
    disk.lost_dir = world.dirs[bad]
    with world.running.connect() as client:
        told = client.ask(by_time(world.topic, bad, 0), 7).topics[0].partitions[0]
        assert told.error_code == ErrorCode.KAFKA_STORAGE_ERROR


def test_a_disk_that_refuses_a_thread_is_offline(world, disk):
    bad = world.dirs.index("b")  # the metadata log is in a
    disk.error = errno.EIO
    disk.lost_dir = world.dirs[bad]
    with world.running.connect() as client:
        part = only(client.ask(of_partition(world.topic, bad, isolation_level=1), 12))
        assert part.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        good = only(client.ask(of_partition(world.topic, 1 - bad), 12))
        assert good.records == world.warm[1 - bad].records


def refusals() -> list[OSError]:
    """The errors of a disk that something still keeps, be it another test's."""
    objects = gc.get_objects()
    return [one for one in objects if isinstance(one, OSError) and one.errno == errno.EIO]


@pytest.mark.parametrize("api", ["fetch", "list offsets"])
def test_a_disk_that_refuses_a_thread_leaves_no_reference_cycle(world, disk, api):
    bad = world.dirs.index("b")  # the metadata log is in a
    disk.error = errno.EIO
    if api == "fetch":
        question, version = of_partition(world.topic, bad, isolation_level=1), 12
    else:
        question, version = by_time(world.topic, bad, 0), 7
    with world.running.connect() as client:
        client.ask(ApiVersionsRequest(client_software_name="t", client_software_version="1"), 3)
        disk.lost_dir = world.dirs[bad]
        before = refusals()
        with cycles() as found:
            client.ask(question, version)
            world.running.call(lambda: None)
        assert disk.asked
        assert found == []
        assert [one for one in refusals() if not any(one is old for old in before)] == []


def test_pages_that_do_not_stay_are_read_all_the_same(world, disk, monkeypatch):
    tries = []
    disk.hung_dir = world.dirs[0]

    def in_vain(self, cold, ahead_bytes=0):
        tries.append(cold)
        future: Future[None] = Future()
        future.set_result(None)
        return future

    monkeypatch.setattr(ColdReads, "begin", in_vain)
    with world.running.connect() as client:
        part = only(client.ask(of_partition(world.topic, 0), 12))
        assert part.records == world.warm[0].records
    assert len(tries) == COLD_TRIES


def test_a_client_that_leaves_is_not_answered(world, disk):
    disk.hung_dir = world.dirs[0]
    with world.running.connect() as leaving:
        leaving.send(of_partition(world.topic, 0), 12)
        eventually(lambda: disk.asked)
    disk.go.set()
    with world.running.connect() as client:
        assert len(fetch(client, world.topic, 0, 0)) == 2


def test_ranges_are_bounded_and_read_once(tmp_path, disk):
    disk.hung_dir = tmp_path.name
    reads = ColdReads(PageCache(), Descriptors())
    missing = [NotCachedError(f"{tmp_path}/t-0/{at}.log", 0, 1) for at in range(RANGES_MAX + 1)]
    futures = [reads.begin(one) for one in missing[:RANGES_MAX]]
    assert reads.begin(missing[0]) is futures[0]
    one_too_many = reads.begin(missing[RANGES_MAX])
    assert one_too_many not in futures and not one_too_many.done()
    either = first_done(futures[:2])
    disk.go.set()
    for future in (one_too_many, either, *futures):  # files that have gone: to be tried again
        assert future.result(DEADLINE_S) is None
    assert sorted(disk.asked) == sorted(one.path for one in missing[:RANGES_MAX])
    reads.close()
    eventually(lambda: not any(t.name == "fencepost-read" for t in threading.enumerate()))


def test_a_range_is_read_to_its_end_or_as_far_ahead_as_is_wanted(tmp_path, monkeypatch):
    path, read, original = tmp_path / "0.log", [], cold_reads.os.preadv
    path.write_bytes(bytes(3 * CHUNK_BYTES))

    def noting(descriptor, buffers, position):
        read.append((position, len(buffers[0])))
        return original(descriptor, buffers, position)

    monkeypatch.setattr(cold_reads.os, "preadv", noting)
    reads = ColdReads(PageCache(), Descriptors())
    chunks = [(5, CHUNK_BYTES), (5 + CHUNK_BYTES, 100)]
    for size_bytes, ahead_bytes in ((CHUNK_BYTES + 100, 0), (1, CHUNK_BYTES + 100)):
        reads.begin(NotCachedError(str(path), 5, size_bytes), ahead_bytes).result(DEADLINE_S)
        assert read == chunks
        read.clear()
    behind = NotCachedError(str(path), 3 * CHUNK_BYTES - 7, CHUNK_BYTES)  # the file was cut
    reads.begin(behind).result(DEADLINE_S)
    assert [position for position, _ in read] == [3 * CHUNK_BYTES - 7, 3 * CHUNK_BYTES]
    reads.close()


def test_a_directory_has_as_many_threads_as_it_has_use_for(tmp_path, disk):
    before = set(threading.enumerate())

    def threads():
        new = set(threading.enumerate()) - before
        return sum(one.name == "fencepost-read" for one in new)

    disk.hung_dir = tmp_path.name
    reads = ColdReads(PageCache(), Descriptors())
    futures, counts = [], []
    for at in range(THREADS_PER_DIR + 2):
        futures.append(reads.begin(NotCachedError(f"{tmp_path}/t-0/{at}.log", 0, 1)))
        counts.append(threads())
    assert counts == [*range(1, THREADS_PER_DIR + 1), THREADS_PER_DIR, THREADS_PER_DIR]
    disk.go.set()
    for future in futures:
        future.result(DEADLINE_S)
    reads.close()
    eventually(lambda: not threads())
