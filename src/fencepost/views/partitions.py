"""What became of partitions that a command asked something for."""

from __future__ import annotations

from typing import ClassVar

from fencepost.views.view import View


class PartitionOutcome(View, frozen=True):
    """One partition: what was done, or the name of the error and the broker's words."""

    columns: ClassVar = {n: n for n in ("topic", "partition", "result", "message")}

    topic: str
    partition: int
    result: str
    message: str | None


class BegunMove(View, frozen=True):
    """A partition that is to have the replicas `to`, and whether its move has begun."""

    columns: ClassVar = {n: n for n in ("topic", "partition", "to", "result", "message")}

    topic: str
    partition: int
    to: list[int] | None
    result: str
    message: str | None


class HeldElection(View, frozen=True):
    """An election of a partition's leader: held, failed, or not needed."""

    columns: ClassVar = {n: n for n in ("topic", "partition", "election", "result", "message")}

    topic: str
    partition: int
    election: str
    result: str
    message: str | None


class PlannedMove(View, frozen=True):
    """A partition that is to have other replicas."""

    columns: ClassVar = {n: n for n in ("topic", "partition", "to")}

    topic: str
    partition: int
    to: list[int]


class MovingPartition(View, frozen=True):
    """A partition that moves: all its replicas, those of them that come and those that go."""

    columns: ClassVar = {n: n for n in ("topic", "partition", "replicas", "adding", "removing")}

    topic: str
    partition: int
    replicas: list[int]
    adding: list[int]
    removing: list[int]


class PlanState(View, frozen=True):
    """A partition of a plan: the replicas that it is to have, and those that it has."""

    columns: ClassVar = {n: n for n in ("topic", "partition", "to", "replicas", "isr", "state")}

    topic: str
    partition: int
    to: list[int]
    replicas: list[int]
    isr: list[int]
    state: str


class LowWatermark(View, frozen=True):
    """Where a partition begins after records were deleted."""

    columns: ClassVar = {"topic": "topic", "partition": "partition", "begins at": "low_watermark"}

    topic: str
    partition: int
    low_watermark: int


class FoundOffset(View, frozen=True):
    """The offset at a place or a time, None where no record is as new."""

    topic: str
    partition: int
    at: str
    offset: int | None
    timestamp_ms: int | None
    leader_epoch: int | None
