"""A filter's text in pieces, each with its place, for errors that point at it."""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

LENGTH_MAX: Final = 2_000
PARTS_MAX: Final = 200

_TOKEN: Final = re.compile(
    r"""\s*(?:
      (?P<operator><=|>=|!=|=|<|>)
    | (?P<mark>[().])
    | (?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    | (?P<number>-?[0-9]+(?:\.[0-9]+)?(?![\w]))
    | (?P<word>[A-Za-z_][\w-]*)
    | (?P<digits>[0-9][\w-]*)
    | (?P<end>\Z)
    )""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r"}


class FilterError(ValueError):
    """A filter that makes no sense; `position` is the character, from 0, at which."""

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(f"at character {position + 1}: {reason}")
        self.position = position
        self.reason = reason


class Token(NamedTuple):
    """A piece of a filter; `kind` is a group of the pattern above, `value` what a literal is."""

    kind: str
    text: str
    position: int
    value: Any = None


def tokens_of(text: str) -> list[Token]:
    """The pieces, the last of them the end. Raises FilterError."""
    if len(text) > LENGTH_MAX:
        raise FilterError(LENGTH_MAX, f"a filter has at most {LENGTH_MAX} characters")
    found: list[Token] = []
    at = 0
    while True:
        match = _TOKEN.match(text, at)
        if match is None:
            at += len(text[at:]) - len(text[at:].lstrip())
            what = (
                "a text without its end" if text[at] in "\"'" else f"{text[at]!r} is no part of it"
            )
            raise FilterError(at, what)
        kind = match.lastgroup or "end"
        piece = match[kind]
        begin = match.start(kind)
        value: Any = None
        if kind == "text":
            value = _unescaped(piece[1:-1])
        elif kind == "number":
            value = float(piece) if "." in piece else int(piece)
        found.append(Token(kind, piece, begin, value))
        if kind == "end":
            return found
        if len(found) > 4 * PARTS_MAX:
            raise FilterError(begin, f"a filter has at most {PARTS_MAX} parts")
        at = match.end()


def _unescaped(text: str) -> str:
    def plain(match: re.Match[str]) -> str:
        letter = match[1]
        if len(letter) == 5:
            return chr(int(letter[1:], 16))
        return _ESCAPES.get(letter, letter)

    return _ESCAPE.sub(plain, text)
