"""Reading partitions as raw record batches, with the log's identity checked on every read.

`Fetcher.fetch` asks several partitions' leaders once and waits for all; `Fetcher.poll` takes the
answers of those that have records; `Fetcher.read_range` streams one partition from one offset to
another and keeps the next fetch in flight while the caller works on the last.
Blobs are views of re-used receive buffers: they are valid until the next blob of the same call.

What guards against reading another log than the caller means is told in `fetch_core`. Where a
leader's log parts from what was read before, `fetch` says so (`diverging`), `read_range` raises
LogTruncated.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fencepost.client.cluster import Cluster
from fencepost.client.connection import Connection
from fencepost.client.errors import (
    BrokerError,
    ClientError,
    DeadlineExceeded,
    LogTruncated,
    ProtocolError,
)
from fencepost.client.fetch_core import FetchCore, Fetched, FetchLimits, FetchPosition
from fencepost.client.metadata import TopicPartition
from fencepost.client.pending_fetches import PendingFetches
from fencepost.client.protocol.framing import ReceiveBuffer
from fencepost.client.protocol.in_flight import Token
from fencepost.client.retry import Deadline
from fencepost.wire.api.fetch import FetchResponse
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Uuid

# What a record is taken to take before any was seen: too little costs a second request, too much
# bytes that are thrown away.
RECORD_BYTES_GUESS = 256
# Asked for beyond what is expected: sizes vary, and batches do not end where ranges do.
MARGIN = 1.125
SLACK_BYTES = 64 * 1024


class Fetcher(FetchCore):
    """Reads through a Cluster; buffers and pinned topic ids (see `FetchCore`) are its state."""

    def __init__(self, cluster: Cluster, *, topic_ids: Mapping[str, Uuid] | None = None) -> None:
        super().__init__(cluster, topic_ids=topic_ids)
        self.cluster = cluster
        self._pending = PendingFetches(self)

    def fetch(
        self,
        positions: Mapping[TopicPartition, FetchPosition],
        *,
        max_wait_ms: int | None = None,
        limits: FetchLimits | None = None,
        deadline: Deadline | None = None,
    ) -> list[Fetched]:
        """One fetch from every leader; see `FetchCore.fetching`."""
        return self.cluster.run(
            self.fetching(positions, max_wait_ms=max_wait_ms, limits=limits, deadline=deadline)
        )

    def poll(
        self,
        positions: Mapping[TopicPartition, FetchPosition],
        *,
        max_wait_ms: float | None = None,
    ) -> list[Fetched]:
        """Records that follow these positions, or divergences, if any leader answers with some
        within `max_wait_ms` (default `fetch.max.wait.ms`).

        The other leaders keep their fetches, and a later call takes the answers, of partitions
        whose positions are the same then. Raises as `PendingFetches.receiving`.
        """
        deadline = self.cluster.deadline(
            self.cluster.config.fetch_max_wait_ms if max_wait_ms is None else max_wait_ms
        )
        while True:
            receiving = self._pending.receiving(lambda: positions, deadline.remaining_ms())
            found = [
                fetched
                for fetched in self.cluster.run(receiving)
                if fetched.next_offset > fetched.start_offset or fetched.diverging is not None
            ]
            if found or deadline.passed:
                return found

    # -- one partition ---------------------------------------------------------------------------

    def read_range(
        self,
        partition: TopicPartition,
        start_offset: int,
        end_offset: int,
        *,
        last_epoch: int = -1,
        least_leader_epoch: int = -1,
        stall_timeout_ms: float | None = None,
    ) -> Iterator[Fetched]:
        """Blobs that together hold every record from `start_offset` up to `end_offset`.

        Records outside the range may be at both ends of what comes. Leaders of an epoch below
        `least_leader_epoch` are not asked: they may lack what a later one has.

        Raises LogTruncated on divergence, OffsetOutOfRange when the log does not reach that far
        back (or forward any more), DeadlineExceeded when nothing came for `stall_timeout_ms`.
        """
        position = FetchPosition(start_offset, last_epoch)
        left = _Left(end_offset, self.cluster.config.max_partition_fetch_bytes)
        buffer = ReceiveBuffer()
        pending: tuple[Connection, Token[Any]] | None = None
        backoff = self.cluster.backoff()
        give_up_on_unknown = self.cluster.unknown_topic_limit()
        deadline = self.cluster.deadline(stall_timeout_ms)
        try:
            while position.offset < end_offset:
                try:
                    if pending is None:
                        pending = self._ask(partition, position, deadline, left, least_leader_epoch)
                    connection, token = pending
                    pending = None
                    response = connection.receive(token, buffer=buffer)
                    fetched = self._only(response, partition, position, connection)
                except ClientError as error:
                    error.topic, error.partition = partition
                    if not error.retriable:
                        raise
                    give_up_on_unknown(error)
                    if not backoff.sleep(deadline):
                        raise _stalled(partition, position, end_offset, deadline, error) from error
                    continue
                if fetched.next_offset == position.offset:
                    if deadline.passed:
                        raise _stalled(partition, position, end_offset, deadline, None)
                    continue
                left.took(fetched)
                position = FetchPosition(fetched.next_offset, fetched.last_epoch)
                deadline = self.cluster.deadline(stall_timeout_ms)
                backoff = self.cluster.backoff()
                if position.offset < end_offset:
                    pending = self._ask_ahead(partition, position, deadline, left)
                yield fetched
        finally:
            if pending is not None:
                pending[0].abandon(pending[1])

    def _ask(
        self,
        partition: TopicPartition,
        position: FetchPosition,
        deadline: Deadline,
        left: _Left,
        least_leader_epoch: int = -1,
    ) -> tuple[Connection, Token[Any]]:
        node, epoch = self.cluster.leader(*partition, deadline)
        if 0 <= epoch < least_leader_epoch:
            raise BrokerError.of(
                ErrorCode.UNKNOWN_LEADER_EPOCH,
                f"metadata has leader epoch {epoch}, older than {least_leader_epoch}",
                host=node.address,
            )
        connection = self.cluster.connection(node)
        wanted = {partition: (position, epoch)}
        limits = FetchLimits(self.cluster.config.fetch_max_bytes, left.bytes_of(position))
        request, version = self.cluster.run(self.request(connection, wanted, None, limits))
        return connection, connection.send(request, version)

    def _ask_ahead(
        self,
        partition: TopicPartition,
        position: FetchPosition,
        deadline: Deadline,
        left: _Left,
    ) -> tuple[Connection, Token[Any]] | None:
        """Ask early; a failure is left to the proper attempt, which deals with errors."""
        try:
            return self._ask(partition, position, deadline, left)
        except ClientError as error:
            self.cluster.note_failure(error)
            return None

    def _only(
        self,
        response: FetchResponse,
        partition: TopicPartition,
        position: FetchPosition,
        connection: Connection,
    ) -> Fetched:
        """The one partition asked for; raises its error."""
        found, refused = self.read(response, {partition: (position, -1)}, connection.address)
        if refused:
            raise refused[0]
        if len(found) != 1:
            raise ProtocolError(
                f"a fetch of one partition was answered with {len(found)}", host=connection.address
            )
        diverging = found[0].diverging
        if diverging is not None:
            raise LogTruncated(
                f"what was read up to offset {position.offset} (leader epoch "
                f"{position.last_epoch}) is not in the leader's log any more; the logs part at "
                f"offset {diverging.end_offset}, where epoch {diverging.leader_epoch} ends",
                topic=partition.topic,
                partition=partition.partition,
                offset=position.offset,
                leader_epoch=position.last_epoch,
                diverging_epoch=diverging.leader_epoch,
                diverging_offset=diverging.end_offset,
            )
        return found[0]


class _Left:
    """How much to ask for of what is left of a range, by the size of what came of it so far.

    A range often ends long before the log does, as a batch of a stream that is behind: whatever
    comes beyond it was read, sent and received for nothing.
    """

    def __init__(self, end_offset: int, most_bytes: int) -> None:
        self._end_offset = end_offset
        self._most_bytes = most_bytes
        self._seen_bytes = self._seen_offsets = 0
        self._bytes_per_offset: float = RECORD_BYTES_GUESS

    def took(self, fetched: Fetched) -> None:
        """Learn from an answer that has records."""
        self._seen_bytes += len(fetched.records)
        self._seen_offsets += fetched.next_offset - fetched.start_offset
        self._bytes_per_offset = self._seen_bytes / self._seen_offsets

    def bytes_of(self, position: FetchPosition) -> int:
        """What the rest of the range is expected to take, and a little more."""
        expected_bytes = (self._end_offset - position.offset) * self._bytes_per_offset
        return min(int(expected_bytes * MARGIN) + SLACK_BYTES, self._most_bytes)


def _stalled(
    partition: TopicPartition,
    position: FetchPosition,
    end_offset: int,
    deadline: Deadline,
    last: ClientError | None,
) -> ClientError:
    return DeadlineExceeded(
        f"{partition}: no records came for {deadline.timeout_ms:.0f} ms; wanted are offsets "
        f"{position.offset} to {end_offset}",
        last,
    )
