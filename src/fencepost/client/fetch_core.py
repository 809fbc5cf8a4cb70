"""Fetching from several leaders, without I/O: requests, what answers mean, and `fetching`.

Three things guard against reading another log than the caller means (KIP-320, KIP-516, KIP-595):
requests carry the leader epoch known from metadata, so a deposed leader refuses; they carry the
topic id where the version allows and a pinned id is compared with metadata, so a recreated topic is
an UnknownTopic error; and with the epoch of the last record read, a leader whose log parted from
what was read before answers with a diverging epoch.

No fetch sessions (KIP-227): readers here move few partitions many bytes, and keep no state at
the broker that a retry would have to repair.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from itertools import chain, takewhile
from typing import Any, NamedTuple

from fencepost.batch.records import Record, read_record_lists
from fencepost.client import asking
from fencepost.client.cluster_view import ClusterView
from fencepost.client.conversation import Conversation, Exchange, ExchangeAll
from fencepost.client.errors import (
    BrokerError,
    ClientError,
    DeadlineExceeded,
    ProtocolError,
    UnknownTopic,
)
from fencepost.client.leaders import by_topic
from fencepost.client.metadata import TopicPartition
from fencepost.client.offsets import EpochEnd
from fencepost.client.protocol.framing import ReceiveBuffer
from fencepost.client.retry import Deadline, pausing
from fencepost.client.transactions import committed_slices
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


class FetchLimits(NamedTuple):
    """Bytes of one answer, and of one partition in it; a first batch that is larger comes whole."""

    max_bytes: int
    partition_max_bytes: int


class Fetched(NamedTuple):
    """One partition's part of a fetch.

    `records` holds whole batches, the first of which may begin before the offset asked for.
    `next_offset` and `last_epoch` follow the last whole batch (those asked for, if none).
    `aborted` lists (producer id, first offset) under read_committed. With `diverging` set there
    are no records: the leader's log parts from the caller's at that epoch and offset.
    `start_offset` is the offset asked for.
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
    start_offset: int = 0

    def read_records(self, end_offset: int | None = None) -> Iterator[Record]:
        """The records from the offset asked for up to `end_offset` (None: all), without those of
        aborted transactions; one batch is unpacked at a time. Raises BatchError."""
        records = chain.from_iterable(self.read_lists())
        if end_offset is None:
            return records
        return takewhile(lambda record: record.offset < end_offset, records)

    def read_lists(
        self, row_type: Any = Record, prefix: tuple[Any, ...] = ()
    ) -> Iterator[list[Any]]:
        """The same, a list for each batch; `row_type` and `prefix` as of `records.read_batch`."""
        for piece in committed_slices(self.records, self.aborted):
            yield from read_record_lists(
                piece, start_offset=self.start_offset, row_type=row_type, prefix=prefix
            )


class BlobEnd(NamedTuple):
    """What the last whole batch of a blob says; `size_bytes` counts whole batches only."""

    size_bytes: int
    next_offset: int
    last_epoch: int


_NO_RECORDS = memoryview(b"")
_NO_BATCH = BlobEnd(0, -1, -1)


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
        return _NO_BATCH
    base_offset, length = _BATCH_START.unpack_from(blob, last)
    if blob[last + _MAGIC_POSITION] < 2:
        return BlobEnd(position, base_offset + 1, -1)
    if length + _LOG_OVERHEAD_BYTES < _SMALLEST_V2_BYTES:
        raise ProtocolError(f"a record batch of format 2 claims a length of {length} bytes")
    (delta,) = _LAST_OFFSET_DELTA.unpack_from(blob, last + _LAST_OFFSET_DELTA_POSITION)
    (epoch,) = _LAST_OFFSET_DELTA.unpack_from(blob, last + _LEADER_EPOCH_POSITION)
    return BlobEnd(position, base_offset + delta + 1, epoch)


Wanted = Mapping[TopicPartition, tuple[FetchPosition, int]]
"""Where to read on, and the leader epoch that metadata have."""


