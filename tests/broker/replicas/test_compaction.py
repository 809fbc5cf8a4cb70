"""Compaction in a running node: it happens by itself, off the loop, and harms nobody."""

from __future__ import annotations

import errno
import random
import time

import pytest

from fencepost.batch.header import measure
from fencepost.batch.records import build_batch, read_records
from fencepost.broker.config.broker_config import BrokerConfig
from fencepost.client.admin import Admin, ConfigChange
from fencepost.client.cluster import Cluster as Client
from fencepost.client.groups import CommittedOffset
from fencepost.client.metadata import TopicPartition
from fencepost.log.cleaner.job import Cleaning
from fencepost.log.cleaner.offset_map import OffsetMap
from fencepost.log.configdef import ConfigError
from fencepost.log.errors import LogError
from fencepost.testing import Cluster
from fencepost.wire.errors import ErrorCode

from ...reference_cycles import cycles
from ...waiting import eventually
from ..listener_fixtures import connect
from ..topic_requests import batch, fetch, make_topic, produce

TOPIC = 2  # among the resource types of IncrementalAlterConfigs
QUICK = {"log_cleaner_backoff_ms": 20, "log_cleaner_min_cleanable_ratio": 0.1}
COMPACT = {"cleanup_policy": "compact", "internal_segment_bytes": 2000}


@pytest.fixture
def running(node_factory):
    return node_factory(**QUICK)


@pytest.fixture
def client(running):
    with running.connect() as connected:
        yield connected


def put(client, topic, *items: tuple[bytes | None, bytes | None]):
    now_ms = int(time.time() * 1000)
    return produce(client, topic, bytes(build_batch(items, timestamp_ms=now_ms)))


def fill(client, topic, count: int = 200, keys: int = 7) -> dict[bytes, bytes]:
    expected = {}
    for at in range(count):
        key, value = b"k%d" % (at % keys), b"v%d" % at * 5
        assert put(client, topic, (key, value)).error_code == 0
        expected[key] = value
    return expected


def everything(client, topic) -> list[tuple[int, bytes | None, bytes | None]]:
    found, offset = [], 0
    while True:
        (part,) = fetch(client, topic, offset)
        assert part.error_code == 0
        if not part.records:
            return found
        for record in read_records(part.records, start_offset=offset):
            found.append((record.offset, record.key, record.value))
        offset = measure(part.records).next_offset


def alter(running, topic, key: str, value: str) -> None:
    with Client(running.bootstrap_servers) as cluster:
        Admin(cluster).alter_configs(TOPIC, topic.name, [ConfigChange(key, value)])


def hosted(running, topic, index=0):
    return running.call(running.node.broker.replicas.get, topic.name, index)


def cleaned_offset(running, topic) -> int:
    host = hosted(running, topic)
    return running.call(host.data_dir.logs.cleaned_offset, host.log) or 0


def wait_until_clean(running, topic) -> None:
    log = hosted(running, topic).log
    eventually(lambda: cleaned_offset(running, topic) >= log.segment_base_offsets[-1] > 0)


def test_a_topic_is_compacted_while_it_is_used(running, client):
    topic = make_topic(client, **COMPACT)
    expected = fill(client, topic)
    wait_until_clean(running, topic)
    found = everything(client, topic)
    assert len(found) < 60
    assert {key: value for _, key, value in found} == expected
    assert [offset for offset, _, _ in found] == sorted({offset for offset, _, _ in found})
    assert put(client, topic, (b"k0", b"new")).base_offset == 200
    running.restart()
    with running.connect() as again:
        assert {key: value for _, key, value in everything(again, topic)} == {
            **expected,
            b"k0": b"new",
        }
        assert cleaned_offset(running, topic) > 0


def test_a_topic_becomes_compacted_when_its_config_says_so(running, client):
    topic = make_topic(client, internal_segment_bytes=2000)
    assert produce(client, topic, batch(b"no key")).error_code == 0
    fill(client, topic)
    alter(running, topic, "cleanup.policy", "compact")
    wait_until_clean(running, topic)
    assert len(everything(client, topic)) < 60
    refused = produce(client, topic, batch(b"no key"))
    assert refused.error_code == ErrorCode.INVALID_RECORD


