"""Changes of partitions: who leads, who is in sync, and the records that say so.

Theory of operation
-------------------
`propose_change` turns what should become of a partition into one change record, or into none if
nothing changes. Whatever the occasion, the same rules apply, in this order:

1. A reassignment whose new replicas are all in sync is completed.
2. A leader is elected. The present one stays if it may. Otherwise the first replica that is in the
   ISR and may lead; with an unclean election any replica that may lead, which loses data and is
   said so (`RECOVERING`); otherwise nobody.
3. The leader epoch rises if the leader changes or a replica is taken away; before 3.6-IV0 also if
   the ISR shrinks, because the brokers of then need it (KAFKA-15021).
4. The ISR never becomes empty: the last in-sync replica stays in it without leading, because it
   alone has all the data.

What a broker asks for with AlterPartition is checked against a table, in Kafka's order:

| # | condition                                                      | error                    |
|---|----------------------------------------------------------------|--------------------------|
| 1 | the topic id is unknown                                        | UNKNOWN_TOPIC_ID         |
| 2 | the partition is unknown                                       | UNKNOWN_TOPIC_OR_        |
|   |                                                                | PARTITION                |
| 3 | the leader epoch or partition epoch is ahead of ours           | NOT_CONTROLLER           |
| 4 | the leader epoch is behind ours                                | FENCED_LEADER_EPOCH      |
| 5 | the sender does not lead                                       | INVALID_REQUEST          |
| 6 | the partition epoch is behind ours                             | INVALID_UPDATE_VERSION   |
| 7 | the ISR is no set of replicas, or lacks the leader; the leader | INVALID_REQUEST          |
|   | recovers and is not alone, or falls back into recovering       |                          |
| 8 | a member is not registered, fenced, stopping, or has another   | INELIGIBLE_REPLICA       |
|   | broker epoch than the request says                             |                          |
| 9 | the change completes a reassignment and another leader results | NEW_LEADER_ELECTED       |

3 means that this node is the one that is behind, so the broker must look for another controller and
not believe itself fenced (KAFKA-14154). 8 keeps a broker out that has lost its disk since the
leader saw it in sync (KIP-903). With 9 the record is written all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from fencepost.machines.controller.decision import Refused
from fencepost.machines.image import (
    DIRECTORY_UNASSIGNED,
    NO_LEADER,
    NO_LEADER_CHANGE,
    RECOVERED,
    RECOVERING,
    BrokerImage,
    ClusterImage,
    PartitionImage,
    TopicImage,
)
from fencepost.wire.api import alter_partition as wire
from fencepost.wire.errors import ErrorCode
from fencepost.wire.records.metadata import PartitionChangeRecord, PartitionRecord
from fencepost.wire.types import Uuid

SHRINKS_WITHOUT_EPOCH_SINCE = 12
"""The `metadata.version` from which on an ISR shrinks within a leader epoch: 3.6-IV0."""


class Election(Enum):
    """How a leader is looked for: to keep the partition online, to get back to the preferred
    replica, or at the price of data."""

    ONLINE = "online"
    PREFERRED = "preferred"
    UNCLEAN = "unclean"


@dataclass(frozen=True, slots=True)
class Target:
    """What should become of a partition; None leaves it as it is."""

    isr: tuple[int, ...] | None = None
    recovery_state: int | None = None
    election: Election = Election.ONLINE


MayLead = Callable[[int], bool]


def propose_change(
    topic_id: Uuid,
    index: int,
    partition: PartitionImage,
    target: Target,
    may_lead: MayLead,
    image: ClusterImage,
) -> PartitionChangeRecord | None:
    """The record that makes `partition` what `target` says, or None if it is that already.

    `image` is the cluster that the partition is of.
    """
    isr = partition.isr if target.isr is None else target.isr
    replicas, isr, is_completed = _completed_reassignment(partition, isr)
    leader, is_unclean = _elect(partition, replicas, isr, target.election, may_lead)
    record = PartitionChangeRecord(topic_id=topic_id, partition_id=index)
    recovery = partition.leader_recovery_state
    if target.recovery_state is not None:
        recovery = target.recovery_state
    if leader != partition.leader:
        record.leader = leader
        if is_unclean:
            isr, recovery = (leader,), RECOVERING
    elif not set(partition.replicas) <= set(replicas):
        record.leader = partition.leader  # a replica taken away is fenced by a new epoch
    if isr and isr != partition.isr:
        record.isr = list(isr)
        is_shrunk = not set(partition.isr) <= set(isr)
        if is_shrunk and image.metadata_version < SHRINKS_WITHOUT_EPOCH_SINCE:
            record.leader = leader
    if recovery != partition.leader_recovery_state:
        record.leader_recovery_state = recovery
    if is_completed:
        record.removing_replicas, record.adding_replicas = [], []
        if replicas != partition.replicas:
            record.replicas = list(replicas)
    if image.has_directories:
        directories = _directories(partition, replicas, image.brokers)
        if directories != partition.directories:
            record.directories = list(directories)
    return None if _says_nothing(record) else record


def _completed_reassignment(
    partition: PartitionImage, isr: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...], bool]:
    """Replicas, ISR and whether a reassignment ended: all that were to be added are in sync.

    A reassignment to fewer replicas also waits for all that stay, or the ISR could end up with
    fewer members than it has (KAFKA-14190 and its like).
    """
    unchanged = (partition.replicas, isr, False)
    removing, adding = partition.removing_replicas, partition.adding_replicas
    if not partition.is_reassigning:
        return unchanged
    new_isr = tuple(id_ for id_ in isr if id_ not in removing)
    new_replicas = tuple(id_ for id_ in partition.replicas if id_ not in removing)
    if not new_isr or not new_replicas or not set(adding) <= set(new_isr):
        return unchanged
    if len(adding) < len(removing) and not set(new_replicas) <= set(new_isr):
        return unchanged
    return new_replicas, new_isr, True


def _elect(
    partition: PartitionImage,
    replicas: tuple[int, ...],
    isr: tuple[int, ...],
    election: Election,
    may_lead: MayLead,
) -> tuple[int, bool]:
    """The leader, or NO_LEADER, and whether it was elected uncleanly."""

    def is_clean(replica: int) -> bool:
        return replica in isr and may_lead(replica)

    if election is Election.PREFERRED and is_clean(replicas[0]):
        return replicas[0], False
    if is_clean(partition.leader):
        return partition.leader, False
    for replica in replicas:
        if is_clean(replica):
            return replica, False
    if election is Election.UNCLEAN:
        for replica in replicas:
            if may_lead(replica):
                return replica, True
    return NO_LEADER, False


def _directories(
    partition: PartitionImage, replicas: tuple[int, ...], brokers: Mapping[int, BrokerImage]
) -> tuple[Uuid, ...]:
    if replicas == partition.replicas:
        return partition.directories
    known = dict(zip(partition.replicas, partition.directories, strict=True))
    return tuple(known.get(id_) or default_directory(brokers, id_) for id_ in replicas)


def default_directory(brokers: Mapping[int, BrokerImage], broker_id: int) -> Uuid:
    """Where a new replica on the broker goes; a broker that is not registered decides later."""
    broker = brokers.get(broker_id)
    return DIRECTORY_UNASSIGNED if broker is None else broker.default_directory


def _says_nothing(record: PartitionChangeRecord) -> bool:
    return (
        record.leader == NO_LEADER_CHANGE
        and record.leader_recovery_state < 0
        and record.isr is None
        and record.replicas is None
        and record.removing_replicas is None
        and record.adding_replicas is None
        and record.directories is None
    )


def new_partition_record(
    topic_id: Uuid, index: int, replicas: list[int], image: ClusterImage
) -> PartitionRecord:
    """A partition as it is born: all replicas that may lead are in sync, the first of them leads.

    Raises Refused with INVALID_REPLICA_ASSIGNMENT if none may.
    """
    brokers = image.brokers
    isr = [id_ for id_ in replicas if brokers[id_].is_active]
    if not isr:
        raise Refused(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"partition {index} would have no leader: brokers {replicas} are fenced or stopping",
        )
    return PartitionRecord(
        partition_id=index,
        topic_id=topic_id,
        replicas=replicas,
        isr=isr,
        removing_replicas=[],
        adding_replicas=[],
        leader=isr[0],
        leader_recovery_state=RECOVERED,
        leader_epoch=0,
        partition_epoch=0,
        directories=[default_directory(brokers, id_) for id_ in replicas]
        if image.has_directories
        else [],
    )


# -- when brokers come and go ------------------------------------------------------------------


def changes_without_broker(
    image: ClusterImage,
    broker_id: int,
    is_unclean_allowed: Callable[[str], bool],
    in_directories: frozenset[Uuid] | None = None,
) -> list[PartitionChangeRecord]:
    """Take a broker out of every ISR it is in, and leadership away from it.

    With `in_directories`, only for replicas in those of its directories.
    """

    def concerns(partition: PartitionImage) -> bool:
        if broker_id not in partition.isr:
            return False
        return in_directories is None or partition.directory_of(broker_id) in in_directories

    def target(topic: TopicImage, partition: PartitionImage) -> Target:
        rest = tuple(id_ for id_ in partition.isr if id_ != broker_id)
        return Target(rest, election=_election_for(topic, is_unclean_allowed))

    return _changes(image, concerns, target, without=broker_id)


def changes_with_broker(
    image: ClusterImage, broker_id: int, is_unclean_allowed: Callable[[str], bool]
) -> list[PartitionChangeRecord]:
    """Elect leaders for partitions that have none, now that a broker may lead again."""

    def target(topic: TopicImage, partition: PartitionImage) -> Target:
        return Target(election=_election_for(topic, is_unclean_allowed))

    return _changes(image, lambda p: p.leader == NO_LEADER, target, with_=broker_id)


def unclean_elections(
    image: ClusterImage, is_unclean_allowed: Callable[[str], bool]
) -> list[PartitionChangeRecord]:
    """Elect leaders, at the price of data, where there is none and the topic allows it."""

    def target(topic: TopicImage, partition: PartitionImage) -> Target:
        return Target(election=_election_for(topic, is_unclean_allowed))

    return _changes(image, lambda p: p.leader == NO_LEADER, target)


def _election_for(topic: TopicImage, is_unclean_allowed: Callable[[str], bool]) -> Election:
    return Election.UNCLEAN if is_unclean_allowed(topic.name) else Election.ONLINE


def _changes(
    image: ClusterImage,
    concerns: Callable[[PartitionImage], bool],
    target: Callable[[TopicImage, PartitionImage], Target],
    without: int = NO_LEADER,
    with_: int = NO_LEADER,
) -> list[PartitionChangeRecord]:
    """The changes of all partitions that are concerned, by topic name and number.

    `without` may not lead although the image still says so, `with_` may although it does not yet.
    """
    records: list[PartitionChangeRecord] = []
    found = [
        (topic, index, partition)
        for topic in image.topics_by_name.values()
        for index, partition in enumerate(topic.partitions)
        if concerns(partition)
    ]
    found.sort(key=lambda one: (one[0].name, one[1]))
    for topic, index, partition in found:
        may_lead = leadership(image.brokers, partition, without, with_)
        record = propose_change(
            topic.topic_id, index, partition, target(topic, partition), may_lead, image
        )
        if record is not None:
            records.append(record)
    return records


def leadership(
    brokers: Mapping[int, BrokerImage],
    partition: PartitionImage,
    without: int = NO_LEADER,
    with_: int = NO_LEADER,
) -> MayLead:
    """Who may lead the partition: registered, active, and with the replica's directory online."""

    def may_lead(broker_id: int) -> bool:
        broker = brokers.get(broker_id)
        if broker is None or broker_id == without or broker_id not in partition.replicas:
            return False
        if broker_id != with_ and not broker.is_active:
            return False
        return broker.has_online_directory(partition.directory_of(broker_id))

    return may_lead


