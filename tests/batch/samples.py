"""Records and batches that several tests use."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from hypothesis import strategies as st

from fencepost.batch import backend
from fencepost.batch.header import HEADER_BYTES, stamp_crc
from fencepost.batch.records import BatchBuilder, Record

CODEC_NAMES = ["none", "gzip", "snappy", "lz4", "zstd"]
NOW_MS = 1_700_000_000_000

RECORDS = [
    Record(0, NOW_MS, 0, b"key", b"value", ()),
    Record(1, NOW_MS - 5, 0, None, b"v" * 200, (("trace", b"1"), ("trace", None), ("", b""))),
    Record(2, NOW_MS + 70_000, 0, b"", None, (("schlüssel", b"\xff\x00"),)),
    Record(3, NOW_MS, 0, b"k" * 70, b"", ()),
]

byte_strings = st.none() | st.binary(max_size=200)
header_lists = st.lists(
    st.tuples(st.text(max_size=12), st.none() | st.binary(max_size=20)), max_size=4
)
timestamps = st.integers(min_value=-1, max_value=2**61) | st.just(-(2**61))


@st.composite
def record_lists(draw: Callable[[Any], Any], max_size: int = 12) -> list[Record]:
    """Records with offsets from 0 on."""
    rows = draw(
        st.lists(
            st.tuples(timestamps, byte_strings, byte_strings, header_lists),
            min_size=1,
            max_size=max_size,
        )
    )
    return [
        Record(offset, timestamp, 0, key, value, tuple(headers))
        for offset, (timestamp, key, value, headers) in enumerate(rows)
    ]


def build(records: list[Record], compression: str = "none", **stamps: Any) -> bytearray:
    """One batch of these records."""
    builder = BatchBuilder(compression)
    for record in records:
        builder.append(record.key, record.value, record.headers, timestamp_ms=record.timestamp_ms)
    return builder.build(**stamps)


def wrap(payload: bytes, records_count: int, like: bytes | bytearray | None = None) -> bytearray:
    """A batch with a sound header and CRC around any payload."""
    batch = bytearray(like or build(RECORDS[:1]))[:HEADER_BYTES]
    batch += payload
    batch[8:12] = (len(batch) - 12).to_bytes(4, "big")
    batch[23:27] = max(records_count - 1, 0).to_bytes(4, "big")
    batch[57:61] = records_count.to_bytes(4, "big", signed=True)
    stamp_crc(batch)
    return batch


def many(seed: int, batches: int, rows: int, compression: str = "none", headers: int = 3) -> bytes:
    """Several batches one after the other, with gaps between their offsets."""
    rng = random.Random(seed)
    blob, offset = bytearray(), 0
    for _ in range(batches):
        builder = BatchBuilder(compression)
        for _ in range(rows):
            key = None if rng.random() < 0.2 else rng.randbytes(rng.randrange(20))
            value = None if rng.random() < 0.2 else rng.randbytes(rng.choice([0, 5, 60, 200]))
            pairs = [
                (rng.choice(["a", "bb", "é"]), None if rng.random() < 0.2 else b"x" * number)
                for number in range(rng.randrange(headers + 1))
            ]
            builder.append(key, value, pairs, timestamp_ms=NOW_MS + rng.randrange(-999, 999))
        blob += builder.build(base_offset=offset)
        offset += rows + rng.randrange(3)
    return bytes(blob)


@contextmanager
def using(kernels: Any) -> Iterator[None]:
    """Use this backend for a while; None is Python."""
    before = backend.kernels
    backend.kernels = kernels
    try:
        yield
    finally:
        backend.kernels = before
