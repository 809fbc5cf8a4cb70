"""Fetch (key 1) v4-18: log data, now or when there is some.

Which partitions are meant and which belong in the answer is the session's (KIP-227), what a reader
may see of one is the partition machine's, and when the fetch is answered, with how much of what, is
`machines.fetch.answering`'s to say; here requests are translated, and answered or left to wait. The
answer is `fetch_answer`'s: batches are read when the connection is ready to send them, never
earlier, and no more of them than the memory budget has left besides answers that clients have not
taken yet. A partition that a request names twice counts once, as named last.

A follower's fetch tells the partition how far the follower has come, when it arrives and before it
is answered or waits; it may read up to the log's end, and what it waits for is the log's end too.

Version rules: topics go by id from v13; up to v5 KAFKA_STORAGE_ERROR is told as
NOT_LEADER_OR_FOLLOWER; before v11 only leaders serve consumers, and from it on they may name a
replica in the consumer's rack (KIP-392), which serves it up to its own high watermark; from v12
errors 6 and 74 carry the current leader, from v16 with its address (KIP-951). Batches are sent as
they are stored: a consumer before v10 gets zstd, too, as from Kafka since 4.0. Records are empty,
never null.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from itertools import count

from fencepost.log.page_cache import NotCachedError
from fencepost.machines.fetch import (
    NO_WAIT,
    Asker,
    FetchContext,
    FetchTerms,
    FetchWanted,
    bytes_to_wait_with,
    is_out_of_date,
    look_at,
)
from fencepost.machines.partition import Isolation
from fencepost.machines.partition.inputs import ANY_BROKER_EPOCH
from fencepost.runtime.delayed_fetches import SessionKey
from fencepost.runtime.fetch_arrival import look_on_arrival
from fencepost.runtime.requests.access import Find
from fencepost.runtime.requests.context import Pieces
from fencepost.runtime.requests.fetch_answer import (
    PARTITION_BYTES,
    PARTITIONS_PER_PIECE,
    FetchAnswer,
    PartitionLook,
    refused_partition,
)
from fencepost.runtime.requests.fetch_parts import (
    TOPIC_IDS_FROM,
    FetchParts,
    FetchRequestContext,
)
from fencepost.runtime.requests.permissions import CLUSTER_ACTION
from fencepost.wire.api.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    ReplicaState,
)
from fencepost.wire.errors import ErrorCode
from fencepost.wire.message import Message

FOLLOWERS_SERVE_FROM = 11
SESSIONS_FROM = 7
REPLICA_STATE_FROM = 15


def fetch(
    context: FetchRequestContext,
    request: FetchRequest,
    *,
    parts: FetchParts,
) -> Message | Pieces | None:
    """Answer with records, or wait for them."""
    if request.isolation_level not in (Isolation.READ_UNCOMMITTED, Isolation.READ_COMMITTED):
        if context.api_version >= SESSIONS_FROM:
            context.fail(ErrorCode.INVALID_REQUEST)
            return None
        return _refuse_all(request, ErrorCode.INVALID_REQUEST)
    named = sum(len(topic.partitions) for topic in request.topics)
    context.add_buffered(PARTITION_BYTES * named)
    if named >= PARTITIONS_PER_PIECE:
        return _handle_in_pieces(parts, context, request)
    wanted = [wanted for wanted in _wanted(request, context.api_version) if wanted is not None]
    return _begin(parts, context, request, wanted)


def _refuse_all(request: FetchRequest, error: ErrorCode) -> FetchResponse:
    """The answer of the versions that have no error but those of partitions."""
    topics = []
    for topic in request.topics:
        partitions = [refused_partition(one.partition, error) for one in topic.partitions]
        topics.append(FetchableTopicResponse(topic=topic.topic, partitions=partitions))
    return FetchResponse(responses=topics)


def _handle_in_pieces(
    parts: FetchParts, context: FetchRequestContext, request: FetchRequest
) -> Pieces:
    """The same for a request that names many."""
    wanted = []
    for one in _wanted(request, context.api_version):
        if one is None:
            yield None
        else:
            wanted.append(one)
    answer = _begin(parts, context, request, wanted)
    return (yield from answer) if isinstance(answer, Generator) else answer


def _begin(
    parts: FetchParts,
    context: FetchRequestContext,
    request: FetchRequest,
    wanted: list[FetchWanted[SessionKey]],
) -> Message | Pieces | None:
    version, fetches = context.api_version, parts.fetches
    by_id = version >= TOPIC_IDS_FROM
    replica = request.replica_state
    if version < REPLICA_STATE_FROM:
        replica = ReplicaState(replica_id=request.replica_id, replica_epoch=ANY_BROKER_EPOCH)
    session = fetches.sessions.begin(
        request.session_id if version >= SESSIONS_FROM else 0,
        request.session_epoch if version >= SESSIONS_FROM else -1,
        wanted,
        [
            (topic.topic_id if by_id else topic.topic, index)
            for topic in request.forgotten_topics_data
            for index in topic.partitions
        ],
        is_follower=replica.replica_id >= 0,
        uses_topic_ids=by_id,
        now_ms=parts.clocks.now_ms(),
    )
    if isinstance(session, ErrorCode):
        return FetchResponse(error_code=int(session))
    answering = _Fetch(parts, context, request, session, replica)
    if session.session is not None:
        fetches.arrived(session.session, Asker.of(answering.terms))
        # Fewer than were named where the request forgets some of them.
        context.add_buffered(PARTITION_BYTES * (len(session.partitions) - len(wanted)))
    return answering.begin()


def _wanted(request: FetchRequest, version: int) -> Iterator[FetchWanted[SessionKey] | None]:
    """The partitions the request names, each once; None now and then, for others' turn."""
    wanted: dict[SessionKey, FetchWanted[SessionKey]] = {}
    for topic in request.topics:
        name = topic.topic_id if version >= TOPIC_IDS_FROM else topic.topic
        for partition in topic.partitions:
            if len(wanted) % PARTITIONS_PER_PIECE == PARTITIONS_PER_PIECE - 1:
                yield None
            key = (name, partition.partition)
            wanted[key] = FetchWanted(
                key,
                partition.fetch_offset,
                partition.partition_max_bytes,
                partition.current_leader_epoch,
                partition.last_fetched_epoch,
                partition.log_start_offset,
            )
    yield from wanted.values()


