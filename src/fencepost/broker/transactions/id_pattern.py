"""Patterns that transactional ids are listed by (KIP-1152), in RE2's syntax as with Kafka's RE2/J.

A pattern comes from a client that may list transactions, so it is matched as the expressions of
subscriptions are (`machines/group/consumer/regexes.py`), in less memory. Without google-re2 (extra
`regex`) there are no patterns, and the version of ListTransactions that has them is not offered.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from fencepost.machines.group.consumer.regexes import InvalidRegexError, compile_regex

PATTERN_MAX: Final = 1_000
"""Characters of a pattern."""
MEMORY_BYTES_MAX: Final = 128 * 1024
"""What one compiled pattern and its states may take, which bounds the time that an id takes."""


class PatternError(ValueError):
    """It is no regular expression of RE2/J, or one that would take too much."""


def id_matcher(pattern: str) -> Callable[[str], bool]:
    """Whether a whole id matches the pattern. PatternError."""
    if len(pattern) > PATTERN_MAX:
        raise PatternError(f"longer than {PATTERN_MAX} characters")
    try:
        return compile_regex(pattern, MEMORY_BYTES_MAX).matches
    except InvalidRegexError as error:
        raise PatternError(str(error)) from None
