"""Two-phase commits (KIP-939): the producers against a node that serves InitProducerId v6."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import pytest

from fencepost.client.admin import Admin
from fencepost.client.aio import AsyncCluster, AsyncProducer
from fencepost.client.cluster import Cluster
from fencepost.client.errors import ClientError, FatalTransactionError
from fencepost.client.fetcher import Fetcher
from fencepost.client.metadata import TopicPartition
from fencepost.client.producer import Producer
from fencepost.client.protocol.prepared import PreparedTxnState
from fencepost.wire.api.api_versions import ApiVersionsRequest
from fencepost.wire.api.init_producer_id import InitProducerIdRequest
from fencepost.wire.errors import ErrorCode

from ...ended_transactions import stable_ends
from ...waiting import eventually
from ..conftest import RunningNode
from ..topic_requests import make_topic
from .transaction_requests import coordinated, describe, new_id, state_of

NEVER_MS = 2**31 - 1
Connect = Callable[..., Cluster]


@pytest.fixture(scope="module")
def preparing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    config = dict.fromkeys(
        ("unstable.api.versions.enable", "transaction.two.phase.commit.enable"), "true"
    )
    running = RunningNode(tmp_path_factory.mktemp("preparing") / "data", config)
    yield running
    running.close()


@pytest.fixture
def part(preparing: RunningNode) -> TopicPartition:
    with preparing.connect() as client:
        coordinated(client)
        return TopicPartition(make_topic(client).name, 0)


@pytest.fixture
def connect() -> Iterator[Connect]:
    opened: list[Cluster] = []

    def open_cluster(running: RunningNode, **settings: object) -> Cluster:
        opened.append(Cluster(running.bootstrap_servers, retry_backoff_ms=1, **settings))
        return opened[-1]

    yield open_cluster
    for cluster in opened:
        cluster.close()


def committed(cluster: Cluster, part: TopicPartition) -> list[bytes]:
    """What readers of committed data see once all transactions are over."""
    end = stable_ends(cluster, [part])[part]
    return [
        record.value or b""
        for fetched in Fetcher(cluster).read_range(part, 0, end)
        for record in fetched.read_records(end)
    ]


def test_the_outer_decision_decides(
    preparing: RunningNode, connect: Connect, part: TopicPartition
) -> None:
    txn = new_id()
    producer = Producer(connect(preparing, transactional_id=txn, two_phase_commit=True))
    producer.init_transactions()
    stored = PreparedTxnState()
    for value, is_stored in ((b"a", True), (b"b", False), (b"c", True)):
        producer.begin_transaction()
        producer.send(part.topic, value, partition=0)
        producer.send_offsets_to_transaction({part: 1}, f"g-{txn}")
        prepared = producer.prepare_transaction()
        assert prepared.has_transaction and PreparedTxnState.parse(str(prepared)) == prepared
        with pytest.raises(ClientError, match="in a prepared transaction"):
            producer.send(part.topic, b"late", partition=0)
        if is_stored:
            stored = prepared  # the other system has committed
        producer.complete_transaction(stored)
    assert committed(connect(preparing, isolation_level="read_committed"), part) == [b"a", b"c"]
    group = Admin(connect(preparing)).group_offsets(f"g-{txn}", [part], require_stable=True)
    assert group[part].offset == 1


def test_a_prepared_transaction_never_times_out(
    preparing: RunningNode, connect: Connect, part: TopicPartition
) -> None:
    txn = new_id()
    producer = Producer(connect(preparing, transactional_id=txn, two_phase_commit=True))
    producer.init_transactions()
    producer.begin_transaction()
    producer.send(part.topic, b"kept", partition=0)
    producer.prepare_transaction()
    with preparing.connect() as client:
        assert describe(client, txn).transaction_timeout_ms == NEVER_MS
        producer.commit_transaction()
        # KIP-890 from the first transaction on: no InitProducerId has to raise the epoch.
        assert eventually(lambda: state_of(client, txn) == "CompleteCommit")
    assert committed(connect(preparing, isolation_level="read_committed"), part) == [b"kept"]


def test_the_asyncio_producer(
    preparing: RunningNode, connect: Connect, part: TopicPartition
) -> None:
    async def main() -> None:
        settings = {"transactional_id": new_id(), "two_phase_commit": True}
        async with (
            AsyncCluster(preparing.bootstrap_servers, **settings) as cluster,
            AsyncProducer(cluster) as producer,
        ):
            for value, stored in ((b"a", None), (b"b", PreparedTxnState(1 << 40, 1))):
                await producer.begin_transaction()
                await producer.send(part.topic, value, partition=0)
                prepared = await producer.prepare_transaction()
                with pytest.raises(ClientError, match="in a prepared transaction"):
                    await producer.send(part.topic, b"late", partition=0)
                await producer.complete_transaction(stored or prepared)

    asyncio.run(main())
    assert committed(connect(preparing, isolation_level="read_committed"), part) == [b"a"]


def test_a_broker_that_cannot_keep_a_prepared_transaction_says_so(
    preparing: RunningNode, connect: Connect, part: TopicPartition
) -> None:
    producer = Producer(connect(preparing, transactional_id=new_id(), two_phase_commit=True))
    with pytest.raises(FatalTransactionError, match="cannot keep a prepared transaction"):
        producer.init_transactions(keep_prepared_txn=True)

    async def main() -> None:
        settings = {"transactional_id": new_id(), "two_phase_commit": True}
        async with AsyncCluster(preparing.bootstrap_servers, **settings) as cluster:
            with pytest.raises(FatalTransactionError, match="cannot keep a prepared"):
                await AsyncProducer(cluster).init_transactions(keep_prepared_txn=True)

    asyncio.run(main())


def highest_init(running: RunningNode) -> int:
    with running.connect() as client:
        served = client.ask(ApiVersionsRequest(), 0).api_keys
    key = InitProducerIdRequest.api_key
    return next(int(one.max_version) for one in served if one.api_key == key)


def test_version_6_is_served_where_it_is_asked_for(
    preparing: RunningNode, node: RunningNode, connect: Connect
) -> None:
    assert (highest_init(preparing), highest_init(node)) == (6, 5)
    with node.connect() as client:
        coordinated(client)
    producer = Producer(connect(node, transactional_id=new_id(), two_phase_commit=True))
    with pytest.raises(FatalTransactionError, match="needs InitProducerId version 6"):
        producer.init_transactions()
    with pytest.raises(ClientError, match=r"two\.phase\.commit\.enable=true"):
        Producer(connect(node, transactional_id=new_id())).prepare_transaction()


def test_a_node_may_serve_version_6_and_refuse_two_phase_commits(
    node_factory: Callable[..., RunningNode],
) -> None:
    running = node_factory(unstable_api_versions_enable="true")
    with running.connect() as client:
        coordinated(client)
        request = InitProducerIdRequest(
            transactional_id="txn", transaction_timeout_ms=1, enable_2pc=True
        )
        refused = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        assert client.ask(request, 6).error_code == refused
