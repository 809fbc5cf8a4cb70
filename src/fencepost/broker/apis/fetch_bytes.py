"""The bytes of the plain Fetch and of its answer: known but for the numbers in them.

What consumers ask as a rule fits in few bytes, and its answer has few besides the records. So the
compiled `wire._fetch` reads it where the bytes were received, and writes a small answer in one
piece. Where it was not built both are a handful of `struct` calls here, as are large answers, whose
records are not copied. Lengths and counts are varints, one more than what they stand for; in a
plain request they are of one byte. `.` stands for no tags. What comes after the header:

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
| forgotten topics: name or id, partitions' indexes `.`      | `.`                               |
| no rack `.`                                                |                                   |

That there are no aborted transactions is an empty list where committed records alone are read, and
no list elsewhere.
"""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter
from struct import Struct, unpack_from
from typing import Final, NamedTuple

from fencepost.broker.net.output import SMALL_OUTPUT_BYTES
from fencepost.broker.net.pending_request import Buffer
from fencepost.machines.fetch import FetchWanted
from fencepost.machines.fetch.answering import CONSUMER
from fencepost.machines.partition import FetchBounds, Isolation
from fencepost.runtime.delayed_fetches import SessionKey
from fencepost.runtime.requests.fetch_parts import TOPIC_IDS_FROM
from fencepost.wire import backend
from fencepost.wire.runtime import uvarint
from fencepost.wire.types import Uuid

FLEXIBLE_FROM: Final = 12
REPLICA_STATE_FROM: Final = 15
PARTITIONS_MAX: Final = 16
"""How many partitions are looked at in one go."""
LENGTH_MAX: Final = 0x7F
"""The largest varint of one byte."""

_REPLICA = Struct(">i")
_HEAD = Struct(">iiibiiB")
_PARTITION = Struct(">iiqiqiB")
_INDEX_BYTES: Final = 4
_END: Final = b"\x01\x00"
_UUID_BYTES: Final = 16
_NO_TOPIC: Final = ("", 0, 0)
_ISOLATIONS: Final = (Isolation.READ_UNCOMMITTED, Isolation.READ_COMMITTED)

_ANSWER_HEAD = Struct(">iiBihi")
_ANSWERED = Struct(">ihqqqBi")
_NO_TAGS: Final = b"\x00"
_TOPIC_ENDS: Final = b"\x00\x00"
"""No tags of its last partition, nor of its own."""
_PREFIX_BYTES: Final = 4
_NO_REPLICA: Final = -1
_NO_LIST: Final = 0
_NONE_ABORTED: Final = 1
_TOPIC_OF = itemgetter(0)


class PlainFetch(NamedTuple):
    """What there is in a plain request: of a session, or without one if its id is 0."""

    max_wait_ms: int
    max_bytes: int
    isolation: int
    session_id: int
    session_epoch: int
    wanted: list[FetchWanted[SessionKey]]
    """Each partition once."""
    forgotten: list[SessionKey]
    """Of a session alone."""


def read_plain(frame: memoryview, at: int, version: int) -> PlainFetch | None:
    """The body of a request that begins at `at`; None if it is not plain."""
    kernel = backend.fetch_kernel
    if kernel is None:
        return _read_plain(frame, at, version)
    request: PlainFetch | None = kernel.read_plain(
        PlainFetch, FetchWanted, Uuid, frame, at, version
    )
    return request


def _read_plain(frame: memoryview, at: int, version: int) -> PlainFetch | None:
    end = len(frame)
    if version < REPLICA_STATE_FROM:
        if end - at < _REPLICA.size or _REPLICA.unpack_from(frame, at)[0] != CONSUMER:
            return None
        at += _REPLICA.size
    if end - at < _HEAD.size:
        return None
    max_wait_ms, min_bytes, max_bytes, isolation, session_id, epoch, topics = _HEAD.unpack_from(
        frame, at
    )
    is_in_session = session_id > 0 and epoch > 0
    if (
        min_bytes != 1
        or isolation not in _ISOLATIONS
        or not (is_in_session or (session_id, epoch) == (0, -1))
        or not (1 if is_in_session else 2) <= topics <= PARTITIONS_MAX
    ):
        return None
    wanted: list[FetchWanted[SessionKey]] = []
    at = _read_topics(frame, at + _HEAD.size, version, topics - 1, wanted)
    if not 0 <= at < end:
        return None
    topics = frame[at] - 1
    if not 0 <= topics <= (PARTITIONS_MAX if is_in_session else 0):
        return None
    forgotten: list[SessionKey] = []
    at = _read_forgotten(frame, at + 1, version, topics, forgotten)
    if at < 0 or frame[at:] != _END:
        return None
    if len(wanted) > 1 and len({one.key for one in wanted}) < len(wanted):
        return None
    return PlainFetch(max_wait_ms, max_bytes, isolation, session_id, epoch, wanted, forgotten)


