"""Packets and reassembly: from a link's bytes to a stream of TCP with its gaps."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterable

import pytest
from hypothesis import given, settings, strategies as st

from fencepost.cli.wire.packets import Endpoint, Segment, dissect, link_types
from fencepost.cli.wire.reassembly import PATIENCE, Gap, Reassembler

from .packet_maker import CLIENT, SERVER, ethernet, tcp_over_ip, tcp_over_ip6

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
