"""Configs of groups that have to go together, when a node starts and while it runs."""

from __future__ import annotations

import pytest

from fencepost.broker.config.broker_config import BrokerConfig, ConfigError
from fencepost.broker.config.keys import BROKER_CONFIGS


@pytest.mark.parametrize(
    ("values", "answer"),
    [
        (
            {"group.consumer.assignment.interval.ms": "20000"},
            "group.consumer.assignment.interval.ms must be less than or equal to"
            " group.consumer.max.assignment.interval.ms",
        ),
        (
            {"group.share.session.timeout.ms": "44999"},
            "group.share.session.timeout.ms must be greater than or equal to"
            " group.share.min.session.timeout.ms",
        ),
        (
            {"group.streams.max.heartbeat.interval.ms": "4999"},
            "group.streams.max.heartbeat.interval.ms must be greater than or equal to"
            " group.streams.min.heartbeat.interval.ms",
        ),
        (
            {
                "group.consumer.heartbeat.interval.ms": "45000",
                "group.consumer.max.heartbeat.interval.ms": "45000",
            },
            "group.consumer.heartbeat.interval.ms must be less than"
            " group.consumer.session.timeout.ms",
        ),
        (
            {"group.share.delivery.count.limit": "3", "group.share.min.delivery.count.limit": "4"},
            "group.share.delivery.count.limit must be greater than or equal to"
            " group.share.min.delivery.count.limit",
        ),
        (
            {"group.streams.num.standby.replicas": "3"},
            "group.streams.num.standby.replicas must be less than or equal to"
            " group.streams.max.standby.replicas",
        ),
        (
            {"group.streams.task.offset.interval.ms": "14999"},
            "group.streams.min.task.offset.interval.ms must be less than or equal to"
            " group.streams.task.offset.interval.ms",
        ),
    ],
)
def test_what_contradicts_is_refused_at_start(values: dict[str, str], answer: str) -> None:
    with pytest.raises(ConfigError) as refused:
        BrokerConfig.load(None, values)
    assert refused.value.answer == answer


@pytest.mark.parametrize(
    "key", ["group.consumer.assignors", "group.share.assignors", "group.streams.assignors"]
)
@pytest.mark.parametrize("value", ["org.example.Assignor", ""])
def test_assignors_are_those_that_are_here(key: str, value: str) -> None:
    with pytest.raises(ConfigError):
        BrokerConfig.load(None, {key: value})
    assert BROKER_CONFIGS[key].parse(BROKER_CONFIGS[key].default)


def test_the_order_of_assignors_is_the_operators() -> None:
    config = BrokerConfig.load(None, {"group.consumer.assignors": "range,uniform"})
    assert config.get("group.consumer.assignors") == ("range", "uniform")
