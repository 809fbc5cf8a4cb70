"""Topics: creating, deleting, and adding partitions, item by item, with Kafka's rules and codes.

A request's items stand or fall alone, and each gets its own error. Within a request they know of
each other: two items of one name are both refused, and a name that collides with one accepted
before it (they differ only in '.' and '_') is refused too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from fencepost.log.config import validate_topic_configs
from fencepost.log.configdef import ConfigError
from fencepost.machines.controller.config import MAX_PARTITIONS_PER_REQUEST, ControllerConfig
from fencepost.machines.controller.decision import (
    FREE,
    MAX_RECORDS,
    TOO_MANY_RECORDS,
    Charge,
    Refused,
    append_or_refuse,
    charge_or_refuse,
)
from fencepost.machines.controller.names import (
    METADATA_TOPIC,
    CollidingNames,
    check_topic_name,
    collides,
    metric_form,
)
from fencepost.machines.controller.partitions import new_partition_record
from fencepost.machines.controller.placement import place_replicas
from fencepost.machines.image import RESOURCE_TOPIC, ClusterImage, TopicImage
from fencepost.wire.api import create_partitions, create_topics, delete_topics
from fencepost.wire.errors import ErrorCode
from fencepost.wire.message import Message
from fencepost.wire.records.metadata import (
    ConfigRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from fencepost.wire.types import Uuid

NAME_TWICE: Final = "Duplicate topic name."
NOT_HOSTED: Final = "This server does not host this topic-partition."
TOO_MANY_PARTITIONS: Final = "Excessively large number of partitions per request."
TOO_MANY_TO_ADD: Final = "Excessively large number of additional partitions per request."


class TopicMaker:
    """Decides one CreateTopics request, topic by topic."""

    def __init__(
        self,
        image: ClusterImage,
        config: ControllerConfig,
        names: CollidingNames,
        new_ids: Iterator[Uuid],
        start: int,
        charge: Charge = FREE,
    ) -> None:
        self._charge = charge
        self._image = image
        self._config = config
        self._new_ids = new_ids
        self._start = start
        self._names = names
        self._new_names: dict[str, str] = {}  # of this request, by their metric forms
        self._checked: set[tuple[tuple[str, str], ...]] = set()  # configs that were found to do
        self.records: list[Message] = []

    def make(self, request: create_topics.CreateTopicsRequest) -> list[
        create_topics.CreatableTopicResult
    ]:  # fmt: skip
        """The results, those of names given more than once at the end; fills `records`. A request
        that is too much is refused as a whole, with a result for each time that a name is given."""
        named = Counter(topic.name for topic in request.topics)
        twice = [name for name, count in named.items() if count > 1]
        once = [topic for topic in request.topics if named[topic.name] == 1]
        if self._count_partitions(once) > MAX_PARTITIONS_PER_REQUEST:
            return self._refuse(request, TOO_MANY_PARTITIONS)
        results: list[create_topics.CreatableTopicResult] = []
        for topic in once:
            try:
                results.append(self._make_one(topic))
            except Refused as refused:
                results.append(_failed(topic.name, refused))
            if len(self.records) > MAX_RECORDS:
                return self._refuse(request, TOO_MANY_RECORDS)
        again = Refused(ErrorCode.INVALID_REQUEST, NAME_TWICE)
        return results + [_failed(name, again) for name in twice]

    def _refuse(
        self, request: create_topics.CreateTopicsRequest, reason: str
    ) -> list[create_topics.CreatableTopicResult]:
        """All of it is too much."""
        self.records = []
        too_many = Refused(ErrorCode.POLICY_VIOLATION, reason)
        return [_failed(topic.name, too_many) for topic in request.topics]

    def _count_partitions(self, topics: Sequence[create_topics.CreatableTopic]) -> int:
        total = 0
        for topic in topics:
            if topic.assignments:
                total += len(topic.assignments)
            elif topic.num_partitions == -1:
                total += self._config.num_partitions
            else:
                total += max(topic.num_partitions, 0)
        return total

    def _make_one(self, topic: create_topics.CreatableTopic) -> create_topics.CreatableTopicResult:
        self._check_name(topic.name)
        configs = self._checked_configs(topic)
        if topic.assignments:
            assignments = self._manual_assignments(topic)
        else:
            assignments = self._automatic_assignments(topic)
        charge_or_refuse(self._charge, len(assignments))
        topic_id = next(self._new_ids)
        assert topic_id not in self._image.topics_by_id, "topic ids are new"
        partitions = [
            new_partition_record(topic_id, index, replicas, self._image)
            for index, replicas in enumerate(assignments)
        ]
        self.records.append(TopicRecord(name=topic.name, topic_id=topic_id))
        self.records += configs
        self.records += partitions
        if collides(topic.name):
            self._new_names[metric_form(topic.name)] = topic.name
        return create_topics.CreatableTopicResult(
            name=topic.name,
            topic_id=topic_id,
            error_message=None,
            num_partitions=len(partitions),
            replication_factor=len(assignments[0]),
            configs=[],
        )

    def _check_name(self, name: str) -> None:
        if name == METADATA_TOPIC:
            raise Refused(
                ErrorCode.INVALID_REQUEST, f"Creation of internal topic {name} is prohibited."
            )
        if name in self._image.topics_by_name:
            raise Refused(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
        check_topic_name(name)
        if collides(name):
            other = self._names.like(name) or self._new_names.get(metric_form(name))
            if other is not None:
                raise Refused(
                    ErrorCode.INVALID_TOPIC_EXCEPTION,
                    f"Topic '{name}' collides with existing topic: {other}",
                )

    def _checked_configs(self, topic: create_topics.CreatableTopic) -> list[ConfigRecord]:
        """The records of the topic's configs; of a name given twice the last value counts."""
        nulls = sorted({item.name for item in topic.configs if item.value is None})
        if nulls:
            raise Refused(
                ErrorCode.INVALID_CONFIG,
                f"Null value not supported for topic configs: {','.join(nulls)}",
            )
        values = {item.name: item.value for item in topic.configs if item.value is not None}
        given = tuple(values.items())
        if given not in self._checked:
            try:
                validate_topic_configs(values, self._config.topic_defaults)
            except ConfigError as error:
                raise Refused(ErrorCode.INVALID_CONFIG, error.answer) from None
            self._checked.add(given)
        return [
            ConfigRecord(
                resource_type=RESOURCE_TOPIC, resource_name=topic.name, name=name, value=value
            )
            for name, value in values.items()
        ]

    def _manual_assignments(self, topic: create_topics.CreatableTopic) -> list[list[int]]:
        for field, value in (
            ("replication factor", topic.replication_factor),
            ("numPartitions", topic.num_partitions),
        ):
            if value != -1:
                raise Refused(
                    ErrorCode.INVALID_REQUEST,
                    f"A manual partition assignment was specified, but {field} was not set to -1.",
                )
        by_index: dict[int, list[int]] = {}
        replication_factor: int | None = None
        for assignment in topic.assignments:
            index = assignment.partition_index
            if index in by_index:
                raise Refused(
                    ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                    f"Found multiple manual partition assignments for partition {index}",
                )
            check_assignment(self._image, assignment.broker_ids, replication_factor)
            replication_factor = len(assignment.broker_ids)
            by_index[index] = list(assignment.broker_ids)
        if sorted(by_index) != list(range(len(by_index))):
            raise Refused(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                "partitions should be a consecutive 0-based integer sequence",
            )
        return [by_index[index] for index in range(len(by_index))]

    def _automatic_assignments(self, topic: create_topics.CreatableTopic) -> list[list[int]]:
        if topic.replication_factor < -1 or topic.replication_factor == 0:
            raise Refused(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                "Replication factor must be larger than 0, or -1 to use the default value.",
            )
        if topic.num_partitions < -1 or topic.num_partitions == 0:
            raise Refused(
                ErrorCode.INVALID_PARTITIONS,
                "Number of partitions was set to an invalid non-positive value.",
            )
        config = self._config
        partitions = topic.num_partitions if topic.num_partitions > 0 else config.num_partitions
        factor = topic.replication_factor
        if factor < 0:
            factor = config.default_replication_factor
        start = self._start
        self._start += partitions  # so that topics of one request do not all begin at one broker
        return place_replicas(self._image.brokers.values(), partitions, factor, start)


