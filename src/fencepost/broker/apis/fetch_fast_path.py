"""The usual Fetch of a consumer, from its bytes to its answer's (`fetch_bytes`).

Whatever is unusual in a request, or wrong with it or with its session, is left to `fetch`, which
begins again at the first byte: nothing has happened before it is known that the request is usual.
What is unusual about its partitions, now or after a wait, is answered by `fetch_answer`. The
answers are the same, byte for byte.

Usual is: v12 or later, nothing tagged, no rack, no replica, one byte wanted, no partition twice; no
session, or the next request of one; an answer that would leave now; at most `PARTITIONS_MAX`
partitions, of which those of a session that are quiet do not count, and no more forgotten. Of
partitions it is usual that they are here, that the offset may be read, that the records are in the
page cache, and, to who reads committed records alone, that no transaction was aborted from the
offset's segment on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from fencepost.broker.apis.fetch_answer import (
    PARTITION_BYTES,
    TOPIC_IDS_FROM,
    FetchAnswer,
    FetchParts,
)
from fencepost.broker.apis.fetch_bytes import (
    FLEXIBLE_FROM,
    PARTITIONS_MAX,
    Answered,
    UsualFetch,
    answer_in_bytes,
    read_usual,
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
from fencepost.machines.fetch import (
    NO_WAIT,
    Asker,
    FetchContext,
    FetchOutcome,
    FetchSession,
    FetchTerms,
    FetchWanted,
    Finished,
)
from fencepost.machines.fetch.answering import CONSUMER
from fencepost.machines.fetch.sessions import without_session
from fencepost.machines.partition import FetchBounds, Isolation
from fencepost.machines.partition.inputs import ANY_BROKER_EPOCH
from fencepost.runtime.clock import Clocks
from fencepost.runtime.delayed_fetches import FetchHost, SessionKey
from fencepost.runtime.replicas import HostedPartition, ReplicaManager
from fencepost.wire.api.fetch import FetchResponse
from fencepost.wire.errors import ErrorCode
from fencepost.wire.message import Message

_ASKERS: Final = tuple(Asker(CONSUMER, ANY_BROKER_EPOCH, isolation) for isolation in Isolation)
"""By the isolation of what they read."""

_Found = list[tuple[HostedPartition, FetchWanted[SessionKey], FetchBounds]]


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
    asker = _ASKERS[request.isolation]
    session = _begin(parts, request, asker, version)
    if session is None:
        return False
    if isinstance(session, ErrorCode):
        context.reply(FetchResponse(error_code=int(session)))
        return True
    max_bytes = min(request.max_bytes, config.get("fetch.max.bytes"))
    _Usual(parts, context, max_bytes, session, asker).begin(request.max_wait_ms)
    return True


def _begin(
    parts: FetchParts, request: UsualFetch, asker: Asker, version: int
) -> FetchContext[SessionKey] | ErrorCode | None:
    """What the request is to look at, which is usual, or why its session ends; None if it is not,
    and then nothing has happened."""
    if not request.session_id:
        return without_session(request.wanted)
    fetches, wanted = parts.fetches, request.wanted
    by_id = version >= TOPIC_IDS_FROM
    session = fetches.sessions.next_of(request.session_id, request.session_epoch, by_id)
    if isinstance(session, ErrorCode):
        return None
    looks = len(session.stirring) + fetches.due(session, asker)
    looks += sum(one.key not in session.stirring for one in wanted)
    if looks > PARTITIONS_MAX:
        return None
    begun = fetches.sessions.go_on(session, wanted, request.forgotten, parts.clocks.now_ms())
    if not isinstance(begun, ErrorCode) and begun.session is not None:
        fetches.arrived(begun.session, asker)
    return begun


class _Usual:
    """A usual request until its answer, for which it may wait."""

    __slots__ = ("_asker", "_context", "_max_bytes", "_parts", "_session")

    def __init__(
        self,
        parts: FetchParts,
        context: RequestContext,
        max_bytes: int,
        session: FetchContext[SessionKey],
        asker: Asker,
    ) -> None:
        self._parts = parts
        self._context = context
        self._session = session
        self._max_bytes = max_bytes
        self._asker = asker

    def begin(self, max_wait_ms: int) -> None:
        """Answer, or wait."""
        found = self._find()
        if (
            found is None
            or max_wait_ms <= 0
            or self._max_bytes <= 0
            or not (found or self._session.has_quiet)
            or any(bounds.upper_bound > wanted.fetch_offset for _, wanted, bounds in found)
        ):
            self._context.reply_now(lambda: self._answer(found))
        else:
            self._park(found, self._parts.clocks.now_ms() + max_wait_ms)

    def _find(self) -> _Found | None:
        """What each partition says, in their order; None if one of them has something else to
        say."""
        replicas = self._parts.replicas
        by_id = self._context.api_version >= TOPIC_IDS_FROM
        find: Callable[..., HostedPartition | ErrorCode] = replicas.by_id if by_id else replicas.get
        found: _Found = []
        for wanted in self._session.partitions:
            hosted = find(*wanted.key)
            if isinstance(hosted, ErrorCode):
                return None
            bounds = hosted.machine.check_fetch(
                fetch_offset=wanted.fetch_offset,
                current_leader_epoch=wanted.current_leader_epoch,
                last_fetched_epoch=wanted.last_fetched_epoch,
                replica_id=CONSUMER,
                broker_epoch=ANY_BROKER_EPOCH,
                isolation=self._asker.isolation,
                leader_only=False,
            )
            if isinstance(bounds, ErrorCode) or bounds.diverging is not None:
                return None
            found.append((hosted, wanted, bounds))
        return found

    # -- answering -------------------------------------------------------------------------

    def _answer(self, found: _Found | None) -> Message | Pieces | list[Buffer]:
        """The answer, or how it is made if that is unusual."""
        unread: dict[SessionKey, NotCachedError] = {}
        records = None if found is None else self._read(found, unread)
        if found is None or records is None:
            return self._unusual(unread).make_at_once(None)
        some: list[Answered] = []
        for (hosted, wanted, bounds), data in zip(found, records, strict=True):
            hosted.traffic.fetched(len(data), 0, is_follower=False)
            topic, index = wanted.key
            some.append((topic, index, bounds, data))
        session_id = 0
        if self._session.session is not None:
            finished = self._finish(self._session.session, found, records)
            session_id = finished.session_id
            if finished.error_code:
                return FetchResponse(error_code=int(finished.error_code), session_id=session_id)
            some = [some[position] for position in finished.included]
        correlation_id, isolation = self._context.correlation_id, self._asker.isolation
        return answer_in_bytes(correlation_id, session_id, isolation, some)

    def _finish(
        self, session: FetchSession[SessionKey], found: _Found, records: list[Buffer]
    ) -> Finished:
        """What of it the client of a session has to hear; what it has all of becomes quiet."""
        outcomes = []
        for (hosted, wanted, bounds), data in zip(found, records, strict=True):
            outcome = FetchOutcome(len(data), bounds.high_watermark, bounds.log_start_offset)
            outcomes.append((wanted.key, outcome))
            if bounds.upper_bound == wanted.fetch_offset:
                self._parts.fetches.settle(session, hosted, wanted.key, self._asker)
        return self._session.finish(outcomes, self._parts.clocks.now_ms())

    def _read(self, found: _Found, unread: dict[SessionKey, NotCachedError]) -> list[Buffer] | None:
        """The records of each, as many as `ReadBudget` has them have; None if they cannot be read
        at once, or there is more to tell of one. `unread` then has the partition that is not in the
        page cache, if it is that."""
        parts = self._parts
        reads_committed = self._asker.isolation == Isolation.READ_COMMITTED
        records: list[Buffer] = []
        left_bytes = min(self._max_bytes, self._context.available_bytes)
        has_data = False
        with parts.storage.descriptors.without_waiting(), parts.cold_reads.reading(0):
            for hosted, wanted, bounds in found:
                offset = wanted.fetch_offset
                limit_bytes = min(wanted.partition_max_bytes, left_bytes)
                if bounds.upper_bound <= offset or (limit_bytes <= 0 and has_data):
                    records.append(b"")
                    continue
                try:
                    if reads_committed and hosted.log.has_aborted_transactions(offset):
                        return None
                    buffers, size_bytes, _ = hosted.log.read(
                        offset, max(limit_bytes, 0), bounds.upper_bound, not has_data
                    )
                except NotCachedError as cold:
                    unread[wanted.key] = cold
                    return None
                except LOG_ERRORS:
                    return None
                records.append(buffers[0] if len(buffers) == 1 else b"".join(buffers))
                left_bytes -= size_bytes
                has_data = has_data or size_bytes > 0
        return records

    def _unusual(self, unread: dict[SessionKey, NotCachedError]) -> FetchAnswer:
        terms = self._terms(NO_WAIT)
        return FetchAnswer(self._parts, self._context, self._session, terms, unread)

    def _terms(self, deadline_ms: int) -> FetchTerms:
        most = self._max_bytes
        isolation = self._asker.isolation
        return FetchTerms(min(1, most), most, deadline_ms, isolation=isolation)

    # -- waiting ---------------------------------------------------------------------------

    def _park(self, found: _Found, deadline_ms: int) -> None:
        """Wait for the partitions, none of which has records; for those that are quiet from now on
        they say so when they move."""
        fetches, session = self._parts.fetches, self._session.session
        partitions = {
            hosted.key: wanted
            for hosted, wanted, bounds in found
            if session is None
            or bounds.upper_bound != wanted.fetch_offset
            or not wanted.was_told(bounds.high_watermark, bounds.log_start_offset)
            or not fetches.settle(session, hosted, wanted.key, self._asker)
        }
        self._context.add_buffered(PARTITION_BYTES * len(found))
        found_bytes = [(key, 0) for key in partitions]
        terms = self._terms(deadline_ms)
        abandon = fetches.park(self._complete, partitions, terms, found_bytes, session)
        self._context.on_disconnect(abandon)

    def _complete(self) -> None:
        """The wait is over."""
        if not self._context.answered:
            self._context.reply_when_next(lambda: self._answer(self._find()), self._respond)

    def _respond(self) -> Pieces:
        """The answer, when it is its turn."""
        return (yield from self._unusual({}).make(None))
