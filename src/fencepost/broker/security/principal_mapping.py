"""`ssl.principal.mapping.rules`: which principal a certificate's name stands for (KIP-371).

A list of rules, of which the first that matches decides: `DEFAULT` is the name itself, and
`RULE:pattern/replacement/[LU]` matches a whole name and gives the replacement, with `$1` for a
group, in lower or upper case. A reference to a group that is not there is literal text, as in
Kafka. If no rule matches, the client is not let in.
"""

from __future__ import annotations

import re
from typing import Final

from msgspec import Struct

from fencepost.broker.security.java_regex import JavaRegexError, compile_java_regex
from fencepost.log.configdef import ConfigError

RULES_KEY: Final = "ssl.principal.mapping.rules"
NAME_CHARACTERS_MAX: Final = 1024
"""Of a certificate's name: what an expression has to be matched with."""
ATTRIBUTES_MAX: Final = 32
"""Of a name. The expressions that Kafka's documentation has try all ways to place a name's commas:
with 20 attributes of each kind that takes a third of a second, with 100 an hour."""

_RULE: Final = r"(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?).*?|(.*?)"
_SPLITTER: Final = re.compile(rf"\s*((?:{_RULE}))\s*(,\s*|$)", re.DOTALL)
_PARSER: Final = re.compile(_RULE, re.DOTALL)


class NoPrincipalError(Exception):
    """No rule matches the name."""


class Rule(Struct, frozen=True):
    """One rule; `pattern` is None for DEFAULT."""

    pattern: re.Pattern[str] | None
    replacement: tuple[str | int, ...] = ()
    """Texts, and numbers of groups."""
    case: str = ""

    def apply(self, name: str) -> str | None:
        """The principal's name; None if the rule does not match."""
        if self.pattern is None:
            return name
        if self.pattern.fullmatch(name) is None:
            return None
        mapped = self.pattern.sub(self._replaced, name)
        return {"L": mapped.lower, "U": mapped.upper}.get(self.case, lambda: mapped)()

    def _replaced(self, match: re.Match[str]) -> str:
        parts = (p if isinstance(p, str) else match.group(p) or "" for p in self.replacement)
        return "".join(parts)


class PrincipalMapping:
    """The rules of a listener."""

    def __init__(self, text: str, key: str = RULES_KEY) -> None:
        """Read the rules that `key` has. ConfigError."""
        self._key = key
        self.rules = tuple(self._parsed(text.strip()))

    def name_of(self, distinguished_name: str) -> str:
        """The principal's name. NoPrincipalError."""
        if len(distinguished_name) > NAME_CHARACTERS_MAX:
            raise NoPrincipalError(f"a name of {len(distinguished_name)} characters")
        attributes = distinguished_name.count("=") - distinguished_name.count("\\=")
        if attributes > ATTRIBUTES_MAX:
            raise NoPrincipalError(f"a name of {attributes} attributes")
        for rule in self.rules:
            name = rule.apply(distinguished_name)
            if name is not None:
                return name
        raise NoPrincipalError(f"no rule of {self._key} matches {distinguished_name!r}")

    def _parsed(self, text: str) -> list[Rule]:
        rules = []
        for split in _SPLITTER.finditer(text):
            found = _PARSER.match(split[1])
            if found is None or found.end() != len(split[1]):
                raise self._error(split[1], "DEFAULT or RULE:pattern/replacement/[LU]")
            if found[1] is not None:
                rules.append(Rule(None))
            elif found[2] is not None:
                rules.append(self._rule(split[1], found[2], found[3], found[4]))
        return rules

    def _rule(self, text: str, pattern: str, replacement: str, case: str) -> Rule:
        try:
            compiled = compile_java_regex(pattern)
        except JavaRegexError as error:
            raise self._error(text, f"a pattern that can be read: {error}") from None
        try:
            return Rule(compiled, _template(replacement, compiled), case)
        except ValueError as error:
            raise self._error(text, str(error)) from None

    def _error(self, text: str, allowed: str) -> ConfigError:
        return ConfigError(self._key, text, allowed)


def _template(text: str, pattern: re.Pattern[str]) -> tuple[str | int, ...]:
    """A replacement as Java reads it. ValueError."""
    parts: list[str | int] = []
    at = 0
    while at < len(text):
        if text[at] == "\\":
            if at + 1 == len(text):
                raise ValueError("a replacement that does not end with a backslash")
            parts.append(text[at + 1])
            at += 2
        elif text[at] != "$":
            parts.append(text[at])
            at += 1
        elif named := re.match(r"\$\{([A-Za-z][A-Za-z0-9]*)\}", text[at:]):
            if named[1] not in pattern.groupindex:
                raise ValueError(f"a replacement whose groups are there: {named[0]} is not")
            parts.append(pattern.groupindex[named[1]])
            at += named.end()
        else:
            part, size = _reference(text[at:], pattern.groups)
            parts.append(part)
            at += size
    return tuple(parts)


def _reference(text: str, groups: int) -> tuple[str | int, int]:
    """The group that `$12` means, with as many digits as there are groups for; and its length."""
    found = re.match(r"\$([0-9]+)", text)
    if found is None:
        raise ValueError("a replacement in which $ is followed by a number; \\$ is the character")
    digits = found[1]
    size = 1
    while size < len(digits) and int(digits[: size + 1]) <= groups:
        size += 1
    number = int(digits[:size])
    if number <= groups:
        return number, 1 + size
    if groups == 0:
        raise ValueError(f"a replacement without ${number}: the pattern has no groups")
    return "$", 1
