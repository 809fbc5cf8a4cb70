"""Dead letters: what becomes of records that share consumers could not process (KIP-1191).

Theory of operation
-------------------
A share group may name a topic in `errors.deadletterqueue.topic.name`. The leader of a share
partition writes a letter there for each record that it gives up, after that is stored as ARCHIVING
and before it is stored as ARCHIVED: after a crash the next leader writes the letters again, so each
is written at least once. Letters of a partition go to the partition of the same number, modulo the
number that the topic has.

The topic is looked at each time: its name must not begin with `__`; if it exists, its config
`errors.deadletterqueue.group.enable` must be true; if not, it is created where the cluster allows
that and its name begins as the cluster wants. If one of these does not hold, or a write or a
creation fails for good, that is logged and the records are archived without letters.

A letter has the key and the value of its record if the group wants copies and the record can be
read, else none; where a copy alone would be larger than the topic takes, too. Its headers, as text,
say what it is about.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator
from concurrent.futures import Future
from typing import Any, Final, NamedTuple, Protocol

from fencepost.batch.errors import BatchError
from fencepost.batch.header import iter_headers
from fencepost.batch.record import Record
from fencepost.batch.records import BatchBuilder, read_batch, record_bytes_max
from fencepost.log.error_codes import LOG_ERRORS
from fencepost.log.readable_log import ReadableLog
from fencepost.machines.backoff import backoff_ms
from fencepost.machines.group.settings import ShareSettings
from fencepost.machines.image import ClusterImage, TopicImage
from fencepost.machines.share.inputs import LetterRange
from fencepost.machines.share.records import DeadLetterCause
from fencepost.machines.share.state_batch import SharePartitionKey
from fencepost.runtime.clock import Clocks
from fencepost.runtime.cooperative import Lane
from fencepost.runtime.ports import TimerQueue
from fencepost.runtime.replicas import HostedPartition
from fencepost.runtime.requests.parts import LogReads
from fencepost.wire.errors import ErrorCode

log = logging.getLogger(__name__)

FEATURE_LEVEL: Final = 2
"""Of `share.version`, from which dead letters are written."""
ATTEMPTS_MAX: Final = 5
FIRST_PAUSE_MS: Final = 1_000
PAUSE_MAX_MS: Final = 30_000
METADATA_PAUSE_MS: Final = 200
METADATA_LOOKS_MAX: Final = 50
"""How often a topic that was created is looked for in the metadata, before that is a failure."""
LETTERS_PER_BATCH: Final = 200
BATCH_BYTES_MAX: Final = 256 * 1024
"""Of one batch of letters, if the topic takes as much."""
BATCH_HEADER_BYTES: Final = 61

RETRIED: Final = frozenset(
    (
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.LEADER_NOT_AVAILABLE,
    )
)
RETRIED_CREATIONS: Final = frozenset(
    (ErrorCode.TOPIC_ALREADY_EXISTS, ErrorCode.THROTTLING_QUOTA_EXCEEDED)
)

CAUSES: Final = {
    DeadLetterCause.REJECTED: "Offset rejected by client.",
    DeadLetterCause.DELIVERY_COUNT: "Offset delivery count exceeded the threshold.",
}
"""Kafka's texts."""

OnEnded = Callable[[ErrorCode], None]
Work = Generator[Future[Any] | None, None, None]


class LetterBox(Protocol):
    """How the node creates topics for letters, and writes to partitions, here or elsewhere."""

    @property
    def may_create(self) -> bool:
        """`errors.deadletterqueue.auto.create.topics.enable`."""
        ...

    @property
    def prefix(self) -> str:
        """`errors.deadletterqueue.topic.name.prefix`."""
        ...

    def takes_letters(self, topic: str) -> bool:
        """The topic's `errors.deadletterqueue.group.enable`."""
        ...

    def max_batch_bytes(self, topic: str) -> int:
        """The topic's `max.message.bytes`."""
        ...

    def create(self, topic: str, done: OnEnded) -> None:
        """Create the topic, for letters."""
        ...

    def write(self, topic: TopicImage, partition: int, batch: bytearray, done: OnEnded) -> None:
        """Append the batch on all in-sync replicas of the partition."""
        ...


