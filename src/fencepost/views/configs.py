"""Configs of topics, groups and brokers."""

from __future__ import annotations

from typing import ClassVar

from fencepost.client.admin import ConfigEntry
from fencepost.views.view import View


class ConfigView(View, frozen=True):
    """A config in force, and where it comes from; the value of a sensitive one is None."""

    columns: ClassVar = {"config": "name", "value": "shown_value", "source": "source"}

    name: str
    value: str | None
    source: str
    read_only: bool
    sensitive: bool

    @classmethod
    def of(cls, entry: ConfigEntry) -> ConfigView:
        return cls(entry.name, entry.value, entry.source, entry.read_only, entry.sensitive)

    @property
    def shown_value(self) -> str | None:
        return "(hidden)" if self.sensitive else self.value


class ChangedConfigs(View, frozen=True):
    """How many configs of a topic, group or broker were changed, or could be."""

    resource: str
    changes: int
    done: str
