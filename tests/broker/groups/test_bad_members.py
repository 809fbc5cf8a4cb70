"""Hostile members of the newer group types, against a served broker with others at work.

Heartbeats without end, thousands of regular expressions and of topics, members without number,
acknowledgements far outside of what was acquired: memory stays within bounds, the log has no
traceback, and another member of another group and librdkafka go on as if nothing was.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from fencepost.testing import Cluster
from fencepost.wire.api.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from fencepost.wire.api.create_topics import CreatableTopic, CreateTopicsRequest
from fencepost.wire.api.metadata import MetadataRequest, MetadataRequestTopic
from fencepost.wire.api.share_acknowledge import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from fencepost.wire.api.share_fetch import FetchPartition, FetchTopic, ShareFetchRequest
from fencepost.wire.api.share_group_heartbeat import ShareGroupHeartbeatRequest
from fencepost.wire.errors import ErrorCode
from fencepost.wire.message import Request
from fencepost.wire.types import Uuid

from ...waiting import eventually
from ..hostile import besieged
from ..listener_fixtures import Client, connect
from .group_requests import coordinated, new_group

pytestmark = pytest.mark.slow

BURST = 500
REFUSED_WHEN_FULL = (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.GROUP_MAX_SIZE_REACHED)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(
        faults=False,
        config={
            "offsets.topic.num.partitions": "1",
            "share.coordinator.state.topic.num.partitions": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "group.consumer.max.size": "1000",
        },
    ) as started:
        with connect(started) as client:
            topics = [
                CreatableTopic(name=name, num_partitions=1, replication_factor=1)
                for name in ("bystander", "sample")
            ]
            answer = client.ask(CreateTopicsRequest(topics=topics, timeout_ms=60_000), 7)
            assert not any(topic.error_code for topic in answer.topics)
            coordinated(client)
        yield started


def heartbeat(
    group: str, member: str, epoch: int = 0, **said: Any
) -> ConsumerGroupHeartbeatRequest:
    """A heartbeat; of a member that joins unless an epoch is named."""
    if epoch == 0:
        said = {
            "rebalance_timeout_ms": 30_000,
            "subscribed_topic_names": ["sample"],
            "topic_partitions": [],
            **said,
        }
    return ConsumerGroupHeartbeatRequest(
        group_id=group, member_id=member, member_epoch=epoch, **said
    )


@contextlib.contextmanager
def member_beside(cluster: Cluster) -> Iterator[None]:
    """A member of another group, which keeps its partition and its epoch all the time."""
    group, is_over = new_group(), threading.Event()
    failures: list[str] = []

    def live() -> None:
        with connect(cluster) as client:
            joined = client.ask(heartbeat(group, "well-behaved"), 1)
            while not is_over.wait(0.02):
                answer = client.ask(heartbeat(group, "well-behaved", joined.member_epoch), 1)
                if (answer.error_code, answer.member_epoch) != (0, joined.member_epoch):
                    failures.append(repr(answer))
                    return

    thread = threading.Thread(target=live)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
    assert failures == []


def pipelined(client: Client, requests: Sequence[Request[Any]], version: int) -> list[Any]:
    """Send all of them before the first answer is read."""
    for request in requests:
        client.send(request, version)
    key = requests[0].api_key
    assert key is not None
    return [client.receive(key, version)[1] for _ in requests]


def test_heartbeats_without_end(cluster: Cluster) -> None:
    """Full heartbeats back to back from one member, and of epochs that it never had."""
    group = new_group()
    with (
        besieged(cluster, "bystander", growth_mib=100),
        member_beside(cluster),
        connect(cluster) as client,
    ):
        epoch = client.ask(heartbeat(group, "m"), 1).member_epoch
        for _ in range(20):
            same = [heartbeat(group, "m", epoch, subscribed_topic_names=["sample"])] * BURST
            assert {one.error_code for one in pipelined(client, same, 1)} == {0}
        wrong = [heartbeat(group, "m", epoch + 1 + n) for n in range(BURST)]
        refused = {one.error_code for one in pipelined(client, wrong, 1)}
        assert refused == {ErrorCode.FENCED_MEMBER_EPOCH}


def test_subscriptions_that_change_all_the_time(cluster: Cluster) -> None:
    """Each of them raises the group's epoch and writes records; nothing of it stays in memory."""
    group = new_group()
    with (
        besieged(cluster, "bystander", growth_mib=150),
        member_beside(cluster),
        connect(cluster) as client,
    ):
        epoch = client.ask(heartbeat(group, "m"), 1).member_epoch
        for number in range(BURST):
            request = heartbeat(group, "m", epoch, subscribed_topic_names=[f"t-{number}"])
            answer = client.ask(request, 1)
            assert answer.error_code == 0
            epoch = answer.member_epoch


def test_thousands_of_regular_expressions(cluster: Cluster) -> None:
    """One group with a new expression for every member, large ones among them."""
    group = new_group()
    with (
        besieged(cluster, "bystander", growth_mib=200),
        member_beside(cluster),
        connect(cluster) as client,
    ):
        errors = set()
        for number in range(0, 2_000, BURST):
            requests = [
                heartbeat(
                    group,
                    f"m-{one}",
                    subscribed_topic_names=None,
                    subscribed_topic_regex=f"(a|b|c|{one}){{1,50}}.*",
                )
                for one in range(number, number + BURST)
            ]
            errors |= {one.error_code for one in pipelined(client, requests, 1)}
        assert errors <= {0, ErrorCode.INVALID_REGULAR_EXPRESSION, *REFUSED_WHEN_FULL}
        assert len(errors) > 1, "their number is bounded"
        bomb = "((((((x{100}){100}){100}){100}){100}))"
        request = heartbeat(new_group(), "m", subscribed_topic_regex=bomb)
        assert client.ask(request, 1).error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
        long = heartbeat(new_group(), "m", subscribed_topic_regex="x?" * 15_000)
        assert client.ask(long, 1).error_code in (0, ErrorCode.INVALID_REGULAR_EXPRESSION)


