"""The proxy in front of Apache Kafka: its own tools and librdkafka come back through it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from fencepost.testing import Proxy

from ..waiting import DEADLINE_S
from . import apache
from .apache import consume, run_tool

pytestmark = [pytest.mark.interop, pytest.mark.slow]


@pytest.fixture(scope="module")
def kafka(kafka_jars, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker of Apache Kafka."""
    directory: Path = tmp_path_factory.mktemp("apache")
    with apache.apache_broker(directory) as broker:
        yield broker.bootstrap_servers


def test_kafkas_brokers_fail_on_demand(kafka: str):
    with Proxy(kafka) as proxy:
        servers = proxy.bootstrap_servers
        admin = AdminClient({"bootstrap.servers": servers})
        admin.create_topics([NewTopic("proxied", 1, 1)])["proxied"].result(DEADLINE_S)
        metadata = admin.list_topics("proxied")
        assert {f"{one.host}:{one.port}" for one in metadata.brokers.values()} == {servers}

        told: list[int] = []
        producer = Producer({"bootstrap.servers": servers, "log_level": 0})
        fault = proxy.fail_next("Produce", "NOT_LEADER_OR_FOLLOWER", count=3, topic="proxied")
        producer.produce(
            "proxied", b"a", on_delivery=lambda error, sent: told.append(sent.offset())
        )
        assert producer.flush(DEADLINE_S) == 0
        assert (told, fault.hits) == ([0], 3)

        with proxy.hold("Produce") as hold:
            producer.produce("proxied", b"b")
            producer.poll(0)
            hold.wait()
        assert producer.flush(DEADLINE_S) == 0

        fault = proxy.fail_next("Fetch", "NOT_LEADER_OR_FOLLOWER", count=2)
        consumer = Consumer({"bootstrap.servers": servers, "group.id": "g", "log_level": 0})
        consumer.assign([TopicPartition("proxied", 0, 0)])
        found = []
        while len(found) < 2:
            message = consumer.poll(DEADLINE_S)
            assert message is not None
            if message.error() is None:
                found.append(message.value())
        consumer.close()
        assert (found, fault.hits) == ([b"a", b"b"], 2)


def test_the_java_client_lives_through_faults_in_fetch_sessions(kafka: str):
    with Proxy(kafka) as proxy:
        servers = ["--bootstrap-server", proxy.bootstrap_servers]
        run_tool("topics", *servers, "--create", "--topic", "java", "--partitions", "2")
        produced = proxy.fail_next("Produce", "NOT_LEADER_OR_FOLLOWER", count=2)
        run_tool("console-producer", *servers, "--topic", "java", stdin="a\nb\nc\n")
        assert produced.hits == 2
        fetched = proxy.fail_next("Fetch", "NOT_LEADER_OR_FOLLOWER", count=2)
        coordinator = proxy.fail_next("FindCoordinator", "COORDINATOR_NOT_AVAILABLE", count=2)
        read = consume(proxy.bootstrap_servers, "java", 3, "--from-beginning")
        assert sorted(read) == ["a", "b", "c"]
        assert (fetched.hits, coordinator.hits) == (2, 2)
        offered = run_tool("broker-api-versions", *servers)
        assert proxy.bootstrap_servers in offered.stdout
