"""The coordinator of classic groups as a machine: decide, then apply."""

from fencepost.machines.group.commits import TxnOffset
from fencepost.machines.group.config import GroupConfig
from fencepost.machines.group.coordinator import GroupCoordinator
from fencepost.machines.group.membership import Caller
from fencepost.machines.group.memory import GroupMemory
from fencepost.machines.group.model import GroupState
from fencepost.machines.group.partitioner import java_string_hash, partition_for
from fencepost.machines.group.records import GroupCodec, GroupRecord
from fencepost.machines.group.shard import Decision

__all__ = [
    "Caller",
    "Decision",
    "GroupCodec",
    "GroupConfig",
    "GroupCoordinator",
    "GroupMemory",
    "GroupRecord",
    "GroupState",
    "TxnOffset",
    "java_string_hash",
    "partition_for",
]
