"""Which replicas are in sync with a leader, and how far all of those have got.

Theory of operation
-------------------
Three sets matter (KIP-497, KIP-966):

* the *committed* ISR is what the controller has written;
* the *maximal* ISR is what the controller might make of it while a request is in flight: with an
  expansion the proposed set, with a shrink still the committed one. A replica that may be elected
  must hold what we acknowledge, so the high watermark follows the maximal set;
* a replica that is *joining* is caught up and may enter the ISR but is not in it yet. The high
  watermark waits for it as well, or it would never be caught up at the moment it is added.

The high watermark is the least position over the leader's own durable end, the maximal ISR and the
joining replicas. It does not advance while the committed ISR is smaller than `min.insync.replicas`:
what is acknowledged or shown to consumers then could be lost with fewer brokers than promised.

A follower's position is the offset it asks for under the current epoch: it asks only for what lies
behind its durable end. It is *caught up* while it asked, no longer than
`replica.lag.time.max.ms` ago, for the leader's end offset of that moment. Time in which the leader
itself did not run does not count: followers could not ask it (`forgive`).

A leader that was elected uncleanly tells the controller that it has settled with its next request,
whatever that is for; nothing is sent for this alone (KIP-704).

Nothing here sends a message: `LeaderState` belongs to one leader epoch and goes with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar, Final

from fencepost.machines.partition.inputs import (
    ANY_BROKER_EPOCH,
    AlterPartition,
    BecomeLeader,
    FollowerFetched,
    PartitionConfig,
    RecoveryState,
    ReplicaInSync,
)
from fencepost.machines.partition.rules import RULES, PartitionRules

UNKNOWN_OFFSET: Final = -1
NEVER_WRITTEN: Final = -1
"""A partition epoch before all others."""
NEVER_MS: Final = -(1 << 62)
"""A time before all others, wherever the monotonic clock began."""


class IsrChanges:
    """How often the in-sync set of a partition has changed while this replica led it."""

    __slots__ = ("expands", "failures", "shrinks")

    def __init__(self) -> None:
        self.shrinks = 0
        self.expands = 0
        self.failures = 0
        """Requests to change it that the controller refused."""

    def note(self, before: frozenset[int], now: frozenset[int]) -> None:
        """It was `before` and is `now`; replicas may have left and entered at once."""
        self.shrinks += not before <= now
        self.expands += not now <= before

    def add(self, other: IsrChanges) -> None:
        """Add what another one has counted."""
        self.shrinks += other.shrinks
        self.expands += other.expands
        self.failures += other.failures


class FollowerState:
    """What the leader knows of one other replica."""

    __slots__ = (
        "broker_epoch",
        "last_caught_up_ms",
        "last_fetch_leader_end",
        "last_fetch_ms",
        "log_start_offset",
        "offset",
    )

    def __init__(self, caught_up_ms: int) -> None:
        self.offset = UNKNOWN_OFFSET
        self.log_start_offset = UNKNOWN_OFFSET
        self.broker_epoch = ANY_BROKER_EPOCH
        self.last_caught_up_ms = caught_up_ms
        self.last_fetch_leader_end = 0
        self.last_fetch_ms = NEVER_MS

    def fetched(self, fetch: FollowerFetched, leader_end: int, now_ms: int) -> None:
        """The follower asked for an offset while the leader's log ended at `leader_end`.

        Asking now for what was the end at the last fetch proves that it was caught up then.
        """
        offset = fetch.fetch_offset
        if offset >= leader_end:
            self.last_caught_up_ms = max(self.last_caught_up_ms, now_ms)
        elif offset >= self.last_fetch_leader_end:
            self.last_caught_up_ms = max(self.last_caught_up_ms, self.last_fetch_ms)
        self.offset = offset
        self.broker_epoch = fetch.broker_epoch
        self.log_start_offset = fetch.log_start_offset
        self.last_fetch_leader_end = leader_end
        self.last_fetch_ms = now_ms

    def seen(self, at_ms: int) -> None:
        """It had asked, until then, for what it asked for last, which was the log's end."""
        self.last_fetch_ms = max(self.last_fetch_ms, at_ms)
        if self.offset >= self.last_fetch_leader_end:
            self.last_caught_up_ms = max(self.last_caught_up_ms, at_ms)

    def forget_time(self, now_ms: int) -> None:
        """What is not of this moment is long ago, as a search takes it that leaves time out.

        When it fetched last, and where the leader's log ended then, matter only while it has not
        been caught up since.
        """
        self.last_caught_up_ms = 0 if self.last_caught_up_ms == now_ms else NEVER_MS
        self.last_fetch_ms = 0 if self.last_fetch_ms == now_ms else NEVER_MS
        if self.last_caught_up_ms == 0 or self.last_fetch_ms == NEVER_MS:
            self.last_fetch_ms = self.last_caught_up_ms
            self.last_fetch_leader_end = 0

    def is_caught_up(self, leader_end: int, now_ms: int, lag_max_ms: int) -> bool:
        """Whether it is at the end, or was not long ago."""
        return self.offset == leader_end or now_ms - self.last_caught_up_ms <= lag_max_ms


