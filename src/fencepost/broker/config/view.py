"""Configs as clients see them: each value with where it is from and what stands behind it.

A topic's config is looked for in this order (KIP-226): the topic itself, this broker's dynamic
configs, the dynamic configs all brokers share, the file and command line, Kafka's default. A
broker's config starts at the second place. A group's is looked for like a topic's; a stored
value is shown as it is stored, also where it is out of the bounds of now. DescribeConfigs shows the
first value found, and on request the whole list ("synonyms", because a broker's key may differ from
the topic's).

Which broker configs are dynamic is Kafka's to say (`DYNAMIC_BROKER_KEYS`); every other one is
read-only while the broker runs.
`topic_defaults` is what logs are configured with, so what is shown here is what is in force.

Keys that no broker has are shown where they are set (KIP-226), without values, which may be
secrets; internal configs likewise only where they are set.

Texts come out as Kafka writes them: lists with commas, booleans as true and false, secrets never.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Mapping
from enum import IntEnum
from typing import Any, Final

from msgspec import Struct

from fencepost.broker.config.broker_config import BrokerConfig
from fencepost.broker.config.keys import BROKER_CONFIGS, DYNAMIC_ONLY
from fencepost.broker.config.prefixed_keys import definition_of, is_dynamic
from fencepost.broker.config.settings import dynamic_texts
from fencepost.log.config import TOPIC_CONFIGS, LogConfig
from fencepost.log.configdef import ConfigDef, ConfigError, ConfigType
from fencepost.machines.group.configs import GROUP_CONFIGS
from fencepost.machines.image import ClusterImage

log = logging.getLogger(__name__)


class ConfigSource(IntEnum):
    """Where a value is from; the numbers of DescribeConfigs."""

    TOPIC = 1
    BROKER = 2
    ALL_BROKERS = 3
    STATIC = 4
    DEFAULT = 5
    BROKER_LOGGER = 6
    GROUP = 8


_SYNONYMS: Final = {
    definition.synonyms[0].key: [synonym.key for synonym in definition.synonyms]
    for definition in TOPIC_CONFIGS.values()
    if definition.synonyms
}
"""For a broker config that has forms in other units: all of them, the finest first."""


class ConfigValue(Struct, frozen=True):
    """One of the places a config has a value in; `text` is None for a secret."""

    key: str
    text: str | None
    source: ConfigSource


class ConfigEntry(Struct, frozen=True):
    """A config as DescribeConfigs tells it; `stack` has the values behind it, strongest first."""

    definition: ConfigDef
    text: str | None
    stack: tuple[ConfigValue, ...]
    read_only: bool

    @property
    def name(self) -> str:
        """Kafka's name of the config."""
        return self.definition.name

    @property
    def source(self) -> ConfigSource:
        """Where the value in force is from."""
        return self.stack[0].source if self.stack else ConfigSource.DEFAULT

    @property
    def is_sensitive(self) -> bool:
        """Whether the value is kept secret."""
        return self.definition.is_sensitive


def topic_defaults(config: BrokerConfig, image: ClusterImage) -> dict[str, Any]:
    """The broker configs topics fall back to: the file's under the dynamic ones. For `LogConfig`.

    A dynamic value that does not read (written by another version) is left out.
    """
    defaults = dict(config.topic_defaults)
    texts = dynamic_texts(image, config.node_id)
    for key in _SYNONYMS.keys() & texts.keys():
        with contextlib.suppress(ConfigError):
            defaults[key] = BROKER_CONFIGS[key].parse(texts[key])
    return defaults


def topic_log_config(config: BrokerConfig, image: ClusterImage, topic: str) -> LogConfig:
    """The configs in force for a topic.

    Values that do not go together (a topic's with ones that brokers got later) must not stop a
    broker that has to open the log: dynamic broker configs are dropped first, then the topic's own.
    """
    own = image.topic_configs(topic)
    try:
        return LogConfig.from_props(own, topic_defaults(config, image))
    except ConfigError as error:
        log.error("topic %s: ignoring the dynamic broker configs: %s", topic, error)
    try:
        return LogConfig.from_props(own, config.topic_defaults)
    except ConfigError as error:
        log.error("topic %s: ignoring its own configs: %s", topic, error)
    return LogConfig.from_props({}, config.topic_defaults)