# -- AlterPartition ----------------------------------------------------------------------------


def alter_partition(
    image: ClusterImage,
    sender: int,
    topic: TopicImage,
    asked: wire.PartitionDataRequest,
    is_unclean_allowed: bool,
) -> tuple[wire.PartitionDataResponse, PartitionChangeRecord | None]:
    """The answer about one partition, and the record of the change. Raises Refused; see the table.

    The ISR is in `new_isr_with_epochs`; `new_isr` of older versions was put there, epochs -1.
    """
    index = asked.partition_index
    partition = image.partition(topic.topic_id, index)
    if partition is None:
        raise Refused(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{topic.name} has no partition {index}"
        )
    _check_epochs(partition, sender, asked)
    _check_isr(partition, asked)
    _check_eligible(image.brokers, asked.new_isr_with_epochs)
    target = Target(
        isr=tuple(member.broker_id for member in asked.new_isr_with_epochs),
        recovery_state=asked.leader_recovery_state,
        election=Election.UNCLEAN if is_unclean_allowed else Election.ONLINE,
    )
    may_lead = leadership(image.brokers, partition)
    record = propose_change(topic.topic_id, index, partition, target, may_lead, image)
    result = partition if record is None else partition.merged_with(record)
    if record is not None and record.leader not in (NO_LEADER_CHANGE, sender):
        return _alter_error(index, ErrorCode.NEW_LEADER_ELECTED), record
    answer = wire.PartitionDataResponse(
        partition_index=index,
        leader_id=result.leader,
        leader_epoch=result.leader_epoch,
        isr=list(result.isr),
        leader_recovery_state=result.leader_recovery_state,
        partition_epoch=result.partition_epoch,
    )
    return answer, record


