"""The settings of a controller, under the names of Kafka's configs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from fencepost.log.configdef import ConfigDef
from fencepost.machines.controller.partition_change import ELR_FEATURE
from fencepost.machines.image.model import METADATA_VERSION

if TYPE_CHECKING:
    from fencepost.machines.image.token_secret import TokenSecret

MAX_PARTITIONS_PER_REQUEST = 10_000
"""Partitions that one request may create."""

MAX_CONFIG_VALUE_CHARACTERS = 32_767
"""Longest value of a config."""

MAX_CONFIGS = 1_000
"""Most configs of one resource, and in what one request says of it: brokers' may have any names."""

MAX_CONFIG_CHARACTERS = 1 << 20
"""What the names and values of a resource's configs may come to, together."""

PRODUCER_ID_BLOCK = 1_000
"""Producer ids in the block that a broker is given."""

TOKENS_PER_SWEEP = 1_000
"""Expired tokens that are removed by one batch; the rest follows when it is committed."""

METADATA_VERSION_FEATURE = METADATA_VERSION

SUPPORTED_FEATURES: Mapping[str, tuple[int, int]] = MappingProxyType(
    {
        METADATA_VERSION_FEATURE: (7, 33),
        "kraft.version": (0, 1),
        ELR_FEATURE: (0, 1),
        "group.version": (0, 1),
        "share.version": (0, 2),
        "streams.version": (0, 1),
        "transaction.version": (0, 2),
    }
)
"""The features that a controller runs, with the lowest and the highest level of each."""

BOOTSTRAP_FEATURES: Mapping[str, int] = MappingProxyType({METADATA_VERSION_FEATURE: 33})
"""The features of a cluster whose formatting has left no records, as in Apache Kafka 4.4.0: the
newest `metadata.version` (33 is 4.4-IV2), and all others at 0."""


class TokenSettings(Struct, frozen=True):
    """The keys `delegation.token.*`; times in milliseconds."""

    secret: TokenSecret | None = None
    """None: tokens are not enabled."""
    max_lifetime_ms: int = 604_800_000
    expiry_time_ms: int = 86_400_000


class ControllerConfig(Struct, frozen=True):
    """Counts, and times in milliseconds.

    `topic_defaults` are the broker configs that topics fall back to (for checking configs that must
    go together, and for unclean elections). `resource_configs` are the tables of configs of other
    resource types (client metrics, groups), by type; resources of a type without a table are
    refused. Broker configs are checked by the broker that a request comes in at; their table says
    which of them are lists.
    `node_id` is that of the controller's node, whose features are
    `supported_features`.
    """

    cluster_id: str
    node_id: int = -1
    num_partitions: int = 1
    default_replication_factor: int = 1
    broker_session_timeout_ms: int = 9_000
    topic_defaults: Mapping[str, Any] = field(default_factory=dict)
    supported_features: Mapping[str, tuple[int, int]] = field(
        default_factory=lambda: SUPPORTED_FEATURES
    )
    first_levels: Mapping[str, int] = field(default_factory=lambda: BOOTSTRAP_FEATURES)
    """The features of a cluster whose log begins without records of a formatting."""
    broker_configs: Mapping[str, ConfigDef] | None = None
    resource_checks: Mapping[int, Callable[[Mapping[str, str]], None]] = field(default_factory=dict)
    tokens: TokenSettings = field(default_factory=TokenSettings)
