"""A raw load generator: prebuilt Produce frames over plain sockets, several processes.

It measures a broker, not a client: each process sends the same bytes again and again, keeps a fixed
number of requests in flight per connection, and of the responses only counts bytes and decodes one
per read. So it is cheap enough to keep a broker busy from the same machine.

    python -m benchmarks.broker.loadgen --bootstrap 127.0.0.1:9092 --batch-bytes 16384 --depth 5

Every figure is a pair: wall-clock rate, and the broker's CPU per request when --pid names it.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import selectors
import socket
import struct
import sys
import time
from collections import deque
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from fencepost.batch.records import BatchBuilder
from fencepost.wire.api import CreateTopicsRequest, CreateTopicsResponse
from fencepost.wire.api.create_topics import CreatableTopic
from fencepost.wire.api.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from fencepost.wire.frame import decode_response, encode_request

VERSION = 9
RECORD_VALUE_BYTES = 100
WARM_UP_S = 0.5
TIMEOUT_S = 30
LENGTH = struct.Struct(">i")


@dataclass
class Load:
    """What one process does."""

    host: str
    port: int
    topic: str
    partitions: int
    batch_bytes: int
    acks: int
    connections: int
    depth: int
    seconds: float
    first_partition: int


def build_batch(size_bytes: int) -> bytes:
    """A record batch of about `size_bytes` bytes; of one record if that is small."""
    builder = BatchBuilder()
    now_ms = int(time.time() * 1000)
    builder.append(b"key-0001", b"v" * RECORD_VALUE_BYTES, timestamp_ms=now_ms)
    while builder.size_bytes < size_bytes:
        builder.append(b"key-0001", b"v" * RECORD_VALUE_BYTES, timestamp_ms=now_ms)
    return bytes(builder.build())


def build_frame(load: Load, partition: int) -> bytes:
    """One Produce request."""
    data = PartitionProduceData(index=partition, records=build_batch(load.batch_bytes))
    request = ProduceRequest(
        acks=load.acks,
        timeout_ms=30_000,
        topic_data=[TopicProduceData(name=load.topic, partition_data=[data])],
    )
    return encode_request(request, VERSION, 7, "loadgen")


class Pipe:
    """One connection with a fixed number of requests in flight."""

    def __init__(self, load: Load, partition: int) -> None:
        self.sock = socket.create_connection((load.host, load.port), timeout=TIMEOUT_S)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock.setblocking(False)
        self.frame = build_frame(load, partition)
        self.many = memoryview(self.frame * load.depth)
        self.unsent: memoryview = self.many
        self.answer_bytes = 0
        self.buffered = b""
        self.sent_at: deque[float] = deque([time.perf_counter()] * load.depth)
        self.latencies: list[float] = []
        self.done = 0

    def send(self) -> None:
        """Send what is waiting to be sent, as far as the socket takes it."""
        while self.unsent:
            try:
                sent = self.sock.send(self.unsent)
            except BlockingIOError:
                return
            self.unsent = self.unsent[sent:]

    def receive(self) -> None:
        """Count answers and send as many new requests."""
        data = self.sock.recv(1 << 16)
        if not data:
            raise ConnectionError("the broker disconnected")
        data = self.buffered + data
        if not self.answer_bytes:
            if len(data) < 4:
                self.buffered = data
                return
            self.answer_bytes = 4 + LENGTH.unpack_from(data)[0]
        answers, rest = divmod(len(data), self.answer_bytes)
        self.buffered = data[len(data) - rest :]
        if answers:
            self._count(data, answers)

    def _count(self, data: bytes, answers: int) -> None:
        last = data[(answers - 1) * self.answer_bytes + 4 : answers * self.answer_bytes]
        _, response = decode_response(ProduceResponse, VERSION, last)
        error = response.responses[0].partition_responses[0].error_code
        if error:
            raise ConnectionError(f"the broker answered with error {error}")
        now = time.perf_counter()
        for _ in range(answers):
            self.latencies.append(now - self.sent_at.popleft())
            self.sent_at.append(now)
        self.done += answers
        rest = bytes(self.unsent)
        self.unsent = (
            memoryview(rest + self.frame * answers)
            if rest
            else self.many[: answers * len(self.frame)]
        )
        self.send()


def work(load: Load, queue: Any) -> None:
    """One process: run the load and report (requests, seconds, latencies)."""
    pipes = [
        Pipe(load, (load.first_partition + number) % load.partitions)
        for number in range(load.connections)
    ]
    selector = selectors.DefaultSelector()
    for pipe in pipes:
        selector.register(pipe.sock, selectors.EVENT_READ, pipe)
        pipe.send()
    began = time.perf_counter()
    warm = began + WARM_UP_S
    end = warm + load.seconds
    counted = False
    while (now := time.perf_counter()) < end:
        if not counted and now >= warm:
            counted = True
            began = now
            for pipe in pipes:
                pipe.done = 0
                pipe.latencies.clear()
        for key, _ in selector.select(0.1):
            key.data.receive()
        for pipe in pipes:
            if pipe.unsent:
                pipe.send()
    took = time.perf_counter() - began
    latencies = sorted(latency for pipe in pipes for latency in pipe.latencies)
    queue.put(
        (sum(pipe.done for pipe in pipes), took, latencies[:: max(1, len(latencies) // 5000)])
    )
    for pipe in pipes:
        pipe.sock.close()


def cpu_seconds(pid: int) -> float:
    """CPU time of a process so far, user and system."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def create_topic(host: str, port: int, topic: str, partitions: int) -> None:
    """Create the topic unless it is there."""
    request = CreateTopicsRequest(
        topics=[CreatableTopic(name=topic, num_partitions=partitions, replication_factor=1)],
        timeout_ms=30_000,
    )
    with socket.create_connection((host, port), timeout=TIMEOUT_S) as sock:
        sock.sendall(encode_request(request, 5, 1, "loadgen"))
        with sock.makefile("rb") as stream:
            (size,) = LENGTH.unpack(stream.read(4))
            _, response = decode_response(CreateTopicsResponse, 5, stream.read(size))
    error = response.topics[0].error_code
    if error not in (0, 36):
        raise SystemExit(f"cannot create {topic}: error {error}")


