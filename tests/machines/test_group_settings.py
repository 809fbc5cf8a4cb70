"""Configs of groups: what may be set, and what holds for a group by them and the broker's."""

from __future__ import annotations

from typing import Any

import pytest

from fencepost.broker.config.keys import BROKER_CONFIGS
from fencepost.log.configdef import ConfigError
from fencepost.machines.group.configs import (
    BROKER_DEFAULTS,
    GROUP_CONFIGS,
    check_group_configs,
    reset_duration_ms,
)
from fencepost.machines.group.settings import (
    ConsumerSettings,
    GroupSettings,
    ShareSettings,
    StreamsSettings,
)
from fencepost.machines.image import RESOURCE_GROUP, ClusterImage, PersistentMap

SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
RESET, TAGS = "share.auto.offset.reset", "streams.rack.aware.assignment.tags"
LETTERS = "errors.deadletterqueue.topic.name"


def broker(**changes: Any) -> Any:
    """The broker's configs, with changes; the names have _ for a dot."""
    values = {**BROKER_DEFAULTS, **{key.replace("_", "."): one for key, one in changes.items()}}
    return values.__getitem__


def image_of(**configs: dict[str, str]) -> ClusterImage:
    """Configs by group."""
    stored = {(RESOURCE_GROUP, group_id): texts for group_id, texts in configs.items()}
    return ClusterImage(configs=PersistentMap(stored))


def test_defaults_are_the_brokers() -> None:
    for key, value in BROKER_DEFAULTS.items():
        assert (key, BROKER_CONFIGS[key].default) == (key, value)
    for definition in GROUP_CONFIGS.values():
        for key in (definition.broker_key, definition.least_key, definition.most_key):
            assert key is None or key in BROKER_CONFIGS


def test_every_config_is_read_by_a_type_or_changes_nothing() -> None:
    image = ClusterImage()
    settings = GroupSettings()
    assert settings.consumer(image, "g") == ConsumerSettings()
    assert settings.share(image, "g") == ShareSettings()
    assert settings.streams(image, "g") == StreamsSettings()


# What Kafka 4.4.0 answers where it refuses (None: it does not); the broker has its defaults.
CHECKED: list[tuple[dict[str, str], str | None]] = [
    ({}, None),
    ({"nope": "1"}, "Unknown group config name: nope"),
    ({SESSION: "50000"}, None),
    ({SESSION: " 50000 "}, None),
    ({SESSION: "44999"}, f"{SESSION} must be in the range 45000 to 60000 inclusive."),
    ({SESSION: "60001"}, f"{SESSION} must be in the range 45000 to 60000 inclusive."),
    ({SESSION: "0"}, f"Invalid value 0 for configuration {SESSION}: Value must be at least 1"),
    ({SESSION: "x"}, f"Invalid value x for configuration {SESSION}: Not a number of type INT"),
    ({HEARTBEAT: "4999"}, f"{HEARTBEAT} must be in the range 5000 to 15000 inclusive."),
    ({HEARTBEAT: "1", SESSION: "1"}, f"{HEARTBEAT} must be in the range 5000 to 15000 inclusive."),
    (
        {"share.delivery.count.limit": "11"},
        "share.delivery.count.limit must be in the range 2 to 10 inclusive.",
    ),
    (
        {"share.record.lock.duration.ms": "14999"},
        "share.record.lock.duration.ms must be in the range 15000 to 60000 inclusive.",
    ),
    ({RESET: "earliest"}, None),
    ({RESET: "by_duration:PT1H"}, None),
    (
        {RESET: "LATEST"},
        f"Invalid value LATEST for configuration {RESET}: Invalid value `LATEST` for"
        f" configuration {RESET}. The value must be either 'earliest', 'latest' or of the format"
        " 'by_duration:<PnDTnHnMn.nS>'.",
    ),
    (
        {"share.isolation.level": "READ_COMMITTED"},
        "Invalid value READ_COMMITTED for configuration share.isolation.level:"
        " String must be one of: read_committed, read_uncommitted",
    ),
    (
        {"share.renew.acknowledge.enable": "maybe"},
        "Invalid value maybe for configuration share.renew.acknowledge.enable:"
        " Expected value to be either true or false",
    ),
    (
        {"streams.num.standby.replicas": "3"},
        "streams.num.standby.replicas must be less than or equal to 2",
    ),
    ({"streams.initial.rebalance.delay.ms": "2147483647"}, None),
    ({TAGS: ""}, None),
    ({TAGS: "a,b"}, None),
    ({TAGS: "a, b,a "}, f"{TAGS} must not contain duplicate tag keys."),
    ({"streams.assignor.name": "sticky"}, None),
    (
        {"streams.assignor.name": ""},
        "streams.assignor.name '' is not a registered task assignor."
        " Registered assignors are: [sticky].",
    ),
    (
        {"streams.task.offset.interval.ms": "14999"},
        "streams.task.offset.interval.ms must be greater than or equal to 15000",
    ),
    (
        {"streams.num.warmup.replicas": "21"},
        "streams.num.warmup.replicas must be less than or equal to 20",
    ),
    ({"consumer.assignor.offload.enable": "false"}, None),
    ({LETTERS: "dlq.a"}, None),
    ({LETTERS: ""}, None),
    ({LETTERS: "bad/name"}, None),
    ({LETTERS: "__x"}, f"{LETTERS}: DLQ topic name must not start with '__'"),
]


