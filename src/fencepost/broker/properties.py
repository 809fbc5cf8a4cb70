"""Java's `.properties` syntax, as far as `server.properties` files use it.

A line is `key=value`, `key: value` or `key value`; blank lines and lines starting with `#` or `!`
are skipped; a backslash at the end joins the next line; `\\t \\n \\r \\f \\uXXXX` and an escaped
character stand for themselves.
"""

from __future__ import annotations

from collections.abc import Iterator

_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_SPACE = " \t\f"


class PropertiesError(ValueError):
    """The text is not in properties syntax; the message has the line number."""


def parse_properties(text: str) -> dict[str, str]:
    """The keys and values of `text`; a repeated key keeps its last value. PropertiesError."""
    found: dict[str, str] = {}
    for number, line in _logical_lines(text):
        key, value = _split(line)
        try:
            found[_unescape(key)] = _unescape(value)
        except ValueError as error:
            raise PropertiesError(f"line {number}: {error}") from None
    return found


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines that say something, continuation lines joined, with the number of their first."""
    joined = ""
    first = 0
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.lstrip(_SPACE)
        if not joined:
            if not line or line[0] in "#!":
                continue
            first = number
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            joined += line[:-1]
            continue
        yield first, joined + line
        joined = ""
    if joined:
        yield first, joined


def _split(line: str) -> tuple[str, str]:
    """Cut at the first unescaped `=`, `:` or blank."""
    end = 0
    while end < len(line) and line[end] not in "=:" + _SPACE:
        end += 2 if line[end] == "\\" else 1
    key, rest = line[:end], line[end:].lstrip(_SPACE)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_SPACE)
    return key, rest


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    out: list[str] = []
    position = 0
    while position < len(text):
        character = text[position]
        position += 1
        if character != "\\" or position == len(text):
            out.append(character)
            continue
        escaped = text[position]
        position += 1
        if escaped == "u":
            digits = text[position : position + 4]
            if len(digits) < 4:
                raise ValueError(f"\\u{digits} is not a character")
            try:
                out.append(chr(int(digits, 16)))
            except ValueError:
                raise ValueError(f"\\u{digits} is not a character") from None
            position += 4
        else:
            out.append(_ESCAPES.get(escaped, escaped))
    return "".join(out)
