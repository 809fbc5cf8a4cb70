"""What strangers may send about transactions to three brokers: refused, bounded, and without harm
to other clients.

While a stranger floods all brokers with one kind of request, a producer goes on with transactions
in partitions of all brokers. What counts is that every one of its transactions ends as it should,
and what the stranger is answered: no clock is looked at.
"""

from __future__ import annotations

import contextlib
import random
import socket
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from fencepost.client.admin import Admin
from fencepost.client.cluster import Cluster
from fencepost.client.fetcher import Fetcher
from fencepost.client.metadata import TopicPartition
from fencepost.client.producer import Producer
from fencepost.runtime.verification import CLAIMS_MAX
from fencepost.testing.quorum_cluster import QuorumCluster
from fencepost.wire.api import (
    AddPartitionsToTxnRequest,
    DescribeTransactionsRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    ListTransactionsRequest,
    TxnOffsetCommitRequest,
)
from fencepost.wire.api.add_partitions_to_txn import AddPartitionsToTxnTopic
from fencepost.wire.api.describe_producers import DescribeProducersRequest, TopicRequest
from fencepost.wire.api.txn_offset_commit import (
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from fencepost.wire.api.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from fencepost.wire.errors import ErrorCode as E

from ..broker.listener_fixtures import Client
from ..broker.topic_requests import batch, produce_request
from ..ended_transactions import stable_ends
from ..waiting import DEADLINE_S, eventually
from .conftest import QUICK

pytestmark = pytest.mark.slow

TOPIC = "t"
PARTITIONS = 3
TRANSACTIONS = 6
"""Of the producer beside a flood."""
MEMORY_BYTES = 700_000
CONFIG = QUICK | {
    "broker.heartbeat.interval.ms": 300,
    "broker.session.timeout.ms": 3_600_000,
    "transaction.state.log.num.partitions": 3,
    "transaction.state.log.min.isr": 2,
    "min.insync.replicas": 2,
    "fencepost.transactions.max.bytes": MEMORY_BYTES,
}
OK: set[int] = {E.NONE}
NOT_HERE: set[int] = {
    E.NOT_COORDINATOR,
    E.COORDINATOR_NOT_AVAILABLE,
    E.COORDINATOR_LOAD_IN_PROGRESS,
}
LEADERS_ONLY: set[int] = {E.NOT_LEADER_OR_FOLLOWER, E.UNKNOWN_TOPIC_OR_PARTITION}
UNUSED_IDS = 1 << 40
"""Producer ids from here on were given to no producer."""
Say = Callable[[Client, random.Random], Counter[int]]
"""Asks a broker something, and says which errors came how often."""


@pytest.fixture(scope="module")
def brokers() -> Iterator[QuorumCluster]:
    with QuorumCluster(3, 0, combined=True, config=CONFIG) as cluster:
        with Cluster(cluster.bootstrap_servers) as client:
            Admin(client).create_topic(TOPIC, PARTITIONS, 3)
            Admin(client).wait_for_topic(TOPIC)
        for name in ("markers", "guessed", "patient", "asked", "written"):
            with producer_of(cluster, name):  # before all room for new ids is taken
                pass
        yield cluster


@contextlib.contextmanager
def producer_of(cluster: QuorumCluster, name: str) -> Iterator[Producer]:
    with Cluster(cluster.bootstrap_servers, transactional_id=name) as client:
        producer = Producer(client)
        producer.init_transactions()
        yield producer


class Stranger(threading.Thread):
    """Says the same to one broker over and over, until it is stopped."""

    def __init__(self, port: int, say: Say, seed: int) -> None:
        super().__init__()
        self._say = say
        self._client = Client(socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S))
        self._random = random.Random(seed)
        self._stopped = threading.Event()
        self.heard: Counter[int] = Counter()
        self.rounds = 0
        self.failure: Exception | None = None

    def run(self) -> None:
        try:
            with self._client:
                while not self._stopped.is_set():
                    self.heard += self._say(self._client, self._random)
                    self.rounds += 1
        except Exception as error:  # noqa: BLE001 - told by `stop`
            self.failure = error

    def stop(self) -> None:
        self._stopped.set()
        self.join(DEADLINE_S)
        assert not self.is_alive() and self.failure is None, self.failure


def heard_again(strangers: list[Stranger]) -> None:
    """Wait until each of them has been answered once more."""
    before = [one.rounds for one in strangers]
    pairs = list(zip(strangers, before, strict=True))
    assert eventually(lambda: all(one.failure or one.rounds > rounds for one, rounds in pairs))


@contextlib.contextmanager
def flooded(cluster: QuorumCluster, say: Say) -> Iterator[list[Stranger]]:
    """Every broker is told that by a stranger of its own, before, meanwhile and afterwards."""
    strangers = [Stranger(port, say, seed) for seed, port in enumerate(cluster.client_ports)]
    for one in strangers:
        one.start()
    try:
        heard_again(strangers)
        yield strangers
        heard_again(strangers)
    finally:
        for one in strangers:
            one.stop()


