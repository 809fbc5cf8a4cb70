"""What frames of each direction look like, for one who is in sync and for one who is not.

A search looks at every byte of what can be garbage, or made by an attacker to take long.
So a place must look like a frame to a pattern and to a few comparisons before anything is decoded
there, and decoding has a budget of bytes per byte that is searched.
"""

from __future__ import annotations

import re
from struct import Struct as Layout
from typing import Final

from fencepost.capture.conversation import Conversation
from fencepost.wire import api
from fencepost.wire.errors import DecodeError
from fencepost.wire.frame import LENGTH_BYTES, read_request_header
from fencepost.wire.header import request_header_of

PROOF_BYTES_MAX: Final = 1 << 16
"""Larger requests are not decoded just to see whether they are any."""

PROOF_BYTES_PER_BYTE: Final = 4
"""How many bytes may be decoded in a search, for each byte that is searched."""

_HEAD = Layout(">ihhih")  # length, API key, version, correlation id, length of the client id
_HEAD_BYTES_MIN = 12  # the oldest header has no client id
_API = Layout(">hh")
_INT32 = Layout(">i")
# Numbers no API or version will reach soon, for frames of APIs that are newer than this program.
_API_KEY_MAX, _VERSION_MAX = 999, 99
_CLIENT_ID_BYTES_MAX = 255
# Length below 2^27, API key below 128, version below 64: what a search can look for quickly.
# The lengths 0 to 9 are left out: no header fits, and zeros are everywhere.
_REQUEST_START = re.compile(
    rb"(?=[\x00-\x07](?!\x00\x00[\x00-\x09])...\x00[\x00-\x7f]\x00[\x00-\x3f])", re.DOTALL
)
# Above 2^24 bytes it is more likely to be no length at all; below 4 there is no correlation id.
_RESPONSE_START = re.compile(rb"(?=\x00(?!\x00\x00[\x00-\x03])...(....))", re.DOTALL)


class RequestDetector:
    """Frames of the client: API key, version and client id must make sense."""

    head_bytes = _HEAD.size

    def __init__(self, conversation: Conversation) -> None:
        self._conversation = conversation
        self._searched_bytes = 0
        self._proof_bytes = 0

    def fits(self, buf: bytearray, pos: int) -> bool:
        """See `framing.FrameDetector`."""
        if self._conversation.has_raw_tokens:
            return True
        if len(buf) - pos < _HEAD_BYTES_MIN:
            return False
        key, version = _API.unpack_from(buf, pos + LENGTH_BYTES)
        return 0 <= key <= _API_KEY_MAX and 0 <= version <= _VERSION_MAX

    def find(self, buf: bytearray, pos: int) -> int:
        """See `framing.FrameDetector`."""
        last = max(pos, len(buf) - self.head_bytes + 1)
        found = last
        for match in _REQUEST_START.finditer(buf, pos):
            at = match.start()
            if at >= last:
                break
            if self._begins_request(buf, at, pos):
                found = at
                break
        self._searched_bytes += found - pos
        return found

    def _begins_request(self, buf: bytearray, at: int, pos: int) -> bool:
        """Whether a request begins here: the header of one that we know, and proof of it.

        Data is full of zeros and small numbers, which make headers too. So either the whole request
        is there and can be decoded to its end, or the client has a name, as clients do. Only the
        name counts when the budget does not allow to decode it.
        """
        if not _has_plausible_head(buf, at):
            return False
        size = LENGTH_BYTES + _INT32.unpack_from(buf, at)[0]
        if size <= min(PROOF_BYTES_MAX, len(buf) - at):
            budget = PROOF_BYTES_PER_BYTE * (self._searched_bytes + len(buf) - pos)
            if self._proof_bytes + size <= budget:
                self._proof_bytes += size
                end = _request_end(bytes(memoryview(buf)[at : at + size]))
                if end is None or end == size:
                    return end is not None
        return _has_named_client(buf, at)


def _has_plausible_head(buf: bytearray, at: int) -> bool:
    """Whether API, version and the length of the client id are possible."""
    size, key, version, _, client_id_bytes = _HEAD.unpack_from(buf, at)
    if key not in api.API_NAMES:
        return False
    cls = api.request_class(key)
    if not cls.min_version <= version <= cls.max_version:
        return False
    if request_header_of(cls, version) == 0:  # without a client id
        return True
    left = size + LENGTH_BYTES - _HEAD.size
    return -1 <= client_id_bytes <= min(left, _CLIENT_ID_BYTES_MAX)


def _has_named_client(buf: bytearray, at: int) -> bool:
    _, key, version, correlation_id, client_id_bytes = _HEAD.unpack_from(buf, at)
    if request_header_of(api.request_class(key), version) == 0:
        return False
    begin = at + _HEAD.size
    name = buf[begin : begin + max(0, client_id_bytes)]
    if not name or len(name) < client_id_bytes or correlation_id < 0:
        return False
    try:
        return name.decode().isprintable()
    except UnicodeDecodeError:
        return False


def _request_end(frame: bytes) -> int | None:
    """Where the request that begins a frame ends; None if there is none."""
    try:
        header, pos = read_request_header(frame, LENGTH_BYTES)
        cls = api.request_class(header.request_api_key)
        version = header.request_api_version
        return cls.read(frame, pos, version, max_elements=len(frame))[1]
    except DecodeError:
        return None


class ResponseDetector:
    """Frames of the server: who is out of sync looks for an answer that is waited for."""

    head_bytes = LENGTH_BYTES + _INT32.size

    def __init__(self, conversation: Conversation) -> None:
        self._conversation = conversation

    def fits(self, buf: bytearray, pos: int) -> bool:
        """See `framing.FrameDetector`."""
        has_id = _INT32.unpack_from(buf, pos)[0] >= _INT32.size
        return has_id or self._conversation.has_raw_tokens

    def find(self, buf: bytearray, pos: int) -> int:
        """See `framing.FrameDetector`."""
        last = max(pos, len(buf) - self.head_bytes + 1)
        if not self._conversation.is_waiting:
            return last
        for match in _RESPONSE_START.finditer(buf, pos):
            (correlation_id,) = _INT32.unpack(match[1])
            if self._conversation.waits_for(correlation_id):
                return match.start()
        return last
