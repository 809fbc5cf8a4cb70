"""AlterPartition: leaders say who is in sync with them (KIP-497, KIP-704, KIP-841, KIP-903).

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

from collections.abc import Iterable, Mapping

from fencepost.machines.controller.decision import Refused
from fencepost.machines.controller.partition_change import Target
from fencepost.machines.controller.partitions import TopicPolicies, election_for, propose
from fencepost.machines.controller.rules import ControllerRules
from fencepost.machines.image import (
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
from fencepost.wire.records.metadata import PartitionChangeRecord
from fencepost.wire.types import Uuid


def alter_partition(
    image: ClusterImage,
    sender: int,
    topic: TopicImage,
    asked: wire.PartitionDataRequest,
    policies: TopicPolicies,
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
    _check_epochs(partition, sender, asked, policies.rules)
    _check_isr(partition, asked)
    _check_eligible(image.brokers, asked.new_isr_with_epochs)
    target = Target(
        isr=tuple(member.broker_id for member in asked.new_isr_with_epochs),
        recovery_state=asked.leader_recovery_state,
        election=election_for(topic, policies),
    )
    record = propose(image, topic, index, target, policies)
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


def _check_epochs(
    partition: PartitionImage,
    sender: int,
    asked: wire.PartitionDataRequest,
    rules: ControllerRules,
) -> None:
    """Rows 3 to 6."""
    ours = (partition.leader_epoch, partition.partition_epoch)
    if rules.is_ahead((asked.leader_epoch, asked.partition_epoch), ours):
        raise Refused(ErrorCode.NOT_CONTROLLER, f"epochs {ours} here are behind the request's")
    if asked.leader_epoch != partition.leader_epoch:
        raise Refused(ErrorCode.FENCED_LEADER_EPOCH, f"the leader epoch is {ours[0]} by now")
    if sender != partition.leader:
        raise Refused(ErrorCode.INVALID_REQUEST, f"{partition.leader} leads, not {sender}")
    if asked.partition_epoch != partition.partition_epoch:
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
    policies: TopicPolicies,
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
                answer, record = alter_partition(
                    image, request.broker_id, topic, _with_epochs(asked), policies
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
