"""Frames: an int32 length, a header, a message.

    request    length i32 | api_key i16 | api_version i16 | correlation_id i32 | client_id | [tags]
    response   length i32 | correlation_id i32 | [tags]

Which header goes with a message is a rule, not a field:

| header | when | what it has |
|---|---|---|
| request v0 | ControlledShutdown v0 only | no client id |
| request v1 | versions that are not flexible | client id: int16 length, -1 for null |
| request v2 | flexible versions | the same, and tagged fields |
| response v0 | not flexible, and ApiVersions always | correlation id |
| response v1 | flexible versions | the same, and tagged fields |

The client id is never compact, so that a server can read it even from a request whose version it
does not know. ApiVersions is answered under v0 at every version, because the client cannot know
yet what the server understands (KIP-511).

Kafka has no tagged header fields so far; those of strangers are checked and dropped.
"""

from __future__ import annotations

from struct import Struct as Packer
from typing import Final, NamedTuple, TypeVar

from fencepost.wire import api
from fencepost.wire.errors import DecodeError, EncodeError
from fencepost.wire.message import Message
from fencepost.wire.runtime import Malformed, read_uvarint
from fencepost.wire.types import MAX_STRING_BYTES, Buffer

API_VERSIONS_KEY: Final = 18
CONTROLLED_SHUTDOWN_KEY: Final = 7
MAX_FRAME_BYTES: Final = 0x7FFFFFFF

_FIXED = Packer(">hhi")
_LENGTH = Packer(">h")
_REQUEST_PREFIX = Packer(">ihhi")
_RESPONSE_PREFIX = Packer(">ii")

M = TypeVar("M", bound=Message)


class RequestHeader(NamedTuple):
    """What stands before every request.

    `known` says whether we have messages for the API at all; whether the version is one of theirs
    is for whoever serves it to decide.
    """

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    known: bool = True


def read_request_header(buf: Buffer, pos: int = 0) -> tuple[RequestHeader, int]:
    """The header of the request that begins at `pos` (behind the length), and where its body does.

    Of an API we do not know only the part before the tags is read, since nothing tells whether
    there are any. DecodeError when the header is cut off or malformed.
    """
    if len(buf) - pos < _FIXED.size:
        raise DecodeError("a request header takes 8 bytes or more", "header", pos)
    api_key, api_version, correlation_id = _FIXED.unpack_from(buf, pos)
    pos += _FIXED.size
    known = api_key in api.API_NAMES
    if api_key == CONTROLLED_SHUTDOWN_KEY and api_version == 0:
        return RequestHeader(api_key, api_version, correlation_id, None, known), pos
    client_id, pos = _read_client_id(buf, pos)
    if known and api.request_class(api_key).is_flexible(api_version):
        pos = _skip_tags(buf, pos)
    return RequestHeader(api_key, api_version, correlation_id, client_id, known), pos


def encode_request(
    message: Message, version: int, correlation_id: int, client_id: str | None
) -> bytes:
    """A request with header and length prefix, in one piece."""
    return b"".join(encode_request_parts(message, version, correlation_id, client_id))


def encode_request_parts(
    message: Message, version: int, correlation_id: int, client_id: str | None
) -> list[Buffer]:
    """A request with header and length prefix, in pieces; records are not copied.

    EncodeError for a client id of more than 32767 bytes or a correlation id that is no int32. The
    client id is left out where the header has no place for it, before ControlledShutdown v0.
    """
    cls = type(message)
    if cls.kind != "request" or cls.api_key is None:
        raise TypeError(f"{cls.__name__} is not a request")
    body = message.encode_parts(version)
    has_client_id = cls.api_key != CONTROLLED_SHUTDOWN_KEY or version != 0
    rest = _encode_client_id(client_id) if has_client_id else b""
    if cls.is_flexible(version):
        rest += b"\x00"
    size = _FIXED.size + len(rest) + _size(body)
    _check(size, correlation_id)
    return _prepend(_REQUEST_PREFIX.pack(size, cls.api_key, version, correlation_id) + rest, body)


