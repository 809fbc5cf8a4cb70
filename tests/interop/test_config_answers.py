"""Requests about configs to Fencepost and to Apache Kafka: the same answers.

As in `test_admin_answers.py`, every case runs against both.
"""

from __future__ import annotations

from typing import Any

import pytest

from fencepost.client.connection import Connection
from fencepost.wire.api import alter_configs as whole
from fencepost.wire.api.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from fencepost.wire.api.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

from ..waiting import eventually
from .topic_words import create, fresh, new

pytestmark = [pytest.mark.interop, pytest.mark.slow]

TOPIC, BROKER = 2, 4
SET, DELETE, APPEND, SUBTRACT = range(4)


@pytest.fixture
def topic(broker: Connection) -> str:
    """A topic without configs of its own."""
    name = fresh()
    create(broker, new(name, 2))
    return name


def describe(broker: Connection, kind: int, name: str, *keys: str, **options: Any) -> Any:
    resource = DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=list(keys) or None
    )
    (result,) = broker.request(DescribeConfigsRequest(resources=[resource], **options)).results
    return result


# Kafka's own cluster-wide default (KIP-966), and the one key with several names whose default
# Kafka does not list.
NOT_COMPARED = {"min.insync.replicas"}


def test_a_topics_configs_are_kafkas(broker, topic):
    configs = describe(broker, TOPIC, topic).configs
    described = {
        c.name: (c.value, c.config_source, c.config_type, c.read_only, c.is_sensitive)
        for c in configs
        if c.name not in NOT_COMPARED
    }
    expected = {name: (value, 5, kind, False, False) for name, value, kind in TOPIC_CONFIGS}
    assert described == expected


TOPIC_CONFIGS = [
    ("cleanup.policy", "delete", 7),
    ("compression.gzip.level", "-1", 3),
    ("compression.lz4.level", "9", 3),
    ("compression.type", "producer", 2),
    ("compression.zstd.level", "3", 3),
    ("delete.retention.ms", "86400000", 5),
    ("errors.deadletterqueue.group.enable", "false", 1),
    ("file.delete.delay.ms", "60000", 5),
    ("flush.messages", "9223372036854775807", 5),
    ("flush.ms", "9223372036854775807", 5),
    ("follower.replication.throttled.replicas", "", 7),
    ("index.interval.bytes", "4096", 3),
    ("leader.replication.throttled.replicas", "", 7),
    ("local.retention.bytes", "-2", 5),
    ("local.retention.ms", "-2", 5),
    ("max.compaction.lag.ms", "9223372036854775807", 5),
    ("max.decompressed.message.bytes", "2147483639", 3),
    ("max.message.bytes", "1048588", 3),
    ("message.timestamp.after.max.ms", "3600000", 5),
    ("message.timestamp.before.max.ms", "9223372036854775807", 5),
    ("message.timestamp.type", "CreateTime", 2),
    ("min.cleanable.dirty.ratio", "0.5", 6),
    ("min.compaction.lag.ms", "0", 5),
    ("preallocate", "false", 1),
    ("remote.copy.lag.bytes", "-1", 5),
    ("remote.copy.lag.ms", "0", 5),
    ("remote.log.copy.disable", "false", 1),
    ("remote.log.delete.on.disable", "false", 1),
    ("remote.storage.enable", "false", 1),
    ("retention.bytes", "-1", 5),
    ("retention.ms", "604800000", 5),
    ("segment.bytes", "1073741824", 3),
    ("segment.index.bytes", "10485760", 3),
    ("segment.jitter.ms", "0", 5),
    ("segment.ms", "604800000", 5),
    ("unclean.leader.election.enable", "false", 1),
]


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (TOPIC, "", 17),
        (TOPIC, "a b", 17),
        (TOPIC, "answers-absent", 3),
        (BROKER, "1", 0),
        (BROKER, "2", 42),
        (BROKER, "x", 42),
        (8, "1", 0),
        (8, "", 42),
        (8, "2", 42),
        (99, "x", 42),
    ],
)
def test_resources_that_can_and_cannot_be_described(broker, kind, name, code):
    result = describe(broker, kind, name)
    assert result.error_code == code
    assert (not result.configs) == (code != 0)


