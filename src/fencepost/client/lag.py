"""How far a group is behind: for each partition, what it has committed and where the log ends."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from fencepost.client import asking
from fencepost.client.cluster_view import ClusterView
from fencepost.client.conversation import Conversation
from fencepost.client.faces import blocking
from fencepost.client.group_offsets import reading_offsets
from fencepost.client.metadata import CommittedOffset, TopicPartition
from fencepost.client.offsets import LATEST, listing_offsets


class PartitionLag(NamedTuple):
    """One partition of a group: what the group has committed and the offset at which the log ends,
    None each where there is none (nothing committed, the topic deleted, no leader)."""

    committed: CommittedOffset | None
    end_offset: int | None

    @property
    def lag_records(self) -> int | None:
        """Offsets from the committed one to the log's end."""
        if self.committed is None or self.end_offset is None:
            return None
        return max(0, self.end_offset - self.committed.offset)


def finding_ends(
    view: ClusterView[Any], partitions: Iterable[TopicPartition]
) -> Conversation[dict[TopicPartition, int]]:
    """Where logs end, of the partitions that exist and have a leader: a group keeps the offsets of
    a deleted topic for a while."""
    wanted = list(partitions)
    if not wanted:
        return {}
    topics = yield from asking.describe(view, {one.topic for one in wanted})
    infos = {info.name: info for info in topics}
    led = [
        one
        for one in wanted
        if (found := infos[one.topic].partitions.get(one.partition)) and found.leader_id >= 0
    ]
    listed = yield from listing_offsets(view, dict.fromkeys(led, LATEST))
    return {partition: at.offset for partition, at in listed.items()}


def finding_lag(
    view: ClusterView[Any], group: str, assigned: Iterable[TopicPartition] = ()
) -> Conversation[dict[TopicPartition, PartitionLag]]:
    """The lag of every partition that the group has committed or that is `assigned` to a member of
    it, in order. Raises as `reading_offsets`."""
    committed = yield from reading_offsets(view, group)
    wanted = sorted({*committed, *assigned})
    ends = yield from finding_ends(view, wanted)
    return {one: PartitionLag(committed.get(one), ends.get(one)) for one in wanted}


ends_of = blocking(finding_ends)
lag_of_group = blocking(finding_lag)
"""The same with an `Admin`, blocking."""
