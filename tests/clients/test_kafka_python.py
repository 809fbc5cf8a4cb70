"""kafka-python, a codec and client of its own lineage."""

from __future__ import annotations

import threading
import uuid

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from ..waiting import DEADLINE_S, eventually

pytestmark = [pytest.mark.clients]


def produce(bootstrap: str, topic: str, count: int, **config) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap, **config)
    futures = [
        producer.send(topic, f"m{number}".encode(), f"k{number}".encode(), partition=0)
        for number in range(count)
    ]
    producer.flush(DEADLINE_S)
    for number, future in enumerate(futures):
        metadata = future.get(timeout=DEADLINE_S)
        if config.get("acks") != 0:
            assert metadata.offset == number
    producer.close()


def read_all(bootstrap: str, topic: str, count: int, **config) -> list:
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        consumer_timeout_ms=DEADLINE_S * 1000,
        fetch_max_wait_ms=50,
        **config,
    )
    consumer.assign([TopicPartition(topic, 0)])
    got = []
    for record in consumer:
        got.append(record)
        if len(got) == count:
            break
    consumer.close()
    return got


@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_produce_and_consume(bootstrap, make_topic, codec, acks):
    topic = make_topic()
    idempotent = acks == "all"
    produce(bootstrap, topic, 100, compression_type=codec, acks=acks, enable_idempotence=idempotent)
    got = read_all(bootstrap, topic, 100)
    assert [record.value for record in got] == [f"m{n}".encode() for n in range(100)]
    assert [record.offset for record in got] == list(range(100))


def test_offsets_for_times_beginning_and_end(bootstrap, make_topic):
    topic = make_topic()
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    for number in range(10):
        producer.send(topic, b"x", partition=0, timestamp_ms=1_700_000_000_000 + number)
    producer.flush(DEADLINE_S)
    producer.close()
    consumer = KafkaConsumer(bootstrap_servers=bootstrap)
    part = TopicPartition(topic, 0)
    assert consumer.beginning_offsets([part])[part] == 0
    assert consumer.end_offsets([part])[part] == 10
    assert consumer.offsets_for_times({part: 1_700_000_000_004})[part].offset == 4
    assert consumer.offsets_for_times({part: 1_800_000_000_000})[part] is None
    consumer.close()


def test_group_commit_and_resume(bootstrap, make_topic):
    topic = make_topic(partitions=2)
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    for number in range(40):
        producer.send(topic, f"m{number}".encode(), partition=number % 2)
    producer.flush(DEADLINE_S)
    producer.close()
    group = f"g-{uuid.uuid4().hex[:8]}"

    def member() -> KafkaConsumer:
        return KafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            consumer_timeout_ms=DEADLINE_S * 1000,
            session_timeout_ms=30_000,
            heartbeat_interval_ms=500,
        )

    seen = []
    first = member()
    for record in first:
        seen.append(record.value)
        if len(seen) == 10:
            first.commit()
            break
    positions = {part: first.committed(part) or 0 for part in first.assignment()}
    assert sum(positions.values()) >= 10
    first.close()
    second = member()
    committed = sum(positions.values())
    rest = []
    for record in second:
        rest.append(record.value)
        if len(rest) == 40 - committed:
            break
    second.close()
    assert len(rest) == 40 - committed
    assert len(set(rest)) == len(rest)


def test_two_members_share_the_partitions(bootstrap, make_topic):
    topic = make_topic(partitions=4)
    group = f"g-{uuid.uuid4().hex[:8]}"
    settings = {
        "bootstrap_servers": bootstrap,
        "group_id": group,
        "session_timeout_ms": 30_000,
        "heartbeat_interval_ms": 300,
        "metadata_max_age_ms": 1000,
    }
    stop, sizes = threading.Event(), {}

    def live(name: str, until: threading.Event) -> None:
        consumer = KafkaConsumer(topic, **settings)
        # One that joins before it knows the partitions hands out none and joins again when it does.
        # If poll() ends between that JoinGroup's answer and SyncGroup's, kafka-python 3.0.12 drops
        # the latter: by then its metadata is as assigned, and it sees no reason to look.
        consumer.partitions_for_topic(topic)
        while not until.is_set():
            consumer.poll(100)
            sizes[name] = len(consumer.assignment())
        consumer.close()
        sizes[name] = 0

    def settle(expected: dict[str, int]) -> None:
        eventually(lambda: sizes == expected, f"{expected}")

    leave = threading.Event()
    one = threading.Thread(target=live, args=("one", stop))
    two = threading.Thread(target=live, args=("two", leave))
    try:
        one.start()
        settle({"one": 4})
        two.start()
        settle({"one": 2, "two": 2})
        leave.set()
        settle({"one": 4, "two": 0})
    finally:
        stop.set()
        leave.set()
        one.join(DEADLINE_S)
        if two.ident is not None:
            two.join(DEADLINE_S)
