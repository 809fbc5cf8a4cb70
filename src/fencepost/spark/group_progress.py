"""A query's progress as the offsets of a consumer group, for tools that watch the lag of groups.

The offsets are those of a finished batch, never more. They are for looking at: a query goes on from
its checkpoint, and no offset of the group is read. Whatever goes wrong is logged and does not stop
the query; it is tried again with the next batch, or after a while.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from fencepost.arrow.connections import cluster_for
from fencepost.arrow.offsets import Position, StreamOffset
from fencepost.arrow.options import SourceOptions
from fencepost.client.errors import ClientError
from fencepost.client.groups import GroupAdmin
from fencepost.client.metadata import CommittedOffset, TopicPartition

log = logging.getLogger("fencepost.spark")

PATIENCE_MS: Final = 5_000
"""How long a batch may wait for the group's coordinator."""
PAUSE_S: Final = 10.0
"""Between tries to commit the same offsets."""


class GroupProgress:
    """Commits finished batches to the group of the option `commitOffsetsToGroup`, if there is one.
    One thread."""

    def __init__(self, options: SourceOptions, clock: Callable[[], float] = time.monotonic) -> None:
        self.group = options.commit_group
        self._client = replace(options.client, api_timeout_ms=PATIENCE_MS)
        self._clock = clock
        self._committed: Mapping[TopicPartition, Position] = {}
        self._failed: Mapping[TopicPartition, Position] | None = None
        self._again_at = 0.0

    def finished(self, offset: Mapping[str, Any] | None) -> None:
        """A batch that ends at `offset` is finished, or the query begins there."""
        if self.group is None or offset is None:
            return
        positions = StreamOffset.from_json(offset).positions
        if positions == self._committed or not positions:
            return
        if positions == self._failed and self._clock() < self._again_at:
            return
        moved = {
            partition: CommittedOffset(position.offset, position.leader_epoch)
            for partition, position in positions.items()
            if self._committed.get(partition) != position
        }
        try:
            GroupAdmin(cluster_for(self._client)).alter_group_offsets(self.group, moved)
        except ClientError as error:
            log.warning("progress was not committed to group %s: %s", self.group, error)
            self._failed, self._again_at = positions, self._clock() + PAUSE_S
        else:
            self._committed, self._failed = positions, None
