"""From a stream of bytes to frames, and from frames to requests with their responses."""

from __future__ import annotations

import struct
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from fencepost.cli.wire.conversation import Conversation
from fencepost.cli.wire.documents import encode_document
from fencepost.cli.wire.framing import Cut, FrameCutter, Skipped
from fencepost.cli.wire.signs import PROOF_BYTES_PER_BYTE, RequestSigns, ResponseSigns
from fencepost.wire.api import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    FetchRequest,
    HeartbeatRequest,
    HeartbeatResponse,
    MetadataRequest,
    ProduceRequest,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from fencepost.wire.header import RequestHeader

from .wire_messages import FRAME_BYTES_MAX, heartbeats, request, response

# -- framing ---------------------------------------------------------------------------------


def cutter(*, is_in_step: bool = True) -> FrameCutter:
    return FrameCutter(RequestSigns(Conversation()), FRAME_BYTES_MAX, is_in_step=is_in_step)


@pytest.mark.parametrize("piece", [1, 2, 3, 7, 64, 10_000])
def test_frames_come_out_however_the_bytes_come_in(piece: int):
    frames, _ = heartbeats(5)
    data = b"".join(frames)
    cut = cutter()
    found = [
        one for at in range(0, len(data), piece) for one in cut.feed(data[at : at + piece])
    ]  # fmt: skip
    assert found == [Cut(frame) for frame in frames]
    assert list(cut.close()) == [] and cut.held_bytes == 0


@pytest.mark.parametrize("start", [0, 1, 5, 20, 30])
def test_who_joins_in_the_middle_begins_with_the_next_frame(start: int):
    frames, _ = heartbeats(4)
    data = b"".join(frames)[start:]
    whole = frames if start == 0 else frames[1:]
    found = list(cutter(is_in_step=False).feed(data))
    skipped = len(data) - sum(map(len, whole))
    assert found == [
        *([Skipped(skipped, "joined in the middle")] if skipped else []),
        *map(Cut, whole),
    ]


def test_a_gap_within_one_frame_costs_one_frame():
    frames, _ = heartbeats(3, member="m" * 300)
    cut = cutter()
    found = list(cut.feed(frames[0] + frames[1][:40]))
    found += cut.gap(100)
    found += cut.gap(20)
    found += cut.feed(frames[1][160:] + frames[2])
    assert found == [
        Cut(frames[0]),
        Cut(frames[1][:40], len(frames[1]) - 40),
        Cut(frames[2]),
    ]


def test_a_gap_over_several_frames_is_searched_through():
    frames, _ = heartbeats(6)
    cut = cutter()
    found = list(cut.feed(frames[0] + frames[1][:20]))
    found += cut.gap(len(frames[1]) - 20 + len(frames[2]) + 10)
    found += cut.feed(frames[3][10:] + frames[4] + frames[5])
    lost = len(frames[2]) + 10 + len(frames[3]) - 10
    assert found == [
        Cut(frames[0]),
        Cut(frames[1][:20], len(frames[1]) - 20),
        Skipped(lost, "missing in the capture"),
        Cut(frames[4]),
        Cut(frames[5]),
    ]


def test_garbage_between_frames_is_skipped_and_counted():
    frames, _ = heartbeats(2)
    garbage = b"\x7f\xff\xff\xff" + b"GET / HTTP/1.1\r\n" * 9
    found = list(cutter().feed(frames[0] + garbage + frames[1]))
    assert found == [
        Cut(frames[0]),
        Skipped(len(garbage), "no frame of Kafka's"),
        Cut(frames[1]),
    ]


def test_zeros_and_small_numbers_are_no_frames():
    (frame,), _ = heartbeats(1)
    for filler in (bytes(3000), b"\0\1" * 3000, b"\0\0\0\x10" * 3000):
        cut = cutter(is_in_step=False)
        found = [*cut.feed(filler + frame), *cut.close()]
        assert found == [Skipped(len(filler), "joined in the middle"), Cut(frame)]


def test_tls_is_called_by_its_name():
    cut = cutter()
    assert list(cut.feed(b"\x16\x03\x01\x02\x00" + bytes(range(256)) * 4)) == []
    (skipped,) = cut.close()
    assert skipped == Skipped(5 + 1024, "TLS")


