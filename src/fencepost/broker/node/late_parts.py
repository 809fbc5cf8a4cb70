"""`LateParts`: the parts of a broker that are made when they are first needed.

This is the table of them. Each is an attribute whose method is its maker: it makes that part, and
what the part is made of, and no other, and it loads their modules, too, so that a start does
without what not every node needs. The coordinators and their machines alone are eighty modules, an
eighth of what a start would load. What a handler asks for by its class (`HandlerParts`) is found by
the type that a maker says it returns; a start that had the class itself would have loaded its
module.

Some parts are needed when something happens to a replica or a producer rather than by a handler.
`LateParts` hears of that first: it makes the part with which there is something to do from then on,
and tells a part that is there.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from fencepost.broker.node.core import NodeCore
from fencepost.runtime.claims import Claim, OnOutcome
from fencepost.runtime.halted import HaltedReplica
from fencepost.runtime.internal_topics import INTERNAL_TOPICS
from fencepost.runtime.replicas import HostedPartition, ReplicaManager
from fencepost.runtime.requests.parts import MissingPartError

if TYPE_CHECKING:
    from fencepost.broker.cluster.broker_channel import BrokerChannel
    from fencepost.broker.cluster.encoded_topics import EncodedTopics
    from fencepost.broker.net.listener import Listener
    from fencepost.broker.node.coordinators import Coordinators
    from fencepost.broker.node.fetch_serving import FetchServing
    from fencepost.broker.node.fetchers import Fetchers
    from fencepost.broker.node.share_serving import ShareServing
    from fencepost.broker.node.verification import Verification
    from fencepost.broker.storage.cold_reads import ColdReads
    from fencepost.broker.storage.decompression import Decompression
    from fencepost.runtime.delayed_fetches import FetchHost
    from fencepost.runtime.end_offsets import EndOffsets
    from fencepost.runtime.groups import GroupCoordinators
    from fencepost.runtime.log_dir_moves import LogDirMoves
    from fencepost.runtime.markers import MarkerWriter
    from fencepost.runtime.producer_ids import ProducerIds
    from fencepost.runtime.requests.fetch_parts import CachedReads, FetchPolicy
    from fencepost.runtime.requests.parts import (
        InternalTopicCreation,
        LogReads,
        StreamsTopicCreation,
    )
    from fencepost.runtime.share_persister import SharePersister
    from fencepost.runtime.share_sessions import ShareSessionHost
    from fencepost.runtime.share_states import ShareStateCoordinators
    from fencepost.runtime.transactional_commits import TransactionalCommits
    from fencepost.runtime.transactional_writes import TransactionalWrites
    from fencepost.runtime.transactions import TransactionCoordinators
    from fencepost.runtime.verification import OnResponse as OnVerified
    from fencepost.wire.api.add_partitions_to_txn import AddPartitionsToTxnRequest

MOVES_RATE_KEY: Final = "replica.alter.log.dirs.io.max.bytes.per.second"

T = TypeVar("T")


class late(cached_property[T]):  # noqa: N801 - a decorator
    """A part, made when it is first looked at, and closed at once if `LateParts.close` was
    called for it before."""

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        is_new = instance is not None and not instance.is_made(self.attrname)
        part = super().__get__(instance, owner)
        if is_new and self.attrname in instance.closed:
            part.close()
        return part


class Early(Protocol):
    """What late parts are made of that a broker has from the start."""

    listener: Listener
    replicas: ReplicaManager
    decompression: Decompression
    producer_ids: ProducerIds
    writes: TransactionalWrites

    @property
    def topic_creation(self) -> InternalTopicCreation:
        """Creates topics that coordinators keep their state in."""
        ...

    @property
    def broker_epoch(self) -> int:
        """The epoch of the registration; -1 before there is one."""
        ...


class LateParts:
    """See the module. It watches the broker's replicas (`runtime.replicas.ReplicaWatcher`), and
    asks coordinators of transactions (`runtime.claims.AsksCoordinators`)."""

    def __init__(self, core: NodeCore, early: Early) -> None:
        self._core = core
        self._early = early
        self.closed: set[str] = set()
        """The names of parts that are closed, or will be as soon as they are made."""

    @late
    def channel(self) -> BrokerChannel:
        """The way to other brokers, to ask coordinators and to send markers."""
        from fencepost.broker.cluster.broker_channel import BrokerChannel

        core = self._core
        return BrokerChannel(core.brokers, core.config.inter_broker_listener, lambda: core.image)

    @late
    def streams_topics(self) -> StreamsTopicCreation:
        """Has the internal topics of Kafka Streams' applications created."""
        from fencepost.broker.cluster.streams_topics import StreamsTopics

        return StreamsTopics(self._core.channel, self._core.now_ms)

    @late
    def cold_reads(self) -> ColdReads:
        """Reads what is not in the page cache, by threads."""
        from fencepost.broker.storage.cold_reads import ColdReads

        return ColdReads(self._core.storage.page_cache, self._core.storage.descriptors)

    @late
    def cached_reads(self) -> CachedReads:
        """Reads what is in the page cache, and has the rest brought in."""
        return self.cold_reads

    @late
    def log_reads(self) -> LogReads:
        """Reads logs, and decompresses batches, without keeping other requests waiting."""
        from fencepost.broker.storage.log_reads import BackgroundLogReads

        return BackgroundLogReads(
            self.cold_reads, self._early.decompression, self._core.storage.descriptors
        )

    @late
    def encoded_topics(self) -> EncodedTopics:
        """Topics of Metadata answers as bytes."""
        from fencepost.broker.cluster.encoded_topics import EncodedTopics

        return EncodedTopics()

    @late
    def moves(self) -> LogDirMoves:
        """Moves replicas between log directories."""
        from fencepost.runtime.log_dir_moves import LogDirMoves

        core = self._core
        moves = LogDirMoves(
            core.config.node_id,
            self._early.replicas,
            core.ports,
            lambda: core.storage.data_dirs,
            lambda: core.image,
            core.storage.preferred,
            lambda path: core.image.has_cordoned_directories and path in core.storage.cordoned,
        )

        def limit() -> None:
            moves.rate.limit = core.settings.get(MOVES_RATE_KEY)

        limit()
        core.settings.watch([MOVES_RATE_KEY], limit)
        return moves

    # -- fetches of consumers and followers, answered ----------------------------------------------

    @late
    def fetch_serving(self) -> FetchServing:
        """What fetches are answered with."""
        from fencepost.broker.node.fetch_serving import FetchServing

        return FetchServing(self._core, self._early.replicas)

    @late
    def fetch_host(self) -> FetchHost:
        """Fetches that wait, and fetch sessions."""
        return self.fetch_serving.host

    @late
    def fetch_policy(self) -> FetchPolicy:
        """What the configuration says about fetches."""
        return self.fetch_serving.policy

    # -- fetches of share consumers ----------------------------------------------------------------

    @late
    def share_serving(self) -> ShareServing:
        """What share consumers are answered with."""
        from fencepost.broker.node.share_serving import ShareServing

        early = self._early
        return ShareServing(
            self._core,
            early.replicas,
            early.listener,
            self.fetch_serving,
            self.log_reads,
            self.share_persister,
            self.channel,
        )

    @late
    def share_sessions(self) -> ShareSessionHost:
        """Share sessions, and the share partitions that they read."""
        return self.share_serving.sessions

    # -- fetches of this broker's followers --------------------------------------------------------

    @late
    def fetchers(self) -> Fetchers:
        """What fetches from the brokers that lead."""
        from fencepost.broker.node.fetchers import Fetchers

        return Fetchers(self._core, lambda: self._early.broker_epoch)

    def looked_at(self, hosted: HostedPartition) -> None:
        """The partition's machine has made a step; the first that follows needs fetchers."""
        if hosted.machine.is_following or self.is_made("fetchers"):
            self.fetchers.of_partitions.looked_at(hosted)

    def gone(self, hosted: HostedPartition) -> None:
        """The partition is hosted here no longer."""
        if self.is_made("fetchers"):
            self.fetchers.of_partitions.gone(hosted)
        if self.is_made("fetch_serving"):
            self.fetch_serving.host.gone(hosted)
        if self.is_made("share_serving"):
            self.share_serving.partitions.gone(hosted)

    def halted(self) -> Iterator[HaltedReplica]:
        """The replicas that do not catch up because nothing comes of their fetches."""
        if self.is_made("fetchers"):
            yield from self.fetchers.of_partitions.halted()

    def broken(self, key: Hashable, reason: str) -> bool:
        """A machine broke down: whether it was a fetcher's, in whose place another one goes on."""
        return self.is_made("fetchers") and self.fetchers.broken(key, reason)

    # -- groups and transactions -------------------------------------------------------------------

    @late
    def coordinators(self) -> Coordinators:
        """The coordinators of groups, of transactions and of share partitions."""
        from fencepost.broker.node.coordinators import Coordinators

        early = self._early
        return Coordinators(
            self._core,
            early.replicas,
            self.cold_reads,
            early.decompression,
            early.producer_ids,
            self.channel,
            early.writes,
            early.topic_creation,
        )

    @late
    def groups(self) -> GroupCoordinators:
        """The coordinators of groups."""
        return self.coordinators.groups

    @late
    def transactions(self) -> TransactionCoordinators:
        """The coordinators of transactions."""
        return self.coordinators.transactions

    @late
    def share_states(self) -> ShareStateCoordinators:
        """The coordinators of share partitions."""
        return self.coordinators.share_states

    @late
    def share_persister(self) -> SharePersister:
        """Asks the coordinators of share partitions, here or on other brokers."""
        return self.coordinators.share_persister

    @late
    def end_offsets(self) -> EndOffsets:
        """Asks leaders where partitions end."""
        return self.coordinators.end_offsets

    @late
    def markers(self) -> MarkerWriter:
        """Writes transactions' markers."""
        return self.coordinators.markers

    @late
    def commits(self) -> TransactionalCommits:
        """Commits offsets in transactions."""
        return self.coordinators.commits

    def became_leader(self, hosted: HostedPartition, leader_epoch: int) -> None:
        """This node leads the partition, from now on or in a new epoch."""
        if hosted.topic in INTERNAL_TOPICS:
            self.coordinators.became_leader(hosted, leader_epoch)

    def lost_leadership(self, hosted: HostedPartition, leader_epoch: int | None) -> None:
        """Another node leads the partition in that epoch; None if it is not here any more."""
        if self.is_made("coordinators"):  # else this node did not lead it
            self.coordinators.lost_leadership(hosted, leader_epoch)

    # -- what a leader asks coordinators of transactions (KIP-890) ---------------------------------

    @late
    def verification(self) -> Verification:
        """What asks coordinators before a transaction is written to."""
        from fencepost.broker.node.verification import Verification

        lane = self._core.ports.scheduler.lane()

        def verify_here(request: AddPartitionsToTxnRequest, on_response: OnVerified) -> None:
            lane.begin(self.coordinators.verify(request, on_response))

        return Verification(self._core, self.channel, verify_here)

    def is_asking(self, claim: Claim) -> bool:
        """Whether an earlier claim of the same producer waits for its answer."""
        return self.is_made("verification") and self.verification.verifier.is_asking(claim)

    def ask(self, claim: Claim, on_outcome: OnOutcome) -> None:
        """Ask the coordinator."""
        self.verification.verifier.ask(claim, on_outcome)

    # -- all of them -------------------------------------------------------------------------------

    def is_made(self, name: str) -> bool:
        """Whether that part has been made."""
        return name in self.__dict__

    def close(self, name: str) -> None:
        """Close that part, or what is made of it later."""
        if name not in self.closed:
            self.closed.add(name)
            if self.is_made(name):
                getattr(self, name).close()


MAKERS: Final[Mapping[str, Callable[[LateParts], object]]] = {
    part.func.__annotations__["return"]: part.__get__
    for part in vars(LateParts).values()
    if isinstance(part, late)
}
"""What makes a part, by the name of the class that it says it returns."""


class HandlerParts:
    """The `Parts` that handlers ask for by their classes, early ones and late ones."""

    def __init__(self, parts: Mapping[Any, object], late_parts: LateParts) -> None:
        self._parts = parts
        self._late_parts = late_parts

    def __contains__(self, kind: Any) -> bool:
        """Whether there is a part of that class, or something that makes one."""
        return kind in self._parts or kind.__name__ in MAKERS

    def __getitem__(self, kind: Any) -> object:
        """The part, made now if it has not been yet. MissingPartError for another one."""
        if kind in self._parts:
            return self._parts[kind]
        part = MAKERS[kind.__name__](self._late_parts)
        if not isinstance(part, kind):
            raise MissingPartError(f"what is to make {kind!r} makes {type(part)!r}")
        return part
