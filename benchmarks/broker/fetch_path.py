"""CPU time of one usual Fetch from the bytes that arrive to the bytes of its answer.

    python benchmarks/broker/fetch_path.py [--batch-bytes N] [--connections C] [--partitions P]
                                           [--sessions] [--calls] [--acls A]

What `produce_path` does for Produce: a node in this process, connections whose transports only
count. Logs are where temporary files are, so that it is the page cache that they are read from: of
files in memory the kernel does not say that they need not be waited for. Each connection is given
one request at a time, of so many partitions with a batch each, in a session of its own if asked to,
as Java's consumers are. `--calls` shows which functions take the time instead, most first, by
cProfile.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import struct
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.broker import frames
from benchmarks.broker.produce_path import PARTITIONS, CountingTransport, listening, receive, show
from fencepost.broker.net.connection import Connection
from fencepost.broker.net.listener import Listener
from fencepost.wire.api.fetch import FetchResponse
from fencepost.wire.frame import decode_response

SHOWN_CALLS = 40


class LatestTransport(CountingTransport):
    """Keeps what it was given last."""

    latest = b""

    def write(self, data: Any) -> None:
        super().write(data)
        self.latest = data


class Reader:
    """A connection, and the request that it repeats: the next one of its session, if it has one."""

    def __init__(
        self, listener: Listener, wanted: list[tuple[str, int, int]], max_bytes: int
    ) -> None:
        self.connection = Connection(listener, listener.securities["PLAINTEXT"])
        self._transport = LatestTransport()
        self.connection.connection_made(self._transport)
        self._frame = bytearray(frames.fetch_frame(wanted, max_bytes))
        self._epoch_at = self._epoch = 0

    def begin_session(self, wanted: list[tuple[str, int, int]], max_bytes: int) -> None:
        """Make the requests those of a session."""
        receive(self.connection, frames.fetch_frame(wanted, max_bytes, 0, frames.NEW_SESSION))
        data = bytes(self._transport.latest[frames.LENGTH.size :])
        session_id = decode_response(FetchResponse, frames.FETCH_VERSION, data)[1].session_id
        if not session_id:
            raise frames.RefusedError("there is no room for one session more")
        self._frame = bytearray(frames.fetch_frame(wanted, max_bytes, session=(session_id, 0)))
        session = struct.pack(">ii", session_id, 0)
        self._epoch_at = self._frame.index(session) + len(session) // 2

    def ask(self) -> None:
        """One request, whose answer leaves at once."""
        if self._epoch_at:
            self._epoch += 1
            struct.pack_into(">i", self._frame, self._epoch_at, self._epoch)
        receive(self.connection, self._frame)

    def check(self) -> None:
        """That the latest answer has records, and no error."""
        data = bytes(self._transport.latest[frames.LENGTH.size :])
        _, response = decode_response(FetchResponse, frames.FETCH_VERSION, data)
        parts = [part for topic in response.responses for part in topic.partitions]
        if response.error_code or not parts or not all(part.records for part in parts):
            raise frames.RefusedError(f"not all partitions were read: {response}")


def run(readers: list[Reader], times: int) -> None:
    """Have every reader ask so many times, in turn."""
    for _ in range(times):
        for reader in readers:
            reader.ask()


async def measure(arguments: argparse.Namespace, directory: str) -> list[float]:
    """Microseconds of CPU time per request, of each round."""
    partitions = max(PARTITIONS, arguments.partitions)
    acls = arguments.acls
    async with listening(directory, partitions, arguments.batch_bytes, acls) as listener:
        return rounds(arguments, listener, partitions)


def rounds(arguments: argparse.Namespace, listener: Listener, partitions: int) -> list[float]:
    """The same, of a node that is there; nothing if calls are shown."""
    readers = []
    for number in range(arguments.connections):
        asked = [(number + index) % partitions for index in range(arguments.partitions)]
        wanted = [("path", index, 0) for index in asked]
        max_bytes = 2 * arguments.batch_bytes * arguments.partitions
        readers.append(Reader(listener, wanted, max_bytes))
        if arguments.sessions:
            readers[-1].begin_session(wanted, max_bytes)
    times = max(1, arguments.requests // arguments.connections)
    run(readers, times)
    for reader in readers:
        reader.check()
    took_us = []
    if arguments.calls:
        with cProfile.Profile() as profile:
            run(readers, times)
        pstats.Stats(profile).sort_stats("tottime").print_stats(SHOWN_CALLS)
    else:
        for _ in range(arguments.rounds):
            began = time.process_time()
            run(readers, times)
            took_us.append((time.process_time() - began) * 1e6 / (times * len(readers)))
    for reader in readers:
        reader.connection.connection_lost(None)
    return took_us


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--batch-bytes", type=int, default=4096)
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--partitions", type=int, default=1, help="of each request")
    parser.add_argument("--sessions", action="store_true")
    parser.add_argument("--acls", type=int, help="of an authorizer; default: there is none")
    parser.add_argument("--requests", type=int, default=1600, help="of each round")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--calls", action="store_true", help="which functions take the time")
    show(measure, parser.parse_args(), None)
    return 0


if __name__ == "__main__":
    sys.exit(main())