def alter(broker: Connection, kind: int, name: str, *changes: tuple[Any, ...], **options: Any):
    resource = AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[AlterableConfig(name=k, config_operation=op, value=v) for k, op, v in changes],
    )
    request = IncrementalAlterConfigsRequest(resources=[resource], **options)
    (result,) = broker.request(request).responses
    return result.error_code


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ([("retention.ms", SET, "5")], 0),
        ([("retention.ms", SET, "x")], 40),
        ([("no.such", SET, "x")], 40),
        ([("no.such", DELETE, None)], 0),
        ([("retention.ms", SET, None)], 42),
        ([("retention.ms", APPEND, "1")], 40),
        ([("cleanup.policy", APPEND, "compact")], 0),
        ([("cleanup.policy", APPEND, "shred")], 40),
        ([("cleanup.policy", SUBTRACT, "absent")], 0),
        ([("retention.ms", SET, "5"), ("retention.ms", SET, "6")], 42),
    ],
)
def test_changes_of_a_topics_configs(broker, topic, changes, code):
    assert alter(broker, TOPIC, topic, *changes, validate_only=True) == code
    assert alter(broker, TOPIC, topic, *changes) == code


THROTTLED = "leader.replication.throttled.replicas"


@pytest.mark.parametrize(
    ("key", "present", "operation", "value", "code"),
    [
        ("cleanup.policy", "compact,compact", SET, "delete,compact,delete", 0),
        ("cleanup.policy", "compact", SET, "compact,", 40),
        ("cleanup.policy", "compact", APPEND, "", 40),
        ("cleanup.policy", "compact", APPEND, ",", 0),
        ("cleanup.policy", "compact", APPEND, "delete,,", 0),
        ("cleanup.policy", "compact", APPEND, ",delete", 40),
        ("cleanup.policy", "compact", SUBTRACT, "", 0),
        (THROTTLED, "0:1,0:1", APPEND, "0:1", 0),
        (THROTTLED, "0:1,", APPEND, "", 0),
        (THROTTLED, "0:1", APPEND, "*", 40),
        (THROTTLED, "*", APPEND, "0:1", 40),
        (THROTTLED, "*", APPEND, "*", 0),
        (THROTTLED, "*", SET, "*,*", 40),
        (THROTTLED, "", APPEND, "*", 0),
    ],
)
def test_lists_that_repeat_or_are_wrong_as_a_whole(broker, key, present, operation, value, code):
    name = fresh()
    create(broker, new(name, 1, configs={key: present}))
    assert alter(broker, TOPIC, name, (key, operation, value)) == code


def test_a_list_shows_a_value_once(broker):
    name = fresh()
    create(broker, new(name, 1, configs={"cleanup.policy": "compact,delete, compact"}))
    (config,) = describe(broker, TOPIC, name, "cleanup.policy").configs
    assert config.value == "compact,delete"


def test_lists_after_each_change(broker, topic):
    def policy() -> tuple[str | None, int]:
        (config,) = describe(broker, TOPIC, topic, "cleanup.policy").configs
        return config.value, config.config_source

    assert policy() == ("delete", 5)
    for operation, value, expected in (
        (APPEND, "compact", "delete,compact"),
        (APPEND, "compact", "delete,compact"),
        (SUBTRACT, "delete", "compact"),
        (SUBTRACT, "compact", ""),
    ):
        assert alter(broker, TOPIC, topic, ("cleanup.policy", operation, value)) == 0
        eventually(lambda expected=expected: policy() == (expected, 1))
    assert alter(broker, TOPIC, topic, ("cleanup.policy", DELETE, None)) == 0
    eventually(lambda: policy() == ("delete", 5))


@pytest.mark.parametrize(
    ("kind", "name", "change", "code"),
    [
        (TOPIC, "", ("retention.ms", SET, "5"), 42),
        (TOPIC, "a b", ("retention.ms", SET, "5"), 17),
        (TOPIC, "answers-absent", ("retention.ms", SET, "5"), 3),
        (BROKER, "1", ("num.partitions", SET, "3"), 42),
        (BROKER, "", ("num.partitions", SET, "3"), 42),
        (BROKER, "1", ("log.retention.ms", SET, "x"), 42),
        (BROKER, "2", ("log.retention.ms", SET, "5"), 42),
        (BROKER, "x", ("log.retention.ms", SET, "5"), 42),
        (8, "1", ("no.such.logger", SET, "DEBUG"), 40),
        (8, "1", ("root", APPEND, "DEBUG"), 42),
        (8, "1", ("root", DELETE, None), 42),
        (8, "2", ("root", SET, "INFO"), 42),
        (99, "x", ("retention.ms", SET, "5"), 42),
    ],
)
def test_changes_that_are_refused(broker, kind, name, change, code):
    assert alter(broker, kind, name, change) == code


@pytest.mark.parametrize("name", ["1", ""])
def test_a_config_that_no_broker_has_is_stored_and_described_without_its_value(broker, name):
    """KIP-226: a plugin may read it, and it may be a secret."""
    key = fresh()

    def described() -> list[tuple[Any, ...]]:
        return [
            (c.value, c.config_source, c.config_type, c.read_only, c.is_sensitive, c.documentation)
            for c in describe(broker, BROKER, name, key, include_documentation=True).configs
        ]

    assert described() == []
    assert alter(broker, BROKER, name, (key, SET, "hush")) == 0
    stored = [(None, 2 if name else 3, 0, True, True, None)]
    eventually(lambda: described() == stored)
    assert alter(broker, BROKER, name, (key, DELETE, None)) == 0
    eventually(lambda: described() == [])


