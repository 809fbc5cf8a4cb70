"""Fetch from bytes: a consumer's plain Fetch, from its bytes to its answer's (`fetch_bytes`).

A request that is not plain, or has something wrong with it or with its session, is left to `fetch`,
which begins again at the first byte: nothing has happened before it is known that the request is
plain. What its partitions need besides, now or after a wait, is answered by `fetch_answer`. The
answers are the same, byte for byte.

Plain is: v12 or later, nothing tagged, no rack, no replica, one byte wanted, no partition twice; no
session, or the next request of one; an answer that would leave now; at most `PARTITIONS_MAX`
partitions, of which those of a session that are quiet do not count, and no more forgotten; no more
records than may be read at once (`broker.net.turn`). Its partitions have to be here, the offset has
to be one that may be read, the records have to be in the page cache, and, if committed records
alone are read, no transaction may have been aborted from the offset's segment on.
"""

from __future__ import annotations

from typing import Final

from fencepost.broker.apis.fetch_bytes import (
    FLEXIBLE_FROM,
    PARTITIONS_MAX,
    Answered,
    PlainFetch,
    answer_in_bytes,
    read_plain,
)
from fencepost.broker.net.pending_request import Buffer, PendingRequest
from fencepost.broker.net.turn import SMALL_BYTES
from fencepost.log.error_codes import LOG_ERRORS
from fencepost.log.page_cache import NotCachedError
from fencepost.log.partition_log import PartitionLog
from fencepost.machines.fetch import (
    NO_WAIT,
    Asker,
    FetchContext,
    FetchOutcome,
    FetchTerms,
    FetchWanted,
)
from fencepost.machines.fetch.answering import CONSUMER
from fencepost.machines.fetch.sessions import without_session
from fencepost.machines.partition import FetchBounds, Isolation
from fencepost.machines.partition.inputs import ANY_BROKER_EPOCH
from fencepost.runtime.cooperative import without_frames
from fencepost.runtime.delayed_fetches import SessionKey
from fencepost.runtime.replicas import HostedPartition
from fencepost.runtime.requests.access import Find
from fencepost.runtime.requests.context import Pieces
from fencepost.runtime.requests.fetch_answer import (
    PARTITION_BYTES,
    FetchAnswer,
    answer_bytes,
    throttled_answer,
)
from fencepost.runtime.requests.fetch_parts import TOPIC_IDS_FROM, FetchParts
from fencepost.runtime.requests.permissions import READ_TOPIC
from fencepost.wire.api.fetch import FetchResponse
from fencepost.wire.errors import ErrorCode
from fencepost.wire.message import Message

_ASKERS: Final = tuple(Asker(CONSUMER, ANY_BROKER_EPOCH, isolation) for isolation in Isolation)
"""By the isolation of what they read."""

_READ_COMMITTED: Final = Isolation.READ_COMMITTED

Found = list[tuple[HostedPartition, FetchWanted[SessionKey], FetchBounds]]
"""Partitions, what is wanted of them, and what may be read."""


def fetch_from_bytes(
    context: PendingRequest, frame: memoryview, body_start: int, *, parts: FetchParts
) -> bool | list[Buffer]:
    """Take a request from its bytes; whether it was taken, and is answered some time. Or its
    answer, if that is there now, and made as bytes."""
    version = context.api_version
    if version < FLEXIBLE_FROM or not context.is_next:
        return False
    request = read_plain(frame, body_start, version)
    if request is None:
        return False
    session = begin_session(parts, request, version)
    return False if session is None else answer_plain(context, request, session, parts)


def answer_plain(
    context: PendingRequest,
    request: PlainFetch,
    session: FetchContext[SessionKey] | ErrorCode,
    parts: FetchParts,
    find: Find | None = None,
) -> bool | list[Buffer]:
    """The same of a request that `is_next`, with what `begin_session` has given for it. `find` has
    found its partitions already, if it is given."""
    if isinstance(session, ErrorCode):
        context.reply(FetchResponse(error_code=int(session)))
        return True
    max_bytes = min(request.max_bytes, parts.policy.max_bytes, context.fetch_bytes_max)
    asker = _ASKERS[request.isolation]
    fetch = _PlainFetch(parts, context, max_bytes, session, asker)
    return fetch.begin(request.max_wait_ms, find)


