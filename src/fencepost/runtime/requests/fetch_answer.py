"""What one Fetch request is answered with: its partitions looked at, read, and put together.

Begun when the connection is ready to send the answer (`reply_when_next`). Reads do not wait for a
disk here (`log.page_cache`): a partition whose records are not in the page cache is left out of an
answer that has something to tell of others, while a thread brings the records in
(`CachedReads`); the client's next request finds them. If there is nothing to tell
yet, the answer waits for the first of those partitions, and the event loop goes on. So a slow disk
slows the partitions on it, also within one request. Nothing that was read is kept while an answer
waits for the disk.

Records are read in pieces of `QUANTUM_BYTES`, or less if all connections have moved much in this
turn (`FetchRequestContext.at_once_bytes`), and other work comes in between. What was read counts in
the memory budget from then on, and where that has nothing left the answer ends.

What a partition was found to be when the request arrived is used again unless it has moved since.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Final, NamedTuple

from fencepost.batch.header import measure
from fencepost.log.error_codes import LOG_ERRORS
from fencepost.log.page_cache import NotCachedError
from fencepost.log.reading import ReadResult
from fencepost.machines.fetch import (
    Asker,
    FetchContext,
    FetchOutcome,
    FetchTerms,
    FetchWanted,
    Look,
    ReadBudget,
    look_at,
)
from fencepost.machines.partition import Isolation
from fencepost.runtime.cooperative import first_done
from fencepost.runtime.delayed_fetches import SessionKey
from fencepost.runtime.log_errors import answer_log_error
from fencepost.runtime.replicas import HostedPartition
from fencepost.runtime.requests.context import AVAILABLE_BYTES_MIN, QUANTUM_BYTES
from fencepost.runtime.requests.fetch_parts import (
    TOPIC_IDS_FROM,
    FetchParts,
    FetchRequestContext,
)
from fencepost.runtime.requests.leader_hints import LeaderHints
from fencepost.wire.api.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Uuid

PartitionLook = Look[HostedPartition, SessionKey]

PARTITION_BYTES: Final = 512
"""What a fetch takes for each of its partitions until it is answered."""
ANSWER_BYTES: Final = 22
"""What an answer takes besides its partitions."""
TOLD_BYTES: Final = 57
"""What an answer takes for a partition that has records, besides them."""
PARTITIONS_PER_PIECE: Final = 20
_LAST_OF_PIECE: Final = PARTITIONS_PER_PIECE - 1
STORAGE_ERROR_FROM: Final = 6
LEADER_FROM: Final = 12
ENDPOINTS_FROM: Final = 16

_TOLD_LEADER: Final = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)

_WITHOUT_REPLICA: Final = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
)


@dataclass(slots=True)
class _Cold:
    """A partition of the answer that is read from the disk, and how often that was begun."""

    future: Future[None]
    tries: int


class _Part(NamedTuple):
    """A partition of which there may be more to read, and what was read of it so far."""

    position: int
    look: PartitionLook
    data: PartitionData
    size_bytes: int
    following: tuple[int, int]
    """The next batch's base offset and size."""


