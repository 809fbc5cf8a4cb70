"""The JSON documents that `fencepost wire encode` reads, back to bytes.

Messages, requests and responses as `fencepost.wire.documents` has them, and besides:

    SASL       {"sasl_token": "base64"}, a frame that is no message
    anything   {"raw": "base64"}, bytes that could not be decoded, frame and all
    record     {"record": "group", "key": {...}, "value": {...}}, see `stored`

`header` and `body` are in the JSON form of messages, and all of it is read back, also `trailing`.
What is only for people is in the keys of ANNOTATIONS beside them, which `encode` passes over.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from fencepost.cli.failures import InputError
from fencepost.cli.wire.convert import stored
from fencepost.cli.wire.convert.json_parts import check_version, encode_inner, text_of, version_of
from fencepost.cli.wire.lookup.names import find_api, find_message
from fencepost.wire import api
from fencepost.wire.documents import Document
from fencepost.wire.header import (
    RequestHeader,
    ResponseHeader,
    request_header_of,
    response_header_of,
)
from fencepost.wire.json_form import JsonFormError, bytes_from_json

ANNOTATIONS: Final = frozenset({"capture", "decoded_records", "error_names"})


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