def test_an_internal_config_is_described_where_it_is_set(broker):
    name, key = fresh(), "internal.segment.bytes"
    create(broker, new(name, configs={key: "2000000"}))
    (config,) = describe(broker, TOPIC, name, key).configs
    assert (config.value, config.config_source, config.config_type) == ("2000000", 1, 3)


# -- all configs at once (AlterConfigs) ------------------------------------------------------------


def replace(
    broker: Connection,
    kind: int,
    name: str,
    *configs: tuple[str, str | None],
    version: int = 2,
    **options: Any,
) -> int:
    """Say all configs of a resource; its error."""
    resource = whole.AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[whole.AlterableConfig(name=k, value=v) for k, v in configs],
    )
    request = whole.AlterConfigsRequest(resources=[resource], **options)
    (result,) = broker.request(request, version).responses
    assert (result.resource_type, result.resource_name) == (kind, name)
    assert (not result.error_message) == (result.error_code == 0)
    return result.error_code


def own(broker: Connection, name: str) -> dict[str, str | None]:
    """The configs that a topic has of its own."""
    return {c.name: c.value for c in describe(broker, TOPIC, name).configs if c.config_source == 1}


@pytest.mark.parametrize("version", range(3))
def test_what_is_not_named_any_more_is_deleted(broker, topic, version):
    said = [("retention.ms", "5"), ("segment.ms", "6")]
    for configs in (said, said[:1], said[1:], []):
        before = own(broker, topic)
        options = {"version": version, "validate_only": True}
        assert replace(broker, TOPIC, topic, *configs, **options) == 0
        assert own(broker, topic) == before
        assert replace(broker, TOPIC, topic, *configs, version=version) == 0
        eventually(lambda configs=configs: own(broker, topic) == dict(configs))


@pytest.mark.parametrize(
    ("configs", "code"),
    [
        ([("retention.ms", "x")], 40),
        ([("no.such", "x")], 40),
        ([("retention.ms", None)], 42),
        ([("retention.ms", "5"), ("retention.ms", "6")], 42),
        ([("retention.ms", "5"), ("cleanup.policy", "shred")], 40),
    ],
)
def test_replacements_that_are_refused_change_nothing(broker, topic, configs, code):
    assert replace(broker, TOPIC, topic, ("segment.ms", "6")) == 0
    eventually(lambda: own(broker, topic) == {"segment.ms": "6"})
    assert replace(broker, TOPIC, topic, *configs, validate_only=True) == code
    assert replace(broker, TOPIC, topic, *configs) == code
    assert own(broker, topic) == {"segment.ms": "6"}


@pytest.mark.parametrize(
    ("kind", "name", "config", "code"),
    [
        (TOPIC, "", ("retention.ms", "5"), 42),
        (TOPIC, "a b", ("retention.ms", "5"), 17),
        (TOPIC, "answers-absent", ("retention.ms", "5"), 3),
        (BROKER, "1", ("num.partitions", "3"), 42),
        (BROKER, "", ("num.partitions", "3"), 42),
        (BROKER, "1", ("log.retention.ms", "x"), 42),
        (BROKER, "2", ("log.retention.ms", "5"), 42),
        (BROKER, "x", ("log.retention.ms", "5"), 42),
        (8, "1", ("root", "INFO"), 42),
        (99, "x", ("retention.ms", "5"), 42),
    ],
)
def test_resources_whose_configs_cannot_be_replaced(broker, kind, name, config, code):
    assert replace(broker, kind, name, config) == code


def test_resources_stand_or_fall_alone(broker, topic):
    """Kafka 4.3.0 never answers a request that names a resource twice, so there is none here."""
    other = fresh()
    create(broker, new(other))
    resources = [
        whole.AlterConfigsResource(
            resource_type=TOPIC,
            resource_name=name,
            configs=[whole.AlterableConfig(name="retention.ms", value=value)],
        )
        for name, value in ((topic, "5"), ("answers-absent", "5"), (other, "x"))
    ]
    answers = broker.request(whole.AlterConfigsRequest(resources=resources)).responses
    assert sorted((r.resource_name, r.error_code) for r in answers) == sorted(
        [(topic, 0), ("answers-absent", 3), (other, 40)]
    )
    eventually(lambda: own(broker, topic) == {"retention.ms": "5"})
    assert own(broker, other) == {}
