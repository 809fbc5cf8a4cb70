"""Bytes out of hex digits as people have them."""

from __future__ import annotations

import re
from itertools import pairwise

from fencepost.cli.wire.failures import InputError

# Offset columns: `0x0010:` and `00000010:` (tcpdump, xxd), `00000010  ` (hexdump), `0010   `.
_OFFSET = re.compile(r"\s*(?:0x)?([0-9a-fA-F]{4,16})(:\s*|\s{2,})(?=\S)")
_LAST_OFFSET = re.compile(r"\s*[0-9a-fA-F]{7,16}\s*")
_PAIRS = re.compile(r"(?:[0-9a-fA-F]{2}(?:\s{1,2}|$)){1,16}")
_DUMP_STEP = 16
_DRESS = re.compile(r"0x|\\x|[\s:,]", re.IGNORECASE)


def parse_hex(text: str) -> bytes:
    """The bytes behind hex digits; InputError when something else is among them.

    Blanks, colons, commas, `0x` and `\\x` are passed over. When every line begins with an offset,
    as in dumps of tcpdump, xxd and hexdump, so are offsets and the text beside the digits.
    """
    digits = _DRESS.sub("", _without_dump_columns(text))
    try:
        return bytes.fromhex(digits)
    except ValueError:
        pass
    wrong = re.search(r"[^0-9a-fA-F]", digits)
    if wrong is None:
        raise InputError(f"an odd number of hex digits ({len(digits)})")
    raise InputError(f"{wrong[0]!r} is no hex digit (after {wrong.start()} digits)")


def _without_dump_columns(text: str) -> str:
    """Only the digits of a dump; any other text as it is."""
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) > 1 and _LAST_OFFSET.fullmatch(lines[-1]):
        lines.pop()  # hexdump ends with the size
    found = [_OFFSET.match(line) for line in lines]
    matches = [match for match in found if match is not None]
    if not lines or len(matches) < len(lines):
        return text
    has_colons = all(match[2].startswith(":") for match in matches)
    offsets = [int(match[1], 16) for match in matches]
    steps = {after - before for before, after in pairwise(offsets)}
    if not has_colons and steps != {_DUMP_STEP}:
        return text
    return "".join(_digits(match.string[match.end() :], has_colons) for match in matches)


def _digits(columns: str, has_colons: bool) -> str:
    """The digits of a dump's line, without what they mean as text."""
    if has_colons:
        return re.split(r"\s{2,}", columns, maxsplit=1)[0]
    pairs = _PAIRS.match(columns)
    return columns if pairs is None else pairs[0]
