"""The protocol, slowly: one function per rule, no caching, no shortcuts.

This is what the codecs are compared with. It reads the declarations of a message class and
nothing else of the package's internals, and is written so that each branch can be checked against
the protocol guide by eye.
"""

from __future__ import annotations

import struct
from typing import Any

from fencepost.wire.message import Message, Struct
from fencepost.wire.types import Primitive, Uuid

NUMBERS = {
    Primitive.INT8: ">b",
    Primitive.INT16: ">h",
    Primitive.INT32: ">i",
    Primitive.INT64: ">q",
    Primitive.UINT16: ">H",
    Primitive.UINT32: ">I",
    Primitive.FLOAT64: ">d",
}


class Bad(Exception):
    """The bytes are not such a message."""


# Writing


def write_message(message: Message, version: int) -> bytes:
    return write_struct(message, version, type(message).is_flexible(version))


def write_struct(value: Struct, version: int, flexible: bool) -> bytes:
    out = b""
    tagged: dict[int, bytes] = dict(value.unknown_tags or {})
    for field in type(value).fields:
        if not field.versions.holds(version):
            continue
        content = getattr(value, field.name)
        if field.tag is not None and field.tagged.holds(version):
            if not equals_default(field, content):
                tagged[field.tag] = write_field(field, content, version, flexible)
        else:
            out += write_field(field, content, version, flexible)
    if flexible:
        out += write_uvarint(len(tagged))
        for tag in sorted(tagged):
            out += write_uvarint(tag) + write_uvarint(len(tagged[tag])) + tagged[tag]
    return out


def equals_default(field: Any, content: Any) -> bool:
    default = field.fresh_default()
    if isinstance(content, (tuple, list)) and field.primitive is Primitive.RECORDS:
        content = b"".join(content)
    if content is None or default is None:
        return content is default
    if isinstance(content, tuple):
        content = list(content)
    return bool(content == default)


def write_field(field: Any, content: Any, version: int, flexible: bool) -> bytes:
    if field.struct is None:
        flexible = flexible and field.flexible.holds(version)
    if field.is_array:
        if content is None:
            return write_length(-1, ">i", flexible)
        out = write_length(len(content), ">i", flexible)
        for element in content:
            out += write_single(field, element, version, flexible)
        return out
    if field.struct is not None and field.nullable.holds(version):
        if content is None:
            is_tagged = field.tag is not None and field.tagged.holds(version)
            return b"\x00" if is_tagged else b"\xff"
        return b"\x01" + write_struct(content, version, flexible)
    return write_single(field, content, version, flexible)


def write_single(field: Any, content: Any, version: int, flexible: bool) -> bytes:
    if field.struct is not None:
        return write_struct(content, version, flexible)
    if field.primitive is Primitive.BOOL:
        return b"\x01" if content else b"\x00"
    if field.primitive in NUMBERS:
        return struct.pack(NUMBERS[field.primitive], content)
    if field.primitive is Primitive.UUID:
        return bytes(content)
    length_code = ">h" if field.primitive is Primitive.STRING else ">i"
    if content is None:
        return write_length(-1, length_code, flexible)
    if field.primitive is Primitive.STRING:
        content = content.encode("utf-8")
    elif isinstance(content, (tuple, list)):
        content = b"".join(content)
    return write_length(len(content), length_code, flexible) + bytes(content)


def write_length(length: int, plain_code: str, flexible: bool) -> bytes:
    return write_uvarint(length + 1) if flexible else struct.pack(plain_code, length)


def write_uvarint(value: int) -> bytes:
    out = b""
    while value >= 128:
        out += bytes([value % 128 + 128])
        value //= 128
    return out + bytes([value])


# Reading


def read_message(cls: type[Message], data: bytes, version: int) -> Any:
    source = Source(data)
    message = read_struct(cls, source, version, cls.is_flexible(version))
    if source.left() != 0:
        raise Bad("trailing bytes")
    return message


class Source:
    """Bytes that are taken from the front."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.pos = 0

    def left(self) -> int:
        return len(self.data) - self.pos

    def take(self, size: int) -> bytes:
        if size > self.left():
            raise Bad("cut off")
        self.pos += size
        return self.data[self.pos - size : self.pos]


def read_struct(cls: type[Struct], source: Source, version: int, flexible: bool) -> Any:
    value = cls()
    by_tag = {}
    for field in cls.fields:
        if not field.versions.holds(version):
            continue
        if field.tag is not None and field.tagged.holds(version):
            by_tag[field.tag] = field
        else:
            setattr(value, field.name, read_field(field, source, version, flexible))
    if flexible:
        last = -1
        for _ in range(read_uvarint(source)):
            tag, size = read_uvarint(source), read_uvarint(source)
            if tag <= last:
                raise Bad("tags out of order")
            last = tag
            content = Source(source.take(size))
            if tag in by_tag:
                setattr(
                    value, by_tag[tag].name, read_field(by_tag[tag], content, version, flexible)
                )
                if content.left() != 0:
                    raise Bad("tag longer than its value")
            else:
                value.unknown_tags = {**(value.unknown_tags or {}), tag: content.data}
    return value


def read_field(field: Any, source: Source, version: int, flexible: bool) -> Any:
    nullable = field.nullable.holds(version)
    if field.struct is None:
        flexible = flexible and field.flexible.holds(version)
    if field.is_array:
        count = read_length(source, ">i", flexible)
        if count == -1 and nullable:
            return None
        if count < 0 or count > source.left():
            raise Bad("count")
        return [read_single(field, source, version, flexible, False) for _ in range(count)]
    if field.struct is not None and nullable:
        mark = struct.unpack(">b", source.take(1))[0]
        is_tagged = field.tag is not None and field.tagged.holds(version)
        is_null = mark < 0 or (mark == 0 and is_tagged)
        return None if is_null else read_struct(field.struct, source, version, flexible)
    return read_single(field, source, version, flexible, nullable)


def read_single(field: Any, source: Source, version: int, flexible: bool, nullable: bool) -> Any:
    if field.struct is not None:
        return read_struct(field.struct, source, version, flexible)
    if field.primitive is Primitive.BOOL:
        return source.take(1) != b"\x00"
    if field.primitive in NUMBERS:
        code = NUMBERS[field.primitive]
        return struct.unpack(code, source.take(struct.calcsize(code)))[0]
    if field.primitive is Primitive.UUID:
        return Uuid(source.take(16))
    is_string = field.primitive is Primitive.STRING
    length = read_length(source, ">h" if is_string else ">i", flexible)
    if length == -1 and nullable:
        return None
    if length < 0 or (is_string and length > 32767):
        raise Bad("length")
    content = source.take(length)
    if not is_string:
        return content
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        raise Bad("not UTF-8") from None


def read_length(source: Source, plain_code: str, flexible: bool) -> int:
    if flexible:
        return read_uvarint(source) - 1
    size = struct.calcsize(plain_code)
    return int(struct.unpack(plain_code, source.take(size))[0])


def read_uvarint(source: Source) -> int:
    value = 0
    for position in range(5):
        byte = source.take(1)[0]
        value += (byte % 128) * 128**position
        if byte < 128:
            if value >= 2**32:
                raise Bad("varint")
            return value
    raise Bad("varint")
