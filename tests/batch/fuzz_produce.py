"""Feeds the kernel of Produce garbage: `python -m tests.batch.fuzz_produce KERNEL.so SEED SECONDS`.

Run by `test_sanitized`, as `fuzz_kernels` is. What the kernel takes is given to the codec and to
`produced`, too, which must take it as well.
"""

from __future__ import annotations

import random
import sys
import time
from collections import deque
from typing import Any

import numpy as np

from fencepost.batch.header import HEADER_BYTES, BatchHeader, read_header, stamp_crc
from fencepost.batch.produced import ProduceRules, prepare_produced
from fencepost.batch.record_batch import RecordBatch
from fencepost.wire.api.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from fencepost.wire.frame import decode_response

from .. import sanitized
from .samples import RECORDS, build

BATCH = bytes(build(RECORDS))
TRANSACTIONAL = bytes(
    build(RECORDS, producer_id=5, producer_epoch=1, base_sequence=9, transactional=True)
)
WITH_PRODUCER = bytes(build(RECORDS, producer_id=5, producer_epoch=1, base_sequence=9))
ROUNDS_MIN = 2_000


def hostile_batch(rng: random.Random) -> bytes:
    """A batch in which little or much is wrong, mostly under a sound CRC."""
    batch = bytearray(rng.choice([BATCH, TRANSACTIONAL]))
    if rng.random() < 0.1:  # the last offset delta, or how many records there are
        at = rng.choice([26, 60])
        batch[at] = (batch[at] + rng.choice([-1, 1])) & 0xFF
    for _ in range(rng.choice([0, 0, 1, 2])):
        at = rng.randrange(8, len(batch))
        batch[at : at + rng.randrange(2)] = rng.randbytes(rng.randrange(2))
    if rng.random() < 0.1:
        return bytes(batch[: rng.randrange(HEADER_BYTES + 9)])
    if rng.random() < 0.8 and len(batch) > HEADER_BYTES:
        batch[8:12] = (len(batch) - 12).to_bytes(4, "big")
        stamp_crc(batch)
    return bytes(batch)


def plain_batch(rng: random.Random) -> bytes:
    """A sound batch, mostly."""
    return rng.choice([BATCH, BATCH, WITH_PRODUCER, WITH_PRODUCER, hostile_batch(rng)])


def hostile_body(rng: random.Random, version: int, *, is_plain: bool = False) -> bytes:
    """The body of a request, cut or changed anywhere; in one that `is_plain` less is unusual."""
    least = int(is_plain)
    batch_of = plain_batch if is_plain else hostile_batch
    ids: list[str | None] = [None] if is_plain else [None, None, "", "transactional"]
    topics = [
        TopicProduceData(
            name="t" * rng.randrange(1, 200),
            partition_data=[
                PartitionProduceData(index=rng.randrange(-1, 9), records=batch_of(rng))
                for _ in range(rng.randrange(least, 3))
            ],
        )
        for _ in range(rng.randrange(least, 3))
    ]
    request = ProduceRequest(
        transactional_id=rng.choice(ids),
        acks=rng.choice([-1, 0, 1]),
        timeout_ms=1,
        topic_data=topics,
    )
    body = bytearray(request.encode(version))
    for _ in range(rng.choice([0, 0, 1, 2])):
        at = rng.randrange(len(body) + 1)
        body[at : at + rng.randrange(3)] = rng.randbytes(rng.randrange(3))
    return bytes(body[: rng.choice([None, None, rng.randrange(len(body) + 1)])])


class Blocks:
    """Whoever blocks are filled for: every partition is here, and told before long."""

    def __init__(self, kernel: Any, rng: random.Random, rules: ProduceRules) -> None:
        self._kernel, self._rng, self._rules = kernel, rng, rules
        self._all: list[Any] = []
        self.sound = 0

    def find(self, is_by_id: bool, topic: bytes, index: int, acks: int, timeout_ms: int) -> Any:
        """A block for a partition, or none."""
        if self._rng.random() < 0.05 or not (is_by_id or is_text(topic)):
            return None
        classes = (BatchHeader, RecordBatch, lambda before, behind: self._rng.random() < 0.5)
        rules = self._rules
        block = self._kernel.Block(
            (topic, index), acks, timeout_ms, rules, 5, (1 << 63) - 1, classes, self.told
        )
        self._all.append(block)
        return block

    def renew(self, block: Any) -> Any:
        """One behind it."""
        block.close()
        found = None
        while found is None:
            found = self.find(False, *block.target, block.acks, block.timeout_ms)
        return found

    def told(self, block: Any, offsets: int, size_bytes: int, *others: Any) -> None:
        """What became of some of it."""
        self.sound += 1

    def settle(self) -> None:
        """All are stamped, looked through and told of, in one way or another."""
        for block in self._all:
            block.close()
            batches = list(block)
            assert sum(len(batch.data) for batch in batches) == block.size_bytes
            for batch in batches:
                assert prepare_produced(bytes(batch.data), self._rules, 5).header == batch.header
            block.stamp(self._rng.getrandbits(62), 3)
            block.index_entries(0, -1, 0, 0, self._rng.choice([0, 100, 4096]))
            how = self._rng.randrange(4)
            if how == 0:
                for place in range(len(block)):
                    block.token(place)((self._rng.choice([0, 3]), 7, -1, 0, None))
            elif how == 1:
                block.give_up()
            else:
                block.tell((self._rng.choice([0, 0, 3]), self._rng.getrandbits(62), -1, 0, None))
        self._all.clear()


