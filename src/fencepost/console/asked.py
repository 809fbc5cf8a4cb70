"""What a page was asked for: the parts of its path and its query, read by one rule for browsers,
`/api` and the command line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import quote, unquote, urlencode

from fencepost.client.offset_targets import iso_time_ms

VALUE_BYTES_MAX: Final = 8_192
_DOTS: Final = r"~*\.\.?"
_DOTS_SENT: Final = "~" + _DOTS


class BadQuery(ValueError):
    """A value that a page cannot take, or does not have (None): names the key, the value and what
    is allowed."""

    def __init__(self, key: str, value: str | None, allowed: str) -> None:
        super().__init__(f"{key if value is None else f'{key[:80]}={value[:80]!r}'}: {allowed}")
        self.key = key


class NotThere(LookupError):
    """What a page is about does not exist; the words say what and where it was looked for."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The values of a page's path and query, by name."""

    values: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, pairs: Iterable[tuple[str, str]]) -> Asked:
        """Values as they were given, each once. Raises BadQuery."""
        values: dict[str, str] = {}
        for key, value in pairs:
            if key in values:
                raise BadQuery(key, value, f"it is {values[key][:80]!r} already")
            values[key] = value
        return cls(values)

    def check(self, what: str, needed: Sequence[str], allowed: Sequence[str]) -> None:
        """See that all that is `needed` is there, and nothing beside that and what is `allowed`,
        for a mistyped name would change nothing and say nothing. `what` is what is asked. Raises
        BadQuery."""
        for key in needed:
            if key not in self.values:
                raise BadQuery(key, None, f"{what} is about one: say which, as {key}=...")
        known = (*needed, *allowed)
        for key, value in self.values.items():
            if key not in known:
                from difflib import get_close_matches  # only for mistakes

                near = get_close_matches(key, known, n=1)
                meant = f"did you mean {near[0]}? " if near else ""
                takes = ", ".join(allowed) or "nothing"
                raise BadQuery(key, value, f"{meant}{what} takes {takes}")

    def text(self, key: str, default: str = "") -> str:
        """A text of VALUE_BYTES_MAX bytes at most. Raises BadQuery."""
        value = self.values.get(key, default)
        if len(value.encode(errors="surrogatepass")) > VALUE_BYTES_MAX:
            raise BadQuery(key, value, f"at most {VALUE_BYTES_MAX} bytes are allowed")
        return value

    def number(self, key: str, default: int, least: int, most: int) -> int:
        """A whole number from `least` to `most`. Raises BadQuery."""
        value = self.values.get(key)
        if value is None or value == "":
            return default
        digits = value.removeprefix("-")
        if digits.isascii() and digits.isdecimal() and len(digits) <= 19:
            found = int(value)
            if least <= found <= most:
                return found
        raise BadQuery(key, value, f"a number from {least} to {most} is allowed")

    def choice(self, key: str, allowed: tuple[str, ...]) -> str:
        """One of `allowed`; without a value the first of them. Raises BadQuery."""
        value = self.values.get(key) or allowed[0]
        if value not in allowed:
            raise BadQuery(key, value, f"allowed are {', '.join(allowed)}")
        return value

    def moment_ms(self, key: str) -> int | None:
        """An ISO 8601 time as ms since 1970, None where none is given. Raises BadQuery."""
        text = self.text(key).strip()
        found = iso_ms(text)
        if text and found is None:
            raise BadQuery(key, text, "an ISO 8601 time is allowed")
        return found


def iso_ms(text: str) -> int | None:
    """An ISO 8601 time (UTC, unless it says otherwise) as ms since 1970; None for other texts."""
    try:
        return max(0, iso_time_ms(text))
    except ValueError:
        return None


def path_to(*parts: object, **query: object) -> str:
    """A path of the console with its parts and query quoted; values that are None are left out.

    Browsers take a part that is `.` or `..` out of a path, percent-encoded or not (URL Standard,
    "single-dot path segment"), and groups may be called so. These parts get a tilde in front, and
    so do those that would be taken for one that has got it; `part_of` takes it away.
    """
    path = "/" + "/".join(map(_sent, map(str, parts)))
    given = {key: str(value) for key, value in query.items() if value is not None}
    return f"{path}?{urlencode(given)}" if given else path


def _sent(part: str) -> str:
    return quote(f"~{part}" if re.fullmatch(_DOTS, part) else part, safe="")


def part_of(sent: str) -> str:
    """A part of a path that `path_to` has made."""
    part = unquote(sent)
    return part[1:] if re.fullmatch(_DOTS_SENT, part) else part
