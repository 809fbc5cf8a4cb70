"""The primitive types of the protocol, as annotations for message fields.

A type checker sees `int`, `bool`, `float`, `str` and `bytes`; the codec sees the `Primitive` that
`Annotated` carries along. Widths, ranges and encodings:

| annotation | on the wire |
|---|---|
| `Int8` `Int16` `Int32` `Int64` | signed, big-endian |
| `UInt16` `UInt32` | unsigned, big-endian |
| `Float64` | IEEE 754 double, big-endian |
| `Bool` | one byte, 0 is false, anything else true |
| `String` | UTF-8 behind its length: int16, -1 is null; compact: uvarint of length + 1, 0 is null |
| `Bytes` | as `String`, but the plain form has an int32 length |
| `Records` | as `Bytes`; the value is a view into the input, and may be a list of parts on output |
| `Uuid` | 16 bytes; all zero stands for "none" |

Kafka caps every string at 32767 bytes, the compact ones too (KIP-482 kept the old limit).
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from enum import Enum
from os import urandom
from typing import Annotated, Any, ClassVar, Final

Buffer = bytes | bytearray | memoryview
"""What decoders read from and encoders take as opaque bytes."""

MAX_STRING_BYTES: Final = 0x7FFF

ELEMENTS_UNLIMITED: Final = (1 << 63) - 1
"""No bound on the elements of a message's arrays but the bytes they take."""


class Primitive(Enum):
    """A primitive type; the value is Kafka's name for it."""

    BOOL = "bool"
    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    UINT16 = "uint16"
    UINT32 = "uint32"
    FLOAT64 = "float64"
    UUID = "uuid"
    STRING = "string"
    BYTES = "bytes"
    RECORDS = "records"


class ReplacedText(str):
    """A text of a message that is not UTF-8, with U+FFFD for what could not be decoded.

    That is what Java makes of it. It is good to look a name up by, or to show; it is not what the
    sender has said. `Message.read_replacing` gives such.
    """

    __slots__ = ()


_DASH = 62
"""The six bits that base64 for URLs writes as a dash."""


class Uuid(bytes):
    """Sixteen bytes that name a topic, a log directory or a process.

    `str()` and `from_string` use Kafka's text form: URL-safe base64 without padding.
    """

    __slots__ = ()

    ZERO: ClassVar[Uuid]
    """None at all; what a field holds when no id was given."""

    METADATA_TOPIC_ID: ClassVar[Uuid]
    """The reserved id of `__cluster_metadata`."""

    def __new__(cls, value: Buffer = bytes(16)) -> Uuid:
        if len(value) != 16:
            raise ValueError(f"a Uuid has 16 bytes, not {len(value)}")
        return super().__new__(cls, value)

    @classmethod
    def from_string(cls, text: str) -> Uuid:
        """The id that `str()` writes as `text`; ValueError when it is not 22 base64 letters."""
        try:
            value = urlsafe_b64decode(text + "==")
        except ValueError as error:
            raise ValueError(f"not a Uuid: {text!r}") from error
        if len(text) != 22 or len(value) != 16:
            raise ValueError(f"not a Uuid: {text!r}")
        return cls(value)

    @classmethod
    def random(cls) -> Uuid:
        """A fresh id; for shells only, machines get theirs as input.

        Kafka draws version 4 UUIDs and skips those whose text begins with a dash, because they
        look like an option on a command line.
        """
        while True:
            drawn = bytearray(urandom(16))
            if drawn[0] >> 2 != _DASH:
                break
        drawn[6] = drawn[6] & 0x0F | 0x40
        drawn[8] = drawn[8] & 0x3F | 0x80
        return cls(drawn)

    def __str__(self) -> str:
        return urlsafe_b64encode(self)[:22].decode()

    def __repr__(self) -> str:
        return f"Uuid.from_string({str(self)!r})"


Uuid.ZERO = Uuid(bytes(16))
Uuid.METADATA_TOPIC_ID = Uuid(bytes(15) + b"\x01")

Bool = Annotated[bool, Primitive.BOOL]
Int8 = Annotated[int, Primitive.INT8]
Int16 = Annotated[int, Primitive.INT16]
Int32 = Annotated[int, Primitive.INT32]
Int64 = Annotated[int, Primitive.INT64]
UInt16 = Annotated[int, Primitive.UINT16]
UInt32 = Annotated[int, Primitive.UINT32]
Float64 = Annotated[float, Primitive.FLOAT64]
String = Annotated[str, Primitive.STRING]
Bytes = Annotated[bytes, Primitive.BYTES]
Records = Annotated[Any, Primitive.RECORDS]
"""Record batches, opaque here: decoding gives a memoryview of the input (writable when the input
is), encoding takes any Buffer or a tuple or list of them. `Any`, since the two sides differ."""

RANGES: Final[dict[Primitive, tuple[int, int]]] = {
    Primitive.INT8: (-(1 << 7), (1 << 7) - 1),
    Primitive.INT16: (-(1 << 15), (1 << 15) - 1),
    Primitive.INT32: (-(1 << 31), (1 << 31) - 1),
    Primitive.INT64: (-(1 << 63), (1 << 63) - 1),
    Primitive.UINT16: (0, (1 << 16) - 1),
    Primitive.UINT32: (0, (1 << 32) - 1),
}
"""The integers that fit, both ends included."""

FIXED_CODES: Final[dict[Primitive, tuple[str, int]]] = {
    Primitive.BOOL: ("?", 1),
    Primitive.INT8: ("b", 1),
    Primitive.INT16: ("h", 2),
    Primitive.INT32: ("i", 4),
    Primitive.INT64: ("q", 8),
    Primitive.UINT16: ("H", 2),
    Primitive.UINT32: ("I", 4),
    Primitive.FLOAT64: ("d", 8),
}
"""`struct` format letter and size in bytes of the types that need no length."""