def _read_topics(
    frame: memoryview, at: int, version: int, topics: int, wanted: list[FetchWanted[SessionKey]]
) -> int:
    """Append what so many topics name to `wanted`; where they end, or -1 if one is not plain."""
    for _ in range(topics):
        topic, count, at = _read_topic(frame, at, version, _PARTITION.size)
        if not 0 < count <= PARTITIONS_MAX - len(wanted):
            return -1
        for _ in range(count):
            index, leader_epoch, offset, last_epoch, log_start, max_bytes, tags = (
                _PARTITION.unpack_from(frame, at)
            )
            if tags:
                return -1
            key = topic, index
            wanted.append(FetchWanted(key, offset, max_bytes, leader_epoch, last_epoch, log_start))
            at += _PARTITION.size
        if frame[at]:
            return -1
        at += 1
    return at


def _read_forgotten(
    frame: memoryview, at: int, version: int, topics: int, forgotten: list[SessionKey]
) -> int:
    """The same of what is forgotten."""
    for _ in range(topics):
        topic, count, at = _read_topic(frame, at, version, _INDEX_BYTES)
        if not 0 < count <= PARTITIONS_MAX - len(forgotten):
            return -1
        forgotten += [(topic, index) for index in unpack_from(f">{count}i", frame, at)]
        at += count * _INDEX_BYTES
        if frame[at]:
            return -1
        at += 1
    return at


def _read_topic(
    frame: memoryview, at: int, version: int, partition_bytes: int
) -> tuple[str | Uuid, int, int]:
    """How a topic begins: (its name or id, how many partitions there are, where they begin). They
    and a byte more are in the frame; no partitions if they are not, or the name is not plain."""
    end, size = len(frame), _UUID_BYTES
    if version < TOPIC_IDS_FROM:
        size, at = (frame[at] - 1, at + 1) if at < end else (0, at)
    count_at = at + size
    if not 0 < size < LENGTH_MAX or count_at >= end:
        return _NO_TOPIC
    count = frame[count_at] - 1
    if end - count_at <= count * partition_bytes + 1:
        return _NO_TOPIC
    name = bytes(frame[at:count_at])
    try:
        topic = Uuid(name) if version >= TOPIC_IDS_FROM else name.decode()
    except UnicodeDecodeError:
        return _NO_TOPIC
    return topic, count, count_at + 1


Answered = tuple[object, int, FetchBounds, Buffer]
"""A partition of an answer: topic id or name, index, what is told of it, and its records. There is
no error."""


def answer_in_bytes(
    correlation_id: int, session_id: int, isolation: int, some: list[Answered]
) -> list[Buffer]:
    """The response frame in parts, of partitions in this order; neighbours of a topic together."""
    aborted = _NONE_ABORTED if isolation == Isolation.READ_COMMITTED else _NO_LIST
    kernel = backend.fetch_kernel
    if kernel is not None:
        whole = kernel.answer(correlation_id, session_id, aborted, some, SMALL_OUTPUT_BYTES)
        if whole is not None:
            return [whole]
    return _answer_in_bytes(correlation_id, session_id, aborted, some)


def _answer_in_bytes(
    correlation_id: int, session_id: int, aborted: int, some: list[Answered]
) -> list[Buffer]:
    bodies: list[Buffer] = [b""]  # the head's place
    ends = b""
    topics = 0
    for topic, group in groupby(some, _TOPIC_OF):
        neighbours = list(group)
        before = ends + _named(topic) + uvarint(len(neighbours) + 1)
        for _, index, bounds, records in neighbours:
            fixed = _ANSWERED.pack(
                index,
                0,
                bounds.high_watermark,
                bounds.last_stable_offset,
                bounds.log_start_offset,
                aborted,
                _NO_REPLICA,
            )
            bodies.append(before + fixed + uvarint(len(records) + 1))
            if records:
                bodies.append(records)
            before = _NO_TAGS
        ends = _TOPIC_ENDS
        topics += 1
    bodies.append(ends + _NO_TAGS)
    count = uvarint(topics + 1)
    size_bytes = _ANSWER_HEAD.size - _PREFIX_BYTES + len(count) + sum(map(len, bodies))
    bodies[0] = _ANSWER_HEAD.pack(size_bytes, correlation_id, 0, 0, 0, session_id) + count
    return bodies


def _named(topic: object) -> bytes:
    if isinstance(topic, Uuid):
        return topic
    assert isinstance(topic, str)
    name = topic.encode()
    return uvarint(len(name) + 1) + name
