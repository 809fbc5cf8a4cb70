"""Leaving out aborted transactions."""

from __future__ import annotations

from fencepost.batch.control import build_end_txn_marker
from fencepost.batch.records import build_batch, read_records
from fencepost.client.transactions import committed_slices


class Blob:
    """Batches of several producers, one after the other."""

    def __init__(self) -> None:
        self.data = b""
        self.offset = 0

    def add(self, value: bytes, producer_id: int = -1) -> int:
        transactional = producer_id >= 0
        self.data += build_batch(
            [(None, value)],
            timestamp_ms=1,
            base_offset=self.offset,
            producer_id=producer_id,
            producer_epoch=0 if transactional else -1,
            base_sequence=0 if transactional else -1,
            transactional=transactional,
        )
        self.offset += 1
        return self.offset - 1

    def end(self, producer_id: int, *, committed: bool) -> None:
        self.data += build_end_txn_marker(
            committed=committed,
            coordinator_epoch=0,
            producer_id=producer_id,
            producer_epoch=0,
            timestamp_ms=1,
            base_offset=self.offset,
        )
        self.offset += 1

    def committed(self, aborted: list[tuple[int, int]]) -> list[bytes | None]:
        return [
            record.value
            for piece in committed_slices(memoryview(self.data), aborted)
            for record in read_records(piece)
        ]


def test_without_aborted_transactions_nothing_is_copied():
    blob = Blob()
    blob.add(b"a")
    view = memoryview(blob.data)
    assert list(committed_slices(view, ())) == [view]


def test_aborted_ones_are_left_out_and_the_same_producers_later_ones_are_not():
    blob = Blob()
    blob.add(b"plain")
    first = blob.add(b"lost 7", 7)
    blob.add(b"kept 8", 8)
    blob.add(b"lost 7 too", 7)
    blob.end(7, committed=False)
    blob.add(b"kept 7", 7)
    blob.end(8, committed=True)
    blob.end(7, committed=True)
    second = blob.add(b"lost 8", 8)
    blob.end(8, committed=False)
    blob.add(b"plain too")
    # As brokers list them: by marker, which need not be by first offset.
    assert blob.committed([(8, second), (7, first)]) == [
        b"plain",
        b"kept 8",
        b"kept 7",
        b"plain too",
    ]


def test_a_transaction_that_began_before_the_blob():
    blob = Blob()
    blob.offset = 100
    blob.add(b"lost", 7)
    blob.end(7, committed=False)
    assert blob.committed([(7, 50)]) == []


def test_a_marker_beyond_the_blob():
    blob = Blob()
    blob.add(b"kept")
    first = blob.add(b"lost", 7)
    blob.add(b"lost too", 7)
    assert blob.committed([(7, first)]) == [b"kept"]
