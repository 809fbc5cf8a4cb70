"""What anybody who reaches a controller's listener can make it hold: each has an end."""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Iterator
from typing import Any

import pytest

from fencepost.broker.net.dispatch import MAX_REQUESTS_IN_FLIGHT
from fencepost.machines.quorum import replication
from fencepost.wire.api import FetchRequest, fetch
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Uuid

from ..broker.conftest import RunningNode
from ..broker.listener_fixtures import Client
from ..waiting import DEADLINE_S, eventually

MAX_CONNECTIONS = 12
FRAME_BYTES_MAX = 64 * 1024
FOR_EVER_MS = (1 << 31) - 1
VERSION = 17


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    """A lone node whose controller listens, and does not take much."""
    config = {
        "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
        "controller.listener.names": "CONTROLLER",
        "max.connections": str(MAX_CONNECTIONS),
        "socket.request.max.bytes": str(FRAME_BYTES_MAX),
    }
    running = RunningNode(tmp_path_factory.mktemp("node") / "data", config)
    yield running
    running.close()


def part(node: RunningNode) -> Any:
    assert node.node.controller is not None
    return node.node.controller


def knock(node: RunningNode) -> Client:
    """A raw client of the controller's listener."""
    address = ("127.0.0.1", part(node).bound[0].port)
    return Client(socket.create_connection(address, timeout=DEADLINE_S))


def open_connections(node: RunningNode) -> int:
    return node.call(lambda: len(part(node).listener.connections))


def leader(node: RunningNode) -> Any:
    """The machine's state as the leader; for use in the node's loop."""
    return node.node.metadata.machine.node.role_state


def fetch_at_the_end(node: RunningNode, wait_ms: int, replica_id: int = -1) -> FetchRequest:
    """A fetch that there is nothing for."""
    machine = node.node.metadata.machine

    def position() -> tuple[int, int, int]:
        return machine.epoch, machine.end_offset, machine.log.last_epoch

    epoch, end_offset, last_epoch = node.call(position)
    partition = fetch.FetchPartition(
        partition=0,
        current_leader_epoch=epoch,
        fetch_offset=end_offset,
        last_fetched_epoch=last_epoch,
        partition_max_bytes=1 << 20,
    )
    return FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=1 << 20,
        replica_state=fetch.ReplicaState(replica_id=replica_id),
        topics=[fetch.FetchTopic(topic_id=Uuid.METADATA_TOPIC_ID, partitions=[partition])],
    )


def test_connections(node: RunningNode) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(MAX_CONNECTIONS):
            stack.enter_context(knock(node))
        eventually(lambda: open_connections(node) == MAX_CONNECTIONS, "all are taken")
        with knock(node) as one_more:
            assert one_more.is_disconnected()
        assert open_connections(node) == MAX_CONNECTIONS
    eventually(lambda: open_connections(node) == 0, "and room again")


def test_the_size_of_a_request(node: RunningNode) -> None:
    with knock(node) as client:
        client.sock.sendall(struct.pack(">i", FRAME_BYTES_MAX + 1))
        assert client.is_disconnected()


@pytest.mark.slow
def test_fetches_that_wait(node: RunningNode) -> None:
    """So many per connection, no longer than a leader may be silent, and none once it is closed."""
    request = fetch_at_the_end(node, FOR_EVER_MS)
    most = 0

    def waiting() -> int:
        nonlocal most
        count = node.call(lambda: len(leader(node).fetches))
        most = max(most, count)
        return count

    with knock(node) as client:
        for _ in range(3 * MAX_REQUESTS_IN_FLIGHT):
            client.send(request, VERSION)
        eventually(lambda: waiting() >= MAX_REQUESTS_IN_FLIGHT, "as many wait as may")
        for _ in range(MAX_REQUESTS_IN_FLIGHT):
            _, answer = client.receive(FetchRequest.api_key or 0, VERSION)
            assert answer.responses[0].partitions[0].error_code == ErrorCode.NONE
            waiting()
    eventually(lambda: waiting() == 0, "those of a client that is gone are forgotten")
    assert most == MAX_REQUESTS_IN_FLIGHT


def test_observers_that_are_known(node: RunningNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replication, "MAX_OBSERVERS", 3)
    for replica_id in range(50, 60):
        with knock(node) as client:
            client.ask(fetch_at_the_end(node, 0, replica_id), VERSION)
        known = node.call(lambda: len(leader(node).tracker.observers))
        assert known <= 3
    assert known == 3
