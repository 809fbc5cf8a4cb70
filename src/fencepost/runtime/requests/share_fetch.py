"""ShareFetch (key 78) v1-2: a share consumer acquires records, and settles earlier ones.

After the checks of `share_checks`: a request that renews locks (KIP-1222) has no wait, bytes or
records to fetch, else 42; the session (`machines.share.sessions`), where one too many is told after
`max_wait_ms`; an acquire mode that does not exist: -1. Then acknowledgements are taken, and records
are looked for at the same time, or not at all if the session closes or locks are renewed. The
answer leaves when both are through. It has rows for partitions with records, with an error, and for
those of the request whose acknowledgements were taken; the answer that opens a session has rows for
partitions without records, too, if records could be acquired.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator

from fencepost.machines.share.inputs import AcknowledgeResult
from fencepost.machines.share.sessions import (
    CLOSING_EPOCH,
    OPENING_EPOCH,
    ShareSession,
    ShareSessionKey,
    TopicPartition,
)
from fencepost.runtime.requests.context import Pieces, RequestContext
from fencepost.runtime.requests.share_checks import (
    RENEWAL_FROM,
    Acknowledgements,
    Leaders,
    ShareParts,
    leader_finder,
    refusal,
)
from fencepost.runtime.share_fetches import FetchedPartition, ShareFetch, ShareFetchTerms
from fencepost.wire.api.share_fetch import (
    AcknowledgementBatch,
    AcquiredRecords,
    NodeEndpoint,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)
from fencepost.wire.errors import ErrorCode

ACQUIRE_MODE_FROM = 2
BATCH_OPTIMIZED_MODE = 0
RECORD_LIMIT_MODE = 1
"""`share_acquire_mode`: no more than `max_records` (KIP-1206)."""


def share_fetch(
    context: RequestContext,
    request: ShareFetchRequest,
    connection: object,
    max_bytes: int,
    *,
    parts: ShareParts,
) -> Pieces:
    """Answer with records, or wait for them. The session belongs to the `connection`; `max_bytes`
    bounds what an answer may have, whatever the client wants."""
    error = refusal(parts, context, request) or _renewal_refusal(context, request)
    session = error or _session(parts, request, connection)
    if session is ErrorCode.SHARE_SESSION_LIMIT_REACHED:
        _refuse_later(parts, context, request.max_wait_ms)
        return None
    if not isinstance(session, ErrorCode) and _has_unknown_mode(context, request):
        session = ErrorCode.UNKNOWN_SERVER_ERROR
    if isinstance(session, ErrorCode):
        return ShareFetchResponse(error_code=int(session))
    yield from _ShareFetchAnswer(parts, context, request, session).begin(max_bytes)
    return None


def _renewal_refusal(context: RequestContext, request: ShareFetchRequest) -> ErrorCode:
    if context.api_version < RENEWAL_FROM or not request.is_renew_ack:
        return ErrorCode.NONE
    fetches = request.max_bytes, request.min_bytes, request.max_records, request.max_wait_ms
    return ErrorCode.INVALID_REQUEST if any(fetches) else ErrorCode.NONE


def _has_unknown_mode(context: RequestContext, request: ShareFetchRequest) -> bool:
    modes = (BATCH_OPTIMIZED_MODE, RECORD_LIMIT_MODE)
    return context.api_version >= ACQUIRE_MODE_FROM and request.share_acquire_mode not in modes


def _session(
    parts: ShareParts, request: ShareFetchRequest, connection: object
) -> ShareSession | ErrorCode:
    sessions = parts.sessions.sessions
    key = ShareSessionKey(request.group_id or "", request.member_id or "")
    named = [partition for partition, _ in _named(request)]
    if request.share_session_epoch == OPENING_EPOCH:
        has_acknowledgements = any(ranges for _, ranges in _named(request))
        return sessions.open_session(
            key, named, connection, has_acknowledgements=has_acknowledgements
        )
    session = sessions.continue_session(key, request.share_session_epoch)
    if isinstance(session, ErrorCode) or request.share_session_epoch == CLOSING_EPOCH:
        return session
    forgotten = [
        (topic.topic_id, index)
        for topic in request.forgotten_topics_data
        for index in topic.partitions
    ]
    return sessions.change(session, named, forgotten) or session


def _named(
    request: ShareFetchRequest,
) -> Iterator[tuple[TopicPartition, list[AcknowledgementBatch]]]:
    for topic in request.topics:
        for one in topic.partitions:
            yield (topic.topic_id, one.partition_index), one.acknowledgement_batches


def _refuse_later(parts: ShareParts, context: RequestContext, max_wait_ms: int) -> None:
    """A client that is refused a session waits as one that finds no records, not to ask at once."""

    def refuse() -> None:
        if not context.answered:
            error = ErrorCode.SHARE_SESSION_LIMIT_REACHED
            context.reply(ShareFetchResponse(error_code=int(error)))

    timer = parts.sessions.partitions.timers.after(max(max_wait_ms, 0), refuse)
    context.on_disconnect(timer.cancel)


class _ShareFetchAnswer:
    """One request that was taken, until its answer."""

    def __init__(
        self,
        parts: ShareParts,
        context: RequestContext,
        request: ShareFetchRequest,
        session: ShareSession,
    ) -> None:
        self._parts = parts
        self._context = context
        self._request = request
        self._session = session
        self._acknowledgements = Acknowledgements(parts, context, request)
        self._fetched: dict[TopicPartition, FetchedPartition] = {}
        self._left = 2

    def begin(self, max_bytes: int) -> Generator[None, None, None]:
        """Take acknowledgements, and fetch."""
        request = self._request
        closes = request.share_session_epoch == CLOSING_EPOCH
        is_renewal = self._context.api_version >= RENEWAL_FROM and request.is_renew_ack
        yield from self._acknowledgements.begin([one for one in _named(request) if one[1]])
        if closes:
            self._acknowledgements.when_done(
                lambda: self._parts.sessions.end_session(self._session, self._part_done)
            )
        else:
            self._acknowledgements.when_done(self._part_done)
        if closes or is_renewal:
            self._part_done()
        else:
            self._fetch(max_bytes)

    def _fetch(self, max_bytes: int) -> None:
        request, session, node = self._request, self._session, self._parts.sessions.partitions
        partitions = list(session.partitions)
        if partitions:
            place = session.epoch % len(partitions)
            partitions = partitions[place:] + partitions[:place]
        now_ms = node.clocks.now_ms()
        fetch = ShareFetch(
            node,
            ShareFetchTerms(
                session.key.group_id,
                session.key.member_id,
                now_ms + max(request.max_wait_ms, 0),
                request.min_bytes,
                min(max(request.max_bytes, 0), max_bytes),
                request.max_records,
                request.batch_size,
                self._context.api_version >= RENEWAL_FROM
                and request.share_acquire_mode == RECORD_LIMIT_MODE,
                request.share_session_epoch == OPENING_EPOCH,
            ),
            partitions,
            leader_finder(self._parts, self._context),
            lambda: self._parts.sessions.sessions.is_open(session),
            self._have_fetched,
        )
        self._context.on_disconnect(fetch.abandon)
        fetch.begin()

    def _have_fetched(self, fetched: dict[TopicPartition, FetchedPartition]) -> None:
        self._fetched = fetched
        size_bytes = sum(len(data) for one in fetched.values() for data in one.records)
        self._context.add_buffered(size_bytes)
        self._part_done()

    def _part_done(self) -> None:
        self._left -= 1
        if not self._left and not self._context.answered:
            self._context.reply(self._response())

    def _response(self) -> ShareFetchResponse:
        settings = self._parts.sessions.partitions.settings_of(self._session.key.group_id)
        response = ShareFetchResponse(acquisition_lock_timeout_ms=settings.record_lock_duration_ms)
        leaders = Leaders(self._parts, self._context)
        topics: dict[object, ShareFetchableTopicResponse] = {}
        for partition in dict.fromkeys((*self._acknowledgements.results, *self._fetched)):
            topic_id, _ = partition
            if topic_id not in topics:
                topics[topic_id] = ShareFetchableTopicResponse(topic_id=topic_id)
            topics[topic_id].partitions.append(self._row(partition, leaders))
        response.responses = list(topics.values())
        response.node_endpoints = leaders.endpoints(NodeEndpoint)
        return response

    def _row(self, partition: TopicPartition, leaders: Leaders) -> PartitionData:
        result = self._acknowledgements.results.get(partition, AcknowledgeResult(ErrorCode.NONE))
        row = PartitionData(
            partition_index=partition[1],
            acknowledge_error_code=int(result.error),
            acknowledge_error_message=result.message,
            records=(),
        )
        fetched = self._fetched.get(partition)
        if fetched is not None:
            row.error_code = int(fetched.error)
            row.records = fetched.records
            row.acquired_records = [
                AcquiredRecords(first_offset=first, last_offset=last, delivery_count=count)
                for first, last, count in fetched.acquired
            ]
        leaders.name_leader(row.current_leader, partition, result.error)
        leaders.name_leader(row.current_leader, partition, row.error_code)
        return row
