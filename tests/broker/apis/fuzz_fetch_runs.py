"""Feeds the kernel of Fetch runs of requests, whole, cut and mutated; part of `fuzz_fetch_bytes`.

Partitions, logs and the connection are made up: what they answer follows from what they are asked.
What the kernel answers of a run has to be what Python would say to its requests, one by one.
"""

from __future__ import annotations

import random
from struct import Struct
from typing import Any

import numpy as np

from fencepost.broker.apis import fetch_bytes
from fencepost.broker.apis.fetch_bytes import PlainFetch
from fencepost.log.epochs import EpochEndOffset
from fencepost.machines.fetch import FetchWanted
from fencepost.machines.partition import FetchBounds
from fencepost.runtime.requests.fetch_answer import answer_bytes
from fencepost.wire import backend
from fencepost.wire.api.fetch import FetchPartition, FetchRequest, FetchTopic
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Uuid

CLASSES = (PlainFetch, FetchWanted, Uuid, FetchBounds)
FRAME_BYTES_MAX = 5_000
MAX_BYTES = 50_000
NOWHERE = EpochEndOffset(1, 1)
_LENGTH = Struct(">i")
_FRAME_HEAD = Struct(">i4si")


class MadeUp:
    """A partition with its machine, log and counts: what it has is drawn from its index."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.machine = self.log = self.traffic = self

    def check_fetch(self, *, fetch_offset: int, **asked: int) -> FetchBounds | ErrorCode:
        if asked["current_leader_epoch"] == 5:
            return ErrorCode.FENCED_LEADER_EPOCH
        upper_bound = fetch_offset if self.index < 0 else min(fetch_offset + 1, 2**63 - 1)
        diverging = NOWHERE if asked["last_fetched_epoch"] == 5 else None
        return FetchBounds(upper_bound, 7, 6, 5, 9, diverging=diverging)

    def read_known(self, offset: int, limit_bytes: int, bound: int) -> bytes | None:
        size_bytes = {0: 300, 1: 40_000}.get(self.index, 1)
        return None if offset == -1 else b"r" * min(size_bytes, max(limit_bytes, 1))

    def fetched(self, size_bytes: int, error_code: int, is_follower: bool) -> None:
        assert size_bytes >= 0 and not error_code and not is_follower


class Taker:
    """What a kernel asks for: a connection that takes everything, and sessions that it has not."""

    available_bytes = 45_000
    at_once_bytes = 42_000

    def __init__(self, throttled_from: int) -> None:
        """The client is throttled for answers of so many bytes and more."""
        self.sent: list[bytes] = []
        self.queued: list[int] = []
        self.charged: list[int] = []
        self.throttled_from = throttled_from

    def find(self, topic: str | Uuid, index: int) -> Any:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if index == -(2**31) else MadeUp(index)

    def put_answer(self, parts: list[Any]) -> bool:
        self.sent.append(b"".join(parts))
        return len(self.sent) < 3

    def have_read(self, size_bytes: int) -> None:
        assert size_bytes > 32_768

    def begin(self, request: PlainFetch, version: int) -> None:
        assert request.session_id

    def read(self, log: MadeUp, offset: int, *asked: Any) -> bytes | None:
        return None if offset == -1 else log.read_known(offset, asked[0][0], 0)

    def answer(self, session: None, isolation: int, found: Any, some: Any, number: int) -> Any:
        assert len(found) == len(some)
        return fetch_bytes._answer_in_bytes(number, 0, isolation, some)

    def charge(self, size_bytes: int) -> bool:
        self.charged.append(size_bytes)
        return size_bytes >= self.throttled_from

    def queue(self, *asked: Any) -> None:
        self.queued.append(asked[4])


def expected(
    taker: Taker, request: PlainFetch, correlation_id: int, charged: list[int] | None
) -> bytes | None:
    """The answer that a request has at once, if it has one, and is not throttled; it is `charged`
    then, if anything is."""
    found = []
    for wanted in request.wanted:
        hosted = taker.find(*wanted.key)
        if isinstance(hosted, ErrorCode):
            return None
        bounds = hosted.check_fetch(
            fetch_offset=wanted.fetch_offset,
            current_leader_epoch=wanted.current_leader_epoch,
            last_fetched_epoch=wanted.last_fetched_epoch,
        )
        if isinstance(bounds, ErrorCode) or bounds.diverging is not None:
            return None
        found.append((hosted, wanted, bounds))
    has_records = any(bounds.upper_bound > wanted.fetch_offset for _, wanted, bounds in found)
    max_bytes = min(request.max_bytes, MAX_BYTES)
    if not has_records and request.max_wait_ms > 0 and max_bytes > 0 and found:
        return None
    some: list[fetch_bytes.Answered] = []
    left_bytes = min(max_bytes, taker.available_bytes)
    for hosted, wanted, bounds in found:
        limit_bytes, data = min(wanted.partition_max_bytes, left_bytes), b""
        has_data = any(one[3] for one in some)
        if bounds.upper_bound > wanted.fetch_offset and (limit_bytes > 0 or not has_data):
            read = hosted.read_known(wanted.fetch_offset, limit_bytes, 0)
            if read is None:
                return None
            data = read
        some.append((*wanted.key, bounds, data))
        left_bytes -= len(data)
    if charged is not None:
        charged.append(answer_bytes(len(one[3]) for one in some))
        if charged[-1] >= taker.throttled_from:
            return None
    return b"".join(fetch_bytes._answer_in_bytes(correlation_id, 0, request.isolation, some))


def usual_body(rng: random.Random, version: int) -> bytes:
    """The body of a request that is answered at once, as a rule."""
    name = {"topic_id": Uuid(b"i" * 16)} if version >= 13 else {"topic": "t"}
    partitions = [
        FetchPartition(
            partition=index,
            fetch_offset=rng.choice([0, 7, -1]),
            partition_max_bytes=rng.choice([1 << 20, 400, 0]),
        )
        for index in rng.sample([0, 1, 2, -1], rng.choice([1, 1, 2, 4]))
    ]
    request = FetchRequest(
        max_wait_ms=rng.choice([500, 0]),
        min_bytes=1,
        max_bytes=rng.choice([1 << 20, 500]),
        isolation_level=rng.choice([0, 1]),
        topics=[FetchTopic(**name, partitions=partitions)],
    )
    return bytes(request.encode(version))


def take(rng: random.Random, bodies: list[bytes], version: int) -> int:
    """Have a run taken; how many requests were answered."""
    head = bytes([0, 1, 0, version]) + rng.randbytes(rng.choice([0, 3, 9]))
    data = bytearray(rng.randbytes(start := rng.randrange(5)))
    for body in bodies:
        number = rng.randbytes(4)
        frame = head[:4] + number + head[4:] + body
        data += _LENGTH.pack(len(frame) + rng.choice([0] * 20 + [1, -1, -(2**31)])) + frame
    for _ in range(rng.choice([0, 0, 0, 1])):
        data[rng.randrange(len(data))] = rng.randrange(256)
    data = data[: rng.choice([None, None, rng.randrange(start, len(data) + 1)])]
    frames = np.frombuffer(bytes(data), np.uint8).copy()
    taker, most = Taker(rng.choice([10, 500, 1 << 30])), rng.choice([1, 5])
    is_charged = rng.random() < 0.5
    charged: list[int] | None = [] if is_charged else None
    runs = backend.fetch_kernel.FetchRuns(taker, CLASSES)
    find, finder = (taker.find, None) if rng.random() < 0.5 else (None, lambda: taker.find)
    given = memoryview(frames), start, len(data), head, most, FRAME_BYTES_MAX, MAX_BYTES
    runs.take(taker, find, finder, *given, is_charged)
    assert runs.requests == len(taker.sent)
    assert runs.answer_bytes == sum(map(len, taker.sent))
    told, queued, at, frame_bytes = [], [], start, 0
    while len(told) < min(most, 3) and not queued:
        body_at = at + _FRAME_HEAD.size + len(head) - 4
        if body_at > len(data):
            break
        size, keys, number = _FRAME_HEAD.unpack_from(data, at)
        end = at + 4 + size
        if size > FRAME_BYTES_MAX or not body_at <= end <= len(data) or keys != head[:4]:
            break
        if data[at + _FRAME_HEAD.size : body_at] != head[4:]:
            break
        request = fetch_bytes._read_plain(memoryview(bytes(data[:end])), body_at, version)
        if request is None or request.session_id:
            break
        answer = expected(taker, request, number, charged)
        at = end
        if answer is None:
            queued.append(number)
        else:
            told.append(answer)
            frame_bytes += size
    assert taker.sent == told and taker.queued == queued
    assert taker.charged == (charged or [])
    assert (runs.start, runs.frame_bytes) == (at, frame_bytes)
    return len(told)