def wait_until_led(load: Load) -> None:
    """Produce to every partition until it is taken: a new topic may not have its leaders yet."""
    deadline = time.monotonic() + TIMEOUT_S
    with (
        socket.create_connection((load.host, load.port), timeout=TIMEOUT_S) as sock,
        sock.makefile("rb") as stream,
    ):
        for partition in range(load.partitions):
            error = -1
            while error:
                if time.monotonic() > deadline:
                    raise SystemExit(f"partition {partition} is not served: error {error}")
                sock.sendall(build_frame(load, partition))
                (size,) = LENGTH.unpack(stream.read(4))
                _, response = decode_response(ProduceResponse, VERSION, stream.read(size))
                error = response.responses[0].partition_responses[0].error_code


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Run all processes and put their figures together."""
    host, _, port = arguments.bootstrap.rpartition(":")
    create_topic(host, int(port), arguments.topic, arguments.partitions)
    queue: Any = multiprocessing.Queue()
    per_process = max(1, arguments.connections // arguments.processes)
    processes = []
    load = Load(
        host=host,
        port=int(port),
        topic=arguments.topic,
        partitions=arguments.partitions,
        batch_bytes=arguments.batch_bytes,
        acks=arguments.acks,
        connections=per_process,
        depth=arguments.depth,
        seconds=arguments.seconds,
        first_partition=0,
    )
    wait_until_led(load)
    cpu_before = cpu_seconds(arguments.pid) if arguments.pid else 0.0
    for number in range(arguments.processes):
        mine = replace(load, first_partition=number * per_process)
        process = multiprocessing.Process(target=work, args=(mine, queue))
        process.start()
        processes.append(process)
    results = [queue.get(timeout=arguments.seconds + TIMEOUT_S) for _ in processes]
    for process in processes:
        process.join(TIMEOUT_S)
    cpu = cpu_seconds(arguments.pid) - cpu_before if arguments.pid else 0.0
    requests_per_s = sum(done / took for done, took, _ in results)
    latencies = sorted(latency for _, _, found in results for latency in found)
    frame = len(build_frame(load, 0))
    summary = {
        **asdict(load),
        "connections": per_process * arguments.processes,
        "frame_bytes": frame,
        "requests_per_s": round(requests_per_s),
        "mb_per_s": round(requests_per_s * frame / 1e6, 1),
        "p50_ms": round(latencies[len(latencies) // 2] * 1e3, 3),
        "p99_ms": round(latencies[len(latencies) * 99 // 100] * 1e3, 3),
    }
    if arguments.pid:
        total = requests_per_s * (arguments.seconds + WARM_UP_S)
        summary["broker_cpu_us_per_request"] = round(cpu * 1e6 / total, 1)
    return summary


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--bootstrap", default="127.0.0.1:9092")
    parser.add_argument("--topic", default="loadgen")
    parser.add_argument("--partitions", type=int, default=8)
    parser.add_argument("--batch-bytes", type=int, default=1)
    parser.add_argument("--acks", type=int, default=-1, choices=(-1, 1))
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--depth", type=int, default=5)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--pid", type=int, default=0, help="the broker, to count its CPU time")
    print(json.dumps(measure(parser.parse_args())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
