"""When a fetch is answered, and how much of what is in the answer: the one place that decides.

Consumers' and followers' fetches are one path. What a reader may see of a partition is the
partition machine's answer (`PartitionQueries.check_fetch`), with one of three upper bounds: the
last stable offset for consumers of committed records, the high watermark for other consumers, the
log's end for replicas. What a partition then has for the fetch (`look_at`, `available_bytes`):

|   | the partition                                               | counts                       |
|---|-------------------------------------------------------------|------------------------------|
| a | cannot be had, or refuses: any error                        | to be told at once           |
| b | its log diverges from the reader's (KIP-595)                | to be told at once           |
| c | is to be read from another replica (KIP-392)                | to be told at once           |
| d | cannot be measured: its log is damaged, its disk refuses    | to be told at once           |
| e | has batches below the upper bound                           | their bytes, no more than    |
|   |                                                             | either limit lets through    |
| f | has nothing below the upper bound                           | nothing                      |
| g | is throttled, and the replica is not in sync (KIP-73)       | nothing                      |

When the fetch is answered (`bytes_to_wait_with`):

|   | the fetch                                              | is answered                       |
|---|--------------------------------------------------------|-----------------------------------|
| 1 | does not want to wait (`max_wait_ms` is not positive)  | now                               |
| 2 | has no partitions, as one of an emptied session        | now                               |
| 3 | wants no bytes (`min_bytes` is not positive)           | now                               |
| 4 | has a partition of a to d                              | now                               |
| 5 | has `min_bytes` over all partitions                    | now                               |
| 6 | has a partition that moved while others were looked at | now: nobody would say it again    |
| 7 | none of these                                          | by 4 or 5 when a partition moves, |
|   |                                                        | or at its deadline                |

Who waits (`waiting`) is looked at again, for the one partition that moved, when

| what happened                                                           | who looks again        |
|-------------------------------------------------------------------------|------------------------|
| the high watermark moved (and with it the last stable offset)           | all who wait on it     |
| the log's start moved: retention, DeleteRecords                         | all who wait on it     |
| the leader epoch or the role changed, the disk failed, the log was cut  | all who wait on it     |
| the log's end moved                                                     | replicas               |
| the partition was deleted, or other brokers have it now                 | all: they are answered |
| the deadline passed                                                     | the fetch is answered  |
| the client is gone                                                      | nobody: forgotten      |

The answer is read afresh (`ReadBudget`), since what was counted may have changed meanwhile.

The quorum's fetch (`machines.quorum.serving`) is of one partition, waits for one byte, and is told
of a higher high watermark at once (KIP-1166); its table is there.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Final, Generic, Protocol, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from fencepost.log.error_codes import LOG_ERRORS
from fencepost.machines.fetch.sessions import FetchWanted
from fencepost.machines.partition import FetchBounds, FollowerFetched, Isolation
from fencepost.machines.partition.inputs import ANY_BROKER_EPOCH
from fencepost.wire.errors import ErrorCode

CONSUMER: Final = -1
NO_WAIT: Final = 0
"""The deadline of a fetch that does not want to wait."""


class FetchTerms(Struct, frozen=True):
    """What a fetch says of itself, for all of its partitions."""

    min_bytes: int
    max_bytes: int
    deadline_ms: int = NO_WAIT
    replica_id: int = CONSUMER
    isolation: int = Isolation.READ_UNCOMMITTED
    leader_only: bool = False
    """Whether only leaders serve consumers (before KIP-392)."""
    broker_epoch: int = ANY_BROKER_EPOCH
    """The registration under which a replica fetches (KIP-903); -1 before Fetch v15."""
    choose_replica: Callable[[Any, int], int] | None = None
    """Says which replica a consumer is to read from, given the partition and the offset; -1: from
    this one. None: nobody asks (see `read_replica`)."""
    is_held_back: Callable[[Any], bool] | None = None
    """Whether the throttle holds the replica back, given the partition (see `throttle`). None: no
    rate is limited."""

    @property
    def is_replica(self) -> bool:
        """Whether a replica fetches, which reads up to the log's end."""
        return self.replica_id >= 0


class FetchedPartition(Protocol):
    """The machine of a partition, as a fetch sees it."""

    high_watermark: int
    leader_epoch: int

    @property
    def has_ended(self) -> bool:
        """Whether it answers nothing any more."""
        ...

    @property
    def log_start_offset(self) -> int:
        """The first offset that may be read."""
        ...

    @property
    def log_end_offset(self) -> int:
        """The offset of the next record."""
        ...

    def check_fetch(
        self,
        *,
        fetch_offset: int,
        current_leader_epoch: int,
        last_fetched_epoch: int,
        replica_id: int,
        broker_epoch: int,
        isolation: int,
        leader_only: bool,
    ) -> FetchBounds | ErrorCode:
        """What may be read."""
        ...


