"""Java properties files: `meta.properties`, `server.properties`, a client's properties.

An entry is `key=value`, `key: value` or `key value` in a line, which goes on in the next one behind
a backslash; lines that begin with # or ! are comments. Java writes ISO 8859-1, and what that does
not have as \\uXXXX.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from fencepost.log.errors import CorruptFileError

_FILE_BYTES_MAX: Final = 1 << 20
_ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def encode_properties(entries: Mapping[str, str]) -> bytes:
    """A Java properties file, in ISO 8859-1 with escapes, keys in order."""
    lines = [f"{_escape(key, True)}={_escape(entries[key], False)}" for key in sorted(entries)]
    return "\n".join([*lines, ""]).encode("ascii")


def _escape(text: str, is_key: bool) -> str:
    out = []
    for index, letter in enumerate(text):
        if letter == " " and (is_key or index == 0):
            out.append("\\ ")
        elif letter in "\\=:#!":
            out.append("\\" + letter)
        elif letter in "\t\n\r\f":
            out.append("\\" + {value: key for key, value in _ESCAPES.items()}[letter])
        elif " " <= letter <= "~":
            out.append(letter)
        else:
            units = letter.encode("utf-16-be").hex()
            out.extend(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))
    return "".join(out)


def decode_properties(path: str, data: bytes) -> dict[str, str]:
    """The entries of a Java properties file. CorruptFileError."""
    return {key: value for _, key, value in read_properties(path, data)}


def read_properties(path: str, data: bytes) -> Iterator[tuple[int, str, str]]:
    """Line number (from 1), key and value of each entry of a file in ISO 8859-1, as Java reads it.

    CorruptFileError, which names the line.
    """
    if len(data) > _FILE_BYTES_MAX:
        raise CorruptFileError(path, f"has {len(data)} bytes, more than {_FILE_BYTES_MAX}")
    return parse_properties(path, data.decode("latin-1"))


def parse_properties(path: str, text: str) -> Iterator[tuple[int, str, str]]:
    """Line number (from 1), key and value of each entry of a Java properties file at `path`.

    CorruptFileError, which names the line.
    """
    lines = enumerate(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), 1)
    for number, line in lines:
        stripped = line.lstrip(" \t\f")
        if not stripped or stripped[0] in "#!":
            continue
        while _ends_in_odd_backslashes(stripped):
            stripped = stripped[:-1] + next(lines, (0, ""))[1].lstrip(" \t\f")
        key, value = _split_entry(stripped)
        try:
            yield number, _unescape(key), _unescape(value)
        except ValueError as error:
            raise CorruptFileError(path, f"has {error} in line {number}") from None


def _ends_in_odd_backslashes(text: str) -> bool:
    return (len(text) - len(text.rstrip("\\"))) % 2 == 1


def _split_entry(line: str) -> tuple[str, str]:
    match = re.match(r"((?:\\.|[^\\=: \t\f])*)[ \t\f]*[=:]?[ \t\f]*", line, re.DOTALL)
    assert match is not None, "the pattern matches anything"
    return match[1], line[match.end() :]


def _unescape(text: str) -> str:
    """The text without escapes. ValueError."""
    if "\\" not in text:
        return text

    def plain(match: re.Match[str]) -> str:
        escape = match[1]
        if escape[0] == "u":
            if len(escape) != 5:
                raise ValueError(f"a bad escape \\{escape!r}")
            return chr(int(escape[1:], 16))
        return _ESCAPES.get(escape, escape)

    joined = re.sub(r"\\(u[0-9a-fA-F]{4}|.|$)", plain, text, flags=re.DOTALL)
    return joined.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
