"""The controller under test: one in a process, whose peers are a script.

A subject is voter 1 of 1, 2, 3, with a log that is empty at first. Voters 2 and 3 are the test. It
starts with its election timer far away; `elect` lets it win an election.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

from fencepost.client.connection import Connection
from fencepost.client.protocol.in_flight import Token
from fencepost.testing.ports import free_ports
from fencepost.wire.message import Message, Request
from fencepost.wire.types import Uuid

from ..waiting import DEADLINE_MS
from .apache import HOST
from .quorum import Node
from .quorum_peers import ScriptedVoters

R = TypeVar("R", bound=Message)
SUBJECT_ID = 1
PATIENCE = {
    "controller.quorum.election.timeout.ms": "600000",
    "controller.quorum.fetch.timeout.ms": "600000",
    "controller.quorum.request.timeout.ms": "600000",
    "metadata.max.idle.interval.ms": "0",
}
HASTE = {**PATIENCE, "controller.quorum.election.timeout.ms": "300"}


class Subject:
    """A controller process, voter 1; the scripted voters are `peers`."""

    def __init__(self, node: Node, peers: ScriptedVoters) -> None:
        self.node = node
        self.peers = peers
        self._connections: dict[str, Connection] = {}

    def ask(self, request: Request[R], version: int | None = None, *, by: str = "test") -> R:
        """Its answer, on the connection of that name."""
        return self.receive(self.send(request, version, by=by), by=by)

    def send(
        self, request: Request[R], version: int | None = None, *, by: str = "test"
    ) -> Token[R]:
        """Ask without waiting; one that waits needs a connection of its own."""
        if by not in self._connections or not self._connections[by].is_open:
            self._connections[by] = Connection(HOST, self.node.port, timeout_ms=DEADLINE_MS)
        return self._connections[by].send(request, version)

    def receive(self, token: Token[R], *, by: str = "test") -> R:
        """The answer to what was sent."""
        return self._connections[by].receive(token)

    def has_answered(self, *, by: str, within_ms: float) -> bool:
        """Whether the answer to what was sent is there."""
        return self._connections[by].readable(within_ms)

    def close(self) -> None:
        """End the process and all connections."""
        for connection in self._connections.values():
            connection.close()
        self.peers.close()
        if self.node.process is not None:
            self.node.kill()


def directory_of(voter_id: int) -> Uuid:
    """The directory id that a voter has in these tests."""
    return Uuid(bytes(15) + bytes((0xA0 + voter_id,)))


@contextlib.contextmanager
def scripted_quorum(
    kind: str, home: Path, *, is_hasty: bool = False, is_dynamic: bool = False
) -> Iterator[Subject]:
    """A fresh voter 1 among scripted voters 2 and 3; `is_hasty` lets it stand for election."""
    port = free_ports(1)[0]
    peers = ScriptedVoters((2, 3))
    peers.grants = is_hasty
    ports = {SUBJECT_ID: port, **peers.ports}
    config = {
        "process.roles": "controller",
        "node.id": str(SUBJECT_ID),
        "listeners": f"CONTROLLER://{HOST}:{port}",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": str(home / "data"),
        **(HASTE if is_hasty else PATIENCE),
    }
    node = Node(kind, SUBJECT_ID, "controller", home, port, config)
    if is_dynamic:
        servers = ",".join(f"{HOST}:{port}" for port in ports.values())
        node.write_config(**{"controller.quorum.bootstrap.servers": servers})
        initial = ",".join(
            f"{id_}@{HOST}:{port}:{directory_of(id_)}" for id_, port in ports.items()
        )
        node.format("--initial-controllers", initial)
    else:
        voters = ",".join(f"{id_}@{HOST}:{port}" for id_, port in ports.items())
        node.write_config(**{"controller.quorum.voters": voters})
        node.format()
    subject = Subject(node, peers)
    try:
        node.start()
        yield subject
    finally:
        subject.close()
