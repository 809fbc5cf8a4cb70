"""Compaction beside Apache Kafka's: the same log compacted by both, and each reads the other's.

A broker of Apache Kafka writes a log with transactions, aborted and committed, tombstones and
idempotent producers, and stops. One copy of it is compacted by Kafka, another by us.
"""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from fencepost.batch.header import BatchHeader
from fencepost.batch.records import Record, read_batch
from fencepost.log.cleaner.job import Cleaning, Copied
from fencepost.log.cleaner.offset_map import OffsetMap
from fencepost.log.config import LogConfig
from fencepost.log.disk import OsDisk
from fencepost.log.log_dir import LogDir

from ..waiting import DEADLINE_S, eventually
from . import apache
from .reading import read_to_end

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(240)]

TOPIC = "mixed"
SEGMENTS = {"cleanup.policy": "compact", "internal.segment.bytes": "1500"}
CONFIGS = {**SEGMENTS, "min.cleanable.dirty.ratio": "0.01", "index.interval.bytes": "500"}
ASLEEP = {"log.cleaner.backoff.ms": "3600000"}
AWAKE = {"log.cleaner.backoff.ms": "100"}
SMALL = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "log.segment.delete.delay.ms": "100",
}
View = list[tuple[int, bytes | None, bytes | None]]


def transactional(servers: str, name: str) -> Producer:
    producer = Producer({"bootstrap.servers": servers, "transactional.id": name, "linger.ms": 50})
    producer.init_transactions(DEADLINE_S)
    return producer


def write(servers: str, turns: int) -> None:
    """Producers that take turns and overlap; keys are few, some values are null."""
    first, second = (transactional(servers, name) for name in ("one", "two"))
    plain = Producer({"bootstrap.servers": servers, "compression.type": "lz4", "linger.ms": 50})
    sure = Producer({"bootstrap.servers": servers, "enable.idempotence": True,
                     "compression.type": "zstd", "linger.ms": 50})  # fmt: skip
    for turn in range(turns):
        for producer in (first, second):
            producer.begin_transaction()
        for number in range(12):
            key = b"k%d" % (number * (turn + 3) % 17)
            value = None if (number + turn) % 7 == 0 else b"turn %d, number %d " % (turn, number)
            first.produce(TOPIC, key=key, value=value)
            second.produce(TOPIC, key=b"s" + key, value=value, headers=[("n", b"%d" % number)])
            sure.produce(TOPIC, key=b"p%d" % (number % 5), value=b"%d" % turn * 9)
            plain.produce(TOPIC, key=b"k%d" % (number % 3), value=b"plain %d" % turn)
        for producer in (first, plain, second, sure):
            producer.flush(DEADLINE_S)
        for at, producer in enumerate((first, second)):
            if (turn + at) % 3 == 0:
                producer.abort_transaction(DEADLINE_S)
            else:
                producer.commit_transaction(DEADLINE_S)


def seen(servers: str, isolation: str) -> View:
    """Every record that a consumer sees."""
    return [
        (message.offset(), message.key(), message.value())
        for message in read_to_end(servers, TOPIC, isolation)
    ]


def both_views(servers: str) -> tuple[View, View]:
    return seen(servers, "read_committed"), seen(servers, "read_uncommitted")


def last_values(view: View) -> dict[bytes | None, bytes]:
    values = {key: value for _, key, value in view}
    return {key: value for key, value in values.items() if value is not None}


@pytest.fixture(scope="module")
def written(kafka_jars, tmp_path_factory) -> tuple[Path, View, View]:
    """A place with a log that was not compacted, and what consumers see in it."""
    place = tmp_path_factory.mktemp("kafka")
    with apache.apache_broker(place, **SMALL, **ASLEEP) as kafka:
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
        made = admin.create_topics([NewTopic(TOPIC, 1, 1, config=CONFIGS)])
        made[TOPIC].result()
        write(kafka.bootstrap_servers, 14)
        views = both_views(kafka.bootstrap_servers)
    assert len(segments(place)) > 5
    return place, *views


def copied(written: Path, to: Path) -> Path:
    shutil.copytree(written / "data", to / "data")
    return to


def segments(place: Path) -> list[Path]:
    return sorted((place / "data" / f"{TOPIC}-0").glob("*.log"))


def compact(place: Path) -> Cleaning:
    """Compact the log with our own cleaner, on this thread."""
    log_dir = LogDir.open(OsDisk(), str(place / "data"))
    try:
        wall_ms = int(time.time() * 1000)
        config = LogConfig.from_props(CONFIGS)
        log = log_dir.create(TOPIC, 0, None, config, wall_ms=wall_ms)
        dirt = log.measure_dirt(log_dir.cleaned_offset(log), log.end_offset, wall_ms)
        cleaning = log.begin_cleaning(dirt, wall_ms)

        def put_in_place(copied: Copied) -> None:
            swap = log.begin_swap(cleaning, copied)
            swap.run()
            log.finish_swap(swap)

        cleaning.run(OffsetMap(1 << 24), put_in_place)
        log.end_cleaning(cleaning)
        log_dir.note_cleaned(log, cleaning)
        return cleaning
    finally:
        log_dir.close(high_watermarks={})