def encode_response_parts(message: Message, version: int, correlation_id: int) -> list[Buffer]:
    """A response with header and length prefix, in pieces; records are not copied."""
    cls = type(message)
    if cls.kind != "response":
        raise TypeError(f"{cls.__name__} is not a response")
    body = message.encode_parts(version)
    tags = b"\x00" if _has_response_tags(cls, version) else b""
    size = 4 + len(tags) + _size(body)
    _check(size, correlation_id)
    return _prepend(_RESPONSE_PREFIX.pack(size, correlation_id) + tags, body)


def decode_response(
    cls: type[M], version: int, frame: Buffer, *, allow_trailing: bool = False
) -> tuple[int, M]:
    """Correlation id and message of a response frame (without its length prefix).

    DecodeError also for bytes left over, unless `allow_trailing`: Kafka's own clients ignore them,
    and some servers rely on it (librdkafka's mock cluster ends Metadata with one zero too many).
    """
    if len(frame) < 4:
        raise DecodeError("a response header takes 4 bytes or more", "header", 0)
    correlation_id = int.from_bytes(frame[:4], "big", signed=True)
    pos = _skip_tags(frame, 4) if _has_response_tags(cls, version) else 4
    message, end = cls.read(frame, pos, version)
    if end != len(frame) and not allow_trailing:
        raise DecodeError(f"{len(frame) - end} bytes left over", "", end)
    return correlation_id, message


def _has_response_tags(cls: type[Message], version: int) -> bool:
    return cls.api_key != API_VERSIONS_KEY and cls.is_flexible(version)


def _size(parts: list[Buffer]) -> int:
    return sum(map(len, parts))


def _check(size: int, correlation_id: int) -> None:
    if size > MAX_FRAME_BYTES:
        raise EncodeError(f"a frame of {size} bytes, at most {MAX_FRAME_BYTES}")
    if not -0x80000000 <= correlation_id <= 0x7FFFFFFF:
        raise EncodeError(f"{correlation_id} does not fit into int32", "correlation_id")


def _prepend(prefix: bytes, body: list[Buffer]) -> list[Buffer]:
    """Put `prefix` before a body, in one piece with its first bytes (never a copy of records)."""
    if body and type(body[0]) is bytes and len(body[0]) <= _SMALL_BYTES:
        return [prefix + body[0], *body[1:]]
    return [prefix, *body]


_SMALL_BYTES: Final = 1 << 14
"""Pieces up to this size are cheaper to copy than to hand to the kernel one by one."""


def _encode_client_id(client_id: str | None) -> bytes:
    if client_id is None:
        return _LENGTH.pack(-1)
    encoded = client_id.encode()
    if len(encoded) > MAX_STRING_BYTES:
        raise EncodeError(f"takes {len(encoded)} bytes, at most {MAX_STRING_BYTES}", "client_id")
    return _LENGTH.pack(len(encoded)) + encoded


def _read_client_id(buf: Buffer, pos: int) -> tuple[str | None, int]:
    if len(buf) - pos < _LENGTH.size:
        raise DecodeError("cut off", "header.client_id", pos)
    (size,) = _LENGTH.unpack_from(buf, pos)
    start, stop = pos + _LENGTH.size, pos + _LENGTH.size + size
    if size == -1:
        return None, start
    if size < 0 or stop > len(buf):
        raise DecodeError(f"claims {size} bytes", "header.client_id", pos)
    try:
        return str(buf[start:stop], "utf-8"), stop
    except UnicodeDecodeError as error:
        raise DecodeError(f"not UTF-8: {error.reason}", "header.client_id", pos) from None


def _skip_tags(buf: Buffer, pos: int) -> int:
    """The position behind the tagged fields of a header."""
    if pos < len(buf) and buf[pos] == 0:
        return pos + 1
    count, pos = _read_uvarint(buf, pos)
    last = -1
    for _ in range(count):
        start = pos
        tag, pos = _read_uvarint(buf, pos)
        size, pos = _read_uvarint(buf, pos)
        if tag <= last:
            raise DecodeError(f"tag {tag} comes after tag {last}", _TAGS, start)
        if size > len(buf) - pos:
            raise DecodeError(f"tag {tag} takes {size} bytes", _TAGS, start)
        last = tag
        pos += size
    return pos


_TAGS: Final = "header.unknown_tags"


def _read_uvarint(buf: Buffer, pos: int) -> tuple[int, int]:
    try:
        return read_uvarint(buf, pos)
    except (Malformed, IndexError):
        raise DecodeError("not a varint of 32 bits", _TAGS, pos) from None
