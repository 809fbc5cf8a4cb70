"""Configs beside each other: of brokers, and of one resource against what it would have by default.

A value that is sensitive is never shown; that two brokers have different ones is not said either.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from fencepost.client.config_descriptions import DescribedConfig
from fencepost.views.view import View

HIDDEN = "(hidden)"
OF_ITS_OWN = (
    "advertised.listeners",
    "broker.id",
    "broker.rack",
    "controller.listener.names",
    "listeners",
    "log.dir",
    "log.dirs",
    "metadata.log.dir",
    "node.id",
)
"""Configs that every broker has a value of its own for."""


class ComparedConfig(View, frozen=True):
    """A config of several brokers: by broker id its value (None: it has none), and the default.
    `differs` says that brokers have different values, `set_on` names those where one is set."""

    name: str
    values: dict[int, str | None]
    default: str | None
    sensitive: bool
    differs: bool
    set_on: list[int]


class ConfigAgainstDefault(View, frozen=True):
    """A config of one resource: its value, where that is from, what it would be without the
    resource's own, and the default; values of sensitive ones are None."""

    columns: ClassVar = {
        "config": "name",
        "value": "shown_value",
        "source": "source",
        "without it": "shown_inherited",
        "default": "shown_default",
    }

    name: str
    value: str | None
    source: str
    inherited: str | None
    default: str | None
    read_only: bool
    sensitive: bool
    is_default: bool

    @classmethod
    def of(cls, one: DescribedConfig) -> ConfigAgainstDefault:
        return cls(
            one.name,
            one.value,
            one.source,
            one.inherited,
            one.default,
            one.read_only,
            one.sensitive,
            one.is_default,
        )

    @property
    def shown_value(self) -> str | None:
        return HIDDEN if self.sensitive else self.value

    @property
    def shown_inherited(self) -> str | None:
        return HIDDEN if self.sensitive else self.inherited

    @property
    def shown_default(self) -> str | None:
        return HIDDEN if self.sensitive else self.default


def compared_configs(
    by_broker: Mapping[int, Sequence[DescribedConfig]], *, all_of_them: bool = False
) -> list[ComparedConfig]:
    """The configs of brokers by name: those in which brokers differ, or of which one is not the
    default; with `all_of_them` the others, too."""
    entries: dict[str, dict[int, DescribedConfig]] = {}
    for broker, configs in sorted(by_broker.items()):
        for one in configs:
            entries.setdefault(one.name, {})[broker] = one
    found = [_compared(name, here, len(by_broker)) for name, here in sorted(entries.items())]
    return [one for one in found if all_of_them or one.differs or one.set_on]


def _compared(name: str, here: Mapping[int, DescribedConfig], brokers: int) -> ComparedConfig:
    sensitive = any(one.sensitive for one in here.values())
    values = {broker: None if sensitive else one.value for broker, one in here.items()}
    differs = not sensitive and (len(set(values.values())) > 1 or len(here) < brokers)
    first = next(iter(here.values()))
    return ComparedConfig(
        name,
        values,
        None if sensitive else first.default,
        sensitive,
        differs,
        [broker for broker, one in here.items() if not one.is_default],
    )


def properties_text(configs: Sequence[ConfigAgainstDefault]) -> str:
    """Lines `key=value` of a properties file, of what is not default; a sensitive one is a comment
    without its value."""
    lines = []
    for one in configs:
        if one.is_default or one.value is None:
            if one.sensitive and not one.is_default:
                lines.append(f"# {one.name} is set, and {HIDDEN}")
            continue
        lines.append(f"{one.name}={_escaped(one.value)}")
    return "\n".join(lines)


def _escaped(value: str) -> str:
    """A value as Java reads it from a properties file."""
    text = value.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    text = text.replace("\t", "\\t")
    return "\\" + text if text.startswith(" ") else text
