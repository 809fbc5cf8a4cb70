"""Histories of partitions told to a `Oracle` by hand; for each check of partitions, wrong ones."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from msgspec.structs import replace

from fencepost.log.producers import SEQUENCE_MAX
from fencepost.machines.image import BrokerImage, PartitionDelta, PartitionImage
from fencepost.machines.share.state_batch import SharePartitionKey
from fencepost.sim.checks import Check
from fencepost.sim.cleaned_batches import KeyedRecord, LogLook
from fencepost.sim.group_oracle import (
    AssignmentTold,
    GenerationWrite,
    GroupWrite,
    HoldingSaid,
    HoldingTold,
    HoldingWrite,
    OffsetKey,
    OffsetsTold,
    OffsetWrite,
)
from fencepost.sim.oracle import Oracle
from fencepost.sim.partition_oracle import (
    NO_BROKER,
    BrokerBegun,
    Checkpoints,
    PartitionBatch,
    Passed,
    Place,
    ReplicaView,
    Stage,
)
from fencepost.sim.share_oracle import Delivered, Letters, Renewed, Returned, Settled, ShareStart
from fencepost.wire.types import Uuid

KEY = (Uuid(b"a topic's own id"), 0)


def batch(offset: int, epoch: int = 1, crc: int = 0, **changes: Any) -> PartitionBatch:
    """One record's batch; by default its content follows from its place."""
    values = {"crc": crc or offset * 1_000 + epoch, "next_offset": offset + 1, **changes}
    return PartitionBatch(offset, epoch=epoch, **values)


LOG = [batch(0), batch(1), batch(2)]


def partitions_of(*logs: list[PartitionBatch], visible: int = 0, durable: bool = True) -> Oracle:
    """Brokers 1, 2, ... with these logs of one partition; consumers may have read the first
    `visible` batches of the first."""
    oracle = Oracle()
    for broker_id, log in enumerate(logs, 1):
        known = oracle.partitions.log(broker_id, KEY)
        known.entries.extend(log)
        if durable:
            known.flushed(known.end_offset)
    oracle.partitions.visible[KEY] = list(logs[0][:visible])
    return oracle


def durable_to(*offsets: int) -> Oracle:
    """Brokers 1, 2, ... have LOG, each durably as far as is said."""
    oracle = partitions_of(*[LOG] * len(offsets), durable=False)
    for broker_id, offset in enumerate(offsets, 1):
        oracle.partitions.log(broker_id, KEY).flushed(offset)
    return oracle


def record(offset: int, key: bytes | None = b"a") -> KeyedRecord:
    """A record in a batch of its own."""
    return KeyedRecord(offset, offset, key, b"%d" % offset, may_go=False)


def clean(
    check: Check,
    before: list[KeyedRecord],
    after: list[KeyedRecord],
    outcomes: dict[int, bool | None] | None = None,
) -> None:
    """Compaction leaves of these records those; batches of transactions have ended so."""
    oracle = Oracle()
    oracle.transactions.outcomes[KEY] = outcomes or {}
    check.replica_cleaned(oracle, 1, KEY, LogLook([], before), LogLook([], after))


def replica(broker_id: int = 1, **changes: Any) -> ReplicaView:
    """A follower in epoch 1 with an empty log, unless said otherwise."""
    values: dict[str, Any] = {
        "broker_id": broker_id,
        "incarnation": 1,
        "key": KEY,
        "is_leader": False,
        "leader_epoch": 1,
        "high_watermark": 0,
        "start_offset": 0,
        "durable_offset": 0,
        "end_offset": 0,
        **changes,
    }
    return ReplicaView(**values)


def leader(broker_id: int = 1, **changes: Any) -> ReplicaView:
    """A leader of epoch 1 that is alone in sync."""
    return replica(broker_id, **{"is_leader": True, "isr": frozenset({broker_id}), **changes})


def follow(oracle: Oracle, check: Check, *views: ReplicaView) -> None:
    """Have the check see these views one after the other."""
    for view in views:
        check.replica_stepped(oracle, view)
        oracle.partitions.stepped(view)


