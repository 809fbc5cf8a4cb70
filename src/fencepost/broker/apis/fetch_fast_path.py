"""The usual Fetch of a consumer, from its bytes to its answer's.

A consumer without a session that reads on asks in few bytes, all of them known but the numbers, and
is answered with few besides the records. So both are a handful of `struct` calls here. Whatever is
unusual in a request, or wrong with it or its partitions, is left to `fetch`, which begins again at
the first byte: nothing has happened before it is known what to answer, or that it has to wait. One
that has waited, and is not usual any more, is answered by `fetch_answer`. The answers are the same,
byte for byte.

Usual is: v12 or later, nothing tagged, no session, no rack, no replica, uncommitted records, one
byte wanted, no topic twice; every partition here, with an offset that may be read; all records in
the page cache, or none to read and time to wait for them; and an answer that would leave now. Up to
`PARTITIONS_MAX` partitions are done in one go.

The bytes of such a request, after its header, and of the answer (lengths are one byte, one more
than what they stand for, but the records', which is a varint; `.` stands for no tags):

| request                                                    | answer                            |
|------------------------------------------------------------|-----------------------------------|
| replica id (to v14), wait, bytes wanted and at most,       | length, correlation id `.`,       |
| isolation, session id and epoch, topics:                   | throttle time, error, session id, |
|                                                            | topics:                           |
| name or (from v13) id, partitions:                         | name or id, partitions:           |
| index, leader epoch, offset, last fetched epoch, log start | index, error, high watermark,     |
| offset, bytes at most `.`                                  | last stable offset, log start     |
|                                                            | offset, no aborted transactions,  |
|                                                            | no other replica, records `.`     |
| `.`                                                        | `.`                               |
| no forgotten topics, no rack `.`                           | `.`                               |
"""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

from fencepost.broker.apis.fetch_answer import (
    PARTITION_BYTES,
    TOPIC_IDS_FROM,
    FetchAnswer,
    FetchParts,
)
from fencepost.broker.cluster.metadata_cache import MetadataCache
from fencepost.broker.config.broker_config import BrokerConfig
from fencepost.broker.net.registry import Pieces
from fencepost.broker.net.request_context import Buffer, RequestContext
from fencepost.broker.replicas.throttles import LeaderThrottle
from fencepost.broker.storage.cold_reads import ColdReads
from fencepost.broker.storage.storage import Storage
from fencepost.log.error_codes import LOG_ERRORS
from fencepost.log.page_cache import NotCachedError
from fencepost.machines.driver import Driver
from fencepost.machines.fetch import FetchTerms, FetchWanted, PendingFetch
from fencepost.machines.fetch.answering import CONSUMER
from fencepost.machines.fetch.sessions import without_session
from fencepost.machines.partition import FetchBounds, Isolation
from fencepost.machines.partition.inputs import ANY_BROKER_EPOCH
from fencepost.runtime.clock import Clocks
from fencepost.runtime.delayed_fetches import FetchHost, SessionKey
from fencepost.runtime.replicas import HostedPartition, ReplicaManager
from fencepost.wire.errors import ErrorCode
from fencepost.wire.message import Message
from fencepost.wire.types import Uuid

FLEXIBLE_FROM: Final = 12
REPLICA_STATE_FROM: Final = 15
PARTITIONS_MAX: Final = 16
LENGTH_MAX: Final = 0x7F
"""The largest varint of one byte."""

_REPLICA = Struct(">i")
_HEAD = Struct(">iiibiiB")
_PARTITION = Struct(">iiqiqiB")
_END: Final = b"\x01\x01\x00"
_NO_SESSION: Final = (0, -1)
_UUID_BYTES: Final = 16

_ANSWER_HEAD = Struct(">iiBihiB")
_ANSWERED = Struct(">ihqqqBi")
_NO_TAGS: Final = b"\x00"
_PREFIX_BYTES: Final = 4
_NO_REPLICA: Final = -1

Wanted = tuple[int, int, int, int, int, int]
"""A partition: index, leader epoch, offset, last fetched epoch, log start offset, bytes at most."""


class UsualFetch(NamedTuple):
    """What there is in a usual request: topics are names or ids, as they stand in it."""

    max_wait_ms: int
    max_bytes: int
    topics: list[tuple[bytes, list[Wanted]]]


