"""Entries of a segment's transaction index: the aborted transactions that end in it (KIP-98).

Layout of `<base offset>.txnindex`: entries of 34 bytes, an int16 version (0) and a plain body of
four int64, in the order in which the markers were appended. There is neither head nor count, so a
file of another size than a multiple of 34 was cut off.

A reader of committed data is told, with the records, which transactions among them were aborted:
those entries that reach into what it fetched.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct as Layout
from typing import Final

from fencepost.wire.errors import DecodeError
from fencepost.wire.message import Message, field
from fencepost.wire.types import Buffer, Int64

ENTRY_BYTES: Final = 34
_VERSION = Layout(">h")


class AbortedTxn(Message, kind="data", versions="0", flexible="none"):
    """One aborted transaction."""

    producer_id: Int64 = field(doc="Id of the producer.")
    first_offset: Int64 = field(doc="Offset of the transaction's first record.")
    last_offset: Int64 = field(doc="Offset of its abort marker.")
    last_stable_offset: Int64 = field(
        doc="Last stable offset once the marker was appended. Later entries are about offsets from "
        "here on, so a search for aborted transactions below it ends here.",
    )


def encode_entry(aborted: AbortedTxn) -> bytes:
    """One entry of the file. EncodeError."""
    return _VERSION.pack(AbortedTxn.max_version) + aborted.encode(AbortedTxn.max_version)


def iter_entries(data: Buffer) -> Iterator[AbortedTxn]:
    """The entries of a whole file. DecodeError for another version, and for a cut last entry."""
    for pos in range(0, len(data), ENTRY_BYTES):
        if len(data) - pos < ENTRY_BYTES:
            raise DecodeError(
                f"an entry has {ENTRY_BYTES} bytes, {len(data) - pos} are left", "", pos
            )
        (version,) = _VERSION.unpack_from(data, pos)
        if version != AbortedTxn.max_version:
            raise DecodeError(f"AbortedTxn has no version {version}", "", pos)
        yield AbortedTxn.read(data, pos + _VERSION.size, version)[0]