class FetchAnswer:
    """The answer to one request, while it is made."""

    __slots__ = (
        "_answered",
        "_asker",
        "_budget",
        "_cold",
        "_context",
        "_find",
        "_held_bytes",
        "_looks",
        "_more",
        "_outcomes",
        "_parts",
        "_piece_bytes",
        "_read_bytes",
        "_session",
        "_tells",
        "_terms",
        "_unread",
    )

    def __init__(
        self,
        parts: FetchParts,
        context: FetchRequestContext,
        session: FetchContext[SessionKey],
        terms: FetchTerms,
        unread: dict[SessionKey, NotCachedError] | None = None,
    ) -> None:
        """`unread`: what was tried to be read just now, and would have waited for the disk."""
        self._parts = parts
        self._context = context
        self._session = session
        self._terms = terms
        self._asker = None if session.session is None else Asker.of(terms)
        self._find = parts.finder(context, is_replica=terms.is_replica)
        self._budget = ReadBudget(min(terms.max_bytes, context.available_bytes))
        self._piece_bytes = context.at_once_bytes
        """What may be read before others come first."""
        self._more: _Part | None = None
        """The partition that was read last, if that was not all there is."""
        self._read_bytes = self._held_bytes = 0
        self._looks: list[PartitionLook] = []
        self._answered: list[PartitionData] = []
        self._outcomes: list[tuple[SessionKey, FetchOutcome]] = []
        self._cold: dict[int, _Cold] = {}
        self._unread = unread or {}
        self._tells = False
        """Whether there is something in it that the client should not wait for."""

    def make(
        self, looks: Sequence[PartitionLook] | None
    ) -> Generator[Future[None] | None, None, FetchResponse]:
        """Read, and compose the response. `looks` were taken just now, of all partitions."""
        partitions = self._session.partitions if looks is None else [one.wanted for one in looks]
        others_ran = False
        try:
            for position, wanted in enumerate(partitions):
                if self._piece_bytes <= 0 or position % PARTITIONS_PER_PIECE == _LAST_OF_PIECE:
                    others_ran = True
                    yield from self._let_others()
                if looks is None or (others_ran and looks[position].is_stale):
                    look = self._look(wanted)
                else:
                    look = looks[position]
                self._looks.append(look)
                self._take(position, look)
                if self._more is not None:
                    others_ran = True
                    yield from self._read_on(self._more)
            return (yield from self._when_read())
        finally:
            self._context.add_outgoing(-self._held_bytes)

    def make_at_once(
        self, looks: Sequence[PartitionLook] | None
    ) -> FetchResponse | Generator[Future[None] | None, None, FetchResponse]:
        """The same in one go; or in pieces after all, if there is much, or it has to wait."""
        pieces = self.make(looks)
        if len(self._session.partitions if looks is None else looks) >= PARTITIONS_PER_PIECE:
            return pieces
        try:
            first = next(pieces)
        except StopIteration as done:
            response: FetchResponse = done.value
            return response
        return _begun(first, pieces)

    def _let_others(self) -> Generator[None, None, None]:
        """Others come first; meanwhile what was read counts as memory that is taken."""
        more_bytes = self._read_bytes - self._held_bytes
        self._held_bytes += more_bytes
        self._context.add_outgoing(more_bytes)
        yield None
        self._piece_bytes = QUANTUM_BYTES

    def _when_read(self) -> Generator[Future[None] | None, None, FetchResponse]:
        """The response, as soon as it has something to tell."""
        while self._cold and not self._tells:
            yield first_done([cold.future for cold in self._cold.values()])
            yield from self._try_cold_again()
        if len(self._looks) >= PARTITIONS_PER_PIECE:
            yield None
        response = self._finish()
        if len(self._looks) >= PARTITIONS_PER_PIECE:
            yield None
        return response

    def _finish(self) -> FetchResponse:
        is_throttled = not self._terms.is_replica and self._context.is_throttled_for(
            answer_bytes(outcome.records_size_bytes for _, outcome in self._outcomes)
        )
        for look, (_, outcome) in zip(self._looks, self._outcomes, strict=True):
            size_bytes = 0 if is_throttled else outcome.records_size_bytes
            self._count(look, size_bytes, outcome.error_code)
        if is_throttled:
            keys = [look.wanted.key for look in self._looks]
            return throttled_answer(self._parts, self._session, keys)
        finished = self._session.finish(self._outcomes, self._parts.clocks.now_ms())
        response = FetchResponse(
            error_code=int(finished.error_code), session_id=finished.session_id
        )
        self._group(response, finished.included)
        return response

    def _look(self, wanted: FetchWanted[SessionKey]) -> PartitionLook:
        return look_at(self._find(*wanted.key), wanted, self._terms)

    def _take(self, position: int, look: PartitionLook) -> None:
        """Read a partition, the next one or one that was cold before."""
        before = self._cold.pop(position, None)
        tries = 0 if before is None else before.tries
        try:
            if before is not None:
                before.future.result()  # how it has failed, if it has
            elif look.wanted.key in self._unread:
                raise self._unread.pop(look.wanted.key)
            part, size_bytes = self._read_partition(look, tries)
        except NotCachedError as cold:
            ahead_bytes = self._budget.limit_for(look) or 0
            future = self._parts.cached_reads.begin(cold, ahead_bytes)
            self._cold[position] = _Cold(future, tries + 1)
            part, size_bytes = self._describe(look), 0
        except LOG_ERRORS as error:
            assert look.partition is not None, "only what is here is read"
            code = answer_log_error(self._parts.replicas, look.partition, "reading", error)
            part, size_bytes = self._refused(look.wanted.key[1], code), 0
        finally:
            del before  # its future may have kept the error, and that this frame
        if self._more is None:
            self._have_taken(position, look, part, size_bytes)
        else:
            self._more = self._more._replace(position=position)

    def _have_taken(
        self, position: int, look: PartitionLook, part: PartitionData, size_bytes: int
    ) -> None:
        """This is what there will be of a partition; or what there is of a cold one for now."""
        outcome = FetchOutcome(
            size_bytes,
            part.high_watermark,
            part.log_start_offset,
            part.error_code,
            part.diverging_epoch.end_offset >= 0,
            part.preferred_read_replica >= 0,
        )
        if position == len(self._answered):
            self._answered.append(part)
            self._outcomes.append((look.wanted.key, outcome))
        else:
            self._answered[position] = part
            self._outcomes[position] = (look.wanted.key, outcome)
        if position in self._cold:
            return
        self._tells = self._tells or size_bytes > 0 or look.is_urgent or part.error_code != 0
        if look.is_at_end and not part.error_code:
            self._settle(look)

    def _try_cold_again(self) -> Generator[None, None, None]:
        """Read what may be in the page cache by now; the partitions may have moved meanwhile."""
        for position in list(self._cold):
            if self._cold[position].future.done():
                look = self._looks[position] = self._look(self._looks[position].wanted)
                self._take(position, look)
                if self._more is not None:
                    yield from self._read_on(self._more)

    def _count(self, look: PartitionLook, size_bytes: int, error_code: int) -> None:
        if look.partition is not None:
            look.partition.traffic.fetched(size_bytes, error_code, self._terms.is_replica)

    def _settle(self, look: PartitionLook) -> None:
        """Who asks has all of the partition: its session need not look until that moves."""
        session, asker, hosted = self._session.session, self._asker, look.partition
        if session is not None and asker is not None and hosted is not None:
            self._parts.fetches.settle(session, hosted, look.wanted.key, asker)

    def _describe(self, look: PartitionLook) -> PartitionData:
        """What there is to say of a partition, without records."""
        index, bounds = look.wanted.key[1], look.bounds
        if bounds is None:
            return self._refused(index, look.error)
        part = PartitionData(
            partition_index=index,
            high_watermark=bounds.high_watermark,
            last_stable_offset=bounds.last_stable_offset,
            log_start_offset=bounds.log_start_offset,
            aborted_transactions=[] if self._reads_committed and not bounds.diverging else None,
            preferred_read_replica=bounds.preferred_replica,
            records=(),
        )
        if bounds.diverging is not None:
            part.diverging_epoch = EpochEndOffset(
                epoch=bounds.diverging.epoch, end_offset=bounds.diverging.end_offset
            )
        return part

    def _read_partition(self, look: PartitionLook, tries: int) -> tuple[PartitionData, int]:
        """One partition's part of the response, and how many bytes of records it has.

        NotCachedError, LOG_ERRORS.
        """
        part = self._describe(look)
        limit_bytes = self._budget.limit_for(look)
        if limit_bytes is None:
            return part, 0
        piece_bytes = min(limit_bytes, max(self._piece_bytes, 0))
        is_whole = piece_bytes == limit_bytes
        offset = look.wanted.fetch_offset
        any_batch = self._budget.takes_any_batch and is_whole
        with self._parts.cached_reads.reading(tries):
            data = self._read(look, part, offset, piece_bytes, any_batch)
            following = None if is_whole else data.find_following()
        part.records = data.buffers
        if following is not None:
            self._more = _Part(0, look, part, data.size_bytes, following)
        return part, data.size_bytes

    def _read(
        self,
        look: PartitionLook,
        part: PartitionData,
        offset: int,
        most_bytes: int,
        any_batch: bool,
    ) -> ReadResult:
        """Read a piece; what was aborted in it is added to `part`. NotCachedError, LOG_ERRORS."""
        hosted, bounds = look.partition, look.bounds
        assert hosted is not None and bounds is not None, "only what is here is read"
        with self._parts.cached_reads.without_waiting():
            data = hosted.log.read(offset, most_bytes, bounds.upper_bound, any_batch)
            if self._reads_committed and data.buffers:
                part.aborted_transactions = _aborted(hosted, look.wanted.fetch_offset, data)
        self._piece_bytes -= data.size_bytes
        self._read_bytes += data.size_bytes
        self._context.have_read(data.size_bytes)
        self._budget.spend(data.size_bytes)
        if self._terms.is_replica:
            self._parts.policy.sent_to_follower(hosted, data.size_bytes)
        return data

    def _read_on(self, more: _Part) -> Generator[None, None, None]:
        """Read what else there is of a partition, up to the answer's limits."""
        self._more = None
        position, look, part, size_bytes, _ = more
        following: tuple[int, int] | None = more.following
        buffers = list(part.records or ())
        while following is not None:
            yield from self._let_others()
            offset, batch_bytes = following
            limit_bytes = min(self._budget.left_bytes, look.wanted.partition_max_bytes - size_bytes)
            any_batch = self._budget.takes_any_batch
            if (
                not look.may_read_on
                or (batch_bytes > limit_bytes and not any_batch)
                or (size_bytes and self._context.available_bytes <= AVAILABLE_BYTES_MIN)
            ):
                break
            piece_bytes = min(limit_bytes, max(QUANTUM_BYTES, batch_bytes))
            try:
                with self._parts.cached_reads.reading(0):
                    data = self._read(look, part, offset, piece_bytes, any_batch)
                    following = data.find_following()
            except NotCachedError as cold:  # the next request finds it
                self._parts.cached_reads.begin(cold, limit_bytes)
                break
            except LOG_ERRORS:  # the next request is told
                break
            buffers += data.buffers
            size_bytes += data.size_bytes
        part.records = buffers
        self._have_taken(position, look, part, size_bytes)

    @property
    def _reads_committed(self) -> bool:
        return self._terms.isolation == Isolation.READ_COMMITTED

    def _refused(self, index: int, error: ErrorCode) -> PartitionData:
        if (
            error is ErrorCode.KAFKA_STORAGE_ERROR
            and self._context.api_version < STORAGE_ERROR_FROM
        ):
            error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        return refused_partition(index, error)

    def _group(
        self,
        response: FetchResponse,
        included: Sequence[int],
    ) -> None:
        """Put the chosen parts into the response, neighbours of one topic together."""
        by_id = self._context.api_version >= TOPIC_IDS_FROM
        hints: LeaderHints | None = None
        topics = response.responses
        last: object = None
        for position in included:
            topic, index = self._looks[position].wanted.key
            part = self._answered[position]
            if not topics or topic != last:
                last = topic
                topics.append(_topic(topic, by_id))
            topics[-1].partitions.append(part)
            if part.error_code in _TOLD_LEADER and self._context.api_version >= LEADER_FROM:
                if hints is None:
                    hints = LeaderHints(self._parts.metadata.image, self._context.listener_name)
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