def _alter_error(index: int, error: ErrorCode) -> wire.PartitionDataResponse:
    return wire.PartitionDataResponse(partition_index=index, error_code=error)


def _check_epochs(partition: PartitionImage, sender: int, asked: wire.PartitionDataRequest) -> None:
    """Rows 3 to 6."""
    ours = (partition.leader_epoch, partition.partition_epoch)
    if asked.leader_epoch > ours[0] or asked.partition_epoch > ours[1]:
        raise Refused(ErrorCode.NOT_CONTROLLER, f"epochs {ours} here are behind the request's")
    if asked.leader_epoch < partition.leader_epoch:
        raise Refused(ErrorCode.FENCED_LEADER_EPOCH, f"the leader epoch is {ours[0]} by now")
    if sender != partition.leader:
        raise Refused(ErrorCode.INVALID_REQUEST, f"{partition.leader} leads, not {sender}")
    if asked.partition_epoch < partition.partition_epoch:
        raise Refused(ErrorCode.INVALID_UPDATE_VERSION, f"the partition epoch is {ours[1]} by now")


def _check_isr(partition: PartitionImage, asked: wire.PartitionDataRequest) -> None:
    """Row 7."""
    isr = [member.broker_id for member in asked.new_isr_with_epochs]
    recovery = asked.leader_recovery_state
    if not isr or len(set(isr)) != len(isr) or not set(isr) <= set(partition.replicas):
        reason = f"ISR {isr} is not a set of replicas {list(partition.replicas)}"
    elif partition.leader not in isr:
        reason = f"ISR {isr} lacks the leader {partition.leader}"
    elif recovery not in (RECOVERED, RECOVERING):
        reason = f"{recovery} is no leader recovery state"
    elif recovery == RECOVERING and len(isr) > 1:
        reason = "a leader that is recovering is alone in its ISR"
    elif recovery == RECOVERING and partition.leader_recovery_state == RECOVERED:
        reason = "a leader that has recovered does not start to recover again"
    else:
        return
    raise Refused(ErrorCode.INVALID_REQUEST, reason)