def _failed(name: str, refused: Refused) -> create_topics.CreatableTopicResult:
    return create_topics.CreatableTopicResult(
        name=name, error_code=refused.error, error_message=refused.message
    )


def check_assignment(
    image: ClusterImage,
    broker_ids: Sequence[int],
    replication_factor: int | None,
    present: Sequence[int] = (),
) -> None:
    """Refuse a manual assignment of one partition with INVALID_REPLICA_ASSIGNMENT.

    `present` are brokers that have the partition already: cordoned directories do not take it from
    them (KIP-1066).
    """
    if not broker_ids:
        reason = "The manual partition assignment includes an empty replica list."
    elif unknown := [id_ for id_ in broker_ids if id_ not in image.brokers]:
        reason = (
            f"The manual partition assignment includes broker {unknown[0]}, but no such broker is"
            " registered."
        )
    elif twice := [id_ for id_, count in Counter(broker_ids).items() if count > 1]:
        reason = f"The manual partition assignment includes the broker {min(twice)} more than once."
    elif cordoned := [
        id_ for id_ in broker_ids if id_ not in present and image.brokers[id_].is_cordoned
    ]:
        reason = (
            f"The manual partition assignment includes broker {cordoned[0]}, but all its log"
            " directories are cordoned."
        )
    elif replication_factor is not None and len(broker_ids) != replication_factor:
        reason = (
            "The manual partition assignment includes a partition with "
            f"{len(broker_ids)} replica(s), but this is not consistent with previous partitions,"
            f" which have {replication_factor} replica(s)."
        )
    else:
        return
    raise Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, reason)


