"""The loads of the table: what each has on a broker's connections while it is measured.

Topics that are written to are new for each window and deleted behind it, so that logs do not grow
from round to round; `file.delete.delay.ms` is a second.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from itertools import count
from typing import Final, NamedTuple

from benchmarks.broker.frames import (
    FETCH_VERSION,
    NEW_SESSION,
    PRODUCE_VERSION,
    RECORD_VALUE_BYTES,
    TIMEOUT_S,
    RefusedError,
    asker,
    create_topic,
    delete_topic,
    fetch_frame,
    produce_frame,
    write_once,
)
from benchmarks.broker.pipes import Figures, Pipe, checker, cpu_s, drive
from benchmarks.clients.bench import produce as produce_by_client
from benchmarks.peers import Peer
from fencepost.wire.api.fetch import FetchResponse
from fencepost.wire.api.produce import ProduceResponse
from fencepost.wire.frame import decode_response

PARTITIONS: Final = 8
IN_FLIGHT: Final = 5
EXPIRY_MS: Final = 100
IDLE_WAIT_MS: Final = 500
IDLE_S: Final = 5.0
PARTITIONS_PER_TOPIC: Final = 1_000
"""Apache Kafka creates fewer than 10,000 partitions with one request."""
SETTLE_S: Final = 5.0
"""For what a broker still does behind the creation of many partitions."""
WOKEN_PER_S: Final = 20.0
POLLS: Final = 50
WARM_S: Final = 0.5
CLIENT_RECORDS: Final = 200_000

check_produce = checker(ProduceResponse, PRODUCE_VERSION)
check_fetch = checker(FetchResponse, FETCH_VERSION)

Measure = Callable[[Peer, float], Figures]
"""Prepares a load on a peer, if it is not yet, and measures it for so many seconds."""


class Load(NamedTuple):
    """A row of the table."""

    name: str
    measure: Measure


def _pid(peer: Peer) -> int:
    assert peer.pid is not None, "a broker in a process of its own"
    return peer.pid


def _run(
    peer: Peer,
    pipes: list[Pipe],
    window_s: float,
    counted: list[Pipe] | None = None,
    per_second: float = 0.0,
) -> Figures:
    with ExitStack() as stack:
        for pipe in pipes:
            stack.callback(pipe.sock.close)
        return drive(pipes, counted or pipes, _pid(peer), WARM_S, window_s, per_second)


_prepared: set[tuple[str, str]] = set()


def _prepare(peer: Peer, topic: str, partitions: int, batch_bytes: int) -> None:
    """A topic with one batch in each partition."""
    if (peer.bootstrap, topic) not in _prepared:
        create_topic(peer.bootstrap, topic, partitions)
        write_once(peer.bootstrap, topic, partitions, batch_bytes)
        _prepared.add((peer.bootstrap, topic))


def _drop(peer: Peer, topic: str) -> None:
    delete_topic(peer.bootstrap, topic)
    _prepared.discard((peer.bootstrap, topic))


_numbers = count(1)


def produces(batch_bytes: int, connections: int, per_second: float = 0.0) -> Measure:
    """Produce requests, acks=all, five in flight on a connection or so many a second in all."""

    def measure(peer: Peer, window_s: float) -> Figures:
        topic = f"produce-{batch_bytes}-{next(_numbers)}"
        _prepare(peer, topic, PARTITIONS, batch_bytes)
        frames = [produce_frame(topic, index, batch_bytes) for index in range(PARTITIONS)]
        pipes = [
            Pipe(peer.bootstrap, frames[number % PARTITIONS], check_produce, IN_FLIGHT)
            for number in range(connections)
        ]
        for pipe in pipes:
            pipe.is_paced = per_second > 0
        figures = _run(peer, pipes, window_s, per_second=per_second)
        _drop(peer, topic)
        return figures

    return measure


def fetches(max_bytes: int, connections: int, *, in_session: bool = False) -> Measure:
    """Fetches of what is in the page cache, one in flight on a connection; each in a session of its
    own, as Java's consumers do, or without one."""

    def measure(peer: Peer, window_s: float) -> Figures:
        topic = f"fetch-{max_bytes}"
        _prepare(peer, topic, PARTITIONS, max_bytes)
        if in_session:
            readers = [
                Reader(peer.bootstrap, [(topic, number % PARTITIONS, 0)], max_bytes * 2)
                for number in range(connections)
            ]
            return _run(peer, [*readers], window_s)
        pipes = [
            Pipe(
                peer.bootstrap,
                fetch_frame([(topic, number % PARTITIONS, 0)], max_bytes * 2),
                check_fetch,
            )
            for number in range(connections)
        ]
        return _run(peer, pipes, window_s)

    return measure


