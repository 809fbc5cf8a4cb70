"""librdkafka, through confluent-kafka."""

from __future__ import annotations

import time
import uuid

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, ConfigResource, NewPartitions, OffsetSpec

from ..waiting import DEADLINE_S, eventually

pytestmark = [pytest.mark.clients]

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


def produce(bootstrap: str, topic: str, count: int, partition: int = 0, **config) -> None:
    """Send m0 .. m(count-1) and insist that each was delivered."""
    delivered: list[Message] = []
    problems: list[KafkaError] = []

    def done(error: KafkaError | None, message: Message) -> None:
        (problems.append(error) if error else delivered.append(message))

    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, **config})
    for number in range(count):
        producer.produce(
            topic, f"m{number}".encode(), f"k{number}".encode(), partition, on_delivery=done
        )
    assert producer.flush(DEADLINE_S) == 0
    assert problems == []
    assert len(delivered) == count


def read(consumer: Consumer, count: int) -> list[Message]:
    """The next `count` messages, or what came until the deadline."""
    got: list[Message] = []
    deadline = time.monotonic() + DEADLINE_S
    while len(got) < count and time.monotonic() < deadline:
        for message in consumer.consume(count - len(got), 0.05):
            assert message.error() is None, message.error()
            got.append(message)
    return got


def consumer_of(bootstrap: str, group: str | None = None, **config) -> Consumer:
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": group or f"g-{uuid.uuid4().hex[:8]}",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "session.timeout.ms": 30_000,
        "heartbeat.interval.ms": 200,
        "fetch.wait.max.ms": 50,
        **config,
    }
    return Consumer(settings)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_produce_and_consume(bootstrap, make_topic, codec, acks):
    topic = make_topic()
    produce(bootstrap, topic, 300, **{"compression.type": codec, "acks": acks})
    consumer = consumer_of(bootstrap)
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    got = read(consumer, 300)
    consumer.close()
    assert [message.value() for message in got] == [f"m{n}".encode() for n in range(300)]
    assert [message.key() for message in got] == [f"k{n}".encode() for n in range(300)]
    assert [message.offset() for message in got] == list(range(300))


def test_idempotent_producer(bootstrap, make_topic):
    topic = make_topic(partitions=3)
    for partition in range(3):
        produce(bootstrap, topic, 1000, partition, **{"enable.idempotence": True, "linger.ms": 0})
    consumer = consumer_of(bootstrap)
    consumer.subscribe([topic])
    got = read(consumer, 3000)
    consumer.close()
    for partition in range(3):
        values = [message.value() for message in got if message.partition() == partition]
        assert values == [f"m{n}".encode() for n in range(1000)]


def test_headers_timestamps_nulls_and_large_values(bootstrap, make_topic):
    topic = make_topic()
    producer = Producer({"bootstrap.servers": bootstrap})
    headers = [("a", b"1"), ("a", b"2"), ("none", None)]
    producer.produce(topic, None, b"key-only", 0, timestamp=1_600_000_000_123, headers=headers)
    producer.produce(topic, b"x" * 900_000, None, 0)
    assert producer.flush(DEADLINE_S) == 0
    consumer = consumer_of(bootstrap)
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    first, second = read(consumer, 2)
    consumer.close()
    assert first.value() is None
    assert first.headers() == headers
    assert first.timestamp()[1] == 1_600_000_000_123
    assert second.key() is None
    assert len(second.value()) == 900_000


def test_consume_by_time_and_seek(bootstrap, make_topic):
    topic = make_topic()
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(100):
        stamp = 1_700_000_000_000 + number * 1000
        producer.produce(topic, f"m{number}".encode(), None, 0, timestamp=stamp)
    assert producer.flush(DEADLINE_S) == 0
    consumer = consumer_of(bootstrap)
    wanted = TopicPartition(topic, 0, 1_700_000_000_000 + 42_500)
    (found,) = consumer.offsets_for_times([wanted], DEADLINE_S)
    assert found.offset == 43
    consumer.assign([TopicPartition(topic, 0, found.offset)])
    assert read(consumer, 1)[0].value() == b"m43"
    consumer.seek(TopicPartition(topic, 0, 90))
    assert [message.offset() for message in read(consumer, 10)] == list(range(90, 100))
    assert consumer.get_watermark_offsets(TopicPartition(topic, 0), DEADLINE_S) == (0, 100)
    consumer.close()


def test_group_commit_and_resume(bootstrap, make_topic):
    topic = make_topic()
    produce(bootstrap, topic, 50)
    group = f"g-{uuid.uuid4().hex[:8]}"
    first = consumer_of(bootstrap, group)
    first.subscribe([topic])
    got = read(first, 20)
    assert len(got) == 20
    first.commit(got[-1], asynchronous=False)
    first.close()
    second = consumer_of(bootstrap, group)
    second.subscribe([topic])
    rest = read(second, 30)
    second.close()
    assert [message.offset() for message in rest] == list(range(20, 50))