def test_a_deleted_topic_is_let_go_of(running, client):
    for _ in range(5):
        topic = make_topic(client, **COMPACT)
        fill(client, topic, 40)
        with Client(running.bootstrap_servers) as cluster:
            Admin(cluster).delete_topic(topic.name)
    topic = make_topic(client, **COMPACT)
    fill(client, topic)
    wait_until_clean(running, topic)
    assert running.node.failure is None


def test_compact_and_delete_do_both(running, client):
    topic = make_topic(client, cleanup_policy="compact,delete", internal_segment_bytes=2000,
                       retention_bytes=1)  # fmt: skip
    fill(client, topic, 300)
    wait_until_clean(running, topic)
    log = hosted(running, topic).log
    running.call(running.node.housekeeping.retain)
    eventually(lambda: log.start_offset > 0)
    fill(client, topic, 100)
    wait_until_clean(running, topic)


def test_a_damaged_log_is_left_alone_and_others_are_not(running, client, caplog):
    bad = make_topic(client, **COMPACT, min_cleanable_dirty_ratio=1)
    fill(client, bad)
    path = hosted(running, bad).log.directory
    running.call(
        running.node.broker.compactor._give_up, hosted(running, bad), ValueError("said the test")
    )
    size = hosted(running, bad).log.size_bytes
    good = make_topic(client, **COMPACT)
    fill(client, good)
    wait_until_clean(running, good)
    alter(running, bad, "min.cleanable.dirty.ratio", "0")
    fill(client, good)
    wait_until_clean(running, good)
    assert hosted(running, bad).log.size_bytes == size
    assert path.endswith("-0")
    assert "cannot compact" in caplog.text


def test_a_cleaning_that_fails_keeps_no_map_in_memory(running, client, monkeypatch, caplog):
    topic = make_topic(client, **COMPACT, min_cleanable_dirty_ratio=1)
    fill(client, topic)

    def refuse(self, offsets, put_in_place, **options):
        raise LogError(f"said the test, of a map of {type(offsets).__name__}")

    monkeypatch.setattr(Cleaning, "run", refuse)
    with cycles(lambda one: isinstance(one, OffsetMap | LogError)) as found:
        alter(running, topic, "min.cleanable.dirty.ratio", "0")
        eventually(lambda: "cannot compact" in caplog.text)
        running.call(lambda: None)
    assert found == []


def test_a_disk_that_refuses_takes_the_directory_offline(running, client, monkeypatch):
    topic = make_topic(client, **COMPACT, min_cleanable_dirty_ratio=1)
    fill(client, topic)

    def refuse(path, modified_ms):
        raise OSError(errno.EIO, "injected", path)

    monkeypatch.setattr(hosted(running, topic).log.disk, "set_modified_ms", refuse)
    alter(running, topic, "min.cleanable.dirty.ratio", "0")
    eventually(lambda: running.node.failure is not None)
    assert "injected" in running.node.failure


def test_nothing_is_compacted_if_so_configured(node_factory):
    for switch in ({"log_cleaner_enable": "false"}, {"log_cleaner_threads": 0}):
        running = node_factory(**QUICK, **switch)
        with running.connect() as client:
            topic = make_topic(client, **COMPACT)
            fill(client, topic, 50)
            running.call(running.node.broker.compactor._look)
            assert len(everything(client, topic)) == 50
            assert running.node.broker.compactor.cleanings == 0


def test_several_threads_and_little_bandwidth(node_factory):
    running = node_factory(
        **QUICK, log_cleaner_threads=3, log_cleaner_io_max_bytes_per_second=200_000,
        log_cleaner_io_buffer_size=1,
    )  # fmt: skip
    with running.connect() as client:
        topics = [make_topic(client, **COMPACT) for _ in range(5)]
        expected = [fill(client, topic, 100) for topic in topics]
        for topic, values in zip(topics, expected, strict=True):
            wait_until_clean(running, topic)
            assert {key: value for _, key, value in everything(client, topic)} == values


def test_a_node_stops_amid_a_cleaning(node_factory):
    running = node_factory(**QUICK, log_cleaner_io_max_bytes_per_second=1000)
    with running.connect() as client:
        topic = make_topic(client, **COMPACT)
        expected = fill(client, topic)
        eventually(lambda: running.node.broker.compactor._at_work)
    running.restart()
    with running.connect() as client:
        assert {key: value for _, key, value in everything(client, topic)} == expected