def goes_on_beside(cluster: QuorumCluster, name: str, say: Say) -> Counter[int]:
    """A producer's transactions during a flood: all that it committed is read, nothing else is."""
    parts = [TopicPartition(TOPIC, index) for index in range(PARTITIONS)]
    with producer_of(cluster, name) as producer, flooded(cluster, say) as strangers:
        for number in range(TRANSACTIONS):
            producer.begin_transaction()
            for part in parts:
                producer.send(TOPIC, b"%s-%d" % (name.encode(), number), partition=part.partition)
            producer.send_offsets_to_transaction({parts[0]: number}, name)
            if number % 2:
                producer.abort_transaction()
            else:
                producer.commit_transaction()
    with Cluster(cluster.bootstrap_servers, isolation_level="read_committed") as client:
        ends = stable_ends(client, parts)
        found = Counter(
            record.value or b""
            for part in parts
            for fetched in Fetcher(client).read_range(part, 0, ends[part])
            for record in fetched.read_records(ends[part])
            if (record.value or b"").startswith(name.encode() + b"-")
        )
        committed = {b"%s-%d" % (name.encode(), number) for number in range(0, TRANSACTIONS, 2)}
        assert found == dict.fromkeys(committed, PARTITIONS)
        last = Admin(client).group_offsets(name, parts[:1], require_stable=True)[parts[0]]
    assert last.offset == (TRANSACTIONS - 1) // 2 * 2
    return sum((one.heard for one in strangers), Counter())


def test_a_flood_of_markers(brokers: QuorumCluster) -> None:
    """Of made-up producers, with made-up epochs: a later coordinator than there is is refused."""

    def say(client: Client, lane: random.Random) -> Counter[int]:
        markers = [
            WritableTxnMarker(
                producer_id=UNUSED_IDS + lane.randrange(1 << 20),
                producer_epoch=lane.randrange(1 << 15),
                coordinator_epoch=lane.choice((0, 1 << 20, (1 << 31) - 1)),
                transaction_result=bool(lane.randrange(2)),
                topics=[
                    WritableTxnMarkerTopic(name=name, partition_indexes=[0, 1, 2, 3])
                    for name in (TOPIC, "nothing")
                ],
            )
            for _ in range(30)
        ]
        answer = client.ask(WriteTxnMarkersRequest(markers=markers), lane.choice((1, 2)))
        return Counter(
            part.error_code for m in answer.markers for t in m.topics for part in t.partitions
        )

    heard = goes_on_beside(brokers, "markers", say)
    assert set(heard) <= OK | LEADERS_ONLY | {E.UNKNOWN_LEADER_EPOCH, E.INVALID_PRODUCER_EPOCH}
    assert heard[E.UNKNOWN_LEADER_EPOCH] and heard[E.NONE]


def test_guesses_of_ids_and_epochs(brokers: QuorumCluster) -> None:
    """A stranger knows transactional ids and producer ids, as `list` shows them: not the epochs."""
    name = "guessed"

    def say(client: Client, lane: random.Random) -> Counter[int]:
        listed = client.ask(ListTransactionsRequest(), 1).transaction_states
        pids = [one.producer_id for one in listed if one.transactional_id == name]
        pid = lane.choice([*pids, lane.randrange(1 << 62)])
        epoch = lane.choice((-1, 20_000, 32_766, 32_767, lane.randrange(10_000, 1 << 15)))
        who = {"transactional_id": name, "producer_id": pid, "producer_epoch": epoch}
        add = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=name,
            v3_and_below_producer_id=pid,
            v3_and_below_producer_epoch=epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=TOPIC, partitions=[0])],
        )
        offset = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=7_777)
        topics = [TxnOffsetCommitRequestTopic(name=TOPIC, partitions=[offset])]
        commit = TxnOffsetCommitRequest(
            group_id=name, generation_id_or_member_epoch=-1, topics=topics, **who
        )
        init = InitProducerIdRequest(transaction_timeout_ms=1_000, **who)
        heard = Counter(
            client.ask(EndTxnRequest(committed=bool(lane.randrange(2)), **who), version).error_code
            for version in (1, 4, 5)
        )
        answers = client.ask(add, 3).results_by_topic_v3_and_below
        heard += Counter(p.partition_error_code for t in answers for p in t.results_by_partition)
        answers = client.ask(commit, lane.choice((3, 4, 5))).topics
        heard += Counter(p.error_code for t in answers for p in t.partitions)
        heard[client.ask(init, 5).error_code] += epoch != -1  # -1 with an id is half a producer
        return heard

    heard = goes_on_beside(brokers, name, say)
    refused = {
        E.PRODUCER_FENCED,
        E.INVALID_PRODUCER_EPOCH,
        E.INVALID_PRODUCER_ID_MAPPING,
        E.INVALID_REQUEST,
        E.CONCURRENT_TRANSACTIONS,  # of a transaction that is ending, to any client
        E.INVALID_TXN_STATE,
        E.TRANSACTION_ABORTABLE,
        E.NOT_LEADER_OR_FOLLOWER,
    }
    assert set(heard) <= refused | NOT_HERE, heard
    assert heard[E.PRODUCER_FENCED] and heard[E.INVALID_PRODUCER_ID_MAPPING]


