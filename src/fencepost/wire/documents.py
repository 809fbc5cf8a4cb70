"""Messages and frames as JSON documents.

    body       {"message": "FetchRequest", "version": 12, "body": {...}}
    request    {"request": "Fetch", "version": 12, "header": {...}, "body": {...}}
    response   {"response": "Fetch", "version": 12, "header": {...}, "body": {...}}

`header` and `body` are in the JSON form of messages. `trailing` has bytes behind a message that no
field declares, in base64: some clients and servers send them (librdkafka, when it asks for all
topics), and Kafka ignores them, as Fencepost does.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from fencepost.wire import api
from fencepost.wire.errors import DecodeError, WireError
from fencepost.wire.frame import LENGTH_BYTES, read_request_header
from fencepost.wire.header import (
    RequestHeader,
    ResponseHeader,
    request_header_of,
    response_header_of,
)
from fencepost.wire.json_form import JsonFormError, bytes_to_json, to_json
from fencepost.wire.message import Message
from fencepost.wire.types import Buffer

ELEMENTS_MAX: Final = 10_000_000
"""Array elements of one message: enough for any real one, and a bound for a hostile one."""

Document = dict[str, Any]


class Decoded(NamedTuple):
    """A message with its document.

    Bytes can be well-formed and still not be those that an encoder writes: a number in more bytes
    than it takes, a tag that only says its default. `differs_at` is the first byte that encoding
    will not give back, None when there is no such byte.
    """

    document: Document
    message: Message
    version: int
    differs_at: int | None
    trailing_bytes: int = 0


def decode_body(cls: type[Message], version: int, data: Buffer) -> Decoded:
    """A message without a header. Raises WireErrors."""
    message = cls.decode(data, version, max_elements=ELEMENTS_MAX)
    document = {"message": cls.__name__, "version": version, "body": to_json(message, version)}
    return Decoded(document, message, version, _first_difference(data, message.encode(version)))


def read_header(frame: Buffer, pos: int = LENGTH_BYTES) -> tuple[RequestHeader, int]:
    """The header of a request frame and where its body begins.

    Raises DecodeError, also for an unknown API or version, since what comes before the
    body depends on them.
    """
    request_class_of(frame, pos)
    return read_request_header(frame, pos)


def request_class_of(frame: Buffer, pos: int = LENGTH_BYTES) -> type[Message]:
    """Of which class a request is, as its header begins. Raises DecodeError as `read_header`."""
    if len(frame) - pos < 8:
        raise DecodeError("a request header takes 8 bytes or more", "header", pos)
    key = int.from_bytes(frame[pos : pos + 2], "big", signed=True)
    version = int.from_bytes(frame[pos + 2 : pos + 4], "big", signed=True)
    if key not in api.API_NAMES:
        raise DecodeError(f"no API has the number {key}", "header.request_api_key", pos)
    cls = api.request_class(key)
    if not cls.min_version <= version <= cls.max_version:
        raise DecodeError(
            f"{cls.__name__} has no version {version}, only {cls.min_version} to {cls.max_version}",
            "header.request_api_version",
            pos + 2,
        )
    return cls


def request_class_or_none(frame: Buffer) -> type[Message] | None:
    """The same; None for bytes that are no request that there is."""
    try:
        return request_class_of(frame)
    except DecodeError:
        return None


def decode_request(frame: Buffer) -> Decoded:
    """A request from a frame with its length prefix. Raises DecodeError (see `frame_error`)."""
    header, pos = read_header(frame)
    key, version = header.request_api_key, header.request_api_version
    names = {"request": api.API_NAMES[key], "version": version}
    cls = api.request_class(key)
    return _framed(names, header, request_header_of(cls, version), cls, frame, pos)


def decode_response(api_key: int, version: int, frame: Buffer) -> Decoded:
    """A response from a frame with its length prefix. Raises DecodeError (see `frame_error`)."""
    cls = api.response_class(api_key)
    header_version = response_header_of(cls, version)
    header, pos = ResponseHeader.read(frame, LENGTH_BYTES, header_version)
    names = {"response": api.API_NAMES[api_key], "version": version}
    return _framed(names, header, header_version, cls, frame, pos)


def _framed(
    names: Document,
    header: Message,
    header_version: int,
    cls: type[Message],
    frame: Buffer,
    pos: int,
) -> Decoded:
    version = names["version"]
    message, end = cls.read(frame, pos, version, max_elements=ELEMENTS_MAX)
    document = {
        **names,
        "header": to_json(header, header_version),
        "body": to_json(message, version),
    }
    trailing = frame[end:]
    if len(trailing):
        document["trailing"] = bytes_to_json(trailing)
    again = bytes(frame[:LENGTH_BYTES]) + header.encode(header_version) + message.encode(version)
    differs_at = _first_difference(frame[:end], again)
    return Decoded(document, message, version, differs_at, len(trailing))


def frame_error(error: WireError | JsonFormError) -> str:
    """What `str` says of an error, and that its position counts from where the frame begins."""
    if not isinstance(error, DecodeError):
        return str(error)
    where = f"{error.path}: " if error.path else ""
    return f"{where}{error.reason} (at byte {error.position} of the frame)"


def _first_difference(data: Buffer, again: bytes) -> int | None:
    if data == again:
        return None
    pairs = enumerate(zip(data, again))
    return next((at for at, (one, other) in pairs if one != other), min(len(data), len(again)))