class Reader(Pipe):
    """A consumer in a session that names what it reads with each request, as one that reads on."""

    def __init__(self, bootstrap: str, wanted: list[tuple[str, int, int]], max_bytes: int) -> None:
        """Of (topic, partition, offset) each."""
        self._wanted, self._max_bytes = wanted, max_bytes
        with asker(bootstrap) as one:
            first = fetch_frame(wanted, max_bytes, 0, NEW_SESSION)
            response = one.ask(first, FetchResponse, FETCH_VERSION)
        if not response.session_id:
            raise RefusedError("the broker has no room for one session more")
        self._id, self._epoch = response.session_id, 1
        super().__init__(bootstrap, self._next(), check_fetch)

    def _next(self) -> bytes:
        return fetch_frame(self._wanted, self._max_bytes, session=(self._id, self._epoch))

    def answered(self, buffered: bytearray, at: int, end: int) -> None:
        """Go on with the session."""
        super().answered(buffered, at, end)
        self._epoch += 1
        self.frame = self._next()


class Tail(Pipe):
    """A consumer that waits at the end of a partition for the next record."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._topic = topic
        super().__init__(bootstrap, self._behind(_end_of(bootstrap, topic)), check_fetch)

    def _behind(self, offset: int) -> bytes:
        return fetch_frame([(self._topic, 0, offset)], 1 << 20)

    def answered(self, buffered: bytearray, at: int, end: int) -> None:
        """Go on behind what has come."""
        _, response = decode_response(FetchResponse, FETCH_VERSION, bytes(buffered[at:end]))
        self.frame = self._behind(response.responses[0].partitions[0].high_watermark)


def _end_of(bootstrap: str, topic: str) -> int:
    with asker(bootstrap) as one:
        response = one.ask(fetch_frame([(topic, 0, 0)], 1), FetchResponse, FETCH_VERSION)
    return int(response.responses[0].partitions[0].high_watermark)


def woken(peer: Peer, window_s: float) -> Figures:
    """Long polls on one partition, all of which each of 20 records a second wakes; what a record
    costs is shared out among them."""
    topic = "woken"
    _prepare(peer, topic, 1, 1)
    tails: list[Pipe] = [Tail(peer.bootstrap, topic) for _ in range(POLLS)]
    writer = Pipe(peer.bootstrap, produce_frame(topic, 0, 1), check_produce)
    writer.is_paced = True
    return _run(peer, [*tails, writer], window_s, tails, WOKEN_PER_S)


def expired(peer: Peer, window_s: float) -> Figures:
    """Long polls of 100 ms on partitions to which no producer writes."""
    topic = "expired"
    _prepare(peer, topic, PARTITIONS, 1)
    frames = [
        fetch_frame([(topic, index, 1)], 1 << 20, max_wait_ms=EXPIRY_MS)
        for index in range(PARTITIONS)
    ]
    pipes = [
        Pipe(peer.bootstrap, frames[number % PARTITIONS], check_fetch) for number in range(POLLS)
    ]
    return _run(peer, pipes, window_s)


class Session(Pipe):
    """A consumer of many partitions that go on being empty."""

    def __init__(self, bootstrap: str, topics: Sequence[str], partitions: int) -> None:
        """Of so many partitions of each topic."""
        wanted = [(topic, index, 0) for topic in topics for index in range(partitions)]
        _, session_epoch = NEW_SESSION
        deadline = time.monotonic() + TIMEOUT_S
        session_id = 0
        with asker(bootstrap) as one:
            while True:
                # The one before is closed by that: a broker has room for so many partitions.
                first = fetch_frame(wanted, 1 << 20, 0, (session_id, session_epoch))
                response = one.ask(first, FetchResponse, FETCH_VERSION)
                session_id = response.session_id
                parts = [part for topic in response.responses for part in topic.partitions]
                if response.session_id and not any(part.error_code for part in parts):
                    break
                if time.monotonic() > deadline:
                    raise RefusedError(f"{topics[0]}: not all partitions are led")
                time.sleep(0.5)
        self._id, self._epoch = response.session_id, 1
        super().__init__(bootstrap, self._next(), check_fetch)

    def _next(self) -> bytes:
        return fetch_frame([], 1 << 20, IDLE_WAIT_MS, (self._id, self._epoch))

    def answered(self, buffered: bytearray, at: int, end: int) -> None:
        """Go on with the session."""
        super().answered(buffered, at, end)
        self._epoch += 1
        self.frame = self._next()


def idles(partitions: int) -> Measure:
    """One consumer that polls so many partitions without records, every half a second."""
    per_topic = min(partitions, PARTITIONS_PER_TOPIC)
    topics = [f"idle-{partitions}-{number}" for number in range(partitions // per_topic)]

    def measure(peer: Peer, window_s: float) -> Figures:
        if (peer.bootstrap, topics[0]) not in _prepared:
            for topic in topics:
                create_topic(peer.bootstrap, topic, per_topic)
            _prepared.add((peer.bootstrap, topics[0]))
            Session(peer.bootstrap, topics, per_topic).sock.close()  # when all of them are led
            time.sleep(SETTLE_S)
        return _run(peer, [Session(peer.bootstrap, topics, per_topic)], max(window_s, IDLE_S))

    return measure


def client(peer: Peer, window_s: float) -> Figures:
    """confluent-kafka as the client: 100-byte records to one partition, CPU for each."""
    topic = f"client-{next(_numbers)}"
    _prepare(peer, topic, 1, 1)
    cpu, own, began = cpu_s(_pid(peer)), time.process_time(), time.perf_counter()
    produce_by_client(peer, topic, CLIENT_RECORDS, RECORD_VALUE_BYTES)
    cpu, own = cpu_s(_pid(peer)) - cpu, time.process_time() - own
    took = time.perf_counter() - began
    _drop(peer, topic)
    nothing = float("nan")
    return Figures(
        CLIENT_RECORDS / took,
        cpu * 1e6 / CLIENT_RECORDS,
        cpu / took,
        own / took,
        nothing,
        nothing,
        nothing,
        os.getloadavg()[0],
    )


LOADS: Final = (
    *(
        Load(f"1 record x {connections}", produces(1, connections))
        for connections in (1, 16, 50, 200)
    ),
    Load("1 record, 1,000/s", produces(1, 16, 1_000)),
    Load("16 KB x 16", produces(16_384, 16)),
    Load("256 KB x 4", produces(262_144, 4)),
    Load("1 MB x 4", produces(1_000_000, 4)),
    Load("Fetch 4 KB x 16", fetches(4_096, 16)),
    Load("Fetch 4 KB x 16, sessions", fetches(4_096, 16, in_session=True)),
    Load("Fetch 1 MB x 4", fetches(1_000_000, 4)),
    Load("long poll, woken x 50", woken),
    Load("long poll, expired x 50", expired),
    Load("confluent-kafka, 100 B records", client),
    *(
        Load(f"idle partitions, {partitions:,}", idles(partitions))
        for partitions in (10, 1_000, 10_000)
    ),
)
"""In the order they are measured in: what stays behind most comes last."""

WARMING: Final = tuple(load for load in LOADS if not load.name.startswith("idle"))