def show_all(check: Check, log: list[PartitionBatch], start_offset: int) -> None:
    """Broker 1 shows all of LOG while broker 2, in sync, has this log from that offset on."""
    oracle = partitions_of(LOG, log)
    oracle.partitions.log(2, KEY).start_offset = start_offset
    follow(oracle, check, LEADS_ALL, SHOWS_ALL)


def change(old: PartitionImage | None, new: PartitionImage | None) -> PartitionDelta:
    """What the controllers have changed."""
    return PartitionDelta("t", KEY[0], KEY[1], old, new)


def image(fenced: int | None = None) -> Any:
    """A cluster of brokers 1, 2 and 3, of which one may be fenced."""
    brokers = {id_: SimpleNamespace(fenced=id_ == fenced) for id_ in (1, 2, 3)}
    features = {"eligible.leader.replicas.version": 1}
    return SimpleNamespace(brokers=brokers, features=features, metadata_version=30)


def partition(isr: tuple[int, ...], lead: int, epoch: int = 1, partition_epoch: int = 1) -> Any:
    """The controllers' word on a partition of brokers 1, 2 and 3."""
    return PartitionImage((1, 2, 3), isr, lead, epoch, partition_epoch)


def with_elr(known: PartitionImage, elr: tuple[int, ...]) -> PartitionImage:
    """The same with eligible leader replicas."""
    return replace(known, eligible_leader_replicas=elr)


def committed_is(
    check: Check, new: PartitionImage, *views: ReplicaView, oracle: Oracle | None = None
) -> None:
    """The controllers say `new` of a partition, and then replicas look like this."""
    check.partition_changed(Oracle(), image(), change(None, new))
    follow(oracle or partitions_of(LOG, LOG, LOG), check, *views)


def elects(check: Check, new: PartitionImage, oracle: Oracle) -> None:
    """The controllers say `new` of a partition, the brokers of which all run."""
    for broker_id in (1, 2):
        oracle.partitions.views[broker_id, KEY] = replica(broker_id)
    check.partition_changed(oracle, image(), change(None, new))


def broker(epoch: int, life: int) -> BrokerImage:
    """A registration of broker 1."""
    return BrokerImage(1, epoch, Uuid(bytes(15) + bytes((life,))), (), (), None, False, False, ())


READ = OffsetKey("g", "t", 0)


def offsets_of(*offsets: int) -> Oracle:
    """Group g has committed these offsets of t-0, one after the other, in a log of their own."""
    oracle = Oracle()
    for place, offset in enumerate(offsets):
        oracle.groups.appended(KEY, batch(place), (OffsetWrite(READ, offset),))
        oracle.groups.became_visible(KEY, batch(place))
    return oracle


def told(offset: int, from_offset: int, to_offset: int) -> OffsetsTold:
    """A coordinator says that, whose high watermark moved so far meanwhile."""
    return OffsetsTold(KEY, READ, offset, from_offset, to_offset)


def assign(check: Check, *assigned: tuple[str, int, set[int]]) -> None:
    """Coordinators tell members of a group: (member, generation, partitions of t)."""
    for member_id, generation, indexes in assigned:
        partitions = frozenset(("t", index) for index in indexes)
        told_ = AssignmentTold(KEY, "g", generation, member_id, partitions)
        check.assignment_told(Oracle(), 1, told_)


def begin(check: Check, *stages: Stage, metadata_offset: int = 9, unfenced: bool = False) -> None:
    """Incarnation 1 of broker 1, registered at 9, is that far; perhaps it is unfenced then."""
    for stage in stages:
        begun = BrokerBegun(stage, 1, broker(9, 1).incarnation_id, 9)
        check.broker_begun(Oracle(), begun, metadata_offset)
    if unfenced:
        check.broker_changed(Oracle(), 1, broker(9, 1))


