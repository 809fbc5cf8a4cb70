"""Regular expressions of subscriptions (KIP-848), in the syntax of RE2/J, which Kafka's broker has.

An expression comes from a member and is matched against the names of all topics, so it is matched
by RE2 (google-re2, extra `regex`) in time linear in the name and bounded memory, which Python's own
expressions do not promise. It has to match a whole name.

RE2 takes a little more than RE2/J: `\\C`, group names that are used twice, and group names beyond
ASCII are refused here. It takes less of nested repetitions, whose automaton would be large. Without
google-re2 every expression is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

LENGTH_MAX: Final = 10_000
"""Characters of an expression."""
MEMORY_BYTES_MAX: Final = 1 << 20
"""What a compiled expression and its states may take."""

# What to look at in an expression that RE2 takes: a quotation, an escape, a class, a named group.
_PARTS: Final = re.compile(
    r"""\\Q.*?(?:\\E|\Z)
    | \\(?P<escape>.)
    | \[ \^? \]? (?: \[: \^? [a-z]+ :\] | \\. | [^\]\\] )* \]
    | \( \? P? < (?P<name>[^>]*) >""",
    re.VERBOSE | re.DOTALL,
)


class InvalidRegexError(ValueError):
    """INVALID_REGULAR_EXPRESSION: the text says why, for the client."""


class Regex(NamedTuple):
    """A compiled expression."""

    text: str
    matches: Callable[[str], bool]
    """Whether it matches a whole name."""


def compile_regex(text: str, memory_bytes_max: int = MEMORY_BYTES_MAX) -> Regex:
    """The expression, ready to be matched. InvalidRegexError."""
    try:
        import re2  # some megabytes that only those pay who are asked for it
    except ImportError:
        raise InvalidRegexError(
            "regular expressions are not available: the broker has no google-re2"
        ) from None
    if len(text) > LENGTH_MAX:
        raise InvalidRegexError(
            f"a regular expression may have {LENGTH_MAX} characters, not {len(text)}"
        )
    options = re2.Options()
    options.log_errors = False
    options.max_mem = memory_bytes_max
    try:
        compiled = re2.compile(text, options)
    except (re2.error, UnicodeEncodeError) as error:
        raise InvalidRegexError(_refusal(text, _reason(error))) from None
    reason = _refused_by_re2j(text)
    if reason is not None:
        raise InvalidRegexError(_refusal(text, reason))
    return Regex(text, lambda name: compiled.fullmatch(name) is not None)


def resolve_regexes(texts: Iterable[str], topic_names: Iterable[str]) -> dict[str, frozenset[str]]:
    """The topics that each expression matches; none for one that is not valid, as in Kafka."""
    names = list(topic_names)
    resolved = {}
    for text in texts:
        try:
            matches = compile_regex(text).matches
        except InvalidRegexError:
            resolved[text] = frozenset[str]()
        else:
            resolved[text] = frozenset(filter(matches, names))
    return resolved


def _refusal(text: str, reason: str) -> str:
    return f"the regular expression `{text}` is not valid: {reason}"


def _reason(error: Exception) -> str:
    said = error.args[0] if error.args else error
    return said.decode(errors="replace") if isinstance(said, bytes) else str(said)


def _refused_by_re2j(text: str) -> str | None:
    """Why RE2/J does not take an expression that RE2 takes; None if it does."""
    names: set[str] = set()
    for part in _PARTS.finditer(text):
        if part["escape"] == "C":
            return "invalid escape sequence: \\C"
        name = part["name"]
        if name is not None:
            if not name.isascii():
                return f"invalid group name: {name}"
            if name in names:
                return f"group name used twice: {name}"
            names.add(name)
    return None
