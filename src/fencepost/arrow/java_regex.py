"""Java's regular expressions for `subscribePattern`, as far as RE2 can express them.

Spark's connector takes a topic if java.util.regex finds the pattern anywhere in its name
(SubscribePatternStrategy; only where offsets are fetched in the deprecated way, by a consumer, must
the whole name match). Here such a pattern is translated to RE2, which matches in time linear in the
name, whatever the pattern. What RE2 cannot express (back-references, looking around, possessive and
atomic groups, intersections of classes) or what would mean something else (nested negated classes,
comments mode) is refused by name.

Names of topics consist of ASCII letters, digits, `.`, `_` and `-`; so rules about line ends, and
which letters beyond ASCII belong together, need no translation: no name has any.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

import re2

PATTERN_MAX: Final = 10_000
"""Characters of a pattern."""
NESTED_MAX: Final = 50
_POSIX: Final = {
    "Lower": "a-z",
    "Upper": "A-Z",
    "ASCII": r"\x00-\x7f",
    "Alpha": "a-zA-Z",
    "Digit": "0-9",
    "Alnum": "a-zA-Z0-9",
    "Punct": r"!-/:-@\[-`{-~",
    "Graph": "!-~",
    "Print": " -~",
    "Blank": r" \t",
    "Cntrl": r"\x00-\x1f\x7f",
    "XDigit": "0-9a-fA-F",
    "Space": r" \t\n\x0b\f\r",
}
_CLASSES: Final = {
    "d": "0-9",
    "w": "a-zA-Z0-9_",
    "s": r" \t\n\x0b\f\r",
    "h": r" \t\x{a0}\x{1680}\x{180e}\x{2000}-\x{200a}\x{202f}\x{205f}\x{3000}",
    "v": r"\n\x0b\f\r\x{85}\x{2028}\x{2029}",
}
_CONTROLS: Final = {"t": 9, "n": 10, "f": 12, "r": 13, "a": 7, "e": 27}
_NUMBER: Final = re.compile(
    r"0([0-3]?[0-7]{1,2}|[0-7])|x([0-9a-fA-F]{2})|x\{([0-9a-fA-F]+)\}|u([0-9a-fA-F]{4})"
)
_QUANTIFIER: Final = re.compile(r"\{(\d+)(,(\d*))?\}")
_FLAGS: Final = re.compile(r"\?([idmsuxU]*)(?:-([idmsuxU]*))?([:)])")
_GROUP_NAME: Final = re.compile(r"\?<([a-zA-Z][a-zA-Z0-9]*)>")
_CATEGORY: Final = re.compile(r"[A-Z][a-z]?")


class PatternError(ValueError):
    """A pattern is wrong, or cannot be expressed; the text says what and where."""


def matcher(pattern: str) -> Callable[[str], bool]:
    """Whether a pattern is found anywhere in a name, as by Java's `Matcher.find`. PatternError."""
    options = re2.Options()
    options.log_errors = False
    translated = translate(pattern)
    try:
        compiled = re2.compile(translated, options)
    except re2.error as error:
        said = error.args[0] if error.args else error
        text = said.decode(errors="replace") if isinstance(said, bytes) else str(said)
        raise PatternError(f"is no regular expression that can be matched: {text}") from None
    return lambda name: compiled.search(name) is not None


def translate(pattern: str) -> str:
    """The RE2 expression that is found in the same names. PatternError."""
    if len(pattern) > PATTERN_MAX:
        raise PatternError(f"is longer than {PATTERN_MAX} characters")
    return _Translation(pattern).whole()


