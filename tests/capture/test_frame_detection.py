"""Where a frame begins, for one who is out of sync, and what the search may cost."""

from __future__ import annotations

import struct
from functools import partial
from typing import Any

import pytest

from fencepost.capture.conversation import Conversation
from fencepost.capture.frame_detection import (
    PROOF_BYTES_PER_BYTE,
    ResponseDetector,
)
from fencepost.capture.framing import Cut, FrameCutter, Skipped
from fencepost.wire.api import (
    ApiVersionsRequest,
    FetchRequest,
    MetadataRequest,
)
from fencepost.wire.header import RequestHeader

from .wire_messages import FRAME_BYTES_MAX, cutter, heartbeats


def test_responses_are_found_again_by_what_is_waited_for():
    asked, answers = heartbeats(3)
    talk = Conversation()
    for frame in asked:
        talk.from_client(Cut(frame), 0.0)
    lost = FrameCutter(ResponseDetector(talk), FRAME_BYTES_MAX, in_sync=False)
    found = list(lost.feed(b"\x01" * 37 + answers[1] + answers[2]))
    assert found == [Skipped(37, "joined in the middle"), Cut(answers[1]), Cut(answers[2])]


HOSTILE_HEADS = {
    "a request of 1792 topics": struct.pack(">ihhihiH", 0x7E00, 3, 0, 1, 0, 0x700, 18),
    "a nameless request of 64 KB": struct.pack(">ihhihi", 0xFFF0, 1, 4, 1, -1, -1),
    "a client id of 3 bytes": struct.pack(">ihhih", 0x0200, 18, 3, 1, 3) + b"\xff\xff\xff",
}


@pytest.mark.parametrize("head", HOSTILE_HEADS.values(), ids=HOSTILE_HEADS)
def test_a_search_decodes_a_few_bytes_for_each_that_it_searches(
    monkeypatch: pytest.MonkeyPatch, head: bytes
):
    decoded_bytes = 0

    def counted(frame: bytes, pos: int, *rest: Any, read: Any, **options: Any) -> Any:
        nonlocal decoded_bytes
        decoded_bytes += len(frame)
        return read(frame, pos, *rest, **options)

    for cls in (RequestHeader, MetadataRequest, FetchRequest, ApiVersionsRequest):
        monkeypatch.setattr(cls, "read", partial(counted, read=cls.read))
    garbage = head * (100_000 // len(head))
    cut = cutter(in_sync=False)
    found = [
        one for at in range(0, len(garbage), 9000) for one in cut.feed(garbage[at : at + 9000])
    ]  # fmt: skip
    skipped = [one.size for one in [*found, *cut.close()] if isinstance(one, Skipped)]
    assert sum(skipped) == len(garbage)
    assert decoded_bytes <= 2 * PROOF_BYTES_PER_BYTE * len(garbage)  # header and body


def test_a_frame_of_a_client_with_a_name_is_found_when_nothing_more_may_be_decoded():
    (frame,), _ = heartbeats(1)
    garbage = HOSTILE_HEADS["a request of 1792 topics"] * 10_000
    assert list(cutter(in_sync=False).feed(garbage + frame))[1] == Cut(frame)


def test_a_search_for_responses_looks_once_at_each_byte_however_many_are_waited_for():
    talk = CountingConversation()
    for frame in heartbeats(3000)[0]:
        talk.from_client(Cut(frame), 0.0)
    data = CountedBytes((b"\0\0\x01" + bytes(range(256))) * 16)
    detector = ResponseDetector(talk)
    assert detector.find(data, 0) == len(data) - detector.head_bytes + 1
    assert data.searches <= 1
    assert 0 < talk.looks <= len(data)


class CountingConversation(Conversation):
    """Counts how often it is asked for a correlation id."""

    looks = 0

    def waits_for(self, correlation_id: int) -> bool:
        self.looks += 1
        return super().waits_for(correlation_id)


class CountedBytes(bytearray):
    """Counts the searches that go through all of it."""

    searches = 0

    def find(self, *arguments: Any) -> int:
        self.searches += 1
        return super().find(*arguments)
