"""The transaction index of a segment: the aborted transactions whose markers stand in it (KIP-98).

File layout (`<base>.txnindex`), entries of 34 bytes, big-endian, in the order of their markers:

    0   int16  version, 0
    2   int64  producer id
    10  int64  offset of the transaction's first record
    18  int64  offset of its abort marker
    26  int64  last stable offset, the marker being appended, as far as transactions decide it

`fencepost.wire.records.txn_index` declares an entry as a message class.

A reader of committed data is told which of the transactions in what it fetched were aborted. Those
stand in the index of the segment in which the fetch begins and of the ones behind it, since a
marker comes after the records. The search may end at an entry whose last stable offset is not below
the end of the fetch: every transaction that reaches below it was decided by then, so later entries
are about later records.

Like the other indexes, that of the active segment lives in memory and is written when the segment
is closed. There is a file only if there are entries; the log says what they must be, so recovery
makes them again (`replay`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from msgspec import Struct

from fencepost.log.errors import CorruptFileError
from fencepost.wire.errors import DecodeError
from fencepost.wire.records.txn_index import ENTRY_BYTES, AbortedTxn, encode_entry, iter_entries

_NO_PRODUCER_ID: Final = -1


class FoundAborted(Struct, frozen=True):
    """Aborted transactions of a range; `is_complete` when later segments have no more of them."""

    transactions: list[AbortedTxn]
    is_complete: bool


class TxnIndex:
    """The aborted transactions of one segment, by their markers' offsets."""

    __slots__ = ("_entries",)

    def __init__(self, entries: Iterable[AbortedTxn] = ()) -> None:
        self._entries = list(entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[AbortedTxn]:
        return iter(self._entries)

    @property
    def size_bytes(self) -> int:
        """Bytes of the file."""
        return len(self._entries) * ENTRY_BYTES

    def append(self, aborted: AbortedTxn) -> None:
        """Add an entry behind the others."""
        assert not self._entries or aborted.last_offset > self._entries[-1].last_offset, (
            f"marker {aborted.last_offset} behind {self._entries[-1].last_offset}"
        )
        self._entries.append(aborted)

    def collect(self, fetch_offset: int, upper_bound: int) -> FoundAborted:
        """The transactions with anything from `fetch_offset` on and below `upper_bound`."""
        found: list[AbortedTxn] = []
        for aborted in self._entries:
            if aborted.last_offset >= fetch_offset and aborted.first_offset < upper_bound:
                found.append(aborted)
            if aborted.last_stable_offset >= upper_bound:
                return FoundAborted(found, True)
        return FoundAborted(found, False)

    def truncate(self, offset: int) -> None:
        """Forget transactions whose markers stand at or behind `offset`."""
        while self._entries and self._entries[-1].last_offset >= offset:
            self._entries.pop()

    def encode(self) -> bytes:
        """The file's content."""
        return b"".join(map(encode_entry, self._entries))

    @classmethod
    def decode(cls, path: str, data: bytes, base_offset: int) -> TxnIndex:
        """The index in `data`, of the segment that begins at `base_offset`. CorruptFileError."""
        try:
            index = cls(iter_entries(data))
        except DecodeError as error:
            raise CorruptFileError(path, str(error)) from None
        previous = base_offset - 1
        for number, entry in enumerate(index):
            reason = reason_against(entry, previous)
            if reason is not None:
                raise CorruptFileError(path, reason, number * ENTRY_BYTES)
            previous = entry.last_offset
        return index


def reason_against(entry: AbortedTxn, previous: int) -> str | None:
    """What no entry can say behind one whose marker is at `previous`; None if all may be well."""
    if entry.producer_id <= _NO_PRODUCER_ID:
        return f"has producer id {entry.producer_id}"
    if entry.last_offset <= previous:
        return f"has a marker at {entry.last_offset}, not behind {previous}"
    if not 0 <= entry.first_offset < entry.last_offset:
        return f"has a transaction from {entry.first_offset} to {entry.last_offset}"
    if not 0 <= entry.last_stable_offset <= entry.last_offset + 1:
        return f"has last stable offset {entry.last_stable_offset} at {entry.last_offset}"
    return None