def look_again(compactor) -> None:
    """Look now and every 20 ms from now on, however far off the next look was."""
    compactor._timer.cancel()
    compactor._backoff_ms = 20
    compactor._look()


def test_a_cleaning_without_progress_backs_off_and_lets_others_go_first(node_factory, monkeypatch):
    """No log is known to be such; one that is, all the same, must not take all the time."""
    running = node_factory(**QUICK)
    rounds = []
    clean = Cleaning.run

    def stuck(cleaning, offsets, put_in_place, **how):
        if "stuck" not in cleaning._given.directory:
            return clean(cleaning, offsets, put_in_place, **how)
        rounds.append(cleaning)
        return None

    monkeypatch.setattr(Cleaning, "run", stuck)
    with running.connect() as client:
        fill(client, make_topic(client, name="stuck", **COMPACT))
        eventually(lambda: rounds)
        compactor = running.node.broker.compactor
        compactor._backoff_ms = 1 << 40
        eventually(lambda: running.call(lambda: compactor._timer.armed and not compactor._at_work))
        running.call(look_again, compactor)
        topic = make_topic(client, **COMPACT)
        expected = fill(client, topic)
        wait_until_clean(running, topic)
        assert {key: value for _, key, value in everything(client, topic)} == expected


def test_the_map_has_a_mebibyte_for_each_thread():
    with pytest.raises(ConfigError, match=r"log\.cleaner\.dedupe\.buffer\.size"):
        BrokerConfig.load(
            None, {"log.cleaner.dedupe.buffer.size": "2000000", "log.cleaner.threads": "2"}
        )


@pytest.mark.slow
def test_committed_offsets_survive_compaction_and_restarts():
    options = {
        "log.cleaner.backoff.ms": 50,
        "offsets.topic.num.partitions": 1,
        "offsets.topic.segment.bytes": 1 << 20,
        "log.cleaner.min.cleanable.ratio": 0.01,
    }
    with Cluster(config=options) as cluster:
        partitions = [TopicPartition("many", index) for index in range(200)]
        with Client(cluster.bootstrap_servers) as connected:
            admin = Admin(connected)
            admin.create_topic("many", len(partitions))
            for turn in range(80):
                admin.alter_group_offsets(
                    "readers",
                    {
                        where: CommittedOffset(turn * 1000 + where.partition, -1, "")
                        for where in partitions
                    },
                )
        directory = cluster.data_dir / "__consumer_offsets-0"
        eventually(lambda: "compacted __consumer_offsets-0" in cluster.log_text)
        eventually(lambda: not list(directory.glob("*.cleaned")) + list(directory.glob("*.swap")))
        size = sum(path.stat().st_size for path in directory.glob("*.log"))
        assert size < 1_500_000
        for how in (cluster.restart, cluster.kill):
            how()
            if not cluster.running:
                cluster.start()
            with Client(cluster.bootstrap_servers) as connected:
                found = Admin(connected).group_offsets("readers")
                assert {where: found[where].offset for where in partitions} == {
                    where: 79_000 + where.partition for where in partitions
                }


@pytest.mark.slow
def test_what_was_acknowledged_survives_kills_amid_compactions():
    options = {"log.cleaner.backoff.ms": 1, "log.cleaner.min.cleanable.ratio": 0.01,
               "log.segment.delete.delay.ms": 0}  # fmt: skip
    dice = random.Random(7)
    expected: dict[bytes, bytes] = {}
    with Cluster(config=options) as cluster:
        with connect(cluster) as client:
            topic = make_topic(client, cleanup_policy="compact", internal_segment_bytes=20_000)
        compactions = 0
        for _ in range(6):
            with connect(cluster) as client:
                for at in range(dice.randrange(150, 400)):
                    items = [(b"k%d" % dice.randrange(99), b"%d-" % at * 30) for _ in range(5)]
                    assert put(client, topic, *items).error_code == 0
                    expected.update(items)
                compactions += cluster.log_text.count(f"compacted {topic.name}-0")
                cluster.kill()
            cluster.start()
        with connect(cluster) as client:
            found = everything(client, topic)
    assert {key: value for _, key, value in found} == expected
    assert [offset for offset, _, _ in found] == sorted({offset for offset, _, _ in found})
    assert compactions > 6
