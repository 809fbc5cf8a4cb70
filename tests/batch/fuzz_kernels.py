"""Feeds the compiled kernels garbage: `python -m tests.batch.fuzz_kernels KERNELS.so SEED SECONDS`.

Run by `test_sanitized` under AddressSanitizer, which ends the process at the first byte that is
read or written out of bounds. Input buffers come from malloc at their exact size, so that nothing
lies behind them by chance.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from fencepost.batch import backend
from fencepost.batch.columns import decode_columns, encode_columns, partition_columns
from fencepost.batch.errors import BatchError
from fencepost.batch.header import HEADER_BYTES, BatchHeader, read_header, stamp_crc
from fencepost.batch.produced import ProduceRules, prepare_produced
from fencepost.batch.records import BatchBuilder, read_records

from .. import sanitized
from .samples import RECORDS, build, wrap

PAYLOAD = bytes(build(RECORDS)[HEADER_BYTES:])
SAMPLE = read_header(build(RECORDS))
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))

ROUNDS_MIN = 2_000
"""What a run is worth must not hang on how busy the machine is."""


def hostile_blob(rng: random.Random) -> bytes:
    """Batches in which anything may be wrong, most of them with a sound CRC."""
    payload = bytearray(PAYLOAD if rng.random() < 0.8 else rng.randbytes(rng.randrange(200)))
    for _ in range(rng.randrange(4)):
        at = rng.randrange(len(payload) + 1)
        payload[at : at + rng.randrange(3)] = rng.randbytes(rng.randrange(4))
    batch = wrap(bytes(payload), rng.choice([0, 1, 4, 4, 4, 5, 100, 2**31 - 1]))
    if rng.random() < 0.3:
        batch[rng.randrange(HEADER_BYTES)] = rng.randrange(256)
    try:
        stamp_crc(batch)
    except ValueError:  # the length was hit
        return bytes(batch)
    return bytes(batch * rng.randrange(1, 3))[: rng.choice([None, None, rng.randrange(300)])]


def read_all(rng: random.Random, blob: memoryview) -> int:
    """Read it in every way there is; how many ways found nothing wrong."""
    options = {
        "include_headers": rng.random() < 0.5,
        "check_crc": rng.random() < 0.5,
        "max_rows": rng.choice([1, 3, 1000]),
        "max_bytes": rng.choice([1, 100, 1 << 20]),
        "start_offset": rng.choice([0, 2]),
        "aborted": rng.choice([(), [(-1, 0)]]),
    }
    ways: list[Callable[[], object]] = [
        lambda: prepare_produced(blob, ProduceRules(1 << 20)),
        lambda: list(read_records(blob, check=False)),
        lambda: list(decode_columns(blob, topic="t", partition=1, **options)),
    ]
    sound = 0
    for way in ways:
        try:
            way()
        except BatchError:
            continue
        sound += 1
    return sound


def compact(rng: random.Random, offsets: Any, blob: memoryview) -> None:
    """Note the keys of it, pick what stays, and give that another base: as if it were records."""
    kernels: Any = backend.kernels
    kernels.sound_headers(blob, rng.randrange(len(blob) + 1), BatchHeader)
    begin = rng.choice([0, min(HEADER_BYTES, len(blob))])
    header = SAMPLE._replace(records_count=rng.choice([0, 1, 4, 4, 4, 2**31 - 1]))
    room = rng.choice([0, 50, 1 << 30])
    offsets.note(blob[begin:], header, rng.randrange(3), 10, rng.random() < 0.5, room)
    offsets.put(rng.randbytes(rng.randrange(300)), rng.getrandbits(62))
    offsets.get(rng.randbytes(rng.randrange(300)))
    _, _, left = offsets.pick(blob[begin:], header, rng.choice([-1, 1, 9]), rng.random() < 0.5)
    for records in (left, blob[begin:]):
        kernels.rebase_records(records, header, rng.choice([0, 1, 2**63 - 1]))
    if rng.random() < 0.001:
        offsets.clear()


def write_some(rng: random.Random) -> None:
    """Encode a slice of random columns, and a record on its own."""
    count = rng.randrange(1, 40)

    def maybe(value: object) -> object:
        return None if rng.random() < 0.3 else value

    def pairs() -> list[dict[str, object]]:
        return [
            {"key": "x" * rng.randrange(5), "value": maybe(b"v" * rng.randrange(9))}
            for _ in range(rng.randrange(4))
        ]

    def column(make: Callable[[], object], kind: pa.DataType) -> pa.Array:
        return pa.array([maybe(make()) for _ in range(count)], kind)

    rows = pa.record_batch(
        {
            "key": column(lambda: rng.randbytes(rng.randrange(30)), pa.binary()),
            "value": column(lambda: rng.randbytes(rng.randrange(90)), pa.binary()),
            "headers": column(pairs, HEADERS),
            "timestamp": column(lambda: rng.choice([5, rng.getrandbits(63)]), pa.int64()),
        }
    )
    rows = rows.slice(rng.randrange(count))
    partitions = np.array([rng.randrange(9) for _ in range(rows.num_rows)])
    size = rng.choice([400, 1000, 10**6])
    encode_columns(rows, rng.choice([3, partitions]), timestamp_ms=1, max_batch_bytes=size)
    partition_columns(rows["key"], rng.randrange(1, 9))
    builder = BatchBuilder()
    builder.append(rng.randbytes(9), None, [("h", rng.randbytes(3))], timestamp_ms=2**62)
    builder.build()


def main() -> None:
    """Fuzz until the time is over, but not less than ROUNDS_MIN, and say how much was done."""
    backend.kernels = sanitized.load("fencepost.batch._kernels", sys.argv[1])
    rng = random.Random(int(sys.argv[2]))
    deadline = time.monotonic() + float(sys.argv[3])
    rounds = sound = 0
    offsets = backend.kernels.KeyOffsets()
    while rounds < ROUNDS_MIN or time.monotonic() < deadline:
        rounds += 1
        blob = np.frombuffer(hostile_blob(rng), np.uint8).copy()
        sound += read_all(rng, memoryview(blob))
        backend.kernels.crc32c(memoryview(blob))
        backend.kernels.murmur2(memoryview(blob))
        compact(rng, offsets, memoryview(blob))
        if rounds % 20 == 0:
            write_some(rng)
    print(f"rounds {rounds} sound {sound}")


if __name__ == "__main__":
    main()