class LeaderState:
    """What a leader knows in one leader epoch, from becoming leader to leading no longer."""

    __slots__ = (
        "_eligible",
        "_local_id",
        "_rules",
        "epoch_start_offset",
        "followers",
        "isr",
        "leader_epoch",
        "partition_epoch",
        "pending",
    )

    NOT_STATE: ClassVar = frozenset(("_rules",))

    def __init__(
        self,
        local_id: int,
        metadata: BecomeLeader,
        epoch_start_offset: int,
        now_ms: int,
        rules: PartitionRules = RULES,
    ) -> None:
        self._local_id = local_id
        self._rules = rules
        self.leader_epoch = metadata.leader_epoch
        self.epoch_start_offset = epoch_start_offset
        self.followers: dict[int, FollowerState] = {}
        self.partition_epoch = NEVER_WRITTEN
        self.follow(metadata, now_ms)

    def follow(self, metadata: BecomeLeader, now_ms: int) -> bool:
        """Take over the controller's assignment and in-sync set; False if they are outdated.

        The answer to an AlterPartition may have brought this in-sync set before. Then there is
        nothing to learn but who the replicas are, which it does not say, and what was asked for
        since then is still asked for.
        """
        if metadata.partition_epoch < self.partition_epoch:
            return False
        if metadata.partition_epoch > self.partition_epoch:
            self.partition_epoch = metadata.partition_epoch
            self.isr = frozenset(metadata.isr)
            self.pending: AlterPartition | None = None
        self._eligible = metadata.eligible
        self.followers = {
            broker_id: self.followers.get(broker_id)
            or FollowerState(now_ms if broker_id in self.isr else NEVER_MS)
            for broker_id in metadata.replicas
            if broker_id != self._local_id
        }
        return True

    def brokers_changed(self, eligible: Mapping[int, int]) -> None:
        """Other brokers may enter the in-sync set from now on."""
        self._eligible = eligible

    def is_of_former_incarnation(self, broker_id: int, broker_epoch: int) -> bool:
        """Whether a fetch comes from a former incarnation of the broker (KIP-903, KAFKA-15221).

        A younger one has fetched, or is registered. What the older one has may be gone with it.
        """
        if broker_epoch == ANY_BROKER_EPOCH:
            return False
        registered = self._eligible.get(broker_id, ANY_BROKER_EPOCH)
        newest = max(self.followers[broker_id].broker_epoch, registered)
        return self._rules.is_former_incarnation(broker_epoch, newest)

    @property
    def maximal_isr(self) -> frozenset[int]:
        """All replicas that the controller may have in the in-sync set by now."""
        if self.pending is None:
            return self.isr
        return self._rules.counted_isr(self.isr, _members(self.pending))

    def is_under_min_isr(self, config: PartitionConfig) -> bool:
        """Whether the committed in-sync set is too small to acknowledge anything."""
        isr = self.isr
        if self.pending is not None:
            isr = self._rules.isr_to_acknowledge_with(isr, _members(self.pending))
        # `min.insync.replicas`, but never more than there are replicas.
        return len(isr) < config.min_insync_replicas and len(isr) <= len(self.followers)

    def forgive(self, paused_ms: int) -> None:
        """The leader was paused for so long, which does not count as its followers' lag."""
        for follower in self.followers.values():
            if follower.last_caught_up_ms > NEVER_MS:
                follower.last_caught_up_ms += paused_ms
            if follower.last_fetch_ms > NEVER_MS:
                follower.last_fetch_ms += paused_ms

    def low_watermark(self, start_offset: int) -> int:
        """The least start of the logs of all live replicas; the leader's is at `start_offset`.

        Kafka waits for a broker that is about to stop, too; this leader does not (KIP-841).
        """
        least = start_offset
        for broker_id, follower in self.followers.items():
            if follower.log_start_offset < least and broker_id in self._eligible:
                least = follower.log_start_offset
        return least

    def least_position(
        self, durable_end: int, leader_end: int, config: PartitionConfig, now_ms: int
    ) -> int | None:
        """The least position that counts for the high watermark; None while that may not advance.

        `durable_end` is the leader's own position, `leader_end` where its log ends.
        """
        if self.is_under_min_isr(config):
            return None
        least = durable_end
        maximal = self.maximal_isr
        lag_max_ms = config.replica_lag_time_max_ms
        for broker_id, follower in self.followers.items():
            if follower.offset < least and (
                broker_id in maximal
                or (
                    follower.is_caught_up(leader_end, now_ms, lag_max_ms)
                    and self._is_eligible(broker_id, follower)
                )
            ):
                least = follower.offset
        return least

    def is_behind(self, leader_end: int, lag_max_ms: int, now_ms: int) -> bool:
        """Whether a follower that may count for the high watermark lacks part of the log."""
        return any(
            follower.offset < leader_end
            and (broker_id in self.isr or follower.is_caught_up(leader_end, now_ms, lag_max_ms))
            for broker_id, follower in self.followers.items()
        )

    def propose_expansion(
        self,
        replica_id: int,
        high_watermark: int,
        leader_end: int,
        config: PartitionConfig,
        now_ms: int,
    ) -> AlterPartition | None:
        """The request that adds `replica_id`, if it has become in sync and nothing is in flight."""
        follower = self.followers.get(replica_id)
        if follower is None or self.pending is not None or replica_id in self.isr:
            return None
        if self._local_id not in self._eligible:
            return None  # it is about to stop: the controller would take no set with it
        needed = self._rules.needed_to_join(high_watermark, self.epoch_start_offset)
        if follower.offset < needed or not self._is_eligible(replica_id, follower):
            return None
        if self._rules.must_be_caught_up(self.is_under_min_isr(config)) and (
            not follower.is_caught_up(leader_end, now_ms, config.replica_lag_time_max_ms)
        ):
            return None
        return self._propose((*self.isr, replica_id))

    def propose_shrink(
        self, leader_end: int, config: PartitionConfig, now_ms: int
    ) -> AlterPartition | None:
        """The request that drops the followers that fell behind; None if there is none to send."""
        if self.pending is not None:
            return None
        lag_max_ms = config.replica_lag_time_max_ms
        staying = [
            broker_id
            for broker_id in self.isr
            if (follower := self.followers.get(broker_id)) is None
            or follower.is_caught_up(leader_end, now_ms, lag_max_ms)
        ]
        return self._propose(staying) if len(staying) < len(self.isr) else None

    def commit(self, isr: Iterable[int], partition_epoch: int) -> None:
        """The controller's answer: this is the in-sync set now."""
        self.isr = frozenset(isr)
        self.partition_epoch = partition_epoch
        self.pending = None

    def _propose(self, members: Iterable[int]) -> AlterPartition:
        new_isr = tuple(
            ReplicaInSync(broker_id, self._incarnation(broker_id)) for broker_id in sorted(members)
        )
        self.pending = AlterPartition(
            self.leader_epoch, self.partition_epoch, new_isr, RecoveryState.RECOVERED
        )
        return self.pending

    def _incarnation(self, broker_id: int) -> int:
        """The broker epoch that vouched for the replica's position: the one that fetched.

        Not the one registered now: a broker that came back with an empty disk must not be let in
        on what its former self had (KIP-903).
        """
        follower = self.followers.get(broker_id)
        if follower is None:
            return self._eligible.get(broker_id, ANY_BROKER_EPOCH)
        registered = self._eligible.get(broker_id, ANY_BROKER_EPOCH)
        return self._rules.vouches(follower.broker_epoch, registered)

    def _is_eligible(self, broker_id: int, follower: FollowerState) -> bool:
        """Registered, neither fenced nor leaving, and the same incarnation that fetched."""
        registered = self._eligible.get(broker_id)
        if registered is None:
            return False
        vouching = self._rules.vouches(follower.broker_epoch, registered)
        return vouching in (registered, ANY_BROKER_EPOCH)


def _members(proposal: AlterPartition) -> frozenset[int]:
    return frozenset(replica.broker_id for replica in proposal.new_isr)