def test_thousands_of_open_transactions(brokers: QuorumCluster) -> None:
    """As many as the memory for new ids has room for; who was there before goes on."""

    def say(client: Client, lane: random.Random) -> Counter[int]:
        ids = [f"flood-{uuid.uuid4().hex}" for _ in range(50)]
        opened = []
        for id_ in ids:
            init = InitProducerIdRequest(transactional_id=id_, transaction_timeout_ms=900_000)
            client.send(init, 5)
        heard: Counter[int] = Counter()
        for id_ in ids:
            _, answer = client.receive(22, 5)
            heard[answer.error_code] += 1
            if answer.error_code == E.NONE:
                opened.append((id_, answer))
        for id_, answer in opened:
            add = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=id_,
                v3_and_below_producer_id=answer.producer_id,
                v3_and_below_producer_epoch=answer.producer_epoch,
                v3_and_below_topics=[AddPartitionsToTxnTopic(name=TOPIC, partitions=[0, 1])],
            )
            client.send(add, 3)
        for _ in opened:
            topics = client.receive(24, 3)[1].results_by_topic_v3_and_below
            heard += Counter(p.partition_error_code for t in topics for p in t.results_by_partition)
        return heard

    full = E.COORDINATOR_NOT_AVAILABLE
    with flooded(brokers, say) as strangers:
        assert eventually(lambda: all(one.heard[full] > 100 for one in strangers))
    with Cluster(brokers.bootstrap_servers) as client:
        flood = Admin(client).list_transactions(states=["Ongoing"], pattern="flood-.*")
    assert 3 * 300 < len(flood) < 3 * MEMORY_BYTES // 1_024
    heard = goes_on_beside(brokers, "patient", say)
    assert set(heard) == {E.NOT_COORDINATOR, full}, heard


def test_floods_of_questions(brokers: QuorumCluster) -> None:
    """Lists and descriptions of everything, many at once on a connection."""

    def say(client: Client, lane: random.Random) -> Counter[int]:
        names = [f"{lane.randrange(1 << 40):x}" for _ in range(2_000)]
        parts = TopicRequest(name=TOPIC, partition_indexes=list(range(500)))
        requests: list[tuple[Any, int]] = [
            (ListTransactionsRequest(), 1),
            (ListTransactionsRequest(state_filters=names[:100]), 0),
            (DescribeTransactionsRequest(transactional_ids=[*names, "asked"]), 0),
            (DescribeProducersRequest(topics=[parts, parts]), 0),
        ]
        for request, version in requests * 3:
            client.send(request, version)
        heard: Counter[int] = Counter()
        for request, version in requests * 3:
            _, answer = client.receive(type(request).api_key, version)
            if isinstance(request, ListTransactionsRequest):
                heard[answer.error_code] += 1
            elif isinstance(request, DescribeTransactionsRequest):
                heard += Counter(one.error_code for one in answer.transaction_states)
            else:
                heard += Counter(p.error_code for t in answer.topics for p in t.partitions)
        return heard

    heard = goes_on_beside(brokers, "asked", say)
    unknown = {E.TRANSACTIONAL_ID_NOT_FOUND}
    assert set(heard) <= OK | NOT_HERE | LEADERS_ONLY | unknown, heard
    assert heard[E.NONE] and heard[E.TRANSACTIONAL_ID_NOT_FOUND]


def test_batches_of_unknown_transactions(brokers: QuorumCluster) -> None:
    """Leaders ask coordinators for each of them, of so many at once, and write none."""

    def say(client: Client, lane: random.Random) -> Counter[int]:
        topic = type("Named", (), {"name": TOPIC})
        count = 100
        for _ in range(count):
            records = batch(
                b"never",
                producer_id=UNUSED_IDS + lane.randrange(1 << 40),
                producer_epoch=lane.randrange(1 << 15),
                base_sequence=0,
                transactional=True,
            )
            id_ = f"{lane.randrange(1 << 40):x}"
            request = produce_request(
                topic, records, 12, index=lane.randrange(PARTITIONS), transactional_id=id_
            )
            client.send(request, 12)
        heard: Counter[int] = Counter()
        for _ in range(count):
            _, answer = client.receive(0, 12)
            heard[answer.responses[0].partition_responses[0].error_code] += 1
        return heard

    assert CLAIMS_MAX == 10_000, "a connection has fewer under way than wait for one node"
    heard = goes_on_beside(brokers, "written", say)
    refused = {E.INVALID_PRODUCER_ID_MAPPING, E.NOT_ENOUGH_REPLICAS, E.NOT_LEADER_OR_FOLLOWER}
    assert set(heard) <= refused, heard
    assert heard[E.INVALID_PRODUCER_ID_MAPPING]


def test_the_log_says_of_floods_within_limits(brokers: QuorumCluster) -> None:
    """Behind all floods above: the nodes live, and their logs are short."""
    for node in brokers.nodes.values():
        lines = node.log_path.read_text().splitlines()
        assert len(lines) < 2_000, lines[-20:]
        assert not [line for line in lines if "Traceback" in line]
