"""Fetch (key 1) v4-18: log data, now or when there is some.

What a reader may read is the partition machine's answer (`check_fetch`: epochs, divergence, offset
range, upper bound); which partitions are meant and which belong in the answer is the session's
(KIP-227); how long to wait is `machines.fetch.PendingFetches`'.

A fetch is answered at once if it does not want to wait, has no partitions, found `min_bytes`, or
met an error or a diverging epoch. Otherwise it waits until a partition moves or its time is up. The
bytes are read when the connection is ready to send them (`reply_lazily`), never earlier.

Sizes: the response is bounded by the request's and the broker's `max_bytes`, and by the room that
answers nobody has taken yet leave in memory (`broker.held`), each partition by its own; only the
first partition with data may exceed all of them, by its first batch, so that a batch larger than a
limit cannot stop a reader for good. Partitions are read in the order of the session. One that a
request names twice counts once, as named last.

Version rules: topics go by id from v13; up to v5 KAFKA_STORAGE_ERROR is told as
NOT_LEADER_OR_FOLLOWER; before v10 topics stored as zstd are UNSUPPORTED_COMPRESSION_TYPE; before
v11 only leaders serve consumers; from v12 errors 6 and 74 carry the current leader, from v16 with
its address (KIP-951). Records are empty, never null.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from fencepost.batch.header import measure
from fencepost.broker.cluster.leader_hints import LeaderHints
from fencepost.broker.net.registry import Pieces, handles
from fencepost.broker.net.request_context import RequestContext
from fencepost.broker.replicas.delayed_fetch import SessionKey
from fencepost.log.errors import LogError, OffsetOutOfRange
from fencepost.log.reading import ReadResult
from fencepost.machines.fetch import FetchContext, FetchOutcome, FetchWanted, PendingFetch
from fencepost.machines.partition import FetchBounds, Isolation
from fencepost.runtime.replicas import HostedPartition
from fencepost.wire.api.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Uuid

log = logging.getLogger(__name__)

T = TypeVar("T")

PARTITIONS_PER_PIECE = 50
PARTITION_BYTES = 512
"""What a fetch takes for each of its partitions until it is answered."""
TOPIC_IDS_FROM = 13
FOLLOWERS_SERVE_FROM = 11
ZSTD_FROM = 10
STORAGE_ERROR_FROM = 6
SESSIONS_FROM = 7
LEADER_FROM = 12
ENDPOINTS_FROM = 16
REPLICA_STATE_FROM = 15

_TOLD_LEADER = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


@handles(FetchRequest, versions="4-18")
def handle(context: RequestContext, request: FetchRequest) -> Pieces:
    """Answer with records, or wait for them."""
    if request.isolation_level not in (Isolation.READ_UNCOMMITTED, Isolation.READ_COMMITTED):
        context.fail(ErrorCode.INVALID_REQUEST)
        return None
    version = context.api_version
    by_id = version >= TOPIC_IDS_FROM
    replica_id = (
        request.replica_state.replica_id if version >= REPLICA_STATE_FROM else request.replica_id
    )
    context.hold(PARTITION_BYTES * sum(len(topic.partitions) for topic in request.topics))
    wanted = yield from _wanted(request, by_id)
    session = context.node.fetches.sessions.begin(
        request.session_id if version >= SESSIONS_FROM else 0,
        request.session_epoch if version >= SESSIONS_FROM else -1,
        wanted,
        [
            (topic.topic_id if by_id else topic.topic, index)
            for topic in request.forgotten_topics_data
            for index in topic.partitions
        ],
        is_follower=replica_id >= 0,
        uses_topic_ids=by_id,
        now_ms=context.node.now_ms(),
    )
    if isinstance(session, ErrorCode):
        return FetchResponse(error_code=int(session))
    context.hold(PARTITION_BYTES * max(0, len(session.partitions) - len(wanted)))
    return (yield from _Fetch(context, request, session, replica_id).begin())


def _wanted(
    request: FetchRequest, by_id: bool
) -> Generator[None, None, list[FetchWanted[SessionKey]]]:
    """The partitions the request names, each once."""
    wanted: dict[SessionKey, FetchWanted[SessionKey]] = {}
    for topic in request.topics:
        name = topic.topic_id if by_id else topic.topic
        for partition in topic.partitions:
            if len(wanted) % PARTITIONS_PER_PIECE == PARTITIONS_PER_PIECE - 1:
                yield
            key = (name, partition.partition)
            wanted[key] = FetchWanted(
                key,
                partition.fetch_offset,
                partition.partition_max_bytes,
                partition.current_leader_epoch,
                partition.last_fetched_epoch,
                partition.log_start_offset,
            )
    return list(wanted.values())


@dataclass(slots=True)
class _Found:
    """What can be said of one partition without reading: an error, or bounds within which to."""

    wanted: FetchWanted[SessionKey]
    error: ErrorCode = ErrorCode.NONE
    hosted: HostedPartition | None = None
    bounds: FetchBounds | None = None

    @property
    def is_urgent(self) -> bool:
        """Whether the client must hear of it at once."""
        return self.bounds is None or self.bounds.diverging is not None

    @property
    def has_data(self) -> bool:
        """Whether there is something to read."""
        return (
            self.bounds is not None
            and self.bounds.diverging is None
            and self.bounds.upper_bound > self.wanted.fetch_offset
        )


class _Fetch:
    """One fetch request until its answer."""

    __slots__ = (
        "_context",
        "_deadline_ms",
        "_found",
        "_isolation",
        "_max_bytes",
        "_min_bytes",
        "_parked",
        "_replica_id",
        "_session",
    )

    def __init__(
        self,
        context: RequestContext,
        request: FetchRequest,
        session: FetchContext[SessionKey],
        replica_id: int,
    ) -> None:
        node = context.node
        self._context = context
        self._session = session
        self._replica_id = replica_id
        self._isolation = request.isolation_level
        self._max_bytes = min(request.max_bytes, node.config.get("fetch.max.bytes"))
        self._min_bytes = min(request.min_bytes, self._max_bytes)
        self._deadline_ms = node.now_ms() + request.max_wait_ms if request.max_wait_ms > 0 else 0
        self._parked: PendingFetch[str] | None = None
        self._found: list[_Found] | None = None

    def begin(self) -> Pieces:
        """Answer, or park."""
        found = yield from self._look()
        sizes = [] if self._must_answer(found) else self._sizes(found)
        if (
            self._must_answer(found)
            or sum(size_bytes for _, size_bytes in sizes) >= self._min_bytes
            or self._have_moved(found)
        ):
            self._found = found if len(found) < PARTITIONS_PER_PIECE else None
            self.complete()
            self._found = None  # good for as long as nothing else runs in between
            return None
        self._parked = self._context.node.fetches.park(
            self,
            {one.hosted.key: one.wanted for one in found if one.hosted is not None},
            self._min_bytes,
            self._deadline_ms,
            sizes,
        )
        self._context.on_disconnect(self._abandon)
        return None

    def available_bytes(
        self, hosted: HostedPartition, wanted: FetchWanted[SessionKey]
    ) -> int | None:
        """What `hosted` has for this fetch; None if there is something to be told at once."""
        found = self._look_at(wanted)
        if found.is_urgent or found.hosted is not hosted:
            return None
        return self._size(found)

    def complete(self) -> None:
        """The wait is over."""
        self._parked = None
        if not self._context.answered:
            self._context.reply_in_pieces(self._respond())

    def _abandon(self) -> None:
        parked, self._parked = self._parked, None  # each refers to the other
        if parked is not None:
            self._context.node.fetches.cancel(parked)

    # -- looking ---------------------------------------------------------------------------

    def _look(self) -> Generator[None, None, list[_Found]]:
        found = []
        for wanted in self._session.partitions:
            found.append(self._look_at(wanted))
            if len(found) % PARTITIONS_PER_PIECE == 0:
                yield
        return found

    def _look_at(self, wanted: FetchWanted[SessionKey]) -> _Found:
        """Find the partition and ask its machine."""
        topic, index = wanted.key
        replicas = self._context.node.replicas
        if self._context.api_version >= TOPIC_IDS_FROM:
            assert isinstance(topic, Uuid)
            hosted = replicas.by_id(topic, index)
        else:
            assert isinstance(topic, str)
            hosted = replicas.get(topic, index)
        if isinstance(hosted, ErrorCode):
            return _Found(wanted, hosted)
        bounds = hosted.machine.check_fetch(
            fetch_offset=wanted.fetch_offset,
            current_leader_epoch=wanted.current_leader_epoch,
            last_fetched_epoch=wanted.last_fetched_epoch,
            replica_id=self._replica_id,
            isolation=self._isolation,
            leader_only=self._context.api_version < FOLLOWERS_SERVE_FROM,
        )
        if isinstance(bounds, ErrorCode):
            return _Found(wanted, bounds, hosted)
        if self._context.api_version < ZSTD_FROM and hosted.log.config.compression_type == "zstd":
            return _Found(wanted, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, hosted)
        return _Found(wanted, ErrorCode.NONE, hosted, bounds)

    def _have_moved(self, found: list[_Found]) -> bool:
        """Whether a partition has moved since it was looked at: nobody will say so again."""
        if len(found) < PARTITIONS_PER_PIECE:
            return False
        get = self._context.node.replicas.get
        return any(
            one.bounds.high_watermark != one.hosted.machine.high_watermark
            or get(one.hosted.topic, one.hosted.index) is not one.hosted
            for one in found
            if one.hosted is not None and one.bounds is not None
        )

    def _must_answer(self, found: list[_Found]) -> bool:
        return (
            not self._deadline_ms
            or not found
            or self._min_bytes <= 0
            or any(one.is_urgent for one in found)
            or (self._min_bytes == 1 and any(one.has_data for one in found))
        )

    def _sizes(self, found: list[_Found]) -> list[tuple[str, int]]:
        return [(one.hosted.key, self._size(one)) for one in found if one.has_data and one.hosted]

    def _size(self, found: _Found) -> int:
        """Bytes that could be read; only as exact as `min_bytes` needs."""
        if not found.has_data:
            return 0
        if self._min_bytes <= 1:
            return 1
        wanted, hosted, bounds = found.wanted, found.hosted, found.bounds
        assert hosted is not None and bounds is not None, "only what was found is measured"
        limit_bytes = min(wanted.partition_max_bytes, self._max_bytes)
        try:
            return hosted.log.measure(wanted.fetch_offset, limit_bytes, bounds.upper_bound)
        except (LogError, OSError):
            return self._min_bytes  # reading it will say what is wrong

    # -- answering -------------------------------------------------------------------------

    def _respond(self) -> Generator[None, None, FetchResponse]:
        """Read, and compose the response. Begun when the connection is ready to send it."""
        found: list[_Found] = []
        parts: list[PartitionData] = []
        outcomes: list[tuple[SessionKey, FetchOutcome]] = []
        left_bytes = min(self._max_bytes, self._context.room_bytes)
        nothing_yet = True
        looked_at = self._found
        for position, wanted in enumerate(self._session.partitions):
            if position % PARTITIONS_PER_PIECE == PARTITIONS_PER_PIECE - 1:
                yield
            one = self._look_at(wanted) if looked_at is None else looked_at[position]
            found.append(one)
            part, size_bytes = self._read_partition(one, left_bytes, nothing_yet)
            left_bytes -= size_bytes
            nothing_yet = nothing_yet and size_bytes == 0
            parts.append(part)
            outcomes.append(
                (
                    one.wanted.key,
                    FetchOutcome(
                        size_bytes,
                        part.high_watermark,
                        part.log_start_offset,
                        part.error_code,
                        part.diverging_epoch.end_offset >= 0,
                    ),
                )
            )
        finished = self._session.finish(outcomes, self._context.node.now_ms())
        response = FetchResponse(
            error_code=int(finished.error_code), session_id=finished.session_id
        )
        self._group(response, found, parts, finished.included)
        return response

    def _read_partition(
        self, found: _Found, left_bytes: int, nothing_yet: bool
    ) -> tuple[PartitionData, int]:
        """One partition's part of the response, and how many bytes of records it has."""
        index = found.wanted.key[1]
        bounds = found.bounds
        if bounds is None:
            return self._refused(index, found.error), 0
        part = PartitionData(
            partition_index=index,
            high_watermark=bounds.high_watermark,
            last_stable_offset=bounds.last_stable_offset,
            log_start_offset=bounds.log_start_offset,
            aborted_transactions=[] if self._isolation == Isolation.READ_COMMITTED else None,
            records=(),
        )
        if bounds.diverging is not None:
            part.diverging_epoch = EpochEndOffset(
                epoch=bounds.diverging.epoch, end_offset=bounds.diverging.end_offset
            )
            return part, 0
        limit_bytes = min(found.wanted.partition_max_bytes, left_bytes)
        if not found.has_data or (limit_bytes <= 0 and not nothing_yet):
            return part, 0
        data = self._read(found, max(limit_bytes, 0), nothing_yet)
        if isinstance(data, ErrorCode):
            return self._refused(index, data), 0
        if self._isolation == Isolation.READ_COMMITTED:
            aborted = self._aborted(found, data)
            if isinstance(aborted, ErrorCode):
                return self._refused(index, aborted), 0
            part.aborted_transactions = aborted
        part.records = data.buffers
        return part, data.size_bytes

    def _aborted(self, found: _Found, data: ReadResult) -> list[AbortedTransaction] | ErrorCode:
        """The aborted transactions among what was read, in the order of their markers."""
        hosted = found.hosted
        assert hosted is not None, "it was read"
        offset = found.wanted.fetch_offset

        def look() -> list[AbortedTransaction]:
            if not hosted.log.has_aborted_transactions(offset):
                return []
            end_offset = max((measure(part).next_offset or 0 for part in data.buffers), default=0)
            return [
                AbortedTransaction(producer_id=one.producer_id, first_offset=one.first_offset)
                for one in hosted.log.aborted_transactions(offset, end_offset)
            ]

        return self._from_log(hosted, look)

    def _read(self, found: _Found, max_bytes: int, min_one_batch: bool) -> ReadResult | ErrorCode:
        """Whole batches within the bounds, or the error that stands for why there are none."""
        hosted, bounds = found.hosted, found.bounds
        assert hosted is not None and bounds is not None, "only what was found is read"
        return self._from_log(
            hosted,
            lambda: hosted.log.read(
                found.wanted.fetch_offset, max_bytes, bounds.upper_bound, min_one_batch
            ),
        )

    def _from_log(self, hosted: HostedPartition, look: Callable[[], T]) -> T | ErrorCode:
        """What `look` gives, or the error that stands for why it gives nothing."""
        try:
            with self._context.node.storage.descriptors.without_waiting():
                return look()
        except OffsetOutOfRange:  # retention moved the start since we looked
            return ErrorCode.OFFSET_OUT_OF_RANGE
        except LogError as error:
            log.error("cannot read %s: %s", hosted.key, error)
            return ErrorCode.KAFKA_STORAGE_ERROR
        except OSError as error:
            self._context.node.replicas.storage_failed(
                hosted, f"reading {hosted.key}: {error}", error
            )
            return ErrorCode.KAFKA_STORAGE_ERROR

    def _refused(self, index: int, error: ErrorCode) -> PartitionData:
        if (
            error is ErrorCode.KAFKA_STORAGE_ERROR
            and self._context.api_version < STORAGE_ERROR_FROM
        ):
            error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        return PartitionData(
            partition_index=index,
            error_code=int(error),
            high_watermark=-1,
            last_stable_offset=-1,
            log_start_offset=-1,
            aborted_transactions=None,
            records=(),
        )

    def _group(
        self,
        response: FetchResponse,
        found: list[_Found],
        parts: list[PartitionData],
        included: Sequence[int],
    ) -> None:
        """Put the chosen parts into the response, neighbours of one topic together."""
        by_id = self._context.api_version >= TOPIC_IDS_FROM
        hints: LeaderHints | None = None
        topics = response.responses
        last: object = None
        for position in included:
            topic, index = found[position].wanted.key
            part = parts[position]
            if not topics or topic != last:
                last = topic
                topics.append(_topic(topic, by_id))
            topics[-1].partitions.append(part)
            if part.error_code in _TOLD_LEADER and self._context.api_version >= LEADER_FROM:
                if hints is None:
                    hints = LeaderHints(self._context.node.image, self._context.listener_name)
                name, topic_id = ("", topic) if by_id else (topic, Uuid.ZERO)
                leader = hints.leader_of(name, topic_id, index)  # type: ignore[arg-type]
                if leader is not None:
                    part.current_leader = LeaderIdAndEpoch(
                        leader_id=leader.leader_id, leader_epoch=leader.leader_epoch
                    )
        if hints is not None and self._context.api_version >= ENDPOINTS_FROM:
            response.node_endpoints = [
                NodeEndpoint(node_id=n.node_id, host=n.host, port=n.port, rack=n.rack)
                for n in hints.endpoints()
            ]


def _topic(topic: object, by_id: bool) -> FetchableTopicResponse:
    if by_id:
        assert isinstance(topic, Uuid)
        return FetchableTopicResponse(topic_id=topic)
    assert isinstance(topic, str)
    return FetchableTopicResponse(topic=topic)