class DeadLetters:
    """See the module docstring; a `share_partitions.DeadLetterQueue`."""

    def __init__(
        self,
        timers: TimerQueue,
        clocks: Clocks,
        lane: Lane,
        reads: LogReads,
        image: Callable[[], ClusterImage],
        box: LetterBox,
    ) -> None:
        self.timers = timers
        self.clocks = clocks
        self.lane = lane
        self.reads = reads
        self.image = image
        self.box = box

    def is_active(self, settings: ShareSettings) -> bool:
        """Whether the group has a dead letter topic, and the cluster the feature."""
        has_feature = self.image().features.get("share.version", 0) >= FEATURE_LEVEL
        return has_feature and bool(settings.dead_letter_topic)

    def send(
        self,
        key: SharePartitionKey,
        hosted: HostedPartition,
        letters: LetterRange,
        settings: ShareSettings,
        done: Callable[[], None],
    ) -> None:
        """Write letters for the records; `done` is called when they are, or cannot be."""
        _Sending(self, key, hosted, letters, settings, done).look_at_topic()

    def refusal(self, name: str) -> str | None:
        """Why no letters may be written to the topic; None if they may."""
        if not name or name.startswith("__"):
            return "the name is empty or of an internal topic"
        if name in self.image().topics_by_name:
            if self.box.takes_letters(name):
                return None
            return "its config errors.deadletterqueue.group.enable is not true"
        if not self.box.may_create:
            return "it does not exist"
        if not name.startswith(self.box.prefix):
            return f"it does not exist, and its name does not begin with {self.box.prefix}"
        return None


