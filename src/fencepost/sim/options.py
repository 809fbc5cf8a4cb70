"""What a world is made of, as far as it is not drawn: given by hand, or drawn by `draw_options`."""

from __future__ import annotations

from dataclasses import dataclass, replace

from fencepost.sim.tape import Tape

MOST_NODES = 50
"""Of one world: the sizes that a user can ask for are bounded."""
FIRST_BROKER_ID = 101
FIRST_CLIENT_ID = 1_001
WIRE_ONE_IN = 10
"""One seed in so many sends every message through the codec."""
BROKERS_ONE_IN = 3
"""One seed in so many has simulated brokers."""
DELETERS_ONE_IN = 2
"""One seed with brokers in so many has no client that deletes records."""
EPOCH_MEMBERS_ONE_IN = 4
"""One seed with brokers in so many has members of a consumer group (KIP-848); two in three of those
groups have classic members too."""
MEMBERS_ONE_IN = 3
"""One seed with brokers in so many has members of a group."""

SHARE_CONSUMERS_ONE_IN = 4
"""One seed with brokers and without compacted topics in so many has share consumers."""
TRANSACTORS_ONE_IN = 3
"""One seed with brokers in so many has transactional producers."""
STREAMS_MEMBERS_ONE_IN = 4
"""One seed with brokers in so many has members of a streams group (KIP-1071)."""
GUESTS_ONE_IN = 4
"""One seed with brokers in so many has guests, who may do what ACLs say."""
COMPACTS_ONE_IN = 4
"""One seed with brokers in so many has compacted topics."""


@dataclass(frozen=True, slots=True)
class Options:
    """Sizes and times of one world.

    `faults` None means that the tape draws which are on; a tuple of names means just these.
    Times are in milliseconds of world time. `is_dynamic`: voters come and go (KIP-853). `on_wire`:
    every message is encoded and decoded, at a drawn version. With `by_hand` nothing takes time and
    the scenario or test picks what happens next. Without `has_controller`
    nothing but the quorum itself writes to the log. Of dynamic voters, `joins` has every controller
    add itself, and with `begins_static` the voters are configured until kraft.version is raised.
    `over_budget`: any number of disks may be damaged or lost, and the quorum with them.

    With `brokers` simulated brokers there are up to `topics` topics at a time, whose partitions
    have `replicas` replicas and want `min_isr` of them in sync; `producers` and `consumers` use
    them, `committers` commit offsets of groups for them, `members` are those of one group, and
    `deleters` have records deleted. Followers fetch with a version of Fetch that is no higher than
    `replica_fetch_version`, as from leaders of an older release. `has_elr`: the cluster begins with
    eligible leader replicas (KIP-966), or with `metadata_version` at that level: the newest one
    unless given. `transactors` produce in transactions, in a cluster at level `transaction_version`
    of `transaction.version`; every other consumer reads committed data then. Share groups read
    committed data if `shares_read_committed`, and have a dead letter topic with
    `has_dead_letters`. After `max_idle_ms`
    controllers write NoOpRecords, with 0 never. `compacts`: topics are compacted, those of
    coordinators as well, records have keys, and brokers' cleaners go over their logs. `guests` are
    clients that may do what ACLs say, which change; brokers have an authorizer then, to which all
    others are super users.
    """

    voters: int = 3
    observers: int = 0
    faults: tuple[str, ...] | None = None
    faults_off: tuple[str, ...] = ()
    warm_up_ms: int = 10_000
    safety_ms: int = 30_000
    liveness_ms: int = 60_000
    on_wire: bool = False
    is_dynamic: bool = False
    by_hand: bool = False
    fetch_max_bytes: int = 1 << 20
    election_timeout_ms: int = 1_000
    fetch_timeout_ms: int = 2_000
    request_timeout_ms: int = 2_000
    write_every_ms: int = 200
    segment_bytes: int = 1 << 20
    snapshot_bytes: int = 20 << 20
    snapshot_interval_ms: int = 0
    retention_bytes: int = 100 << 20
    fetch_snapshot_max_bytes: int = 1 << 20
    has_controller: bool = True
    joins: bool = False
    begins_static: bool = False
    over_budget: bool = False
    brokers: int = 0
    replicas: int = 1
    min_isr: int = 1
    producers: int = 4
    consumers: int = 2
    topics: int = 4
    committers: int = 0
    members: int = 0
    epoch_members: int = 0
    mixed_members: int = 0
    share_consumers: int = 0
    streams_members: int = 0
    guests: int = 0
    shares_read_committed: bool = False
    has_dead_letters: bool = False
    deleters: int = 0
    transactors: int = 0
    transaction_version: int = 2
    compacts: bool = False
    transact_every_ms: int = 150
    produce_every_ms: int = 150
    consume_every_ms: int = 100
    commit_every_ms: int = 200
    member_every_ms: int = 300
    session_timeout_ms: int = 9_000
    heartbeat_ms: int = 1_000
    replica_lag_ms: int = 3_000
    replica_fetch_bytes: int = 1 << 20
    replica_fetch_version: int = 18
    has_elr: bool = False
    metadata_version: int = 0
    max_idle_ms: int = 500

    @property
    def node_ids(self) -> tuple[int, ...]:
        """Ids of all nodes; voters come first."""
        return tuple(range(1, self.voters + self.observers + 1))

    @property
    def broker_ids(self) -> tuple[int, ...]:
        """Ids of the simulated brokers."""
        return tuple(range(FIRST_BROKER_ID, FIRST_BROKER_ID + self.brokers))

    @property
    def client_ids(self) -> tuple[int, ...]:
        """Ids of the clients of brokers: producers, consumers, committers, members, deleters,
        transactors, members of a consumer group, the classic ones last, of a share group, and of a
        streams group; guests."""
        clients = self.producers + self.consumers + self.committers + self.members
        others = self.deleters + self.transactors + self.epoch_members + self.mixed_members
        others += self.share_consumers + self.streams_members + self.guests
        count = clients + others if self.brokers else 0
        return tuple(range(FIRST_CLIENT_ID, FIRST_CLIENT_ID + count))

    @property
    def guest_ids(self) -> tuple[int, ...]:
        """Ids of those clients that have names, and may do what ACLs say."""
        return self.client_ids[-self.guests :] if self.guests else ()

    @property
    def voter_ids(self) -> tuple[int, ...]:
        """Ids of the nodes that vote in the beginning."""
        return tuple(range(1, self.voters + 1))


