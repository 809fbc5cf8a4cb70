"""The console's records on a broker of Apache Kafka: what consumers see, and a compacted log."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

pytest.importorskip("starlette")

from fencepost.client.config import ClientConfig
from fencepost.console.asked import Asked
from fencepost.console.page import document_of
from fencepost.console.pages.table import make_page, page_named
from fencepost.console.session import Session
from tests.interop import apache
from tests.interop.reading import read_to_end
from tests.waiting import DEADLINE_S, eventually

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(240)]

BROKER = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "log.cleaner.backoff.ms": "100",
}
COMPACTED = {
    "cleanup.policy": "compact",
    "internal.segment.bytes": "2000",
    "min.cleanable.dirty.ratio": "0.01",
}


def records(servers: str, topic: str, **asked: str) -> list[dict[str, Any]]:
    """All records that looks find, one after the other."""

    async def look() -> list[dict[str, Any]]:
        session = Session(ClientConfig(bootstrap_servers=servers))
        found: list[dict[str, Any]] = []
        at = ""
        try:
            while True:
                values = {"topic": topic, "limit": "30", "at": at, **asked}
                page = await make_page(page_named("records"), session, Asked(values))
                part = document_of(page)["sections"][0]["document"]
                found += part["records"]
                at = part["continue_at"]
                if not at:
                    return found
        finally:
            await session.close()

    return asyncio.run(look())


def seen(servers: str, topic: str, isolation: str) -> list[int]:
    return [message.offset() for message in read_to_end(servers, topic, isolation)]


def transactional(servers: str, name: str) -> Producer:
    producer = Producer({"bootstrap.servers": servers, "transactional.id": name, "linger.ms": 5})
    producer.init_transactions(DEADLINE_S)
    return producer


@pytest.fixture(scope="module")
def servers(kafka_jars: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with apache.apache_broker(tmp_path_factory.mktemp("kafka"), **BROKER) as kafka:
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
        topics = [NewTopic("mixed", 1, 1), NewTopic("compacted", 1, 1, config=COMPACTED)]
        for made in admin.create_topics(topics).values():
            made.result()
        yield kafka.bootstrap_servers


def test_states_are_those_that_consumers_go_by(servers: str):
    drawn = random.Random(7)
    first, second = transactional(servers, "one"), transactional(servers, "two")
    plain = Producer({"bootstrap.servers": servers, "compression.type": "zstd", "linger.ms": 5})
    for turn in range(20):
        for producer in (first, second):
            producer.begin_transaction()
        for _ in range(drawn.randrange(1, 8)):
            value = b"turn %d, " % turn * 30  # worth compressing
            drawn.choice((first, second, plain)).produce("mixed", value, partition=0)
        for producer in (first, second, plain):
            producer.flush(DEADLINE_S)
        for producer in (first, second):
            end = drawn.choice((producer.commit_transaction, producer.abort_transaction))
            end(DEADLINE_S)
    first.begin_transaction()
    first.produce("mixed", b"open", partition=0)
    first.flush(DEADLINE_S)
    second.begin_transaction()
    second.produce("mixed", b"behind", partition=0)
    second.commit_transaction(DEADLINE_S)
    found = records(servers, "mixed", order="oldest")
    assert [row["offset"] for row in found] == seen(servers, "mixed", "read_uncommitted")
    *settled, opened, behind = [(row["offset"], row["state"]) for row in found]
    readable = [offset for offset, state in settled if state in ("committed", "outside")]
    assert readable == seen(servers, "mixed", "read_committed")
    assert {state for _, state in settled} == {"committed", "aborted", "outside"}
    assert (opened[1], behind[1]) == ("open", "committed")
    assert records(servers, "mixed", order="newest") == found[::-1]
    committed = records(servers, "mixed", order="newest", isolation="read_committed")
    assert [row["offset"] for row in committed] == readable[::-1]
    first.abort_transaction(DEADLINE_S)


def test_a_log_that_kafka_has_compacted(servers: str):
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 5})
    for number in range(3_000):
        producer.produce("compacted", b"v%d" % number, key=b"k%d" % (number % 50), partition=0)
        if number % 20 == 0:
            producer.flush(DEADLINE_S)
    producer.flush(DEADLINE_S)
    eventually(
        lambda: len(seen(servers, "compacted", "read_uncommitted")) < 500, "Kafka has compacted"
    )
    expected = seen(servers, "compacted", "read_uncommitted")
    newest = [row["offset"] for row in records(servers, "compacted", order="newest")]
    oldest = [row["offset"] for row in records(servers, "compacted", order="oldest")]
    assert newest == oldest[::-1]
    assert set(expected) >= set(newest) > set(), "Kafka may have compacted more meanwhile"
    assert newest[0] == 2_999


def test_the_logs_of_coordinators_are_decoded(servers: str):
    found = records(servers, "__transaction_state", order="oldest")
    assert {row["value"]["as_"] for row in found} == {"kafka"}
    assert any('"TransactionLogValue"' in row["value"]["text"] for row in found)


def test_batches_of_kafka(servers: str):
    async def look() -> Any:
        session = Session(ClientConfig(bootstrap_servers=servers))
        try:
            asked = Asked({"topic": "mixed", "partition": "0", "limit": "500"})
            return await make_page(page_named("batches"), session, asked)
        finally:
            await session.close()

    rows = asyncio.run(look()).sections[0].document["batches"]
    assert all(row.is_crc_right for row in rows)
    assert {row.compression for row in rows} == {"none", "zstd"}
    assert {row.control for row in rows if row.control} >= {
        "COMMIT (coordinator epoch 0)",
        "ABORT (coordinator epoch 0)",
    }
