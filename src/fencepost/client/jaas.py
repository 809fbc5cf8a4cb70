"""The value of `sasl.jaas.config`: one login module and its options, as Java clients take it.

    org.apache.kafka.common.security.plain.PlainLoginModule required username="ada" password="x";

Values may stand in double or single quotes with backslashes before quotes, or bare up to a space
or the semicolon.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from fencepost.client.errors import ConfigError

KEY = "sasl.jaas.config"
FLAGS = ("required", "requisite", "sufficient", "optional")
_QUOTED = r""""(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'"""
_TOKEN = re.compile(
    rf"""\s*(?:(?P<end>;)|(?P<name>[^\s=;"']+)(?:\s*=\s*(?P<value>{_QUOTED}|[^\s;"']+))?)""",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class LoginModule:
    """A module's class, and its options."""

    name: str
    """Without the package."""
    options: dict[str, str] = field(repr=False)
    class_name: str = ""
    """With it, as it is written."""


def login_module(text: str) -> LoginModule:
    """The one module that `text` configures. ConfigError, without the text, which has secrets."""
    words: list[str] = []
    options: dict[str, str] = {}
    place = 0
    while place < len(text.rstrip()):
        token = _TOKEN.match(text, place)
        if token is None:
            raise ConfigError(KEY, "...", f"is not a JAAS configuration, at character {place}")
        place = token.end()
        if token["end"]:
            break
        if token["value"] is not None:
            options[token["name"]] = _unquoted(token["value"])
        else:
            words.append(token["name"])
    if text[place:].strip():
        raise ConfigError(KEY, "...", "must have one login module, and nothing behind its ;")
    if len(words) != 2 or words[1].lower() not in FLAGS:
        raise ConfigError(KEY, "...", 'must be like "Module required name=\\"value\\";"')
    return LoginModule(words[0].rpartition(".")[2], options, words[0])


def _unquoted(value: str) -> str:
    if value[0] not in "\"'":
        return value
    return re.sub(r"\\(.)", r"\1", value[1:-1], flags=re.DOTALL)


def jaas_line(module: str, options: Mapping[str, str]) -> str:
    """The text that `login_module` reads as this module with these options."""
    words = [module, "required"]
    for name, value in options.items():
        quoted = re.sub(r'(["\\])', r"\\\1", value)
        words.append(f'{name}="{quoted}"')
    return f"{' '.join(words)};"