def test_the_end_of_a_frame_is_missing_at_the_end():
    frames, _ = heartbeats(1)
    cut = cutter()
    assert list(cut.feed(frames[0][:-1])) == []
    assert list(cut.close()) == [Skipped(len(frames[0]) - 1, "the end of a frame is missing")]


@settings(max_examples=200, deadline=None, database=None)
@given(
    st.lists(st.binary(max_size=60) | st.integers(1, 2**31) | st.just("frame"), max_size=12),
    st.booleans(),
)
def test_every_byte_is_in_a_frame_or_counted(parts: list[Any], is_in_step: bool):
    (frame,), _ = heartbeats(1)
    cut = cutter(is_in_step=is_in_step)
    found: list[Cut | Skipped] = []
    total = 0
    for part in parts:
        if isinstance(part, int):
            found += cut.gap(part)
            total += part
        else:
            data = frame if part == "frame" else part
            found += cut.feed(data)
            total += len(data)
    found += cut.close()
    counted = sum(
        one.size if isinstance(one, Skipped) else len(one.data) + one.missing for one in found
    )
    # A frame whose end is missing counts in full, also if the capture ends before it does.
    last_missing = max((one.missing for one in found if isinstance(one, Cut)), default=0)
    assert total <= counted <= total + last_missing


# -- conversations ---------------------------------------------------------------------------


def test_responses_find_their_requests_in_any_order():
    asked, answers = heartbeats(3)
    talk = Conversation()
    for time, frame in enumerate(asked):
        item = talk.from_client(Cut(frame), float(time))
        assert item.kind == "request" and item.error is None
    for index in (1, 0, 2):
        item = talk.from_server(Cut(answers[index]))
        assert (item.kind, item.error) == ("response", None)
        assert item.pending is not None and item.pending.time == index
        assert item.decoded is not None
        assert item.decoded.document["header"] == {"correlation_id": 1000 + index}
    again = talk.from_server(Cut(answers[0]))
    assert again.kind == "unmatched"
    assert again.error == "no request with correlation id 1000 was seen before"


def test_acks_0_is_not_waited_for():
    talk = Conversation()
    for acks, is_waited_for in ((0, False), (1, True)):
        talk.from_client(Cut(request(ProduceRequest(acks=acks), 9, 5 + acks)), 0.0)
        assert talk.waits_for(5 + acks) == is_waited_for


@pytest.mark.parametrize("version", [3, 99])
def test_api_versions_falls_back_to_version_0(version: int):
    asked = bytearray(request(ApiVersionsRequest(), 3, 1))
    asked[6:8] = version.to_bytes(2, "big")
    talk = Conversation()
    item = talk.from_client(Cut(bytes(asked)), 0.0)
    assert (item.error is None) == (version == 3)
    answer = talk.from_server(Cut(response(ApiVersionsResponse(error_code=35), 0, 1)))
    assert answer.decoded is not None and answer.decoded.version == 0
    assert answer.decoded.document["body"]["error_code"] == 35


def test_tokens_after_sasl_handshake_v0():
    talk = Conversation()
    handshake = SaslHandshakeRequest(mechanism="PLAIN")
    talk.from_client(Cut(request(handshake, 0, 1)), 0.0)
    assert talk.from_server(Cut(response(SaslHandshakeResponse(), 0, 1))).kind == "response"
    token = b"\x00user\x00secret"
    client = Cut(len(token).to_bytes(4, "big") + token)
    assert talk.from_client(client, 0.0).kind == "sasl_token"
    assert talk.from_server(Cut(bytes(4))).kind == "sasl_token"  # an empty one
    asked, answers = heartbeats(1)
    assert talk.from_client(Cut(asked[0]), 0.0).kind == "request"
    assert talk.from_server(Cut(answers[0])).kind == "response"
    assert talk.from_client(client, 0.0).kind == "request"  # from here on it is a bad request


