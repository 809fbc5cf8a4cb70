"""Requests, responses and SASL tokens of one connection, told apart and decoded.

A response says only whose it is: the correlation id of a request, which has its API and version.
Three exceptions make this more than a table:

* a produce request with acks=0 is never answered;
* ApiVersions in a version that the broker does not have is answered as version 0, with error 35;
* after SaslHandshake v0 tokens travel as frames without any header until authentication is done,
  and no message says when it is: a token is what is no request (KIP-43; v1 wraps them, KIP-152).

Nothing here does I/O.
"""

from __future__ import annotations

from collections import OrderedDict
from struct import Struct as Layout
from typing import Final, NamedTuple

from fencepost.capture.framing import Cut
from fencepost.wire import api
from fencepost.wire.documents import Decoded, decode_request, decode_response, frame_error
from fencepost.wire.errors import DecodeError, ErrorCode, WireError
from fencepost.wire.frame import LENGTH_BYTES
from fencepost.wire.header import API_VERSIONS_KEY
from fencepost.wire.json_form import JsonFormError

PENDING_MAX: Final = 10_000
"""Requests of one connection that wait for a response; the oldest is given up beyond it."""

_PENDING_BYTES = 400  # what one of them takes, with its place in the table
_PRODUCE_KEY = 0
_SASL_HANDSHAKE_KEY = 17
_HEAD = Layout(">ihhi")
_INT32 = Layout(">i")


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

    @property
    def held_bytes(self) -> int:
        """Memory that the requests take which wait for a response."""
        return len(self._pending) * _PENDING_BYTES

    @property
    def is_waiting(self) -> bool:
        """Whether a response can come."""
        return bool(self._pending)

    def waits_for(self, correlation_id: int) -> bool:
        """Whether a response can have this correlation id."""
        return correlation_id in self._pending

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
