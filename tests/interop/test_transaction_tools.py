"""Apache Kafka's own tools on transactions: kafka-transactions, performance, console consumer.

A hanging transaction that kafka-transactions aborts is in `test_transaction_commands`, which has
brokers that let one be made.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator

import pytest

from fencepost.client.admin import Admin
from fencepost.client.cluster import Cluster
from fencepost.client.errors import ClientError
from fencepost.client.metadata import TopicPartition
from fencepost.client.producer import Producer

from ..ended_transactions import stable_ends
from .apache import consume, run_tool

pytestmark = [pytest.mark.interop, pytest.mark.slow]

TRANSACTION_TIMEOUT_MS = 600_000
"""Longer than several of Kafka's tools take on a busy machine."""


@pytest.fixture
def topic(bootstrap: str) -> str:
    name = f"t-{uuid.uuid4().hex[:10]}"
    with Cluster(bootstrap) as cluster:
        Admin(cluster).create_topic(name, partitions=1)
        Admin(cluster).wait_for_topic(name)
    return name


@pytest.fixture
def producer(bootstrap: str, topic: str) -> Iterator[Producer]:
    """A transaction of one record is committed, another of two records is open; the transactional
    id is the topic's name."""
    timeout_ms = TRANSACTION_TIMEOUT_MS
    with Cluster(bootstrap, transactional_id=topic, transaction_timeout_ms=timeout_ms) as cluster:
        producer = Producer(cluster)
        producer.init_transactions()
        with producer.transaction():
            producer.send(topic, b"committed", partition=0)
        producer.begin_transaction()
        producer.send(topic, b"open", partition=0)
        producer.send(topic, b"open, too", partition=0)
        producer.flush()
        yield producer


def rows(bootstrap: str, *command: str) -> list[dict[str, str]]:
    """What kafka-transactions shows in a table: columns by their headings."""
    printed = run_tool("transactions", "--bootstrap-server", bootstrap, *command).lines
    heads, *found = [re.split(r"\s*\t\s*", line.strip()) for line in printed]
    return [dict(zip(heads, one, strict=False)) for one in found]


def test_an_open_transaction_is_listed_described_and_terminated(
    bootstrap: str, topic: str, producer: Producer
):
    (listed,) = [one for one in rows(bootstrap, "list") if one["TransactionalId"] == topic]
    assert listed["TransactionState"] == "Ongoing"
    by_pattern = ("list", "--transactional-id-pattern")
    assert rows(bootstrap, *by_pattern, f"{topic[:-1]}.") == [listed]
    assert rows(bootstrap, *by_pattern, topic[:-1]) == []
    (described,) = rows(bootstrap, "describe", "--transactional-id", topic)
    assert described["TransactionState"] == "Ongoing"
    assert described["TopicPartitions"] == f"{topic}-0"
    assert described["ProducerId"] == listed["ProducerId"]
    assert int(described["TransactionTimeoutMs"]) == TRANSACTION_TIMEOUT_MS
    where = ("--topic", topic, "--partition", "0")
    (writes,) = rows(bootstrap, "describe-producers", *where)
    assert writes["ProducerId"] == listed["ProducerId"]
    assert writes["CurrentTransactionStartOffset"] == "2"  # a record and its marker are before
    assert rows(bootstrap, "find-hanging", "--topic", topic) == []
    run_tool(
        "transactions", "--bootstrap-server", bootstrap,
        "forceTerminateTransaction", "--transactionalId", topic,
    )  # fmt: skip
    with pytest.raises(ClientError):
        producer.commit_transaction()
    (described,) = rows(bootstrap, "describe", "--transactional-id", topic)
    assert described["TransactionState"] in ("CompleteAbort", "Empty")
    with Cluster(bootstrap) as cluster:
        part = TopicPartition(topic, 0)
        assert stable_ends(cluster, [part])[part] == 5, "three records and two markers"


@pytest.mark.parametrize(
    ("level", "expected"),
    [("read_committed", ["committed"]), ("read_uncommitted", ["committed", "open", "open, too"])],
)
def test_the_console_consumer_reads_what_its_isolation_level_says(
    bootstrap: str, topic: str, producer: Producer, level: str, expected: list[str]
):
    producer.abort_transaction()
    with producer.transaction():
        producer.send(topic, b"last", partition=0)
    where = ("--from-beginning", "--isolation-level", level)
    assert consume(bootstrap, topic, len(expected) + 1, *where) == [*expected, "last"]


def test_the_performance_tool_writes_in_transactions(bootstrap: str, topic: str):
    sent = run_tool(
        "producer-perf", "--bootstrap-server", bootstrap, "--topic", topic,
        "--num-records", "3000", "--record-size", "100", "--throughput", "2000",
        "--transactional-id", topic, "--transaction-duration-ms", "100",
    ).stdout  # fmt: skip
    assert "3000 records sent" in sent
    with Cluster(bootstrap, isolation_level="read_committed") as cluster:
        part = TopicPartition(topic, 0)
        end = stable_ends(cluster, [part])[part]
    assert end > 3_001, "records, and the markers of several transactions"
    read = run_tool(
        "consumer-perf", "--bootstrap-server", bootstrap, "--topic", topic,
        "--num-records", "3000", "--timeout", "60000",
    ).stdout  # fmt: skip
    assert any(", 3000," in line for line in read.splitlines())
    (described,) = rows(bootstrap, "describe", "--transactional-id", topic)
    assert described["TransactionState"] == "CompleteCommit"
