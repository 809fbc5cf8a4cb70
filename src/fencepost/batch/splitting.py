"""One record batch into several that take less: for a topic that takes no batch so large.

As of Kafka's producer, which splits a batch that is answered with MESSAGE_TOO_LARGE.
"""

from __future__ import annotations

from fencepost.batch.header import HEADER_BYTES, read_header
from fencepost.batch.record_size import RECORD_OVERHEAD_MAX
from fencepost.batch.records import BatchBuilder, Record, read_records
from fencepost.wire.types import Buffer


def split_batch(batch: Buffer, most_bytes: int, *, level: int | None = None) -> list[bytearray]:
    """The records of a batch in order, in batches of about `most_bytes` at most.

    A compressed batch is taken to compress as well in parts, so a part may turn out larger. A
    record that is larger is alone. `level` is of the codec, which stays. Raises BatchError.
    """
    codec = read_header(batch).compression
    records = list(read_records(batch))
    sizes = [_size_bytes(record) for record in records]
    payload_max = sum(sizes) * max(1, most_bytes - HEADER_BYTES) // max(1, len(batch))
    parts: list[bytearray] = []
    builder, size = BatchBuilder(codec, level=level), 0
    for record, record_bytes in zip(records, sizes, strict=True):
        if size and size + record_bytes > payload_max:
            parts.append(builder.build())
            builder, size = BatchBuilder(codec, level=level), 0
        builder.append(record.key, record.value, record.headers, timestamp_ms=record.timestamp_ms)
        size += record_bytes
    parts.append(builder.build())
    return parts


def _size_bytes(record: Record) -> int:
    size = RECORD_OVERHEAD_MAX + len(record.key or b"") + len(record.value or b"")
    return size + sum(len(name) + len(content or b"") for name, content in record.headers)