class Connection:
    """One that stays."""

    closed = False


def fuzz_runs(kernel: Any, rng: random.Random, rules: ProduceRules) -> int:
    """Give a connection's worth of requests to the kernel; how many it took."""
    version = rng.randrange(3, 14)
    head = bytes([0, 0, 0, version]) + b"\0\6client" + b"\0" * (version >= 9)
    data = b""
    for _ in range(rng.randrange(1, 5)):
        frame = head[:4] + rng.randbytes(4) + head[4:] + hostile_body(rng, version, is_plain=True)
        data += (len(frame) + rng.choice([0, 0, 0, 0, -1, 1])).to_bytes(4, "big") + frame
    data = data[: rng.choice([None, None, rng.randrange(len(data) + 1)])]
    frames = memoryview(np.frombuffer(data or b"\0", np.uint8).copy())
    blocks, known = Blocks(kernel, rng, rules), dict[bytes, Any]()
    runs = kernel.ProduceRuns(None, known, blocks.find, blocks.renew, 100, 7)
    waiting: deque[Any] = deque()
    end = runs.take(
        Connection(), waiting, frames, 0, len(frames), head, 64, 1 << 20, rng.choice([-1, 99]), 0.0
    )
    assert 0 <= end <= len(frames) and len(waiting) == runs.requests
    requests = list(waiting)
    blocks.settle()
    for request in requests:
        header, _ = decode_response(ProduceResponse, version, request.answer[4:])
        assert header.correlation_id == request.correlation_id
        request.throttle(rng.choice([0, 1, 1 << 30]))
    kernel.take_answers(waiting, 1 << 20)
    return len(requests)


def is_text(name: bytes) -> bool:
    """Whether it is UTF-8."""
    try:
        name.decode()
    except UnicodeDecodeError:
        return False
    return True


def main() -> None:
    """Fuzz until the time is over, but not less than ROUNDS_MIN, and say how much was done."""
    kernel = sanitized.load("fencepost.batch._produce", sys.argv[1])
    rng = random.Random(int(sys.argv[2]))
    deadline = time.monotonic() + float(sys.argv[3])
    rounds = sound = taken = 0
    rules = ProduceRules(1 << 20)
    while rounds < ROUNDS_MIN or time.monotonic() < deadline:
        rounds += 1
        taken += fuzz_runs(kernel, rng, rules)
        version = rng.randrange(3, 14)
        # From malloc at its exact size, so that nothing lies behind it by chance.
        body = memoryview(np.frombuffer(hostile_body(rng, version) or b"\0", np.uint8).copy())
        request = kernel.read_request(body, 0, version)
        if request is None:
            continue
        transactional_id, acks, timeout_ms, topics = request
        if not is_text(transactional_id or b""):
            continue  # who takes it finds out
        if version < 13 and any(not is_text(name) for name, _ in topics):
            continue  # no topic has that name
        decoded, end = ProduceRequest.read(body, 0, version)
        assert end == len(body) and (decoded.acks, decoded.timeout_ms) == (acks, timeout_ms)
        named = decoded.transactional_id
        assert transactional_id == (None if named is None else named.encode())
        for topic, (name, partitions) in zip(decoded.topic_data, topics, strict=True):
            assert name == (topic.topic_id if version >= 13 else topic.name.encode())
            for data, (index, at, size) in zip(topic.partition_data, partitions, strict=True):
                assert data.index == index and data.records == body[at : at + size]
                in_transaction = transactional_id is not None
                header = kernel.check_batch(BatchHeader, body, at, size, rules, 5, in_transaction)
                if header is not None:
                    sound += 1
                    assert header.is_transactional == in_transaction
                    assert header == read_header(body, at)
                    assert prepare_produced(data.records, rules, 5).header == header
        results = [(0, rng.getrandbits(62), -1, 0, None) for _, some in topics for _ in some]
        assert kernel.answer(version, -5, topics, results)
    print(f"rounds {rounds} sound {sound} taken {taken}")


if __name__ == "__main__":
    main()
