"""Partitions: how they are born, and what becomes of them when brokers come and go.

What one change comes to is the business of `partition_change.py`. Here is which partitions change
on an occasion, who may lead them, and what their topics' configs have to say for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from fencepost.machines.controller.decision import Refused
from fencepost.machines.controller.partition_change import (
    Election,
    MayLead,
    Target,
    default_directory,
    propose_change,
)
from fencepost.machines.controller.rules import ControllerRules
from fencepost.machines.image import (
    NO_LEADER,
    RECOVERED,
    BrokerImage,
    ClusterImage,
    PartitionImage,
    TopicImage,
)
from fencepost.wire.errors import ErrorCode
from fencepost.wire.records.metadata import PartitionChangeRecord, PartitionRecord
from fencepost.wire.types import Uuid


class TopicPolicies(Protocol):
    """What the configs in force say of topics, as far as it matters to who leads."""

    @property
    def rules(self) -> ControllerRules:
        """The rules that elections go by."""
        ...

    def is_unclean_allowed(self, topic: str) -> bool:
        """Whether the topic would rather lose data than be without a leader."""
        ...

    def min_isr(self, topic: TopicImage) -> int:
        """How many of its replicas have to be in sync; never more than there are."""
        ...


def propose(
    image: ClusterImage,
    topic: TopicImage,
    index: int,
    target: Target,
    policies: TopicPolicies,
    may_lead: MayLead | None = None,
) -> PartitionChangeRecord | None:
    """`propose_change` of a partition of `image`, which says who may lead if `may_lead` is None."""
    partition = topic.partitions[index]
    if may_lead is None:
        may_lead = leadership(image.brokers, partition)
    min_isr = policies.min_isr(topic)
    return propose_change(
        topic.topic_id, index, partition, target, may_lead, image, min_isr, policies.rules
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
    policies: TopicPolicies,
    in_directories: frozenset[Uuid] | None = None,
    *,
    is_lost: bool = False,
) -> list[PartitionChangeRecord]:
    """Take a broker out of every ISR it is in, and leadership away from it.

    With `in_directories`, only for replicas in those of its directories. With `is_lost` the broker
    may lack records that it had, or does not come back, so it is not eligible any more either.
    """

    # There may be a hundred thousand to look at, so nothing is called for each of them.
    found = [
        (topic, index, partition)
        for topic in image.topics_by_name.values()
        for index, partition in enumerate(topic.partitions)
        if broker_id in partition.isr
        or (is_lost and broker_id in partition.eligible_leader_replicas)
    ]
    if in_directories is not None:
        found = [one for one in found if one[2].directory_of(broker_id) in in_directories]

    def target(topic: TopicImage, partition: PartitionImage) -> Target:
        rest = tuple(id_ for id_ in partition.isr if id_ != broker_id)
        lost = frozenset({broker_id}) if is_lost else frozenset[int]()
        return Target(rest, election=election_for(topic, policies), lost=lost)

    return _changes(image, found, target, policies, without=broker_id)


def changes_with_broker(
    image: ClusterImage, broker_id: int, policies: TopicPolicies
) -> list[PartitionChangeRecord]:
    """Elect leaders for partitions that have none, now that a broker may lead again."""

    def target(topic: TopicImage, partition: PartitionImage) -> Target:
        return Target(election=election_for(topic, policies))

    found = [
        (topic, index, partition)
        for topic in image.topics_by_name.values()
        for index, partition in enumerate(topic.partitions)
        if partition.leader == NO_LEADER
    ]
    return _changes(image, found, target, policies, with_=broker_id)


def election_for(topic: TopicImage, policies: TopicPolicies) -> Election:
    """The election that keeps a partition of the topic online, at the price that it may cost."""
    return Election.UNCLEAN if policies.is_unclean_allowed(topic.name) else Election.ONLINE


def _changes(
    image: ClusterImage,
    found: list[tuple[TopicImage, int, PartitionImage]],
    target: Callable[[TopicImage, PartitionImage], Target],
    policies: TopicPolicies,
    without: int = NO_LEADER,
    with_: int = NO_LEADER,
) -> list[PartitionChangeRecord]:
    """The changes of the partitions that were found, by topic name and number.

    `without` may not lead although the image still says so, `with_` may although it does not yet.
    """
    records: list[PartitionChangeRecord] = []
    found.sort(key=lambda one: (one[0].name, one[1]))
    for topic, index, partition in found:
        may_lead = leadership(image.brokers, partition, without, with_)
        record = propose(image, topic, index, target(topic, partition), policies, may_lead)
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
