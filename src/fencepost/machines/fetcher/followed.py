"""What a fetcher knows of one partition, and of all of them by every name a leader may use."""

from __future__ import annotations

from enum import Enum
from typing import ClassVar, Final

from fencepost.machines.fetcher.inputs import Follow, FollowedPartition
from fencepost.machines.fetcher.session import Wanted
from fencepost.wire.types import Uuid

NOT_DELAYED_MS: Final = -(1 << 62)
UNKNOWN: Final = -1


class Stage(Enum):
    """What is to be asked of the leader for a partition."""

    FETCHING = "records"
    TRUNCATING = "where our last epoch ends"
    LOOKING_UP = "where its log ends, and where it starts"
    STOPPED = "nothing, in this leader epoch"


class Followed:
    """One partition under one leader epoch."""

    __slots__ = (
        "compared",
        "delayed_until_ms",
        "has_agreed",
        "is_busy",
        "is_to_move",
        "lag",
        "leader_end",
        "leader_epoch",
        "machine",
        "partition",
        "position",
        "stage",
        "told",
        "told_count",
        "trouble",
        "was_refused",
    )

    NOT_STATE: ClassVar = frozenset(("machine",))

    def __init__(self, follow: Follow) -> None:
        self.partition = follow.partition
        self.machine = follow.machine
        self.leader_epoch = follow.leader_epoch
        self.position = follow.position
        self.told_count = follow.told
        """How many inputs its machine was given, by this fetcher or others."""
        self.stage = Stage.FETCHING
        self.has_agreed = False
        """Whether the leader has found our log to be the beginning of its own, in this epoch."""
        self.is_busy = False
        """Whether its machine was told something, and has not reported back."""
        self.is_to_move = False
        """Whether its position is to be another one when it does."""
        self.delayed_until_ms = NOT_DELAYED_MS
        self.compared = (UNKNOWN, UNKNOWN)
        """The epoch that the leader has named as the one where logs part, and where it ends, until
        the partition reports the cut."""
        self.leader_end = UNKNOWN
        """Where the leader's log ends, while that is looked up."""
        self.told = (UNKNOWN, UNKNOWN)
        """The leader's high watermark and log start, as its machine was last told."""
        self.was_refused = False
        """Whether the operator was told that the leader refuses, and it has not answered since."""
        self.trouble = ""
        """Why nothing has come of it since the last answer of which something did; empty if not."""
        self.lag: int | None = None
        """How far behind the leader's high watermark it is; None before the first answer."""

    @property
    def agrees(self) -> bool:
        """Whether no more rounds of comparing epochs are needed, now that the log is cut.

        The leader named an epoch that we have, or that it has none, or nothing is left of ours.
        Otherwise it lacks the epoch that we asked for, and our log was cut where the one before
        that ends (row D of `log.divergence`): that one is asked for next.
        """
        epoch, end_offset = self.compared
        return end_offset < 0 or epoch < 0 or self.position.last_epoch in (UNKNOWN, epoch)

    @property
    def wanted(self) -> Wanted:
        """What is fetched."""
        return Wanted(self.leader_epoch, self.position)


class FollowedPartitions:
    """All partitions of a fetcher, by all their names."""

    def __init__(self) -> None:
        self._all: dict[FollowedPartition, Followed] = {}
        self._by_wire: dict[tuple[Uuid | str, int], Followed] = {}
        self.without_id = 0
        """How many are of topics that have no id."""

    def __len__(self) -> int:
        return len(self._all)

    def get(self, partition: FollowedPartition) -> Followed | None:
        """By all its names."""
        return self._all.get(partition)

    def find(self, topic: str, topic_id: Uuid, index: int) -> Followed | None:
        """As an answer names it: by id, or by name where it has none."""
        return self._by_wire.get((topic_id if topic_id != Uuid.ZERO else topic, index))

    def values(self) -> list[Followed]:
        """All of them."""
        return list(self._all.values())

    def put(self, followed: Followed) -> None:
        """Know one more, or know it again."""
        partition = followed.partition
        if partition not in self._all and partition.topic_id == Uuid.ZERO:
            self.without_id += 1
        self._all[partition] = followed
        self._by_wire[partition.topic, partition.partition] = followed
        if partition.topic_id != Uuid.ZERO:
            self._by_wire[partition.topic_id, partition.partition] = followed

    def remove(self, partition: FollowedPartition) -> Followed | None:
        """Forget it; a newer topic of its name stays known."""
        followed = self._all.pop(partition, None)
        if followed is None:
            return None
        if partition.topic_id == Uuid.ZERO:
            self.without_id -= 1
        for name in (partition.topic, partition.topic_id):
            if self._by_wire.get((name, partition.partition)) is followed:
                del self._by_wire[name, partition.partition]
        return followed
