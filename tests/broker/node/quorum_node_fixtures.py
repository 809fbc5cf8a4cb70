"""Controllers and brokers, real nodes over real sockets, in one event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from fencepost.broker.config.broker_config import BrokerConfig
from fencepost.broker.node.node import Node
from fencepost.client.connection import Connection
from fencepost.testing.quorum_cluster import QuorumCluster
from fencepost.wire.api.create_topics import CreatableTopic, CreateTopicsRequest

from ...waiting import DEADLINE_S, eventually
from ..listener_fixtures import LoopThread

CONFIG = {
    "broker.heartbeat.interval.ms": 100,
    "broker.session.timeout.ms": 4_000,
    "fencepost.event.loop": "asyncio",
    "group.initial.rebalance.delay.ms": 0,
}


class Nodes:
    """The nodes by id, and the loop they all run in."""

    def __init__(
        self,
        directory: Path,
        controllers: int = 3,
        brokers: int = 2,
        *,
        static_voters: bool = False,
        config: Mapping[str, Any] = CONFIG,
        overrides: Mapping[int, dict[str, str]] | None = None,
        started: Iterable[int] | None = None,
    ) -> None:
        """`config` is for all nodes, `overrides` for some, by id; `started` are the nodes that the
        cluster begins with: all, unless given."""
        self.plan = QuorumCluster(
            controllers, brokers, directory=directory, static_voters=static_voters, config=config
        )
        self._overrides = overrides or {}
        self._thread = LoopThread()
        self.nodes: dict[int, Node] = {}
        self.call(self._start_all, self.plan.nodes if started is None else started)

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Run a function in the loop, a coroutine function to its end."""

        async def run() -> Any:
            made = function(*arguments)
            return await made if asyncio.iscoroutine(made) else made

        loop = self._thread.loop
        return asyncio.run_coroutine_threadsafe(run(), loop).result(DEADLINE_S)

    async def _start_all(self, ids: Iterable[int]) -> None:
        await asyncio.gather(*[self.start(id_) for id_ in ids])

    async def start(self, id_: int) -> None:
        """Start a node that is stopped."""
        path = self.plan.nodes[id_].config_path
        config = BrokerConfig.load(path, self._overrides.get(id_, {}))
        self.nodes[id_] = Node(config, self._thread.loop)
        await self.nodes[id_].start()

    def wait_until(self, condition: Callable[[], bool]) -> None:
        """Let the nodes work until it holds."""

        async def wait() -> None:
            while True:
                if condition():
                    return
                await asyncio.sleep(0.01)

        self.call(lambda: asyncio.wait_for(wait(), DEADLINE_S))

    @property
    def active(self) -> Node:
        """The active controller, once there is one."""

        def find() -> list[Node]:
            return [n for i, n in self.nodes.items() if i <= 3 and n.controller.host.controller]

        return eventually(find, "a controller is active")[0]

    @property
    def brokers(self) -> list[Node]:
        return [self.nodes[4], self.nodes[5]]

    def client(self, id_: int) -> Connection:
        return Connection("127.0.0.1", self.nodes[id_].bound[0].port, timeout_ms=60_000)

    def stop(self, id_: int) -> None:
        """Stop one node in order."""
        self.call(self.nodes.pop(id_).stop)

    def close(self) -> None:
        for id_ in sorted(self.nodes, reverse=True):
            self.stop(id_)
        self._thread.close()
        self.plan.close()


def create(client: Connection, *names: str) -> list[int]:
    asked = [CreatableTopic(name=n, num_partitions=2, replication_factor=1) for n in names]
    return [t.error_code for t in client.request(CreateTopicsRequest(topics=asked)).topics]
