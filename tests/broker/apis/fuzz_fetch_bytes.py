"""Feeds the kernel of Fetch garbage: `python -m tests.broker.apis.fuzz_fetch_bytes KERNEL.so SEED
SECONDS`.

Run by `test_fetch_sanitized` under AddressSanitizer, which ends the process at the first byte that
is read or written out of bounds. Frames come from malloc at their exact size, so that nothing lies
behind them by chance. Whatever the kernel says, Python has to say, too.
"""

from __future__ import annotations

import random
import sys
import time
from typing import Any

import numpy as np

from fencepost.broker.apis import fetch_bytes
from fencepost.broker.apis.fetch_bytes import read_plain
from fencepost.machines.partition import FetchBounds
from fencepost.wire import backend
from fencepost.wire.api.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from fencepost.wire.types import Uuid

from ... import sanitized
from .fuzz_fetch_runs import take, usual_body

ROUNDS_MIN = 5_000
"""What a run is worth must not hang on how busy the machine is."""

INT32 = [0, 1, 5, -1, 2**31 - 1, -(2**31)]
FEW = [1, 1, 1, 1, 1, 1, 2, 2, 3, 0, 15, 16, 17]
INT64 = [0, 1, -1, 2**63 - 1, -(2**63)]
NAMES = ["t", "u", "v", "w", "ü" * 62, "x" * 125, "x" * 126, "x" * 127, "x" * 249]


def hostile_body(rng: random.Random, version: int) -> bytes:
    """The body of a request, most often near to what is usual, then cut or changed anywhere."""
    session = rng.choice([(0, -1)] * 4 + [(7, 1), (7, 2**31 - 1)] * 2 + [(0, 0), (-7, 1)])

    def named(kind: type[Any], partitions: list[Any]) -> Any:
        name = rng.choice(NAMES)
        if version >= 13:
            return kind(topic_id=Uuid(name.encode()[:16].ljust(16, b"i")), partitions=partitions)
        return kind(topic=name, partitions=partitions)

    def partition() -> FetchPartition:
        return FetchPartition(
            partition=rng.choice(INT32),
            current_leader_epoch=rng.choice(INT32),
            fetch_offset=rng.choice(INT64),
            last_fetched_epoch=rng.choice(INT32),
            log_start_offset=rng.choice(INT64),
            partition_max_bytes=rng.choice(INT32),
        )

    request = FetchRequest(
        max_wait_ms=rng.choice(INT32),
        min_bytes=rng.choice([1] * 9 + [0, -1]),
        max_bytes=rng.choice(INT32),
        isolation_level=rng.choice([0, 1] * 5 + [2, -1]),
        session_id=session[0],
        session_epoch=session[1],
        topics=[
            named(FetchTopic, [partition() for _ in range(rng.choice(FEW))])
            for _ in range(rng.choice(FEW))
        ],
        forgotten_topics_data=[
            named(ForgottenTopic, [rng.choice(INT32) for _ in range(rng.choice(FEW))])
            for _ in range(rng.choice(FEW) if session[0] == 7 and rng.random() < 0.5 else 0)
        ],
        rack_id=rng.choice([""] * 9 + ["r"]),
    )
    body = bytearray(request.encode(version))
    for _ in range(rng.choice([0, 0, 0, 1, 2])):
        at = rng.randrange(len(body) + 1)
        body[at : at + rng.randrange(3)] = rng.randbytes(rng.randrange(3))
    return bytes(body[: rng.choice([None, None, None, rng.randrange(len(body) + 1)])])


def read(rng: random.Random) -> bool:
    """Read one request; whether it was a usual one."""
    version = rng.randrange(12, 19)
    body = rng.randbytes(rng.randrange(90)) if rng.random() < 0.05 else hostile_body(rng, version)
    return read_body(rng.randbytes(rng.randrange(9)), body, version)


def read_every_cut() -> int:
    """Read usual requests of every version that end at any byte; how many were usual."""
    usual = 0
    for version in range(12, 19):
        names = {"topic_id": Uuid(b"i" * 16)} if version >= 13 else {"topic": "t"}
        others = {"topic_id": Uuid(b"j" * 16)} if version >= 13 else {"topic": "u"}
        wanted = [FetchTopic(**one, partitions=[FetchPartition()] * 1) for one in (names, others)]
        forgotten = [ForgottenTopic(**one, partitions=[1, 2]) for one in (names, others)]
        for session, dropped in (((0, -1), []), ((7, 1), forgotten)):
            request = FetchRequest(
                max_wait_ms=1,
                min_bytes=1,
                session_id=session[0],
                session_epoch=session[1],
                topics=wanted,
                forgotten_topics_data=dropped,
            )
            body = bytes(request.encode(version))
            usual += sum(read_body(b"", body[:end], version) for end in range(len(body) + 1))
    return usual


def read_body(before: bytes, body: bytes, version: int) -> bool:
    """Read what stands behind `before`; whether it is a usual request."""
    frame = memoryview(np.frombuffer(before + body, np.uint8).copy())
    compiled = read_plain(frame, len(before), version)
    python = fetch_bytes._read_plain(frame, len(before), version)
    assert repr(compiled) == repr(python), (version, bytes(frame), compiled, python)
    for at in (-1, len(frame), len(frame) + 1):
        assert read_plain(frame, at, version) is None
    return compiled is not None


def answer(rng: random.Random) -> None:
    """Answer with what may be in an answer."""

    def partition() -> fetch_bytes.Answered:
        topic = rng.choice([*NAMES, Uuid(b"i" * 16), Uuid(b"j" * 16)])
        bounds = FetchBounds(*(rng.choice(INT64) for _ in range(5)))
        records = rng.randbytes(rng.choice([0, 1, 126, 127, 128, 16_382, 16_383]))
        return topic, rng.choice(INT32), bounds, rng.choice([bytes, bytearray, memoryview])(records)

    some = [partition() for _ in range(rng.choice([0, 1, 1, 2, 5, 130]))]
    ids = rng.choice(INT32), rng.choice(INT32), rng.choice([0, 1])
    expected = b"".join(fetch_bytes._answer_in_bytes(*ids, some))
    assert backend.fetch_kernel.answer(*ids, some, len(expected)) == expected
    assert backend.fetch_kernel.answer(*ids, some, len(expected) - 1) is None


def main() -> None:
    """Fuzz until the time is over, but not less than ROUNDS_MIN, and say how much was done."""
    backend.fetch_kernel = sanitized.load("fencepost.wire._fetch", sys.argv[1])
    rng = random.Random(int(sys.argv[2]))
    deadline = time.monotonic() + float(sys.argv[3])
    usual = read_every_cut()
    assert usual == 14, usual
    rounds = taken = 0
    while rounds < ROUNDS_MIN or time.monotonic() < deadline:
        rounds += 1
        usual += read(rng)
        if rounds % 5 == 0:
            answer(rng)
        if rounds % 2 == 0:
            version = rng.randrange(12, 19)
            bodies = [
                rng.choice([hostile_body, usual_body, usual_body])(rng, version)
                for _ in range(rng.choice([1, 1, 2, 4]))
            ]
            taken += take(rng, bodies, version)
    assert taken > 500, taken
    print(f"rounds {rounds} usual {usual}")


if __name__ == "__main__":
    main()
