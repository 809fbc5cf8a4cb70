"""The cluster as the metadata log tells it: an immutable image, its changes, and diffs."""

from fencepost.machines.image.apply import ReplayError, apply_records
from fencepost.machines.image.delta import ImageDelta, LocalChanges, PartitionDelta, diff
from fencepost.machines.image.model import (
    DIRECTORY_LOST,
    DIRECTORY_MIGRATING,
    DIRECTORY_UNASSIGNED,
    NO_LEADER,
    NO_LEADER_CHANGE,
    RECOVERED,
    RECOVERING,
    RESOURCE_BROKER,
    RESOURCE_BROKER_LOGGER,
    RESOURCE_CLIENT_METRICS,
    RESOURCE_GROUP,
    RESOURCE_TOPIC,
    SCRAM_SINCE,
    TOKENS_SINCE,
    BrokerImage,
    ClusterImage,
    ControllerImage,
    FeatureRange,
    ListenerImage,
    PartitionImage,
    TopicImage,
)
from fencepost.machines.image.persistent import PersistentMap
from fencepost.machines.image.scram import ScramCredential, ScramMechanism
from fencepost.machines.image.tokens import TokenImage

__all__ = [
    "DIRECTORY_LOST",
    "DIRECTORY_MIGRATING",
    "DIRECTORY_UNASSIGNED",
    "NO_LEADER",
    "NO_LEADER_CHANGE",
    "RECOVERED",
    "RECOVERING",
    "RESOURCE_BROKER",
    "RESOURCE_BROKER_LOGGER",
    "RESOURCE_CLIENT_METRICS",
    "RESOURCE_GROUP",
    "RESOURCE_TOPIC",
    "SCRAM_SINCE",
    "TOKENS_SINCE",
    "BrokerImage",
    "ClusterImage",
    "ControllerImage",
    "FeatureRange",
    "ImageDelta",
    "ListenerImage",
    "LocalChanges",
    "PartitionDelta",
    "PartitionImage",
    "PersistentMap",
    "ReplayError",
    "ScramCredential",
    "ScramMechanism",
    "TokenImage",
    "TopicImage",
    "apply_records",
    "diff",
]
