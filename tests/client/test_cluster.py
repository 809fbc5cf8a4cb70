"""Metadata, leaders and retries."""

from __future__ import annotations

import asyncio
import contextlib
import pickle
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from fencepost.client.admin import Admin
from fencepost.client.aio.connection import AsyncConnection
from fencepost.client.cluster import Cluster
from fencepost.client.cluster_view import topic_in
from fencepost.client.config import ClientConfig
from fencepost.client.conversation import Connect, Where
from fencepost.client.errors import (
    BrokerError,
    ConnectionFailed,
    DeadlineExceeded,
    ProtocolError,
    UnknownTopic,
)
from fencepost.client.metadata import Metadata, PartitionInfo, TopicInfo, TopicPartition
from fencepost.client.offsets import (
    EARLIEST,
    LATEST,
    EpochSpan,
    epoch_spans,
    list_offsets,
    offsets_for_leader_epochs as ends_of,
)
from fencepost.client.retry import Backoff, Deadline
from fencepost.wire.api.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Uuid

from ..ports import address_of, refusing_port
from .fake_broker import FakeBroker
from .fake_cluster import FakeCluster
from .records import batch


def metadata_of(topic_id: int, leader: int, epoch: int) -> MetadataResponse:
    partition = MetadataResponsePartition(partition_index=0, leader_id=leader, leader_epoch=epoch)
    topic = MetadataResponseTopic(
        name="t", topic_id=Uuid(topic_id.to_bytes(16, "big")), partitions=[partition]
    )
    return MetadataResponse(topics=[topic])


def test_older_epochs_do_not_replace_newer_ones_of_the_same_topic():
    metadata = Metadata()
    metadata.update(metadata_of(1, leader=1, epoch=5))
    metadata.update(metadata_of(1, leader=2, epoch=4))
    assert metadata.topics["t"].partitions[0].leader_id == 1
    metadata.update(metadata_of(1, leader=3, epoch=6))
    assert metadata.topics["t"].partitions[0].leader_id == 3


def test_a_recreated_topic_replaces_everything_known():
    metadata = Metadata()
    metadata.update(metadata_of(1, leader=1, epoch=5))
    old_id = metadata.topics["t"].topic_id
    metadata.update(metadata_of(2, leader=2, epoch=0))
    assert metadata.topics["t"].partitions[0].leader_epoch == 0
    assert old_id not in metadata.names_by_id
    assert metadata.names_by_id[metadata.topics["t"].topic_id] == "t"


def test_what_brokers_say_of_a_partition_is_kept_by_its_name():
    partition = MetadataResponsePartition(
        error_code=9,
        partition_index=1,
        leader_id=2,
        leader_epoch=3,
        replica_nodes=[4, 5],
        isr_nodes=[4],
        offline_replicas=[5],
    )
    topic = MetadataResponseTopic(name="t", is_internal=True, partitions=[partition])
    metadata = Metadata()
    (found,) = metadata.update(MetadataResponse(topics=[topic]))
    expected = PartitionInfo(
        partition=1,
        leader_id=2,
        leader_epoch=3,
        replicas=(4, 5),
        isr=(4,),
        offline=(5,),
        error_code=9,
    )
    assert found.partitions == {1: expected} == metadata.topics["t"].partitions
    assert pickle.loads(pickle.dumps(expected)) == expected


def test_dead_bootstrap_servers_are_passed_over(fake: FakeCluster, connect: Any):
    fake.create_topic("t", 2)
    with refusing_port() as held:
        servers = f"{address_of(held)},{fake.bootstrap_servers}"
        assert connect(servers).topic("t").partition_ids == [0, 1]


def test_no_broker_at_all_fails_at_the_deadline_and_says_why(connect: Any):
    with refusing_port() as held:
        cluster = connect(address_of(held), api_timeout_ms=150)
        said = f"within 150 ms.*{address_of(held)}"
        with pytest.raises(DeadlineExceeded, match=said) as caught:
            cluster.topic("t")
    assert isinstance(caught.value.last, ConnectionFailed)


