"""CPU time of one Produce request from the bytes that arrive to the bytes of its answer.

    python benchmarks/broker/produce_path.py [--batch-bytes N] [--connections C] [--depth D]
                                             [--acls A]

A node in this process, and connections whose transports only count: no sockets, no generator beside
it. Logs are in memory (/dev/shm where there is such), so that the disk does not matter either, and
appends count in the page cache unless --flush. Each connection is given `depth` requests at a time,
and all of them are answered before the next. Of several rounds the least is shown, too: a busy
machine makes the others longer. `FENCEPOST_PURE=1` shows the same without the compiled modules.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.broker import frames
from fencepost.broker.config.broker_config import BrokerConfig
from fencepost.broker.config.keys.authorization import (
    ALLOW_EVERYONE_KEY,
    AUTHORIZER_KEY,
    STANDARD_AUTHORIZER,
)
from fencepost.broker.net.connection import Connection
from fencepost.broker.net.listener import Listener
from fencepost.broker.node.node import Node
from fencepost.machines.image.acls import AclOperation, PermissionType, ResourceType
from fencepost.wire.api.create_acls import AclCreation, CreateAclsRequest

PARTITIONS = 8
MEMORY = "/dev/shm"


class CountingTransport(asyncio.Transport):
    """Takes whatever it is given."""

    sent_bytes = 0

    def write(self, data: Any) -> None:
        self.sent_bytes += len(data)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return False

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def close(self) -> None:
        pass


def receive(connection: Connection, data: bytes) -> None:
    """Have the bytes arrive, as many at a time as there is room for."""
    at = 0
    while at < len(data):
        room = connection.get_buffer(-1)
        count = min(len(room), len(data) - at)
        room[:count] = data[at : at + count]
        connection.buffer_updated(count)
        at += count


async def run(connections: list[Connection], frames: list[bytes], rounds: int) -> None:
    """Give every connection its requests, and wait for the answers, so many times."""
    for _ in range(rounds):
        for connection, frame in zip(connections, frames, strict=True):
            receive(connection, frame)
        while not all(connection.idle for connection in connections):  # noqa: ASYNC110 - turns
            await asyncio.sleep(0)


@asynccontextmanager
async def listening(
    directory: str, partitions: int, batch_bytes: int, acls: int | None = None, **config: str
) -> AsyncIterator[Listener]:
    """Where a node in this process listens, with a topic "path" that has a batch everywhere; with
    an authorizer that has so many ACLs, if that is given."""
    if acls is not None:
        config |= {AUTHORIZER_KEY: STANDARD_AUTHORIZER, ALLOW_EVERYONE_KEY: "true"}
    config |= {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": directory}
    node = Node(BrokerConfig.load(None, config), asyncio.get_running_loop())
    await node.start()
    bootstrap = f"127.0.0.1:{node.bound[0].port}"
    await asyncio.to_thread(frames.create_topic, bootstrap, "path", partitions)
    await asyncio.to_thread(frames.write_once, bootstrap, "path", partitions, batch_bytes)
    assert node.broker is not None, "it has all roles"
    if acls:
        add_acls(node, acls)
    yield node.broker.listener
    await node.stop()


def add_acls(node: Node, count: int) -> None:
    """Let every client read and write, and have all the other ACLs be about others."""
    assert node.controller is not None, "it has all roles"
    creations = [
        AclCreation(
            resource_type=ResourceType.TOPIC,
            resource_name="path" if number < 2 else f"topic-{number // 2}",
            principal="User:*" if number < 2 else f"User:{number}",
            host="*",
            operation=(AclOperation.READ, AclOperation.WRITE)[number % 2],
            permission_type=PermissionType.ALLOW,
        )
        for number in range(max(2, count))
    ]
    request = CreateAclsRequest(creations=creations)
    node.controller.service.serve(request, lambda error, response: None)


async def measure(arguments: argparse.Namespace, directory: str) -> list[float]:
    """Microseconds of CPU time per request, of each round."""
    flush = {"log.flush.before.ack": str(arguments.flush).lower()}
    acls = arguments.acls
    async with listening(directory, PARTITIONS, arguments.batch_bytes, acls, **flush) as listener:
        return await rounds(arguments, listener)


async def rounds(arguments: argparse.Namespace, listener: Listener) -> list[float]:
    """The same, of a node that is there."""
    connections = [
        Connection(listener, listener.securities["PLAINTEXT"]) for _ in range(arguments.connections)
    ]
    for connection in connections:
        connection.connection_made(CountingTransport())
    sent = [
        frames.produce_frame("path", number % PARTITIONS, arguments.batch_bytes) * arguments.depth
        for number in range(arguments.connections)
    ]
    in_flight = arguments.connections * arguments.depth
    times = max(1, arguments.requests // in_flight)
    await run(connections, sent, times)
    took_us = []
    for _ in range(arguments.rounds):
        began = time.process_time()
        await run(connections, sent, times)
        took_us.append((time.process_time() - began) * 1e6 / (times * in_flight))
    for connection in connections:
        connection.connection_lost(None)
    return took_us


Measure = Callable[[argparse.Namespace, str], Coroutine[Any, Any, list[float]]]


def in_memory() -> str | None:
    """Where a directory is in memory, if there is such a place."""
    return MEMORY if Path(MEMORY).is_dir() else None


def show(measure: Measure, arguments: argparse.Namespace, place: str | None) -> None:
    """Measure on logs in a directory there, and print what came out."""
    with tempfile.TemporaryDirectory(dir=place) as directory:
        took_us = asyncio.run(measure(arguments, directory))
    if took_us:
        least, median = min(took_us), statistics.median(took_us)
        print(f"CPU us per request: {least:.1f} at least, {median:.1f} in the median")


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--batch-bytes", type=int, default=1)
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--depth", type=int, default=5)
    parser.add_argument("--requests", type=int, default=1600, help="of each round")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--acls", type=int, help="of an authorizer; default: there is none")
    parser.add_argument("--flush", action="store_true", help="fsync before the answer")
    show(measure, parser.parse_args(), in_memory())
    return 0


if __name__ == "__main__":
    sys.exit(main())
