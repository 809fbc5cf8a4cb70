"""What a producer does when its brokers fail: each test asks for one fault."""

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from fencepost.testing import Cluster

TOPIC = "records"
READ_S = 30


@pytest.fixture(scope="module")
def cluster():
    with Cluster(brokers=2) as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap_servers})
        admin.create_topics([NewTopic(TOPIC, 1, 2)])[TOPIC].result(READ_S)
        yield running


@pytest.fixture(autouse=True)
def no_fault_stays(cluster):
    yield
    cluster.reset()


def write(cluster, *values, **settings):
    """Errors and offsets of acknowledged records, in order."""
    told = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, **settings})
    for value in values:
        producer.produce(TOPIC, value, on_delivery=lambda error, sent: told.append((error, sent)))
    producer.flush(READ_S)
    return [error or sent.offset() for error, sent in told]


def read(cluster, offset, count):
    servers = {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "unused"}
    consumer = Consumer({**servers, "enable.auto.commit": False})
    consumer.assign([TopicPartition(TOPIC, 0, offset)])
    values = [consumer.poll(READ_S).value() for _ in range(count)]
    consumer.close()
    return values


def test_an_error_that_can_be_retried_is(cluster):
    fault = cluster.fail_next("Produce", "NOT_ENOUGH_REPLICAS", 2, topic=TOPIC)
    (offset,) = write(cluster, "retried")
    assert fault.hits == 2
    assert read(cluster, offset, 1) == [b"retried"]


def test_an_error_that_cannot_is_told(cluster):
    cluster.fail_next("Produce", "TOPIC_AUTHORIZATION_FAILED", topic=TOPIC)
    (error,) = write(cluster, "refused")
    assert error.name() == "TOPIC_AUTHORIZATION_FAILED"


def test_a_lost_answer_makes_no_second_record(cluster):
    fault = cluster.disconnect_next("Produce", after=True, topic=TOPIC)
    first, second = write(cluster, "once", "after it", **{"enable.idempotence": True})
    assert fault.hits == 1
    assert second == first + 1
    assert read(cluster, first, 2) == [b"once", b"after it"]


def test_the_next_leader_gets_what_the_last_one_did_not(cluster):
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    leader = admin.list_topics(TOPIC, READ_S).topics[TOPIC].partitions[0].leader
    cluster.kill(leader)
    (offset,) = write(cluster, "elsewhere", acks="all")
    assert read(cluster, offset, 1) == [b"elsewhere"]
