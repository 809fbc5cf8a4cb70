"""`SoftChange`: what a decision changes of a streams group in memory alone."""

from __future__ import annotations

from typing import Any

from fencepost.machines.group.shard import Shard
from fencepost.machines.group.streams.group import StreamsGroup
from fencepost.machines.group.streams.member import ReportedOffsets


class SoftChange:
    """Changes of a group's `SoftState` by field, and of what one of its members reported.

    It is applied before the decision's records. A group that they are going to make is made here,
    in the place of an empty classic one if need be, whose tombstones then find nothing.
    """

    def __init__(
        self,
        group_id: str,
        reported: tuple[str, ReportedOffsets] | None = None,
        **fields: Any,
    ) -> None:
        self.group_id = group_id
        self.reported = reported
        self.fields = fields

    def apply_to(self, shard: Shard) -> None:
        """See `shard.Change`."""
        group = shard.group_of(self.group_id, StreamsGroup)
        if group is None:
            group = StreamsGroup(self.group_id)
            group.set_soft(shard.undo_log, **self.fields)
            shard.put(group)
        else:
            group.set_soft(shard.undo_log, **self.fields)
        if self.reported is not None:
            before_bytes = group.counted_bytes
            group.set_offsets(shard.undo_log, *self.reported)
            shard.count_bytes(group.counted_bytes - before_bytes)