class FetchCore:
    """The view of a cluster, pinned topic ids, and a buffer per leader.

    `topic_ids` pins topics by name to an id: should the cluster have another topic of that name,
    reading raises UnknownTopic instead of returning its records.
    """

    def __init__(
        self, view: ClusterView[Any], *, topic_ids: Mapping[str, Uuid] | None = None
    ) -> None:
        self.view = view
        self.topic_ids = dict(topic_ids or {})
        self._buffers: dict[int, ReceiveBuffer] = {}

    def fetching(
        self,
        positions: Mapping[TopicPartition, FetchPosition],
        *,
        max_wait_ms: int | None = None,
        limits: FetchLimits | None = None,
        isolation_level: str | None = None,
        deadline: Deadline | None = None,
    ) -> Conversation[list[Fetched]]:
        """One fetch from every leader; partitions that had nothing new come back empty.

        `max_wait_ms`, `limits` and `isolation_level` are by default those of the config.

        Partitions whose leader moved are left out (a later call finds the new one) unless all
        were, which is retried until `deadline`. Raises OffsetOutOfRange, UnknownTopic and other
        hopeless errors, naming the partition.
        """
        view = self.view
        deadline = deadline or view.deadline()
        backoff = view.backoff()
        give_up_on_unknown = view.unknown_topic_limit()
        while True:
            failures: list[ClientError] = []
            how = (max_wait_ms, limits, isolation_level)
            fetched = yield from self._fetch_once(positions, how, failures, deadline)
            for error in failures:
                if not error.retriable:
                    raise error
                view.note_failure(error)
            if fetched or not positions:
                return fetched
            give_up_on_unknown(failures[0])
            if not (yield from pausing(backoff, deadline)):
                raise DeadlineExceeded(
                    f"nothing could be fetched within {deadline.timeout_ms:.0f} ms", failures[0]
                )

    def _fetch_once(
        self,
        positions: Mapping[TopicPartition, FetchPosition],
        how: tuple[int | None, FetchLimits | None, str | None],
        failures: list[ClientError],
        deadline: Deadline,
    ) -> Conversation[list[Fetched]]:
        groups: dict[int, tuple[Any, dict[TopicPartition, tuple[FetchPosition, int]]]] = {}
        for partition, position in positions.items():
            try:
                node, epoch = yield from asking.leader_once(self.view, *partition, deadline)
                connection = yield from asking.connect(node)
            except ClientError as error:
                error.topic, error.partition = partition
                failures.append(error)
            else:
                _, wanted = groups.setdefault(node.node_id, (connection, {}))
                wanted[TopicPartition(*partition)] = (position, epoch)
        asked: list[tuple[Exchange[Any], Wanted]] = []
        for node_id, (connection, wanted) in groups.items():
            buffer = self._buffers.setdefault(node_id, ReceiveBuffer())
            try:
                request, version = yield from self.request(connection, wanted, *how)
            except ClientError as error:
                failures.append(about(error, wanted))
            else:
                asked.append((Exchange(connection, request, version, buffer=buffer), wanted))
        responses = yield from ExchangeAll([exchange for exchange, _ in asked])
        fetched: list[Fetched] = []
        for (exchange, asked_for), response in zip(asked, responses, strict=True):
            try:
                if isinstance(response, ClientError):
                    raise response
                found, refused = self.read(response, asked_for, exchange.connection.address)
            except ClientError as error:
                failures.append(about(error, asked_for))
            else:
                fetched += found
                failures += refused
        return fetched

    def request(
        self,
        connection: Any,
        wanted: Wanted,
        max_wait_ms: int | None = None,
        limits: FetchLimits | None = None,
        isolation_level: str | None = None,
    ) -> Conversation[tuple[FetchRequest, int]]:
        """The request for `wanted`, and the version it is for; by default as the config says."""
        config = self.view.config
        if limits is None:
            limits = FetchLimits(config.fetch_max_bytes, config.max_partition_fetch_bytes)
        topics = by_topic(wanted)
        ids = {}
        for name in topics:
            ids[name] = yield from self._topic_id(name)
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
            max_bytes=limits.max_bytes,
            isolation_level=int((isolation_level or config.isolation_level) == "read_committed"),
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
                            partition_max_bytes=limits.partition_max_bytes,
                        )
                        for number, (position, epoch) in partitions
                    ],
                )
                for name, partitions in topics.items()
            ],
        )
        return request, version

    def _topic_id(self, name: str) -> Conversation[Uuid]:
        """The id in metadata, which must be the pinned one if there is one."""
        pinned = self.topic_ids.get(name)
        for attempt in (1, 2):
            known = self.view.metadata.topics.get(name)
            current = known.topic_id if known else Uuid.ZERO
            if pinned is None or Uuid.ZERO in (current, pinned) or current == pinned:
                return current
            if attempt == 1:  # the cache may be the one that is out of date
                yield from asking.describe(self.view, [name])
        raise RecreatedTopic(name, pinned or Uuid.ZERO, current)

    def read(
        self,
        response: FetchResponse,
        wanted: Mapping[TopicPartition, tuple[FetchPosition, int]],
        host: str,
    ) -> tuple[list[Fetched], list[ClientError]]:
        """Sort a response into data and errors. Raises the response's own error."""
        if response.error_code != ErrorCode.NONE:
            raise BrokerError.of(response.error_code, "Fetch was refused", host=host)
        found: list[Fetched] = []
        refused: list[ClientError] = []
        for topic in response.responses:
            name = topic.topic or self.view.topic_name(Uuid(topic.topic_id)) or ""
            for entry in topic.partitions:
                partition = TopicPartition(name, entry.partition_index)
                asked = wanted.get(partition)
                if asked is None:
                    continue
                if entry.error_code:
                    refused.append(_refusal(entry, partition, asked[0], host))
                else:
                    found.append(_fetched(entry, partition, asked[0], host))
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


def about(error: ClientError, wanted: Mapping[TopicPartition, object]) -> ClientError:
    """Have an error name a partition that it is about; it is returned."""
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
    records = memoryview(entry.records) if entry.records else _NO_RECORDS
    end = blob_end(records) if len(records) else _NO_BATCH
    diverging = None
    epoch_end = entry.diverging_epoch
    if epoch_end.end_offset >= 0 or epoch_end.epoch >= 0:
        diverging = EpochEnd(epoch_end.epoch, epoch_end.end_offset)
    elif len(records) and (end.size_bytes == 0 or end.next_offset <= position.offset):
        raise ProtocolError(
            f"a fetch at offset {position.offset} returned {len(records)} bytes of records "
            f"that end at offset {end.next_offset}",
            host=host,
            topic=partition.topic,
            partition=partition.partition,
        )
    advanced = end.size_bytes > 0 and diverging is None
    aborted = entry.aborted_transactions
    return Fetched(  # by place: by name it takes twice the time, for each partition of an answer
        partition,
        records if end.size_bytes == len(records) else records[: end.size_bytes],
        end.next_offset if advanced else position.offset,
        end.last_epoch if advanced else position.last_epoch,
        entry.high_watermark,
        entry.last_stable_offset,
        entry.log_start_offset,
        tuple((one.producer_id, one.first_offset) for one in aborted) if aborted else (),
        diverging,
        position.offset,
    )
