"""What a log knew of its producers at an offset: the file `<offset>.snapshot` (KIP-98).

Layout, all plain and big-endian:

    0   int16   version, 1; in front of the message
    2   uint32  CRC-32C of everything from byte 6 on
    6   int32   number of entries
    10  entries of 46 bytes

The checksum is a field of the message and covers what follows it, so a writer encodes with a zero
there and puts the number in afterwards. Checking it is the reader's business: this package has no
CRC-32C. Only the last batch of each producer is in the file.
"""

from __future__ import annotations

from typing import Final

from fencepost.wire.message import Message, Struct, field
from fencepost.wire.types import Int16, Int32, Int64, UInt32

CRC_AT: Final = 2
"""Where the checksum stands in the file, behind the version."""

CRC_COVERS_FROM: Final = 6
"""Where the bytes begin that the checksum is made of."""


class ProducerEntry(Struct):
    """One producer id, and the last batch it wrote."""

    producer_id: Int64 = field("1", doc="The producer id.")
    epoch: Int16 = field("1", doc="Its epoch.")
    last_sequence: Int32 = field(
        "1", doc="Sequence of the batch's last record; -1 when no batch is known."
    )
    last_offset: Int64 = field(
        "1", doc="Offset of the batch's last record; -1 when no batch is known."
    )
    offset_delta: Int32 = field("1", doc="Last offset of the batch minus its first.")
    timestamp: Int64 = field(
        "1", doc="Largest timestamp of the batch, or of a marker since, in milliseconds; -1: none."
    )
    coordinator_epoch: Int32 = field(
        "1", doc="Epoch of the coordinator behind the producer's last end marker; -1 before one."
    )
    current_txn_first_offset: Int64 = field(
        "1", doc="First offset of the transaction in progress; -1 without one."
    )


class ProducerSnapshot(Message, kind="data", versions="1", flexible="none"):
    """The producers of one log.

    `fencepost.log.producers` packs and unpacks these bytes by hand, and a test holds the two
    together: a log writes its snapshot at every new segment, between two requests, and making an
    entry object for each of thousands of producers takes more than twice as long as packing them.
    """

    crc: UInt32 = field("1", doc="CRC-32C of the file from byte 6 on.")
    producer_entries: list[ProducerEntry] = field("1", doc="The producers, in any order.")