# -- deleting ----------------------------------------------------------------------------------


def decide_deletions(
    image: ClusterImage, request: delete_topics.DeleteTopicsRequest, charge: Charge = FREE
) -> tuple[list[delete_topics.DeletableTopicResult], list[Message]]:
    """Results and records; a topic is meant by name or by id, once. Internal topics may go too.

    As many topics as there may be records are deleted; the others are refused.
    """
    results: list[delete_topics.DeletableTopicResult] = []
    records: list[Message] = []
    names: list[str] = list(request.topic_names)
    ids: list[Uuid] = []
    for asked in request.topics:
        if asked.name is not None and asked.topic_id != Uuid.ZERO:
            reason = Refused(
                ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id."
            )
            results.append(_not_deleted(asked.name, asked.topic_id, reason))
        elif asked.name is not None:
            names.append(asked.name)
        elif asked.topic_id != Uuid.ZERO:
            ids.append(asked.topic_id)
        else:
            reason = Refused(ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified.")
            results.append(_not_deleted(None, Uuid.ZERO, reason))
    wanted = Counter(ids)
    twice = Refused(ErrorCode.INVALID_REQUEST, NAME_TWICE)
    for name, count in Counter(names).items():
        topic = image.topics_by_name.get(name)
        if count > 1:
            results.append(_not_deleted(name, Uuid.ZERO, twice))
        elif topic is None:
            reason = Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, NOT_HOSTED)
            results.append(_not_deleted(name, Uuid.ZERO, reason))
        elif topic.topic_id in wanted:
            results.append(_not_deleted(name, topic.topic_id, twice))
            if wanted[topic.topic_id] == 1:
                del wanted[topic.topic_id]  # that was its answer, too
        else:
            results.append(_deleted(topic, records, charge))
    for topic_id, count in wanted.items():
        topic = image.topics_by_id.get(topic_id)
        if count > 1:
            twice = Refused(ErrorCode.INVALID_REQUEST, "Duplicate topic id.")
            results.append(_not_deleted(None, topic_id, twice))
        elif topic is None:
            reason = Refused(ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
            results.append(_not_deleted(None, topic_id, reason))
        else:
            results.append(_deleted(topic, records, charge))
    return results, records


def _not_deleted(
    name: str | None, topic_id: Uuid, refused: Refused
) -> delete_topics.DeletableTopicResult:
    return delete_topics.DeletableTopicResult(
        name=name, topic_id=topic_id, error_code=refused.error, error_message=refused.message
    )


def _deleted(
    topic: TopicImage, records: list[Message], charge: Charge
) -> delete_topics.DeletableTopicResult:
    try:
        charge_or_refuse(charge, len(topic.partitions))
        append_or_refuse(records, RemoveTopicRecord(topic_id=topic.topic_id))
    except Refused as refused:
        return _not_deleted(topic.name, topic.topic_id, refused)
    return delete_topics.DeletableTopicResult(
        name=topic.name, topic_id=topic.topic_id, error_message=None
    )


# -- adding partitions -------------------------------------------------------------------------


def decide_more_partitions(
    image: ClusterImage,
    request: create_partitions.CreatePartitionsRequest,
    start: int,
    charge: Charge = FREE,
) -> tuple[list[create_partitions.CreatePartitionsTopicResult], list[Message]]:
    """Results and records; names given more than once come first, refused. A request that is too
    much is refused as a whole, with a result for each time that a name is given."""
    named = Counter(topic.name for topic in request.topics)
    once = [topic for topic in request.topics if named[topic.name] == 1]
    if _count_additional(image, once) > MAX_PARTITIONS_PER_REQUEST:
        return _too_many(request, TOO_MANY_TO_ADD), []
    if len(once) > MAX_RECORDS:  # Kafka bounds the list of results, too
        return _too_many(request, TOO_MANY_RECORDS), []
    results = [
        create_partitions.CreatePartitionsTopicResult(
            name=name,
            error_code=ErrorCode.INVALID_REQUEST,
            error_message=NAME_TWICE,
        )
        for name, count in named.items()
        if count > 1
    ]
    records: list[Message] = []
    for asked in once:
        result = create_partitions.CreatePartitionsTopicResult(name=asked.name, error_message=None)
        try:
            records += _more_partitions(image, asked, start + len(records), charge)
        except Refused as refused:
            result.error_code, result.error_message = refused.error, refused.message
        results.append(result)
    return results, records


def _too_many(
    request: create_partitions.CreatePartitionsRequest, reason: str
) -> list[create_partitions.CreatePartitionsTopicResult]:
    return [
        create_partitions.CreatePartitionsTopicResult(
            name=topic.name, error_code=ErrorCode.POLICY_VIOLATION, error_message=reason
        )
        for topic in request.topics
    ]


def _count_additional(
    image: ClusterImage, asked: Sequence[create_partitions.CreatePartitionsTopic]
) -> int:
    """How many partitions topics that exist would have more."""
    total = 0
    for one in asked:
        topic = image.topics_by_name.get(one.name)
        if topic is not None:
            total += max(one.count - len(topic.partitions), 0)
    return total


def _more_partitions(
    image: ClusterImage,
    asked: create_partitions.CreatePartitionsTopic,
    start: int,
    charge: Charge,
) -> list[PartitionRecord]:
    topic = image.topics_by_name.get(asked.name)
    if topic is None:
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    present = len(topic.partitions)
    additional = asked.count - present
    if additional == 0:
        raise Refused(ErrorCode.INVALID_PARTITIONS, f"Topic already has {present} partition(s).")
    if additional < 0:
        raise Refused(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {asked.name} currently has {present} partition(s); {asked.count} would not"
            " be an increase.",
        )
    if asked.assignments is not None and len(asked.assignments) != additional:
        raise Refused(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Attempted to add {additional} additional partition(s), but only"
            f" {len(asked.assignments)} assignment(s) were specified.",
        )
    charge_or_refuse(charge, additional)
    replication_factor = len(topic.partitions[0].replicas)
    if asked.assignments is None:
        placed = place_replicas(
            image.brokers.values(), additional, replication_factor, start + present
        )
    else:
        placed = []
        for assignment in asked.assignments:
            check_assignment(image, assignment.broker_ids, replication_factor)
            placed.append(list(assignment.broker_ids))
    return [
        new_partition_record(topic.topic_id, present + i, replicas, image)
        for i, replicas in enumerate(placed)
    ]