def _check_eligible(
    brokers: Mapping[int, BrokerImage], members: Iterable[wire.BrokerState]
) -> None:
    """Row 8."""
    for member in members:
        broker = brokers.get(member.broker_id)
        if broker is None:
            reason = "is not registered"
        elif broker.in_controlled_shutdown:
            reason = "is about to stop"
        elif broker.fenced:
            reason = "is fenced"
        elif member.broker_epoch not in (-1, broker.epoch):
            reason = f"has epoch {broker.epoch}, not {member.broker_epoch}"
        else:
            continue
        raise Refused(ErrorCode.INELIGIBLE_REPLICA, f"broker {member.broker_id} {reason}")


def decide_alter_partition(
    image: ClusterImage,
    request: wire.AlterPartitionRequest,
    is_unclean_allowed: Callable[[str], bool],
) -> tuple[wire.AlterPartitionResponse, list[PartitionChangeRecord]]:
    """The answer to a whole request whose sender's epoch is right, and the records.

    A partition that is named twice is changed once: the second time its partition epoch is old.
    """
    response = wire.AlterPartitionResponse()
    records: list[PartitionChangeRecord] = []
    changed: set[tuple[Uuid, int]] = set()
    for asked_topic in request.topics:
        answers: list[wire.PartitionDataResponse] = []
        response.topics.append(
            wire.TopicDataResponse(topic_id=asked_topic.topic_id, partitions=answers)
        )
        topic = image.topics_by_id.get(asked_topic.topic_id)
        for asked in asked_topic.partitions:
            index = asked.partition_index
            if topic is None:
                answers.append(_alter_error(index, ErrorCode.UNKNOWN_TOPIC_ID))
                continue
            if (topic.topic_id, index) in changed:
                answers.append(_alter_error(index, ErrorCode.INVALID_UPDATE_VERSION))
                continue
            try:
                allowed = is_unclean_allowed(topic.name)
                answer, record = alter_partition(
                    image, request.broker_id, topic, _with_epochs(asked), allowed
                )
            except Refused as refused:
                answers.append(_alter_error(index, refused.error))
                continue
            answers.append(answer)
            if record is not None:
                changed.add((topic.topic_id, index))
                records.append(record)
    return response, records


def _with_epochs(asked: wire.PartitionDataRequest) -> wire.PartitionDataRequest:
    """The request with its ISR in the form of v3; -1 for epochs that older versions lack."""
    if asked.new_isr_with_epochs or not asked.new_isr:
        return asked
    return wire.PartitionDataRequest(
        partition_index=asked.partition_index,
        leader_epoch=asked.leader_epoch,
        new_isr_with_epochs=[
            wire.BrokerState(broker_id=id_, broker_epoch=-1) for id_ in asked.new_isr
        ],
        leader_recovery_state=asked.leader_recovery_state,
        partition_epoch=asked.partition_epoch,
    )
