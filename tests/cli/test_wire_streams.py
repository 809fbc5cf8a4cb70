"""Captures without a capture file: packets, streams with every kind of damage, conversations."""

from __future__ import annotations

import gc
import random
import struct
from collections.abc import Iterable
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from fencepost.cli.wire.connections import Connections, Seen
from fencepost.cli.wire.conversation import Conversation, Item, Pending
from fencepost.cli.wire.documents import encode_document
from fencepost.cli.wire.framing import Cut, FrameCutter, Skipped
from fencepost.cli.wire.packets import Endpoint, Segment, dissect, link_types
from fencepost.cli.wire.reassembly import PATIENCE, Gap, Reassembler
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
from fencepost.wire.frame import encode_request, encode_response_parts
from fencepost.wire.header import RequestHeader
from fencepost.wire.message import Message

from .packet_maker import CLIENT, SERVER, PacketMaker, ethernet, tcp_over_ip, tcp_over_ip6

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


# -- packets ---------------------------------------------------------------------------------

IP4 = tcp_over_ip(CLIENT, SERVER, sequence=7, acknowledged=9, data=b"payload")
IP6 = tcp_over_ip6(CLIENT, SERVER, sequence=7, acknowledged=9, data=b"payload")
COOKED_1 = bytes(14)
COOKED_2 = struct.pack(">HH", 0x0800, 0) + bytes(16)


@pytest.mark.parametrize(
    ("link_type", "packet"),
    [
        (1, ethernet(IP4)),
        (1, ethernet(IP4) + bytes(9)),  # padding is no payload
        (1, bytes(12) + b"\x81\x00\x00\x05" + b"\x88\xa8\x00\x06" + b"\x08\x00" + IP4),
        (12, IP4),
        (101, IP4),
        (0, b"\x02\x00\x00\x00" + IP4),
        (108, b"\x00\x00\x00\x02" + IP4),
        (113, COOKED_1 + b"\x08\x00" + IP4),
        (276, COOKED_2 + IP4),
    ],
)
def test_every_link_type_leads_to_tcp(link_type: int, packet: bytes):
    assert link_type in link_types()
    assert dissect(link_type, packet) == Segment(
        Endpoint("10.0.0.1", 40000), Endpoint("10.0.0.2", 9092), 7, 9,
        is_syn=False, is_fin=False, is_rst=False, data=b"payload", size=7,
    )  # fmt: skip


def test_ipv6_and_its_extensions():
    plain = dissect(229, IP6)
    assert plain is not None
    assert str(plain.source) == "[fd00::a00:1]:40000" and plain.data == b"payload"
    # Hop-by-hop options, then a fragment header of a packet that is whole, then TCP.
    extensions = bytes([44, 0]) + bytes(6) + bytes([6, 0, 0, 0]) + bytes(4)
    length = struct.unpack_from(">H", IP6, 4)[0] + len(extensions)
    longer = IP6[:4] + struct.pack(">H", length) + b"\x00" + IP6[7:40] + extensions + IP6[40:]
    assert dissect(229, longer) == plain
    later_fragment = longer[:50] + b"\x00\x08" + longer[52:]
    assert dissect(229, later_fragment) is None


def test_a_segment_that_the_card_was_to_cut_has_no_length_in_its_header():
    offloaded = IP4[:2] + b"\x00\x00" + IP4[4:]
    segment = dissect(101, offloaded)
    assert segment is not None and segment.data == b"payload"


def test_a_snapshot_length_cuts_data_but_not_size():
    segment = dissect(101, IP4[:-4])
    assert segment is not None and (segment.data, segment.size) == (b"pay", 7)


@pytest.mark.parametrize(
    "packet",
    [
        b"",
        bytes(60),
        IP4[:30],
        IP4[:6] + b"\x20\x00" + IP4[8:],  # more fragments follow
        IP4[:9] + b"\x11" + IP4[10:],  # UDP
        b"\x41" + IP4[1:],  # a header of 4 bytes
        IP4[:32] + b"\x10" + IP4[33:],  # a TCP header of 4 bytes
        IP6[:6] + b"\x00" + IP6[7:41] + b"\xff" + IP6[42:],
    ],
)
def test_what_is_no_tcp(packet: bytes):
    assert dissect(101, packet) is None


@settings(max_examples=300, deadline=None, database=None)
@given(st.sampled_from(sorted(link_types())), st.binary(max_size=120))
def test_no_packet_breaks_the_dissector(link_type: int, packet: bytes):
    dissect(link_type, packet)
    dissect(link_type, bytes(16) + IP4[:20] + packet)


# -- reassembly ------------------------------------------------------------------------------


def joined(parts: Iterable[bytes | Gap]) -> bytes:
    return b"".join(b"?" * part.size if isinstance(part, Gap) else part for part in parts)


def test_in_order_and_across_the_end_of_sequence_numbers():
    stream = Reassembler(1000)
    stream.begin(2**32 - 2)
    assert stream.push(2**32 - 2, b"abc", 3) == [b"abc"]
    assert stream.push(1, b"de", 2) == [b"de"]
    assert stream.push(4, b"g", 1) == []
    assert stream.push(3, b"f", 1) == [b"f", b"g"]
    assert stream.held_bytes == 0


