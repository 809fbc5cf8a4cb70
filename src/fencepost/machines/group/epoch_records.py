"""The records of a group's epoch and of its target's, which groups with member epochs share.

Consumer and share groups have them in records of their own, with the same fields.
"""

from __future__ import annotations

from typing import Any

from fencepost.machines.group.shard import Shard


def apply_epoch(shard: Shard, group: Any, key: Any, value: Any) -> None:
    """The group epoch, and the hash of the topics that it counts for."""
    undo_log = shard.undo_log
    undo_log.set_attribute(group, "stored_epoch", None if value is None else value.epoch)
    undo_log.set_attribute(group, "metadata_hash", 0 if value is None else value.metadata_hash)


def apply_target_epoch(shard: Shard, group: Any, key: Any, value: Any) -> None:
    """The epoch that the target assignment is of, and when it was computed."""
    undo_log = shard.undo_log
    epoch = None if value is None else value.assignment_epoch
    undo_log.set_attribute(group, "stored_target_epoch", epoch)
    timestamp_ms = 0 if value is None else value.assignment_timestamp
    undo_log.set_attribute(group, "target_timestamp_ms", timestamp_ms)
