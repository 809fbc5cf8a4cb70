"""JSON documents around messages: what `decode` writes and `encode` reads.

    body       {"message": "FetchRequest", "version": 12, "body": {...}}
    request    {"request": "Fetch", "version": 12, "header": {...}, "body": {...}}
    response   {"response": "Fetch", "version": 12, "header": {...}, "body": {...}}
    SASL       {"sasl_token": "base64"}, a frame that is no message
    anything   {"raw": "base64"}, bytes that could not be decoded, frame and all
    record     {"record": "group", "key": {...}, "value": {...}}, see `stored`

`header` and `body` are in the JSON form of messages, and all of it is read back, also `trailing`:
bytes behind a message that nobody declared. Some clients and servers send them (librdkafka, when
it asks for all topics), and Kafka ignores them, as we do. What is only for people stands in the
keys of ANNOTATIONS beside them, which `encode` passes over.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from fencepost.cli.failures import InputError
from fencepost.cli.wire.convert import stored
from fencepost.cli.wire.convert.json_parts import check_version, encode_inner, text_of, version_of
from fencepost.cli.wire.lookup.headers import request_header_of, response_header_of
from fencepost.cli.wire.lookup.names import find_api, find_message
from fencepost.wire import api
from fencepost.wire.errors import DecodeError, WireError
from fencepost.wire.frame import LENGTH_BYTES, read_request_header
from fencepost.wire.header import RequestHeader, ResponseHeader
from fencepost.wire.json_form import JsonFormError, bytes_from_json, bytes_to_json, to_json
from fencepost.wire.message import Message
from fencepost.wire.types import Buffer

ANNOTATIONS: Final = frozenset({"capture", "decoded_records", "error_names"})
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

    Raises DecodeError, also for an API or version that nobody knows, since what comes before the
    body depends on them.
    """
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
    return read_request_header(frame, pos)


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


# -- back to bytes ---------------------------------------------------------------------------


class Part(NamedTuple):
    """Bytes of a document; a record has two parts, its key and its value (None is null)."""

    name: str
    data: bytes | None


def encode_document(document: Any) -> list[Part]:
    """The bytes that `document` was decoded from; none for one that has only annotations.

    Raises InputError and JsonFormError for what is no such document, EncodeError and
    UnsupportedVersionError for values that have no encoding.
    """
    if not isinstance(document, dict):
        raise InputError("a document is a JSON object")
    if document and document.keys() <= ANNOTATIONS:
        return []
    kinds = [kind for kind in _ENCODERS if kind in document]
    if len(kinds) != 1:
        raise InputError(f"a document has one of the keys {', '.join(_ENCODERS)}")
    keys, encode = _ENCODERS[kinds[0]]
    for key in document:
        if key not in keys and key not in ANNOTATIONS:
            raise JsonFormError(f"no key of a {kinds[0]}", key)
    for key in keys:
        if key not in document and key not in _OPTIONAL:
            raise JsonFormError("missing", key)
    return encode(document)


def _encode_body(document: Document) -> list[Part]:
    cls = find_message(text_of(document, "message"))
    version = version_of(document)
    return [Part("message", encode_inner(cls, version, document["body"], "body"))]


def _encode_request(document: Document) -> list[Part]:
    key = find_api(text_of(document, "request"))
    version = version_of(document)
    cls = api.request_class(key)
    check_version(cls, version)
    header = document["header"]
    if isinstance(header, dict):
        # What the document says twice must agree; what it says once is enough.
        header = {"request_api_key": key, "request_api_version": version, **header}
        for name, value in (("request_api_key", key), ("request_api_version", version)):
            if header[name] != value:
                raise JsonFormError(f"{header[name]!r}, but the document says {value}", name)
    prefix = encode_inner(RequestHeader, request_header_of(cls, version), header, "header")
    body = encode_inner(cls, version, document["body"], "body")
    return [Part("frame", _frame(prefix + body + _trailing(document)))]


def _encode_response(document: Document) -> list[Part]:
    cls = api.response_class(find_api(text_of(document, "response")))
    version = version_of(document)
    check_version(cls, version)
    header_version = response_header_of(cls, version)
    prefix = encode_inner(ResponseHeader, header_version, document["header"], "header")
    body = encode_inner(cls, version, document["body"], "body")
    return [Part("frame", _frame(prefix + body + _trailing(document)))]


def _trailing(document: Document) -> bytes:
    return bytes_from_json(document.get("trailing", ""), "trailing")


def _encode_token(document: Document) -> list[Part]:
    return [Part("frame", _frame(bytes_from_json(document["sasl_token"], "sasl_token")))]


def _encode_raw(document: Document) -> list[Part]:
    return [Part("raw", bytes_from_json(document["raw"], "raw"))]


def _encode_record(document: Document) -> list[Part]:
    return [Part(name, data) for name, data in stored.encode(document)]


def _frame(content: bytes) -> bytes:
    return len(content).to_bytes(4, "big") + content


_OPTIONAL: Final = frozenset({"trailing", "key", "value"})
"""Keys that need not be there; what a record needs is for `stored` to say."""

_ENCODERS: Final[dict[str, tuple[frozenset[str], Any]]] = {
    "message": (frozenset({"message", "version", "body"}), _encode_body),
    "request": (
        frozenset({"request", "version", "header", "body", "trailing"}),
        _encode_request,
    ),
    "response": (
        frozenset({"response", "version", "header", "body", "trailing"}),
        _encode_response,
    ),
    "sasl_token": (frozenset({"sasl_token"}), _encode_token),
    "raw": (frozenset({"raw"}), _encode_raw),
    "record": (frozenset({"record", "key", "value"}), _encode_record),
}
