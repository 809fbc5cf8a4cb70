"""TCP segments out of captured packets: link layer, IPv4 or IPv6, TCP.

`dissect` believes nothing: a packet that is cut, damaged, fragmented or no TCP is None. What the
IP header says of the size counts, not the packet's end, because Ethernet pads small packets; only
where it says 0, as it does for packets that the network card was to cut up, the end counts.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from ipaddress import ip_address
from typing import Final, NamedTuple

from fencepost.addresses import address_text

_FIN, _SYN, _RST, _ACK = 0x01, 0x02, 0x04, 0x10
_TCP = 6
_TCP_HEADER = struct.Struct(">HHIIBB")
_IPV4, _IPV6 = 0x0800, 0x86DD
_VLAN_TAGS = frozenset({0x8100, 0x88A8, 0x9100})
_FRAGMENT = 44
_AUTHENTICATION = 51
_EXTENSIONS = frozenset({0, 43, 60})  # hop-by-hop, routing, destination options
_TCP_HEADER_BYTES_MIN = 20


class Endpoint(NamedTuple):
    """One end of a connection."""

    host: str
    port: int

    def __str__(self) -> str:
        return address_text(self.host, self.port)


class Segment(NamedTuple):
    """A TCP segment. `size` is its payload on the wire, of which `data` may be only the begin."""

    source: Endpoint
    destination: Endpoint
    sequence: int
    acknowledged: int | None
    is_syn: bool
    is_fin: bool
    is_rst: bool
    data: bytes
    size: int


def dissect(link_type: int, packet: bytes) -> Segment | None:
    """The segment in a packet of a link type that `link_types` has; None when there is none."""
    view = memoryview(packet)
    try:
        content = _LINKS[link_type](view)
        return None if content is None else _ip(content)
    except (IndexError, struct.error):  # the packet ends inside of a header
        return None


def link_types() -> frozenset[int]:
    """The link types that `dissect` knows, as numbers of libpcap."""
    return frozenset(_LINKS)


# -- link layers: each gives the IP packet ---------------------------------------------------


def _ethernet(view: memoryview) -> memoryview | None:
    at = 12
    while (protocol := _uint16(view, at)) in _VLAN_TAGS:
        at += 4
    return view[at + 2 :] if protocol in (_IPV4, _IPV6) else None


def _cooked_v1(view: memoryview) -> memoryview | None:
    return view[16:] if _uint16(view, 14) in (_IPV4, _IPV6) else None


def _cooked_v2(view: memoryview) -> memoryview | None:
    return view[20:] if _uint16(view, 0) in (_IPV4, _IPV6) else None


def _loopback(view: memoryview) -> memoryview:
    return view[4:]  # an address family, whose numbers differ by system; IP says its own version


def _raw(view: memoryview) -> memoryview:
    return view


_LINKS: Final[dict[int, Callable[[memoryview], memoryview | None]]] = {
    0: _loopback,  # BSD loopback
    1: _ethernet,
    12: _raw,  # raw IP has two numbers in memory and one in files
    14: _raw,
    101: _raw,
    108: _loopback,  # OpenBSD loopback
    113: _cooked_v1,  # Linux "any"
    228: _raw,
    229: _raw,
    276: _cooked_v2,  # Linux "any" of newer tools
}


# -- IP and TCP ------------------------------------------------------------------------------


def _ip(view: memoryview) -> Segment | None:
    version = view[0] >> 4
    if version == 4:
        return _ipv4(view)
    return _ipv6(view) if version == 6 else None


def _ipv4(view: memoryview) -> Segment | None:
    header_bytes = (view[0] & 0x0F) * 4
    is_fragment = _uint16(view, 6) & 0x3FFF
    if header_bytes < 20 or view[9] != _TCP or is_fragment:
        return None
    end = _uint16(view, 2) or len(view)
    return _tcp(view, header_bytes, end, view[12:16], view[16:20])


def _ipv6(view: memoryview) -> Segment | None:
    payload_bytes = _uint16(view, 4)
    end = 40 + payload_bytes if payload_bytes else len(view)
    kind, at = view[6], 40
    while kind != _TCP:
        if kind in _EXTENSIONS:
            kind, at = view[at], at + (view[at + 1] + 1) * 8
        elif kind == _AUTHENTICATION:
            kind, at = view[at], at + (view[at + 1] + 2) * 4
        elif kind == _FRAGMENT and not _uint16(view, at + 2) & 0xFFF9:
            kind, at = view[at], at + 8
        else:
            return None
    return _tcp(view, at, end, view[8:24], view[24:40])


def _tcp(
    view: memoryview, at: int, end: int, source: memoryview, destination: memoryview
) -> Segment | None:
    source_port, destination_port, sequence, acknowledged, offset, flags = _TCP_HEADER.unpack_from(
        view, at
    )
    header_bytes = (offset >> 4) * 4
    start = at + header_bytes
    if header_bytes < _TCP_HEADER_BYTES_MIN or start > end:
        return None
    return Segment(
        source=Endpoint(str(ip_address(bytes(source))), source_port),
        destination=Endpoint(str(ip_address(bytes(destination))), destination_port),
        sequence=sequence,
        acknowledged=acknowledged if flags & _ACK else None,
        is_syn=bool(flags & _SYN),
        is_fin=bool(flags & _FIN),
        is_rst=bool(flags & _RST),
        data=bytes(view[start:end]),
        size=end - start,
    )


def _uint16(view: memoryview, at: int) -> int:
    return view[at] << 8 | view[at + 1]
