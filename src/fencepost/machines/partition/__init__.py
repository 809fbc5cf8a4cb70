"""Leader and follower of one partition, and the questions its log can answer.

`Partition` is the machine; `inputs` has what it is told and what it answers.
"""

from fencepost.log.epochs import EpochEndOffset
from fencepost.machines.partition.inputs import (
    NOT_LISTED,
    AdvanceLogStart,
    AlterPartition,
    AlterPartitionAnswered,
    BecomeFollower,
    BecomeLeader,
    BrokersChanged,
    ConfigChanged,
    CoordinatorAppend,
    DeleteRecordsResult,
    Diverged,
    FetchBounds,
    Fetched,
    FetchedOutOfRange,
    FetchState,
    FollowerFetched,
    FollowerSeen,
    Isolation,
    ListedOffset,
    PartitionConfig,
    Produce,
    ProduceResult,
    RecoveryState,
    ReplicaInSync,
    StopReplica,
    TimestampLookup,
)
from fencepost.machines.partition.isr import IsrChanges
from fencepost.machines.partition.machine import Partition
from fencepost.machines.partition.queries import LogView

__all__ = [
    "NOT_LISTED",
    "AdvanceLogStart",
    "AlterPartition",
    "AlterPartitionAnswered",
    "BecomeFollower",
    "BecomeLeader",
    "BrokersChanged",
    "ConfigChanged",
    "CoordinatorAppend",
    "DeleteRecordsResult",
    "Diverged",
    "EpochEndOffset",
    "FetchBounds",
    "FetchState",
    "Fetched",
    "FetchedOutOfRange",
    "FollowerFetched",
    "FollowerSeen",
    "Isolation",
    "IsrChanges",
    "ListedOffset",
    "LogView",
    "Partition",
    "PartitionConfig",
    "Produce",
    "ProduceResult",
    "RecoveryState",
    "ReplicaInSync",
    "StopReplica",
    "TimestampLookup",
]
