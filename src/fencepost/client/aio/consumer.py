"""`AsyncConsumer`: records on an event loop, as a member of a group or of partitions by hand.

    async with AsyncConsumer(cluster, ["orders"]) as consumer:  # group.id is in its config
        async for record in consumer:
            ...
            await consumer.commit()          # everything handed out so far

    async with AsyncConsumer(cluster) as consumer:
        consumer.assign([TopicPartition("orders", 0)])
        consumer.seek(TopicPartition("orders", 0), 4711)
        batches = await consumer.getmany(timeout_ms=1_000)

The methods have the names that users of aiokafka know, over the same `ConsumerCore` as the blocking
`Consumer`. Nothing is committed but by `commit` (or by a producer's transaction).

One task sends heartbeats, over a connection of its own. Rebalances take place in `getone`,
`getmany` and `poll`, in the caller's time, so that between two of these calls the assignment and
`consumer_group_metadata` are those of the records at hand. A consumer whose application calls none
of them for `max.poll.interval.ms` leaves the group and joins again at the next call (KIP-62).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import chain, islice
from typing import NamedTuple, Self

from fencepost.batch.errors import BatchError
from fencepost.batch.records import Header
from fencepost.client.aio.cluster import AsyncCluster
from fencepost.client.consumer_core import (
    LOOK_AGAIN_MS,
    ConsumerCore,
    ConsumerRebalanceListener,
)
from fencepost.client.conversation import Conversation
from fencepost.client.errors import BrokerError, ClientError
from fencepost.client.fetch_core import Fetched, FetchPosition
from fencepost.client.metadata import CommittedOffset, TopicPartition
from fencepost.client.offsets import EARLIEST, LATEST, ListedOffset, listing_offsets
from fencepost.client.retry import Deadline

log = logging.getLogger("fencepost.client")

RECORDS_PER_TURN = 256
"""So many records are handed out from memory before the event loop gets a turn."""


class ConsumerRecord(NamedTuple):
    """One record, with the fields that users of aiokafka know. `timestamp` is in milliseconds;
    `timestamp_type` is 0 for the producer's clock, 1 for the broker's, -1 for none."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()


@dataclass(slots=True)
class _Unread:
    """The rest of what was fetched of a partition: `records` go on at `position`."""

    fetched: Fetched
    records: Iterator[ConsumerRecord]
    position: FetchPosition