def take_usual(
    context: RequestContext,
    frame: memoryview,
    body_start: int,
    *,
    clocks: Clocks,
    cold_reads: ColdReads,
    config: BrokerConfig,
    fetches: FetchHost,
    metadata: MetadataCache,
    replicas: ReplicaManager,
    storage: Storage,
    driver: Driver,
    throttle: LeaderThrottle,
) -> bool:
    """Take a request from its bytes; whether it was a usual one, and is answered some time."""
    version = context.api_version
    if version < FLEXIBLE_FROM or not context.is_next:
        return False
    request = read_usual(frame, body_start, version)
    if request is None:
        return False
    parts = FetchParts(
        clocks, cold_reads, config, fetches, metadata, replicas, storage, driver, throttle
    )
    usual = _Usual(parts, context, request)
    found = usual.find()
    if found is None:
        return False
    if not any(bounds.upper_bound > wanted[2] for _, wanted, bounds in found):
        return usual.park(found)
    answer = usual.read(found)
    if answer is None:
        return False
    context.reply_without_errors(*answer)
    return True


def read_usual(frame: memoryview, at: int, version: int) -> UsualFetch | None:
    """The body of a request that begins at `at`; None if it is not usual."""
    end = len(frame)
    if version < REPLICA_STATE_FROM:
        if end - at < _REPLICA.size or _REPLICA.unpack_from(frame, at)[0] != CONSUMER:
            return None
        at += _REPLICA.size
    if end - at < _HEAD.size:
        return None
    max_wait_ms, min_bytes, max_bytes, isolation, *session, topics = _HEAD.unpack_from(frame, at)
    at += _HEAD.size
    if (
        min_bytes != 1
        or isolation != Isolation.READ_UNCOMMITTED
        or (session[0], session[1]) != _NO_SESSION
        or not 1 < topics <= PARTITIONS_MAX
    ):
        return None
    named = []
    left = PARTITIONS_MAX
    for _ in range(topics - 1):
        if at >= end:
            return None
        size = _UUID_BYTES
        if version < TOPIC_IDS_FROM:
            size, at = frame[at] - 1, at + 1
        count_at = at + size
        if not 0 < size < LENGTH_MAX or count_at >= end:
            return None
        count = frame[count_at] - 1
        topic = bytes(frame[at:count_at])
        at = count_at + 1
        if not 0 < count <= left or end - at < count * _PARTITION.size + 1:
            return None
        left -= count
        wanted = []
        for _ in range(count):
            *one, tags = _PARTITION.unpack_from(frame, at)
            if tags:
                return None
            wanted.append(tuple(one))
            at += _PARTITION.size
        if frame[at]:
            return None
        at += 1
        named.append((topic, wanted))
    if frame[at:] != _END:
        return None
    return UsualFetch(max_wait_ms, max_bytes, named)


_Found = list[tuple[HostedPartition, Wanted, FetchBounds]]


class _Usual:
    """A usual request until its answer, for which it may wait."""

    __slots__ = ("_context", "_parked", "_parts", "_request", "_terms", "_wanted")

    def __init__(self, parts: FetchParts, context: RequestContext, request: UsualFetch) -> None:
        self._parts = parts
        self._context = context
        self._request = request
        self._terms: FetchTerms
        self._wanted: list[FetchWanted[SessionKey]]
        self._parked: PendingFetch[str] | None = None

    def find(self) -> _Found | None:
        """What the partitions say; None if one of them has something else to say."""
        return _find_all(self._request.topics, self._parts.replicas, self._context.api_version)

    def read(self, found: _Found, *, needs_records: bool = True) -> list[Buffer] | None:
        """The answer; None if it would have no records, or they cannot be read at once."""
        parts, context, request = self._parts, self._context, self._request
        limit_bytes = parts.config.get("fetch.max.bytes")
        max_bytes = min(request.max_bytes, limit_bytes, context.available_bytes)
        try:
            with parts.storage.descriptors.without_waiting(), parts.cold_reads.reading(0):
                records = _read(found, max_bytes)
        except (NotCachedError, *LOG_ERRORS):
            return None
        if needs_records and not any(records):
            return None
        for (hosted, _, _), data in zip(found, records, strict=True):
            hosted.traffic.fetched(len(data), 0, is_follower=False)
        return _answer(context, request, found, records)

    def park(self, found: _Found) -> bool:
        """Wait for the partitions, none of which has records; False if it does not want to."""
        parts, context, request = self._parts, self._context, self._request
        max_bytes = min(request.max_bytes, parts.config.get("fetch.max.bytes"))
        if request.max_wait_ms <= 0 or max_bytes < 1:
            return False
        by_id = context.api_version >= TOPIC_IDS_FROM
        self._terms = FetchTerms(1, max_bytes, parts.clocks.now_ms() + request.max_wait_ms)
        self._wanted = [
            FetchWanted(
                (hosted.topic_id if by_id else hosted.topic, index),
                offset,
                partition_max_bytes,
                leader_epoch,
                last_epoch,
                log_start,
            )
            for hosted, (
                index,
                leader_epoch,
                offset,
                last_epoch,
                log_start,
                partition_max_bytes,
            ), _ in found
        ]
        context.add_buffered(PARTITION_BYTES * len(found))
        keys = [hosted.key for hosted, _, _ in found]
        self._parked = parts.fetches.park(
            self._complete,
            dict(zip(keys, self._wanted, strict=True)),
            self._terms,
            [(key, 0) for key in keys],
        )
        context.on_disconnect(self._abandon)
        return True

    def _complete(self) -> None:
        """The wait is over."""
        self._parked = None
        if not self._context.answered:
            self._context.reply_when_next(self._respond_at_once, self._respond)

    def _respond_at_once(self) -> Message | Pieces | list[Buffer]:
        """The answer, or how it is made if that is unusual by now."""
        found = self.find()
        answer = None if found is None else self.read(found, needs_records=False)
        return self._unusual().make_at_once(None) if answer is None else answer

    def _respond(self) -> Pieces:
        """The answer, when it is its turn."""
        return (yield from self._unusual().make(None))

    def _unusual(self) -> FetchAnswer:
        session = without_session(self._wanted)
        return FetchAnswer(self._parts, self._context, session, self._terms)

    def _abandon(self) -> None:
        parked, self._parked = self._parked, None
        if parked is not None:
            self._parts.fetches.cancel(parked)


