"""Connections that keep a broker busy, cheaply enough to do that from the same machine.

A `Pipe` sends prebuilt frames and of the answers looks at the length alone, except that it decodes
one now and then, so that no figure is of errors. `drive` runs pipes through a warm-up and a window;
the broker's CPU time is what the kernel has counted for it at the edges of the window, and requests
are counted at the same moments.
"""

from __future__ import annotations

import os
import selectors
import socket
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from benchmarks.broker.frames import LENGTH, TIMEOUT_S
from fencepost.wire.frame import decode_response

_CPUCLOCK_SCHED: Final = 2
RECEIVED_BYTES: Final = 1 << 18
WAIT_S: Final = 0.1
SHARE_CHECKED: Final = 64
"""Of so many answers one is decoded."""


class Figures(NamedTuple):
    """What one window has shown; times in ms, `cpu_us` per answer of the broker's own. Of the
    broker's process and of the one that makes its load: how many cores they had."""

    requests_per_s: float
    cpu_us: float
    cores: float
    generator_cores: float
    p50_ms: float
    p99_ms: float
    p999_ms: float
    load: float


def cpu_s(pid: int) -> float:
    """CPU time of a process so far, with the threads that it no longer has (Linux)."""
    return time.clock_gettime((~pid << 3) | _CPUCLOCK_SCHED)


class Pipe:
    """One connection, with `depth` requests in flight unless it `is_paced`."""

    def __init__(
        self, bootstrap: str, frame: bytes, check: Callable[[bytes], None], depth: int = 1
    ) -> None:
        """`check` is given some of the answers, without their lengths."""
        host, _, port = bootstrap.rpartition(":")
        self.sock = socket.create_connection((host, int(port)), timeout=TIMEOUT_S)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock.setblocking(False)
        self.frame = frame
        self.depth = depth
        self.done = 0
        self.latencies: list[float] = []
        self.is_paced = False
        self._check = check
        self._seen = 0
        self._sent_at: deque[float] = deque()
        self._unsent = bytearray()
        self._buffered = bytearray()

    def push(self, at: float) -> None:
        """One more request, whose time runs from `at`."""
        self._unsent += self.frame
        self._sent_at.append(at)

    def flush(self) -> None:
        """Send what waits to be sent, as far as the socket takes it."""
        while self._unsent:
            try:
                sent = self.sock.send(self._unsent)
            except BlockingIOError:
                return
            del self._unsent[:sent]

    def receive(self) -> None:
        """Take answers, and send as many new requests."""
        data = self.sock.recv(RECEIVED_BYTES)
        if not data:
            raise ConnectionError("the broker disconnected")
        self._buffered += data
        buffered, at = self._buffered, 0
        now = time.perf_counter()
        while len(buffered) - at >= LENGTH.size:
            end = at + LENGTH.size + LENGTH.unpack_from(buffered, at)[0]
            if end > len(buffered):
                break
            self.answered(buffered, at + LENGTH.size, end)
            self.latencies.append(now - self._sent_at.popleft())
            self.done += 1
            if not self.is_paced:
                self.push(now)
            at = end
        del buffered[:at]
        self.flush()

    def answered(self, buffered: bytearray, at: int, end: int) -> None:
        """An answer has come; it may change the next request."""
        self._seen += 1
        if self._seen % SHARE_CHECKED == 1:
            self._check(bytes(buffered[at:end]))


def checker(response_class: Any, version: int) -> Callable[[bytes], None]:
    """A check that no partition of an answer has an error."""

    def check(payload: bytes) -> None:
        _, response = decode_response(response_class, version, payload)
        for topic in response.responses:
            for one in getattr(topic, "partition_responses", None) or topic.partitions:
                if one.error_code:
                    raise ConnectionError(f"the broker answered with error {one.error_code}")

    return check


def drive(
    pipes: Sequence[Pipe],
    counted: Sequence[Pipe],
    pid: int,
    warm_s: float,
    window_s: float,
    per_second: float = 0.0,
) -> Figures:
    """Run the pipes and count the answers of some; those that are paced send `per_second` requests
    in turn, the others one for each answer.

    A paced request's time runs from when it was due, so that one that waits behind a slow one is
    slow as well.
    """
    selector = selectors.DefaultSelector()
    began = time.perf_counter()
    for pipe in pipes:
        selector.register(pipe.sock, selectors.EVENT_READ, pipe)
        for _ in range(0 if pipe.is_paced else pipe.depth):
            pipe.push(began)
        pipe.flush()
    due = _Due([pipe for pipe in pipes if pipe.is_paced], per_second, began)
    try:
        _run(selector, pipes, due, began + warm_s)
        for pipe in counted:
            pipe.done = 0
            pipe.latencies.clear()
        cpu, own, opened = cpu_s(pid), time.process_time(), time.perf_counter()
        _run(selector, pipes, due, opened + window_s)
        cpu, own = cpu_s(pid) - cpu, time.process_time() - own
        took = time.perf_counter() - opened
    finally:
        selector.close()
    done = sum(pipe.done for pipe in counted)
    latencies = sorted(latency for pipe in counted for latency in pipe.latencies)
    return Figures(
        done / took,
        cpu * 1e6 / done if done else float("nan"),
        cpu / took,
        own / took,
        quantile(latencies, 0.5) * 1e3,
        quantile(latencies, 0.99) * 1e3,
        quantile(latencies, 0.999) * 1e3,
        os.getloadavg()[0],
    )


class _Due:
    """When the next paced request is due, and on which pipe."""

    def __init__(self, pipes: Sequence[Pipe], per_second: float, began: float) -> None:
        self._pipes = pipes
        self._per_second = per_second
        self._began = began
        self._count = 0

    def push(self, now: float) -> float:
        """Send what is due; the seconds until something is again."""
        if not self._pipes:
            return WAIT_S
        while (due := self._began + self._count / self._per_second) <= now:
            pipe = self._pipes[self._count % len(self._pipes)]
            pipe.push(due)
            pipe.flush()
            self._count += 1
        return due - now


def _run(selector: selectors.BaseSelector, pipes: Sequence[Pipe], due: _Due, until: float) -> None:
    while (now := time.perf_counter()) < until:
        wait_s = due.push(now)
        for key, _ in selector.select(min(wait_s, until - now)):
            key.data.receive()
        for pipe in pipes:
            pipe.flush()


def quantile(ranked: Sequence[float], part: float) -> float:
    """The smallest of ascending values that such a part does not exceed."""
    if not ranked:
        return float("nan")
    return ranked[min(len(ranked) - 1, max(0, -(-int(part * 1000) * len(ranked) // 1000) - 1))]
