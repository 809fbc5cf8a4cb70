"""Reading partitions as raw record batches, with the log's identity checked on every read.

`Fetcher.fetch` asks several partitions' leaders once; `Fetcher.read_range` streams one partition
from one offset to another and keeps the next fetch in flight while the caller works on the last.
Blobs are views of re-used receive buffers: they are valid until the next blob of the same call.

Three things guard against reading another log than the caller means (KIP-320, KIP-516, KIP-595):
requests carry the leader epoch known from metadata, so a deposed leader refuses; they carry the
topic id where the version allows and a pinned id is compared with metadata, so a recreated topic is
an UnknownTopic error; and with the epoch of the last record read, a leader whose log parted from
what was read answers with a diverging epoch, which becomes `diverging` or LogTruncated.

No fetch sessions (KIP-227): readers here move few partitions many bytes, and keep no state at
the broker that a retry would have to repair.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from fencepost.client.cluster import Cluster
from fencepost.client.connection import Connection
from fencepost.client.errors import (
    BrokerError,
    ClientError,
    DeadlineExceeded,
    LogTruncated,
    ProtocolError,
    UnknownTopic,
)
from fencepost.client.leaders import by_topic
from fencepost.client.metadata import TopicPartition
from fencepost.client.offsets import EpochEnd
from fencepost.client.protocol.framing import ReceiveBuffer
from fencepost.client.protocol.in_flight import Token
from fencepost.client.retry import Deadline
from fencepost.wire.api.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Uuid

LOWEST_VERSION = 4  # the first with record batches of format 2 and isolation levels
HIGHEST_VERSION = 17  # 18 only tells followers' high watermarks
LAST_VERSION_WITH_NAMES = 12
FIRST_VERSION_WITH_DIVERGENCE = 12

_BATCH_START = struct.Struct(">qi")
_LAST_OFFSET_DELTA = struct.Struct(">i")
_LOG_OVERHEAD_BYTES = 12
_MAGIC_POSITION = 16
_LEADER_EPOCH_POSITION = 12
_LAST_OFFSET_DELTA_POSITION = 23
_SMALLEST_V2_BYTES = 61
_SMALLEST_LEGACY_BYTES = 26


class FetchPosition(NamedTuple):
    """Where to read on: the next offset, and the leader epoch of the record before it (-1 when
    unknown, which switches divergence detection off)."""

    offset: int
    last_epoch: int = -1


@dataclass(frozen=True, slots=True)
class Fetched:
    """One partition's part of a fetch.

    `records` holds whole and perhaps one cut-off batch, starting at or before the offset asked
    for. `next_offset` and `last_epoch` follow the last whole batch (those asked for, if none).
    `aborted` lists (producer id, first offset) under read_committed. With `diverging` set there
    are no records: the leader's log parts from the caller's at that epoch and offset.
    """

    partition: TopicPartition
    records: memoryview
    next_offset: int
    last_epoch: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: tuple[tuple[int, int], ...] = ()
    diverging: EpochEnd | None = None


class BlobEnd(NamedTuple):
    """What the last whole batch of a blob says; `size_bytes` counts whole batches only."""

    size_bytes: int
    next_offset: int
    last_epoch: int


def blob_end(blob: memoryview | bytes | bytearray) -> BlobEnd:
    """Walk the batch lengths of `blob`; (0, -1, -1) when it has no whole batch.

    Reads formats 0, 1 (one message is a batch without an epoch) and 2. Raises ProtocolError on
    a length that cannot be.
    """
    position, last, end = 0, -1, len(blob)
    while end - position >= _LOG_OVERHEAD_BYTES:
        _, length = _BATCH_START.unpack_from(blob, position)
        if length < _SMALLEST_LEGACY_BYTES - _LOG_OVERHEAD_BYTES:
            raise ProtocolError(f"a record batch claims a length of {length} bytes")
        if position + _LOG_OVERHEAD_BYTES + length > end:
            break
        last = position
        position += _LOG_OVERHEAD_BYTES + length
    if last < 0:
        return BlobEnd(0, -1, -1)
    base_offset, length = _BATCH_START.unpack_from(blob, last)
    if blob[last + _MAGIC_POSITION] < 2:
        return BlobEnd(position, base_offset + 1, -1)
    if length + _LOG_OVERHEAD_BYTES < _SMALLEST_V2_BYTES:
        raise ProtocolError(f"a record batch of format 2 claims a length of {length} bytes")
    (delta,) = _LAST_OFFSET_DELTA.unpack_from(blob, last + _LAST_OFFSET_DELTA_POSITION)
    (epoch,) = _LAST_OFFSET_DELTA.unpack_from(blob, last + _LEADER_EPOCH_POSITION)
    return BlobEnd(position, base_offset + delta + 1, epoch)


class Fetcher:
    """Reads through a Cluster; buffers and pinned topic ids are its only state.

    `topic_ids` pins topics by name to an id: should the cluster have another topic of that name,
    reading raises UnknownTopic instead of returning its records.
    """

    def __init__(self, cluster: Cluster, *, topic_ids: Mapping[str, Uuid] | None = None) -> None:
        self.cluster = cluster
        self.topic_ids = dict(topic_ids or {})
        self._buffers: dict[int, ReceiveBuffer] = {}

    # -- several partitions ----------------------------------------------------------------------

    def fetch(
        self,
        positions: Mapping[TopicPartition, FetchPosition],
        *,
        max_wait_ms: int | None = None,
        deadline: Deadline | None = None,
    ) -> list[Fetched]:
        """One fetch from every leader; partitions that had nothing new come back empty.

        Partitions whose leader moved are left out (a later call finds the new one) unless all
        were, which is retried until `deadline`. Raises OffsetOutOfRange, UnknownTopic and other
        hopeless errors, naming the partition.
        """
        deadline = deadline or self.cluster.deadline()
        backoff = self.cluster.backoff()
        give_up_on_unknown = self.cluster.unknown_topic_limit()
        while True:
            fetched, failures = self._fetch_once(positions, max_wait_ms, deadline)
            for error in failures:
                if not error.retriable:
                    raise error
                self.cluster.note_failure(error)
            if fetched or not positions:
                return fetched
            give_up_on_unknown(failures[0])
            if not backoff.sleep(deadline):
                raise DeadlineExceeded(
                    f"nothing could be fetched within {deadline.timeout_ms:.0f} ms", failures[0]
                )

    def _fetch_once(
        self,
        positions: Mapping[TopicPartition, FetchPosition],
        max_wait_ms: int | None,
        deadline: Deadline,
    ) -> tuple[list[Fetched], list[ClientError]]:
        failures: list[ClientError] = []
        groups: dict[int, tuple[Connection, dict[TopicPartition, tuple[FetchPosition, int]]]] = {}
        for partition, position in positions.items():
            try:
                node, epoch = self.cluster.leader(*partition, deadline)
                connection = self.cluster.connection(node)
            except ClientError as error:
                error.topic, error.partition = partition
                failures.append(error)
            else:
                _, wanted = groups.setdefault(node.node_id, (connection, {}))
                wanted[TopicPartition(*partition)] = (position, epoch)
        sent = []
        for node_id, (connection, wanted) in groups.items():
            try:
                sent.append((node_id, connection, self._send(connection, wanted, max_wait_ms)))
            except ClientError as error:
                failures.append(_about(error, wanted))
        fetched: list[Fetched] = []
        for node_id, connection, token in sent:
            wanted = groups[node_id][1]
            buffer = self._buffers.setdefault(node_id, ReceiveBuffer())
            try:
                response = connection.receive(token, buffer=buffer)
                found, refused = self._read(response, wanted, connection)
            except ClientError as error:
                failures.append(_about(error, wanted))
            else:
                fetched += found
                failures += refused
        return fetched, failures

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
        back (or any more that far forward), DeadlineExceeded when nothing came for
        `stall_timeout_ms`.
        """
        position = FetchPosition(start_offset, last_epoch)
        buffer = ReceiveBuffer()
        pending: tuple[Connection, Token] | None = None
        backoff = self.cluster.backoff()
        give_up_on_unknown = self.cluster.unknown_topic_limit()
        deadline = self.cluster.deadline(stall_timeout_ms)
        try:
            while position.offset < end_offset:
                try:
                    if pending is None:
                        pending = self._ask(partition, position, deadline, least_leader_epoch)
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
                position = FetchPosition(fetched.next_offset, fetched.last_epoch)
                deadline = self.cluster.deadline(stall_timeout_ms)
                backoff = self.cluster.backoff()
                if position.offset < end_offset:
                    pending = self._ask_ahead(partition, position, deadline)
                yield fetched
        finally:
            if pending is not None:
                pending[0].abandon(pending[1])

    def _ask(
        self,
        partition: TopicPartition,
        position: FetchPosition,
        deadline: Deadline,
        least_leader_epoch: int = -1,
    ) -> tuple[Connection, Token]:
        node, epoch = self.cluster.leader(*partition, deadline)
        if 0 <= epoch < least_leader_epoch:
            raise BrokerError.of(
                ErrorCode.UNKNOWN_LEADER_EPOCH,
                f"metadata has leader epoch {epoch}, older than {least_leader_epoch}",
                host=node.address,
            )
        connection = self.cluster.connection(node)
        return connection, self._send(connection, {partition: (position, epoch)}, None)

    def _ask_ahead(
        self, partition: TopicPartition, position: FetchPosition, deadline: Deadline
    ) -> tuple[Connection, Token] | None:
        """Ask early; a failure is left to the proper attempt, which deals with errors."""
        try:
            return self._ask(partition, position, deadline)
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
        found, refused = self._read(response, {partition: (position, -1)}, connection)
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

    # -- requests and responses ------------------------------------------------------------------

    def _send(
        self,
        connection: Connection,
        wanted: Mapping[TopicPartition, tuple[FetchPosition, int]],
        max_wait_ms: int | None,
    ) -> Token:
        config = self.cluster.config
        topics = by_topic(wanted)
        ids = {name: self._topic_id(name) for name in topics}
        by_id = Uuid.ZERO not in ids.values()
        version = connection.version_for(
            FetchRequest,
            lowest=LOWEST_VERSION,
            highest=HIGHEST_VERSION if by_id else LAST_VERSION_WITH_NAMES,
        )
        diverges = version >= FIRST_VERSION_WITH_DIVERGENCE
        request = FetchRequest(
            max_wait_ms=config.fetch_max_wait_ms if max_wait_ms is None else max_wait_ms,
            min_bytes=config.fetch_min_bytes,
            max_bytes=config.fetch_max_bytes,
            isolation_level=int(config.isolation_level == "read_committed"),
            topics=[
                FetchTopic(
                    topic=name,
                    topic_id=ids[name],
                    partitions=[
                        FetchPartition(
                            partition=number,
                            current_leader_epoch=epoch,
                            fetch_offset=position.offset,
                            last_fetched_epoch=position.last_epoch if diverges else -1,
                            partition_max_bytes=config.max_partition_fetch_bytes,
                        )
                        for number, (position, epoch) in partitions
                    ],
                )
                for name, partitions in topics.items()
            ],
        )
        return connection.send(request, version)

    def _topic_id(self, name: str) -> Uuid:
        """The id in metadata, which must be the pinned one if there is one."""
        pinned = self.topic_ids.get(name)
        for attempt in (1, 2):
            known = self.cluster.metadata.topics.get(name)
            current = known.topic_id if known else Uuid.ZERO
            if pinned is None or Uuid.ZERO in (current, pinned) or current == pinned:
                return current
            if attempt == 1:  # the cache may be the one that is out of date
                self.cluster.describe([name])
        raise RecreatedTopic(name, pinned or Uuid.ZERO, current)

    def _read(
        self,
        response: FetchResponse,
        wanted: Mapping[TopicPartition, tuple[FetchPosition, int]],
        connection: Connection,
    ) -> tuple[list[Fetched], list[ClientError]]:
        """Sort a response into data and errors. Raises the response's own error."""
        if response.error_code != ErrorCode.NONE:
            raise BrokerError.of(response.error_code, "Fetch was refused", host=connection.address)
        found: list[Fetched] = []
        refused: list[ClientError] = []
        for topic in response.responses:
            name = topic.topic or self.cluster.topic_name(Uuid(topic.topic_id)) or ""
            for entry in topic.partitions:
                partition = TopicPartition(name, entry.partition_index)
                if partition not in wanted:
                    continue
                position = wanted[partition][0]
                if entry.error_code != ErrorCode.NONE:
                    refused.append(_refusal(entry, partition, position, connection.address))
                else:
                    found.append(_fetched(entry, partition, position, connection.address))
        return found, refused


