"""`fencepost wire decode --pcap`: capture files."""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fencepost.capture.packets import Endpoint
from fencepost.wire.api import HeartbeatRequest, SaslHandshakeRequest
from fencepost.wire.frame import encode_request

from ...capture.packet_maker import PacketMaker, write_pcap, write_pcapng
from .wire_command import Wire, answered, asked, produced


def conversation() -> list[bytes]:
    maker = PacketMaker(segment_bytes=30)
    heartbeat = encode_request(HeartbeatRequest(group_id="g"), 4, 9, "c")
    handshake = encode_request(SaslHandshakeRequest(mechanism="PLAIN"), 1, 10, "c")
    return [
        *maker.open(),
        *maker.send(asked()),
        *maker.send(heartbeat),
        *maker.answer(answered(27)),
        *maker.send(produced()),
        *maker.send(handshake),
        *maker.close(),
    ]


@pytest.mark.parametrize("write", [write_pcap, write_pcapng])
def test_a_capture(wire: Wire, tmp_path: Path, write: Callable[..., None]):
    pytest.importorskip("cypcap")
    path = tmp_path / "trace"
    write(path, conversation())
    ran = wire("decode", "--pcap", str(path), "--records")
    assert ran.code == 0
    names = [one.get("request") or one.get("response") for one in ran.lines]
    assert names == ["ApiVersions", "Heartbeat", "Heartbeat", "Produce", "SaslHandshake"]
    response = ran.lines[2]
    assert response["body"]["error_code"] == 27
    about = response["capture"]
    assert about["time"].startswith("2023-11-14T22:13:20.0")
    assert (about["source"], about["destination"]) == ("10.0.0.2:9092", "10.0.0.1:40000")
    assert about["latency_ms"] > 0
    assert ran.lines[3]["decoded_records"][0]["batches"][0]["records"][0]["key"] == "k"
    assert ran.err.endswith("1 connections, 5 messages, 0 not decoded, 0 bytes skipped\n")
    encoded = wire("encode", "--output", "-", stdin=ran.raw).raw
    assert encoded.startswith(asked()) and answered(27) in encoded and produced() in encoded


def test_times_beyond_the_calendar(wire: Wire, tmp_path: Path):
    pytest.importorskip("cypcap")
    path = tmp_path / "trace"
    write_pcapng(path, conversation(), time_us=2**62)
    ran = wire("decode", "--pcap", str(path))
    assert (ran.code, len(ran.lines)) == (0, 5)
    assert ran.lines[0]["capture"]["time"].endswith(" s since 1970")


def test_a_capture_with_holes_still_tells_the_rest(wire: Wire, tmp_path: Path):
    pytest.importorskip("cypcap")
    path = tmp_path / "trace"
    packets = conversation()
    write_pcap(path, [packet for index, packet in enumerate(packets) if index != 7])
    ran = wire("decode", "--pcap", str(path))
    assert ran.code == 0
    damaged = [one["capture"] for one in ran.lines if "error" in one["capture"]]
    assert len(damaged) == 1 and "bytes are not there" in damaged[0]["error"]
    assert wire("encode", stdin=ran.raw).code == 0


def test_a_capture_of_other_ports(wire: Wire, tmp_path: Path):
    pytest.importorskip("cypcap")
    path = tmp_path / "trace"
    write_pcap(path, conversation())
    for ports, wanted in ((["19092"], "19092"), (["1", "2"], "1 or 2")):
        ran = wire("decode", "--pcap", str(path), *(word for p in ports for word in ("--port", p)))
        assert ran.code == 1 and ran.raw == b""
        assert ran.err == (
            f"fencepost wire decode: no packets on port {wanted}; seen: 9092 (--port says which)\n"
        )
    assert wire("decode", "--pcap", str(path), "--port", "1", "--port", "9092").lines


def test_ports_seen_are_those_of_servers_and_not_too_many(wire: Wire, tmp_path: Path):
    pytest.importorskip("cypcap")
    packets: list[bytes] = []
    for port in range(50_001, 50_008):  # above those of the clients: only the SYN tells
        maker = PacketMaker(server=Endpoint("10.0.0.2", port))
        packets += [*maker.open(), *maker.send(asked() * (50_008 - port))]
    path = tmp_path / "trace"
    write_pcap(path, packets)
    ran = wire("decode", "--pcap", str(path))
    assert "; seen: 50001, 50002, 50003, 50004, 50005, and others (" in ran.err


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (b"", ""),
        (b"garbage that is no capture at all", "unknown file format"),
        (struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 99, 105), "link type 105"),
    ],
)
def test_a_file_that_is_no_capture_is_refused(
    wire: Wire, tmp_path: Path, content: bytes, error: str
):
    pytest.importorskip("cypcap")
    path = tmp_path / "trace"
    path.write_bytes(content)
    ran = wire("decode", "--pcap", str(path))
    assert ran.code == 1 and ran.err.count("\n") == 1
    assert f"{path}: " in ran.err and error in ran.err


def test_a_capture_that_breaks_off(wire: Wire, tmp_path: Path):
    pytest.importorskip("cypcap")
    path = tmp_path / "trace"
    write_pcap(path, conversation())
    path.write_bytes(path.read_bytes()[:-20])
    ran = wire("decode", "--pcap", str(path))
    assert ran.code == 1
    assert len(ran.lines) == 5
    totals, error = ran.err.splitlines()
    assert totals.startswith("so far: ") and "5 messages" in totals
    assert "truncated dump file" in error


def test_garbage_in_packets(wire: Wire, tmp_path: Path):
    pytest.importorskip("cypcap")
    path = tmp_path / "trace"
    write_pcap(path, [bytes(range(size)) for size in range(0, 200, 7)])
    ran = wire("decode", "--pcap", str(path))
    assert ran.code == 1 and ran.raw == b""
    assert ran.err == "fencepost wire decode: none of the 29 packets is TCP over IP\n"


def test_without_the_extra_it_says_what_to_install(
    wire: Wire, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(sys.modules, "cypcap", None)
    ran = wire("decode", "--pcap", str(tmp_path / "trace"))
    assert ran.code == 2
    assert "pip install 'fencepost[pcap]'" in ran.err