def come_back(check: Check, known: PartitionImage, *, in_order: bool = False) -> None:
    """Broker 1 stops, starts again and is unfenced, while the controllers say `known`."""
    oracle = Oracle()
    if in_order:
        oracle.partitions.closed_in_order.add(1)
    check.partition_changed(oracle, image(), change(None, known))
    restarted = broker(9, 1)
    check.broker_begun(oracle, BrokerBegun(Stage.STARTS, 1, restarted.incarnation_id, -1), 9)
    check.broker_changed(oracle, 1, replace(restarted, fenced=True))
    check.broker_changed(oracle, 1, restarted)


def holding(member_id: str, epoch: int, *indexes: int) -> HoldingWrite:
    """A member of the consumer group "g" has these partitions of a topic."""
    held = frozenset((KEY[0], index) for index in indexes)
    return HoldingWrite("g", member_id, epoch, held)


def given(member_id: str, epoch: int, since: int) -> HoldingWrite:
    """The same with partition 0, which it was given in the epoch `since`."""
    held = holding(member_id, epoch, 0)
    return held._replace(since=dict.fromkeys(held.held, since))


def tell(check: Check, member_id: str, epoch: int, *indexes: int) -> None:
    """A coordinator tells a member of the consumer group "g" its epoch and its partitions."""
    held = frozenset((KEY[0], index) for index in indexes)
    check.holding_told(Oracle(), 1, HoldingTold(KEY, "g", member_id, epoch, held))


def say(check: Check, member_id: str, *indexes: int) -> None:
    """A member says that it owns only these."""
    owned = frozenset((KEY[0], index) for index in indexes)
    check.holding_said(Oracle(), HoldingSaid(KEY, "g", member_id, owned))


LIMIT = 3
SHARE = SharePartitionKey("g", KEY[0], KEY[1])


def deliver(
    check: Check, *delivered: tuple[str, int, int, int], oracle: Oracle | None = None
) -> None:
    """One leader answers members at once: (member, first, last, delivery count)."""
    for member_id, first, last, count in delivered:
        told = Delivered(SHARE, "leader", member_id, first, last, count, LIMIT, 0, 1, 9, False)
        check.share_delivered(oracle or Oracle(), 1, told)


def deliver_late(check: Check, *delivered: tuple[str, int, int, int]) -> None:
    """The same when the locks of the first deliveries are over."""
    for member_id, first, last, count in delivered:
        told = Delivered(SHARE, "leader", member_id, first, last, count, LIMIT, 9, 10, 9, False)
        check.share_delivered(Oracle(), 1, told)


def give_back(check: Check, offset: int, *, is_settled: bool) -> None:
    """A member is done with a record, or wants it no more."""
    check.share_returned(Oracle(), Returned(SHARE, "g", "a", offset, offset, is_settled))


def store_starts(check: Check, *starts: int) -> None:
    """A share coordinator stores these start offsets, one after the other."""
    oracle = Oracle()
    for place, start_offset in enumerate(starts):
        oracle.shares.appended(KEY, batch(place), (ShareStart(SHARE, start_offset),))
        check.became_visible(oracle, KEY, batch(place))


def store(
    check: Check, *writes: GroupWrite, sent_in: int | None = None, sent_by: str | None = None
) -> None:
    """These become visible, a batch each; offsets are of a member of generation `sent_in`, or of
    the member `sent_by` of a consumer group."""
    oracle = Oracle()
    for place, write in enumerate(writes):
        if isinstance(write, OffsetWrite) and sent_in is not None:
            oracle.groups.sent(write, sent_in)
        if isinstance(write, OffsetWrite) and sent_by is not None:
            oracle.groups.sent_by_member(write, sent_by, KEY[0])
        oracle.groups.appended(KEY, batch(place), (write,))
        check.became_visible(oracle, KEY, batch(place))


def pass_by(
    check: Check, place: Place, broker_id: int, passing: PartitionBatch, is_sound: bool = True
) -> None:
    """A batch passes a place, while broker 1 has LOG."""
    check.batch_passed(partitions_of(LOG), Passed(place, broker_id, KEY, passing, is_sound))