class RecreatedTopic(UnknownTopic):
    """The topic of this name is not the one that was read before. Not retriable."""

    def __init__(self, topic: str, expected: Uuid, found: Uuid) -> None:
        super().__init__(
            f"the topic was recreated: expected id {expected}, found {found}", topic=topic
        )
        self.expected = expected
        self.found = found

    def __reduce__(self) -> tuple[type[RecreatedTopic], tuple[str, Uuid, Uuid]]:
        return type(self), (self.topic or "", self.expected, self.found)


def _about(error: ClientError, wanted: Mapping[TopicPartition, object]) -> ClientError:
    if error.topic is None:
        error.topic, error.partition = min(wanted)
    return error


def _refusal(
    entry: PartitionData, partition: TopicPartition, position: FetchPosition, host: str
) -> ClientError:
    what = f"Fetch at offset {position.offset} was refused"
    if entry.error_code == ErrorCode.OFFSET_OUT_OF_RANGE and entry.log_start_offset >= 0:
        what += f"; the log starts at {entry.log_start_offset}"
    return BrokerError.of(
        entry.error_code,
        what,
        host=host,
        topic=partition.topic,
        partition=partition.partition,
    )


def _fetched(
    entry: PartitionData, partition: TopicPartition, position: FetchPosition, host: str
) -> Fetched:
    records = memoryview(entry.records if entry.records is not None else b"")
    end = blob_end(records)
    diverging = None
    if entry.diverging_epoch.end_offset >= 0 or entry.diverging_epoch.epoch >= 0:
        diverging = EpochEnd(entry.diverging_epoch.epoch, entry.diverging_epoch.end_offset)
    elif len(records) and (end.size_bytes == 0 or end.next_offset <= position.offset):
        raise ProtocolError(
            f"a fetch at offset {position.offset} returned {len(records)} bytes of records "
            f"that end at offset {end.next_offset}",
            host=host,
            topic=partition.topic,
            partition=partition.partition,
        )
    advanced = end.size_bytes > 0 and diverging is None
    return Fetched(
        partition=partition,
        records=records[: end.size_bytes],
        next_offset=end.next_offset if advanced else position.offset,
        last_epoch=end.last_epoch if advanced else position.last_epoch,
        high_watermark=entry.high_watermark,
        last_stable_offset=entry.last_stable_offset,
        log_start_offset=entry.log_start_offset,
        aborted=tuple((a.producer_id, a.first_offset) for a in entry.aborted_transactions or ()),
        diverging=diverging,
    )


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
