"""`Settings`: the broker's configs in force, which may change while it runs (KIP-226).

A dynamic config is looked for in this order: this broker's own, what all brokers share, the file
and command line, the default. `Settings.apply` follows the cluster's metadata; who has to act on a
change says so with `watch`, everybody else asks `get` whenever a value is needed.

What brokers are told was checked by the broker that the request came in at. Values which do not
read or do not go together all the same (another version wrote them) are left out, with an error in
the log: a broker must be able to start with whatever the metadata log has.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from fencepost.broker.config.broker_config import BrokerConfig, check_pairs
from fencepost.broker.config.keys.definition import BrokerConfigDef
from fencepost.broker.config.listener_config import ListenerConfig
from fencepost.broker.config.prefixed_keys import PREFIX, base_key, definition_of, is_dynamic
from fencepost.log.configdef import ConfigError
from fencepost.machines.image import ClusterImage

log = logging.getLogger(__name__)


Check = Callable[[Callable[[str], ListenerConfig]], None]
"""Looks at the configs that listeners would have; raises ConfigError."""


class Settings:
    """See the module."""

    def __init__(self, config: BrokerConfig) -> None:
        self.startup = config
        """What the node was started with."""
        self._texts: dict[str, str] = {}
        self._values: dict[str, Any] = {}
        self._checks: list[tuple[frozenset[str], Check]] = []
        self._watchers: list[tuple[frozenset[str], Callable[[], None]]] = []

    def get(self, key: str) -> Any:
        """The typed value of `key` that is in force; KeyError for a key that does not exist."""
        return self._values[key] if key in self._values else self.startup.get(key)

    def is_set(self, key: str) -> bool:
        """Whether `key` is set, in the file or while the node runs."""
        return key in self._values or self.startup.is_set(key)

    def for_listener(self, listener: str, mechanism: str | None = None) -> ListenerConfig:
        """The configs of one listener, and of a SASL mechanism on it, that are in force."""
        return ListenerConfig(listener, mechanism, self.get, self.is_set)

    def watch(self, keys: Collection[str], on_change: Callable[[], None]) -> None:
        """Call back after every change of one of `keys`, and of those of a listener that `keys`
        has without its prefix."""
        self._watchers.append((frozenset(keys), on_change))

    def add_check(self, keys: Collection[str], check: Check) -> None:
        """Have `check` look at configs of listeners before one of `keys` changes."""
        self._checks.append((frozenset(keys), check))

    def check_listeners(self, keys: Iterable[str], typed: Mapping[str, Any]) -> None:
        """Whether listeners could do with the dynamic configs `typed`, of which `keys` are to
        change. ConfigError."""
        changed = {base_key(key) for key in keys if key.startswith(PREFIX)}

        def get(key: str) -> Any:
            return typed[key] if key in typed else self.startup.get(key)

        def is_set(key: str) -> bool:
            return key in typed or self.startup.is_set(key)

        for watched, check in self._checks:
            if watched & changed:
                check(lambda listener: ListenerConfig(listener, None, get, is_set))

    def apply(self, image: ClusterImage) -> None:
        """Put the dynamic configs of the image into force."""
        texts = dynamic_texts(image, self.startup.node_id)
        if texts == self._texts:
            return
        new = texts.keys() - self._texts.keys()
        foreign = sorted(key for key in new if definition_of(key) is None)
        if foreign:
            log.warning("unknown broker configs were set: %s", ", ".join(foreign))
        before, self._texts = self._values, texts
        self._values = self._read(texts)
        changed = {
            key
            for key in before.keys() | self._values.keys()
            if self._value_in(before, key) != self._value_in(self._values, key)
        }
        idle = sorted(key for key in changed if not _definition(key).has_effect)
        if idle:
            log.warning("configs were changed that have no effect here: %s", ", ".join(idle))
        changed |= {base_key(key) for key in changed}
        for keys, on_change in self._watchers:
            if keys & changed:
                on_change()

    def _value_in(self, values: Mapping[str, Any], key: str) -> Any:
        """The value of a key while `values` are the dynamic ones."""
        if key in values:
            return values[key]
        is_unset = key.startswith(PREFIX) and not self.startup.is_set(key)
        return None if is_unset else self.startup.get(key)

    def _read(self, texts: Mapping[str, str]) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for key in sorted(filter(is_dynamic, texts)):
            try:
                values[key] = _definition(key).parse(texts[key])
            except ConfigError as error:
                log.error("ignoring a dynamic config: %s", error)
        try:
            check_pairs(lambda key: values[key] if key in values else self.startup.get(key))
        except ConfigError as error:
            log.error("ignoring the dynamic configs, which contradict each other: %s", error)
            return {}
        return values


def _definition(key: str) -> BrokerConfigDef:
    """What a key is that some broker has."""
    definition = definition_of(key)
    assert definition is not None
    return definition


def dynamic_texts(image: ClusterImage, node_id: int) -> dict[str, str]:
    """The dynamic configs of a broker: what all share, under its own."""
    return {**image.broker_configs(), **image.broker_configs(node_id)}