@pytest.mark.parametrize(("texts", "answer"), CHECKED)
def test_configs_of_groups_are_checked_as_by_kafka(
    texts: dict[str, str], answer: str | None
) -> None:
    if answer is None:
        GroupSettings().check(texts)
        return
    with pytest.raises(ConfigError) as refused:
        GroupSettings().check(texts)
    assert refused.value.answer == answer


@pytest.mark.parametrize(
    ("texts", "is_refused"),
    [
        ({SESSION: "5000"}, True),
        ({SESSION: "5001"}, False),
        ({HEARTBEAT: "45000"}, True),
        ({HEARTBEAT: "44999"}, False),
        ({SESSION: "8000", HEARTBEAT: "9000"}, True),
        ({SESSION: "9001", HEARTBEAT: "9000"}, False),
        ({"share.session.timeout.ms": "45000"}, False),
        ({}, False),
    ],
)
def test_a_session_is_longer_than_a_heartbeat_interval(
    texts: dict[str, str], is_refused: bool
) -> None:
    wide = broker(
        group_consumer_min_session_timeout_ms=1, group_consumer_max_heartbeat_interval_ms=60_000
    )
    if not is_refused:
        check_group_configs(texts, wide)
        return
    with pytest.raises(ConfigError, match=f"{SESSION} must be greater than {HEARTBEAT}"):
        check_group_configs(texts, wide)


def test_a_groups_configs_go_before_the_brokers() -> None:
    image = image_of(g={SESSION: "50000", "share.isolation.level": "read_committed"})
    settings = GroupSettings(broker(group_consumer_assignment_interval_ms=7))
    assert settings.consumer(image, "g") == ConsumerSettings(
        session_timeout_ms=50_000, assignment_interval_ms=7
    )
    assert settings.consumer(image, "h") == ConsumerSettings(assignment_interval_ms=7)
    assert settings.share(image, "g") == ShareSettings(isolation_level="read_committed")


def test_what_is_stored_is_clamped_when_it_is_read() -> None:
    stored = {
        SESSION: "1",
        HEARTBEAT: "99999",
        "share.delivery.count.limit": "25",
        "streams.num.standby.replicas": "7",
        "streams.task.offset.interval.ms": "1",
        "streams.rack.aware.assignment.tags": "zone,host",
        LETTERS: "dlq.a",
    }
    image, settings = image_of(g=stored), GroupSettings()
    assert settings.consumer(image, "g") == ConsumerSettings(
        session_timeout_ms=45_000, heartbeat_interval_ms=15_000
    )
    assert settings.share(image, "g") == ShareSettings(
        delivery_count_limit=10, dead_letter_topic="dlq.a"
    )
    assert settings.streams(image, "g") == StreamsSettings(
        num_standby_replicas=2,
        task_offset_interval_ms=15_000,
        rack_aware_assignment_tags=("zone", "host"),
    )


def test_a_stored_value_that_does_not_read_counts_as_none() -> None:
    image = image_of(g={SESSION: "bogus", RESET: "bogus", "later.version": "1"})
    settings = GroupSettings(broker(group_consumer_session_timeout_ms=46_000))
    assert settings.consumer(image, "g").session_timeout_ms == 46_000
    assert settings.share(image, "g").auto_offset_reset == "latest"


@pytest.mark.parametrize(
    ("value", "duration_ms"),
    [
        ("earliest", None),
        ("latest", None),
        ("by_duration:PT1H", 3_600_000),
        ("by_duration:P1DT2H3M4.5S", 93_784_500),
        ("by_duration:pt0s", 0),
        ("by_duration:PT-1H61M", 60_000),
        ("by_duration:-PT-1S", 1_000),
        ("by_duration:PT1.5S", 1_500),
        ("by_duration:PT0,000000001S", 0),
        ("by_duration:P2D", 172_800_000),
    ],
)
def test_a_reset_by_duration_is_javas(value: str, duration_ms: int | None) -> None:
    assert reset_duration_ms(value) == duration_ms


@pytest.mark.parametrize(
    "value",
    [
        *("", "none", "LATEST", "PT1H", "by_duration:", "by_duration:P", "by_duration:PT"),
        *("by_duration:P1DT", "by_duration:P1Y", "by_duration:-PT1H", "by_duration:PT-1S"),
        *("by_duration:PT-0.5S", "BY_DURATION:PT1H", "by_duration: PT1H", "by_duration:PT1.S1S"),
        "by_duration:P99999999999999999999D",
        "by_duration:PT٣H",
    ],
)
def test_what_is_no_reset_is_refused(value: str) -> None:
    with pytest.raises(ValueError):
        reset_duration_ms(value)
