"""Hex digits in all the forms that tools print, and what must not be taken for one of them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from fencepost.cli.failures import InputError
from fencepost.cli.wire.convert.hex_text import parse_hex
from fencepost.wire.api import HeartbeatRequest
from fencepost.wire.frame import encode_request

from ....capture.packet_maker import CLIENT, SERVER, PacketMaker, tcp_over_ip, write_pcap

DATA = bytes(range(40))


@pytest.mark.parametrize(
    "text",
    [
        DATA.hex(),
        DATA.hex(" ").upper(),
        "0x" + DATA.hex(),
        ", ".join(f"0x{byte:02x}" for byte in DATA),
        "".join(f"\\x{byte:02x}" for byte in DATA),
        DATA.hex(":"),
        "\n".join(DATA[at : at + 4].hex() for at in range(0, 40, 4)),
        # xxd, tcpdump -X, hexdump -C, Wireshark
        "\n".join(f"{at:08x}: {DATA[at : at + 16].hex(' ', 2)}  ab12cd" for at in range(0, 40, 16)),
        "\n".join(
            f"\t0x{at:04x}:  {DATA[at : at + 16].hex(' ', 2)}  ..ff" for at in range(0, 40, 16)
        ),
        "\n".join(
            f"{at:08x}  {DATA[at : at + 8].hex(' ')}  {DATA[at + 8 : at + 16].hex(' ')}  |ab|"
            for at in range(0, 40, 16)
        )
        + "\n00000028",
        "\n".join(f"{at:04x}   {DATA[at : at + 16].hex(' ')}   ab" for at in range(0, 40, 16)),
    ],
)
def test_hex_digits_with_blanks_prefixes_and_separators(text: str):
    assert parse_hex(text) == DATA


def test_text_that_is_not_hex_is_refused():
    with pytest.raises(InputError, match="odd number of hex digits"):
        parse_hex("abc")
    with pytest.raises(InputError, match=r"'z' is no hex digit \(after 2 digits\)"):
        parse_hex("00 zz")


@given(st.binary(max_size=64))
@settings(max_examples=100, deadline=None, database=None)
def test_plain_hex_is_never_taken_for_a_dump(data: bytes):
    for text in (data.hex(), data.hex(" "), data.hex(" ", 2)):
        assert parse_hex(text) == data


@pytest.mark.parametrize("literal", [repr(DATA), "b'ab' b\"\\x00\"\n b'c'", " B''"])
def test_bytes_literals_of_python(literal: str):
    assert parse_hex(literal) == eval(f"({literal})")


@pytest.mark.parametrize("text", ["b'", "b'a' + b'b'", "b'a', b'b'", "b'ä'", "b'a' 'b'"])
def test_malformed_bytes_literals_are_refused(text: str):
    with pytest.raises(InputError, match="bytes literal of Python"):
        parse_hex(text)


# -- dumps -----------------------------------------------------------------------------------

CONTENTS = [
    DATA,
    DATA[:1],
    DATA[:8],
    DATA[:10],
    DATA[:17],
    bytes(100),
    DATA + bytes(64) + b"abc",
    b"ab cd  ef" * 7,
]


def printed(tool: str, content: bytes, tmp_path: Path) -> str:
    words = tool.split()
    if shutil.which(words[0]) is None:
        pytest.skip(f"{words[0]} is not installed")
    path = tmp_path / "content"
    path.write_bytes(content)
    return subprocess.run([*words, str(path)], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize(
    "tool",
    [
        "hexdump -C",
        "hexdump -Cv",
        "od -t x1",
        "od -t x1z -v",
        "od -A x -t x1",
        "od -A x -t x1z",
        "od -A d -t x1",
        "od -A n -t x1 -v",
        "xxd",
        "xxd -a",
        "xxd -g1",
        "xxd -p",
    ],
)
@pytest.mark.parametrize("content", CONTENTS, ids=len)
def test_what_tools_print_is_read(tool: str, content: bytes, tmp_path: Path):
    assert parse_hex(printed(tool, content, tmp_path)) == content


@pytest.mark.parametrize(
    "tool", ["hexdump", "hexdump -x", "hexdump -b", "od", "od -x", "od -A x -x", "od -A x -t x4"]
)
@pytest.mark.parametrize("content", CONTENTS[1:], ids=len)
def test_words_and_octal_are_refused(tool: str, content: bytes, tmp_path: Path):
    with pytest.raises(InputError, match="use hexdump -C, od -t x1 or xxd"):
        parse_hex(printed(tool, content, tmp_path))


@pytest.mark.parametrize(
    "text",
    [
        "0000000 00 06 00 12 00 00 00 00 00 01\n0000012\n",
        "00000000  00 06 00 12 00 00 00 00  00 01                    |..........|\n0000000a\n",
        "00000000: 0006 0012 0000 0000 0001                 ..........\n",
    ],
)
def test_one_line_of_od_hexdump_and_xxd(text: str):
    assert parse_hex(text) == bytes.fromhex("00060012000000000001")


@pytest.mark.parametrize(
    "text",
    [
        "00000000: 0001 0203  ....\n00000010: 0405\n",
        "0000000 00 01\n0000003\n",
        "00000000: 0001\n*\n00000101: 02\n",
        "0000000 00 01\n*\n",
        "0000: 00 01\n*\nffffffffffff: 00\n",
    ],
)
def test_a_dump_with_lines_missing_is_refused(text: str):
    with pytest.raises(InputError, match="offsets of this dump do not agree"):
        parse_hex(text)


def test_offsets_that_can_be_octal_or_decimal():
    line = "0000000 " + "00 " * 16
    with pytest.raises(InputError, match="how many is not sure; use -v"):
        parse_hex(f"{line}\n*\n0000240\n")


@pytest.mark.parametrize(
    "text", ["0000 0001\n0002 0003", "00000000 00000001\n00000010", "000000 00 01", "0000   00 19"]
)
def test_groups_of_digits_are_no_offsets(text: str):
    assert parse_hex(text) == bytes.fromhex(text)


# -- packets of tcpdump ----------------------------------------------------------------------

FRAME = encode_request(HeartbeatRequest(group_id="group-one" * 9), 4, 9, "c")


def dump_of(packet: bytes) -> str:
    lines = (
        f"\t0x{at:04x}:  {packet[at : at + 16].hex(' ', 2):39}  {'.' * len(packet[at : at + 16])}"
        for at in range(0, len(packet), 16)
    )
    return "\n".join(lines) + "\n"


SUMMARY = "12:00:00.000000 IP 10.0.0.1.40000 > 10.0.0.2.9092: Flags [P.], length 7\n"
FIRST = tcp_over_ip(CLIENT, SERVER, sequence=7, acknowledged=9, data=b"payload")
SECOND = tcp_over_ip(CLIENT, SERVER, sequence=14, acknowledged=9, data=b"more")
ANSWER = tcp_over_ip(SERVER, CLIENT, sequence=9, acknowledged=14, data=b"answer")
EMPTY = tcp_over_ip(SERVER, CLIENT, sequence=9, acknowledged=14, data=b"")


@pytest.mark.parametrize("options", ["-X", "-x", "-XX", "-xx", "-vX", "-eX"])
@pytest.mark.parametrize("segment_bytes", [1000, 40])
def test_what_tcpdump_prints(options: str, segment_bytes: int, tmp_path: Path):
    if shutil.which("tcpdump") is None:
        pytest.skip("tcpdump is not installed")
    maker = PacketMaker(segment_bytes=segment_bytes)
    path = tmp_path / "trace"
    write_pcap(path, [*maker.open(), *maker.send(FRAME), *maker.close()])
    command = ["tcpdump", "-n", options, "-r", str(path)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert parse_hex(text) == FRAME


@pytest.mark.parametrize("summary", [SUMMARY, ""])
def test_headers_of_packets_are_passed_over(summary: str):
    assert parse_hex(summary + dump_of(FIRST)) == b"payload"
    three = [summary + dump_of(packet) for packet in (FIRST, EMPTY, SECOND)]
    assert parse_hex("".join(three)) == b"payloadmore"


@pytest.mark.parametrize(
    ("packets", "error"),
    [
        ([FIRST, ANSWER], "several directions; write the packets with tcpdump -w and use --pcap"),
        ([SECOND, FIRST], "do not follow each other; write the packets"),
        ([FIRST, FIRST], "do not follow each other"),
        ([EMPTY], "carry no data"),
        ([FIRST[:-2]], "2 bytes of a packet are not there"),
        ([FIRST, FIRST[:9] + b"\x11" + FIRST[10:]], "packet 1 is not TCP over IP"),
        ([bytes(40)], "packet 0 is not TCP over IP; write"),
    ],
)
def test_packets_of_several_directions_or_with_gaps_are_refused(packets: list[bytes], error: str):
    with pytest.raises(InputError, match=error):
        parse_hex("".join(SUMMARY + dump_of(packet) for packet in packets))


@settings(max_examples=200, deadline=None, database=None)
@given(st.text(alphabet="0123456789abcdefxX:*|<>b' \n\\", max_size=80))
def test_no_text_ends_in_anything_but_an_error(text: str):
    try:
        parse_hex(text)
    except InputError:
        return
