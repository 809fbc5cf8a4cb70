"""The coordinator of classic groups as a machine: decide, then apply."""

from fencepost.machines.group.config import GroupConfig
from fencepost.machines.group.coordinator import GroupCoordinator, value_version
from fencepost.machines.group.decision import Decision, TimerName
from fencepost.machines.group.membership import Caller
from fencepost.machines.group.memory import GroupMemory
from fencepost.machines.group.model import GroupState
from fencepost.machines.group.partitioner import java_string_hash, partition_for

__all__ = [
    "Caller",
    "Decision",
    "GroupConfig",
    "GroupCoordinator",
    "GroupMemory",
    "GroupState",
    "TimerName",
    "java_string_hash",
    "partition_for",
    "value_version",
]