def begin_session(
    parts: FetchParts, request: PlainFetch, version: int
) -> FetchContext[SessionKey] | ErrorCode | None:
    """What the request is to look at, or why its session ends; None if that is to be left, and then
    nothing has happened."""
    asker = _ASKERS[request.isolation]
    if not request.session_id:
        return without_session(request.wanted)
    fetches, wanted = parts.fetches, request.wanted
    by_id = version >= TOPIC_IDS_FROM
    session = fetches.sessions.next_of(request.session_id, request.session_epoch, by_id)
    if isinstance(session, ErrorCode):
        return None
    if len(session.entries) + len(wanted) > PARTITIONS_MAX:  # which is more than it looks at
        looks = len(session.stirring) + fetches.due(session, asker)
        looks += sum(one.key not in session.stirring for one in wanted)
        if looks > PARTITIONS_MAX:
            return None
    begun = fetches.sessions.go_on(session, wanted, request.forgotten, parts.clocks.now_ms())
    if not isinstance(begun, ErrorCode) and begun.session is not None:
        fetches.arrived(begun.session, asker)
    return begun


class _PlainFetch:
    """A request that was taken, until its answer, for which it may wait."""

    __slots__ = ("_asker", "_context", "_max_bytes", "_parts", "_session")

    def __init__(
        self,
        parts: FetchParts,
        context: PendingRequest,
        max_bytes: int,
        session: FetchContext[SessionKey],
        asker: Asker,
    ) -> None:
        self._parts = parts
        self._context = context
        self._session = session
        self._max_bytes = max_bytes
        self._asker = asker

    def begin(self, max_wait_ms: int, find: Find | None) -> bool | list[Buffer]:
        """Answer, or wait: what `fetch_from_bytes` returns."""
        found = self._find(find)
        if (
            found is not None
            and not _has_records(found)
            and max_wait_ms > 0
            and self._max_bytes > 0
            and (found or self._session.has_quiet)
        ):
            self._park(found, self._parts.clocks.now_ms() + max_wait_ms)
            return True
        answer = self._answer(found)
        if isinstance(answer, list):
            return answer
        self._context.reply_now(lambda: answer)
        return True

    def _find(self, find: Find | None = None) -> Found | None:
        """What each partition answers, in their order; None if one of them answers an error, or
        that logs diverge."""
        if find is None:
            by_id = self._context.api_version >= TOPIC_IDS_FROM
            find = self._parts.partitions.finder(self._context, READ_TOPIC, by_id=by_id)
        found: Found = []
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

    def _answer(self, found: Found | None) -> Message | Pieces | list[Buffer]:
        """The answer, or how it is made if not as bytes."""
        unread: dict[SessionKey, NotCachedError] = {}
        some = None if found is None else self._read(found, unread)
        if found is None or some is None:
            return self._slower(unread).make_at_once(None)
        is_throttled = self._context.is_throttled_for(answer_bytes(len(one[3]) for one in some))
        for place, (hosted, _, _) in enumerate(found):
            size_bytes = 0 if is_throttled else len(some[place][3])
            hosted.traffic.fetched(size_bytes, 0, is_follower=False)
        if is_throttled:
            keys = [wanted.key for _, wanted, _ in found]
            return throttled_answer(self._parts, self._session, keys)
        correlation_id, isolation = self._context.correlation_id, self._asker.isolation
        return answer_found(self._parts, self._session, isolation, found, some, correlation_id)

    def _read(
        self, found: Found, unread: dict[SessionKey, NotCachedError]
    ) -> list[Answered] | None:
        """What each has, as many records as `ReadBudget` has it have; None if they cannot be read
        at once, or there is more to tell of one. `unread` then has the partition that is not in the
        page cache, if it is that."""
        parts = self._parts
        isolation = self._asker.isolation
        some: list[Answered] = []
        left_bytes = min(self._max_bytes, self._context.available_bytes)
        at_once_bytes = self._context.at_once_bytes
        has_data = False
        with parts.cached_reads.without_waiting(), parts.cached_reads.reading(0):
            for hosted, wanted, bounds in found:
                (topic, index), offset = wanted.key, wanted.fetch_offset
                limit_bytes = min(wanted.partition_max_bytes, left_bytes)
                if bounds.upper_bound <= offset or (limit_bytes <= 0 and has_data):
                    some.append((topic, index, bounds, b""))
                    continue
                limits = limit_bytes, at_once_bytes, bounds.upper_bound
                try:
                    data = read_records(hosted.log, offset, limits, not has_data, isolation)
                except NotCachedError as cold:
                    unread[wanted.key] = without_frames(cold)
                    return None
                if data is None:
                    return None
                some.append((topic, index, bounds, data))
                left_bytes -= len(data)
                at_once_bytes -= len(data)
                if len(data) > SMALL_BYTES:
                    self._context.have_read(len(data))
                has_data = has_data or len(data) > 0
        return some

    def _slower(self, unread: dict[SessionKey, NotCachedError]) -> FetchAnswer:
        terms = self._terms(NO_WAIT)
        return FetchAnswer(self._parts, self._context, self._session, terms, unread)

    def _terms(self, deadline_ms: int) -> FetchTerms:
        most = self._max_bytes
        isolation = self._asker.isolation
        return FetchTerms(min(1, most), most, deadline_ms, isolation=isolation)

    # -- waiting ---------------------------------------------------------------------------

    def _park(self, found: Found, deadline_ms: int) -> None:
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
        return (yield from self._slower({}).make(None))


