"""The controllers' listener of a node in this process: who may ask what, and what garbage does."""

from __future__ import annotations

import contextlib
import random
import socket
import struct
from collections.abc import Iterator
from typing import Any

import pytest

from fencepost.batch.header import iter_headers
from fencepost.broker import apis
from fencepost.broker.net.registry import CONTROLLER_ROUTES, ROUTES
from fencepost.wire.api import (
    AddRaftVoterRequest,
    ApiVersionsRequest,
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchSnapshotRequest,
    RemoveRaftVoterRequest,
    UpdateRaftVoterRequest,
    VoteRequest,
    describe_quorum as describe,
    fetch,
    fetch_snapshot as snapshot,
)
from fencepost.wire.draft.fetch_quorum_records import (
    FetchQuorumRecordsRequest,
    FetchQuorumRecordsResponse,
)
from fencepost.wire.errors import ErrorCode
from fencepost.wire.frame import encode_request
from fencepost.wire.header import RequestHeader, ResponseHeader
from fencepost.wire.types import Uuid

from ..broker.conftest import RunningNode
from ..broker.listener_fixtures import Client
from ..broker.malformed_requests import malformed_requests
from ..broker.topic_requests import make_topic
from ..waiting import DEADLINE_S

apis.load_all()

ASK = ApiVersionsRequest(client_software_name="t", client_software_version="1")
DRAFT_KEY = 4711


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    """A lone node whose controller listens."""
    config = {
        "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
        "controller.listener.names": "CONTROLLER",
        "fencepost.draft.fetch.quorum.records.api.key": str(DRAFT_KEY),
    }
    running = RunningNode(tmp_path_factory.mktemp("node") / "data", config)
    yield running
    running.close()


def knock(node: RunningNode) -> Client:
    """A raw client of the controller's listener."""
    part = node.node.controller
    assert part is not None
    address = ("127.0.0.1", part.bound[0].port)
    return Client(socket.create_connection(address, timeout=DEADLINE_S))


@pytest.fixture
def client(node: RunningNode) -> Iterator[Client]:
    with knock(node) as made:
        yield made


def test_versions_are_those_of_the_listener(node: RunningNode, client: Client):
    with node.connect() as of_broker:
        brokers = {one.api_key for one in of_broker.ask(ASK, 4).api_keys}
    answer = client.ask(ASK, 4)
    assert {one.api_key for one in answer.api_keys} == {*CONTROLLER_ROUTES, DRAFT_KEY}
    assert brokers == set(ROUTES)
    assert VoteRequest.api_key not in brokers
    supported = {one.name: (one.min_version, one.max_version) for one in answer.supported_features}
    assert supported["kraft.version"] == (0, 1)


def test_brokers_do_not_vote(node: RunningNode):
    with node.connect() as client:
        client.send(VoteRequest(), 0)
        assert client.is_disconnected()


@pytest.mark.parametrize(
    "request_",
    [
        VoteRequest(cluster_id="other"),
        BeginQuorumEpochRequest(cluster_id="other"),
        EndQuorumEpochRequest(cluster_id="other"),
        FetchRequest(cluster_id="other"),
        FetchSnapshotRequest(cluster_id="other"),
        AddRaftVoterRequest(cluster_id="other"),
        RemoveRaftVoterRequest(cluster_id="other"),
        UpdateRaftVoterRequest(cluster_id="other"),
    ],
    ids=lambda request: type(request).__name__,
)
def test_another_cluster_is_told_so(client: Client, request_: Any):
    route = CONTROLLER_ROUTES[request_.api_key]
    for version in range(max(route.min_version, 12 if route.name == "Fetch" else 0), 99):
        if version > route.max_version:
            break
        answer = client.ask(request_, version)
        assert answer.error_code == ErrorCode.INCONSISTENT_CLUSTER_ID


def metadata_fetch(offset: int = 0, epoch: int = 1, last_epoch: int = 0) -> FetchRequest:
    partition = fetch.FetchPartition(
        partition=0,
        current_leader_epoch=epoch,
        fetch_offset=offset,
        last_fetched_epoch=last_epoch,
        partition_max_bytes=1 << 20,
    )
    topic = fetch.FetchTopic(
        topic="__cluster_metadata", topic_id=Uuid.METADATA_TOPIC_ID, partitions=[partition]
    )
    return FetchRequest(max_bytes=1 << 20, topics=[topic])


@pytest.mark.parametrize("version", range(12, 19))
def test_anybody_may_read_what_is_committed(node: RunningNode, client: Client, version: int):
    epoch = node.call(lambda: node.node.metadata.machine.epoch)
    answer = client.ask(metadata_fetch(epoch=epoch), version)
    (topic,) = answer.responses
    (partition,) = topic.partitions
    assert partition.error_code == ErrorCode.NONE
    headers = [header for _, header in iter_headers(memoryview(partition.records))]
    assert headers[0].base_offset == 0 and headers[0].is_control
    assert headers[-1].next_offset == partition.high_watermark > 0
    assert partition.current_leader.leader_id == node.node.config.node_id