def test_retransmissions_and_overlaps_count_once():
    stream = Reassembler(1000)
    stream.begin(0)
    assert stream.push(0, b"abcd", 4) == [b"abcd"]
    assert stream.push(0, b"XXXX", 4) == []
    assert stream.push(3, b"Xe", 2) == [b"e"]
    assert stream.push(7, b"h", 1) == []
    assert stream.push(6, b"gh", 2) == []
    assert stream.push(6, b"g", 1) == []
    assert stream.push(5, b"f", 1) == [b"f", b"gh"]


def test_a_hole_that_was_acknowledged_is_given_up_after_a_while():
    stream = Reassembler(10_000)
    stream.begin(0)
    assert stream.push(2, b"c", 1) == []
    for at in range(3, 30):
        assert stream.push(at, b"x", 1) == []  # nobody has acknowledged it, so it may still come
    stream.acknowledge(20)
    found = [part for at in range(30, 31 + PATIENCE) for part in stream.push(at, b"y", 1)]
    assert found[0] == Gap(2)
    assert joined(found) == b"??c" + b"x" * 27 + b"y" * (1 + PATIENCE)


def test_what_is_held_back_is_bounded():
    stream = Reassembler(2000)
    stream.begin(0)
    found: list[bytes | Gap] = []
    for at in range(100, 100_000, 100):
        found += stream.push(at, b"x" * 50, 50)
        assert stream.held_bytes <= 2000 + 50 + 128
    assert found[:3] == [Gap(100), b"x" * 50, Gap(50)]


def test_what_the_snapshot_length_cut_is_a_gap():
    stream = Reassembler(1000)
    assert stream.push(50, b"ab", 5) == [b"ab", Gap(3)]
    assert stream.push(55, b"f", 1) == [b"f"]
    assert stream.push(57, b"h", 1) == []
    assert stream.flush() == [Gap(1), b"h"]


@settings(max_examples=200, deadline=None, database=None)
@given(st.binary(min_size=1, max_size=200), st.integers(0, 2**32 - 1), st.randoms())
def test_any_order_with_repetitions_gives_the_same_bytes(
    data: bytes, begin: int, dice: random.Random
):
    cuts = sorted(dice.sample(range(len(data) + 1), min(len(data), 5)))
    pieces = list(zip([0, *cuts], [*cuts, len(data)]))
    pieces += [(at, min(len(data), at + 7)) for at in dice.sample(range(len(data)), 1)]
    dice.shuffle(pieces)
    stream = Reassembler(1 << 20)
    stream.begin(begin)
    found: list[bytes | Gap] = []
    for start, end in pieces:
        found += stream.push((begin + start) % 2**32, data[start:end], end - start)
    assert joined(found) == data and stream.held_bytes == 0


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


# -- connections -----------------------------------------------------------------------------


def seen_of(packets: Iterable[bytes], **options: int) -> list[Seen]:
    connections = Connections([9092], FRAME_BYTES_MAX, **options)
    found: list[Seen] = []
    for time, packet in enumerate(packets):
        segment = dissect(1, packet)
        if segment is not None:
            found += connections.push(float(time), segment)
    return [*found, *connections.close(1e6)]


def kinds(found: list[Seen]) -> list[str]:
    return [
        one.what.kind if isinstance(one.what, Item) else f"skipped {one.what.size}" for one in found
    ]


def test_a_whole_connection_packet_by_packet():
    asked, answers = heartbeats(2)
    maker = PacketMaker(segment_bytes=10)
    packets = [
        *maker.open(),
        *maker.send(asked[0]),
        *maker.answer(answers[0]),
        *maker.send(asked[1]),
        *maker.answer(answers[1]),
        *maker.close(),
    ]
    found = seen_of(packets)
    assert kinds(found) == ["request", "response"] * 2
    assert all(one.connection == 0 for one in found)
    assert str(found[0].source) == "10.0.0.1:40000" == str(found[1].destination)


@pytest.mark.parametrize("seed", range(20))
def test_a_bad_network_changes_nothing(seed: int):
    """Reordered within a window, duplicated: every frame is there, each once."""
    dice = random.Random(seed)
    asked, answers = heartbeats(10)
    maker = PacketMaker(segment_bytes=25, first_sequence=2**32 - 100)
    packets = maker.open()
    body = [*maker.send(b"".join(asked)), *maker.answer(b"".join(answers))]
    body += dice.sample(body, 10)
    keyed = sorted((index + dice.uniform(0, 6), packet) for index, packet in enumerate(body))
    found = seen_of([*packets, *(packet for _, packet in keyed), *maker.close()])
    ids = [one.what.pending for one in found if isinstance(one.what, Item)]
    assert len(ids) == 20
    assert kinds(found).count("request") == 10
    assert not [kind for kind in kinds(found) if kind.startswith("skipped")]