class _Sending:
    """Letters for one range, until they are written or given up."""

    def __init__(
        self,
        node: DeadLetters,
        key: SharePartitionKey,
        hosted: HostedPartition,
        letters: LetterRange,
        settings: ShareSettings,
        done: Callable[[], None],
    ) -> None:
        self._node = node
        self._group_id = key.group_id
        self._hosted = hosted
        self._letters = letters
        self._settings = settings
        self._done = done
        self._next = letters.first
        """The first offset whose letter is not written."""
        self._attempts = self._looks = 0

    @property
    def _topic(self) -> str:
        return self._settings.dead_letter_topic

    def look_at_topic(self) -> None:
        """Check the topic, create it, or write to it."""
        reason = self._node.refusal(self._topic)
        topic = self._node.image().topics_by_name.get(self._topic)
        if reason is not None:
            self._give_up(reason)
        elif topic is None:
            self._node.box.create(self._topic, self._created)
        else:
            self._node.lane.begin(self._write(topic))

    def _created(self, error: ErrorCode) -> None:
        if error is ErrorCode.NONE:
            self._look_again()
        elif error in RETRIED_CREATIONS:
            self._try_again(error)
        else:
            self._give_up(f"it cannot be created: {error.name}")

    def _look_again(self) -> None:
        """The topic was created, and comes with the next metadata."""
        if self._topic in self._node.image().topics_by_name:
            self.look_at_topic()
        elif self._looks < METADATA_LOOKS_MAX:
            self._looks += 1
            self._node.timers.after(METADATA_PAUSE_MS, self._look_again)
        else:
            self._give_up("it was created, and does not appear")

    def _write(self, topic: TopicImage) -> Work:
        """The next letters, as many as go into one batch."""
        sources = yield from self._read_sources()
        most = self._node.box.max_batch_bytes(self._topic)
        builder = BatchBuilder()
        end = min(self._next + LETTERS_PER_BATCH, self._letters.last + 1)
        offset = self._next
        while offset < end:
            key, value = sources.get(offset, (None, None))
            headers = self._headers(offset)
            size = record_bytes_max(key, value, headers)
            if BATCH_HEADER_BYTES + size > most:
                key = value = None
                size = record_bytes_max(key, value, headers)
            if builder.count and builder.size_bytes + size > min(most, BATCH_BYTES_MAX):
                break
            builder.append(key, value, headers, timestamp_ms=self._node.clocks.wall_ms())
            offset += 1
        partition = self._hosted.index % len(topic.partitions)
        end = offset
        self._node.box.write(
            topic, partition, builder.build(), lambda error: self._written(error, end)
        )

    def _written(self, error: ErrorCode, end: int) -> None:
        if error is ErrorCode.NONE:
            self._attempts = 0
            self._next = end
            if end > self._letters.last:
                self._done()
            else:
                self.look_at_topic()
        elif error in RETRIED:
            self._try_again(error)
        else:
            self._give_up(error.name)

    def _try_again(self, error: ErrorCode) -> None:
        self._attempts += 1
        if self._attempts >= ATTEMPTS_MAX:
            self._give_up(f"{error.name}, {self._attempts} times")
            return
        pause_ms = int(backoff_ms(self._attempts - 1, FIRST_PAUSE_MS, PAUSE_MAX_MS, 0.5))
        self._node.timers.after(pause_ms, self.look_at_topic)

    def _give_up(self, reason: str) -> None:
        log.warning(
            "no dead letters of group %s for offsets %d to %d of %s in topic %s: %s",
            self._group_id,
            self._next,
            self._letters.last,
            self._hosted.key,
            self._topic,
            reason,
        )
        self._done()

    def _headers(self, offset: int) -> list[tuple[str, bytes]]:
        values = {
            "topic": self._hosted.topic,
            "partition": self._hosted.index,
            "offset": offset,
            "group": self._group_id,
            "delivery.count": self._letters.delivery_count,
            "message": CAUSES[self._letters.cause],
        }
        return [(f"__dlq.errors.{name}", str(value).encode()) for name, value in values.items()]

    # -- copies ----------------------------------------------------------------------------

    def _read_sources(
        self,
    ) -> Generator[Future[Any] | None, None, dict[int, tuple[bytes | None, bytes | None]]]:
        """Keys and values of the records that the next letters are about, as far as they can be
        read, by offset."""
        found: dict[int, tuple[bytes | None, bytes | None]] = {}
        if not self._settings.dead_letter_copy_record_enable:
            return found
        offset, end = self._next, min(self._next + LETTERS_PER_BATCH, self._letters.last + 1)
        reads = self._node.reads
        size_bytes = 0
        try:
            while offset < end and size_bytes < BATCH_BYTES_MAX:
                read = _Batch(self._hosted.log, offset)
                batch = yield from reads.read(read)
                if batch is None:
                    break
                records = yield from reads.decompress(batch.records)
                for one in records:
                    if offset <= one.offset < end:
                        found[one.offset] = one.key, one.value
                        size_bytes += len(one.key or b"") + len(one.value or b"")
                offset = max(batch.next_offset, offset + 1)
        except (*LOG_ERRORS, BatchError) as error:
            log.warning("letters without a copy: reading %s: %s", self._hosted.key, error)
        return found


class _FoundBatch(NamedTuple):
    """One batch of the source."""

    data: bytes
    next_offset: int

    def records(self, max_bytes: int) -> list[Record]:
        """Its records. DecompressionError for more than `max_bytes` of them, BatchError."""
        for position, header in iter_headers(self.data):
            if not header.is_control:
                return read_batch(self.data, position, header, max_decompressed_bytes=max_bytes)
        return []


class _Batch:
    """Reads the batch at an offset, however often it is called."""

    def __init__(self, source: ReadableLog, offset: int) -> None:
        self._source = source
        self._offset = offset

    def __call__(self) -> _FoundBatch | None:
        """The batch; None where there is none. NotCachedError, LOG_ERRORS."""
        found = self._source.read(self._offset, 0, self._source.end_offset, True)
        data = b"".join(found.buffers)
        for position, header in iter_headers(data):
            return _FoundBatch(data[position : position + header.size_bytes], header.next_offset)
        return None
