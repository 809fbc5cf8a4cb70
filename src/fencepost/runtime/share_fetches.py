"""Fetches of share consumers: acquire records of the partitions of a session, or wait for some.

Theory of operation
-------------------
A fetch looks at all partitions of its session once, and then at those that say they may have
something: it is among the waiters of each until it is answered (`HostedSharePartition.waiters`).
What it reads it acquires at once, before anything else runs, so no two fetches acquire the same
records and no share partition is locked while a disk is read. The first fetch that waits is the
first that is woken, and the others stay asleep when it has taken all.

It is answered with the first records, errors or at its deadline; with `min_bytes` above 1, not
before its partitions have so much together, or the deadline. Where a session begins differs
from fetch to fetch, so that all partitions get their turn.

What one fetch may hold is bounded by `ANSWER_BYTES_MAX`, what it reads before others have their
turn by `share_reading.READ_BYTES_MAX`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, Final

from msgspec import Struct

from fencepost.log.error_codes import LOG_ERRORS
from fencepost.log.errors import OffsetOutOfRange
from fencepost.machines.share.inputs import Acquire, LogStartMoved
from fencepost.machines.share.sessions import TopicPartition
from fencepost.machines.share.state_batch import SharePartitionKey
from fencepost.runtime.log_errors import answer_log_error
from fencepost.runtime.ports import ArmedTimer
from fencepost.runtime.replicas import HostedPartition
from fencepost.runtime.share_partitions import HostedSharePartition, SharePartitions
from fencepost.runtime.share_reading import READ_BYTES_MAX, Buffer, ShareRead, read_records
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Uuid

ANSWER_BYTES_MAX: Final = 8 << 20
"""How many bytes of records one answer has, besides a single batch that is larger."""
PARTITIONS_PER_PIECE: Final = 50

Waiting = Generator[Future[Any] | None, None, None]


class ShareFetchTerms(Struct, frozen=True):
    """What a member wants."""

    group_id: str
    member_id: str
    deadline_ms: int
    min_bytes: int
    max_bytes: int
    max_records: int
    batch_size: int
    is_record_limit: bool
    opens_session: bool
    """Whether partitions without records are told of, too, as in the first answer of a session."""


class FetchedPartition(Struct):
    """What a fetch has of one partition: records that were acquired, or an error."""

    error: ErrorCode
    records: Sequence[Buffer] = ()
    acquired: Sequence[tuple[int, int, int]] = ()


FindLeader = Callable[[Uuid, int], HostedPartition | ErrorCode]
"""The partition, which this node leads, or the error to answer with."""
OnFetched = Callable[[dict[TopicPartition, FetchedPartition]], None]


class ShareFetch:
    """One fetch until it is answered; see the module docstring."""

    def __init__(
        self,
        node: SharePartitions,
        terms: ShareFetchTerms,
        partitions: Sequence[TopicPartition],
        find: FindLeader,
        is_wanted: Callable[[], bool],
        done: OnFetched,
    ) -> None:
        """`is_wanted` says whether the session is still open."""
        self._node = node
        self._terms = terms
        self._partitions = partitions
        self._find = find
        self._is_wanted = is_wanted
        self._done = done
        self._rows: dict[TopicPartition, FetchedPartition] = {}
        self._shares: dict[HostedSharePartition, TopicPartition] = {}
        self._ready: dict[HostedSharePartition, None] = {}
        """Those that may have records, and are still to be looked at."""
        self._left_records = terms.max_records
        self._left_bytes = min(terms.max_bytes, ANSWER_BYTES_MAX)
        self._is_trying = self._is_over = False
        self._timer: ArmedTimer | None = None

    def begin(self) -> None:
        """Acquire, or wait."""
        self._is_trying = True
        self._node.lane.begin(self._begin())

    def abandon(self) -> None:
        """The client is gone."""
        if not self._is_over:
            self._end()

    # -- FetchWaiter -----------------------------------------------------------------------

    def wake(self, share: HostedSharePartition) -> None:
        """There may be something to acquire of the share partition."""
        self._ready[share] = None
        self._try()

    def fail(self, share: HostedSharePartition, error: ErrorCode) -> None:
        """The share partition is gone."""
        partition = self._shares.pop(share)
        self._ready.pop(share, None)
        if error:
            self._rows.setdefault(partition, FetchedPartition(error))
            self._try()

    def _try(self) -> None:
        if not self._is_trying and not self._is_over:
            self._is_trying = True
            self._node.lane.begin(self._attempts())

    # -- trying ----------------------------------------------------------------------------

    def _begin(self) -> Waiting:
        """Look at all partitions, and become a waiter of each."""
        for number, partition in enumerate(self._partitions):
            if self._is_over:
                return
            if number % PARTITIONS_PER_PIECE == PARTITIONS_PER_PIECE - 1:
                yield None
            hosted = self._find(*partition)
            if isinstance(hosted, ErrorCode):
                self._rows[partition] = FetchedPartition(hosted)
                continue
            key = SharePartitionKey(self._terms.group_id, *partition)
            share = self._node.find_or_begin(key, hosted)
            if share.is_gone:  # its state could not be read, which is known at once
                self._rows[partition] = FetchedPartition(share.error)
                continue
            self._shares[share] = partition
            share.waiters[self] = None
            self._ready[share] = None
        yield from self._attempts()

    def _attempts(self) -> Waiting:
        """Look at what may be ready, until there is an answer or nothing is ready."""
        try:
            while self._ready and not self._is_over:
                ready, self._ready = self._ready, {}
                some = [share for share in ready if share.has_records]
                if not self._is_wanted():
                    break
                if some and (yield from self._has_enough(some)):
                    yield from self._take(some)
                if self._rows:
                    break
        finally:
            self._is_trying = False
        if self._is_over:
            return
        if self._rows or self._is_due or not self._is_wanted():
            self._finish()
        elif self._timer is None:
            self._timer = self._node.timers.at(self._terms.deadline_ms, self._expire)

    @property
    def _is_due(self) -> bool:
        """Whether the wait is over."""
        return self._node.clocks.now_ms() >= self._terms.deadline_ms

    def _has_enough(
        self, some: Sequence[HostedSharePartition]
    ) -> Generator[Future[Any] | None, None, bool]:
        """Whether there are `min_bytes`; errors are found when the records are read."""
        least = self._terms.min_bytes
        if least <= 1 or self._rows or self._is_due:
            return True
        found_bytes = 0
        for share in list(self._shares):
            if share.has_records:
                measure = partial(_measure, share, least)
                try:
                    found_bytes += yield from self._node.reads.read(measure)
                except LOG_ERRORS:
                    return True
            if found_bytes >= least:
                return True
        return False

    def _take(self, some: Sequence[HostedSharePartition]) -> Waiting:
        """Read and acquire, partition by partition."""
        share_bytes = max(self._left_bytes // len(some), 1)
        for number, share in enumerate(some):
            if self._left_records <= 0 or self._left_bytes <= 0 or self._is_over:
                return
            if number:
                yield None
            yield from self._take_from(share, share_bytes)

    def _take_from(self, share: HostedSharePartition, max_bytes: int) -> Waiting:
        terms = self._terms
        try:
            read = yield from self._node.reads.read(
                lambda: _read(share, max_bytes, self._left_records)
            )
        except OffsetOutOfRange:  # its start has advanced just now
            if share.machine is not None and not share.is_gone:
                share.feed(LogStartMoved(share.hosted.machine.log_start_offset))
            return
        except LOG_ERRORS as error:
            code = answer_log_error(self._node.replicas, share.hosted, "reading", error)
            if share in self._shares:
                self._rows[self._shares[share]] = FetchedPartition(code)
            return
        if read is None or not read.batches or self._is_over or not self._is_wanted():
            return
        acquired = share.acquire(
            Acquire(
                terms.member_id,
                [one.offsets for one in read.batches],
                self._left_records,
                terms.batch_size,
                terms.is_record_limit,
                read.aborted,
            )
        )
        if not acquired or share not in self._shares:
            return
        records = read.records(acquired[0][0], acquired[-1][1])
        self._rows[self._shares[share]] = FetchedPartition(ErrorCode.NONE, records, acquired)
        self._left_records -= sum(last - first + 1 for first, last, _ in acquired)
        self._left_bytes -= sum(map(len, records))

    # -- ending ----------------------------------------------------------------------------

    def _expire(self) -> None:
        """The wait is over: what there is will do, even if that is less than was wanted."""
        self._timer = None
        self._ready.update(dict.fromkeys(self._shares))
        self._try()

    def _finish(self) -> None:
        self._end()
        if self._terms.opens_session:
            for share, partition in self._shares.items():
                if share.machine is not None and share.machine.can_acquire:
                    self._rows.setdefault(partition, FetchedPartition(ErrorCode.NONE))
        self._done(self._rows)

    def _end(self) -> None:
        self._is_over = True
        if self._timer is not None:
            self._timer.cancel()
        for share in self._shares:
            share.waiters.pop(self, None)


def _read(share: HostedSharePartition, max_bytes: int, max_records: int) -> ShareRead | None:
    """What may be acquired next; None if there is nothing. NotCachedError, LOG_ERRORS."""
    if share.is_gone or share.machine is None or not share.has_records:
        return None
    offset = share.machine.next_fetch_offset
    return read_records(
        share.hosted.log,
        offset,
        share.upper_bound,
        max_bytes,
        max_records,
        reads_committed=share.reads_committed,
    )


def _measure(share: HostedSharePartition, most_bytes: int) -> int:
    """How many bytes could be read. NotCachedError, LOG_ERRORS."""
    if share.is_gone or share.machine is None or not share.has_records:
        return 0
    offset = share.machine.next_fetch_offset
    return share.hosted.log.measure(offset, max(most_bytes, READ_BYTES_MAX), share.upper_bound)