class _Translation:
    """One pass over a pattern; `place` is the next character."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.place = 0

    def whole(self) -> str:
        parts = []
        while self.place < len(self.pattern):
            parts.append(self._piece())
        return "".join(parts)

    def _piece(self) -> str:
        char = self._take()
        if char == "\\":
            return self._escape()
        if char == "[":
            negated, content = self._class(0)
            return f"[{'^' if negated else ''}{content}]"
        if char == "(":
            return self._group()
        if char in "*+?":
            return char + self._after_quantifier()
        if char == "{":
            found = _QUANTIFIER.match(self.pattern, self.place - 1)
            if found is None:
                raise self._error("has a { that begins no repetition")
            self.place = found.end()
            return found[0] + self._after_quantifier()
        return char if char in "^$.|)" else _literal(char)

    def _after_quantifier(self) -> str:
        following = self._peek()
        if following == "+":
            raise self._error("has a possessive quantifier")
        if following == "?":
            self.place += 1
            return "?"
        return ""

    def _group(self) -> str:
        if self._peek() != "?":
            return "("
        named = _GROUP_NAME.match(self.pattern, self.place)
        if named:
            self.place = named.end()
            return f"(?P<{named[1]}>"
        flags = _FLAGS.match(self.pattern, self.place)
        if flags is None:
            raise self._error("has a group that looks around, is atomic, or is not known to Java")
        self.place = flags.end()
        return self._flags(flags[1], flags[2] or "", flags[3])

    def _flags(self, on: str, off: str, end: str) -> str:
        """Of Java's flags, those that make a difference for names of topics."""
        if "x" in on:
            raise self._error("uses (?x), comments in patterns")
        chosen = "".join(flag for flag in "ims" if flag in on)
        dropped = "".join(flag for flag in "ims" if flag in off)
        if not chosen and not dropped:
            return "(?:" if end == ":" else ""
        return f"(?{chosen}{'-' + dropped if dropped else ''}{end}"

    def _escape(self) -> str:
        """What follows a backslash outside of a class."""
        char = self._take("ends with a backslash")
        if char == "Q":
            return "".join(map(_literal, self._quoted()))
        if char == "E":
            raise self._error(r"has an \E without its \Q")
        if char in "123456789k":
            raise self._error("refers back to a group")
        if char in "AzbB":
            if self._peek() == "{":
                raise self._error(rf"has \{char}{{...}}")
            return f"\\{char}"
        if char == "Z":
            return r"\z"
        if char == "R":
            return rf"(?:\r\n|[{_CLASSES['v']}])"
        if char.lower() in _CLASSES:
            return f"[{'^' if char.isupper() else ''}{_CLASSES[char.lower()]}]"
        if char in "pP":
            text, negated = self._property(char == "P")
            return f"[{'^' if negated else ''}{text}]"
        return _literal(self._character(char))

    def _quoted(self) -> str:
        end = self.pattern.find("\\E", self.place)
        text = self.pattern[self.place : end if end >= 0 else len(self.pattern)]
        self.place = end + 2 if end >= 0 else len(self.pattern)
        return text

    def _character(self, char: str) -> str:
        """The one character that an escape beginning with `char` stands for."""
        number = _NUMBER.match(self.pattern, self.place - 1)
        if number:
            self.place = number.end()
            octal, *hexadecimal = number.groups()
            code = int(octal, 8) if octal else int(next(filter(None, hexadecimal)), 16)
            if code > 0x10FFFF or 0xD800 <= code < 0xE000:
                raise self._error("has an escape that is no character")
            return chr(code)
        if char == "c":
            return chr(ord(self._take("ends within an escape")) ^ 64)
        if char in _CONTROLS:
            return chr(_CONTROLS[char])
        if char.isascii() and char.isalnum():
            raise self._error(rf"has the escape \{char}, which cannot be expressed")
        return char

    def _property(self, negated: bool) -> tuple[str, bool]:
        r"""The content of a class for \p or \P."""
        if self._peek() != "{":
            name = self._take("ends within an escape")
        else:
            end = self.pattern.find("}", self.place)
            if end < 0:
                raise self._error(r"has a \p{ without its }")
            name = self.pattern[self.place + 1 : end]
            self.place = end + 1
        if name in _POSIX:
            return _POSIX[name], negated
        category = name.removeprefix("Is")
        if _CATEGORY.fullmatch(category):
            return f"\\{'P' if negated else 'p'}{{{category}}}", False
        raise self._error(rf"has the property \p{{{name}}}, which cannot be expressed")

    # -- classes ---------------------------------------------------------------------------------

    def _class(self, depth: int) -> tuple[bool, str]:
        """The class that begins here, behind its [: whether it is negated, and its content."""
        if depth > NESTED_MAX:
            raise self._error("has classes nested too deep")
        negated = self._peek() == "^"
        self.place += negated
        parts: list[str] = []
        while True:
            char = self._take("has a [ without its ]")
            if char == "]" and parts:
                return negated, "".join(parts)
            if char == "&" and self._peek() == "&":
                raise self._error("intersects classes with &&")
            if char == "[":
                inside_negated, inside = self._class(depth + 1)
                if negated or inside_negated:
                    raise self._error("nests a class where one of both is negated")
                parts.append(inside)
            elif char == "\\":
                parts.append(self._escape_in_class())
            else:
                parts.append("-" if char == "-" else _literal_in_class(char))

    def _escape_in_class(self) -> str:
        char = self._take("ends with a backslash")
        if char == "Q":
            return "".join(map(_literal_in_class, self._quoted()))
        if char.lower() in _CLASSES:
            if char.isupper() and char not in "DWS":
                raise self._error(rf"has \{char} in a class")
            return f"\\{char}" if char in "DWS" else _CLASSES[char]
        if char in "pP":
            text, negated = self._property(char == "P")
            if negated:
                raise self._error(r"has a \P of ASCII letters in a class")
            return text
        return _literal_in_class(self._character(char))

    # -- characters ------------------------------------------------------------------------------

    def _peek(self) -> str:
        return self.pattern[self.place : self.place + 1]

    def _take(self, otherwise: str = "") -> str:
        if self.place >= len(self.pattern):
            raise self._error(otherwise)
        self.place += 1
        return self.pattern[self.place - 1]

    def _error(self, what: str) -> PatternError:
        return PatternError(f"{what} (at character {self.place})")


def _literal(char: str) -> str:
    return char if char.isascii() and (char.isalnum() or char in "_-") else f"\\x{{{ord(char):x}}}"


def _literal_in_class(char: str) -> str:
    return char if char.isascii() and char.isalnum() else f"\\x{{{ord(char):x}}}"
