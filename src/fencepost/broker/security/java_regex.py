"""Regular expressions of Java's flavour, as Python's `re` reads them.

Most of the syntax is the same, possessive quantifiers included. What differs is translated, or
refused if `re` has nothing like it: an expression that means something else there could give a
client the name of another. Classes such as `\\w` and case without regard to it are ASCII, as in
Java. (`fencepost.arrow.java_regex` makes RE2 of patterns for topics; rules for principals may refer
back to groups and look around, which RE2 cannot.)
"""

from __future__ import annotations

import re
from typing import Final

_ESCAPES: Final = frozenset("dDwWsSbBAtnrf0123456789")
"""Letters and digits that mean the same behind a backslash."""
_TRANSLATED: Final = {"z": r"\Z", "e": r"\x1b", "a": r"\x07", "h": r"[ \t\xa0]"}


class JavaRegexError(ValueError):
    """The expression is none, or has something that is not offered here."""


def compile_java_regex(text: str) -> re.Pattern[str]:
    """The same expression for `re`. JavaRegexError."""
    try:
        return re.compile(_translated(text), re.ASCII)
    except re.error as error:
        raise JavaRegexError(f"no regular expression: {error}") from None


def _translated(text: str) -> str:
    out: list[str] = []
    at, in_class = 0, False
    while at < len(text):
        rest = text[at:]
        if rest.startswith(r"\Q"):
            literal, _, _ = rest[2:].partition(r"\E")
            out.append(re.escape(literal))
            at += min(len(rest), len(literal) + 4)
            continue
        if rest[0] == "\\":
            piece, size = _escape(rest, in_class)
        elif in_class:
            if rest[0] == "[" or rest.startswith("&&"):
                raise JavaRegexError("classes within classes are not offered")
            piece, size = rest[0], 1
            in_class = rest[0] != "]"
        elif rest[0] == "[":
            in_class = True
            size = 2 if rest.startswith("[^") else 1
            piece = rest[:size]
            if rest[size : size + 1] == "]":
                raise JavaRegexError("a class that begins with ] is not offered; write \\]")
        elif re.match(r"\(\?<[A-Za-z]", rest):
            piece, size = "(?P<", 3
        else:
            piece, size = rest[0], 1
        out.append(piece)
        at += size
    return "".join(out)


def _escape(rest: str, in_class: bool) -> tuple[str, int]:
    """What stands for the escape that `rest` begins with, and how long that is."""
    letter = rest[1:2]
    if not letter:
        raise JavaRegexError("it ends with a backslash")
    if found := re.match(r"\\k<([A-Za-z][A-Za-z0-9]*)>", rest):
        return f"(?P={found[1]})", found.end()
    if found := re.match(r"\\(?:x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4})", rest):
        return found[0], found.end()
    if letter in _TRANSLATED and not (in_class and letter in "zh"):
        return _TRANSLATED[letter], 2
    if letter.isascii() and letter.isalnum() and letter not in _ESCAPES:
        raise JavaRegexError(f"\\{letter} is not offered")
    if letter == "0":
        raise JavaRegexError("octal characters are not offered; write \\x and two digits")
    return rest[:2], 2
