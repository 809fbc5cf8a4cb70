"""KEY=VALUE on the command line."""

from __future__ import annotations

from collections.abc import Iterable

from fencepost.cli.failures import UsageError


def pair(text: str, option: str) -> tuple[str, str]:
    """ "key=value" as a pair, without blanks around them. UsageError names the option."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise UsageError(f"{option} {text!r}: must be KEY=VALUE")
    return key.strip(), value.strip()


def pairs(texts: Iterable[str], option: str) -> dict[str, str]:
    """The values of an option that is given several times, by key; the last of a key wins."""
    return dict(pair(text, option) for text in texts)
