"""From the bytes of a link to TCP segments; hostile packets break nothing."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings, strategies as st

from fencepost.capture.packets import Endpoint, Segment, dissect, link_types

from .packet_maker import CLIENT, SERVER, ethernet, tcp_over_ip, tcp_over_ip6

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
def test_packets_without_tcp_are_none(packet: bytes):
    assert dissect(101, packet) is None


@settings(max_examples=300, deadline=None, database=None)
@given(st.sampled_from(sorted(link_types())), st.binary(max_size=120))
def test_no_packet_breaks_the_dissector(link_type: int, packet: bytes):
    dissect(link_type, packet)
    dissect(link_type, bytes(16) + IP4[:20] + packet)