def topic_entries(
    config: BrokerConfig, image: ClusterImage, own: Mapping[str, str]
) -> Iterator[ConfigEntry]:
    """Every config of a topic whose own configs are `own`, by name."""
    defaults = topic_defaults(config, image)
    for name in sorted(TOPIC_CONFIGS):
        definition = TOPIC_CONFIGS[name]
        if definition.internal and name not in own:
            continue
        stack: list[ConfigValue] = []
        if name in own:
            stack.append(ConfigValue(name, _tidy(definition, own[name]), ConfigSource.TOPIC))
        keys = [synonym.key for synonym in definition.synonyms]
        stack += _broker_stack(config, image, keys)
        text = stack[0].text if name in own else definition.format(definition.from_broker(defaults))
        yield ConfigEntry(definition, text, tuple(stack), read_only=False)


def group_entries(
    config: BrokerConfig, image: ClusterImage, own: Mapping[str, str]
) -> Iterator[ConfigEntry]:
    """Every config of a group whose own configs are `own`, by name."""
    for name in sorted(GROUP_CONFIGS):
        definition = GROUP_CONFIGS[name]
        if definition.internal and name not in own:
            continue
        key = definition.broker_key
        stack: list[ConfigValue] = []
        if name in own:
            stack.append(ConfigValue(name, _tidy(definition, own[name]), ConfigSource.GROUP))
        if key is not None:
            stack += _broker_stack(config, image, [key])
        else:
            default = definition.format(definition.default)
            stack.append(ConfigValue(name, default, ConfigSource.DEFAULT))
        yield ConfigEntry(definition, stack[0].text, tuple(stack), read_only=False)


def broker_entries(config: BrokerConfig, image: ClusterImage) -> Iterator[ConfigEntry]:
    """Every config of this broker, by name, and what else is set for it."""
    dynamic = dynamic_texts(image, config.node_id).keys()
    for name in sorted({*BROKER_CONFIGS, *config.explicit, *config.unknown, *dynamic}):
        definition = _definition(name)
        if definition.internal and not config.is_set(name) and name not in dynamic:
            continue
        if name in DYNAMIC_ONLY and name not in dynamic:
            continue
        stack = tuple(_broker_stack(config, image, _SYNONYMS.get(name, [name])))
        text = stack[0].text if stack and stack[0].key == name else None
        yield ConfigEntry(definition, text, stack, read_only=not is_dynamic(name))


def shared_broker_entries(image: ClusterImage) -> Iterator[ConfigEntry]:
    """The dynamic configs that all brokers share, by name; only those that are set."""
    texts = image.broker_configs()
    for name in sorted(texts):
        definition = _definition(name)
        value = ConfigValue(name, _tidy(definition, texts[name]), ConfigSource.ALL_BROKERS)
        yield ConfigEntry(definition, value.text, (value,), read_only=not is_dynamic(name))


def _definition(name: str) -> ConfigDef:
    """What a key of a broker is, known or not."""
    known = definition_of(name)
    return ConfigDef(name, ConfigType.UNKNOWN, None, "") if known is None else known


def _broker_stack(config: BrokerConfig, image: ClusterImage, keys: list[str]) -> list[ConfigValue]:
    """The values that broker configs under any of `keys` have, strongest first."""
    stack = [
        ConfigValue(key, _tidy(_definition(key), texts[key]), source)
        for texts, source in (
            (image.broker_configs(config.node_id), ConfigSource.BROKER),
            (image.broker_configs(), ConfigSource.ALL_BROKERS),
        )
        for key in keys
        if key in texts and (is_dynamic(key) or definition_of(key) is None)
    ]
    for key in keys:
        if config.is_set(key):
            text = _definition(key).format(config.get(key))
            stack.append(ConfigValue(key, text, ConfigSource.STATIC))
        elif key in config.unknown:
            stack.append(ConfigValue(key, None, ConfigSource.STATIC))
    for key in keys:
        if key not in BROKER_CONFIGS:
            continue
        default = BROKER_CONFIGS[key].format(config.default(key))
        if default is not None:
            stack.append(ConfigValue(key, default, ConfigSource.DEFAULT))
    return stack


def _tidy(definition: ConfigDef, text: str) -> str | None:
    """The text of a stored value as we would write it; as it is where it does not read."""
    if definition.is_sensitive:
        return None
    try:
        return definition.format(definition.parse(text))
    except ConfigError:
        return text
