"""Fetch (key 1) v4-18: log data, now or when there is some.

Which partitions are meant and which belong in the answer is the session's (KIP-227), what a reader
may see of one is the partition machine's, and when the fetch is answered, with how much of what, is
`machines.fetch.answering`'s to say; here requests and answers are translated, and batches are read.
They are read when the connection is ready to send them (`reply_in_pieces`), never earlier, and no
more of them than the memory budget has left besides answers that clients have not taken yet. A
partition that a request names twice counts once, as named last.

A follower's fetch tells the partition how far the follower has come, when it arrives and before it
is answered or waits; it may read up to the log's end, and what it waits for is the log's end too.

Version rules: topics go by id from v13; up to v5 KAFKA_STORAGE_ERROR is told as
NOT_LEADER_OR_FOLLOWER; before v10 topics stored as zstd are UNSUPPORTED_COMPRESSION_TYPE; before
v11 only leaders serve consumers, and from it on they may name a replica in the consumer's rack
(KIP-392), which serves it up to its own high watermark; from v12 errors 6 and 74 carry the current
leader, from v16 with its address (KIP-951). Records are empty, never null.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import NamedTuple

from fencepost.batch.header import measure
from fencepost.broker.cluster.leader_hints import LeaderHints
from fencepost.broker.cluster.metadata_cache import MetadataCache
from fencepost.broker.config.broker_config import BrokerConfig
from fencepost.broker.net.registry import Pieces, handles
from fencepost.broker.net.request_context import RequestContext
from fencepost.broker.replicas.read_replicas import rack_selector
from fencepost.broker.replicas.throttles import LeaderThrottle
from fencepost.broker.storage.storage import Storage
from fencepost.log.error_codes import LOG_ERRORS
from fencepost.log.reading import ReadResult
from fencepost.machines.driver import Driver
from fencepost.machines.fetch import (
    NO_WAIT,
    Asker,
    FetchContext,
    FetchOutcome,
    FetchTerms,
    FetchWanted,
    Look,
    PendingFetch,
    ReadBudget,
    bytes_to_wait_with,
    is_out_of_date,
    look_at,
)
from fencepost.machines.partition import Isolation
from fencepost.machines.partition.inputs import ANY_BROKER_EPOCH
from fencepost.runtime.clock import Clocks
from fencepost.runtime.delayed_fetches import FetchHost, SessionKey
from fencepost.runtime.fetching import look_on_arrival
from fencepost.runtime.log_errors import answer_log_error
from fencepost.runtime.replicas import HostedPartition, ReplicaManager
from fencepost.wire.api.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ReplicaState,
)
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Uuid

_Look = Look[HostedPartition, SessionKey]

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


class _Parts(NamedTuple):
    """What fetches are answered from."""

    clocks: Clocks
    config: BrokerConfig
    fetches: FetchHost
    metadata: MetadataCache
    replicas: ReplicaManager
    storage: Storage
    driver: Driver
    throttle: LeaderThrottle


@handles(FetchRequest, versions="4-18")
def handle(
    context: RequestContext,
    request: FetchRequest,
    *,
    clocks: Clocks,
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
    parts = _Parts(clocks, config, fetches, metadata, replicas, storage, driver, throttle)
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
    parts: _Parts, context: RequestContext, rack: str
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
        parts: _Parts,
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
        self._looks: list[_Look] | None = None

    def begin(self) -> Pieces:
        """Answer, or park."""
        is_small = len(self._session.partitions) < PARTITIONS_PER_PIECE
        looks = yield from self._look()
        others_ran = self._terms.is_replica or not is_small
        is_old = others_ran and is_out_of_date(looks, self._terms, len(self._session.partitions))
        sizes = None
        if not is_old:
            sizes = bytes_to_wait_with(looks, self._terms, others_are_quiet=self._session.has_quiet)
        if sizes is None:
            self._looks = looks if is_small and not is_old else None
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

    def complete(self) -> None:
        """The wait is over."""
        self._unpark()
        if not self._context.answered:
            self._context.reply_in_pieces(self._respond())

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

    def _look(self) -> Generator[None, None, list[_Look]]:
        """Look at all partitions, on arrival: followers' fetches count now, and once."""
        looks = []
        driver, terms = self._parts.driver, self._terms
        for wanted in self._session.partitions:
            hosted = self._find(wanted)
            looks.append(
                look_on_arrival(driver, hosted, wanted, terms)
                if terms.is_replica
                else look_at(hosted, wanted, terms)
            )
            if len(looks) % PARTITIONS_PER_PIECE == 0:
                yield
        return looks

    def _find(self, wanted: FetchWanted[SessionKey]) -> HostedPartition | ErrorCode:
        topic, index = wanted.key
        replicas = self._parts.replicas
        if self._context.api_version >= TOPIC_IDS_FROM:
            assert isinstance(topic, Uuid)
            return replicas.by_id(topic, index)
        assert isinstance(topic, str)
        return replicas.get(topic, index)

    # -- answering -------------------------------------------------------------------------

    def _respond(self) -> Generator[None, None, FetchResponse]:
        """Read, and compose the response. Begun when the connection is ready to send it."""
        looks: list[_Look] = []
        parts: list[PartitionData] = []
        outcomes: list[tuple[SessionKey, FetchOutcome]] = []
        budget = ReadBudget(min(self._terms.max_bytes, self._context.available_bytes))
        looked_at: Sequence[_Look | FetchWanted[SessionKey]] = (
            self._session.partitions if self._looks is None else self._looks
        )
        for position, one in enumerate(looked_at):
            if position % PARTITIONS_PER_PIECE == PARTITIONS_PER_PIECE - 1:
                yield
            if isinstance(one, FetchWanted):
                one = look_at(self._find(one), one, self._terms)
            looks.append(one)
            part, size_bytes = self._read_partition(one, budget)
            budget.spend(size_bytes)
            if one.partition is not None:
                one.partition.traffic.fetched(size_bytes, part.error_code, self._terms.is_replica)
            parts.append(part)
            if self._terms.is_replica and one.is_at_end and not part.error_code:
                self._settle(one)
            outcomes.append(
                (
                    one.wanted.key,
                    FetchOutcome(
                        size_bytes,
                        part.high_watermark,
                        part.log_start_offset,
                        part.error_code,
                        part.diverging_epoch.end_offset >= 0,
                        part.preferred_read_replica >= 0,
                    ),
                )
            )
        finished = self._session.finish(outcomes, self._parts.clocks.now_ms())
        response = FetchResponse(
            error_code=int(finished.error_code), session_id=finished.session_id
        )
        self._group(response, looks, parts, finished.included)
        return response

    def _settle(self, look: _Look) -> None:
        """A follower has all of the partition: its session need not look until that moves."""
        session = self._session.session
        if session is not None and look.partition is not None:
            asker = Asker(self._terms.replica_id, self._terms.broker_epoch)
            self._parts.fetches.settle(session, look.partition, look.wanted.key, asker)

    def _read_partition(self, look: _Look, budget: ReadBudget) -> tuple[PartitionData, int]:
        """One partition's part of the response, and how many bytes of records it has."""
        index = look.wanted.key[1]
        bounds = look.bounds
        if bounds is None:
            return self._refused(index, look.error), 0
        part = PartitionData(
            partition_index=index,
            high_watermark=bounds.high_watermark,
            last_stable_offset=bounds.last_stable_offset,
            log_start_offset=bounds.log_start_offset,
            aborted_transactions=[] if self._reads_committed else None,
            preferred_read_replica=bounds.preferred_replica,
            records=(),
        )
        if bounds.diverging is not None:
            part.diverging_epoch = EpochEndOffset(
                epoch=bounds.diverging.epoch, end_offset=bounds.diverging.end_offset
            )
            return part, 0
        limit_bytes = budget.limit_for(look)
        if limit_bytes is None:
            return part, 0
        hosted, offset = look.partition, look.wanted.fetch_offset
        assert hosted is not None, "only what is here is read"
        try:
            with self._parts.storage.descriptors.without_waiting():
                data = hosted.log.read(
                    offset, limit_bytes, bounds.upper_bound, budget.takes_any_batch
                )
                if self._reads_committed:
                    part.aborted_transactions = _aborted(hosted, offset, data)
        except LOG_ERRORS as error:
            code = answer_log_error(self._parts.replicas, hosted, "reading", error)
            return self._refused(index, code), 0
        part.records = data.buffers
        if self._terms.is_replica:
            self._parts.throttle.record(hosted, data.size_bytes)
        return part, data.size_bytes

    @property
    def _reads_committed(self) -> bool:
        return self._terms.isolation == Isolation.READ_COMMITTED

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
        looks: list[_Look],
        parts: list[PartitionData],
        included: Sequence[int],
    ) -> None:
        """Put the chosen parts into the response, neighbours of one topic together."""
        by_id = self._context.api_version >= TOPIC_IDS_FROM
        hints: LeaderHints | None = None
        topics = response.responses
        last: object = None
        for position in included:
            topic, index = looks[position].wanted.key
            part = parts[position]
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
