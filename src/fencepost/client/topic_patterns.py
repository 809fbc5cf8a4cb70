"""What a pattern of a subscription matches, before a consumer subscribes to it (KIP-848).

Coordinators match patterns with RE2, against whole names: `^orders` matches the topic `orders` and
no other, while clients that match patterns themselves take every name that begins so. This finds
the names in between, with the rules of Fencepost's own coordinator.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from fencepost.client.errors import ConfigError
from fencepost.machines.group.consumer.regexes import InvalidRegexError, compile_regex


class PatternMatches(NamedTuple):
    """The names that a pattern matches, and those that it matches a part of only. `advice` is a
    pattern that matches these as well, None where there are none, or it is not as simple."""

    matched: tuple[str, ...]
    in_part: tuple[str, ...]
    advice: str | None


def match_pattern(pattern: str, topics: Iterable[str]) -> PatternMatches:
    """What the coordinator would make of a pattern. ConfigError for one that it refuses, and where
    google-re2 is not installed."""
    try:
        matches = compile_regex(pattern).matches
    except InvalidRegexError as error:
        raise ConfigError("pattern", pattern, str(error)) from None
    names = sorted(set(topics))
    matched = tuple(filter(matches, names))
    in_part = _matched_by(f".*(?:{pattern}).*", set(names).difference(matched))
    for advice in (f"{pattern}.*", f".*{pattern}", f".*{pattern}.*"):
        if in_part and _matched_by(advice, in_part) == in_part:
            return PatternMatches(matched, in_part, advice)
    return PatternMatches(matched, in_part, None)


def _matched_by(pattern: str, names: Iterable[str]) -> tuple[str, ...]:
    """Nothing where the pattern is not valid: one with an open quotation cannot be added to."""
    try:
        return tuple(sorted(filter(compile_regex(pattern).matches, names)))
    except InvalidRegexError:
        return ()
