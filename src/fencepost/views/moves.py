"""Reassignments in progress: which replicas come and go, and how much of each is copied."""

from __future__ import annotations

from typing import ClassVar

from fencepost.client.metadata import TopicPartition
from fencepost.client.replicas import Reassignment
from fencepost.views.replication import StoredIn
from fencepost.views.sizes import size_text
from fencepost.views.view import View


class ReplicaProgress(View, frozen=True):
    """A replica that is copied to a broker: its bytes and those of the leader's log, None where
    they are not known; `in_sync` once it is done."""

    broker: int
    size_bytes: int | None
    leader_bytes: int | None
    offset_lag: int | None
    in_sync: bool

    @property
    def text(self) -> str:
        """ "4: 1.0 MiB of 2.0 MiB (50 %)"."""
        if self.in_sync:
            return f"{self.broker}: in sync"
        if self.size_bytes is None:
            return f"{self.broker}: not known"
        if self.leader_bytes is None:
            return f"{self.broker}: {size_text(self.size_bytes)}"
        part = f"{size_text(self.size_bytes)} of {size_text(self.leader_bytes)}"
        if self.leader_bytes <= 0:
            return f"{self.broker}: {part}"
        return f"{self.broker}: {part} ({min(100, 100 * self.size_bytes // self.leader_bytes)} %)"


class PartitionMove(View, frozen=True):
    """A partition that moves: all its replicas, those that come with their progress, those that
    go."""

    columns: ClassVar = {
        "partition": "name",
        "replicas": "replicas",
        "adding": "adding",
        "removing": "removing",
        "progress": "progress",
    }

    topic: str
    partition: int
    replicas: list[int]
    adding: list[int]
    removing: list[int]
    copies: list[ReplicaProgress]

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"

    @property
    def progress(self) -> str:
        return "; ".join(one.text for one in self.copies) or "only the order of replicas changes"


def partition_move(
    where: TopicPartition,
    move: Reassignment,
    leader: int,
    isr: tuple[int, ...],
    stored: dict[int, StoredIn],
) -> PartitionMove:
    """A move with what brokers tell of the replicas; `stored` is by broker."""
    led = stored.get(leader)
    return PartitionMove(
        where.topic,
        where.partition,
        list(move.replicas),
        list(move.adding),
        list(move.removing),
        [
            ReplicaProgress(
                broker,
                stored[broker].replica.size_bytes if broker in stored else None,
                led.replica.size_bytes if led is not None else None,
                stored[broker].replica.offset_lag if broker in stored else None,
                broker in isr,
            )
            for broker in move.adding
        ],
    )
