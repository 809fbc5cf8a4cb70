"""Our transactional producers and read_committed consumers, in both protocols of transactions.

TV1 is what clients speak while `transaction.version` is below 2, TV2 from there on (KIP-890).
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import Callable, Iterator

import pytest

from fencepost.cli.main import main
from fencepost.client.admin import TOPIC_RESOURCE, Admin, ConfigChange
from fencepost.client.aio import AsyncCluster, AsyncProducer
from fencepost.client.cluster import Cluster
from fencepost.client.consumer import Consumer
from fencepost.client.errors import (
    AbortableTransactionError,
    ClientError,
    ProducerFenced,
)
from fencepost.client.features import FeatureAdmin
from fencepost.client.fetcher import Fetcher
from fencepost.client.metadata import CommittedOffset, TopicPartition
from fencepost.client.offsets import LATEST, list_offsets
from fencepost.client.producer import Producer
from fencepost.client.protocol.transaction_requests import ConsumerGroupMetadata
from fencepost.wire.errors import ErrorCode

from ..ended_transactions import stable_ends
from .conftest import one_node
from .maven import JarSet

pytestmark = pytest.mark.interop

QUICK = {"transaction.state.log.num.partitions": "4", "offsets.topic.num.partitions": "4"}
Open = Callable[..., Cluster]


@pytest.fixture(
    scope="module",
    params=[("fencepost", 1), ("fencepost", 2), ("apache", 1), ("apache", 2)],
    ids=lambda param: f"{param[0]}-tv{param[1]}",
)
def servers(
    request: pytest.FixtureRequest, kafka_jars: JarSet, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """Bootstrap address of a cluster that runs transactions at the level."""
    kind, level = request.param
    with one_node(kind, tmp_path_factory.mktemp(kind), **QUICK) as address:
        with Cluster(address) as asking:
            served = asking.any_connection().api_versions
            if served.features.level("transaction.version") != level:
                FeatureAdmin(asking).update({"transaction.version": level}, downgrade=level < 2)
        yield address


@pytest.fixture
def connect(servers: str) -> Iterator[Open]:
    with contextlib.ExitStack() as opened:
        yield lambda **properties: opened.enter_context(Cluster(servers, **properties))


@pytest.fixture
def topic(connect: Open) -> str:
    name = f"t-{uuid.uuid4().hex[:10]}"
    admin = Admin(connect())
    admin.create_topic(name, partitions=2)
    admin.wait_for_topic(name)
    return name


@pytest.fixture
def producer(connect: Open) -> Producer:
    made = Producer(connect(transactional_id=f"x-{uuid.uuid4().hex[:10]}"))
    made.init_transactions()
    return made


def values(connect: Open, topic: str, isolation: str = "read_committed") -> list[bytes]:
    """All records of a topic, partition by partition, when no transaction is open any more."""
    cluster = connect(isolation_level=isolation)
    ends = stable_ends(cluster, [TopicPartition(topic, n) for n in (0, 1)])
    return [
        record.value or b""
        for partition, end in sorted(ends.items())
        for fetched in Fetcher(cluster).read_range(partition, 0, end)
        for record in fetched.read_records(end)
    ]


def test_committed_records_are_read_and_aborted_ones_are_not(
    connect: Open, topic: str, producer: Producer
):
    with producer.transaction():
        for n in range(4):
            producer.send(topic, b"a%d" % n, partition=n % 2)
    with contextlib.suppress(ZeroDivisionError), producer.transaction():
        producer.send(topic, b"b", partition=0)
        producer.flush()
        producer.send(topic, b"never sent", partition=1)
        raise ZeroDivisionError
    with producer.transaction():
        pass
    with producer.transaction():
        last = producer.send(topic, b"c", partition=1)
    assert last.result() > 0
    assert values(connect, topic) == [b"a0", b"a2", b"a1", b"a3", b"c"]
    everything = values(connect, topic, "read_uncommitted")
    assert everything == [b"a0", b"a2", b"b", b"a1", b"a3", b"c"]


def test_many_transactions_after_one_another(connect: Open, topic: str, producer: Producer):
    for n in range(30):
        producer.begin_transaction()
        producer.send(topic, b"%d" % n, partition=n % 2)
        producer.send(topic, b"%d" % n, partition=0)
        if n % 3 == 0:
            producer.flush()
            producer.abort_transaction()
        else:
            producer.commit_transaction()
    kept = [n for n in range(30) if n % 3]
    first = [n for n in kept for _ in range(2 - n % 2)]
    assert values(connect, topic) == [b"%d" % n for n in first + [n for n in kept if n % 2]]


def test_offsets_and_records_of_a_transaction_appear_together(
    connect: Open, topic: str, producer: Producer
):
    group = f"g-{uuid.uuid4().hex[:10]}"
    part = TopicPartition(topic, 0)
    admin = Admin(connect())
    with contextlib.suppress(ZeroDivisionError), producer.transaction():
        producer.send_offsets_to_transaction({part: 7}, group)
        raise ZeroDivisionError
    assert admin.group_offsets(group) == {}
    with producer.transaction():
        producer.send(topic, b"x", partition=0)
        producer.send_offsets_to_transaction({part: CommittedOffset(8, 0, "why")}, group)
        assert admin.group_offsets(group) == {}
    assert admin.group_offsets(group, [part], require_stable=True) == {
        part: CommittedOffset(8, 0, "why")
    }
    # Of a generation that the group never had: nothing appears, and the producer goes on.
    producer.begin_transaction()
    producer.send(topic, b"y", partition=0)
    stale = ConsumerGroupMetadata(group, 3, "unknown")
    with pytest.raises(AbortableTransactionError):
        producer.send_offsets_to_transaction({part: 9}, stale)
    producer.abort_transaction()
    with producer.transaction():
        producer.send_offsets_to_transaction({part: 10}, group)
    assert admin.group_offsets(group, [part], require_stable=True)[part].offset == 10
    assert values(connect, topic) == [b"x"]


def test_a_second_producer_of_the_id_fences_the_first(
    connect: Open, topic: str, producer: Producer
):
    producer.begin_transaction()
    producer.send(topic, b"left open", partition=0)
    producer.flush()
    second = Producer(connect(transactional_id=producer.config.transactional_id))
    second.init_transactions()
    with second.transaction():
        second.send(topic, b"second", partition=0)
    producer.send(topic, b"late", partition=0)
    with pytest.raises((ProducerFenced, AbortableTransactionError)):
        producer.commit_transaction()
    with contextlib.suppress(ProducerFenced):
        producer.abort_transaction()
    with pytest.raises(ClientError):
        producer.commit_transaction()
    assert values(connect, topic) == [b"second"]


def test_a_record_that_is_refused_has_the_transaction_aborted(
    connect: Open, producer: Producer, topic: str
):
    small = ConfigChange("max.message.bytes", "200")
    Admin(connect()).alter_configs(TOPIC_RESOURCE, topic, [small])
    big = b"x" * 1000
    refused = None
    while refused is None:  # until the broker has heard of the config
        try:
            with producer.transaction():
                producer.send(topic, big, partition=0)
        except AbortableTransactionError as error:
            refused = error.code
    assert refused == ErrorCode.MESSAGE_TOO_LARGE
    with producer.transaction():
        producer.send(topic, b"small", partition=0)
    assert values(connect, topic)[-1] == b"small"


def test_group_consumer_and_command_line_read_committed(
    connect: Open,
    servers: str,
    topic: str,
    producer: Producer,
    capfd: pytest.CaptureFixture[str],
):
    with producer.transaction():
        producer.send(topic, b"committed", partition=0)
    producer.begin_transaction()
    producer.send(topic, b"aborted", partition=0)
    producer.flush()
    producer.abort_transaction()
    producer.begin_transaction()
    producer.send(topic, b"open", partition=0)
    producer.flush()
    group = f"g-{uuid.uuid4().hex[:10]}"
    cluster = connect(
        group_id=group, auto_offset_reset="earliest", isolation_level="read_committed"
    )
    found: list[bytes] = []
    with Consumer(cluster, [topic]) as consumer:
        part = TopicPartition(topic, 0)
        stable = list_offsets(cluster, {part: LATEST})[part].offset
        while part not in consumer.positions or consumer.positions[part].offset < stable:
            for fetched in consumer.poll():
                found += [record.value or b"" for record in fetched.read_records()]
    assert found == [b"committed"]
    for option, expected in (
        ("read_committed", "committed\n"),
        ("read_uncommitted", "committed\naborted\nopen\n"),
    ):
        assert main(["consume", topic, "-b", servers, "--isolation", option]) == 0
        assert capfd.readouterr().out == expected
    reading = ["consume", topic, "-b", servers, "--group", f"{group}-cli"]
    assert main([*reading, "--isolation", "read_committed"]) == 0
    assert capfd.readouterr().out == "committed\n"
    producer.abort_transaction()


def test_confluents_consumer_agrees(connect: Open, servers: str, topic: str, producer: Producer):
    confluent = pytest.importorskip("confluent_kafka")
    with producer.transaction():
        producer.send(topic, b"a", partition=0)
    with contextlib.suppress(ZeroDivisionError), producer.transaction():
        producer.send(topic, b"b", partition=0)
        producer.flush()
        raise ZeroDivisionError
    with producer.transaction():
        producer.send(topic, b"c", partition=0)
    consumer = confluent.Consumer(
        {"bootstrap.servers": servers, "group.id": "any", "isolation.level": "read_committed"}
    )
    try:
        consumer.assign([confluent.TopicPartition(topic, 0, 0)])
        found = []
        while len(found) < 2:
            message = consumer.poll(1)
            if message is not None:
                assert message.error() is None
                found.append(message.value())
    finally:
        consumer.close()
    assert found == [b"a", b"c"]


def test_the_asyncio_producer(connect: Open, servers: str, topic: str):
    group, part = f"g-{uuid.uuid4().hex[:10]}", TopicPartition(topic, 0)

    async def main() -> None:
        name = f"x-{uuid.uuid4().hex[:10]}"
        async with (
            AsyncCluster(servers, transactional_id=name) as cluster,
            AsyncProducer(cluster) as producer,
        ):
            for n in range(10):
                await producer.begin_transaction()
                futures = [await producer.send(topic, b"%d" % n, partition=p) for p in (0, 1)]
                await producer.send_offsets_to_transaction({part: n}, group)
                if n % 3:
                    await producer.commit_transaction()
                    assert all(future.result() >= 0 for future in futures)
                else:
                    await producer.flush()
                    await producer.abort_transaction()
            with contextlib.suppress(ZeroDivisionError):
                async with producer.transaction():
                    lost = await producer.send(topic, b"never sent", partition=0)
                    raise ZeroDivisionError
            with pytest.raises(ClientError):
                await lost
            async with producer.transaction():
                await asyncio.gather(
                    *[producer.send_and_wait(topic, b"x", partition=1) for _ in range(20)]
                )
            async with AsyncCluster(servers, transactional_id=name) as other:
                await AsyncProducer(other).start()
                await producer.begin_transaction()
                await producer.send(topic, b"late", partition=0)
                with pytest.raises((ProducerFenced, AbortableTransactionError)):
                    await producer.commit_transaction()
            await producer.stop(flush=False)

    asyncio.run(main())
    kept = [b"%d" % n for n in range(10) if n % 3]
    assert values(connect, topic) == kept + kept + [b"x"] * 20
    assert Admin(connect()).group_offsets(group, [part], require_stable=True)[part].offset == 8