def draw_options(tape: Tape, base: Options | None = None) -> Options:
    """The options of a seed. What `base` says of faults stays as it is."""
    base = base or Options()
    lane = tape.lane("options")
    voters = (3, 5, 3, 4, 2, 1)[_weighted(lane.pick(100), (60, 15, 10, 7, 5, 3))]
    base = base if base.brokers else _draw_brokers(tape, base)
    base = _draw_elr(tape, base) if base.brokers else base
    base = _draw_groups(tape, base) if base.brokers and not base.committers else base
    base = _draw_members(tape, base) if base.brokers and not base.members else base
    base = _draw_deleters(tape, base) if base.brokers and not base.deleters else base
    base = _draw_transactors(tape, base) if base.brokers and not base.transactors else base
    base = _draw_epoch_members(tape, base) if base.brokers and not base.epoch_members else base
    base = _draw_mixed_members(tape, base) if base.epoch_members else base
    can_compact = base.brokers and not base.compacts and not base.share_consumers
    base = _draw_compaction(tape, base) if can_compact else base
    base = _draw_share_consumers(tape, base) if base.brokers and not base.compacts else base
    base = _draw_streams_members(tape, base) if base.brokers and not base.streams_members else base
    base = _draw_guests(tape, base) if base.brokers and not base.guests else base
    return replace(
        base,
        voters=voters,
        observers=(0, 1, 2)[_weighted(lane.pick(100), (60, 30, 10))],
        safety_ms=lane.between(15, 60) * 1_000,
        is_dynamic=(is_dynamic := lane.pick(2) == 1),
        begins_static=is_dynamic and lane.pick(5) == 4,
        joins=is_dynamic and lane.pick(3) == 2,
        on_wire=lane.pick(WIRE_ONE_IN) == WIRE_ONE_IN - 1,
        fetch_max_bytes=(1 << 20, 400, 2_000)[lane.pick(3)],
        write_every_ms=(200, 1_000, 50)[lane.pick(3)],
        segment_bytes=(1 << 20, 4_000, 1_000)[lane.pick(3)],
        snapshot_bytes=(20 << 20, 5_000, 1_000)[lane.pick(3)],
        snapshot_interval_ms=(0, 10_000)[lane.pick(2)],
        retention_bytes=(100 << 20, 0, 20_000)[lane.pick(3)],
        fetch_snapshot_max_bytes=(1 << 20, 300, 2_000)[lane.pick(3)],
    )


def with_brokers(base: Options, brokers: int) -> Options:
    """A world with so many brokers, three replicas of each partition, and two in sync at least.

    ValueError for more brokers than a world has room for.
    """
    if not 1 <= brokers <= MOST_NODES:
        raise ValueError(f"a world has 1 to {MOST_NODES} brokers, not {brokers}")
    return replace(
        base,
        brokers=brokers,
        replicas=min(brokers, 3),
        min_isr=min(brokers, 2),
        session_timeout_ms=3_000,
        replica_lag_ms=1_000,
    )


