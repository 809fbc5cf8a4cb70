"""The records of a decision as the batches that a coordinator appends, each built when it is due.

The records of an atomic decision are one batch. Others may be thousands (the targets of a group's
members, offsets that expire): these are batches of `RECORDS_AT_ONCE` at most, so that what is
encoded, applied and appended in one turn of the event loop stays small.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple, Protocol

from fencepost.batch.control import build_end_txn_marker
from fencepost.batch.records import build_batch
from fencepost.machines.coordinator import Decision

RECORDS_AT_ONCE: Final = 300

_RECORD_OVERHEAD_BYTES: Final = 32
_BATCH_OVERHEAD_BYTES: Final = 61


class RecordEncoder(Protocol):
    """Writes a machine's records."""

    def encode(self, record: Any, /) -> tuple[bytes, bytes | None]:
        """The key and the value of a record."""
        ...


class Chunk(NamedTuple):
    """A batch, and the records in it."""

    batch: bytearray
    records: list[Any]


def batches_of(
    decision: Decision[Any],
    encoder: RecordEncoder,
    *,
    most_bytes: int,
    wall_ms: int,
    compression: int,
) -> Iterator[Chunk]:
    """The batches of a decision, none if it has neither records nor a marker.

    A batch of a decision that is not atomic has `most_bytes` at most, unless a record alone is
    larger. `wall_ms` is the time that records and marker are stamped with.
    """
    end = decision.transaction_end
    if end is not None:
        assert not decision.records, "a marker is written alone"
        marker = build_end_txn_marker(
            committed=end.committed,
            coordinator_epoch=end.coordinator_epoch,
            producer_id=end.producer_id,
            producer_epoch=end.producer_epoch,
            timestamp_ms=wall_ms,
        )
        yield Chunk(marker, [])
        return
    stamps: dict[str, Any] = {"timestamp_ms": wall_ms, "compression": compression}
    if decision.producer is not None:
        stamps |= {
            "producer_id": decision.producer.producer_id,
            "producer_epoch": decision.producer.producer_epoch,
            "base_sequence": 0,
            "transactional": True,
        }
    is_atomic = decision.is_atomic or decision.producer is not None
    rows: list[tuple[bytes, bytes | None]] = []
    records: list[Any] = []
    size_bytes = _BATCH_OVERHEAD_BYTES
    for record in decision.records:
        key, value = encoder.encode(record)
        item_bytes = len(key) + len(value or b"") + _RECORD_OVERHEAD_BYTES
        is_full = size_bytes + item_bytes > most_bytes or len(rows) >= RECORDS_AT_ONCE
        if rows and is_full and not is_atomic:
            yield Chunk(build_batch(rows, **stamps), records)
            rows, records, size_bytes = [], [], _BATCH_OVERHEAD_BYTES
        rows.append((key, value))
        records.append(record)
        size_bytes += item_bytes
    if rows:
        yield Chunk(build_batch(rows, **stamps), records)