def read_records(
    log: PartitionLog,
    offset: int,
    limits: tuple[int, int, int],
    min_one_batch: bool,
    isolation: int,
) -> Buffer | None:
    """The records of a partition from an offset on; None if they cannot be read at once, or there
    is more to tell. `limits` are how many bytes there may be of them, how many may be read at
    once, and where they end. NotCachedError."""
    limit_bytes, at_once_bytes, upper_bound = limits
    try:
        if isolation == _READ_COMMITTED and log.has_aborted_transactions(offset):
            return None
        if limit_bytes > at_once_bytes:
            has_bytes = log.measure(offset, limit_bytes, upper_bound)
            if has_bytes > at_once_bytes or not has_bytes:
                return None
        buffers = log.read(offset, limit_bytes, upper_bound, min_one_batch).buffers
    except LOG_ERRORS:
        return None
    return buffers[0] if len(buffers) == 1 else b"".join(buffers)


def answer_found(
    parts: FetchParts,
    context: FetchContext[SessionKey],
    isolation: int,
    found: Found,
    some: list[Answered],
    correlation_id: int,
) -> FetchResponse | list[Buffer]:
    """The answer with what was read of what was found; in a session, with what belongs in it."""
    session, session_id = context.session, 0
    if session is not None:
        asker = _ASKERS[isolation]
        outcomes = []
        for place, (hosted, wanted, bounds) in enumerate(found):
            size_bytes = len(some[place][3])
            outcome = FetchOutcome(size_bytes, bounds.high_watermark, bounds.log_start_offset)
            outcomes.append((wanted.key, outcome))
            if bounds.upper_bound == wanted.fetch_offset:  # the consumer has all of it
                parts.fetches.settle(session, hosted, wanted.key, asker)
        finished = context.finish(outcomes, parts.clocks.now_ms())
        session_id = finished.session_id
        if finished.error_code:
            return FetchResponse(error_code=int(finished.error_code), session_id=session_id)
        if len(finished.included) < len(some):  # the client knows of the others already
            some = [some[place] for place in finished.included]
    return answer_in_bytes(correlation_id, session_id, isolation, some)


def _has_records(found: Found) -> bool:
    """Whether any of the partitions has something to read."""
    for _, wanted, bounds in found:  # noqa: SIM110 - one or two as a rule: a generator is dearer
        if bounds.upper_bound > wanted.fetch_offset:
            return True
    return False
