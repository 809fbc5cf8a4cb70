"""Format strings for records, as those of kcat's -f.

| token | |
|---|---|
| %t %p %o | topic, partition, offset |
| %T | timestamp, milliseconds since 1970 (-1: none) |
| %k %s | key, value |
| %K %S | their lengths in bytes, -1 for null |
| %R | the value's length as 4 bytes, big-endian, -1 for null |
| %h | headers: name=value,name=value; a null value is NULL |
| %% | a percent sign |

\\n, \\t, \\r, \\\\ mean what they do in C, \\xNN and \\NNN (octal with a leading 0, else decimal)
one byte. Nothing is added behind a record: a format for lines ends in \\n.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from fencepost.batch.records import Record
    from fencepost.client.metadata import TopicPartition

Part = Callable[["TopicPartition", "Record"], bytes]
NULL_HEADER: Final = b"NULL"
_ESCAPES: Final = {b"n": b"\n", b"t": b"\t", b"r": b"\r"}
_ESCAPE: Final = re.compile(rb"\\(?:x([0-9a-fA-F]{1,2})|([0-9]{1,3})|(.)|$)", re.DOTALL)


class FormatError(ValueError):
    """The format string says something that cannot be; the text says what."""


class RecordFormat:
    """A format string, ready for many records; `null` stands for a key or value that is null."""

    def __init__(self, text: str, null: bytes = b"") -> None:
        """Raises FormatError."""
        self._parts = _parts(os.fsencode(text), null)

    def __call__(self, partition: TopicPartition, record: Record) -> bytes:
        """The record as the format has it."""
        return b"".join(part(partition, record) for part in self._parts)


def _parts(text: bytes, null: bytes) -> list[Part]:
    tokens = _tokens(null)
    literal, *rest = re.split(rb"%(.?)", text, flags=re.DOTALL)
    parts = [_literal(literal)]
    for letter, literal in zip(rest[::2], rest[1::2], strict=True):
        if letter not in tokens:
            what = f"%{os.fsdecode(letter)} is" if letter else "a % at the end is"
            known = ", ".join(f"%{token.decode()}" for token in tokens)
            raise FormatError(f"{what} none of {known}")
        parts += [tokens[letter], _literal(literal)]
    return parts


def _literal(text: bytes) -> Part:
    unescaped = _ESCAPE.sub(_unescaped, text)
    return lambda partition, record: unescaped


def _unescaped(match: re.Match[bytes]) -> bytes:
    hexadecimal, digits, letter = match.groups()
    if hexadecimal:
        return bytes([int(hexadecimal, 16)])
    if digits:
        is_octal = digits.startswith(b"0")
        if is_octal and set(digits) & set(b"89"):
            raise FormatError(f"\\{digits.decode()} is no octal number")
        number = int(digits, 8 if is_octal else 10)
        if number > 255:
            raise FormatError(f"\\{digits.decode()} is more than a byte")
        return bytes([number])
    if not letter:
        raise FormatError("there is nothing behind the last \\")
    return _ESCAPES.get(letter, letter)


def _length(data: bytes | None) -> int:
    return -1 if data is None else len(data)


def _tokens(null: bytes) -> dict[bytes, Part]:
    def shown(data: bytes | None) -> bytes:
        return null if data is None else data

    return {
        b"t": lambda partition, record: partition.topic.encode(),
        b"p": lambda partition, record: b"%d" % partition.partition,
        b"o": lambda partition, record: b"%d" % record.offset,
        b"T": lambda partition, record: b"%d" % record.timestamp_ms,
        b"k": lambda partition, record: shown(record.key),
        b"s": lambda partition, record: shown(record.value),
        b"K": lambda partition, record: b"%d" % _length(record.key),
        b"S": lambda partition, record: b"%d" % _length(record.value),
        b"R": lambda partition, record: _length(record.value).to_bytes(4, "big", signed=True),
        b"h": lambda partition, record: b",".join(map(_header, record.headers)),
        b"%": lambda partition, record: b"%",
    }


def _header(header: tuple[str, bytes | None]) -> bytes:
    name, value = header
    return b"%s=%s" % (name.encode(), NULL_HEADER if value is None else value)
