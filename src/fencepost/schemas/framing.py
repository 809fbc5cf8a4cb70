"""Confluent's framing of a value: a zero byte, the schema's id in four bytes, what it describes.

A Protobuf value says first which message of the file it is: a number of indexes and the indexes
from the file's messages inwards, zigzag varints all. A single zero byte stands for the first
message of the file.
"""

from __future__ import annotations

import struct
from typing import Final

HEADER: Final = struct.Struct(">bi")
INDEXES_MAX: Final = 100
VARINT_BYTES_MAX: Final = 5


class DecodeError(Exception):
    """The value is not what it says, or says nothing; the text has the cause."""


def split_frame(data: bytes) -> tuple[int, bytes]:
    """The schema's id and what follows it. DecodeError."""
    if len(data) < HEADER.size:
        raise DecodeError(f"{len(data)} bytes are too few for a schema id")
    magic, schema_id = HEADER.unpack_from(data)
    if magic != 0:
        raise DecodeError(f"begins with byte {data[0]:#04x}, not with 0x00 and a schema id")
    if schema_id < 0:
        raise DecodeError(f"schema id {schema_id} is negative")
    return schema_id, data[HEADER.size :]


def frame(schema_id: int, payload: bytes) -> bytes:
    """What `split_frame` takes apart."""
    return HEADER.pack(0, schema_id) + payload


def read_message_indexes(payload: bytes) -> tuple[list[int], bytes]:
    """Which message a Protobuf value is, and the message itself. DecodeError."""
    count, pos = _read_varint(payload, 0)
    if not 0 <= count <= INDEXES_MAX:
        raise DecodeError(f"{count} message indexes")
    indexes = []
    for _ in range(count):
        index, pos = _read_varint(payload, pos)
        indexes.append(index)
    return indexes or [0], payload[pos:]


def _read_varint(payload: bytes, pos: int) -> tuple[int, int]:
    """A zigzag varint and where it ends."""
    number = 0
    for place, byte in enumerate(payload[pos : pos + VARINT_BYTES_MAX]):
        number |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), pos + place + 1
    raise DecodeError("the message indexes are cut")
