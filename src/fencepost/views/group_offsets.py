"""Offsets of groups: committed, of share groups, and as they would be set."""

from __future__ import annotations

from typing import ClassVar

from fencepost.client.lag import PartitionLag
from fencepost.client.metadata import CommittedOffset, TopicPartition
from fencepost.client.share_groups import ShareOffset
from fencepost.views.view import View


class GroupOffset(View, frozen=True):
    """An offset that a group has committed. `lag` is in records (offsets)."""

    columns: ClassVar = {n: n for n in ("topic", "partition", "offset", "end", "lag")}

    topic: str
    partition: int
    offset: int
    leader_epoch: int
    end: int | None
    lag: int | None
    metadata: str

    @classmethod
    def of(cls, where: TopicPartition, at: CommittedOffset, end: int | None) -> GroupOffset:
        lag = PartitionLag(at, end).lag_records
        return cls(*where, at.offset, at.leader_epoch, end, lag, at.metadata)


class ShareOffsetView(View, frozen=True):
    """A share group's start offset: None where it has none yet. `lag` is in records (offsets)."""

    columns: ClassVar = {
        n: n.replace("-", "_") for n in ("topic", "partition", "start-offset", "end", "lag")
    }

    topic: str
    partition: int
    start_offset: int | None
    leader_epoch: int
    end: int | None
    lag: int | None

    @classmethod
    def of(cls, where: TopicPartition, at: ShareOffset, end: int | None) -> ShareOffsetView:
        return cls(*where, at.start_offset, at.leader_epoch, end, at.lag)


class PlannedOffset(View, frozen=True):
    """An offset that a group would get."""

    columns: ClassVar = {
        "topic": "topic",
        "partition": "partition",
        "offset": "offset",
        "new-offset": "new_offset",
        "end": "end",
    }

    topic: str
    partition: int
    offset: int | None
    new_offset: int
    end: int | None


class DeletedShareOffsets(View, frozen=True):
    """Topics of which a share group has no offset any more."""

    group: str
    deleted: list[str]