def test_subscriptions_of_ten_thousand_topics(cluster: Cluster) -> None:
    """From member after member, until the coordinator has no memory for more."""
    names = [f"no-such-topic-{number}" for number in range(10_000)]
    with (
        besieged(cluster, "bystander", growth_mib=600),
        member_beside(cluster),
        connect(cluster) as client,
    ):
        groups = [new_group() for _ in range(60)]
        errors = {
            client.ask(heartbeat(group, "m", subscribed_topic_names=names), 1).error_code
            for group in groups
        }
        assert errors <= {0, *REFUSED_WHEN_FULL}
        small = new_group()
        assert client.ask(heartbeat(small, "m"), 1).error_code == 0
        for group in groups:
            client.ask(heartbeat(group, "m", -1), 1)


def test_owned_partitions_that_are_made_up(cluster: Cluster) -> None:
    """Ten thousand of topics that do not exist, and numbers out of range."""
    group = new_group()
    rows = [
        TopicPartitions(topic_id=Uuid(number.to_bytes(16, "big")), partitions=[-1, 2**31 - 1])
        for number in range(1, 5_000)
    ]
    with (
        besieged(cluster, "bystander", growth_mib=200),
        member_beside(cluster),
        connect(cluster) as client,
    ):
        epoch = client.ask(heartbeat(group, "m"), 1).member_epoch
        for wrong in (0, 1):
            request = heartbeat(group, "m", epoch - wrong, topic_partitions=rows)
            expected = ErrorCode.FENCED_MEMBER_EPOCH if wrong else 0
            assert client.ask(request, 1).error_code == expected
        assert client.ask(heartbeat(group, "m", epoch), 1).error_code == 0


def topic_id(client: Client, name: str) -> Uuid:
    asked = MetadataRequest(topics=[MetadataRequestTopic(name=name)])
    return client.ask(asked, 12).topics[0].topic_id


def test_acknowledgements_out_of_range(cluster: Cluster) -> None:
    """Ranges of 2**63 offsets, reversed ones, and thousands that do not exist."""
    group = new_group()
    int64_max = 2**63 - 1
    with (
        besieged(cluster, "bystander", growth_mib=200),
        member_beside(cluster),
        connect(cluster) as client,
    ):
        topic = topic_id(client, "sample")
        join = ShareGroupHeartbeatRequest(
            group_id=group, member_id="m", member_epoch=0, subscribed_topic_names=["sample"]
        )

        def is_given() -> bool:
            answer = client.ask(join, 1)
            join.member_epoch = answer.member_epoch
            return bool(answer.assignment and answer.assignment.topic_partitions)

        eventually(is_given, "an assignment")
        row = FetchPartition(partition_index=0)
        fetch = ShareFetchRequest(
            group_id=group,
            member_id="m",
            share_session_epoch=0,
            max_wait_ms=100,
            max_bytes=1 << 20,
            max_records=10,
            batch_size=10,
            topics=[FetchTopic(topic_id=topic, partitions=[row])],
        )
        assert client.ask(fetch, 1).error_code == 0
        attacks = [
            [(0, int64_max)],
            [(int64_max, int64_max)],
            [(-(2**63), int64_max)],
            [(9, 0)],
            [(number * 2, number * 2) for number in range(5_000)],
        ]
        epochs = itertools.count(1)

        def acknowledge(ranges: list[tuple[int, int]]) -> int:
            batches = [
                AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=[1])
                for first, last in ranges
            ]
            partition = AcknowledgePartition(partition_index=0, acknowledgement_batches=batches)
            request = ShareAcknowledgeRequest(
                group_id=group,
                member_id="m",
                share_session_epoch=next(epochs),
                topics=[AcknowledgeTopic(topic_id=topic, partitions=[partition])],
            )
            answer = client.ask(request, 1)
            assert answer.error_code == 0
            return answer.responses[0].partitions[0].error_code

        unready = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        eventually(lambda: acknowledge([(5, 5)]) != unready, "a share partition")
        for ranges in attacks:
            error = acknowledge(ranges)
            assert error in (ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_RECORD_STATE)


def test_share_sessions_beyond_the_limit(cluster: Cluster) -> None:
    """A member id is anything a client makes up: sessions are bounded, and go with their
    connection."""
    with besieged(cluster, "bystander", growth_mib=200):
        with connect(cluster) as client:
            requests = [
                ShareFetchRequest(group_id=new_group(), member_id=f"m-{number}")
                for number in range(2_500)
            ]
            errors = [one.error_code for one in pipelined(client, requests, 1)]
            assert errors.count(0) <= 2_000
            assert set(errors) == {0, ErrorCode.SHARE_SESSION_LIMIT_REACHED}

        def has_room() -> bool:
            with connect(cluster) as another:
                request = ShareFetchRequest(group_id=new_group(), member_id="m")
                return another.ask(request, 1).error_code == 0

        eventually(has_room, "room for a session")