@contextlib.contextmanager
def answering(data: bytes) -> Iterator[str]:
    """The address of a server that answers the first bytes of every connection with these."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            with contextlib.suppress(OSError):  # it is shut down
                while True:
                    connection, _ = listening.accept()
                    with connection, contextlib.suppress(OSError):
                        connection.recv(1)
                        connection.sendall(data)
                        connection.shutdown(socket.SHUT_WR)
                        while connection.recv(1 << 16):
                            pass

        serving = threading.Thread(target=serve)
        serving.start()
        try:
            yield address_of(listening)
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            serving.join()


NOT_TLS = b"HTTP/1.0 400 Bad Request\r\n\r\n"
ALERT = bytes.fromhex("15030300020246")


def with_tls(servers: str) -> ClientConfig:
    return ClientConfig.from_props({"bootstrap.servers": servers, "security.protocol": "SSL"})


def test_every_reason_of_a_failed_connection_is_told_and_that_of_tls_first():
    with refusing_port() as held, answering(NOT_TLS) as server:
        refusing = address_of(held)
        cluster = Cluster(config=with_tls(f"{refusing},{server}"))
        with pytest.raises(ConnectionFailed) as caught:
            cluster.any_connection()
    text = str(caught.value)
    assert text.startswith(f"no broker of {refusing}, {server} can be reached: at {server}: TLS ")
    assert text.endswith(f"; at {refusing}: cannot connect: [Errno 111] Connection refused")


def test_a_listener_that_wants_tls_is_told_and_the_next_broker_tried(
    fake: FakeCluster, connect: Any
):
    with answering(ALERT) as server:
        reached = connect(f"{server},{fake.bootstrap_servers}").any_connection()
        assert reached.address in fake.bootstrap_servers
        with pytest.raises(ProtocolError, match="this listener wants security"):
            connect(server).any_connection()


def test_asyncio_clients_tell_of_tls_as_well():
    with answering(NOT_TLS) as server:
        host, _, port = server.rpartition(":")
        with pytest.raises(ConnectionFailed, match="TLS handshake failed"):
            asyncio.run(AsyncConnection.open(with_tls(server), host, int(port)))


def test_an_unknown_topic_is_believed_after_a_few_attempts(fake: FakeCluster, connect: Any):
    cluster = connect(fake)
    with pytest.raises(UnknownTopic, match="nope: no such topic"):
        cluster.topic("nope")
    asked = [r for broker in fake.brokers.values() for r, _ in broker.requests]
    assert sum(type(request).__name__ == "MetadataRequest" for request in asked) == 6


def test_a_topic_that_appears_late_is_found(fake: FakeCluster, connect: Any):
    cluster = connect(fake)
    fake_describe = fake._describe
    asked = 0

    def late(name: str) -> Any:
        nonlocal asked
        asked += 1
        if asked == 3:
            fake.create_topic("t")
        return fake_describe(name)

    fake._describe = late  # type: ignore[method-assign]
    assert cluster.topic("t").partition_ids == [0]


def test_metadata_is_cached_and_asked_again_when_invalid(fake: FakeCluster, connect: Any):
    fake.create_topic("t")
    cluster = connect(fake)

    def asked() -> int:
        return sum(len(broker.requests) for broker in fake.brokers.values())

    cluster.topic("t")
    before = asked()
    cluster.topic("t")
    assert asked() == before
    cluster.invalidate(["t"])
    cluster.topic("t")
    assert asked() == before + 1


def test_requests_follow_a_moved_leader(fake: FakeCluster, connect: Any):
    fake.create_topic("t", 2)
    cluster = connect(fake)
    wanted = {TopicPartition("t", 0): LATEST, TopicPartition("t", 1): LATEST}
    assert {found.leader_epoch for found in list_offsets(cluster, wanted).values()} == {0}
    fake.partition("t", 0).append(batch(b"a", b"b"))
    fake.partition("t", 0).elect(2)
    fake.partition("t", 1).elect(1)
    found = list_offsets(cluster, wanted)
    assert found[TopicPartition("t", 0)][:1] + found[TopicPartition("t", 0)][2:] == (2, 1)
    assert found[TopicPartition("t", 1)].leader_epoch == 1


def test_requests_are_retried_when_a_broker_closes_the_connection(fake: FakeCluster, connect: Any):
    fake.create_topic("t")
    cluster = connect(fake)
    where = {TopicPartition("t", 0): LATEST}
    list_offsets(cluster, where)
    for broker in fake.brokers.values():
        broker.cut_connections()
    assert list_offsets(cluster, where)[TopicPartition("t", 0)].offset == 0


def test_a_connection_that_was_closed_while_idle_is_not_used(fake: FakeCluster, connect: Any):
    cluster = connect(fake)
    first = cluster.any_connection()
    where = Where(first.host, first.port)
    cluster.run(_connecting(where))
    assert not first.was_closed
    assert cluster.run(_connecting(where)) is first
    for broker in fake.brokers.values():
        broker.cut_connections()
    assert first.readable(10_000)
    assert first.was_closed
    second = cluster.run(_connecting(where))
    assert second is not first
    assert not second.was_closed
    token = second.send(MetadataRequest())
    assert second.readable(10_000)
    assert not second.was_closed  # that is the answer
    second.receive(token)


def _connecting(where: Where) -> Any:
    return (yield from Connect(where))


def test_an_error_that_is_not_retriable_names_broker_and_partition(connect: Any):
    def answer(request: Any, version: int, correlation_id: int) -> Any:
        name = type(request).__name__
        if name == "MetadataRequest":
            partition = MetadataResponsePartition(partition_index=0, leader_id=7)
            topic = MetadataResponseTopic(name="t", partitions=[partition])
            return MetadataResponse(brokers=[broker_entry], topics=[topic], cluster_id="c")
        if name == "ListOffsetsRequest":
            return FakeCluster._on_list_offsets(_Refusing(), 7, request, version)
        return NotImplemented

    from fencepost.wire.api.metadata import MetadataResponseBroker

    with FakeBroker(answer, {3: (0, 9), 2: (1, 7)}) as broker:
        broker_entry = MetadataResponseBroker(node_id=7, host="127.0.0.1", port=broker.port)
        with pytest.raises(BrokerError, match=f"t-0 at {broker.address}.*TOPIC_AUTHORIZATION"):
            list_offsets(connect(broker.address), {TopicPartition("t", 0): LATEST})


class _Refusing:
    def _list(self, node: int, topic: str, wanted: Any) -> Any:
        from fencepost.wire.api.list_offsets import ListOffsetsPartitionResponse

        return ListOffsetsPartitionResponse(
            partition_index=wanted.partition_index,
            error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        )


def test_retriable_errors_end_at_the_deadline(fake: FakeCluster, connect: Any):
    fake.create_topic("t")
    fake.partition("t").leader = 99  # nobody
    with pytest.raises(DeadlineExceeded, match=r"t-0 within 100 ms.*LEADER_NOT_AVAILABLE"):
        list_offsets(connect(fake, api_timeout_ms=100), {TopicPartition("t", 0): EARLIEST})


def test_epoch_ends_and_spans(fake: FakeCluster, connect: Any):
    fake.create_topic("t")
    partition = fake.partition("t")
    where = TopicPartition("t", 0)
    partition.append(batch(b"a", b"b", b"c"))  # epoch 0: offsets 0 to 3
    partition.elect(2)
    partition.append(batch(b"d"))  # epoch 1: 3 to 4
    partition.elect(1)
    partition.elect(2)  # epoch 2 had no record
    partition.append(batch(b"e", b"f"))  # epoch 3: 4 to 6
    cluster = connect(fake)
    assert ends_of(cluster, {where: 0})[where] == (0, 3)
    assert ends_of(cluster, {where: 2})[where] == (1, 4)
    assert ends_of(cluster, {where: 3})[where] == (3, 6)
    assert ends_of(cluster, {where: 9})[where] == (-1, -1)
    assert epoch_spans(cluster, where) == [
        EpochSpan(0, 0, 3),
        EpochSpan(1, 3, 4),
        EpochSpan(3, 4, 6),
    ]


def test_admin_through_the_fake(fake: FakeCluster, connect: Any):
    admin = Admin(connect(fake))
    created = admin.create_topic("t", 3)
    assert (created.partitions, created.topic_id) == (3, fake.topics["t"].topic_id)
    with pytest.raises(BrokerError, match="TOPIC_ALREADY_EXISTS"):
        admin.create_topic("t")
    assert [topic.name for topic in admin.list_topics()] == ["t"]
    assert admin.wait_for_topic("t").partition_ids == [0, 1, 2]
    admin.delete_topic("t")
    with pytest.raises(UnknownTopic, match="cannot delete topic t: no such topic"):
        admin.delete_topic("t")


@pytest.mark.parametrize(
    ("name", "code", "why"),
    [
        ("bad/name", ErrorCode.INVALID_TOPIC_EXCEPTION, "Topic name is invalid: 'bad/name' contai"),
        ("fine", ErrorCode.INVALID_TOPIC_EXCEPTION, "the topic's name is not allowed, or it is an"),
        ("secret", ErrorCode.TOPIC_AUTHORIZATION_FAILED, "this user may not describe the topic, "),
        ("late", ErrorCode.REQUEST_TIMED_OUT, "metadata is not available: "),
    ],
)
def test_why_a_topic_is_not_described_is_said_in_words(name: str, code: ErrorCode, why: str):
    info = TopicInfo(name, Uuid(bytes(16)), is_internal=False, partitions={}, error_code=code)
    with pytest.raises(BrokerError) as refused:
        topic_in([info], name)
    assert str(refused.value).startswith(f"{name}: {why}")
    assert str(refused.value).endswith(f" [{code.name}]")


def test_waiting_for_a_topic_that_is_not_known_for_long(fake: FakeCluster, connect: Any):
    cluster = connect(fake)
    admin = Admin(cluster)
    with pytest.raises(DeadlineExceeded, match="no such topic"):
        admin.wait_for_topic("t", timeout_ms=50)
    timer = threading.Timer(0.5, fake.create_topic, ("t", 2))
    timer.start()
    try:
        assert admin.wait_for_topic("t").partition_ids == [0, 1]
    finally:
        timer.join()


def test_a_cluster_cannot_be_pickled(fake: FakeCluster, connect: Any):
    with pytest.raises(TypeError, match="pickle its config"):
        pickle.dumps(connect(fake))


def test_backoff_grows_within_bounds_and_stops_at_the_deadline():
    backoff = Backoff(10, 100)
    pauses = [backoff.next_ms() for _ in range(50)]
    assert 8 <= pauses[0] <= 12
    assert all(80 <= pause <= 100 for pause in pauses[5:])
    assert not backoff.sleep(Deadline(1))
