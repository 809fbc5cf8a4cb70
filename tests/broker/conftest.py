"""Fixtures: a whole node in this process, on an event loop of its own, behind a loopback port.

`node_factory(**config)` starts nodes (underscores for dots in the keys), `node` is one with the
defaults, shared by a module. `running.call(function, ...)` runs something in the node's loop;
`running.connect()` is a raw client of any version (see `Client` of `listener_fixtures`).
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fencepost.broker.config.broker_config import BrokerConfig
from fencepost.broker.node.node import Node

from ..waiting import DEADLINE_S
from .listener_fixtures import Client, LoopThread
from .slow_disk import SlowDisk
from .topic_requests import make_topic

QUICK = {
    "listeners": "PLAINTEXT://127.0.0.1:0",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "fencepost.event.loop": "asyncio",
}
"""Configs that make a node quick to start in a test."""


class RunningNode:
    """A started node and the thread its loop runs in."""

    def __init__(self, data_dir: Path, config: dict[str, str]) -> None:
        self.data_dir = data_dir
        self._config = {**QUICK, "log.dirs": str(data_dir), **config}
        self._thread = LoopThread()
        try:
            self.node = self.start()
        except BaseException:
            self._thread.close()
            raise

    def start(self) -> Node:
        """Make a node on the data and start it; whatever it raises if it cannot start."""
        config = BrokerConfig.load(None, self._config)
        node = self._thread.call(Node, config, self._thread.loop)
        try:
            self._thread.call(node.start)
        except BaseException:
            self._thread.call(node.stop)
            raise
        return node

    @property
    def port(self) -> int:
        """The port of the first listener."""
        return self.node.bound[0].port

    @property
    def bootstrap_servers(self) -> str:
        """HOST:PORT for clients."""
        return f"127.0.0.1:{self.port}"

    def connect(self) -> Client:
        """A raw client."""
        return Client(socket.create_connection(("127.0.0.1", self.port), timeout=DEADLINE_S))

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Run a function (or coroutine function) in the node's loop and return its result."""
        return self._thread.call(function, *arguments)

    def restart(self) -> None:
        """Stop in order and start again on the same data; the port changes."""
        self.call(self.node.stop)
        self.node = self.start()

    def close(self) -> None:
        """Stop in order."""
        try:
            self.call(self.node.stop)
        finally:
            self._thread.close()


@contextlib.contextmanager
def stopped_threads(running: RunningNode) -> Iterator[threading.Event]:
    """The decompression threads wait until the block ends, or the yielded event is set."""
    go_on = threading.Event()
    pool = running.node.broker.decompression
    for executor in (pool._medium, pool._large):
        executor.submit(go_on.wait, DEADLINE_S)
    try:
        yield go_on
    finally:
        go_on.set()


@pytest.fixture
def node_factory(tmp_path: Path) -> Iterator[Callable[..., RunningNode]]:
    """Starts nodes that are stopped when the test ends."""
    started: list[RunningNode] = []

    def start(data_dir: Path | None = None, **config: object) -> RunningNode:
        directory = data_dir or tmp_path / f"data-{len(started)}"
        texts = {key.replace("_", "."): str(value) for key, value in config.items()}
        started.append(RunningNode(directory, texts))
        return started[-1]

    yield start
    for running in started:
        running.close()


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    """One node for a whole test module; use topics of your own."""
    running = RunningNode(tmp_path_factory.mktemp("node") / "data", {})
    yield running
    running.close()


@pytest.fixture
def client(node: RunningNode) -> Iterator[Client]:
    """A raw client of the module's node."""
    with node.connect() as connected:
        yield connected


@pytest.fixture
def topic(client: Client) -> Any:
    """A new topic of one partition on the module's node."""
    return make_topic(client)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowDisk]:
    """A disk that hangs when it is told to."""
    slow = SlowDisk()
    slow.put_in(monkeypatch)
    yield slow
    slow.go.set()
