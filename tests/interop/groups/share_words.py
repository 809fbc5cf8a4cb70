"""Share groups in few words: members, share sessions, acknowledgements, what administrators see."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from fencepost.batch.records import build_batch
from fencepost.wire.api import share_acknowledge, share_fetch
from fencepost.wire.api.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from fencepost.wire.api.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from fencepost.wire.api.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from fencepost.wire.api.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from fencepost.wire.api.share_group_describe import ShareGroupDescribeRequest
from fencepost.wire.api.share_group_heartbeat import ShareGroupHeartbeatRequest
from fencepost.wire.types import Uuid

from ...waiting import eventually
from .group_words import set_group_config
from .stage import MAIN, Stage

VERSION = 1
SESSION_VERSION = 2
GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
Acks = list[tuple[int, int, list[int]]]
"""First offset, last offset, acknowledge types."""


def beat(
    stage: Stage,
    group: str,
    member: str,
    epoch: int,
    *names: str,
    error: int | None = 0,
    by: str = MAIN,
    **said: Any,
) -> Any:
    """ShareGroupHeartbeat; without names they are unchanged."""
    if names:
        said["subscribed_topic_names"] = list(names)
    request = ShareGroupHeartbeatRequest(
        group_id=group, member_id=member, member_epoch=epoch, **said
    )
    return stage.ask(request, VERSION, error=error, by=by)


def join(stage: Stage, group: str, label: str, *names: str, **said: Any) -> Any:
    """The first heartbeat of a member with this name."""
    return beat(stage, group, stage.member(label), 0, *names, **said)


def join_until_assigned(stage: Stage, group: str, label: str, *names: str) -> Any:
    """Join, then heartbeats until the partitions are initialised and given; the last answer."""
    request = ShareGroupHeartbeatRequest(
        group_id=group,
        member_id=stage.member(label),
        member_epoch=0,
        subscribed_topic_names=list(names),
    )

    def is_given(answer: Any) -> bool:
        request.member_epoch = answer.member_epoch
        return answer.assignment is not None and bool(answer.assignment.topic_partitions)

    return stage.until(request, is_given, "an assignment", VERSION)


def assigned(stage: Stage, answer: Any) -> dict[str, list[int]] | None:
    """The partitions in an answer, by names; None where it has no assignment."""
    if answer.assignment is None:
        return None
    return {
        stage.topic_name(one.topic_id): sorted(one.partitions)
        for one in answer.assignment.topic_partitions
    }


def describe(stage: Stage, group: str, *, error: int | None = 0) -> Any:
    request = ShareGroupDescribeRequest(group_ids=[group])
    return stage.ask(request, VERSION, error=error).groups[0]


def produce(stage: Stage, topic: str, *values: bytes, partition: int = 0, by: str = MAIN) -> int:
    """Append these values as one batch; their first offset."""
    batch = build_batch([(None, value) for value in values], timestamp_ms=1_000)
    row = PartitionProduceData(index=partition, records=batch)
    data = TopicProduceData(name=topic, partition_data=[row])
    request = ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[data])
    answer = stage.connection(by).request(request, 9)
    (made,) = answer.responses[0].partition_responses
    assert made.error_code == 0, made
    return int(made.base_offset)


def fetch_request(
    stage: Stage,
    group: str | None,
    member: str | None,
    epoch: int,
    topics: dict[str, dict[int, Acks]] | None = None,
    *,
    forgotten: dict[str, list[int]] | None = None,
    **said: Any,
) -> share_fetch.ShareFetchRequest:
    """ShareFetch of these partitions, with these acknowledgements."""
    fields: dict[str, Any] = {
        "max_wait_ms": 500,
        "min_bytes": 1,
        "max_bytes": 1 << 20,
        "max_records": 500,
        "batch_size": 500,
    }
    return share_fetch.ShareFetchRequest(
        group_id=group,
        member_id=member,
        share_session_epoch=epoch,
        topics=[
            share_fetch.FetchTopic(
                topic_id=topic_id_of(stage, name),
                partitions=[
                    share_fetch.FetchPartition(
                        partition_index=number,
                        acknowledgement_batches=[
                            share_fetch.AcknowledgementBatch(
                                first_offset=first, last_offset=last, acknowledge_types=types
                            )
                            for first, last, types in acks
                        ],
                    )
                    for number, acks in partitions.items()
                ],
            )
            for name, partitions in (topics or {}).items()
        ],
        forgotten_topics_data=[
            share_fetch.ForgottenTopic(topic_id=topic_id_of(stage, name), partitions=numbers)
            for name, numbers in (forgotten or {}).items()
        ],
        **{**fields, **said},
    )


UNKNOWN_TOPIC = "no such topic"


def topic_id_of(stage: Stage, name: str) -> Uuid:
    """The topic's id; an id that no topic has for `UNKNOWN_TOPIC`."""
    return Uuid(b"no topic has it.") if name == UNKNOWN_TOPIC else stage.topic_id(name)