def _draw_brokers(tape: Tape, base: Options) -> Options:
    """Simulated brokers in every third world, in a lane of their own: the others stay as they are.

    Sessions are short, so that brokers are fenced by what the faults do to them.
    """
    lane = tape.lane("options.brokers")
    if lane.pick(BROKERS_ONE_IN) != BROKERS_ONE_IN - 1:
        return base
    brokers = (3, 2, 4, 1)[_weighted(lane.pick(100), (60, 15, 15, 10))]
    replicas = min(brokers, (3, 2, 1)[_weighted(lane.pick(100), (60, 20, 20))])
    return replace(
        base,
        brokers=brokers,
        replicas=replicas,
        min_isr=min(replicas, (2, 1)[_weighted(lane.pick(100), (60, 40))]),
        session_timeout_ms=(3_000, 9_000)[lane.pick(2)],
        replica_lag_ms=(3_000, 1_000, 10_000)[lane.pick(3)],
        replica_fetch_bytes=(1 << 20, 200)[lane.pick(2)],
        produce_every_ms=(150, 50, 500)[lane.pick(3)],
    )


def _draw_elr(tape: Tape, base: Options) -> Options:
    """Eligible leader replicas in every other world with brokers, in a lane of their own."""
    return replace(base, has_elr=tape.lane("options.elr").pick(2) == 1)


def _draw_groups(tape: Tape, base: Options) -> Options:
    """Committers in every other world with brokers, in a lane of their own."""
    lane = tape.lane("options.groups")
    if lane.pick(2) == 0:
        return base
    return replace(base, committers=1 + lane.pick(3), commit_every_ms=(200, 50)[lane.pick(2)])


def _draw_members(tape: Tape, base: Options) -> Options:
    """Members of a group in every third world with brokers, in a lane of their own."""
    lane = tape.lane("options.members")
    if lane.pick(MEMBERS_ONE_IN) != MEMBERS_ONE_IN - 1:
        return base
    return replace(base, members=2 + lane.pick(2))


def _draw_deleters(tape: Tape, base: Options) -> Options:
    """A client that deletes records in every other world with brokers, likewise."""
    lane = tape.lane("options.deleters")
    return base if lane.pick(DELETERS_ONE_IN) == 0 else replace(base, deleters=1)


def _draw_transactors(tape: Tape, base: Options) -> Options:
    """Transactional producers in every third world with brokers, likewise.

    Most clusters are at the newest level of `transaction.version`.
    """
    lane = tape.lane("options.transactors")
    if lane.pick(TRANSACTORS_ONE_IN) != TRANSACTORS_ONE_IN - 1:
        return base
    return replace(
        base,
        transactors=1 + lane.pick(3),
        transaction_version=(2, 2, 0, 1)[lane.pick(4)],
        producers=2,
    )


def _draw_epoch_members(tape: Tape, base: Options) -> Options:
    """Members of a consumer group in every fourth world with brokers, likewise."""
    lane = tape.lane("options.epoch_members")
    if lane.pick(EPOCH_MEMBERS_ONE_IN) != EPOCH_MEMBERS_ONE_IN - 1:
        return base
    return replace(base, epoch_members=2 + lane.pick(2))


def _draw_mixed_members(tape: Tape, base: Options) -> Options:
    """One or two classic members in two of three consumer groups, likewise."""
    if base.mixed_members:
        return base
    return replace(base, mixed_members=tape.lane("options.mixed_members").pick(3))


def _draw_compaction(tape: Tape, base: Options) -> Options:
    """Compacted topics in every fourth world with brokers, likewise."""
    lane = tape.lane("options.compaction")
    return replace(base, compacts=lane.pick(COMPACTS_ONE_IN) == COMPACTS_ONE_IN - 1)


def _draw_share_consumers(tape: Tape, base: Options) -> Options:
    """Share consumers in every fourth world with brokers that does not compact, likewise."""
    lane = tape.lane("options.share_consumers")
    if base.share_consumers or lane.pick(SHARE_CONSUMERS_ONE_IN) != SHARE_CONSUMERS_ONE_IN - 1:
        return base
    return replace(
        base,
        share_consumers=2 + lane.pick(2),
        shares_read_committed=lane.pick(2) == 1,
        has_dead_letters=lane.pick(2) == 1,
    )


def _draw_streams_members(tape: Tape, base: Options) -> Options:
    """Members of a streams group in every fourth world with brokers, likewise."""
    lane = tape.lane("options.streams_members")
    if lane.pick(STREAMS_MEMBERS_ONE_IN) != STREAMS_MEMBERS_ONE_IN - 1:
        return base
    return replace(base, streams_members=2 + lane.pick(2))


def _draw_guests(tape: Tape, base: Options) -> Options:
    """Guests in every fourth world with brokers, likewise."""
    lane = tape.lane("options.guests")
    if lane.pick(GUESTS_ONE_IN) != GUESTS_ONE_IN - 1:
        return base
    return replace(base, guests=1 + lane.pick(3))


def _weighted(drawn: int, weights: tuple[int, ...]) -> int:
    """The index that a number in [0, sum of weights) falls on."""
    for index, weight in enumerate(weights):
        if drawn < weight:
            return index
        drawn -= weight
    return len(weights) - 1
