"""Bytes out of hex digits as people have them.

Plain digits are written in many ways. A dump is digits in lines that begin with an offset, and is
believed only when every offset is the one before plus the bytes between: so hex data is never
taken for a dump, and a dump of which lines are missing is an error, not other bytes. Packets as
tcpdump prints them lose their headers, which `packets` knows.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from fencepost.capture.packets import Segment, dissect
from fencepost.cli.failures import InputError

DUMP_BYTES_MAX: Final = 1 << 27
"""What `*` in a dump, which stands for lines like the one before, may grow to."""

_SEPARATORS = re.compile(r"0x|\\x|[\s:,]", re.IGNORECASE)
_LITERAL = re.compile(r"b['\"]", re.IGNORECASE)
# Offsets: `0x0010:` and `00000010:` (tcpdump, xxd), `0010   ` (Wireshark), `00000010  `
# (hexdump -C), `0000020 ` (hexdump, od).
_LINE = re.compile(r"\s*(?:0x)?([0-9a-fA-F]{4,16})(:\s+|:$|\s+|$)(.*)")
_PACKET_LINE = re.compile(r"\s*0x[0-9a-fA-F]{4,8}:\s")
_TEXT_COLUMN = re.compile(r"\s+(?:\|.*\||>.*<)\s*$")
_PAIRS = re.compile(r"((?:[0-9a-fA-F]{2}(?:\s{1,2}|$))+)(?:\s.*)?")
_HEX_OFFSET_DIGITS, _OD_OFFSET_DIGITS = 6, 7  # of od -A x; of od and hexdump


def parse_hex(text: str) -> bytes:
    """The bytes behind hex digits; InputError when something else is among them.

    Blanks, colons, commas, `0x` and `\\x` are passed over; a Python literal (`b'\\x00a'`) means
    what it means there. Of dumps the offsets and the text beside the digits are passed over, and
    of packets in tcpdump's form the headers of IP and TCP too.
    """
    if _LITERAL.match(text.strip()):
        return _literal(text.strip())
    lines = [line for line in text.splitlines() if line.strip()]
    if any(_PACKET_LINE.match(line) for line in lines):
        return _packets_data(lines)
    dumped = _dump(lines)
    return _plain(text) if dumped is None else dumped


def _plain(text: str) -> bytes:
    digits = _SEPARATORS.sub("", text)
    try:
        return bytes.fromhex(digits)
    except ValueError:
        pass
    wrong = re.search(r"[^0-9a-fA-F]", digits)
    if wrong is None:
        raise InputError(f"an odd number of hex digits ({len(digits)})")
    raise InputError(f"{wrong[0]!r} is no hex digit (after {wrong.start()} digits)")


def _literal(text: str) -> bytes:
    try:
        value = ast.literal_eval(f"({text})")
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        raise InputError("this begins like a bytes literal of Python and is none") from None
    if not isinstance(value, bytes):
        raise InputError("one bytes literal of Python is needed")
    return value


# -- dumps -----------------------------------------------------------------------------------


class _Line(NamedTuple):
    """A line of a dump; `data` is None when its columns are no single bytes in hex."""

    offset: str
    gap: str
    data: bytes | None
    has_text: bool

    @property
    def has_colon(self) -> bool:
        return self.gap.startswith(":")


_REPEATED: Final = _Line("*", "", b"", False)


def _dump(lines: Sequence[str]) -> bytes | None:
    """The bytes of a dump; None for what is none, InputError for one that cannot be read."""
    found = [_parsed(line) for line in lines]
    parsed = [line for line in found if line is not None]
    if not parsed or len(parsed) < len(lines) or parsed[0] is _REPEATED:
        return None
    first = parsed[0]
    if first.has_colon:
        return _joined_at(parsed, 16) or _refuse_offsets()
    digits = len(first.offset)
    if any(line.data is None for line in parsed):
        is_od_in_hex = digits == _HEX_OFFSET_DIGITS and parsed[-1].data == b""
        if digits == _OD_OFFSET_DIGITS or (is_od_in_hex and not int(first.offset, 16)):
            raise InputError(
                "the columns of this dump are not single bytes in hex, and the order of bytes in "
                "words depends on the machine; use hexdump -C, od -t x1 or xxd"
            )
        return None
    if digits == _OD_OFFSET_DIGITS:  # no whole number of bytes, so it cannot be data
        return _joined_of_od(parsed)
    has_gaps = all(line.has_text or len(line.gap) > 1 for line in parsed if line.data)
    if not has_gaps and digits != _HEX_OFFSET_DIGITS:
        return None
    return _joined_at(parsed, 16) if len(parsed) > 1 or first.has_text else None


def _joined_of_od(lines: Sequence[_Line]) -> bytes:
    """The bytes of a dump whose offsets may be octal, decimal or hex."""
    found = {joined for base in (8, 10) if (joined := _joined_at(lines, base)) is not None}
    if len(found) > 1:
        raise InputError("this dump says '*' for lines left out, and how many is not sure; use -v")
    return found.pop() if found else _joined_at(lines, 16) or _refuse_offsets()


def _parsed(line: str) -> _Line | None:
    if line.strip() == "*":
        return _REPEATED
    match = _LINE.fullmatch(line)
    if match is None:
        return None
    offset, gap, rest = match.groups()
    columns = _TEXT_COLUMN.sub("", rest)
    if gap.startswith(":"):
        data = _hex_or_none(re.split(r"\s{2,}", columns, maxsplit=1)[0])
    else:
        pairs = _PAIRS.fullmatch(columns)
        data = _hex_or_none(pairs[1]) if pairs else _hex_or_none(columns, is_empty=True)
    return _Line(offset, gap, data, columns != rest)


def _hex_or_none(digits: str, *, is_empty: bool = False) -> bytes | None:
    if is_empty:
        return None if digits.strip() else b""
    try:
        return bytes.fromhex(digits)
    except ValueError:
        return None


def _joined_at(lines: Iterable[_Line], base: int) -> bytes | None:
    """The bytes of all lines when offsets of this base agree with them, else None."""
    joined = bytearray()
    last = b""
    start: int | None = None
    is_repeated = False
    for line in lines:
        if line is _REPEATED:
            is_repeated = True
            continue
        try:
            offset = int(line.offset, base)
        except ValueError:
            return None
        start = offset if start is None else start
        missing = offset - start - len(joined)
        if is_repeated and last and 0 <= missing <= DUMP_BYTES_MAX and missing % len(last) == 0:
            joined += last * (missing // len(last))
            missing = 0
        if missing or line.data is None:
            return None
        is_repeated = False
        joined += line.data
        last = line.data
    return None if is_repeated else bytes(joined)


def _refuse_offsets() -> bytes:
    raise InputError("the offsets of this dump do not agree with the bytes in its lines")


# -- packets as tcpdump -x and -X print them -------------------------------------------------

_LINK_TYPES = (101, 1, 113, 276, 0)  # IP itself first: only -xx and -XX print what is before it
_SEQUENCES = 1 << 32


def _packets_data(lines: Sequence[str]) -> bytes:
    """What the packets carry; without a line about a packet it may be any dump of this form."""
    groups: list[list[str]] = []
    has_summary = False
    for line in lines:
        if not _PACKET_LINE.match(line):
            has_summary = True
        elif not groups or re.match(r"\s*0x0+:", line):
            groups.append([line])
        else:
            groups[-1].append(line)
    packets = [_dump(group) or b"" for group in groups]
    segments = [_segment(packet) for packet in packets]
    if segments == [None] and not has_summary:
        return packets[0]
    return _carried(segments)


def _segment(packet: bytes) -> Segment | None:
    found = (dissect(link_type, packet) for link_type in _LINK_TYPES)
    return next((segment for segment in found if segment is not None), None)


def _carried(segments: Sequence[Segment | None]) -> bytes:
    """The data of segments that follow each other in one direction; InputError for others."""
    advice = "write the packets with tcpdump -w and use --pcap"
    if None in segments:
        raise InputError(f"packet {segments.index(None)} is not TCP over IP; {advice}")
    carrying = [segment for segment in segments if segment is not None and segment.size]
    if not carrying:
        raise InputError("these packets carry no data")
    sequence = carrying[0].sequence
    for segment in carrying:
        if len(segment.data) < segment.size:
            missing = segment.size - len(segment.data)
            raise InputError(f"{missing} bytes of a packet are not there (tcpdump -s 0 has them)")
        if segment.source != carrying[0].source or segment.destination != carrying[0].destination:
            raise InputError(f"these packets are of several directions; {advice}")
        if segment.sequence != sequence:
            raise InputError(f"these packets do not follow each other; {advice}")
        sequence = (sequence + segment.size) % _SEQUENCES
    return b"".join(segment.data for segment in carrying)
