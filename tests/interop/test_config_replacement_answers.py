"""AlterConfigs, and requests without time, to Fencepost and to Apache Kafka: the same answers.

As in `test_admin_answers`, every case runs against both.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from fencepost.client.connection import Connection
from fencepost.wire.api.alter_configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
)
from fencepost.wire.api.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from fencepost.wire.api.create_topics import CreateTopicsRequest
from fencepost.wire.api.delete_topics import DeleteTopicsRequest, DeleteTopicState
from fencepost.wire.api.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from fencepost.wire.api.metadata import MetadataRequest, MetadataRequestTopic

from .topic_words import create, fresh, new

pytestmark = [pytest.mark.interop, pytest.mark.slow]

TOPIC, BROKER, LOGGER = 2, 4, 8
OWN_SOURCE = 1
VERSIONS = pytest.mark.parametrize("version", range(3))
Given = list[tuple[str, str | None]]


def resource(kind: int, name: str, given: Given) -> AlterConfigsResource:
    return AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[AlterableConfig(name=key, value=value) for key, value in given],
    )


def alter(
    broker: Connection, resources: Iterable[AlterConfigsResource], version: int = 2, **options: Any
) -> list[tuple[str, int]]:
    request = AlterConfigsRequest(resources=list(resources), **options)
    answers = broker.request(request, version).responses
    return sorted((answer.resource_name, answer.error_code) for answer in answers)


def own_configs(broker: Connection, topic: str) -> dict[str, str | None]:
    asked = DescribeConfigsResource(resource_type=TOPIC, resource_name=topic)
    (result,) = broker.request(DescribeConfigsRequest(resources=[asked])).results
    return {c.name: c.value for c in result.configs if c.config_source == OWN_SOURCE}


@pytest.fixture
def topic(broker: Connection) -> str:
    name = fresh()
    create(broker, new(name, 2, configs={"retention.ms": "5000", "segment.ms": "6000"}))
    return name


@VERSIONS
def test_what_is_not_named_goes_back_to_its_default(
    broker: Connection, topic: str, version: int
) -> None:
    before = own_configs(broker, topic)
    given: Given = [("segment.ms", "7000"), ("cleanup.policy", "compact")]
    wanted = resource(TOPIC, topic, given)
    assert alter(broker, [wanted], version, validate_only=True) == [(topic, 0)]
    assert own_configs(broker, topic) == before
    assert alter(broker, [wanted], version) == [(topic, 0)]
    assert own_configs(broker, topic) == dict(given)
    assert alter(broker, [resource(TOPIC, topic, [])], version) == [(topic, 0)]
    assert own_configs(broker, topic) == {}


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ([("retention.ms", "5")], 0),
        ([], 0),
        ([("retention.ms", "x")], 40),
        ([("no.such", "x")], 40),
        ([("retention.ms", None)], 42),
        ([("retention.ms", "5"), ("retention.ms", "6")], 42),
        ([("cleanup.policy", "shred")], 40),
        ([("min.compaction.lag.ms", "9"), ("max.compaction.lag.ms", "8")], 40),
    ],
)
@pytest.mark.parametrize("validate_only", [False, True])
def test_replacements_of_a_topics_configs(
    broker: Connection, topic: str, given: Given, code: int, validate_only: bool
) -> None:
    before = own_configs(broker, topic)
    asked = [resource(TOPIC, topic, given)]
    assert alter(broker, asked, validate_only=validate_only) == [(topic, code)]
    changed = not code and not validate_only
    assert own_configs(broker, topic) == (dict(given) if changed else before)


@pytest.mark.parametrize(
    ("kind", "name", "given", "code"),
    [
        (TOPIC, "answers-absent", [], 3),
        (TOPIC, "", [], 42),
        (TOPIC, "a b", [], 17),
        (BROKER, "1", [], 0),
        (BROKER, "1", [("log.retention.ms", "5000")], 0),
        # With its eligible leader replicas Kafka does not let go of this one.
        (BROKER, "", [("min.insync.replicas", "1"), ("log.retention.ms", "5000")], 0),
        (BROKER, "1", [("log.retention.ms", "x")], 42),
        (BROKER, "1", [("num.partitions", "3")], 42),
        (BROKER, "2", [], 42),
        (BROKER, "x", [], 42),
        (LOGGER, "1", [], 42),
        (99, "x", [], 42),
    ],
)
def test_replacements_of_other_configs(
    broker: Connection, kind: int, name: str, given: Given, code: int
) -> None:
    assert alter(broker, [resource(kind, name, given)], validate_only=True) == [(name, code)]


def test_resources_stand_alone(broker: Connection, topic: str) -> None:
    """Of one that is named twice there is no case: Apache Kafka 4.3.0 does not answer then."""
    asked = [
        resource(TOPIC, topic, []),
        resource(TOPIC, "answers-absent", []),
        resource(BROKER, "1", [("num.partitions", "3")]),
    ]
    assert alter(broker, asked) == [("1", 42), ("answers-absent", 3), (topic, 0)]
    assert own_configs(broker, topic) == {}


# -- time ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("timeout_ms", [0, -1])
def test_without_time_nothing_happens(broker: Connection, topic: str, timeout_ms: int) -> None:
    name = fresh()
    made = CreateTopicsRequest(topics=[new(name, 1)], timeout_ms=timeout_ms)
    assert [t.error_code for t in broker.request(made).topics] == [7]
    grow = CreatePartitionsTopic(name=topic, count=3, assignments=None)
    grown = CreatePartitionsRequest(topics=[grow], timeout_ms=timeout_ms)
    assert [t.error_code for t in broker.request(grown).results] == [7]
    gone = DeleteTopicsRequest(topics=[DeleteTopicState(name=topic)], timeout_ms=timeout_ms)
    assert [t.error_code for t in broker.request(gone).responses] == [7]
    asked = [MetadataRequestTopic(name=one) for one in (name, topic)]
    request = MetadataRequest(topics=asked, allow_auto_topic_creation=False)
    found = {t.name: (t.error_code, len(t.partitions)) for t in broker.request(request).topics}
    assert found == {name: (3, 0), topic: (0, 2)}


def test_a_topic_that_is_meant_by_name_and_by_id_is_answered_once(
    broker: Connection, topic: str
) -> None:
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False
    )
    (known,) = broker.request(request).topics
    asked = [DeleteTopicState(name=topic), DeleteTopicState(name=None, topic_id=known.topic_id)]
    answers = broker.request(DeleteTopicsRequest(topics=asked, timeout_ms=5000)).responses
    assert [(a.name, a.topic_id, a.error_code) for a in answers] == [(topic, known.topic_id, 42)]