def answer_bytes(records_bytes: Iterable[int]) -> int:
    """About how large an answer is, with so many bytes of records of each partition."""
    return ANSWER_BYTES + sum(size + TOLD_BYTES for size in records_bytes if size)


def throttled_answer(
    parts: FetchParts, session: FetchContext[SessionKey], keys: Sequence[SessionKey]
) -> FetchResponse:
    """The answer to a consumer that has to wait: no partition, and the session as it was before
    those with `keys` were looked at."""
    if session.session is not None:
        parts.fetches.untold(session.session, keys)
    finished = session.finish_throttled()
    return FetchResponse(error_code=int(finished.error_code), session_id=finished.session_id)


def refused_partition(index: int, error: ErrorCode) -> PartitionData:
    """A partition without records. Where no replica was looked at, because the partition is not
    known or not the client's to read, Kafka lists no aborted transactions; otherwise it has no
    list."""
    return PartitionData(
        partition_index=index,
        error_code=int(error),
        high_watermark=-1,
        last_stable_offset=-1,
        log_start_offset=-1,
        aborted_transactions=[] if error in _WITHOUT_REPLICA else None,
        records=(),
    )


def _begun(
    first: Future[None] | None, pieces: Generator[Future[None] | None, None, FetchResponse]
) -> Generator[Future[None] | None, None, FetchResponse]:
    """Pieces of which the first has been done."""
    yield first
    return (yield from pieces)


def _aborted(hosted: HostedPartition, offset: int, data: ReadResult) -> list[AbortedTransaction]:
    """The aborted transactions among what was read, in the order of their markers. LOG_ERRORS."""
    if not hosted.log.has_aborted_transactions(offset):
        return []
    end_offset = max((measure(part).next_offset or 0 for part in data.buffers), default=0)
    return [
        AbortedTransaction(producer_id=one.producer_id, first_offset=one.first_offset)
        for one in hosted.log.aborted_transactions(offset, end_offset)
    ]


def _topic(topic: object, by_id: bool) -> FetchableTopicResponse:
    if by_id:
        assert isinstance(topic, Uuid)
        return FetchableTopicResponse(topic_id=topic)
    assert isinstance(topic, str)
    return FetchableTopicResponse(topic=topic)
