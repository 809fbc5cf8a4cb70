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
NOT_LEADER_OR_FOLLOWER; before v10 topics stored as zstd are UNSUPPORTED_COMPRESSION_TYPE; before
v11 only leaders serve consumers, and from it on they may name a replica in the consumer's rack
(KIP-392), which serves it up to its own high watermark; from v12 errors 6 and 74 carry the current
leader, from v16 with its address (KIP-951). Records are empty, never null.
"""

from __future__ import annotations

from collections.abc import Callable, Generator

from fencepost.broker.apis.fetch_answer import (
    PARTITIONS_PER_PIECE,
    TOPIC_IDS_FROM,
    FetchAnswer,
    FetchParts,
    PartitionLook,
)
from fencepost.broker.cluster.metadata_cache import MetadataCache
from fencepost.broker.config.broker_config import BrokerConfig
from fencepost.broker.net.registry import Pieces, handles
from fencepost.broker.net.request_context import RequestContext
from fencepost.broker.replicas.read_replicas import rack_selector
from fencepost.broker.replicas.throttles import LeaderThrottle
from fencepost.broker.storage.cold_reads import COLD_TRIES, ColdReads
from fencepost.broker.storage.storage import Storage
from fencepost.log.page_cache import NotCachedError
from fencepost.machines.driver import Driver
from fencepost.machines.fetch import (
    NO_WAIT,
    Asker,
    FetchContext,
    FetchTerms,
    FetchWanted,
    PendingFetch,
    bytes_to_wait_with,
    is_out_of_date,
    look_at,
)
from fencepost.machines.partition import Isolation
from fencepost.machines.partition.inputs import ANY_BROKER_EPOCH
from fencepost.runtime.clock import Clocks
from fencepost.runtime.delayed_fetches import FetchHost, SessionKey
from fencepost.runtime.fetching import look_on_arrival
from fencepost.runtime.replicas import HostedPartition, ReplicaManager
from fencepost.wire.api.fetch import (
    FetchRequest,
    FetchResponse,
    ReplicaState,
)
from fencepost.wire.errors import ErrorCode

PARTITION_BYTES = 512
"""What a fetch takes for each of its partitions until it is answered."""
FOLLOWERS_SERVE_FROM = 11
ZSTD_FROM = 10
SESSIONS_FROM = 7
REPLICA_STATE_FROM = 15


@handles(FetchRequest, versions="4-18")
def handle(
    context: RequestContext,
    request: FetchRequest,
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
) -> Pieces:
    """Answer with records, or wait for them."""
    if request.isolation_level not in (Isolation.READ_UNCOMMITTED, Isolation.READ_COMMITTED):
        context.fail(ErrorCode.INVALID_REQUEST)
        return None
    version = context.api_version
    by_id = version >= TOPIC_IDS_FROM
    replica = request.replica_state
    if version < REPLICA_STATE_FROM:
        replica = ReplicaState(replica_id=request.replica_id, replica_epoch=ANY_BROKER_EPOCH)
    context.add_buffered(PARTITION_BYTES * sum(len(topic.partitions) for topic in request.topics))
    wanted = yield from _wanted(request, by_id)
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
        now_ms=clocks.now_ms(),
    )
    if isinstance(session, ErrorCode):
        return FetchResponse(error_code=int(session))
    asker = Asker(replica.replica_id, replica.replica_epoch)
    if session.session is not None and replica.replica_id >= 0:
        fetches.arrived(session.session, asker)
    context.add_buffered(PARTITION_BYTES * max(0, len(session.partitions) - len(wanted)))
    parts = FetchParts(
        clocks, cold_reads, config, fetches, metadata, replicas, storage, driver, throttle
    )
    return (yield from _Fetch(parts, context, request, session, replica).begin())


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


def _selector(
    parts: FetchParts, context: RequestContext, rack: str
) -> Callable[[HostedPartition, int], int] | None:
    """Who says which replica a consumer in `rack` is to read from; None: nobody."""
    if not rack or not parts.config.get("replica.selector.class"):
        return None
    return rack_selector(
        parts.metadata.image,
        parts.config.node_id,
        context.listener_name,
        rack,
        parts.clocks.now_ms(),
    )


def _holds_back(
    throttle: LeaderThrottle, replica_id: int
) -> Callable[[HostedPartition], bool] | None:
    """Who says whether a follower is held back; None: nobody."""
    if not throttle.is_limited:
        return None
    return lambda hosted: throttle.holds_back(hosted, replica_id)


class _Fetch:
    """One fetch request until its answer."""

    __slots__ = ("_context", "_looks", "_parked", "_parts", "_session", "_terms")

    def __init__(
        self,
        parts: FetchParts,
        context: RequestContext,
        request: FetchRequest,
        session: FetchContext[SessionKey],
        replica: ReplicaState,
    ) -> None:
        version = context.api_version
        max_bytes = min(request.max_bytes, parts.config.get("fetch.max.bytes"))
        waits = request.max_wait_ms > 0
        is_replica = replica.replica_id >= 0
        self._parts = parts
        self._context = context
        self._session = session
        self._terms = FetchTerms(
            min_bytes=min(request.min_bytes, max_bytes),
            max_bytes=max_bytes,
            deadline_ms=parts.clocks.now_ms() + request.max_wait_ms if waits else NO_WAIT,
            replica_id=replica.replica_id,
            isolation=request.isolation_level,
            leader_only=version < FOLLOWERS_SERVE_FROM,
            knows_zstd=version >= ZSTD_FROM,
            broker_epoch=replica.replica_epoch,
            choose_replica=None if is_replica else _selector(parts, context, request.rack_id),
            is_held_back=_holds_back(parts.throttle, replica.replica_id) if is_replica else None,
        )
        self._parked: PendingFetch[str] | None = None
        self._looks: list[PartitionLook] | None = None

    def begin(self) -> Pieces:
        """Answer, or park."""
        looks = yield from self._look()
        others_ran = self._terms.is_replica or len(looks) >= PARTITIONS_PER_PIECE
        if len(looks) >= PARTITIONS_PER_PIECE:
            yield None
        sizes: list[int] | None = None
        for tries in range(COLD_TRIES + 1):
            is_old = others_ran and is_out_of_date(
                looks, self._terms, len(self._session.partitions)
            )
            if is_old:
                break
            try:
                sizes = self._bytes_to_wait_with(looks, tries)
                break
            except NotCachedError as cold:
                yield self._parts.cold_reads.begin(cold)
                others_ran = True
        if sizes is None:
            self._looks = None if is_old else looks
            self.complete()
            self._looks = None  # good for as long as nothing else runs in between
            return None
        keys = [look.partition.key for look in looks if look.partition is not None]
        self._parked = self._parts.fetches.park(
            self.complete,
            {key: look.wanted for key, look in zip(keys, looks, strict=True)},
            self._terms,
            zip(keys, sizes, strict=True),
            self._session.session,
        )
        self._context.on_disconnect(self._abandon)
        return None

    def _bytes_to_wait_with(self, looks: list[PartitionLook], tries: int) -> list[int] | None:
        """See `bytes_to_wait_with`. NotCachedError, see `ColdReads.reading`."""
        with self._parts.cold_reads.reading(tries):
            return bytes_to_wait_with(looks, self._terms, others_are_quiet=self._session.has_quiet)

    def complete(self) -> None:
        """The wait is over."""
        self._unpark()
        if not self._context.answered:
            self._context.reply_in_pieces(self._respond())

    def _respond(self) -> Pieces:
        """The response. Begun when the connection is ready to send it."""
        answer = FetchAnswer(self._parts, self._context, self._session, self._terms)
        return (yield from answer.make(self._looks))

    def _abandon(self) -> None:
        parked = self._unpark()
        if parked is not None:
            self._parts.fetches.cancel(parked)

    def _unpark(self) -> PendingFetch[str] | None:
        """What waited, if it did; nothing is to refer to it any more, as it refers to this."""
        parked, self._parked = self._parked, None
        session = self._session.session
        if session is not None and session.waiting is parked:
            session.waiting = None
        return parked

    # -- looking ---------------------------------------------------------------------------

    def _look(self) -> Generator[None, None, list[PartitionLook]]:
        """Look at all partitions, on arrival: followers' fetches count now, and once."""
        looks = []
        driver, terms = self._parts.driver, self._terms
        for wanted in self._session.partitions:
            hosted = self._parts.find(wanted, self._context.api_version)
            looks.append(
                look_on_arrival(driver, hosted, wanted, terms)
                if terms.is_replica
                else look_at(hosted, wanted, terms)
            )
            if len(looks) % PARTITIONS_PER_PIECE == 0:
                yield
        return looks
