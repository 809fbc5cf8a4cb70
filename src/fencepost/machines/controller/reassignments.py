"""Partitions move to other brokers: AlterPartitionReassignments, and what is under way (KIP-455).

A move has four steps. The first is decided here, the rest follows by itself:

1. The partition's replicas become the target's, in their order, and behind them those that go. What
   is added and removed is written down. The leader epoch stays; no replica is fenced yet.
2. The brokers that come make logs and fetch. They enter the in-sync set through AlterPartition.
3. Every change of the in-sync set tries to end the move (`partition_change.py`, step 1).
4. Then the replicas are the target's alone. The leader epoch rises, another leader is elected if
   the old one goes, and the brokers that go delete their logs.

A target that needs no new replica, because it puts the replicas into another order or takes away
one out of three, ends at once: then there is one record.

A new target during a move: a replica that was being added and is not in it is removed, one that was
being removed and is in it stays, and one that was being added and is in it is still being added.
Cancelling a move removes the replicas that were being added.

| # | condition                                                      | error                       |
|---|----------------------------------------------------------------|-----------------------------|
| 1 | there is no such partition                                     | UNKNOWN_TOPIC_OR_PARTITION  |
| 2 | called off: nothing moves                                      | NO_REASSIGNMENT_IN_PROGRESS |
| 3 | called off: only replicas that were coming are in sync, and    | INVALID_REPLICA_ASSIGNMENT  |
|   | the topic does not allow unclean elections                     |                             |
| 4 | the target is empty, or has a broker twice, or one that is not | INVALID_REPLICA_ASSIGNMENT  |
|   | registered, or one that would have to put a new replica into a |                             |
|   | cordoned directory (KIP-1066)                                  |                             |
| 5 | the target has another number of replicas than the partition   | INVALID_REPLICATION_FACTOR  |
|   | has without the move, and the request forbids that (KIP-860)   |                             |
| 6 | the partitions before it in the request have all the records   | UNKNOWN_SERVER_ERROR        |
|   | that a request may come to                                     |                             |

Deviation: of a replica that was coming, and that a new target has too, Kafka's controllers forget
that it was. To call the second move off then leaves it where it is.
"""

from __future__ import annotations

from collections.abc import Sequence

from fencepost.machines.controller.decision import Refused, append_or_refuse
from fencepost.machines.controller.partition_change import Replicas, Target
from fencepost.machines.controller.partitions import (
    TopicPolicies,
    election_for,
    leadership,
    propose,
)
from fencepost.machines.controller.topics import check_assignment
from fencepost.machines.image import ClusterImage, PartitionImage, TopicImage
from fencepost.wire.api import (
    alter_partition_reassignments as altering,
    list_partition_reassignments as listing,
)
from fencepost.wire.errors import ErrorCode
from fencepost.wire.records.metadata import PartitionChangeRecord


def alter_reassignments(
    image: ClusterImage,
    request: altering.AlterPartitionReassignmentsRequest,
    policies: TopicPolicies,
) -> tuple[altering.AlterPartitionReassignmentsResponse, list[PartitionChangeRecord]]:
    """The answer to a request, and the records; partitions stand or fall alone.

    A partition that is named twice is INVALID_REQUEST from the second time on. Without partitions
    the answer is the one that says nothing, as Kafka's: `allow_replication_factor_change` is true.
    """
    records: list[PartitionChangeRecord] = []
    if not request.topics:
        return altering.AlterPartitionReassignmentsResponse(error_message=None), records
    response = altering.AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_message=None,
    )
    seen: set[tuple[str, int]] = set()

    def answer(name: str, asked: altering.ReassignablePartition) -> int:
        key = name, asked.partition_index
        if key in seen:
            raise Refused(ErrorCode.INVALID_REQUEST, "the partition is named more than once")
        seen.add(key)
        record = _alter(image, name, asked, request.allow_replication_factor_change, policies)
        if record is not None:
            append_or_refuse(records, record)
        return ErrorCode.NONE

    for topic in request.topics:
        results: list[altering.ReassignablePartitionResponse] = []
        response.responses.append(
            altering.ReassignableTopicResponse(name=topic.name, partitions=results)
        )
        for asked in topic.partitions:
            result = altering.ReassignablePartitionResponse(
                partition_index=asked.partition_index, error_message=None
            )
            try:
                result.error_code = answer(topic.name, asked)
            except Refused as refused:
                result.error_code, result.error_message = refused.error, refused.message
            results.append(result)
    return response, records


