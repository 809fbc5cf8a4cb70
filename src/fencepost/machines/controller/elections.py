"""Elections without a broker that comes or goes: asked for, preferred, unclean (KIP-183, KIP-460).

ElectLeaders, for each partition, the first that fits:

| # | condition                                              | error                          |
|---|--------------------------------------------------------|--------------------------------|
| 1 | there is no such partition                             | UNKNOWN_TOPIC_OR_PARTITION     |
| 2 | preferred: the first replica leads; unclean: any does  | ELECTION_NOT_NEEDED            |
| 3 | preferred: the first replica may not lead              | PREFERRED_LEADER_NOT_AVAILABLE |
| 4 | unclean: no replica may lead                           | ELIGIBLE_LEADERS_NOT_AVAILABLE |

ElectLeaders does not depend on the topic's configs (`unclean.leader.election.enable`). As in Kafka,
a preferred election of a partition without a leader may find another replica, which is no error.

What the controller does by itself, now and then, it does for `ELECTIONS_PER_ROUND` partitions at a
time and goes on at once: partitions whose preferred replica could lead and does not
(`auto.leader.rebalance.enable`), and those without a leader whose topic allows an unclean election.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Final

from fencepost.machines.controller.decision import MAX_RECORDS, TOO_MANY_RECORDS, Refused
from fencepost.machines.controller.partition_change import Election, Target
from fencepost.machines.controller.partitions import TopicPolicies, propose
from fencepost.machines.image import NO_LEADER, ClusterImage, PartitionImage, TopicImage
from fencepost.wire.api import elect_leaders as wire
from fencepost.wire.errors import ErrorCode
from fencepost.wire.records.metadata import PartitionChangeRecord

PREFERRED, UNCLEAN = 0, 1
"""Types of elections, as in requests."""

ELECTIONS_PER_ROUND: Final = 1_000
"""Elections that the controller decides on by itself before it does anything else."""


def elect_leaders(
    image: ClusterImage, request: wire.ElectLeadersRequest, policies: TopicPolicies
) -> tuple[wire.ElectLeadersResponse, list[PartitionChangeRecord]]:
    """The answer to a request, and the records. A partition that is named twice is elected once.

    A request for all partitions is answered with all topics, and with those of their partitions
    that do not have the leader already. One for none is not looked at, as in Kafka.
    """
    if request.topic_partitions is not None and not request.topic_partitions:
        return wire.ElectLeadersResponse(), []
    if request.election_type not in (PREFERRED, UNCLEAN):
        unknown = f"Unknown election type {request.election_type}"
        return _refused(request, ErrorCode.INVALID_REQUEST, unknown), []
    is_unclean = request.election_type == UNCLEAN
    records: list[PartitionChangeRecord] = []
    results: list[wire.ReplicaElectionResult] = []
    done: dict[tuple[str, int], wire.PartitionResult] = {}

    def elect(name: str, index: int) -> wire.PartitionResult:
        result = done.get((name, index))
        if result is None:
            result = wire.PartitionResult(partition_id=index, error_message=None)
            try:
                records.append(_elect(image, name, index, is_unclean, policies))
            except Refused as refused:
                result.error_code, result.error_message = refused.error, refused.message
            done[name, index] = result
        return result

    if request.topic_partitions is None:
        for topic in sorted(image.topics_by_name.values(), key=lambda one: one.name):
            found = [elect(topic.name, index) for index in range(len(topic.partitions))]
            told = [one for one in found if one.error_code != ErrorCode.ELECTION_NOT_NEEDED]
            results.append(wire.ReplicaElectionResult(topic=topic.name, partition_result=told))
    else:
        for asked in request.topic_partitions:
            found = [elect(asked.topic, index) for index in asked.partitions]
            results.append(wire.ReplicaElectionResult(topic=asked.topic, partition_result=found))
    if len(records) > MAX_RECORDS:
        return _refused(request, ErrorCode.POLICY_VIOLATION, TOO_MANY_RECORDS), []
    return wire.ElectLeadersResponse(replica_election_results=results), records


def _refused(
    request: wire.ElectLeadersRequest, error: ErrorCode, message: str
) -> wire.ElectLeadersResponse:
    """The answer for all partitions that are named."""
    results = [
        wire.ReplicaElectionResult(
            topic=asked.topic,
            partition_result=[
                wire.PartitionResult(partition_id=index, error_code=error, error_message=message)
                for index in asked.partitions
            ],
        )
        for asked in request.topic_partitions or ()
    ]
    return wire.ElectLeadersResponse(error_code=error, replica_election_results=results)


def _elect(
    image: ClusterImage, name: str, index: int, is_unclean: bool, policies: TopicPolicies
) -> PartitionChangeRecord:
    """The record of one election. Raises Refused; see the table."""
    topic = image.topics_by_name.get(name)
    if topic is None or not 0 <= index < len(topic.partitions):
        missing = f"topic as {name}" if topic is None else f"partition as {name}-{index}"
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such {missing}")
    partition = topic.partitions[index]
    if partition.leader != NO_LEADER and (is_unclean or has_preferred_leader(partition)):
        raise Refused(
            ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition."
        )
    election = Election.UNCLEAN if is_unclean else Election.PREFERRED
    record = propose(image, topic, index, Target(election=election), policies)
    if record is None and is_unclean:
        raise Refused(
            ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
            "Eligible topic partition leaders are not available.",
        )
    if record is None:
        raise Refused(
            ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
            "The preferred leader was not available.",
        )
    return record


def has_preferred_leader(partition: PartitionImage) -> bool:
    """Whether the first of the replicas leads."""
    return partition.leader == partition.replicas[0]


def preferred_elections(
    image: ClusterImage, policies: TopicPolicies
) -> list[PartitionChangeRecord]:
    """Give leadership back to preferred replicas, one round of it."""

    def propose_preferred(topic: TopicImage, index: int) -> PartitionChangeRecord | None:
        if has_preferred_leader(topic.partitions[index]):
            return None
        return propose(image, topic, index, Target(election=Election.PREFERRED), policies)

    return _round(image, propose_preferred)


def unclean_elections(image: ClusterImage, policies: TopicPolicies) -> list[PartitionChangeRecord]:
    """Elect leaders, at the price of data, where there is none and the topic allows it, one round
    of it."""

    def propose_unclean(topic: TopicImage, index: int) -> PartitionChangeRecord | None:
        is_led = topic.partitions[index].leader != NO_LEADER
        if is_led or not policies.is_unclean_allowed(topic.name):
            return None
        return propose(image, topic, index, Target(election=Election.UNCLEAN), policies)

    return _round(image, propose_unclean)


def _round(
    image: ClusterImage, decide: Callable[[TopicImage, int], PartitionChangeRecord | None]
) -> list[PartitionChangeRecord]:
    """Up to ELECTIONS_PER_ROUND records, by topic name and partition."""
    decided = (
        decide(topic, index)
        for topic in sorted(image.topics_by_name.values(), key=lambda one: one.name)
        for index in range(len(topic.partitions))
    )
    return list(islice((record for record in decided if record), ELECTIONS_PER_ROUND))