def test_handshake_v1_brings_no_raw_tokens():
    talk = Conversation()
    talk.from_client(Cut(request(SaslHandshakeRequest(mechanism="PLAIN"), 1, 1)), 0.0)
    assert not talk.has_raw_tokens


def test_what_a_server_sends_too_much_is_kept():
    asked, answers = heartbeats(1)
    talk = Conversation()
    talk.from_client(Cut(asked[0]), 0.0)
    longer = (len(answers[0]) - 3).to_bytes(4, "big") + answers[0][4:] + b"\0"
    item = talk.from_server(Cut(longer))
    assert item.decoded is not None and item.decoded.document["trailing"] == "AA=="
    (part,) = encode_document(item.decoded.document)
    assert part.data == longer


def test_what_a_client_sends_too_much_is_kept():
    asked, _ = heartbeats(1)
    longer = (len(asked[0]) - 1).to_bytes(4, "big") + asked[0][4:] + b"\1\0\0"
    item = Conversation().from_client(Cut(longer), 0.0)
    assert (item.kind, item.error) == ("request", None)
    assert item.decoded is not None and item.decoded.document["trailing"] == "AQAA"
    (part,) = encode_document(item.decoded.document)
    assert part.data == longer
    # Joined in the middle, it is a request all the same: the client has a name.
    assert list(cutter(is_in_step=False).feed(b"\xff" * 9 + longer))[1] == Cut(longer)


def test_an_api_from_the_future_is_passed_through():
    frame = bytearray(request(HeartbeatRequest(), 3, 77))
    frame[4:6] = (998).to_bytes(2, "big")
    talk = Conversation()
    item = talk.from_client(Cut(bytes(frame)), 0.0)
    assert (
        item.error == "header.request_api_key: no API has the number 998 (at byte 4 of the frame)"
    )
    answer = talk.from_server(Cut(response(HeartbeatResponse(), 3, 77)))
    assert answer.kind == "response" and answer.error is not None


def test_a_damaged_request_still_explains_its_response():
    asked, answers = heartbeats(1)
    talk = Conversation()
    item = talk.from_client(Cut(asked[0][:20], len(asked[0]) - 20), 0.0)
    assert item.error == f"{len(asked[0]) - 20} of its {len(asked[0])} bytes are not there"
    assert talk.from_server(Cut(answers[0])).decoded is not None


def test_requests_without_an_answer_are_bounded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("fencepost.cli.wire.conversation.PENDING_MAX", 3)
    talk = Conversation()
    for frame in heartbeats(5)[0]:
        talk.from_client(Cut(frame), 0.0)
    assert [i for i in range(1000, 1005) if talk.waits_for(i)] == [1002, 1003, 1004]


def test_responses_are_found_again_by_what_is_waited_for():
    asked, answers = heartbeats(3)
    talk = Conversation()
    for frame in asked:
        talk.from_client(Cut(frame), 0.0)
    lost = FrameCutter(ResponseSigns(talk), FRAME_BYTES_MAX, is_in_step=False)
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
    cut = cutter(is_in_step=False)
    found = [
        one for at in range(0, len(garbage), 9000) for one in cut.feed(garbage[at : at + 9000])
    ]  # fmt: skip
    skipped = [one.size for one in [*found, *cut.close()] if isinstance(one, Skipped)]
    assert sum(skipped) == len(garbage)
    assert decoded_bytes <= 2 * PROOF_BYTES_PER_BYTE * len(garbage)  # header and body


def test_a_frame_of_a_client_with_a_name_is_found_when_nothing_more_may_be_decoded():
    (frame,), _ = heartbeats(1)
    garbage = HOSTILE_HEADS["a request of 1792 topics"] * 10_000
    assert list(cutter(is_in_step=False).feed(garbage + frame))[1] == Cut(frame)


def test_a_search_for_responses_looks_once_at_each_byte_however_many_are_waited_for():
    talk = CountingConversation()
    for frame in heartbeats(3000)[0]:
        talk.from_client(Cut(frame), 0.0)
    data = CountedBytes((b"\0\0\x01" + bytes(range(256))) * 16)
    signs = ResponseSigns(talk)
    assert signs.find(data, 0) == len(data) - signs.head_bytes + 1
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
