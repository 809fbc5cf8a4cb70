"""A group's epoch and its target's, with their records, as consumer and share groups have them.

Each of the two types has records of its own, with the same fields.
"""

from __future__ import annotations

from typing import Any, Final

from fencepost.machines.group.shard import Shard

FIRST_EPOCH: Final = 1
"""Of a group and of its target, before either has a record."""


class GroupEpochs:
    """What those records store; a group of either type is one."""

    def __init__(self) -> None:
        self.stored_epoch: int | None = None
        self.metadata_hash = 0
        self.stored_target_epoch: int | None = None
        self.target_timestamp_ms = 0
        """When the target was computed, in ms of the wall clock; 0: the next may be at once."""

    @property
    def epoch(self) -> int:
        """The group epoch: a counter of changes of members, subscriptions and topics."""
        return FIRST_EPOCH if self.stored_epoch is None else self.stored_epoch

    @property
    def target_epoch(self) -> int:
        """The group epoch that the target assignment was computed for."""
        return FIRST_EPOCH if self.stored_target_epoch is None else self.stored_target_epoch


def apply_epoch(shard: Shard, group: GroupEpochs, key: Any, value: Any) -> None:
    """The group epoch, and the hash of the topics that it counts for."""
    undo_log = shard.undo_log
    undo_log.set_attribute(group, "stored_epoch", None if value is None else value.epoch)
    undo_log.set_attribute(group, "metadata_hash", 0 if value is None else value.metadata_hash)


def apply_target_epoch(shard: Shard, group: GroupEpochs, key: Any, value: Any) -> None:
    """The epoch that the target assignment is of, and when it was computed."""
    undo_log = shard.undo_log
    epoch = None if value is None else value.assignment_epoch
    undo_log.set_attribute(group, "stored_target_epoch", epoch)
    timestamp_ms = 0 if value is None else value.assignment_timestamp
    undo_log.set_attribute(group, "target_timestamp_ms", timestamp_ms)
