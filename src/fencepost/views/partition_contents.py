"""Where the logs of partitions begin and end, and how large they are, as their leaders tell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

from fencepost.client.cluster_view import ClusterView
from fencepost.client.conversation import Conversation
from fencepost.client.metadata import Node, TopicPartition
from fencepost.client.offsets import EARLIEST, LATEST, listing_offsets
from fencepost.views.replica_details import viewing_stored
from fencepost.views.sizes import size_text
from fencepost.views.topics import PartitionView


class Contents(NamedTuple):
    """The first offset of a log, the high watermark, and the bytes of the leader's log."""

    earliest: int
    latest: int
    size_bytes: int | None


class PartitionContents(PartitionView, frozen=True):
    """A partition with what is in it; None where that is not known. Offsets count transaction
    markers and what compaction removed, so there may be fewer records."""

    columns: ClassVar = {
        "partition": "partition",
        "leader": "leader",
        "epoch": "leader_epoch",
        "replicas": "replicas",
        "isr": "isr",
        "elr": "elr",
        "earliest": "earliest",
        "latest": "latest",
        "offsets": "offsets",
        "size": "size",
    }

    earliest: int | None
    latest: int | None
    size_bytes: int | None

    @property
    def offsets(self) -> int | None:
        if self.earliest is None or self.latest is None:
            return None
        return self.latest - self.earliest

    @property
    def size(self) -> str | None:
        return None if self.size_bytes is None else size_text(self.size_bytes)

    @classmethod
    def of(cls, one: PartitionView, found: Contents | None) -> PartitionContents:
        told = (None, None, None) if found is None else found
        return cls(
            one.partition,
            one.leader,
            one.leader_epoch,
            one.replicas,
            one.isr,
            one.offline,
            one.elr,
            one.last_known_elr,
            *told,
        )


def viewing_contents(
    view: ClusterView[Any], leader: Node, partitions: Sequence[TopicPartition]
) -> Conversation[dict[TopicPartition, Contents]]:
    """What is in partitions that one broker leads: three requests to it. ClientError."""
    earliest = yield from listing_offsets(view, dict.fromkeys(partitions, EARLIEST))
    latest = yield from listing_offsets(
        view, dict.fromkeys(partitions, LATEST), isolation_level="read_uncommitted"
    )
    stored = yield from viewing_stored(view, leader, partitions)
    return {
        where: Contents(
            earliest[where].offset,
            latest[where].offset,
            stored[where].replica.size_bytes if where in stored else None,
        )
        for where in partitions
    }