class _Fetch:
    """One fetch request until its answer."""

    __slots__ = ("_context", "_looks", "_parts", "_session", "terms")

    def __init__(
        self,
        parts: FetchParts,
        context: FetchRequestContext,
        request: FetchRequest,
        session: FetchContext[SessionKey],
        replica: ReplicaState,
    ) -> None:
        version = context.api_version
        is_replica = replica.replica_id >= 0
        max_bytes = min(request.max_bytes, parts.policy.max_bytes)
        if not is_replica:
            max_bytes = min(max_bytes, context.fetch_bytes_max)
        waits = request.max_wait_ms > 0
        if is_replica and parts.partitions.access.allows(context, CLUSTER_ACTION):
            context.comes_from_broker()
        self._parts = parts
        self._context = context
        self._session = session
        self.terms = FetchTerms(
            min_bytes=min(request.min_bytes, max_bytes),
            max_bytes=max_bytes,
            deadline_ms=parts.clocks.now_ms() + request.max_wait_ms if waits else NO_WAIT,
            replica_id=replica.replica_id,
            isolation=request.isolation_level,
            leader_only=version < FOLLOWERS_SERVE_FROM,
            broker_epoch=replica.replica_epoch,
            choose_replica=None
            if is_replica
            else parts.policy.choose_replica(context.listener_name, request.rack_id),
            is_held_back=parts.policy.is_held_back(replica.replica_id) if is_replica else None,
        )
        self._looks: list[PartitionLook] | None = None

    def begin(self) -> Pieces | None:
        """Answer, or park; in pieces if there is much to look at."""
        wanted = self._session.partitions
        if self.terms.is_replica or len(wanted) >= PARTITIONS_PER_PIECE:
            return self._begin_in_pieces()
        find = self._finder()
        looks = [look_at(find(*one.key), one, self.terms) for one in wanted]
        try:
            sizes = self._bytes_to_wait_with(looks, 0)
        except NotCachedError:
            return self._begin_in_pieces()
        self._answer_or_park(looks, sizes)
        return None

    def _answer_or_park(self, looks: list[PartitionLook], sizes: list[int] | None) -> None:
        if sizes is not None:
            self._park(looks, sizes)
            return
        self._looks = looks
        self.complete()
        self._looks = None  # good for as long as nothing else runs in between

    def _begin_in_pieces(self) -> Pieces:
        looks = yield from self._look()
        others_ran = self.terms.is_replica or len(looks) >= PARTITIONS_PER_PIECE
        if len(looks) >= PARTITIONS_PER_PIECE:
            yield None
        sizes: list[int] | None = None
        for tries in count():
            is_old = others_ran and is_out_of_date(looks, self.terms, len(self._session.partitions))
            if is_old:
                break
            try:
                sizes = self._bytes_to_wait_with(looks, tries)
                break
            except NotCachedError as cold:
                yield self._parts.cached_reads.begin(cold)
                others_ran = True
        if is_old:
            self.complete()
        else:
            self._answer_or_park(looks, sizes)
        return None

    def _park(self, looks: list[PartitionLook], sizes: list[int]) -> None:
        """Wait for the partitions; for those that become quiet by that they have moved."""
        session, fetches = self._session.session, self._parts.fetches
        asker = Asker.of(self.terms)
        partitions: dict[str, FetchWanted[SessionKey]] = {}
        found: list[tuple[str, int]] = []
        for look, size_bytes in zip(looks, sizes, strict=True):
            hosted, wanted = look.partition, look.wanted
            assert hosted is not None, "of what is not here the client is told at once"
            if (
                session is None
                or not look.is_known
                or not fetches.settle(session, hosted, wanted.key, asker)
            ):
                partitions[hosted.key] = wanted
                found.append((hosted.key, size_bytes))
        abandon = fetches.park(self.complete, partitions, self.terms, found, session)
        self._context.on_disconnect(abandon)

    def _bytes_to_wait_with(self, looks: list[PartitionLook], tries: int) -> list[int] | None:
        """See `bytes_to_wait_with`. NotCachedError, see `CachedReads.reading`."""
        has_quiet = self._session.has_quiet
        if self.terms.min_bytes <= 1:  # nothing is measured, so nothing is read
            return bytes_to_wait_with(looks, self.terms, others_are_quiet=has_quiet)
        with self._parts.cached_reads.reading(tries):
            return bytes_to_wait_with(looks, self.terms, others_are_quiet=has_quiet)

    def complete(self) -> None:
        """The wait is over, or there is none."""
        if not self._context.answered:
            self._context.reply_when_next(self._respond_at_once, self._respond)

    def _respond_at_once(self) -> Message | Pieces:
        """The response, or how it is made if that takes long."""
        answer = FetchAnswer(self._parts, self._context, self._session, self.terms)
        return answer.make_at_once(self._looks)

    def _respond(self) -> Pieces:
        """The response. Begun when the connection is ready to send it."""
        answer = FetchAnswer(self._parts, self._context, self._session, self.terms)
        return (yield from answer.make(self._looks))

    # -- looking ---------------------------------------------------------------------------

    def _finder(self) -> Find:
        return self._parts.finder(self._context, is_replica=self.terms.is_replica)

    def _look(self) -> Generator[None, None, list[PartitionLook]]:
        """Look at all partitions, on arrival: followers' fetches count now, and once."""
        looks = []
        driver, terms, find = self._parts.driver, self.terms, self._finder()
        for wanted in self._session.partitions:
            hosted = find(*wanted.key)
            looks.append(
                look_on_arrival(driver, hosted, wanted, terms)
                if terms.is_replica
                else look_at(hosted, wanted, terms)
            )
            if len(looks) % PARTITIONS_PER_PIECE == 0:
                yield
        return looks