class FetchedConfig(Protocol):
    """The configs of a log, as a fetch sees them."""

    @property
    def compression_type(self) -> str:
        """How its topic wants batches to be compressed."""
        ...


class FetchedLog(Protocol):
    """The log of a partition, as a fetch sees it."""

    @property
    def config(self) -> FetchedConfig:
        """Its configs."""
        ...

    def measure(self, offset: int, max_bytes: int, upper_bound_offset: int) -> int:
        """How many bytes there are to read; raises `LOG_ERRORS`."""
        ...


class Fetchable(Protocol):
    """A partition that is here."""

    @property
    def machine(self) -> FetchedPartition:
        """Who says what may be read."""
        ...

    @property
    def log(self) -> FetchedLog:
        """Where it is read."""
        ...


Key = TypeVar("Key", bound=Hashable)
Partition = TypeVar("Partition", bound=Fetchable)


class Look(Struct, Generic[Partition, Key]):
    """What can be said of one partition without reading: an error, or bounds within which to."""

    wanted: FetchWanted[Key]
    error: ErrorCode = ErrorCode.NONE
    partition: Partition | None = None
    bounds: FetchBounds | None = None
    is_held_back: bool = False

    @property
    def is_urgent(self) -> bool:
        """Whether the reader must hear of it at once (rows a to d)."""
        bounds = self.bounds
        return bounds is None or bounds.diverging is not None or bounds.preferred_replica >= 0

    @property
    def has_data(self) -> bool:
        """Whether there is something to read (row f)."""
        bounds = self.bounds
        return (
            bounds is not None
            and bounds.upper_bound > self.wanted.fetch_offset
            and bounds.diverging is None
            and bounds.preferred_replica < 0
            and not self.is_held_back
        )

    @property
    def is_at_end(self) -> bool:
        """Whether the reader has all that it may read (row g)."""
        bounds = self.bounds
        return (
            bounds is not None
            and bounds.upper_bound == self.wanted.fetch_offset
            and bounds.diverging is None
            and bounds.preferred_replica < 0
        )

    @property
    def is_known(self) -> bool:
        """Whether the reader of a session has all of the partition, and knows what there is to say
        of it: it has nothing to wait for but that the partition moves."""
        bounds = self.bounds
        return (
            bounds is not None
            and self.is_at_end
            and self.wanted.was_told(bounds.high_watermark, bounds.log_start_offset)
        )

    @property
    def has_moved(self) -> bool:
        """Whether the partition has moved since (row 6); what it said was not an error."""
        if self.partition is None or self.bounds is None:
            return False
        machine, bounds = self.partition.machine, self.bounds
        return (
            machine.has_ended
            or machine.high_watermark != bounds.high_watermark
            or machine.log_start_offset != bounds.log_start_offset
            or machine.leader_epoch != bounds.leader_epoch
        )

    @property
    def may_read_on(self) -> bool:
        """Whether records behind those that were read are still those of the same leader: a log
        is cut for another one alone."""
        if self.partition is None or self.bounds is None:
            return False
        machine = self.partition.machine
        return not machine.has_ended and machine.leader_epoch == self.bounds.leader_epoch

    @property
    def is_stale(self) -> bool:
        """Whether to look again, if something else may have run since: what moves and an error."""
        return self.bounds is None or self.has_moved or self.has_grown

    @property
    def has_grown(self) -> bool:
        """Whether there is more for a replica since, which reads up to the log's end."""
        if self.partition is None or self.bounds is None:
            return False
        return self.partition.machine.log_end_offset > self.bounds.upper_bound


def look_at(
    partition: Partition | ErrorCode, wanted: FetchWanted[Key], terms: FetchTerms
) -> Look[Partition, Key]:
    """Ask a partition, or take down why it cannot be had."""
    if isinstance(partition, ErrorCode):
        return Look(wanted, partition)
    bounds = partition.machine.check_fetch(
        fetch_offset=wanted.fetch_offset,
        current_leader_epoch=wanted.current_leader_epoch,
        last_fetched_epoch=wanted.last_fetched_epoch,
        replica_id=terms.replica_id,
        broker_epoch=terms.broker_epoch,
        isolation=terms.isolation,
        leader_only=terms.leader_only,
    )
    if isinstance(bounds, ErrorCode):
        return Look(wanted, bounds, partition)
    held_back = False
    if terms.choose_replica is not None and bounds.diverging is None:
        preferred = terms.choose_replica(partition, wanted.fetch_offset)
        if preferred >= 0:
            bounds = replace(bounds, preferred_replica=preferred)
    elif terms.is_held_back is not None:
        held_back = terms.is_held_back(partition)
    return Look(wanted, ErrorCode.NONE, partition, bounds, held_back)


