"""Frames: an int32 length, a header, a message.

| | request | response |
|---|---|---|
| a header alone | `read_request_header` | `read_response_header` |
| header and message | `decode_request` | `decode_response` |
| the whole frame | `encode_request` | `encode_response` |
| the same, records not copied | `encode_request_parts` | `encode_response_parts` |

What reads takes a frame without its length prefix, as it comes off a socket; what writes puts the
length in front. The headers are messages of their own, in `header`; which version of them goes with
a message is a rule, not a field, and is applied here. Of an API we have no messages for the header
is read as v1, without tags, since nothing tells whether there are any.

Tagged fields in headers, of which Kafka has none so far, are kept in the header's `unknown_tags`,
like those of any struct; who passes a frame on gives them back as `header_tags`.

Bytes behind a message are an error here, unless `allow_trailing`. Kafka's brokers and clients never
look whether any are left, and real peers rely on that: librdkafka, up to 2.16 at least, writes the
null of "all topics" in Metadata v9 and later as four bytes where one is due, so that three bytes
are left over (and the flag behind it is read as false); its mock cluster ends Metadata responses
with a zero too many.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from struct import Struct as Packer
from typing import Final, TypeVar

from fencepost.wire import api
from fencepost.wire.diagnose import negative, trailing_bytes
from fencepost.wire.errors import DecodeError, EncodeError, ErrorCode, TextDecodeError
from fencepost.wire.header import (
    API_VERSIONS_KEY,
    RequestHeader,
    ResponseHeader,
    request_header_version,
    response_header_version,
)
from fencepost.wire.layout import layout_of
from fencepost.wire.message import Message, Request
from fencepost.wire.runtime import ENCODE_FAILURES
from fencepost.wire.types import ELEMENTS_UNLIMITED, FIXED_CODES, Buffer

LENGTH_BYTES: Final = 4
"""The length before a frame; it does not count itself."""
MAX_FRAME_BYTES: Final = 0x7FFFFFFF
MAX_HEADER_TAGS: Final = 100
"""More tagged fields than this in a header are refused: on the wire they take three bytes each."""

_API = Packer(">hh")
_LENGTH = Packer(">i")
_UNSUPPORTED_VERSION: Final = ErrorCode.UNSUPPORTED_VERSION.to_bytes(2, "big")

M = TypeVar("M", bound=Message)


def read_request_header(
    buf: Buffer, pos: int = 0, *, cls: type[Message] | None = None, replaces_text: bool = False
) -> tuple[RequestHeader, int]:
    """The header of the request that begins at `pos` (behind the length), and where its body does.

    `cls` is the request's class where its key does not tell it, as that of a draft. A client id
    that is not UTF-8 is an error unless `replaces_text`, see `Message.read_replacing`. DecodeError
    when the header is cut off or malformed, ValueError for a negative `pos`.
    """
    if pos < 0:
        raise negative("pos")
    if len(buf) - pos < _API.size:
        raise DecodeError("a request header takes 8 bytes or more", "header", pos)
    key, api_version = _API.unpack_from(buf, pos)
    if cls is not None and cls.api_key is None:
        version = request_header_version(key, api_version, is_flexible=cls.is_flexible(api_version))
    else:
        version = _version_before_request(key, api_version)
    return _read_header(RequestHeader, buf, pos, version, replaces_text)


def read_response_header(
    cls: type[Message], version: int, buf: Buffer, pos: int = 0
) -> tuple[ResponseHeader, int]:
    """The header of the response that begins at `pos`, and where its body does.

    `cls` and `version` are those of the response: nothing in its bytes says them. DecodeError when
    the header is cut off or malformed.
    """
    return _read_header(ResponseHeader, buf, pos, _version_before_response(cls, version))


def decode_request(
    frame: Buffer, *, max_elements: int = ELEMENTS_UNLIMITED, allow_trailing: bool = False
) -> tuple[RequestHeader, Request[Message]]:
    """Header and message of a request frame.

    DecodeError when it is malformed, also for bytes left over unless `allow_trailing`;
    UnknownApiError and UnsupportedVersionError when the header, which `read_request_header` reads
    all the same, names an API or a version that there is not.
    """
    header, pos = read_request_header(frame)
    version = header.request_api_version
    cls = api.request_class(header.request_api_key)
    message, end = cls.read(frame, pos, version, max_elements=max_elements)
    if end != len(frame) and not allow_trailing:
        raise trailing_bytes(end, len(frame))
    return header, message


def decode_response(
    cls: type[M],
    version: int,
    frame: Buffer,
    *,
    max_elements: int = ELEMENTS_UNLIMITED,
    allow_trailing: bool = False,
) -> tuple[ResponseHeader, M]:
    """Header and message of a response frame; DecodeError when it is malformed.

    Bytes left over are an error too, unless `allow_trailing`. A server that does not know the
    version of an ApiVersions request answers error 35 in version 0 (KIP-511), so such an answer is
    read as that when it is none of `version`.
    """
    header, pos = _read_header(ResponseHeader, frame, 0, _version_before_response(cls, version))
    try:
        message, end = cls.read(frame, pos, version, max_elements=max_elements)
    except DecodeError:
        if cls.api_key != API_VERSIONS_KEY or bytes(frame[pos : pos + 2]) != _UNSUPPORTED_VERSION:
            raise
        message, end = cls.read(frame, pos, 0, max_elements=max_elements)
    if end != len(frame) and not allow_trailing:
        raise trailing_bytes(end, len(frame))
    return header, message


def encode_request(
    message: Message,
    version: int,
    correlation_id: int,
    client_id: str | None,
    *,
    header_tags: Mapping[int, bytes] | None = None,
) -> bytes:
    """A request with header and length prefix, in one piece."""
    parts = encode_request_parts(
        message, version, correlation_id, client_id, header_tags=header_tags
    )
    return b"".join(parts)


def encode_request_parts(
    message: Message,
    version: int,
    correlation_id: int,
    client_id: str | None,
    *,
    header_tags: Mapping[int, bytes] | None = None,
    api_key: int | None = None,
) -> list[Buffer]:
    """A request with header and length prefix, in pieces; records are not copied.

    `api_key` is that of a request whose class has none, as that of a draft.

    EncodeError for a client id of more than 32767 bytes, a correlation id that is no int32 and
    header tags where the header is not flexible. The one request whose header has no client id,
    ControlledShutdown v0, is sent without.
    """
    cls = type(message)
    key = api_key if cls.api_key is None else cls.api_key
    if cls.kind != "request" or key is None:
        raise TypeError(f"{cls.__name__} is not a request")
    body = message.encode_parts(version)
    header_version = (
        request_header_version(key, version, is_flexible=cls.is_flexible(version))
        if cls.api_key is None
        else _version_before_request(key, version)
    )
    header = RequestHeader(
        request_api_key=key,
        request_api_version=version,
        correlation_id=correlation_id,
        client_id=client_id if header_version else "",
        unknown_tags=dict(header_tags) if header_tags else None,
    )
    encoded = header.encode(header_version)
    size = len(encoded) + sum(map(len, body))
    _check_size(size)
    return _prepend(_LENGTH.pack(size) + encoded, body)


def encode_response(
    message: Message,
    version: int,
    correlation_id: int,
    *,
    header_tags: Mapping[int, bytes] | None = None,
) -> bytes:
    """A response with header and length prefix, in one piece."""
    return b"".join(
        encode_response_parts(message, version, correlation_id, header_tags=header_tags)
    )


def encode_response_parts(
    message: Message,
    version: int,
    correlation_id: int,
    *,
    header_tags: Mapping[int, bytes] | None = None,
) -> list[Buffer]:
    """A response with header and length prefix, in pieces; records are not copied.

    EncodeError for a correlation id that is no int32, and header tags where the header is not
    flexible.
    """
    cls = type(message)
    if cls.kind != "response":
        raise TypeError(f"{cls.__name__} is not a response")
    body = message.encode_parts(version)
    if header_tags:
        return _behind_tagged_header(body, cls, version, correlation_id, header_tags)
    return frame_response_parts(cls, body, version, correlation_id)


def frame_response_parts(
    cls: type[Message], body: list[Buffer], version: int, correlation_id: int
) -> list[Buffer]:
    """A response of this class, of which the body is encoded. EncodeError as above."""
    head = _response_head(cls, version)
    size = head.size - _LENGTH.size + sum(map(len, body))
    _check_size(size)
    try:
        return _prepend(head.pack(size, correlation_id), body)
    except ENCODE_FAILURES as error:
        ResponseHeader(correlation_id=correlation_id).encode(0)  # says what is wrong
        raise EncodeError(f"changed while it was being written: {error!r}") from None


def response_head_bytes(cls: type[Message], version: int) -> int:
    """The size of the length prefix and the header in front of a response without header tags."""
    return _response_head(cls, version).size


def _behind_tagged_header(
    body: list[Buffer],
    cls: type[Message],
    version: int,
    correlation_id: int,
    tags: Mapping[int, bytes],
) -> list[Buffer]:
    header = ResponseHeader(correlation_id=correlation_id, unknown_tags=dict(tags))
    encoded = header.encode(_version_before_response(cls, version))
    size = len(encoded) + sum(map(len, body))
    _check_size(size)
    return _prepend(_LENGTH.pack(size) + encoded, body)


# Asked for every frame. Strangers can send any key and version: what is kept is bounded.


@lru_cache(maxsize=1024)
def _version_before_request(api_key: int, version: int) -> int:
    is_flexible = api_key in api.API_NAMES and api.request_class(api_key).is_flexible(version)
    return request_header_version(api_key, version, is_flexible=is_flexible)


@lru_cache(maxsize=1024)
def _version_before_response(cls: type[Message], version: int) -> int:
    return response_header_version(cls.api_key, is_flexible=cls.is_flexible(version))


@lru_cache(maxsize=1024)
def _response_head(cls: type[Message], version: int) -> Packer:
    """Packs length and header of a response, as `ResponseHeader` declares it, in one call.

    A server does this for every answer. It works as long as the header is only numbers.
    """
    header_version = _version_before_response(cls, version)
    layout = layout_of(ResponseHeader, header_version, ResponseHeader.is_flexible(header_version))
    kinds = [slot.field.primitive for slot in layout.plain]
    codes = "".join(FIXED_CODES[kind][0] for kind in kinds if kind is not None)
    assert len(codes) == len(layout.plain)
    no_tags = "x" if layout.is_flexible else ""
    return Packer(f"{_LENGTH.format}{codes}{no_tags}")


def _read_header(
    cls: type[M], buf: Buffer, pos: int, version: int, replaces_text: bool = False
) -> tuple[M, int]:
    try:
        try:
            return cls.read(buf, pos, version, max_elements=MAX_HEADER_TAGS)
        except TextDecodeError:
            if not replaces_text:
                raise
        return cls.read_replacing(buf, pos, version, max_elements=MAX_HEADER_TAGS)
    except DecodeError as error:
        path = f"header.{error.path}" if error.path else "header"
        raise DecodeError(error.reason, path, error.position) from None


def _check_size(size: int) -> None:
    if size > MAX_FRAME_BYTES:
        raise EncodeError(f"a frame of {size} bytes, at most {MAX_FRAME_BYTES}")


def _prepend(prefix: bytes, body: list[Buffer]) -> list[Buffer]:
    """Put `prefix` before a body, in one piece with its first bytes (never a copy of records)."""
    if body and type(body[0]) is bytes and len(body[0]) <= _SMALL_BYTES:
        return [prefix + body[0], *body[1:]]
    return [prefix, *body]


_SMALL_BYTES: Final = 1 << 14
"""Pieces up to this size are cheaper to copy than to hand to the kernel one by one."""