def produce(check: Check, *written: tuple[int, int | None], records: int = 1) -> None:
    """Batches of producer 9 become visible: (epoch, first sequence), which a marker has not."""
    oracle = Oracle()
    for number, (epoch, sequence) in enumerate(written):
        of_producer = {"producer_id": 9, "producer_epoch": epoch}
        if sequence is None:
            of_producer["commits"] = True
        else:
            of_producer["base_sequence"] = sequence
        begins = number * records
        one = batch(begins, next_offset=begins + records, **of_producer)
        check.became_visible(oracle, KEY, one)


def write_down(check: Check, seen: Checkpoints, durable_offset: int = 3) -> None:
    """Broker 1, which has LOG and so much of it durably, has these checkpoints."""
    oracle = partitions_of(LOG, durable=False)
    oracle.partitions.log(1, KEY).flushed(durable_offset)
    check.checkpoints_seen(oracle, 1, KEY, seen)


Wrong = Callable[[Check], object]

OTHER = [LOG[0], batch(1, crc=7), LOG[2]]
LEADS_ALL = leader(end_offset=3, durable_offset=3)
SHOWS_ALL = LEADS_ALL._replace(high_watermark=3, isr=frozenset({1, 2}))
LEADS_TWO = leader(min_isr=2, isr=frozenset({1, 2}), maximal_isr=frozenset({1, 2}))