class AsyncConsumer(ConsumerCore):
    """See the module; an asynchronous context manager (`start`, and `stop` at its end).

    `topics` and `pattern` are subscribed to, see `subscribe`; without any, `subscribe` or `assign`
    is to be called.
    """

    stores_positions = True
    waits_apart = True

    def __init__(
        self,
        cluster: AsyncCluster,
        topics: Iterable[str] = (),
        listener: ConsumerRebalanceListener | None = None,
        *,
        pattern: str | None = None,
    ) -> None:
        super().__init__(cluster)
        self.cluster = cluster
        self._unread: dict[TopicPartition, _Unread] = {}
        self._turns = asyncio.Lock()  # of calls that read
        self._group_turns = asyncio.Lock()  # of heartbeats and rebalances
        self._joined = asyncio.Event()
        self._failure: ClientError | None = None
        self._polled_at = time.monotonic()
        self._handed_out = 0
        self._rebalancing: asyncio.Task[object] | None = None
        self._heart: asyncio.Task[None] | None = None
        wanted = tuple(topics)
        if wanted or pattern is not None:
            self.subscribe(wanted, listener, pattern=pattern)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Begin; heartbeats leave once the member has joined."""
        if self._heart is None:
            self._polled_at = time.monotonic()
            self._heart = asyncio.create_task(self._beat(), name="fencepost consumer")

    async def stop(self) -> None:
        """Leave the group, so that others get the partitions at once; nothing is committed. The
        cluster stays."""
        heart, self._heart = self._heart, None
        if heart is None:
            return
        heart.cancel()
        await asyncio.gather(heart, return_exceptions=True)
        await self.unsubscribe()
        self.cluster.close_connections(self.coordinator_purpose)

    # -- what is read ----------------------------------------------------------------------------

    def subscribe(
        self,
        topics: Iterable[str] = (),
        listener: ConsumerRebalanceListener | None = None,
        *,
        pattern: str | None = None,
    ) -> None:
        """Read these topics from now on, as a member of the group; with `group_protocol="consumer"`
        also those whose whole names match `pattern`, which the coordinator resolves (RE2 syntax).
        ConfigError without `group.id`, and for a pattern in a classic group; ClientError when
        partitions were assigned by hand."""
        self._subscribe(topics, listener, pattern)

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions from now on, without a membership; `commit` works with `group.id`.
        ClientError for a member of a group."""
        self._assign(partitions)

    async def unsubscribe(self) -> None:
        """Give up all partitions, and leave the group. ClientError in a rebalance listener."""
        self._require_no_rebalance()
        async with self._group_turns:
            await self.cluster.run(self.leaving())
            self._member, self._by_hand = None, ()
            self._joined.clear()
            self._fetches.close()
            self._forget_partitions(self.held())

    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions that are this consumer's now."""
        return frozenset(self._assigned)

    def subscription(self) -> frozenset[str]:
        """The topics subscribed to by name."""
        return frozenset(self._member.topics if self._member else ())

    async def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Read on at the first offset there is; without partitions all that are assigned."""
        await self._seek_to(partitions, EARLIEST)

    async def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Read on at the end, with read_committed at the last stable offset."""
        await self._seek_to(partitions, LATEST)

    async def seek_to_committed(self, *partitions: TopicPartition) -> None:
        """Read on where the group has committed; see `Consumer.seek_to_committed`."""
        self._seek_to_committed(partitions)
        await self.cluster.run(self.placing())

    async def _seek_to(self, partitions: tuple[TopicPartition, ...], where: int) -> None:
        wanted = partitions or self._assigned
        listed = await self._list(dict.fromkeys(wanted, where))
        for partition, found in listed.items():
            self.seek(partition, found.offset)

    async def position(self, partition: TopicPartition) -> int:
        """The offset of the next record that is handed out. ClientError for a partition that is
        not assigned."""
        self._require_assigned(partition)
        await self.cluster.run(self.placing())
        return self.positions[partition].offset

    # -- offsets ---------------------------------------------------------------------------------

    async def commit(
        self, offsets: Mapping[TopicPartition, CommittedOffset | int] | None = None
    ) -> None:
        """Commit the positions of all partitions that have moved since the last commit, or
        `offsets` (of the next records to read); see `ConsumerCore.committing`."""
        await self.cluster.run(self.committing(offsets))

    async def committed(self, partition: TopicPartition) -> int | None:
        """The offset that the group has committed, None without any."""
        found = await self.cluster.run(self.reading_committed([partition]))
        return found[partition].offset if partition in found else None

    async def beginning_offsets(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """The first offsets there are."""
        return await self._offsets(partitions, EARLIEST)

    async def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Where logs end: high watermarks, with read_committed last stable offsets."""
        return await self._offsets(partitions, LATEST)

    async def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, ListedOffset | None]:
        """The first offset at or after each timestamp (ms); None where there is none."""
        listed = await self._list(timestamps)
        return {at: found if found.offset >= 0 else None for at, found in listed.items()}

    async def partitions_for_topic(self, topic: str) -> frozenset[int]:
        """The numbers of a topic's partitions. Raises UnknownTopic."""
        return frozenset((await self.cluster.topic(topic)).partitions)

    async def _offsets(
        self, partitions: Iterable[TopicPartition], where: int
    ) -> dict[TopicPartition, int]:
        listed = await self._list(dict.fromkeys(partitions, where))
        return {partition: found.offset for partition, found in listed.items()}

    async def _list(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, ListedOffset]:
        return await self.cluster.run(listing_offsets(self.cluster, timestamps))

    # -- reading ---------------------------------------------------------------------------------

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ConsumerRecord:
        try:
            return await self.getone()
        except ClientError:
            if self._heart is None:  # stopped meanwhile
                raise StopAsyncIteration from None
            raise

    async def getone(self, *partitions: TopicPartition) -> ConsumerRecord:
        """The next record, of `partitions` or of all assigned ones; waits for one. Raises as
        `getmany`."""
        while True:
            await self._take_part()
            for at in tuple(self._unread):
                if self._is_wanted(at, partitions):
                    record = self._take_one(at)
                    if record is not None:
                        self._handed_out += 1
                        return record
            await self._fetch_more(partitions, Deadline(self.config.fetch_max_wait_ms))

    async def getmany(
        self,
        *partitions: TopicPartition,
        timeout_ms: float = 0,
        max_records: int | None = None,
    ) -> dict[TopicPartition, list[ConsumerRecord]]:
        """Records of `partitions` or of all assigned ones, at most `max_records`, if any come
        within `timeout_ms`. Takes part in a rebalance first, however long that takes.

        Raises BrokerError for what joining again cannot help, OffsetOutOfRange with
        `auto.offset.reset=none`, BatchError for what is corrupt, ClientError when not started.
        """
        deadline = Deadline(timeout_ms)
        while True:
            await self._take_part()
            found = self._hand_out(partitions, max_records)
            if found:
                self._handed_out += sum(map(len, found.values()))
                return found
            if not await self._fetch_more(partitions, deadline) and deadline.passed:
                return {}

    async def poll(self, timeout_ms: float | None = None) -> list[Fetched]:
        """Record batches as they were fetched, if any come within `timeout_ms` (default
        `fetch.max.wait.ms`); see `Consumer.poll`, and `Fetched.read_records`."""
        before = self.rebalances
        await self._take_part()
        if self.rebalances != before:
            return []
        limit_ms = self.config.fetch_max_wait_ms if timeout_ms is None else timeout_ms
        async with self._turns:
            found = await self.cluster.run(self.reading(limit_ms))
            for fetched in found:
                self._take(fetched)
        return found

    async def _fetch_more(self, partitions: Collection[TopicPartition], deadline: Deadline) -> bool:
        """Fetch of all partitions that nothing is left of, since a fetch that left some out would
        have them wait for its answer; whether there is something to read."""
        async with self._turns:
            left = [at for at in self._unread if self._is_wanted(at, partitions)]
            if any(self._rest_of(at) is not None for at in left):
                return True  # another task's call has fetched it
            wait_ms = min(deadline.remaining_ms(), LOOK_AGAIN_MS)
            found = await self.cluster.run(self.reading(wait_ms, self._unread.keys()))
            for fetched in found:
                position = self.positions[fetched.partition]
                lists = fetched.read_lists(ConsumerRecord, tuple(fetched.partition))
                records = chain.from_iterable(lists)
                self._unread[fetched.partition] = _Unread(fetched, records, position)
            return bool(found)

    def _is_wanted(self, at: TopicPartition, partitions: Collection[TopicPartition]) -> bool:
        return at not in self._paused and (not partitions or at in partitions)

    def _rest_of(self, at: TopicPartition) -> _Unread | None:
        """What is left of a partition, unless its position was moved, or it was given up."""
        unread = self._unread[at]
        if self.positions.get(at) == unread.position:
            return unread
        del self._unread[at]
        return None

    def _hand_out(
        self, partitions: Collection[TopicPartition], max_records: int | None
    ) -> dict[TopicPartition, list[ConsumerRecord]]:
        """Records that are there already, of which the positions are moved behind."""
        found: dict[TopicPartition, list[ConsumerRecord]] = {}
        left = max_records
        for at in [at for at in self._unread if self._is_wanted(at, partitions)]:
            unread = self._rest_of(at)
            if unread is None or left == 0:
                continue
            records = self._take_records(at, unread, left)
            if records:
                found[at] = records
            if left is not None:
                left -= len(records)
        return found

    def _take_one(self, at: TopicPartition) -> ConsumerRecord | None:
        """The next record of a partition, if one is there; its position is moved behind it."""
        unread = self._rest_of(at)
        if unread is None:
            return None
        try:
            record = next(unread.records, None)
        except BatchError:
            del self._unread[at]  # the next call meets it again
            raise
        if record is None:
            del self._unread[at]
            self._take(unread.fetched)
            return None
        unread.position = FetchPosition(record.offset + 1)
        self._move(at, unread.position)
        return record

    def _take_records(
        self, at: TopicPartition, unread: _Unread, limit: int | None
    ) -> list[ConsumerRecord]:
        taken: list[ConsumerRecord] = []
        try:
            # What came before a corrupt batch stays in the list.
            taken.extend(islice(unread.records, limit))
        except BatchError:
            del self._unread[at]  # the next call meets it again
            if not taken:
                raise
        if len(taken) == limit or at not in self._unread:
            unread.position = FetchPosition(taken[-1].offset + 1)
            self._move(at, unread.position)
        else:
            del self._unread[at]
            self._take(unread.fetched)
        return taken

    def _forget_partitions(self, partitions: Iterable[TopicPartition]) -> None:
        for one in (given_up := tuple(partitions)):
            self._unread.pop(one, None)
        super()._forget_partitions(given_up)

    # -- the group -------------------------------------------------------------------------------

    async def _take_part(self) -> None:
        """Rebalance if that is due. Raises what heartbeats failed with."""
        if self._handed_out >= RECORDS_PER_TURN:
            # Before anything is taken, so that a call that is cancelled here loses nothing.
            self._handed_out = 0
            await asyncio.sleep(0)
        if self._heart is None:
            raise ClientError("the consumer is not started; use `async with`, or await start()")
        if self._heart.done():
            self._heart.result()
        self._require_no_rebalance()
        self._polled_at = time.monotonic()
        if self._failure is not None:
            error, self._failure = self._failure, None
            raise error
        if self.has_to_join:
            async with self._group_turns:
                if self.has_to_join:
                    await self._rebalance()
        elif self._member is None and not self._by_hand:
            raise ClientError("no partitions: call subscribe or assign first")

    def taking_on(self, partitions: Collection[TopicPartition]) -> Conversation[None]:
        """See `member.Reader`; heartbeats leave from now on, also while the listener waits."""
        if self._beats:
            self._joined.set()
        yield from super().taking_on(partitions)

    async def _rebalance(self) -> None:
        self._rebalancing = asyncio.current_task()
        try:
            await self.cluster.run(self.rebalancing())
        finally:
            self._rebalancing = None
            if self._beats:
                self._joined.set()

    def _require_no_rebalance(self) -> None:
        """A listener that waited for the rebalance that waits for it would do so for ever."""
        if self._rebalancing is not None and self._rebalancing is asyncio.current_task():
            raise ClientError("this cannot be called by a rebalance listener")

    @property
    def _beats(self) -> bool:
        return self._member is not None and self._member.beats

    async def _beat(self) -> None:
        """Send heartbeats while the consumer is a member of its group."""
        while True:
            await self._joined.wait()
            if not self._beats:
                self._joined.clear()
                continue
            await asyncio.sleep(self.heartbeat_wait_ms / 1000)
            apart = self._member is not None and self._member.beats_apart
            async with nullcontext() if apart else self._group_turns:
                try:
                    await self._beat_once()
                except BrokerError as error:
                    self._failure = error
                except ClientError as error:  # no coordinator could be reached
                    log.warning("group %s: %s", self.config.group_id, error)
                else:
                    continue
            await asyncio.sleep(self.config.retry_backoff_ms / 1000)

    async def _beat_once(self) -> None:
        idle_ms = (time.monotonic() - self._polled_at) * 1000
        is_polling = self._rebalancing is not None or idle_ms <= self.config.max_poll_interval_ms
        if not self._beats or is_polling:
            await self.cluster.run(self.beating())
            return
        log.warning(
            "group %s: the application read nothing for %d ms, more than"
            " max.poll.interval.ms: leaving",
            self.config.group_id,
            idle_ms,
        )
        await self.cluster.run(self.leaving())