def progress_told_by(look: Look[Partition, Key], terms: FetchTerms) -> FollowerFetched | None:
    """What a fetch tells the partition of its follower; None if it tells nothing.

    To be fed once, when the fetch arrives and before it is answered or waits: not again when it is
    looked at later, for the follower has not fetched again. One that is refused, or whose log
    diverges, tells nothing.
    """
    if look.bounds is None or look.bounds.diverging is not None or not terms.is_replica:
        return None
    wanted = look.wanted
    return FollowerFetched(
        terms.replica_id,
        wanted.fetch_offset,
        terms.broker_epoch,
        wanted.current_leader_epoch,
        wanted.log_start_offset,
    )


def available_bytes(look: Look[Partition, Key], terms: FetchTerms) -> int | None:
    """What the partition has for the fetch, as exact as `min_bytes` needs; None: to be told."""
    if look.is_urgent:
        return None
    if not look.has_data:
        return 0
    if terms.min_bytes <= 1:
        return 1
    wanted, partition, bounds = look.wanted, look.partition, look.bounds
    assert partition is not None and bounds is not None, "only what was found is measured"
    limit_bytes = min(wanted.partition_max_bytes, terms.max_bytes)
    try:
        return partition.log.measure(wanted.fetch_offset, limit_bytes, bounds.upper_bound)
    except LOG_ERRORS:
        return None  # reading it will say what is wrong


def bytes_to_wait_with(
    looks: Sequence[Look[Partition, Key]],
    terms: FetchTerms,
    *,
    others_are_quiet: bool = False,
) -> list[int] | None:
    """How many bytes each partition has, of a fetch that is to wait; None: answer it now.

    `others_are_quiet`: the fetch has more partitions, which have nothing (`quiet`). Row 6 is for
    the caller, who asks `is_out_of_date` before.
    """
    if terms.deadline_ms == NO_WAIT or (not looks and not others_are_quiet):
        return None
    if terms.min_bytes <= 0:
        return None
    sizes = []
    total = 0
    for look in looks:
        size_bytes = available_bytes(look, terms)
        if size_bytes is None:
            return None
        total += size_bytes
        if total >= terms.min_bytes:
            return None
        sizes.append(size_bytes)
    return sizes


def is_out_of_date(
    looks: Sequence[Look[Partition, Key]], terms: FetchTerms, wanted_count: int
) -> bool:
    """Whether a partition has moved since it was looked at (row 6), or was not looked at.

    To be asked where something may have run since the first look. What a follower's fetch tells its
    leader is such a thing: it may raise a high watermark, with which a transaction's end is
    decided, whose marker is written at once into another partition of the same fetch.

    `wanted_count` is how many partitions the fetch is to look at now: one that was quiet when it
    began may have moved.
    """
    if len(looks) < wanted_count:
        return True
    return any(look.has_moved or (terms.is_replica and look.has_grown) for look in looks)


class ReadBudget:
    """How much of each partition goes into one answer, in the order of the partitions.

    An answer has no more bytes than `max_bytes`, a partition no more than its own limit; but the
    first one with data gives its first batch whatever its size, so that a batch larger than a limit
    cannot stop a reader for good (KIP-74).
    """

    __slots__ = ("_has_data", "_left_bytes")

    def __init__(self, max_bytes: int) -> None:
        self._left_bytes = max_bytes
        self._has_data = False

    def limit_for(self, look: Look[Partition, Key]) -> int | None:
        """How many bytes may be read of the partition; None if it is not to be read."""
        if not look.has_data:
            return None
        limit_bytes = min(look.wanted.partition_max_bytes, self._left_bytes)
        if limit_bytes > 0:
            return limit_bytes
        return None if self._has_data else 0

    @property
    def left_bytes(self) -> int:
        """How many bytes of records the answer may still have."""
        return self._left_bytes

    @property
    def takes_any_batch(self) -> bool:
        """Whether a first batch is to be read that is larger than the limit."""
        return not self._has_data

    def spend(self, size_bytes: int) -> None:
        """So much was read."""
        self._left_bytes -= size_bytes
        self._has_data = self._has_data or size_bytes > 0
