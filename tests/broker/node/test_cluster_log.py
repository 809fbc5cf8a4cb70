"""What the log says of topics, leaders, in-sync sets, brokers and configs that change."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from fencepost.broker.net.log_limit import BURST_LINES
from fencepost.broker.node.cluster_log import NAMED_AT_ONCE, ClusterLog
from fencepost.machines.image import RECOVERING, ClusterImage, diff
from fencepost.wire.message import Message
from fencepost.wire.records import metadata as records

from ...machines.test_image import (
    TOPIC,
    broker_record,
    change,
    image_of,
    partition_record,
    uuid,
    with_topic,
)
from ..topic_requests import make_topic

LOGGER = "fencepost.broker.node.cluster_log"


def lines_of(
    caplog: pytest.LogCaptureFixture,
    old: ClusterImage,
    new: ClusterImage,
    *,
    node_id: int = 1,
    controls: bool = True,
    has_started: bool = True,
) -> list[str]:
    caplog.clear()
    with caplog.at_level(logging.INFO, logger=LOGGER):
        ClusterLog(node_id, lambda: has_started, lambda: controls).image_changed(diff(old, new))
    return [record.getMessage() for record in caplog.records]


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (change(leader=2, isr=[2]), "t-0: leader 1 -> 2, leader epoch 1, ISR 1,2 -> 2"),
        (change(leader=-1, isr=[]), "t-0: leader 1 -> none, leader epoch 1, ISR 1,2 -> none"),
        (change(isr=[1, 2, 3]), "t-0: ISR 1,2 -> 1,2,3"),
        (
            change(leader=3, isr=[3], leader_recovery_state=RECOVERING),
            "t-0: leader 1 -> 3, by an unclean election, leader epoch 1, ISR 1,2 -> 3",
        ),
        (
            change(replicas=[1, 2, 3, 4], adding_replicas=[4], removing_replicas=[3]),
            "t-0: replicas 1,2,3 -> 1,2,3,4, reassignment begins",
        ),
        (change(eligible_leader_replicas=[3]), "t-0: eligible leader replicas 3"),
        (records.RemoveTopicRecord(topic_id=TOPIC), f"deleted topic t with id {TOPIC}"),
        (partition_record(2), "topic t has 3 partitions now"),
        (
            records.ConfigRecord(
                resource_type=2, resource_name="t", name="retention.ms", value="7"
            ),
            "configs of topic t changed: retention.ms",
        ),
        (
            records.ConfigRecord(resource_type=4, resource_name="", name="a.secret", value="42"),
            "configs of all brokers changed: a.secret",
        ),
        (records.UnfenceBrokerRecord(id=1, epoch=10), "broker 1 is unfenced"),
        (broker_record(epoch=12), "broker 1 registered with broker epoch 12"),
        (
            records.UnregisterBrokerRecord(broker_id=1, broker_epoch=10),
            "broker 1 is unregistered",
        ),
        (
            records.BrokerRegistrationChangeRecord(
                broker_id=1, broker_epoch=10, in_controlled_shutdown=1
            ),
            "broker 1 is in controlled shutdown",
        ),
        (
            records.FeatureLevelRecord(name="transaction.version", feature_level=2),
            "finalized features: transaction.version=2",
        ),
    ],
)
def test_the_active_controller_tells_of_everything(
    caplog: pytest.LogCaptureFixture, record: Message, expected: str
):
    old = with_topic()
    assert lines_of(caplog, old, image_of(record, base=old)) == [expected]


def test_a_removed_config_and_a_fenced_broker(caplog: pytest.LogCaptureFixture):
    base = with_topic()

    def config(value: str | None) -> Message:
        return records.ConfigRecord(
            resource_type=2, resource_name="t", name="retention.ms", value=value
        )

    old = image_of(config("7"), records.UnfenceBrokerRecord(id=1, epoch=10), base=base)
    new = image_of(config(None), records.FenceBrokerRecord(id=1, epoch=10), base=old)
    assert lines_of(caplog, old, new) == [
        "configs of topic t changed: retention.ms (removed)",
        "broker 1 is fenced",
    ]


def test_others_tell_of_their_own_partitions_only(caplog: pytest.LogCaptureFixture):
    old = with_topic()
    new = image_of(change(isr=[1]), broker_record(epoch=12), base=old)
    assert lines_of(caplog, old, new, node_id=3, controls=False) == ["t-0: ISR 1,2 -> 1"]
    assert lines_of(caplog, old, new, node_id=4, controls=False) == []


def test_what_is_read_while_the_node_starts_is_not_told(caplog: pytest.LogCaptureFixture):
    assert lines_of(caplog, ClusterImage(), with_topic(), has_started=False) == []
    told = lines_of(caplog, ClusterImage(), with_topic())
    assert told[0] == f"created topic t with id {TOPIC}: partitions 2, replication factor 3"
    assert told[1:] == ["broker 1 registered with broker epoch 10"], "not of each partition"


def test_many_changes_are_counted(caplog: pytest.LogCaptureFixture):
    count = 10 * NAMED_AT_ONCE
    made: list[Any] = []
    for number in range(count):
        topic = uuid(5_000 + number)
        made.append(records.TopicRecord(name=f"x{number:04}", topic_id=topic))
        made.append(partition_record(0, topic_id=topic))
    old = with_topic()
    new = image_of(*made, base=old)
    told = lines_of(caplog, old, new)
    assert len(told) == NAMED_AT_ONCE + 1
    assert told[-1] == f"{count - NAMED_AT_ONCE} more topics were created"
    moved = [
        records.PartitionChangeRecord(
            partition_id=0, topic_id=uuid(5_000 + number), leader=2, isr=[2]
        )
        for number in range(count)
    ]
    told = lines_of(caplog, new, image_of(*moved, base=new))
    assert len(told) == NAMED_AT_ONCE + 1
    assert told[-1] == f"{count - NAMED_AT_ONCE} more partitions changed like this"


def test_the_log_of_a_busy_cluster_is_bounded(caplog: pytest.LogCaptureFixture):
    old = with_topic()
    new = image_of(change(isr=[1]), base=old)
    history = ClusterLog(1, lambda: True, lambda: True)
    caplog.clear()
    with caplog.at_level(logging.INFO, logger=LOGGER):
        for _ in range(5 * BURST_LINES):
            history.image_changed(diff(old, new))
    assert BURST_LINES <= len(caplog.records) < 4 * BURST_LINES


def test_a_node_tells_of_topics(node_factory, caplog: pytest.LogCaptureFixture):
    running = node_factory()
    caplog.clear()
    with caplog.at_level(logging.INFO, logger=LOGGER), running.connect() as client:
        make_topic(client, partitions=3, name="orders", retention_ms=1234567)
    told = [record.getMessage() for record in caplog.records if record.name == LOGGER]
    topic_id = running.node.image.topics_by_name["orders"].topic_id
    assert told == [
        f"created topic orders with id {topic_id}: partitions 3, replication factor 1",
        "configs of topic orders changed: retention.ms",
    ]