def test_group_of_two_rebalances_when_one_joins_and_leaves(bootstrap, make_topic):
    topic = make_topic(partitions=4)
    group = f"g-{uuid.uuid4().hex[:8]}"
    one = consumer_of(bootstrap, group)
    one.subscribe([topic])
    two = consumer_of(bootstrap, group)

    def settle(expected: list[int], members: list[Consumer]) -> list[int]:
        deadline = time.monotonic() + DEADLINE_S
        sizes: list[int] = []
        while time.monotonic() < deadline:
            for member in members:
                member.poll(0.1)
            sizes = sorted(len(member.assignment()) for member in members)
            if sizes == expected:
                return sizes
        return sizes

    assert settle([4], [one]) == [4]
    two.subscribe([topic])
    assert settle([2, 2], [one, two]) == [2, 2]
    shares = [{part.partition for part in member.assignment()} for member in (one, two)]
    assert shares[0] | shares[1] == {0, 1, 2, 3}
    two.close()
    assert settle([4], [one]) == [4]
    one.close()


def test_admin_partitions_configs_offsets_groups_delete(bootstrap, make_topic):
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topic = make_topic(**{"retention.ms": "1234567"})
    produce(bootstrap, topic, 10)
    admin.create_partitions([NewPartitions(topic, 3)])[topic].result(DEADLINE_S)
    assert len(admin.list_topics(topic, DEADLINE_S).topics[topic].partitions) == 3
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    entries = admin.describe_configs([resource])[resource].result(DEADLINE_S)
    assert entries["retention.ms"].value == "1234567"
    assert entries["cleanup.policy"].value == "delete"
    where = TopicPartition(topic, 0)
    latest = admin.list_offsets({where: OffsetSpec.latest()})[where].result(DEADLINE_S)
    assert latest.offset == 10
    group = f"g-{uuid.uuid4().hex[:8]}"
    consumer = consumer_of(bootstrap, group)
    consumer.subscribe([topic])
    messages = read(consumer, 10)
    consumer.commit(messages[-1], asynchronous=False)
    consumer.close()
    listed = admin.list_consumer_groups().result(DEADLINE_S)
    assert group in {one.group_id for one in listed.valid}
    request = [ConsumerGroupTopicPartitions(group, [where])]
    committed = admin.list_consumer_group_offsets(request)[group].result(DEADLINE_S)
    assert committed.topic_partitions[0].offset == 10
    admin.delete_consumer_groups([group])[group].result(DEADLINE_S)
    deleted = admin.delete_records([TopicPartition(topic, 0, 4)])
    assert next(iter(deleted.values())).result(DEADLINE_S).low_watermark == 4
    admin.delete_topics([topic])[topic].result(DEADLINE_S)
    eventually(lambda: topic not in admin.list_topics(timeout=DEADLINE_S).topics, "it is gone")


def test_describe_cluster_and_topics(bootstrap, make_topic):
    admin = AdminClient({"bootstrap.servers": bootstrap})
    cluster = admin.describe_cluster().result(DEADLINE_S)
    assert len(cluster.nodes) == 1
    assert cluster.cluster_id
    topic = make_topic(partitions=2)
    metadata = admin.list_topics(topic, DEADLINE_S).topics[topic]
    assert {part.leader for part in metadata.partitions.values()} == {cluster.nodes[0].id}


def test_oversized_message_is_refused_by_the_broker(bootstrap, make_topic):
    topic = make_topic(**{"max.message.bytes": "2000"})
    errors = []
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(
        topic, bytes(5000), on_delivery=lambda error, _: errors.append(error and error.code())
    )
    assert producer.flush(DEADLINE_S) == 0
    assert errors == [KafkaError.MSG_SIZE_TOO_LARGE]


def test_creating_a_bad_topic_is_refused(bootstrap):
    from confluent_kafka.admin import NewTopic

    admin = AdminClient({"bootstrap.servers": bootstrap})
    bad = admin.create_topics([NewTopic("no/slash", num_partitions=1)])["no/slash"]
    with pytest.raises(KafkaException) as caught:
        bad.result(DEADLINE_S)
    assert caught.value.args[0].code() == KafkaError.TOPIC_EXCEPTION


def test_auto_created_topic(bootstrap):
    topic = f"auto-{uuid.uuid4().hex[:8]}"
    produce(bootstrap, topic, 5)
    consumer = consumer_of(bootstrap)
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    assert len(read(consumer, 5)) == 5
    consumer.close()
