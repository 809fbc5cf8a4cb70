"""Dead letters of share groups (KIP-1191)."""

from __future__ import annotations

from typing import Final

from fencepost.broker.config.keys.definition import (
    BOOLEAN,
    CLUSTER_WIDE,
    STRING,
    BrokerConfigDef,
    honoured,
)

AUTO_CREATE: Final = "errors.deadletterqueue.auto.create.topics.enable"
PREFIX: Final = "errors.deadletterqueue.topic.name.prefix"

KEYS: Final[tuple[BrokerConfigDef, ...]] = (
    honoured(
        AUTO_CREATE,
        BOOLEAN,
        False,
        None,
        "Whether topics for dead letters are created when the first letter is written.",
        CLUSTER_WIDE,
    ),
    honoured(
        PREFIX,
        STRING,
        "dlq.",
        None,
        "What names of topics that are created for dead letters begin with.",
        CLUSTER_WIDE,
    ),
)