WRONG: list[tuple[str, str, Wrong]] = [
    (
        "I01",
        "a gap",
        lambda check: check.replica_appended(partitions_of(LOG[:1]), 1, KEY, LOG[2]),
    ),
    (
        "I01",
        "an overlap",
        lambda check: check.replica_appended(partitions_of(LOG[:2]), 1, KEY, LOG[1]),
    ),
    (
        "I01",
        "an empty batch",
        lambda check: check.replica_appended(
            partitions_of(LOG[:1]), 1, KEY, LOG[1]._replace(next_offset=1)
        ),
    ),
    (
        "I02",
        "an epoch that falls",
        lambda check: check.replica_appended(
            partitions_of([batch(0, epoch=2)]), 1, KEY, batch(1, epoch=1)
        ),
    ),
    (
        "I02",
        "a cache out of order",
        lambda check: check.epochs_seen(partitions_of([]), 1, KEY, [(2, 0), (1, 4)]),
    ),
    (
        "I02",
        "a cache that says something else of a batch",
        lambda check: check.epochs_seen(partitions_of(LOG), 1, KEY, [(1, 0), (2, 2)]),
    ),
    ("I03", "another batch below a common one", lambda c: c.at_end(partitions_of(LOG, OTHER))),
    (
        "I03",
        "another batch where the last common one is",
        lambda check: check.at_end(partitions_of(LOG, [*LOG[:2], batch(2, crc=7)])),
    ),
    (
        "I03",
        "another batch where both logs start",
        lambda check: check.at_end(partitions_of(LOG, [batch(0, crc=7), *LOG[1:]])),
    ),
    (
        "I03",
        "a batch that one log lacks below the last common one",
        lambda check: check.at_end(partitions_of(LOG, [LOG[0], LOG[2]])),
    ),
    (
        "I04",
        "two replicas that do not agree on what both know to be committed",
        lambda check: follow(
            partitions_of(LOG, OTHER),
            check,
            replica(1, high_watermark=3, end_offset=3),
            replica(2, high_watermark=2, end_offset=3),
        ),
    ),
    (
        "I04",
        "a replica that comes to know later that it has something else",
        lambda check: follow(
            partitions_of(LOG, [*LOG[:2], batch(2, crc=7)]),
            check,
            replica(1, high_watermark=3, end_offset=3),
            replica(2, high_watermark=2, end_offset=3),
            replica(2, high_watermark=3, end_offset=3),
        ),
    ),
    (
        "I05",
        "a high watermark beyond the end",
        lambda check: follow(partitions_of(LOG), check, replica(high_watermark=4, end_offset=3)),
    ),
    (
        "I05",
        "more durable than there is",
        lambda check: follow(partitions_of(LOG), check, replica(durable_offset=4, end_offset=3)),
    ),
    (
        "I06",
        "a high watermark that falls",
        lambda check: follow(
            partitions_of(LOG),
            check,
            replica(high_watermark=2, end_offset=3),
            replica(high_watermark=1, end_offset=3),
        ),
    ),
    (
        "I07",
        "a cut below what is visible",
        lambda check: check.replica_cutting(partitions_of(LOG, visible=2), 1, KEY, 1),
    ),
    (
        "I07",
        "records deleted without DeleteRecords",
        lambda check: check.replica_starts(partitions_of(LOG, visible=2), 1, KEY, 1),
    ),
    (
        "I08",
        "a leader that is not in sync",
        lambda c: c.partition_changed(Oracle(), image(), change(None, partition((2, 3), 1))),
    ),
    (
        "I08",
        "a broker in sync without a replica",
        lambda c: c.partition_changed(Oracle(), image(), change(None, partition((1, 4), 1))),
    ),
    (
        "I08",
        "a fenced broker in sync",
        lambda c: c.partition_changed(Oracle(), image(2), change(None, partition((1, 2), 1))),
    ),
    (
        "I09",
        "a replica in sync that the leader does not count",
        lambda check: committed_is(check, partition((1, 2, 3), 1), LEADS_TWO),
    ),
    (
        "I09",
        "an eligible replica that the leader does not count",
        lambda check: committed_is(check, with_elr(partition((1,), 1), (3,)), LEADS_TWO),
    ),
    (
        "I09",
        "a leader that forgets what it has asked for",
        lambda check: committed_is(
            check,
            partition((1, 2, 3), 1),
            LEADS_TWO._replace(maximal_isr=frozenset({1, 2, 3})),
            LEADS_TWO,
        ),
    ),
    (
        "I10",
        "a high watermark above the log of a replica that is in sync unknown to the leader",
        lambda check: committed_is(
            check,
            partition((1, 2), 1),
            LEADS_ALL,
            LEADS_ALL._replace(high_watermark=3),
            oracle=partitions_of(LOG, LOG[:1]),
        ),
    ),
    (
        "I10",
        "a follower's high watermark above the log of a replica in sync",
        lambda check: committed_is(
            check,
            partition((1, 2), 1),
            replica(1, high_watermark=1, end_offset=3),
            replica(1, high_watermark=2, end_offset=3),
            oracle=partitions_of(LOG, OTHER),
        ),
    ),
    (
        "I11",
        "a replica in sync that lacks what is visible",
        lambda check: elects(check, partition((1, 2), 1), partitions_of(LOG, OTHER, visible=2)),
    ),
    (
        "I11",
        "an eligible replica that lacks what is visible",
        lambda check: elects(
            check, with_elr(partition((1,), 1), (2,)), partitions_of(LOG, LOG[:1], visible=2)
        ),
    ),
    (
        "I11",
        "a replica in sync that has what is visible in memory alone",
        lambda check: elects(
            check, partition((1, 2), 1), partitions_of(LOG, LOG, visible=2, durable=False)
        ),
    ),
    (
        "I12",
        "a leader without what is visible",
        lambda check: follow(partitions_of(LOG, LOG[:1], visible=2), check, leader(2)),
    ),
    (
        "I12",
        "a leader with something else there",
        lambda check: follow(partitions_of(LOG, OTHER, visible=2), check, leader(2)),
    ),
    (
        "I13",
        "acks=1 before it is durable",
        lambda check: check.produced(partitions_of(LOG, durable=False), 1, KEY, 2, 1),
    ),
    (
        "I13",
        "acks=1 when all before it is durable",
        lambda check: check.produced(durable_to(2), 1, KEY, 2, 1),
    ),
    (
        "I13",
        "acks=all before it is visible",
        lambda check: check.produced(partitions_of(LOG, visible=2), 1, KEY, 2, -1),
    ),
    (
        "I13",
        "an acknowledgement of something else",
        lambda check: check.acknowledged(partitions_of(LOG, visible=3), KEY, 1, 7, 0),
    ),
    (
        "I13",
        "an acknowledgement of what is not visible",
        lambda check: check.acknowledged(partitions_of(LOG, visible=1), KEY, 1, LOG[1].crc, 0),
    ),
    (
        "I14",
        "two leaders of one epoch",
        lambda check: follow(partitions_of([]), check, leader(1), leader(2)),
    ),
    (
        "I15",
        "a change without another partition epoch",
        lambda check: check.partition_changed(
            Oracle(), image(), change(partition((1, 2), 1), partition((1,), 1))
        ),
    ),
    (
        "I15",
        "another leader in the same epoch",
        lambda check: check.partition_changed(
            Oracle(), image(), change(partition((1, 2), 1), partition((1, 2), 2, 1, 2))
        ),
    ),
    (
        "I15",
        "a replica that goes back",
        lambda check: follow(
            partitions_of([]), check, replica(leader_epoch=2), replica(leader_epoch=1)
        ),
    ),
    (
        "I16",
        "an epoch that falls",
        lambda check: [check.broker_changed(Oracle(), 1, broker(e, e)) for e in (9, 8)],
    ),
    (
        "I16",
        "one epoch for two incarnations",
        lambda check: [check.broker_changed(Oracle(), 1, broker(9, life)) for life in (1, 2)],
    ),
    (
        "I16",
        "replicas of metadata of before the registration",
        lambda check: begin(check, Stage.STARTS, Stage.LOADS, metadata_offset=8),
    ),
    (
        "I16",
        "unfenced before its logs are loaded",
        lambda check: begin(check, Stage.STARTS, Stage.LOADS, unfenced=True),
    ),
    ("I16", "requests before it is unfenced", lambda check: begin(check, Stage.SERVES)),
    (
        "I18",
        "in sync after a crash",
        lambda check: come_back(check, partition((1, 2), 2)),
    ),
    (
        "I18",
        "eligible after a crash",
        lambda check: come_back(check, with_elr(partition((2,), 2), (1,))),
    ),
    (
        "I17",
        "something shown that a follower may lose",
        lambda check: follow(
            partitions_of(LOG, LOG[:1]),
            check,
            LEADS_ALL,
            SHOWS_ALL,
        ),
    ),
    (
        "I17",
        "something shown that a follower has in memory alone",
        lambda check: follow(durable_to(3, 2), check, LEADS_ALL, SHOWS_ALL),
    ),
    (
        "I17",
        "something shown that the leader has in memory alone",
        lambda check: follow(durable_to(2, 3), check, LEADS_ALL, SHOWS_ALL),
    ),
    (
        "I17",
        "something shown that a follower lacks behind what it has deleted",
        lambda check: show_all(check, [OTHER[1], LOG[2]], start_offset=1),
    ),
    (
        "I17",
        "something shown with too few in sync",
        lambda check: follow(
            partitions_of(LOG), check, LEADS_ALL, LEADS_ALL._replace(high_watermark=3, min_isr=2)
        ),
    ),
    (
        "I19",
        "a read beyond the high watermark",
        lambda check: check.consumed(partitions_of(LOG, visible=2), KEY, LOG[2]),
    ),
    (
        "I20",
        "another batch read where one was",
        lambda check: check.consumed(partitions_of(LOG, visible=3), KEY, OTHER[1]),
    ),
    (
        "I20",
        "another batch shown where one was",
        lambda check: follow(
            partitions_of(LOG, OTHER, visible=3),
            check,
            leader(2, end_offset=3, leader_epoch=2),
            leader(2, end_offset=3, leader_epoch=2, high_watermark=3),
        ),
    ),
    ("I36", "a batch twice", lambda check: produce(check, (0, 0), (0, 0))),
    ("I36", "a gap", lambda check: produce(check, (0, 0), (0, 2))),
    ("I36", "a first sequence that no producer begins with", lambda check: produce(check, (0, 1))),
    (
        "I36",
        "an epoch that falls and goes on with the sequences",
        lambda check: produce(check, (1, 0), (0, 1)),
    ),
    ("I36", "a new epoch that goes on", lambda check: produce(check, (0, 0), (1, 1))),
    (
        "I36",
        "a sequence that does not go on after a marker",
        lambda check: produce(check, (0, 0), (0, None), (0, 0)),
    ),
    (
        "I36",
        "a new epoch that goes on after a marker of it",
        lambda check: produce(check, (0, 0), (1, None), (1, 1)),
    ),
    (
        "I36",
        "an epoch that falls behind a marker",
        lambda check: produce(check, (0, 0), (1, None), (0, 1)),
    ),
    (
        "I36",
        "a sequence above the highest one",
        lambda check: produce(check, (0, SEQUENCE_MAX - 20), (0, SEQUENCE_MAX + 1), records=21),
    ),
    (
        "I40",
        "a committed offset that goes back",
        lambda check: check.offset_told(offsets_of(4, 7), 1, told(4, from_offset=2, to_offset=3)),
    ),
    (
        "I40",
        "an offset that was not committed",
        lambda check: check.offset_told(offsets_of(4), 1, told(7, from_offset=0, to_offset=3)),
    ),
    (
        "I40",
        "an offset that is forgotten",
        lambda check: check.offset_told(offsets_of(4), 1, told(-1, from_offset=1, to_offset=1)),
    ),
    (
        "I40",
        "an offset that is not committed yet",
        lambda check: check.offset_told(offsets_of(4, 7), 1, told(7, from_offset=0, to_offset=1)),
    ),
    (
        "I41",
        "a commit that is acknowledged and not in the log",
        lambda check: check.offset_acknowledged(offsets_of(4), KEY, READ, 7),
    ),
    (
        "I42",
        "one partition, two owners",
        lambda check: assign(check, ("a", 1, {0, 1}), ("b", 1, {1})),
    ),
    (
        "I42",
        "another assignment in the same generation",
        lambda check: assign(check, ("a", 1, {0}), ("a", 1, {1})),
    ),
    (
        "I43",
        "a generation that falls",
        lambda check: store(check, GenerationWrite("g", 2), GenerationWrite("g", 1)),
    ),
    (
        "I43",
        "a commit of an old generation",
        lambda check: store(check, GenerationWrite("g", 2), OffsetWrite(READ, 7), sent_in=1),
    ),
    (
        "I44",
        "one partition, two holders",
        lambda check: store(check, holding("a", 2, 0, 1), holding("b", 3, 1)),
    ),
    (
        "I44",
        "a member epoch that falls",
        lambda check: store(check, holding("a", 3), holding("a", 2)),
    ),
    (
        "I44",
        "a commit for what another member holds",
        lambda check: store(
            check, holding("a", 2, READ.partition), OffsetWrite(READ, 7), sent_by="b"
        ),
    ),
    (
        "I44",
        "an assignment epoch that falls",
        lambda check: store(check, given("a", 3, 3), given("a", 4, 2)),
    ),
    (
        "I44",
        "an assignment epoch ahead of the member's",
        lambda check: store(check, given("a", 3, 4)),
    ),
    (
        "I45",
        "a partition for one that another may still own",
        lambda check: (tell(check, "a", 2, 0, 1), tell(check, "b", 3, 1)),
    ),
    (
        "I45",
        "a partition for one, though another has given up only the other",
        lambda check: (tell(check, "a", 2, 0, 1), say(check, "a", 1), tell(check, "b", 3, 1)),
    ),
    (
        "I45",
        "a member that goes back to an epoch",
        lambda check: (tell(check, "a", 3), tell(check, "a", 2)),
    ),
    (
        "I46",
        "a record that two members have acquired",
        lambda check: deliver(check, ("a", 0, 3, 1), ("b", 3, 4, 2)),
    ),
    (
        "I46",
        "a record that is delivered more often than it may be",
        lambda check: deliver(check, ("a", 0, 3, LIMIT + 1)),
    ),
    (
        "I46",
        "a delivery that does not count",
        lambda check: (
            deliver(check, ("a", 0, 3, 1)),
            check.share_returned(Oracle(), Returned(None, "g", "a", 0, 0, False)),
            deliver(check, ("b", 3, 3, 1)),
        ),
    ),
    (
        "I46",
        "a record that another member holds for longer",
        lambda check: (
            deliver(check, ("a", 0, 3, 1)),
            check.share_renewed(Oracle(), 1, Renewed("leader", "a", 2, 2, 8)),
            deliver_late(check, ("b", 1, 1, 2)),
            deliver_late(check, ("b", 2, 2, 2)),
        ),
    ),
    (
        "I47",
        "a start that passes what was never delivered",
        lambda check: store_starts(check, 1),
    ),
    (
        "I47",
        "a start that passes what was given back",
        lambda check: (give_back(check, 0, is_settled=False), store_starts(check, 1)),
    ),
    (
        "I47",
        "a start that falls",
        lambda check: (give_back(check, 0, is_settled=True), store_starts(check, 1, 0)),
    ),
    (
        "I48",
        "a settled record that comes back",
        lambda check: (
            check.share_acknowledged(Oracle(), Settled(SHARE, 0, 3, True)),
            deliver(check, ("b", 3, 4, 1)),
        ),
    ),
    (
        "I48",
        "a dead letter of what was accepted",
        lambda check: (
            check.share_acknowledged(Oracle(), Settled(SHARE, 0, 3, False)),
            check.letters_sent(Oracle(), 1, Letters(SHARE, 0, 3, False)),
            check.share_acknowledged(Oracle(), Settled(SHARE, 4, 4, True)),
            check.letters_sent(Oracle(), 1, Letters(SHARE, 4, 4, False)),
        ),
    ),
    (
        "I50",
        "something acknowledged in front of what was there",
        lambda check: check.acknowledged(partitions_of(LOG, visible=3), KEY, 1, LOG[1].crc, 2),
    ),
    (
        "I51",
        "less than was durable",
        lambda check: check.replica_recovered(partitions_of(LOG), 1, KEY, LOG[:1], 0),
    ),
    (
        "I52",
        "a damaged batch served",
        lambda check: pass_by(check, Place.SERVED, 1, LOG[1], is_sound=False),
    ),
    (
        "I52",
        "another batch served than there is",
        lambda check: pass_by(check, Place.SERVED, 1, OTHER[1]),
    ),
    (
        "I52",
        "a batch served that is not there any more",
        lambda check: pass_by(check, Place.SERVED, 1, batch(3)),
    ),
    (
        "I52",
        "a damaged batch taken over",
        lambda check: pass_by(check, Place.TAKEN_OVER, 2, LOG[1], is_sound=False),
    ),
    (
        "I52",
        "a damaged batch read",
        lambda check: pass_by(check, Place.READ, NO_BROKER, LOG[1], is_sound=False),
    ),
    (
        "I53",
        "a recovery point ahead of what is durable",
        lambda check: write_down(check, Checkpoints(3, 0), durable_offset=2),
    ),
    (
        "I53",
        "a log start ahead of what is durable",
        lambda check: write_down(check, Checkpoints(0, 3), durable_offset=2),
    ),
    (
        "I53",
        "a high watermark ahead of the log",
        lambda check: write_down(check, Checkpoints(0, 0, 4)),
    ),
    (
        "I54",
        "the last record of a key is gone",
        lambda check: clean(check, [record(0), record(1, b"b")], [record(0)]),
    ),
    (
        "I54",
        "the last record of a key has moved",
        lambda check: clean(check, [record(0)], [record(0)._replace(offset=1)]),
    ),
    (
        "I54",
        "a record has another value",
        lambda check: clean(check, [record(0)], [record(0)._replace(value=b"other")]),
    ),
    (
        "I54",
        "a tombstone is gone before its delete horizon",
        lambda check: clean(check, [record(0), record(1)._replace(value=None)], []),
    ),
]
"""Invariant, what is wrong, and the history that is."""
