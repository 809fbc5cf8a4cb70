"""The broker keys that topic configs fall back to, derived from the topics' table.

Where several keys give one config in different units, Kafka puts the default on the last, and only
the first may change while a broker runs.
"""

from __future__ import annotations

from typing import Final

from fencepost.broker.config.keys.definition import (
    CLUSTER_WIDE,
    INT,
    READ_ONLY,
    BrokerConfigDef,
    UpdateMode,
)
from fencepost.log.config import TOPIC_CONFIGS
from fencepost.log.configdef import ConfigDef, Synonym, at_least

_NOTHING_HONOURED = (
    "local.retention.bytes",
    "local.retention.ms",
    "remote.copy.lag.bytes",
    "remote.copy.lag.ms",
)
"""Topic configs that change nothing, nor do the keys behind them."""


def _key_of(
    topic: ConfigDef, synonym: Synonym, mode: UpdateMode, *, is_last: bool
) -> BrokerConfigDef:
    kind, validator, default = topic.type, topic.validator, topic.default
    if synonym.factor != 1:
        assert validator is not None, "times have a least value"
        least = next(number for number in (-1, 0, 1) if validator.accepts(number))
        kind, validator, default = INT, at_least(least), topic.default // synonym.factor
    return BrokerConfigDef(
        synonym.key,
        kind,
        default if is_last else None,
        topic.doc,
        validator,
        mode=mode,
        has_effect=topic.name not in _NOTHING_HONOURED,
    )


KEYS: Final[tuple[BrokerConfigDef, ...]] = tuple(
    _key_of(
        topic,
        synonym,
        READ_ONLY if position else CLUSTER_WIDE,
        is_last=position == len(topic.synonyms) - 1,
    )
    for topic in TOPIC_CONFIGS.values()
    for position, synonym in enumerate(topic.synonyms)
)
"""See the module."""