def _find_all(
    topics: list[tuple[bytes, list[Wanted]]], replicas: ReplicaManager, version: int
) -> _Found | None:
    """What each partition says, in their order; None if one of them has something else to say."""
    found: _Found = []
    for name, partitions in topics:
        try:
            topic = Uuid(name) if version >= TOPIC_IDS_FROM else name.decode()
        except UnicodeDecodeError:
            return None
        for wanted in partitions:
            index, leader_epoch, offset, last_epoch, _, _ = wanted
            hosted = (
                replicas.by_id(topic, index)
                if isinstance(topic, Uuid)
                else replicas.get(topic, index)
            )
            if isinstance(hosted, ErrorCode):
                return None
            bounds = hosted.machine.check_fetch(
                fetch_offset=offset,
                current_leader_epoch=leader_epoch,
                last_fetched_epoch=last_epoch,
                replica_id=CONSUMER,
                broker_epoch=ANY_BROKER_EPOCH,
                isolation=Isolation.READ_UNCOMMITTED,
                leader_only=False,
            )
            if isinstance(bounds, ErrorCode) or bounds.diverging is not None:
                return None
            found.append((hosted, wanted, bounds))
    if len(found) > 1 and len({id(hosted) for hosted, _, _ in found}) < len(found):
        return None
    return found


def _read(found: _Found, max_bytes: int) -> list[Buffer]:
    """The records of each, as many as `ReadBudget` has them have. NotCachedError, LOG_ERRORS."""
    records: list[Buffer] = []
    left_bytes, has_data = max_bytes, False
    for hosted, wanted, bounds in found:
        offset, limit_bytes = wanted[2], min(wanted[5], left_bytes)
        if bounds.upper_bound <= offset or (limit_bytes <= 0 and has_data):
            records.append(b"")
            continue
        buffers, size_bytes, _ = hosted.log.read(
            offset, max(limit_bytes, 0), bounds.upper_bound, not has_data
        )
        records.append(buffers[0] if len(buffers) == 1 else b"".join(buffers))
        left_bytes -= size_bytes
        has_data = has_data or size_bytes > 0
    return records


def _answer(
    context: RequestContext, request: UsualFetch, found: _Found, records: list[Buffer]
) -> list[Buffer]:
    """The response frame in parts; records are not copied."""
    parts: list[Buffer] = []
    head = b""
    place = 0
    by_id = context.api_version >= TOPIC_IDS_FROM
    for name, partitions in request.topics:
        length = b"" if by_id else bytes((len(name) + 1,))
        head = b"".join((head, length, name, bytes((len(partitions) + 1,))))
        for _ in partitions:
            _, wanted, bounds = found[place]
            data = records[place]
            place += 1
            parts.append(
                head
                + _ANSWERED.pack(
                    wanted[0],
                    0,
                    bounds.high_watermark,
                    bounds.last_stable_offset,
                    bounds.log_start_offset,
                    0,
                    _NO_REPLICA,
                )
                + _uvarint(len(data) + 1)
            )
            if data:
                parts.append(data)
            head = _NO_TAGS
        head += _NO_TAGS
    parts.append(head + _NO_TAGS)
    size_bytes = _ANSWER_HEAD.size - _PREFIX_BYTES + sum(map(len, parts))
    topics = len(request.topics) + 1
    parts[0] = _ANSWER_HEAD.pack(size_bytes, context.correlation_id, 0, 0, 0, 0, topics) + parts[0]
    return parts


def _uvarint(value: int) -> bytes:
    encoded = bytearray()
    while value > LENGTH_MAX:
        encoded.append(value & LENGTH_MAX | LENGTH_MAX + 1)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
