"""What ConsumerGroupDescribe says of members, and how topics get their names in it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from fencepost.machines.group.consumer.member import (
    Held,
    Partitions,
    Progress,
    Subscription,
)
from fencepost.machines.image import ClusterImage
from fencepost.wire.api.consumer_group_describe import (
    Assignment,
    DescribedGroup,
    Member,
    TopicPartitions,
)
from fencepost.wire.types import Uuid

CLASSIC_MEMBER: Final = 0
CONSUMER_MEMBER: Final = 1


def describe_member(
    member_id: str, said: Subscription, progress: Progress, target: Partitions
) -> Member:
    """A member; topics have their ids alone."""
    return Member(
        member_id=member_id,
        instance_id=said.instance_id,
        rack_id=said.rack_id,
        member_epoch=progress.epoch,
        client_id=said.client_id,
        client_host=said.client_host,
        subscribed_topic_names=sorted(said.topic_names),
        subscribed_topic_regex=said.regex,
        assignment=_assignment(progress.assigned, progress.pending),
        target_assignment=_assignment(target),
        member_type=CONSUMER_MEMBER if said.classic is None else CLASSIC_MEMBER,
    )


def _assignment(*parts: Held | Partitions) -> Assignment:
    """The partitions of all parts: what is pending revocation counts as had (KAFKA-20431)."""
    indexes: dict[Uuid, set[int]] = {}
    for part in parts:
        for topic_id, some in part.items():
            indexes.setdefault(topic_id, set()).update(some)
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, partitions=sorted(some))
            for topic_id, some in sorted(indexes.items())
        ]
    )


def name_topics(described: Iterable[DescribedGroup], image: ClusterImage) -> None:
    """Give every topic its name; those deleted meanwhile have none, and are left out."""
    for group in described:
        for member in group.members:
            for assignment in (member.assignment, member.target_assignment):
                named = []
                for topic in assignment.topic_partitions:
                    found = image.topics_by_id.get(topic.topic_id)
                    if found is not None:
                        topic.topic_name = found.name
                        named.append(topic)
                assignment.topic_partitions = named