def _alter(
    image: ClusterImage,
    name: str,
    asked: altering.ReassignablePartition,
    is_factor_free: bool,
    policies: TopicPolicies,
) -> PartitionChangeRecord | None:
    """One partition's record; None if it is there already. Raises Refused; see the table."""
    topic = image.topics_by_name.get(name)
    index = asked.partition_index
    if topic is None or not 0 <= index < len(topic.partitions):
        missing = f"a topic named {name}." if topic is None else f"partition {name}:{index}."
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find {missing}")
    partition = topic.partitions[index]
    if asked.replicas is None:
        target = call_off(image, topic, partition, policies)
    else:
        check_assignment(image, asked.replicas, None, partition.replicas)
        if not is_factor_free:
            _check_same_factor(partition, asked.replicas)
        target = move_to(partition, tuple(asked.replicas))
    return propose(image, topic, index, target, policies)


def _check_same_factor(partition: PartitionImage, replicas: Sequence[int]) -> None:
    """Row 5."""
    present = len(before_move(partition))
    if len(replicas) != present:
        raise Refused(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The replication factor is changed from {present} to {len(replicas)}",
        )


def before_move(partition: PartitionImage) -> Replicas:
    """The replicas without those that are coming."""
    return tuple(id_ for id_ in partition.replicas if id_ not in partition.adding_replicas)


def move_to(partition: PartitionImage, replicas: Replicas) -> Target:
    """Step 1 of a move to `replicas`."""
    removing = tuple(sorted(set(partition.replicas) - set(replicas)))
    adding = tuple(sorted(set(replicas) - set(before_move(partition))))
    return Target(replicas=replicas + removing, removing=removing, adding=adding)


def call_off(
    image: ClusterImage, topic: TopicImage, partition: PartitionImage, policies: TopicPolicies
) -> Target:
    """Back to the replicas before the move. Raises Refused; see the table.

    If none of those is in sync, one is elected uncleanly. Kafka puts the first of them into the
    in-sync set as if it had never left it; here it leads as one that recovers, which is the truth.
    """
    if not partition.is_reassigning:
        raise Refused(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    replicas = before_move(partition)
    isr = tuple(id_ for id_ in partition.isr if id_ in replicas)
    if not isr:
        if not policies.is_unclean_allowed(topic.name):
            raise Refused(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Unable to revert partition assignment for {topic.name}:"
                f"{topic.partitions.index(partition)} because it would require an unclean leader"
                " election.",
            )
        may_lead = leadership(image.brokers, partition)
        if not any(may_lead(id_) for id_ in replicas):
            isr = replicas[:1]
    return Target(
        isr=isr, replicas=replicas, removing=(), adding=(), election=election_for(topic, policies)
    )


def list_reassignments(
    image: ClusterImage, request: listing.ListPartitionReassignmentsRequest
) -> listing.ListPartitionReassignmentsResponse:
    """What moves of what was asked for, null being everything; topics by name."""
    response = listing.ListPartitionReassignmentsResponse(error_message=None)
    if request.topics is None:
        names = dict.fromkeys(sorted(image.topics_by_name))
        asked: list[tuple[str, Sequence[int] | None]] = [*names.items()]
    else:
        asked = [(one.name, one.partition_indexes) for one in request.topics]
    for name, indexes in asked:
        topic = image.topics_by_name.get(name)
        if topic is None:
            continue
        moving = _moving(topic, range(len(topic.partitions)) if indexes is None else indexes)
        if moving:
            response.topics.append(listing.OngoingTopicReassignment(name=name, partitions=moving))
    return response


def _moving(
    topic: TopicImage, indexes: Sequence[int]
) -> list[listing.OngoingPartitionReassignment]:
    moving: list[listing.OngoingPartitionReassignment] = []
    for index in dict.fromkeys(indexes):
        if 0 <= index < len(topic.partitions) and topic.partitions[index].is_reassigning:
            partition = topic.partitions[index]
            moving.append(
                listing.OngoingPartitionReassignment(
                    partition_index=index,
                    replicas=list(partition.replicas),
                    adding_replicas=list(partition.adding_replicas),
                    removing_replicas=list(partition.removing_replicas),
                )
            )
    return moving