def test_a_reader_of_another_epoch_is_told_the_leader(client: Client):
    (topic,) = client.ask(metadata_fetch(epoch=1000), 18).responses
    assert topic.partitions[0].error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    (topic,) = client.ask(metadata_fetch(epoch=0), 18).responses
    assert topic.partitions[0].error_code == ErrorCode.FENCED_LEADER_EPOCH


def test_a_snapshot_that_is_not_there(node: RunningNode, client: Client):
    epoch = node.call(lambda: node.node.metadata.machine.epoch)
    partition = snapshot.PartitionSnapshotRequest(
        partition=0,
        current_leader_epoch=epoch,
        snapshot_id=snapshot.SnapshotId(end_offset=123456, epoch=1),
        position=0,
    )
    topic = snapshot.TopicSnapshotRequest(name="__cluster_metadata", partitions=[partition])
    answer = client.ask(FetchSnapshotRequest(replica_id=7, max_bytes=100, topics=[topic]), 1)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.SNAPSHOT_NOT_FOUND


@pytest.mark.parametrize("version", range(3))
def test_the_quorum_is_described_in_every_version(client: Client, version: int):
    topic = describe.TopicDataRequest(
        topic_name="__cluster_metadata",
        partitions=[describe.PartitionDataRequest(partition_index=0)],
    )
    answer = client.ask(describe.DescribeQuorumRequest(topics=[topic]), version)
    assert answer.error_code == ErrorCode.NONE
    (partition,) = answer.topics[0].partitions
    assert [voter.replica_id for voter in partition.current_voters] == [partition.leader_id]


@pytest.mark.parametrize("version", [0, 1])
def test_the_draft_is_served_where_it_was_asked_for(
    node: RunningNode, client: Client, version: int
):
    epoch = node.call(lambda: node.node.metadata.machine.epoch)
    asked = FetchQuorumRecordsRequest(
        cluster_id=node.node.cluster_id if version else "",
        replica_id=7,
        leader_epoch=epoch,
        fetch_offset=0,
        last_fetched_epoch=0,
    )
    header = RequestHeader(
        request_api_key=DRAFT_KEY, request_api_version=version, correlation_id=5, client_id="d"
    )
    body = header.encode(1 + version) + asked.encode(version)
    client.send_raw(struct.pack(">i", len(body)) + body)
    frame = client.receive_frame()
    head, start = ResponseHeader.read(frame, 0, version)
    assert head.correlation_id == 5
    answer, _ = FetchQuorumRecordsResponse.read(frame, start, version)
    assert answer.leader_id == node.node.config.node_id
    assert answer.leader_epoch == epoch
    assert answer.high_watermark > 0
    headers = [header for _, header in iter_headers(memoryview(answer.records))]
    assert headers[0].base_offset == 0


# -- garbage ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        struct.pack(">i", 2**31 - 1) + b"x" * 100,
        struct.pack(">i", -1),
        struct.pack(">i", 0),
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        struct.pack(">ihhi", 8, 52, 99, 1),
        struct.pack(">ihhi", 8, 7777, 0, 1),
        struct.pack(">ihhihb", 14, 52, 0, 1, -1, 0) + b"\xff" * 3,
        struct.pack(">ihhihb", 19, 59, 0, 1, -1, 0) + b"\xff\xff\xff\xff\x0f" + b"\0" * 3,
    ],
    ids=["huge", "negative", "empty", "http", "version", "api", "cut", "count"],
)
def test_hostile_frames_are_disconnected(node: RunningNode, client: Client, data: bytes):
    client.send_raw(data)
    assert client.is_disconnected()
    with knock(node) as bystander:
        assert bystander.ask(ASK, 3).error_code == ErrorCode.NONE


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_garbage_in_every_api_and_version(node: RunningNode, seed: int, caplog):
    dice = random.Random(seed)
    sent = 0
    for data in malformed_requests(dice, CONTROLLER_ROUTES):
        with knock(node) as client, contextlib.suppress(ConnectionError):
            client.send_raw(data)
            client.send_raw(encode_request(ASK, 3, 2, None))
            client.sock.settimeout(0.01)
            with contextlib.suppress(TimeoutError):
                client.sock.recv(1 << 16)
        sent += 1
    assert sent > 300
    assert node.node.failure is None
    # A higher epoch is no garbage: the node may have to elect itself again, and must be able to.
    with node.connect() as client:
        make_topic(client)
    assert [record.getMessage() for record in caplog.records if record.exc_info] == []