@pytest.mark.parametrize("seed", range(20))
def test_lost_packets_cost_what_was_in_them(seed: int):
    dice = random.Random(seed)
    asked, answers = heartbeats(30)
    maker = PacketMaker(segment_bytes=40)
    packets = maker.open()
    for ask, answer in zip(asked, answers):
        packets += [*maker.send(ask), *maker.answer(answer)]
    lost = dice.sample(range(3, len(packets)), 5)
    found = seen_of(packet for index, packet in enumerate(packets) if index not in lost)
    whole = [one for one in found if isinstance(one.what, Item) and one.what.error is None]
    assert len(whole) >= 60 - 3 * len(lost)
    assert len({one.time for one in found}) > 20  # found as it goes, not only at the end


def test_joined_in_the_middle_of_a_frame():
    asked, answers = heartbeats(5)
    maker = PacketMaker()
    packets = maker.send(asked[0][7:])
    for ask, answer in zip(asked[1:], answers):  # the first answer is to a request never seen
        packets += [*maker.answer(answer), *maker.send(ask)]
    packets += maker.answer(answers[4])
    found = seen_of(packets)
    assert kinds(found).count("request") == kinds(found).count("response") == 4
    assert sum(one.what.size for one in found if isinstance(one.what, Skipped)) == (
        len(asked[0]) - 7 + len(answers[0])
    )


def test_ports_that_are_used_again_are_another_connection():
    asked, answers = heartbeats(1)
    first, second = PacketMaker(), PacketMaker(first_sequence=77_000)
    packets = []
    for maker in (first, second):
        packets += [*maker.open(), *maker.send(asked[0]), *maker.answer(answers[0])]
    found = seen_of(packets)
    assert [one.connection for one in found] == [0, 0, 1, 1]
    assert kinds(found) == ["request", "response"] * 2


def test_a_syn_that_comes_twice_is_one_connection():
    asked, _ = heartbeats(1)
    maker = PacketMaker()
    syn, *rest = maker.open()
    found = seen_of([syn, syn, *rest, syn, *maker.send(asked[0])])
    assert kinds(found) == ["request"] and found[0].connection == 0


def test_other_ports_are_passed_over():
    asked, _ = heartbeats(1)
    maker = PacketMaker(server=Endpoint("10.0.0.2", 80))
    assert seen_of([*maker.open(), *maker.send(asked[0])]) == []


def test_connections_and_memory_are_bounded():
    asked, _ = heartbeats(1, member="x" * 5000)
    makers = [PacketMaker(client=Endpoint("10.0.0.1", 30000 + i)) for i in range(50)]
    packets = [p for maker in makers for p in [*maker.open(), *maker.send(asked[0][:-1])]]
    connections = Connections([9092], FRAME_BYTES_MAX, held_bytes_max=20_000)
    given_up: list[Seen] = []
    for packet in packets:
        segment = dissect(1, packet)
        assert segment is not None
        given_up += connections.push(0.0, segment)
    assert len(given_up) == 50 - 3
    assert all(isinstance(one.what, Skipped) for one in given_up)
    assert len(list(connections.close(0.0))) == 3
    assert len(seen_of(packets, connections_max=4)) == 50


def held(kind: type[tuple[Any, ...]]) -> int:
    """How many objects of this class there are."""
    gc.collect()
    return sum(type(one) is kind for one in gc.get_objects())


def test_segments_without_data_are_not_held_without_end(monkeypatch: pytest.MonkeyPatch):
    """A server that acknowledges, byte by byte, what no client has sent."""
    monkeypatch.setattr("fencepost.cli.wire.connections.EARLY_BYTES_MAX", 70_000)
    connections = Connections([9092], FRAME_BYTES_MAX)
    before = held(Segment)
    for packet in PacketMaker(first_sequence=100).open()[:2]:
        segment = dissect(1, packet)
        assert segment is not None
        assert list(connections.push(0.0, segment)) == []
    for index in range(2000):
        answer = tcp_over_ip(SERVER, CLIENT, sequence=900_101, acknowledged=102 + index)
        segment = dissect(101, answer)
        assert segment is not None
        assert all(isinstance(one.what, Skipped) for one in connections.push(0.0, segment))
    assert held(Segment) - before <= 110


def test_requests_that_wait_in_many_connections_are_bounded():
    asked, _ = heartbeats(100)
    before = held(Pending)
    connections = Connections([9092], FRAME_BYTES_MAX, held_bytes_max=200_000)
    for port in range(30_000, 30_020):
        maker = PacketMaker(client=Endpoint("10.0.0.1", port))
        for packet in [*maker.open(), *maker.send(b"".join(asked))]:
            segment = dissect(1, packet)
            assert segment is not None
            assert all(one.what.kind == "request" for one in connections.push(0.0, segment))
    assert 100 <= held(Pending) - before <= 500


@settings(max_examples=100, deadline=None, database=None)
@given(st.lists(st.tuples(st.integers(0, 2**32 - 1), st.binary(max_size=40)), max_size=20))
def test_hostile_segments_break_nothing(segments: list[tuple[int, bytes]]):
    packets = [
        ethernet(tcp_over_ip(CLIENT, SERVER, sequence=at, acknowledged=at ^ 5, data=data))
        for at, data in segments
    ]
    seen_of(packets)
