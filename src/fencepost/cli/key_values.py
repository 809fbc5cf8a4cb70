"""KEY=VALUE on the command line."""

from __future__ import annotations

from fencepost.cli.failures import UsageError


def pair(text: str, option: str) -> tuple[str, str]:
    """ "key=value" as a pair, without blanks around them. UsageError names the option."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise UsageError(f"{option} {text!r}: must be KEY=VALUE")
    return key.strip(), value.strip()
