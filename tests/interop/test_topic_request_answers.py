"""Requests without time, topics meant twice: answered by Fencepost as by Apache Kafka.

As in `test_admin_answers`, every case runs against both.
"""

from __future__ import annotations

import pytest

from fencepost.client.connection import Connection
from fencepost.wire.api.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from fencepost.wire.api.create_topics import CreateTopicsRequest
from fencepost.wire.api.delete_topics import DeleteTopicsRequest, DeleteTopicState
from fencepost.wire.api.metadata import MetadataRequest, MetadataRequestTopic

from .topic_words import create, fresh, new

pytestmark = [pytest.mark.interop, pytest.mark.slow]


@pytest.fixture
def topic(broker: Connection) -> str:
    name = fresh()
    create(broker, new(name, 2))
    return name


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


TOO_MANY = "Unable to perform excessively large batch operation."


@pytest.mark.parametrize(
    ("partitions", "configs", "told"),
    [
        ([9_998], {}, (0, None)),
        ([9_999], {}, (0, None)),
        ([10_000], {}, (44, TOO_MANY)),
        ([10_001], {}, (44, "Excessively large number of partitions per request.")),
        ([9_998], {"retention.ms": "5"}, (0, None)),
        ([9_999], {"retention.ms": "5"}, (44, TOO_MANY)),
        ([5_000, 4_998], {}, (0, None)),
        ([5_000, 4_999], {}, (44, TOO_MANY)),
    ],
)
def test_a_creation_comes_to_so_many_records(
    broker: Connection,
    partitions: list[int],
    configs: dict[str, str | None],
    told: tuple[int, str | None],
) -> None:
    """A topic, a config and a partition are one each; so it is if nothing is to be made."""
    topics = [new(fresh(), count, configs=configs) for count in partitions]
    request = CreateTopicsRequest(topics=topics, timeout_ms=60_000, validate_only=True)
    answers = broker.request(request).topics
    assert [(one.error_code, one.error_message) for one in answers] == [told] * len(topics)


@pytest.mark.parametrize(("count", "told"), [(10_000, (3, None)), (10_001, (44, TOO_MANY))])
def test_partitions_are_added_to_so_many_topics(
    broker: Connection, count: int, told: tuple[int, str | None]
) -> None:
    name = fresh()
    topics = [
        CreatePartitionsTopic(name=f"{name}-{number}", count=2, assignments=None)
        for number in range(count)
    ]
    request = CreatePartitionsRequest(topics=topics, timeout_ms=60_000, validate_only=True)
    answers = broker.request(request).results
    assert len(answers) == count
    assert {(one.error_code, one.error_message) for one in answers} == {told}