def batches(place: Path) -> list[tuple[BatchHeader, list[Record]]]:
    """What the log has, as our own reader finds it."""
    log_dir = LogDir.open(OsDisk(), str(place / "data"))
    try:
        log = log_dir.create(TOPIC, 0, None, LogConfig.from_props(CONFIGS), wall_ms=0)
        return [
            (header, read_batch(bytes(batch), 0, header))
            for header, batch in log.read_all_batches(0, log.end_offset)
        ]
    finally:
        log_dir.close()


def wait_until_kafka_is_done(place: Path) -> None:
    checkpoint = place / "data" / "cleaner-offset-checkpoint"
    active = int(segments(place)[-1].stem)
    eventually(
        lambda: checkpoint.exists() and f"{TOPIC} 0 {active}" in checkpoint.read_text(),
        f"Kafka has compacted up to {active}",
    )


def dump_all(place: Path) -> str:
    files = ",".join(str(path) for path in segments(place))
    dumped = apache.run_tool("dump-log", "--deep-iteration", "--files", files)
    assert dumped.stdout.count("Log starting offset") == len(segments(place))
    indexes = [str(path) for path in (place / "data" / f"{TOPIC}-0").glob("*.*index")]
    checked = apache.run_tool(
        "dump-log", "--index-sanity-check", "--files", ",".join(sorted(indexes))
    )
    for output in (dumped, checked):
        assert not [
            line for line in (output.stdout + output.stderr).splitlines()
            if "ismatch" in line or "isvalid: false" in line or "Exception" in line
            or "Found" in line
        ]  # fmt: skip
    return dumped.stdout


def test_both_keep_the_same(written, tmp_path: Path):
    place, committed, _ = written
    ours, kafkas = copied(place, tmp_path / "ours"), copied(place, tmp_path / "kafkas")
    stats = compact(ours).stats
    assert stats.records_written < stats.records_read / 2
    with apache.apache_broker(kafkas, **SMALL, **AWAKE):
        wait_until_kafka_is_done(kafkas)
    here, there = batches(ours), batches(kafkas)

    def records(found):
        return [record for header, some in found if not header.is_control for record in some]

    assert records(here) == records(there)
    assert last_values([(r.offset, r.key, r.value) for r in records(here)]) == last_values(
        committed
    )

    def heads(found):
        """What a batch with records says beside its size, checksum and base timestamp."""
        return [
            header._replace(batch_length=0, crc=0, base_timestamp=0)
            for header, some in found
            if some
        ]

    assert heads(here) == heads(there)
    assert any(header.has_delete_horizon for header, _ in here)


def test_kafka_serves_what_we_compacted(written, tmp_path: Path):
    place, committed, uncommitted = written
    ours = copied(place, tmp_path)
    compact(ours)
    dump_all(ours)
    with apache.apache_broker(ours, **SMALL, **ASLEEP) as kafka:
        now_committed, now_uncommitted = both_views(kafka.bootstrap_servers)
        assert set(now_committed) < set(committed)
        assert set(now_uncommitted) < set(uncommitted)
        assert last_values(now_committed) == last_values(committed)
        for view in (now_committed, now_uncommitted):
            assert view == sorted(view)
        write(kafka.bootstrap_servers, 3)  # by producers that Kafka has to remember
        grown, _ = both_views(kafka.bootstrap_servers)
        assert grown[: len(now_committed)] == now_committed
        assert len(grown) > len(now_committed)
    before = last_values(grown)
    compact(ours)
    dump_all(ours)
    with apache.apache_broker(ours, **SMALL, **AWAKE) as kafka:
        again, _ = both_views(kafka.bootstrap_servers)
        assert last_values(again) == before


def test_we_go_on_where_kafka_has_compacted(written, tmp_path: Path):
    place, _, _ = written
    with apache.apache_broker(copied(place, tmp_path), **SMALL, **AWAKE) as kafka:
        wait_until_kafka_is_done(tmp_path)
        write(kafka.bootstrap_servers, 4)
        before, _ = both_views(kafka.bootstrap_servers)
    (tmp_path / "data" / ".kafka_cleanshutdown").unlink()  # as if it had crashed
    assert compact(tmp_path).stats.records_read > 0
    dump_all(tmp_path)
    with apache.apache_broker(tmp_path, **SMALL, **ASLEEP) as kafka:
        after, _ = both_views(kafka.bootstrap_servers)
    assert set(after) < set(before)
    assert last_values(after) == last_values(before)
