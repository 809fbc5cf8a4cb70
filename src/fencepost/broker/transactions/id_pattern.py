"""Patterns that transactional ids are listed by (KIP-1152), in RE2's syntax as with Kafka's RE2/J.

A pattern comes from whoever may list transactions, so it is matched in time linear in the id and
bounded memory, which Python's own expressions do not promise. Without google-re2 (extra `regex`)
there are no patterns, and the version of ListTransactions that has them is not offered.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

PATTERN_MAX: Final = 1_000
"""Characters of a pattern."""
MEMORY_BYTES_MAX: Final = 128 * 1024
"""What one compiled pattern and its states may take, which bounds the time that an id takes."""
# A byte of a character: RE2 has it, RE2/J and its users have not.
_ONE_BYTE: Final = re.compile(r"(?:[^\\]|^)(?:\\\\)*\\C")


class PatternError(ValueError):
    """It is no regular expression of RE2, or one that would take too much."""


def id_matcher(pattern: str) -> Callable[[str], bool]:
    """Whether a whole id matches the pattern. PatternError."""
    import re2  # some milliseconds and megabytes that only those pay who are asked for it

    if len(pattern) > PATTERN_MAX:
        raise PatternError(f"longer than {PATTERN_MAX} characters")
    if _ONE_BYTE.search(pattern):
        raise PatternError("\\C matches no character")
    options = re2.Options()
    options.log_errors = False
    options.max_mem = MEMORY_BYTES_MAX
    try:
        compiled = re2.compile(pattern, options)
    except re2.error as error:
        raise PatternError(str(error)) from None
    return lambda transactional_id: compiled.fullmatch(transactional_id) is not None
