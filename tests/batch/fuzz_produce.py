"""Feeds the kernel of Produce garbage: `python -m tests.batch.fuzz_produce KERNEL.so SEED SECONDS`.

Run by `test_sanitized`, as `fuzz_kernels` is. What the kernel takes is given to the codec and to
`produced`, too, which must take it as well.
"""

from __future__ import annotations

import random
import sys
import time

import numpy as np

from fencepost.batch.header import HEADER_BYTES, BatchHeader, read_header, stamp_crc
from fencepost.batch.produced import ProduceRules, prepare_produced
from fencepost.wire.api.produce import PartitionProduceData, ProduceRequest, TopicProduceData

from .. import sanitized
from .samples import RECORDS, build

BATCH = bytes(build(RECORDS))
TRANSACTIONAL = bytes(
    build(RECORDS, producer_id=5, producer_epoch=1, base_sequence=9, transactional=True)
)
ROUNDS_MIN = 2_000


def hostile_batch(rng: random.Random) -> bytes:
    """A batch in which little or much is wrong, mostly under a sound CRC."""
    batch = bytearray(rng.choice([BATCH, TRANSACTIONAL]))
    for _ in range(rng.choice([0, 0, 1, 2])):
        at = rng.randrange(8, len(batch))
        batch[at : at + rng.randrange(2)] = rng.randbytes(rng.randrange(2))
    if rng.random() < 0.1:
        return bytes(batch[: rng.randrange(HEADER_BYTES + 9)])
    if rng.random() < 0.8 and len(batch) > HEADER_BYTES:
        batch[8:12] = (len(batch) - 12).to_bytes(4, "big")
        stamp_crc(batch)
    return bytes(batch)


def hostile_body(rng: random.Random, version: int) -> bytes:
    """The body of a request, cut or changed anywhere."""
    topics = [
        TopicProduceData(
            name="t" * rng.randrange(1, 200),
            partition_data=[
                PartitionProduceData(index=rng.randrange(-1, 9), records=hostile_batch(rng))
                for _ in range(rng.randrange(3))
            ],
        )
        for _ in range(rng.randrange(3))
    ]
    request = ProduceRequest(
        transactional_id=rng.choice([None, None, "", "transactional"]),
        acks=rng.choice([-1, 0, 1]),
        timeout_ms=1,
        topic_data=topics,
    )
    body = bytearray(request.encode(version))
    for _ in range(rng.choice([0, 0, 1, 2])):
        at = rng.randrange(len(body) + 1)
        body[at : at + rng.randrange(3)] = rng.randbytes(rng.randrange(3))
    return bytes(body[: rng.choice([None, None, rng.randrange(len(body) + 1)])])


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
    rounds = sound = 0
    rules = ProduceRules(1 << 20)
    while rounds < ROUNDS_MIN or time.monotonic() < deadline:
        rounds += 1
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
    print(f"rounds {rounds} sound {sound}")


if __name__ == "__main__":
    main()
