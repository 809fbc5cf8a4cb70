"""Filters of records: a small language, read into a tree and evaluated with limits.

    value.customer.name = "c3" and not (offset < 100 or partition = 2)
    key contains "eu-" and timestamp >= "2026-01-02T03:04:05Z"
    header.source = "test" or value matches "^ERR[0-9]+"

| part | |
|---|---|
| `offset`, `partition`, `timestamp` | numbers; a timestamp in ms, or ISO 8601 in quotes |
| `key`, `value` | as text, by the decoder that they are shown by |
| `key.NAME…`, `value.NAME…` | what JSON has at a path: names (in quotes, if odd), positions |
| `header.NAME` | the first header of that name, as text |
| `=` `!=` `<` `<=` `>` `>=` | numbers with numbers, text with text (or read as a number) |
| `contains`, `matches` | text within a text; an expression of RE2 (extra `regex`) |
| `and` `or` `not` `( )` | `not` binds first, then `and` |
| literals | numbers, text in `"` or `'`, `true`, `false`, `null` |

What is not there is `null`: it equals `null`, differs from all else, and no other comparison with
it is true. Nothing of a filter is ever run as code. Reading bounds its length, its depth and its
parts; evaluation counts steps, more of them for long texts; a look that took too many ends.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

from fencepost.console.records.filter_subject import Subject, compare, text_of
from fencepost.console.records.filter_tokens import PARTS_MAX, FilterError, Token, tokens_of

DEPTH_MAX: Final = 30
REGEX_MEMORY_BYTES_MAX: Final = 1 << 20
COMPARISONS: Final = ("=", "!=", "<", "<=", ">", ">=")
TEXT_OPERATORS: Final = ("contains", "matches")
NUMBERS: Final = ("offset", "partition", "timestamp")
ROOTS: Final = ("key", "value", "header")

Read = Callable[[Subject], Any]
Test = Callable[[Subject], bool]


class _Reader:
    """Reads tokens from the left; each method reads what it is named for."""

    def __init__(self, text: str) -> None:
        self._tokens = tokens_of(text)
        self._at = 0
        self._depth = 0
        self._parts = 0

    def whole(self) -> Test:
        test = self._either()
        if self._next.kind != "end":
            self._fail("and, or, or the end is expected")
        return test

    @property
    def _next(self) -> Token:
        return self._tokens[self._at]

    def _take(self) -> Token:
        token = self._next
        self._at += 1
        return token

    def _fail(self, reason: str, token: Token | None = None) -> None:
        token = token or self._next
        has = "the end" if token.kind == "end" else repr(token.text[:40])
        raise FilterError(token.position, f"{reason}, not {has}")

    def _is_word(self, word: str) -> bool:
        return self._next.kind == "word" and self._next.text == word

    def _count(self) -> None:
        self._parts += 1
        if self._parts > PARTS_MAX:
            raise FilterError(self._next.position, f"a filter has at most {PARTS_MAX} parts")

    def _either(self) -> Test:
        tests = [self._both()]
        while self._is_word("or"):
            self._take()
            tests.append(self._both())
        return tests[0] if len(tests) == 1 else lambda one: any(test(one) for test in tests)

    def _both(self) -> Test:
        tests = [self._negated()]
        while self._is_word("and"):
            self._take()
            tests.append(self._negated())
        return tests[0] if len(tests) == 1 else lambda one: all(test(one) for test in tests)

    def _negated(self) -> Test:
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise FilterError(self._next.position, f"it is nested more than {DEPTH_MAX} deep")
        try:
            if self._is_word("not"):
                self._take()
                test = self._negated()
                return lambda one: not test(one)
            if self._next.text == "(" and self._next.kind == "mark":
                self._take()
                test = self._either()
                if self._next.text != ")" or self._next.kind != "mark":
                    self._fail(") is expected")
                self._take()
                return test
            return self._comparison()
        finally:
            self._depth -= 1

    def _comparison(self) -> Test:
        self._count()
        name = self._next.text
        read = self._operand()
        token = self._take()
        if token.kind == "operator":
            operator, literal = token.text, self._literal(name)
            return _counted(read, lambda value: compare(operator, value, literal))
        if token.kind == "word" and token.text in TEXT_OPERATORS:
            wanted = self._take()
            if wanted.kind != "text":
                self._fail(f"a text in quotes is expected after {token.text}", wanted)
            if token.text == "contains":
                return _counted(read, lambda value: wanted.value in (text_of(value) or ""), True)
            matches = _expression(wanted)
            return _counted(
                read, lambda value: value is not None and matches(text_of(value) or ""), True
            )
        self._fail(f"one of {', '.join((*COMPARISONS, *TEXT_OPERATORS))} is expected", token)
        raise AssertionError("it has failed")

    def _operand(self) -> Read:
        token = self._take()
        if token.kind != "word" or token.text not in (*NUMBERS, *ROOTS):
            self._fail(f"one of {', '.join((*NUMBERS, *ROOTS))} is expected", token)
        path = self._path()
        root = token.text
        if root in NUMBERS:
            if path:
                raise FilterError(token.position, f"{root} is a number and has no parts")
            return _NUMBER_READERS[root]
        if root == "header":
            if not path:
                raise FilterError(token.position, "header.NAME is expected")
            name = ".".join(path)
            return lambda one: one.header(name)
        if path:
            return lambda one: one.at_path(root, path)
        return lambda one: one.text(root)

    def _path(self) -> tuple[str, ...]:
        path: list[str] = []
        while self._next.text == "." and self._next.kind == "mark":
            self._take()
            token = self._take()
            if token.kind == "text":
                path.append(token.value)
            elif token.kind in ("word", "number", "digits") and not token.text.startswith("-"):
                path += token.text.split(".")  # "items.0.1": the reader of numbers takes "0.1"
            else:
                self._fail("a name is expected after the dot", token)
            self._count()
        return tuple(path)

    def _literal(self, name: str) -> Any:
        token = self._take()
        if token.kind == "number":
            return token.value
        if token.kind == "text":
            return _time_ms(token) if name == "timestamp" else token.value
        words = {"true": True, "false": False, "null": None}
        if token.kind != "word" or token.text not in words:
            self._fail("a number, a text in quotes, true, false or null is expected", token)
        return words[token.text]


_NUMBER_READERS: Final[dict[str, Read]] = {
    "offset": lambda one: one.found.record.offset,
    "partition": lambda one: one.found.partition,
    "timestamp": lambda one: one.found.record.timestamp_ms,
}


def _counted(read: Read, holds: Callable[[Any], bool], goes_through: bool = False) -> Test:
    """A comparison that counts its steps."""

    def test(one: Subject) -> bool:
        value = read(one)
        one.steps.take(len(value) if goes_through and isinstance(value, str) else 0)
        return holds(value)

    return test


def _time_ms(token: Token) -> int:
    try:
        moment = datetime.fromisoformat(token.value)
    except ValueError:
        raise FilterError(token.position, "an ISO 8601 time is expected") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    try:
        return int(moment.timestamp() * 1000)
    except (OverflowError, ValueError):
        raise FilterError(token.position, "there is no such time") from None


def _expression(token: Token) -> Callable[[str], bool]:
    """Whether a text has a match of the expression. By RE2, which takes linear time: expressions
    come from browsers and meet whatever a topic has."""
    try:
        import re2
    except ImportError:
        raise FilterError(
            token.position, "matches needs the extra `regex`; contains needs nothing"
        ) from None
    options = re2.Options()
    options.log_errors = False
    options.max_mem = REGEX_MEMORY_BYTES_MAX
    try:
        compiled = re2.compile(token.value, options)
    except (re2.error, UnicodeEncodeError) as error:
        said = error.args[0] if error.args else error
        reason = said.decode(errors="replace") if isinstance(said, bytes) else str(said)
        raise FilterError(token.position, f"no expression of RE2: {reason[:200]}") from None
    return lambda text: _searched(compiled, text)


def _searched(compiled: Any, text: str) -> bool:
    try:
        return compiled.search(text) is not None
    except UnicodeEncodeError:  # half of a surrogate pair, which JSON can hold
        return compiled.search(text.encode(errors="replace").decode()) is not None


class Filter:
    """A filter, ready for many records. Raises FilterError for one that makes no sense."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._test = _Reader(text).whole()

    def lets_through(self, subject: Subject) -> bool:
        """Whether the record is wanted. Raises TooManySteps."""
        return self._test(subject)
