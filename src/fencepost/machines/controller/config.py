"""The settings of a controller, under the names of Kafka's configs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from fencepost.log.configdef import ConfigDef

MAX_PARTITIONS_PER_REQUEST = 10_000
"""Partitions that one request may create."""

MAX_CONFIG_VALUE_CHARACTERS = 32_767
"""Longest value of a config."""

PRODUCER_ID_BLOCK = 1_000
"""Producer ids in the block that a broker is given."""

METADATA_VERSION_FEATURE = "metadata.version"

BOOTSTRAP_FEATURES: Mapping[str, int] = MappingProxyType({METADATA_VERSION_FEATURE: 30})
"""The features of a new cluster: `metadata.version` 30 is 4.3-IV0."""


@dataclass(frozen=True, slots=True)
class ControllerConfig:
    """Counts, and times in milliseconds.

    `topic_defaults` are the broker configs that topics fall back to (for checking configs that must
    go together, and for unclean elections). `resource_configs` are the tables of configs of other
    resource types (client metrics, groups), by type; resources of a type without a table are
    refused. Broker configs are checked by the broker that a request comes in at.
    """

    cluster_id: str
    num_partitions: int = 1
    default_replication_factor: int = 1
    broker_session_timeout_ms: int = 9_000
    topic_defaults: Mapping[str, Any] = field(default_factory=dict)
    resource_configs: Mapping[int, Mapping[str, ConfigDef]] = field(default_factory=dict)
