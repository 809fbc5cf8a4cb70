"""Packets of a TCP connection, written by hand, and the files that captures come in."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from ipaddress import ip_address
from pathlib import Path

from fencepost.capture.packets import Endpoint

CLIENT = Endpoint("10.0.0.1", 40000)
SERVER = Endpoint("10.0.0.2", 9092)
FIN, SYN, RST, ACK = 1, 2, 4, 16


def _tcp(
    source: Endpoint, destination: Endpoint, sequence: int, acknowledged: int, flags: int
) -> bytes:
    ports = (source.port, destination.port)
    return struct.pack(
        ">HHIIBBHHH", *ports, sequence % 2**32, acknowledged % 2**32, 5 << 4, flags, 0xFFFF, 0, 0
    )


def tcp_over_ip(
    source: Endpoint,
    destination: Endpoint,
    *,
    sequence: int,
    acknowledged: int = 0,
    flags: int = ACK,
    data: bytes = b"",
) -> bytes:
    """An IPv4 packet."""
    content = _tcp(source, destination, sequence, acknowledged, flags) + data
    head = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(content), 0, 0x4000, 64, 6, 0)
    addresses = ip_address(source.host).packed + ip_address(destination.host).packed
    return head + addresses + content


def tcp_over_ip6(
    source: Endpoint, destination: Endpoint, *, sequence: int, acknowledged: int, data: bytes
) -> bytes:
    """An IPv6 packet between addresses that end like those given."""
    content = _tcp(source, destination, sequence, acknowledged, ACK) + data
    ends = [ip_address(one.host).packed for one in (source, destination)]
    prefix = bytes([0xFD]) + bytes(11)
    head = struct.pack(">IHBB", 6 << 28, len(content), 6, 64)
    return head + b"".join(prefix + end for end in ends) + content


def ethernet(packet: bytes) -> bytes:
    """An Ethernet frame around an IPv4 packet."""
    return bytes(12) + b"\x08\x00" + packet


class PacketMaker:
    """Both ends of a connection; every method gives Ethernet frames, in order."""

    def __init__(
        self,
        client: Endpoint = CLIENT,
        server: Endpoint = SERVER,
        *,
        segment_bytes: int = 1000,
        first_sequence: int = 5000,
    ) -> None:
        self._ends = (client, server)
        self._segment_bytes = segment_bytes
        self._next = [first_sequence, first_sequence + 900_000]

    def open(self) -> list[bytes]:
        """The handshake."""
        syn = self._packet(0, SYN)
        self._next[0] += 1
        syn_ack = self._packet(1, SYN | ACK)
        self._next[1] += 1
        return [syn, syn_ack, self._packet(0, ACK)]

    def send(self, data: bytes) -> list[bytes]:
        """Segments from the client."""
        return self._data(0, data)

    def answer(self, data: bytes) -> list[bytes]:
        """Segments from the server."""
        return self._data(1, data)

    def close(self) -> list[bytes]:
        """Both ends say that they are done."""
        return [self._packet(0, FIN | ACK), self._packet(1, FIN | ACK)]

    def _data(self, side: int, data: bytes) -> list[bytes]:
        packets = []
        for at in range(0, len(data), self._segment_bytes):
            piece = data[at : at + self._segment_bytes]
            packets.append(self._packet(side, ACK, piece))
            self._next[side] += len(piece)
        return packets

    def _packet(self, side: int, flags: int, data: bytes = b"") -> bytes:
        source, destination = self._ends[side], self._ends[1 - side]
        sequence, acknowledged = self._next[side], self._next[1 - side]
        return ethernet(
            tcp_over_ip(
                source,
                destination,
                sequence=sequence,
                acknowledged=acknowledged if flags & ACK else 0,
                flags=flags,
                data=data,
            )
        )


def write_pcap(path: Path, packets: Iterable[bytes], link_type: int = 1, snap: int = 65535) -> None:
    """A pcap file; packets are 1 ms apart."""
    with path.open("wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, snap, link_type))
        for index, packet in enumerate(packets):
            kept = packet[:snap]
            times = (1_700_000_000 + index // 1000, index % 1000 * 1000)
            file.write(struct.pack("<IIII", *times, len(kept), len(packet)) + kept)


def write_pcapng(
    path: Path, packets: Iterable[bytes], link_type: int = 1, time_us: int = 1_700_000_000_000_000
) -> None:
    """A pcapng file of one interface; packets are 1 ms apart, from `time_us` since 1970 on."""

    def block(kind: int, content: bytes) -> bytes:
        content += bytes(-len(content) % 4)
        size = struct.pack("<I", 12 + len(content))
        return struct.pack("<I", kind) + size + content + size

    with path.open("wb") as file:
        file.write(block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1)))
        file.write(block(1, struct.pack("<HHI", link_type, 0, 0)))
        for index, packet in enumerate(packets):
            time = time_us + 1000 * index
            head = struct.pack("<IIIII", 0, time >> 32, time & 0xFFFFFFFF, *[len(packet)] * 2)
            file.write(block(6, head + packet))
