"""Three controllers of one kind, as they would run in earnest, and a metadata write to ask of them.

The write is a dynamic config of one of the controllers: one record, decided, appended,
replicated to a majority, synced as the kind does it, applied, answered. Apache Kafka's controllers
come from the interop suite's harness, with the heap and collector that its own start script asks
for. Timeouts are the defaults of `controller.quorum.*`, which both kinds share.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.interop.apache import BROKER_JVM, HOST
from tests.interop.quorum import APACHE, FENCEPOST, Node, NodeError, Quorum

from fencepost.client.connection import Connection
from fencepost.client.errors import ClientError
from fencepost.wire.api import incremental_alter_configs as alter

VOTERS = 3
BROKER_RESOURCE = 4
SET = 0
ANSWER_TIMEOUT_MS = 10_000
DEFAULTS = {
    "controller.quorum.election.timeout.ms": "1000",
    "controller.quorum.election.backoff.max.ms": "1000",
    "controller.quorum.fetch.timeout.ms": "2000",
    "controller.quorum.request.timeout.ms": "2000",
    "metadata.max.idle.interval.ms": "500",
}
KINDS = (FENCEPOST, APACHE)


@contextlib.contextmanager
def quorum_of(kind: str, home: Path, **overrides: str) -> Iterator[Quorum]:
    """Three running controllers with a leader; `overrides` are keys of their configuration."""
    config = {**DEFAULTS, **overrides}
    with Quorum(home / kind, (kind,) * VOTERS, config=config, jvm=BROKER_JVM) as quorum:
        quorum.format()
        quorum.start()
        quorum.wait_for_leader()
        yield quorum


def write_request(number: int) -> alter.IncrementalAlterConfigsRequest:
    """One metadata write; another value for each number, since what changes nothing is no write."""
    config = alter.AlterableConfig(
        name="log.cleaner.backoff.ms", config_operation=SET, value=str(1_000 + number)
    )
    resource = alter.AlterConfigsResource(
        resource_type=BROKER_RESOURCE, resource_name=str(number % VOTERS + 1), configs=[config]
    )
    return alter.IncrementalAlterConfigsRequest(resources=[resource])


def is_written(answer: alter.IncrementalAlterConfigsResponse) -> bool:
    """Whether the write was acknowledged."""
    return all(entry.error_code == 0 for entry in answer.responses) and bool(answer.responses)


def connect(node: Node, timeout_ms: float = ANSWER_TIMEOUT_MS) -> Connection:
    """A connection to a controller. ClientError."""
    return Connection(HOST, node.port, timeout_ms=timeout_ms)


def first_write(nodes: list[Node], number: int, deadline_s: float) -> float:
    """When, by time.monotonic, one of these nodes acknowledged a write: they are asked in turn.

    NodeError when none has by `deadline_s`.
    """
    connections: dict[int, Connection] = {}
    try:
        while time.monotonic() < deadline_s:
            for node in nodes:
                try:
                    if node.node_id not in connections:
                        connections[node.node_id] = connect(node, 1_000)
                    if is_written(connections[node.node_id].request(write_request(number))):
                        return time.monotonic()
                except (ClientError, OSError):
                    broken = connections.pop(node.node_id, None)
                    if broken is not None:
                        broken.close()
            time.sleep(0.005)
    finally:
        for connection in connections.values():
            connection.close()
    raise NodeError("no controller took a write in time")