def fetch(
    stage: Stage,
    group: str | None,
    member: str | None,
    epoch: int,
    topics: dict[str, dict[int, Acks]] | None = None,
    *,
    error: int | None = 0,
    by: str = MAIN,
    version: int = SESSION_VERSION,
    only: Callable[[Any], Any] | None = None,
    **said: Any,
) -> Any:
    request = fetch_request(stage, group, member, epoch, topics, **said)
    return stage.ask(request, version, error=error, by=by, only=only)


def fetch_some(
    stage: Stage,
    group: str,
    member: str,
    epoch: int,
    topic: str,
    partition: int = 0,
    *,
    by: str = MAIN,
    **said: Any,
) -> int:
    """Fetch with increasing session epochs until records are acquired; the next session epoch.

    Only the answer with records is compared: how many answers without any come before is a matter
    of when the share partition has been initialised.
    """
    epochs = itertools.count(epoch)

    def asked() -> int:
        now = next(epochs)
        topics: dict[str, dict[int, Acks]] | None = {topic: {partition: []}} if now == 0 else None
        answer = fetch(stage, group, member, now, topics, by=by, **said)
        if acquired(answer):
            return now + 1
        stage.entries.pop()
        return 0

    return eventually(asked, "records")


def acknowledge(
    stage: Stage,
    group: str | None,
    member: str | None,
    epoch: int,
    topics: dict[str, dict[int, Acks]] | None = None,
    *,
    error: int | None = 0,
    by: str = MAIN,
    version: int = SESSION_VERSION,
    is_renew_ack: bool = False,
) -> Any:
    """ShareAcknowledge with these acknowledgements."""
    said: dict[str, Any] = {"is_renew_ack": is_renew_ack} if version >= 2 else {}
    request = share_acknowledge.ShareAcknowledgeRequest(
        group_id=group,
        member_id=member,
        share_session_epoch=epoch,
        topics=[
            share_acknowledge.AcknowledgeTopic(
                topic_id=topic_id_of(stage, name),
                partitions=[
                    share_acknowledge.AcknowledgePartition(
                        partition_index=number,
                        acknowledgement_batches=[
                            share_acknowledge.AcknowledgementBatch(
                                first_offset=first, last_offset=last, acknowledge_types=types
                            )
                            for first, last, types in acks
                        ],
                    )
                    for number, acks in partitions.items()
                ],
            )
            for name, partitions in (topics or {}).items()
        ],
        **said,
    )
    return stage.ask(request, version, error=error, by=by)


def acquired(answer: Any) -> list[tuple[int, int, int]]:
    """First and last offset and delivery count of what a fetch brought."""
    return [
        (one.first_offset, one.last_offset, one.delivery_count)
        for topic in answer.responses
        for partition in topic.partitions
        for one in partition.acquired_records
    ]


def ready_group(stage: Stage, *labels: str, partitions: int = 1, **configs: str) -> tuple[str, str]:
    """A topic and a share group that reads it from the beginning, with these members."""
    topic, group = stage.topic("t", partitions), stage.name("g")
    settings: dict[str, str | None] = {"share.auto.offset.reset": "earliest"}
    settings |= {f"share.{key.replace('_', '.')}": value for key, value in configs.items()}
    set_group_config(stage, group, settings)
    for label in labels:
        join_until_assigned(stage, group, label, topic)
    return topic, group


def describe_offsets(
    stage: Stage,
    group: str,
    topics: dict[str, list[int]] | None = None,
    *,
    version: int = 1,
    error: int | None = 0,
) -> Any:
    rows = None
    if topics is not None:
        rows = [
            DescribeShareGroupOffsetsRequestTopic(topic_name=name, partitions=numbers)
            for name, numbers in topics.items()
        ]
    wanted = DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=rows)
    request = DescribeShareGroupOffsetsRequest(groups=[wanted])
    return stage.ask(request, version, error=error).groups[0]


def alter_offsets(
    stage: Stage, group: str, topics: dict[str, dict[int, int]], *, error: int | None = 0
) -> Any:
    rows = [
        AlterShareGroupOffsetsRequestTopic(
            topic_name=name,
            partitions=[
                AlterShareGroupOffsetsRequestPartition(partition_index=number, start_offset=offset)
                for number, offset in partitions.items()
            ],
        )
        for name, partitions in topics.items()
    ]
    return stage.ask(AlterShareGroupOffsetsRequest(group_id=group, topics=rows), 0, error=error)


def delete_offsets(stage: Stage, group: str, *topics: str, error: int | None = 0) -> Any:
    rows = [DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in topics]
    return stage.ask(DeleteShareGroupOffsetsRequest(group_id=group, topics=rows), 0, error=error)
