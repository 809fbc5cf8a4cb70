"""Markers that somebody else writes: what they can do to a transaction, who tells, what ends it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from fencepost.client.admin import Admin
from fencepost.client.cluster import Cluster
from fencepost.client.metadata import TopicPartition
from fencepost.client.stable_offset import OpenTransaction, Verdict, explain, refused_ends
from fencepost.runtime import markers as runtime_markers, transaction_markers
from fencepost.wire.errors import ErrorCode

from ...waiting import eventually
from ..apis.test_transactional_data import write
from ..apis.test_write_txn_markers import mark, marker
from ..conftest import RunningNode
from ..listener_fixtures import Client
from ..topic_requests import make_topic
from .transaction_requests import (
    BUSY,
    Producer,
    add,
    coordinated,
    end,
    init,
    initialized,
    new_id,
    state_of,
)

LATE_EPOCH = (1 << 31) - 1
LAST_PRODUCER_EPOCH = (1 << 15) - 1


@pytest.fixture
def admin(node: RunningNode) -> Iterator[Admin]:
    cluster = Cluster(node.bootstrap_servers, retry_backoff_ms=1)
    yield Admin(cluster)
    cluster.close()


def opened(client: Client, txn: str, topic: str) -> Producer:
    """A transaction with one record in partition 0."""
    producer = initialized(client, txn)
    assert add(client, txn, producer, topic, 0) == {0: 0}
    pid, epoch = producer
    named = type("Topic", (), {"name": topic})
    said = {"transactional_id": txn, "pid": pid, "epoch": epoch}
    assert write(client, named, b"a", **said).error_code == 0
    return producer


def goes_on_beside(client: Client, topic: str) -> None:
    """Another transaction in the same partition begins, ends and completes."""
    txn = new_id()
    producer = opened(client, txn, topic)
    assert end(client, txn, producer, committed=True).error_code == 0
    assert eventually(lambda: state_of(client, txn) == "CompleteCommit")


def test_a_stranger_cannot_shut_the_coordinator_out_by_an_epoch_that_nobody_has(
    client: Client,
) -> None:
    """Kafka takes the marker, and then the transaction stays in PrepareCommit for ever."""
    coordinated(client)
    topic, txn = make_topic(client).name, new_id()
    producer = opened(client, txn, topic)
    stray = marker({topic: [0]}, pid=producer[0], epoch=producer[1], coordinator_epoch=LATE_EPOCH)
    refused = {(producer[0], topic, 0): ErrorCode.UNKNOWN_LEADER_EPOCH}
    for version in (1, 2):
        assert mark(client, stray, version=version) == refused
    assert end(client, txn, producer, committed=True).error_code == 0
    assert eventually(lambda: state_of(client, txn) == "CompleteCommit")


@pytest.mark.parametrize("what", ["coordinator epoch", "producer epoch"])
def test_a_refused_end_is_told_of_and_completes_by_itself(
    node: RunningNode,
    client: Client,
    admin: Admin,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    what: str,
) -> None:
    monkeypatch.setattr(transaction_markers, "REFUSED_RETRY_MS", 20)
    coordinated(client)
    topic, txn = make_topic(client).name, new_id()
    producer = pid, epoch = opened(client, txn, topic)
    if what == "producer epoch":
        stray = marker({topic: [0]}, pid=pid, epoch=LAST_PRODUCER_EPOCH, committed=False)
        assert mark(client, stray) == {(pid, topic, 0): 0}
    else:  # as a broker of before that rule took it
        with monkeypatch.context() as before:
            before.setattr(runtime_markers, "_newest_coordinator_epoch", lambda _: LATE_EPOCH)
            stray = marker({topic: [0]}, pid=pid, epoch=epoch, coordinator_epoch=LATE_EPOCH)
            assert mark(client, stray) == {(pid, topic, 0): 0}
    part = TopicPartition(topic, 0)
    sender = node.node.broker.coordinators.transactions.markers
    assert end(client, txn, producer, committed=True).error_code == 0
    assert eventually(lambda: node.call(lambda: sender.refused) == 1)
    assert state_of(client, txn) == "PrepareCommit"
    assert init(client, txn).error_code == BUSY
    goes_on_beside(client, topic)

    (found,) = refused_ends(admin, [part])
    assert isinstance(found, OpenTransaction) and found.verdict is Verdict.REFUSED
    assert found.known is not None and found.known.transactional_id == txn
    assert (found.producer.producer_id, found.partition) == (pid, part)
    assert refused_ends(admin, [TopicPartition(topic, 1)]) == []
    (held,) = explain(admin, [part], 0)
    assert held.verdict is Verdict.NOTHING, "readers do not wait, the producer does"
    told = [one.getMessage() for one in caplog.records if repr(txn) in one.getMessage()]
    assert len(told) == 1 and "refused" in told[0] and "transactions describe" in told[0]

    log = node.node.broker.replicas.get(topic, 0).log
    node.call(log.producers.remove_expired, 1 << 60)
    assert eventually(lambda: state_of(client, txn) == "CompleteCommit")
    assert node.call(lambda: sender.refused) == 0
    assert refused_ends(admin, [part]) == []
    initialized(client, txn)


def test_a_coordinator_is_never_taken_for_somebody_else(client: Client, admin: Admin) -> None:
    """What its own markers left in the partition is no reason, while it ends or afterwards."""
    coordinated(client)
    topic, txn = make_topic(client).name, new_id()
    for _ in range(5):
        producer = opened(client, txn, topic)
        assert end(client, txn, producer, committed=False).error_code == 0
        assert refused_ends(admin, [TopicPartition(topic, 0)]) == []
        assert eventually(lambda: state_of(client, txn) == "CompleteAbort")


def test_many_refused_ends_fill_no_log_and_hold_up_nobody(
    node_factory: Callable[..., RunningNode],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A flood of stray markers: as many lines as `broker.net.log_limit` lets through."""
    monkeypatch.setattr("fencepost.broker.net.log_limit.BURST_LINES", 5)
    monkeypatch.setattr("fencepost.broker.net.log_limit.LINES_PER_S", 0)
    running = node_factory()
    with running.connect() as client:
        coordinated(client)
        topic, count = make_topic(client).name, 30
        opens = [(txn, opened(client, txn, topic)) for txn in (new_id() for _ in range(count))]
        where = {topic: [0]}
        strays = [
            marker(where, pid=pid, epoch=LAST_PRODUCER_EPOCH, committed=False)
            for _, (pid, _) in opens
        ]
        assert set(mark(client, *strays).values()) == {0}
        for txn, producer in opens:
            assert end(client, txn, producer, committed=True).error_code == 0
        sender = running.node.broker.coordinators.transactions.markers
        assert eventually(lambda: running.call(lambda: sender.refused) == count)
        goes_on_beside(client, topic)
    lines = [one for one in caplog.records if "is refused by" in one.getMessage()]
    assert len(lines) == 5
