"""Helpers that generated codecs call, and the cold halves of encoding and decoding.

Generated code does not build error messages: it raises `Malformed`, or lets `struct` and indexing
raise, and `diagnose` reads the same bytes (or the same object) again, slowly, to say what is wrong
and where.
"""

from __future__ import annotations

import re
import struct
from typing import Any, Final

from fencepost.wire.types import MAX_STRING_BYTES, Buffer, ReplacedText, Uuid


class Malformed(Exception):
    """Something does not fit; never leaves the package."""


class TooMany(Exception):
    """More elements than the caller allows, at this position; never leaves the package."""


DECODE_FAILURES: Final = (Malformed, struct.error, IndexError, ValueError)
"""What bad bytes can raise in a generated decoder (UnicodeDecodeError is a ValueError)."""

ENCODE_FAILURES: Final = Exception
"""What an object with bad values can raise in a generated encoder: its methods are anybody's."""

_SURROGATE: Final = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
"""What UTF-8 must not have: Java replaces it as a whole, Python byte by byte."""
_REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}".encode()

MAX_UVARINT: Final = 0xFFFFFFFF

BOOL_BYTE: Final = {False: 0, True: 1}
"""Looked up instead of `bool()`, so that None or a string is an error and not a truth value."""


def read_uvarint(b: Buffer, p: int) -> tuple[int, int]:
    """An unsigned varint of at most 32 bits at `p`; returns it and the position behind it."""
    byte = b[p]
    if byte < 0x80:
        return byte, p + 1
    value = byte & 0x7F
    p += 1
    byte = b[p]
    if byte < 0x80:
        return value | byte << 7, p + 1
    value |= (byte & 0x7F) << 7
    shift = 14
    while byte > 0x7F:
        p += 1
        byte = b[p]
        if shift == 28 and byte > 0x0F:
            raise Malformed
        value |= (byte & 0x7F) << shift
        shift += 7
    return value, p + 1


def read_string_size(b: Buffer, p: int) -> tuple[int, int]:
    """The size of a compact string at `p`, plus one; then the position behind it."""
    size, p = read_uvarint(b, p)
    if size > MAX_STRING_BYTES + 1:
        raise Malformed
    return size, p


def read_text(data: Buffer) -> str:
    """The text, or a `ReplacedText` as Java decodes it if it is not UTF-8.

    Each U+FFFD takes three bytes: a text that would be too long to be sent back is cut.
    """
    try:
        return str(data, "utf-8")
    except UnicodeDecodeError:
        text = _SURROGATE.sub(_REPLACEMENT, bytes(data)).decode("utf-8", "replace")
    if len(text) > MAX_STRING_BYTES // 3 and len(text.encode()) > MAX_STRING_BYTES:
        text = text[: MAX_STRING_BYTES // 3]
    return ReplacedText(text)


def read_tag(b: Buffer, p: int, end: int, last: int) -> tuple[int, int, int]:
    """The head of a tagged field at `p`: tag, where its value ends and where it begins.

    Tags ascend, so it must be higher than `last`, the one before.
    """
    tag, p = read_uvarint(b, p)
    size, p = read_uvarint(b, p)
    if tag <= last or p + size > end:
        raise Malformed
    return tag, p + size, p


def read_unknown_tags(
    b: Buffer, p: int, end: int, left: int
) -> tuple[dict[int, bytes] | None, int, int]:
    """A section of tagged fields, none of them declared; then the position and what is left."""
    count, p = read_uvarint(b, p)
    tags: dict[int, bytes] = {}
    tag = -1
    for _ in range(count):
        tag, stop, p = read_tag(b, p, end, tag)
        left -= 1
        if left < 0:
            raise TooMany(p)
        tags[tag] = bytes(b[p:stop])
        p = stop
    return tags or None, p, left


def read_uuids(b: Buffer, p: int, count: int) -> list[Uuid]:
    """An array of uuids, whose size the caller has checked."""
    return [bytes.__new__(Uuid, b[at : at + 16]) for at in range(p, p + 16 * count, 16)]


def uvarint(value: int) -> bytes:
    """The bytes of an unsigned varint of at most 32 bits."""
    if value < 0x80:
        return SMALL_UVARINTS[value]
    if value < 0x4000:
        return bytes((value & 0x7F | 0x80, value >> 7))
    if value > MAX_UVARINT:
        raise Malformed
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


SMALL_UVARINTS: Final = [bytes((value,)) for value in range(0x80)]


def as_view(data: Buffer) -> memoryview:
    """A flat view of bytes over any buffer."""
    view = data if isinstance(data, memoryview) else memoryview(data)
    if view.format == "B" and view.ndim == 1 and view.contiguous:
        return view
    return view.cast("B") if view.c_contiguous else memoryview(view.tobytes())


# Objects of derived classes are what they hold: what they make of `len`, `bytes`, iteration and the
# like does not count.


def as_bytes(value: Any) -> bytes:
    """An opaque value that is not already `bytes`."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        return memoryview(value).tobytes()
    raise Malformed


def as_uuid(value: Any) -> bytes:
    """A uuid value that is not already a `Uuid`."""
    raw = as_bytes(value)
    if len(raw) == 16:
        return raw
    raise Malformed


def as_sequence(value: Any) -> Any:
    """An array value that is not exactly a list: a list or tuple with its elements."""
    if isinstance(value, list):
        return list.copy(value)
    if isinstance(value, tuple):
        return tuple.__getitem__(value, slice(None))
    raise Malformed


def same_float(value: Any, default: float) -> bool:
    """Whether two floats are written alike, which 0.0 and -0.0 are not."""
    return _FLOAT64.pack(value) == _FLOAT64.pack(default)


_FLOAT64 = struct.Struct(">d")


def join_uuids(values: Any) -> bytes:
    """The bytes of an array of uuids."""
    return b"".join([x if type(x) is Uuid else as_uuid(x) for x in values])


def records_parts(value: Any) -> tuple[int, list[Buffer]]:
    """Size in bytes and pieces of a records value."""
    if isinstance(value, (list, tuple)):
        parts = [_records_part(part) for part in as_sequence(value)]
        return sum(map(len, parts)), parts
    part = _records_part(value)
    return len(part), [part]


def _records_part(value: Any) -> Buffer:
    """A piece that cannot be resized while it is held."""
    if type(value) is bytes:
        return value
    if isinstance(value, (bytes, bytearray, memoryview)):
        return as_view(value)
    raise Malformed


def tagged_section(
    known: dict[int, bytes], unknown: dict[int, bytes] | None, declared: frozenset[int]
) -> bytes:
    """The tag count and all tagged fields, ascending; `declared` tags cannot come as unknown."""
    fields = dict(known)
    for tag, value in dict.items(unknown or {}):
        if type(tag) is not int or tag in declared or not 0 <= tag <= MAX_UVARINT:
            raise Malformed
        fields[tag] = value if type(value) is bytes else as_bytes(value)
    out = [uvarint(len(fields))]
    for tag in sorted(fields):
        out += (uvarint(tag), uvarint(len(fields[tag])), fields[tag])
    return b"".join(out)


def gather(out: list[Buffer], cuts: list[int]) -> list[Buffer]:
    """Join the small pieces between records; `cuts` are the places of the records in `out`."""
    parts: list[Buffer] = []
    start = 0
    for cut in cuts:
        parts.append(b"".join(out[start:cut]))
        parts.append(out[cut])
        start = cut + 1
    if start < len(out):
        parts.append(b"".join(out[start:]))
    return [part for part in parts if len(part)]
