"""Frames of requests and responses to make streams of."""

from __future__ import annotations

from fencepost.capture.conversation import Conversation
from fencepost.capture.frame_detection import RequestDetector
from fencepost.capture.framing import FrameCutter
from fencepost.wire.api import (
    HeartbeatRequest,
    HeartbeatResponse,
)
from fencepost.wire.frame import encode_request, encode_response_parts
from fencepost.wire.message import Message

FRAME_BYTES_MAX = 1 << 20


def request(message: Message, version: int, correlation_id: int) -> bytes:
    return encode_request(message, version, correlation_id, "client-1")


def response(message: Message, version: int, correlation_id: int) -> bytes:
    return b"".join(encode_response_parts(message, version, correlation_id))


def heartbeats(count: int, member: str = "m") -> tuple[list[bytes], list[bytes]]:
    """Requests and their responses; correlation ids 1000, 1001, and so on."""
    ids = range(1000, 1000 + count)
    asked = [request(HeartbeatRequest(group_id="g", member_id=member), 3, i) for i in ids]
    return asked, [response(HeartbeatResponse(error_code=0), 3, i) for i in ids]


def cutter(*, in_sync: bool = True) -> FrameCutter:
    """Cuts the frames of a client, of which nothing is known yet."""
    return FrameCutter(RequestDetector(Conversation()), FRAME_BYTES_MAX, in_sync=in_sync)
