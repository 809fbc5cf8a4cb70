"""Requests, responses and SASL tokens of one connection, told apart and decoded.

A response says only whose it is: the correlation id of a request, which has its API and version.
Three exceptions make this more than a table:

* a produce request with acks=0 is never answered;
* ApiVersions in a version that the broker does not have is answered as version 0, with error 35;
* after SaslHandshake v0 tokens travel as frames without any header, until authentication is done
  and nobody says so: a token is what is no request (KIP-43; v1 wraps them, KIP-152).

Nothing here does I/O.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterator
from struct import Struct as Layout
from typing import Final, NamedTuple

from fencepost.cli.wire.documents import (
    Decoded,
    decode_request,
    decode_response,
    frame_error,
    read_header,
)
from fencepost.cli.wire.framing import LENGTH_BYTES, Cut
from fencepost.wire import api
from fencepost.wire.errors import DecodeError, ErrorCode, WireError
from fencepost.wire.header import API_VERSIONS_KEY
from fencepost.wire.json_form import JsonFormError

PENDING_MAX: Final = 10_000
"""Requests of one connection that wait for a response; the oldest is given up beyond it."""

_PRODUCE_KEY = 0
_SASL_HANDSHAKE_KEY = 17
_HEAD = Layout(">ihhi")
_INT32 = Layout(">i")
# Numbers no API or version will reach soon, for frames of APIs that are newer than this program.
_API_KEY_MAX, _VERSION_MAX = 999, 99
_HEADER_BYTES_MAX = 300  # with a name of 255 bytes
# Length below 2^27, API key below 128, version below 64: what a search can look for quickly.
# The lengths 0 to 9 are left out: no header fits, and zeros are everywhere.
_REQUEST_START = re.compile(
    rb"(?=[\x00-\x07](?!\x00\x00[\x00-\x09])...\x00[\x00-\x7f]\x00[\x00-\x3f])", re.DOTALL
)
_PROOF_BYTES_MAX = 1 << 16  # larger requests are not decoded just to see whether they are any


class Pending(NamedTuple):
    """A request that has been seen and not been answered."""

    api_key: int
    version: int
    time: float


class Item(NamedTuple):
    """A frame and what it is.

    `kind` is request, response, sasl_token or unmatched (a response to a request that was not
    seen). `decoded` is None for the last two, and when `error` says why it could not be decoded.
    """

    kind: str
    frame: Cut
    pending: Pending | None
    decoded: Decoded | None = None
    error: str | None = None


class Conversation:
    """One connection, frame by frame, in the order of the capture."""

    def __init__(self) -> None:
        self._pending: OrderedDict[int, Pending] = OrderedDict()
        self._has_raw_tokens = False

    @property
    def has_raw_tokens(self) -> bool:
        """Whether frames without any header can come."""
        return self._has_raw_tokens

    def pending_ids(self) -> Iterator[int]:
        """Correlation ids that a response can have."""
        return iter(self._pending)

    def from_client(self, frame: Cut, time: float) -> Item:
        """Take a frame that a client sent."""
        if len(frame.data) < _HEAD.size:
            return self._token_or_error("request", frame, "the frame is too small for a request")
        _, key, version, correlation_id = _HEAD.unpack_from(frame.data)
        pending = Pending(key, version, time)
        error = _missing_text(frame)
        decoded = None
        if error is None:
            decoded, error = _tried_request(frame.data)
        if self._has_raw_tokens and (decoded is None or decoded.trailing_bytes):
            return self._token_or_error("request", frame, error or "")
        self._has_raw_tokens = key == _SASL_HANDSHAKE_KEY and version == 0
        if not _is_unanswered(key, decoded):
            self._pending[correlation_id] = pending
            self._pending.move_to_end(correlation_id)
            if len(self._pending) > PENDING_MAX:
                self._pending.popitem(last=False)
        return Item("request", frame, pending, decoded, error)

    def from_server(self, frame: Cut) -> Item:
        """Take a frame that a server sent."""
        if len(frame.data) < LENGTH_BYTES + _INT32.size:
            return self._token_or_error("unmatched", frame, "the frame is too small for a response")
        (correlation_id,) = _INT32.unpack_from(frame.data, LENGTH_BYTES)
        pending = self._pending.pop(correlation_id, None)
        if pending is None:
            reason = f"no request with correlation id {correlation_id} was seen before"
            return self._token_or_error("unmatched", frame, reason)
        decoded = None
        error = _missing_text(frame)
        if error is None:
            decoded, error = _tried_response(pending, frame.data)
        return Item("response", frame, pending, decoded, error)

    def _token_or_error(self, kind: str, frame: Cut, error: str) -> Item:
        if self._has_raw_tokens and not frame.missing:
            return Item("sasl_token", frame, None)
        return Item(kind, frame, None, None, _missing_text(frame) or error)


def _missing_text(frame: Cut) -> str | None:
    if not frame.missing:
        return None
    return f"{frame.missing} of its {len(frame.data) + frame.missing} bytes are not there"


def _is_unanswered(key: int, decoded: Decoded | None) -> bool:
    return key == _PRODUCE_KEY and decoded is not None and decoded.document["body"]["acks"] == 0


def _tried_request(data: bytes) -> tuple[Decoded | None, str | None]:
    try:
        return decode_request(data), None
    except (WireError, JsonFormError) as error:
        return None, frame_error(error)


def _tried_response(pending: Pending, data: bytes) -> tuple[Decoded | None, str | None]:
    try:
        return _response(pending, data), None
    except (WireError, JsonFormError) as error:
        return None, frame_error(error)


def _response(pending: Pending, data: bytes) -> Decoded:
    key, version = pending.api_key, pending.version
    if key not in api.API_NAMES:
        raise DecodeError(f"no API has the number {key}")
    cls = api.response_class(key)
    is_known = cls.min_version <= version <= cls.max_version
    if key == API_VERSIONS_KEY and version != 0:
        error = data[8:10]
        if not is_known or error == ErrorCode.UNSUPPORTED_VERSION.to_bytes(2, "big"):
            try:
                return decode_response(key, 0, data)
            except DecodeError:
                if not is_known:
                    raise
    return decode_response(key, version, data)


# -- what frames look like -------------------------------------------------------------------


class RequestSigns:
    """Frames of the client: API key, version and client id must make sense."""

    head_bytes = 14

    def __init__(self, conversation: Conversation) -> None:
        self._conversation = conversation

    def fits(self, buf: bytearray, pos: int) -> bool:
        """See `framing.Signs`."""
        if self._conversation.has_raw_tokens:
            return True
        if len(buf) - pos < _HEAD.size:
            return False
        _, key, version, _ = _HEAD.unpack_from(buf, pos)
        return 0 <= key <= _API_KEY_MAX and 0 <= version <= _VERSION_MAX

    def find(self, buf: bytearray, pos: int) -> int:
        """See `framing.Signs`."""
        last = max(pos, len(buf) - self.head_bytes + 1)
        for match in _REQUEST_START.finditer(buf, pos):
            at = match.start()
            if at >= last:
                break
            if _begins_request(buf, at):
                return at
        return last


def _begins_request(buf: bytearray, at: int) -> bool:
    """Whether a request begins here: a header of a known API and version, and proof of it.

    Data is full of zeros and small numbers, which make headers too. So either the whole request is
    there and can be decoded to its end, or the client has a name, as clients do.
    """
    size = LENGTH_BYTES + _HEAD.unpack_from(buf, at)[0]
    is_whole = len(buf) - at >= size and size <= _PROOF_BYTES_MAX
    try:
        header, _ = read_header(buf[at : at + min(size, _HEADER_BYTES_MAX)])
        if is_whole and not decode_request(buf[at : at + size]).trailing_bytes:
            return True
    except (WireError, JsonFormError, IndexError):
        return False
    return header.correlation_id >= 0 and (header.client_id or "\0").isprintable()


class ResponseSigns:
    """Frames of the server: who is out of step looks for an answer that is waited for."""

    head_bytes = 8

    def __init__(self, conversation: Conversation) -> None:
        self._conversation = conversation

    def fits(self, buf: bytearray, pos: int) -> bool:
        """See `framing.Signs`."""
        has_id = _INT32.unpack_from(buf, pos)[0] >= _INT32.size
        return has_id or self._conversation.has_raw_tokens

    def find(self, buf: bytearray, pos: int) -> int:
        """See `framing.Signs`."""
        found = max(pos, len(buf) - self.head_bytes + 1)
        for correlation_id in self._conversation.pending_ids():
            digits = _INT32.pack(correlation_id)
            at = buf.find(digits, pos + LENGTH_BYTES, found + LENGTH_BYTES + _INT32.size)
            while at >= 0:
                start = at - LENGTH_BYTES
                # Above 2^24 bytes it is more likely to be no length at all.
                if start < found and buf[start] == 0 and any(buf[start + 1 : start + 4]):
                    found = start
                    break
                at = buf.find(digits, at + 1, found + LENGTH_BYTES + _INT32.size)
        return found
