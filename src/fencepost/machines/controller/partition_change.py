"""One change of one partition: what should become of it, and the record that makes it so.

Theory of operation
-------------------
Whatever the occasion (a broker goes or comes, a leader has another in-sync set, an operator moves
replicas or asks for an election), `propose_change` turns what is asked for into one change record,
or into none if nothing changes. The steps are always the same ones, and each sees what those before
it have done:

1. A reassignment is completed if it can be: all replicas that come are in sync, one is left that
   does not go, and the move does not itself leave fewer in sync than the min ISR. With fewer that
   come than go, all that stay have to be in sync (KAFKA-14190).
2. Who is eligible is known (KIP-966): with fewer in sync than the min ISR, those that were in sync
   or eligible before and did not lose anything stay eligible; otherwise no replica is.
3. A leader is elected, by the table below.
4. The leader epoch rises if a replica is taken away, so that it is fenced, even if the leader
   stays: the record then names the same leader.
5. The eligible replicas are written down; an unclean election ends them.
6. The in-sync set is written down. It becomes empty only with eligible replicas; without them the
   last member stays in it without leading, because it alone has all the data.
7. The leader epoch rises if the in-sync set shrinks: only before 3.6-IV0 (KAFKA-15021).
8. The last known leader is written down when no replica is in sync any more, and forgotten when
   there is a leader.
9. Replicas, their directories, and those that come and go are written down.
10. The recovery state is written down.

| in this order; the first that may lead is elected                  | election  | is clean |
|--------------------------------------------------------------------|-----------|----------|
| the preferred replica, which is the first, if it is valid          | PREFERRED | yes      |
| the present leader, if it is valid                                 | all       | yes      |
| the replicas in their order, if they are valid                     | all       | yes      |
| the last known leader, if none is in sync or eligible (KIP-966)    | all       | no       |
| the replicas in their order                                        | UNCLEAN   | no       |
| none                                                               | all       | yes      |

A replica is valid if it is in sync, or if it is eligible and no replica is in sync. A leader that
is elected from among the eligible ones is the only one in sync from then on. An unclean election
loses data and says so (`RECOVERING`).

Deviations: Kafka completes a reassignment also when too few are left in sync by it, and acks=all is
refused from then on. A replica that is taken away does not stay eligible. Kafka leaves it in the
set, and could elect a broker that has no replica.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from types import MappingProxyType

from msgspec import Struct, field

from fencepost.machines.controller.rules import RULES, ControllerRules
from fencepost.machines.image import (
    DIRECTORY_UNASSIGNED,
    NO_LEADER,
    NO_LEADER_CHANGE,
    RECOVERING,
    BrokerImage,
    ClusterImage,
    PartitionImage,
)
from fencepost.wire.records.metadata import PartitionChangeRecord
from fencepost.wire.types import Uuid

SHRINKS_WITHOUT_EPOCH_SINCE = 12
"""The `metadata.version` from which on an ISR shrinks within a leader epoch: 3.6-IV0."""

ELR_SINCE = 23
"""The `metadata.version` that can say which replicas are eligible: 4.0-IV1."""

ELR_FEATURE = "eligible.leader.replicas.version"

Replicas = tuple[int, ...]
"""Broker ids in the order of preference."""

MayLead = Callable[[int], bool]
"""Whether a broker is alive and has its replica; being in sync is another matter."""


class Election(Enum):
    """How a leader is looked for: to keep the partition online, to get back to the preferred
    replica, or at the price of data."""

    ONLINE = "online"
    PREFERRED = "preferred"
    UNCLEAN = "unclean"


class Target(Struct, frozen=True):
    """What should become of a partition; None leaves it as it is.

    `replicas` are all that have the partition while it moves, `removing` and `adding` those of them
    that go in the end and those that come. `directories` are those of single replicas, by broker.
    `lost` are brokers that may lack records they had: they are not eligible any more.
    """

    isr: Replicas | None = None
    recovery_state: int | None = None
    election: Election = Election.ONLINE
    replicas: Replicas | None = None
    removing: Replicas | None = None
    adding: Replicas | None = None
    directories: Mapping[int, Uuid] = field(default_factory=lambda: MappingProxyType({}))
    lost: frozenset[int] = frozenset()


def propose_change(
    topic_id: Uuid,
    index: int,
    partition: PartitionImage,
    target: Target,
    may_lead: MayLead,
    image: ClusterImage,
    min_isr: int = 1,
    rules: ControllerRules = RULES,
) -> PartitionChangeRecord | None:
    """The record that makes `partition` what `target` says, or None if it is that already.

    `image` is the cluster that the partition is of. With `min_isr` replicas in sync
    (`TopicPolicies.min_isr`) none has to be eligible.
    """
    draft = _Draft(partition, target, is_elr_enabled(image), min_isr, rules)
    record = PartitionChangeRecord(topic_id=topic_id, partition_id=index)
    draft.complete_reassignment()
    draft.keep_eligible()
    draft.elect(record, may_lead)
    draft.fence_removed(record)
    draft.write_eligible(record)
    draft.write_isr(record)
    draft.fence_shrunk(record, image.metadata_version)
    draft.write_last_known_leader(record)
    draft.write_assignment(record, image)
    draft.write_recovery_state(record)
    return None if _says_nothing(record) else record


def is_elr_enabled(image: ClusterImage) -> bool:
    """Whether the cluster keeps eligible leader replicas (KIP-966)."""
    return image.features.get(ELR_FEATURE, 0) > 0 and image.metadata_version >= ELR_SINCE


class _Draft:
    """A change in the making; see the module docstring for the steps."""

    def __init__(
        self,
        partition: PartitionImage,
        target: Target,
        is_elr_enabled: bool,
        min_isr: int,
        rules: ControllerRules,
    ) -> None:
        self._rules = rules
        self._partition = partition
        self._target = target
        self._is_elr_enabled = is_elr_enabled
        self._min_isr = min_isr
        self._is_unclean = False
        self._isr = _or(target.isr, partition.isr)
        self._replicas = _or(target.replicas, partition.replicas)
        self._removing = _or(target.removing, partition.removing_replicas)
        self._adding = _or(target.adding, partition.adding_replicas)
        self._eligible = partition.eligible_leader_replicas

    def complete_reassignment(self) -> None:
        """Step 1."""
        if not self._removing and not self._adding:
            return
        isr = _without(self._isr, self._removing)
        replicas = _without(self._replicas, self._removing)
        enough = min(self._min_isr, len(replicas))
        if not replicas or not self._rules.may_end_move(
            frozenset(self._adding), frozenset(self._isr), frozenset(isr), enough
        ):
            return
        if len(self._adding) < len(self._removing) and not set(replicas) <= set(isr):
            return
        self._isr, self._replicas = isr, replicas
        self._removing = self._adding = ()

    def keep_eligible(self) -> None:
        """Step 2."""
        if not self._is_elr_enabled:
            return
        if len(self._isr) >= self._min_isr:
            self._eligible = ()
            return
        before = {*self._partition.isr, *self._partition.eligible_leader_replicas}
        gone = {*self._isr, *self._target.lost}
        self._eligible = tuple(sorted((before & set(self._replicas)) - gone))

    def elect(self, record: PartitionChangeRecord, may_lead: MayLead) -> None:
        """Step 3."""
        leader, is_unclean = self._elected(may_lead)
        if leader == self._partition.leader:
            return
        record.leader = leader
        self._is_unclean = is_unclean
        if is_unclean or leader in self._eligible:
            self._isr = (leader,)
            self._eligible = _without(self._eligible, (leader,))

    def _elected(self, may_lead: MayLead) -> tuple[int, bool]:
        """The leader, or NO_LEADER, and whether it was elected uncleanly."""
        candidates = self._isr or self._eligible
        election = self._target.election
        in_order = [self._partition.leader, *self._replicas]
        if election is Election.PREFERRED:
            in_order.insert(0, self._replicas[0])
        for replica in in_order:
            if replica in candidates and may_lead(replica):
                return replica, False
        last = self._last_known_leader()
        if last is not None and may_lead(last):
            return last, True
        if election is Election.UNCLEAN:
            for replica in self._replicas:
                if may_lead(replica):
                    return replica, True
        return NO_LEADER, False

    def _last_known_leader(self) -> int | None:
        """The replica that led last, if that is all that is known of the partition, alive or not.

        It may lead again, at the price of data, when no replica is in sync or eligible (KIP-966,
        KAFKA-19522).
        Several names are not of a leader: another mode of Kafka's writes those.
        """
        known = self._partition.last_known_elr
        if not self._is_elr_enabled or self._isr or self._eligible or len(known) != 1:
            return None
        return known[0] if known[0] in self._replicas else None

    def fence_removed(self, record: PartitionChangeRecord) -> None:
        """Step 4: another leader epoch when a replica is taken away.

        It fences the replica, and has the leader forget what the replica had: if it comes back it
        is empty, and the leader may hear of both at once (S20).
        """
        is_fewer = not set(self._partition.replicas) <= set(self._replicas)
        if is_fewer and record.leader == NO_LEADER_CHANGE:
            record.leader = self._partition.leader

    def write_eligible(self, record: PartitionChangeRecord) -> None:
        """Step 5."""
        if self._is_unclean or not self._is_elr_enabled:
            self._eligible = ()
        if self._eligible != self._partition.eligible_leader_replicas:
            record.eligible_leader_replicas = list(self._eligible)

    def write_isr(self, record: PartitionChangeRecord) -> None:
        """Step 6."""
        if self._isr != self._partition.isr and (self._isr or self._is_elr_enabled):
            record.isr = list(self._isr)

    def fence_shrunk(self, record: PartitionChangeRecord, metadata_version: int) -> None:
        """Step 7."""
        if metadata_version >= SHRINKS_WITHOUT_EPOCH_SINCE or record.isr is None:
            return
        if record.leader == NO_LEADER_CHANGE and not set(self._partition.isr) <= set(record.isr):
            record.leader = self._partition.leader

    def write_last_known_leader(self, record: PartitionChangeRecord) -> None:
        """Step 8."""
        if not self._is_elr_enabled:
            return
        before, known = self._partition.leader, self._partition.last_known_elr
        leader = before if record.leader == NO_LEADER_CHANGE else record.leader
        if record.isr is not None and not record.isr and before != NO_LEADER:
            if known != (before,):
                record.last_known_elr = [before]
        elif leader != NO_LEADER and known:
            record.last_known_elr = []

    def write_assignment(self, record: PartitionChangeRecord, image: ClusterImage) -> None:
        """Step 9."""
        partition = self._partition
        if image.has_directories:
            known = dict(zip(partition.replicas, partition.directories, strict=True))
            known.update(self._target.directories)
            directories = [
                known[id_] if id_ in known else default_directory(image.brokers, id_)
                for id_ in self._replicas
            ]
            if directories != list(partition.directories):
                record.directories = directories
        if self._replicas != partition.replicas:
            record.replicas = list(self._replicas)
        if self._removing != partition.removing_replicas:
            record.removing_replicas = list(self._removing)
        if self._adding != partition.adding_replicas:
            record.adding_replicas = list(self._adding)

    def write_recovery_state(self, record: PartitionChangeRecord) -> None:
        """Step 10: that data may be lost by an unclean election is written down (KIP-704)."""
        before = self._partition.leader_recovery_state
        state = before if self._target.recovery_state is None else self._target.recovery_state
        if self._is_unclean:
            state = RECOVERING
        if state != before:
            record.leader_recovery_state = state


def _or(target: Replicas | None, present: Replicas) -> Replicas:
    return present if target is None else target


def _without(replicas: Replicas, those: Iterable[int]) -> Replicas:
    gone = set(those)
    return tuple(id_ for id_ in replicas if id_ not in gone)


def default_directory(brokers: Mapping[int, BrokerImage], broker_id: int) -> Uuid:
    """Where a new replica on the broker goes; a broker that is not registered decides later."""
    broker = brokers.get(broker_id)
    return DIRECTORY_UNASSIGNED if broker is None else broker.default_directory


def _says_nothing(record: PartitionChangeRecord) -> bool:
    return (
        record.leader == NO_LEADER_CHANGE
        and record.leader_recovery_state < 0
        and record.isr is None
        and record.eligible_leader_replicas is None
        and record.last_known_elr is None
        and record.replicas is None
        and record.removing_replicas is None
        and record.adding_replicas is None
        and record.directories is None
    )
